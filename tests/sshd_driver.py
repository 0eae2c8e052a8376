"""A driver whose instances are real OpenSSH servers on 127.0.0.2 to 127.0.0.21 of this machine.

Name it in a configuration as `tests.sshd_driver:DRIVER`. Nothing of an instance hangs on the
process that made it: the servers are daemons, and what is known of them is on disk, so that a
dispatcher may be killed and the next one lists the same instances.
"""

from __future__ import annotations

import fcntl
import os
import secrets
import signal
import socket
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Annotated

import msgspec

from longshore.drivers.errors import CloudError, ConfigError, InstanceNotFound, QuotaError
from longshore.drivers.interface import HostKeyVerdict, Instance, InstanceType
from longshore.drivers.local.machine import (
    instance_environment,
    remove_files,
    run_init,
    write_atomically,
)
from longshore.drivers.local.processes import INSTANCE_VARIABLE, end_processes
from longshore.drivers.registry import Capability, DriverContext, DriverInfo
from tests.sshd_host import SshdHost, children_of, wait_until

_SSHD = Path("/usr/sbin/sshd")
_STATE_FILE = "instance.json"


class SshdParameters(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`quota` is the most instances there may be, each on an address of its own.

    `state_dir` is where their directories are ("": where the dispatcher says). `power_off` is
    what an instance runs that nobody contacts: harmless, since the machine is this one.
    """

    quota: Annotated[int, msgspec.Meta(ge=1, le=20)] = 20
    state_dir: str = ""
    power_off: str = ""


class _State(msgspec.Struct, frozen=True, kw_only=True):
    """What is on disk of one instance; `address` is "" until its server runs."""

    id: str
    token: str
    tags: dict[str, str]
    host: str
    address: str = ""


class SshdInstanceSet:
    """See `drivers.interface.InstanceSet`; several processes may share one `state_dir`."""

    def __init__(self, state_dir: Path, *, quota: int, power_off: str = "") -> None:
        if not _SSHD.exists():
            raise ConfigError([("driver.name", f"{_SSHD} is missing; install openssh-server")])
        state_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._directory = state_dir.absolute()
        self._power_off = power_off
        self._hosts = [f"127.0.0.{2 + number}" for number in range(quota)]

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
        """Create an instance and wait until its server answers."""
        with self._locked():
            states = self._states()
            earlier = [state for state in states if state.token == token]
            if earlier:
                return self._view(earlier[0])
            taken = {state.host for state in states}
            free = [host for host in self._hosts if host not in taken]
            if not free:
                raise QuotaError(f"all {len(self._hosts)} addresses are taken")
            instance_id = f"i-sshd-{secrets.token_hex(6)}"
            self._directory.joinpath(instance_id).mkdir(mode=0o700)
            state = _State(id=instance_id, token=token, tags=dict(tags), host=free[0])
            self._save(state)
        try:
            return self._view(self._booted(state, init_command, public_key))
        except CloudError:
            if self._load(instance_id) is None:
                self._clear(instance_id)
            raise

    def instances(self, tags: Mapping[str, str]) -> Sequence[Instance]:
        """List what is on disk and carries all of `tags`."""
        with self._locked():
            states = self._states()
        return [self._view(each) for each in states if tags.items() <= each.tags.items()]

    def power_off_command(self) -> str:
        """Return what a test wants to be run."""
        return self._power_off

    def close(self) -> None:
        """Let go of nothing: there is nothing to let go of."""

    def destroy(self, instance_id: str) -> None:
        """End the server, its sessions and all processes; no error when the instance is gone."""
        directory = self._directory / instance_id
        if self._load(instance_id) is None:
            return
        _end_servers(directory)
        end_processes(instance_id)
        with self._locked():
            (directory / _STATE_FILE).unlink(missing_ok=True)
        # A create call that is still at it may have started a server meanwhile; one that starts
        # it later yet finds its state gone, and clears up itself.
        self._clear(instance_id)

    def set_tags(self, instance_id: str, tags: Mapping[str, str]) -> None:
        """Set tags on disk; raises `InstanceNotFound`."""
        with self._locked():
            state = self._load(instance_id)
            if state is None:
                raise InstanceNotFound(f"there is no instance {instance_id}")
            self._save(msgspec.structs.replace(state, tags=state.tags | dict(tags)))

    @contextmanager
    def _locked(self) -> Iterator[None]:
        with self._directory.joinpath("lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield

    def _states(self) -> list[_State]:
        names = sorted(path.name for path in self._directory.glob("i-sshd-*"))
        return [state for state in map(self._load, names) if state is not None]

    def _load(self, instance_id: str) -> _State | None:
        try:
            content = self._directory.joinpath(instance_id, _STATE_FILE).read_bytes()
        except FileNotFoundError:
            return None
        return msgspec.json.decode(content, type=_State)

    def _save(self, state: _State) -> None:
        file = self._directory / state.id / _STATE_FILE
        write_atomically(file, msgspec.json.encode(state))

    def _view(self, state: _State) -> Instance:
        return _SshdInstance(id=state.id, address=state.address, tags=dict(state.tags), owner=self)

    def _clear(self, instance_id: str) -> None:
        _end_servers(self._directory / instance_id)
        remove_files(self._directory / instance_id)

    def _booted(self, state: _State, init_command: str, public_key: str) -> _State:
        """Boot, and return what is known of the instance then."""
        address = self._boot(state, init_command, public_key)
        with self._locked():
            # Its tags may have changed since, or it may have been destroyed.
            current = self._load(state.id)
            if current is None:
                raise InstanceNotFound(f"instance {state.id} was destroyed as it booted")
            current = msgspec.structs.replace(current, address=address)
            self._save(current)
        return current

    def _boot(self, state: _State, init_command: str, public_key: str) -> str:
        """Run the init script, start the server as a daemon, and return its address."""
        directory = self._directory / state.id
        environment = instance_environment(state.id, directory)
        try:
            if init_command:
                run_init(init_command, environment=environment, directory=directory)
            # Lays out keys and configuration and finds a free port; as a child of this process it
            # is of no use beyond that.
            host = SshdHost(
                directory,
                host=state.host,
                authorized_key=public_key,
                environment={INSTANCE_VARIABLE: state.id},
            )
            host.stop()
            _start_daemon(directory, environment)
            wait_until(lambda: _answers(host.host, host.port), f"sshd of {state.id} to answer")
        except (OSError, subprocess.CalledProcessError, AssertionError) as error:
            # The last is what tests' helpers raise when they waited in vain.
            raise CloudError(f"sshd of {state.id} does not start: {error}") from error
        return host.address


def restart_servers(directory: Path) -> None:
    """Kill the servers of all instances somewhere below `directory`, with all sessions, and start
    them again on the same ports; what the sessions detached goes on."""
    for file in sorted(directory.rglob(f"i-sshd-*/{_STATE_FILE}")):
        state = msgspec.json.decode(file.read_bytes(), type=_State)
        host, _, port = state.address.rpartition(":")
        _end_servers(file.parent)
        _start_daemon(file.parent, instance_environment(state.id, file.parent))
        wait_until(partial(_answers, host, int(port)), f"sshd of {state.id} to answer again")


@dataclass(frozen=True, slots=True, kw_only=True)
class _SshdInstance:
    """An instance as it was when it was listed; see `drivers.interface.Instance`."""

    id: str
    address: str
    tags: Mapping[str, str]
    owner: SshdInstanceSet = field(repr=False)

    def destroy(self) -> None:
        self.owner.destroy(self.id)

    def set_tags(self, tags: Mapping[str, str]) -> None:
        self.owner.set_tags(self.id, tags)

    def verify_host_key(self, public_key: str) -> HostKeyVerdict:  # noqa: ARG002 - nobody to ask
        return HostKeyVerdict.UNKNOWN


def _start_daemon(directory: Path, environment: Mapping[str, str]) -> None:
    subprocess.run(
        [str(_SSHD), "-f", str(directory / "sshd_config"), "-E", str(directory / "sshd.log")],
        env=environment,
        stdin=subprocess.DEVNULL,
        check=True,
    )


def _answers(host: str, port: int) -> bool:
    try:
        with socket.create_connection((host, port), timeout=2.0) as client:
            return client.recv(4) == b"SSH-"
    except OSError:
        return False


def _end_servers(directory: Path) -> None:
    """Kill the sshd that runs on `directory`'s configuration, with its sessions."""

    def none_is_left() -> bool:
        servers = _servers_on(directory)
        for pid in servers:
            _kill_with_sessions(pid, directory)
        return not servers

    wait_until(none_is_left, f"the end of sshd on {directory}")


def _kill_with_sessions(pid: int, directory: Path) -> None:
    try:
        descriptor = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    try:
        if pid not in _servers_on(directory):
            return
        with suppress(ProcessLookupError):
            # A stopped listener accepts nobody, and reaps nobody whose id could be another's then.
            signal.pidfd_send_signal(descriptor, signal.SIGSTOP)
        for session in children_of(pid):
            with suppress(ProcessLookupError):
                os.kill(session, signal.SIGKILL)
        with suppress(ProcessLookupError):
            signal.pidfd_send_signal(descriptor, signal.SIGKILL)
    finally:
        os.close(descriptor)


def _servers_on(directory: Path) -> list[int]:
    configuration = str(directory / "sshd_config").encode()
    found: list[int] = []
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(FileNotFoundError, ProcessLookupError):
            if (
                process.joinpath("comm").read_text() == "sshd\n"
                and configuration in process.joinpath("cmdline").read_bytes()
            ):
                found.append(int(process.name))
    return sorted(found)


def _make(parameters: SshdParameters, context: DriverContext) -> SshdInstanceSet:
    state_dir = Path(parameters.state_dir) if parameters.state_dir else context.state_dir
    return SshdInstanceSet(state_dir, quota=parameters.quota, power_off=parameters.power_off)


DRIVER = DriverInfo(
    name="sshd",
    summary="real OpenSSH servers on this machine, for tests",
    parameters=SshdParameters,
    make=_make,
    capabilities=frozenset(
        {
            Capability.IDEMPOTENT_CREATE,
            Capability.OUTLIVES_PROCESS,
            Capability.MANY_INSTANCES,
        }
    ),
    fault_of_type=lambda _, type_: "no market is made here" if type_.preemptible else None,
)
