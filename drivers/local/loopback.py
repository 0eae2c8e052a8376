"""The driver `loopback`: this machine as the one instance, through an SSH server in this process.

What makes up the instance is on disk, and what runs on it is detached, so a dispatcher that is
started again after a crash finds the same instance with its processes still running.
"""

from __future__ import annotations

import secrets
import threading
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import msgspec

from longshore.drivers.errors import (
    CloudError,
    ConfigError,
    ErrorScope,
    InstanceNotFound,
    QuotaError,
)
from longshore.drivers.interface import Existence, HostKeyVerdict, Instance, InstanceType
from longshore.drivers.local.machine import LocalMachine, remove_files, write_atomically
from longshore.drivers.local.processes import end_processes
from longshore.drivers.registry import Capability, DriverContext, DriverInfo

_PREFIX = "i-loopback-"
_STATE_FILE = "instance.json"
_REMEMBERED = 1000


class LoopbackParameters(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The driver's parameters: there are none."""


class _State(msgspec.Struct, frozen=True, kw_only=True):
    """What is kept on disk of the instance; `initialised` once its init script has ended."""

    id: str
    token: str
    tags: dict[str, str]
    public_key: str
    init_command: str
    initialised: bool = False


class LoopbackInstanceSet:
    """This machine, as an instance set of at most one; see `drivers.interface.InstanceSet`.

    `state_dir` belongs to one dispatcher at a time.
    """

    def __init__(self, state_dir: Path) -> None:
        # Commands on the instance have another working directory than we.
        self._directory = state_dir.absolute()
        self._lock = threading.Lock()
        self._closed = False
        self._machine: LocalMachine | None = None
        self._ended: deque[str] = deque(maxlen=_REMEMBERED)
        self._directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._state = self._found()

    def create(
        self,
        *,
        instance_type: InstanceType,  # noqa: ARG002 - this machine is of one type only
        image: str,  # noqa: ARG002 - nothing is installed on this machine
        tags: Mapping[str, str],
        init_command: str,
        public_key: str,
        token: str,
    ) -> Instance:
        """Make this machine the instance; raises `QuotaError` while it is one already."""
        with self._lock:
            if self._state is not None and self._state.token != token:
                raise QuotaError(
                    f"this machine is one instance, and that is {self._state.id}",
                    scope=ErrorScope.ALL,
                )
            if self._state is not None:
                return self._view(self._state)
            state = _State(
                id=_PREFIX + secrets.token_hex(6),
                token=token,
                tags=dict(tags),
                public_key=public_key,
                init_command=init_command,
            )
            self._save(state)
            return self._view(state)

    def instances(self, tags: Mapping[str, str]) -> Sequence[Instance]:
        """List the instance, if there is one and it carries all of `tags`."""
        with self._lock:
            if self._state is None or not tags.items() <= self._state.tags.items():
                return []
            return [self._view(self._state)]

    def find(self, instance_id: str) -> Existence:
        """Return whether this machine is the instance; of others, what this process has ended."""
        with self._lock:
            if self._state is not None and self._state.id == instance_id:
                return Existence.PRESENT
            return Existence.GONE if instance_id in self._ended else Existence.UNKNOWN

    def close(self) -> None:
        """End the SSH server; what runs detached on the instance goes on."""
        with self._lock:
            self._closed = True
            machine, self._machine = self._machine, None
        if machine is not None:
            machine.close()

    def destroy(self, instance_id: str) -> None:
        """End the instance's processes and forget it; no error when it is gone."""
        with self._lock:
            if self._state is None or self._state.id != instance_id:
                return
            machine = self._running(self._state)
        # Without the lock, which a boot that is under way may be waiting for.
        machine.end()
        self._forget(instance_id)

    def set_tags(self, instance_id: str, tags: Mapping[str, str]) -> None:
        """Set tags; raises `InstanceNotFound`."""
        with self._lock:
            state = self._existing(instance_id)
            self._save(msgspec.structs.replace(state, tags=state.tags | dict(tags)))

    def verify_host_key(self, instance_id: str, public_key: str) -> HostKeyVerdict:
        """Compare with the key of our own server; raises `InstanceNotFound`."""
        with self._lock:
            machine = self._running(self._existing(instance_id))
        genuine = machine.host_key == " ".join(public_key.split()[:2])
        return HostKeyVerdict.GENUINE if genuine else HostKeyVerdict.WRONG

    def _forget(self, instance_id: str) -> None:
        directory = self._directory / instance_id
        with self._lock:
            if self._state is None or self._state.id != instance_id:
                return
            try:
                (directory / _STATE_FILE).unlink(missing_ok=True)
            except OSError as error:
                raise CloudError(f"cannot forget instance {instance_id}: {error}") from error
            remove_files(directory)
            self._state = self._machine = None
            self._ended.append(instance_id)

    def _existing(self, instance_id: str) -> _State:
        if self._state is None or self._state.id != instance_id:
            raise InstanceNotFound(f"there is no instance {instance_id}")
        return self._state

    def _view(self, state: _State) -> Instance:
        address = self._running(state).address
        return _LoopbackInstance(id=state.id, address=address, tags=dict(state.tags), owner=self)

    def _running(self, state: _State) -> LocalMachine:
        """Return what answers for the instance, started when this process has not yet."""
        if self._closed:
            raise CloudError("the loopback driver is closed")
        if self._machine is None:
            if not state.initialised:
                # Nothing but an init script that a crash cut short can run here already.
                end_processes(state.id)
            try:
                machine = LocalMachine(
                    instance_id=state.id,
                    directory=self._directory / state.id,
                    authorized_key=state.public_key,
                    is_whole_machine=True,
                )
            except OSError as error:
                raise CloudError(f"this machine cannot be an instance: {error}") from error
            self._machine = machine
            machine.boot(
                "" if state.initialised else state.init_command,
                initialised=partial(self._note_initialised, state.id),
            )
        return self._machine

    def _note_initialised(self, instance_id: str) -> None:
        with self._lock:
            state = self._state
            if state is not None and state.id == instance_id and not state.initialised:
                self._save(msgspec.structs.replace(state, initialised=True))

    def _save(self, state: _State) -> None:
        directory = self._directory / state.id
        try:
            directory.mkdir(mode=0o700, exist_ok=True)
            write_atomically(directory / _STATE_FILE, msgspec.json.encode(state))
        except OSError as error:
            raise CloudError(f"cannot keep instance {state.id} on disk: {error}") from error
        self._state = state

    def _found(self) -> _State | None:
        """Return the state that an earlier process left, and remove what has none any more."""
        states: list[_State] = []
        for directory in sorted(self._directory.glob(f"{_PREFIX}*")):
            file = directory / _STATE_FILE
            if not file.exists():
                end_processes(directory.name)
                remove_files(directory)
                continue
            try:
                states.append(msgspec.json.decode(file.read_bytes(), type=_State))
            except (OSError, msgspec.DecodeError) as error:
                raise ConfigError(
                    [("data_dir", f"{file} cannot be read ({error}); move its directory away")]
                ) from error
        if len(states) > 1:
            names = ", ".join(state.id for state in states)
            raise ConfigError(
                [("data_dir", f"{self._directory} holds two instances ({names}); move one away")]
            )
        return states[0] if states else None


@dataclass(frozen=True, slots=True, kw_only=True)
class _LoopbackInstance:
    """This machine as it was when it was listed; see `drivers.interface.Instance`."""

    id: str
    address: str
    tags: Mapping[str, str]
    owner: LoopbackInstanceSet = field(repr=False)

    def destroy(self) -> None:
        self.owner.destroy(self.id)

    def set_tags(self, tags: Mapping[str, str]) -> None:
        self.owner.set_tags(self.id, tags)

    def verify_host_key(self, public_key: str) -> HostKeyVerdict:
        return self.owner.verify_host_key(self.id, public_key)


def _make(_: LoopbackParameters, context: DriverContext) -> LoopbackInstanceSet:
    return LoopbackInstanceSet(context.state_dir)


def _fault_of_type(_: LoopbackParameters, type_: InstanceType) -> str | None:
    if type_.preemptible:
        return "nobody takes this machine back: leave out `preemptible`"
    return None


DRIVER = DriverInfo(
    name="loopback",
    summary="this machine as the one instance",
    parameters=LoopbackParameters,
    make=_make,
    capabilities=frozenset(
        {
            Capability.IDEMPOTENT_CREATE,
            Capability.OUTLIVES_PROCESS,
            Capability.HOST_KEYS,
            Capability.FINDS,
        }
    ),
    fault_of_type=_fault_of_type,
    most_instances=1,
)
