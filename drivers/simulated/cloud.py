"""A cloud in memory, with limits and delays, whose instances answer real SSH on this machine.

Their processes run on this machine, so they end with the cloud; those of a cloud that was killed
are ended by the next one that uses the same directory.
"""

from __future__ import annotations

import heapq
import logging
import os
import random
import secrets
import shutil
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from functools import partial
from pathlib import Path
from typing import Annotated

import msgspec

from drivers.errors import (
    AmbiguousResult,
    CapacityError,
    CapacityScope,
    CloudError,
    InstanceNotFound,
    QuotaError,
)
from drivers.interface import HostKeyVerdict, Instance
from drivers.local_machine import LocalMachine, remove_files
from drivers.local_processes import end_processes, start_time

_log = logging.getLogger(__name__)

_HISTORY_LENGTH = 100_000
_REMEMBERED_TOKENS = 10_000
"""How many tokens of instances that are gone are still recognised."""
_OWNER_FILE = "owner"

_Delay = Annotated[float, msgspec.Meta(ge=0, le=86400)]
_Count = Annotated[int, msgspec.Meta(ge=0, le=100_000)]


class SimulatedParameters(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How the cloud behaves; durations in seconds.

    An instance refuses connections for `boot_time_s`, and up to `boot_jitter_s` more as the dice of
    `seed` fall. `quota` is the most instances there may be (0: no limit), `capacity` the most of
    each provider type named. A create call takes `create_delay_s`, though the instance is there
    from its beginning; a destroyed one leaves the listing after `destroy_delay_s`. `state_dir` is
    where the instances' directories are ("": where the dispatcher keeps its data).
    """

    boot_time_s: _Delay = 1.0
    boot_jitter_s: _Delay = 0.0
    seed: int = 0
    quota: _Count = 0
    create_delay_s: _Delay = 0.0
    destroy_delay_s: _Delay = 0.0
    capacity: dict[Annotated[str, msgspec.Meta(min_length=1)], _Count] = {}
    state_dir: str = ""


class CloudEvent(Enum):
    """What can happen in the cloud, as its history tells it."""

    CREATED = "created"
    BOOTED = "booted"
    DESTROYED = "destroyed"
    GONE = "gone"
    OVER_QUOTA = "over_quota"
    AT_CAPACITY = "at_capacity"


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryEntry:
    """One event at `time` on the cloud's clock; `instance_id` is "" when none came of it."""

    time: float
    event: CloudEvent
    instance_id: str
    provider_type: str


class _State(Enum):
    EXISTS = "exists"
    ENDING = "ending"
    GONE = "gone"


@dataclass(slots=True, kw_only=True)
class _Machine:
    """The cloud's record of one instance."""

    id: str
    token: str
    provider_type: str
    tags: dict[str, str]
    local: LocalMachine
    state: _State = _State.EXISTS


class SimulatedCloud:
    """The cloud: its instances, its limits and its clock (monotonic seconds); for any thread.

    `state_dir` may be shared by several clouds, each has a directory of its own in it.
    """

    def __init__(
        self,
        parameters: SimulatedParameters,
        *,
        state_dir: Path,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._parameters = parameters
        self._clock = clock
        self._name = secrets.token_hex(3)
        self._directory = _own_directory(state_dir, self._name)
        self._changed = threading.Condition()
        self._closed = False
        self._created = 0
        self._machines: dict[str, _Machine] = {}
        self._by_token: dict[str, _Machine] = {}
        self._gone_tokens: deque[str] = deque()
        self._history: deque[HistoryEntry] = deque(maxlen=_HISTORY_LENGTH)
        self._due: list[tuple[float, int, Callable[[], None]]] = []
        self._scheduled = 0
        self._timekeeper = threading.Thread(
            target=self._keep_time, name="simulated-cloud", daemon=True
        )
        self._timekeeper.start()

    def create(
        self,
        *,
        provider_type: str,
        tags: Mapping[str, str],
        init_command: str,
        public_key: str,
        token: str,
    ) -> Instance:
        """Create an instance, or return the one that this `token` made; it boots by itself."""
        with self._changed:
            self._refuse_if_closed()
            machine = self._by_token.get(token)
            if machine is None:
                self._refuse_if_full(provider_type)
                machine = self._add(provider_type, tags, public_key, token)
                boot = partial(self._boot, machine, init_command)
                self._schedule(self._boot_time_s(), boot)
            until = self._clock() + self._parameters.create_delay_s
            while not self._closed and (remaining_s := until - self._clock()) > 0:
                self._changed.wait(remaining_s)
            if self._closed:
                raise AmbiguousResult("the simulated cloud was closed during the create call")
            return self._view(machine)

    def instances(self, tags: Mapping[str, str]) -> list[Instance]:
        """Return the instances that carry all of `tags`, sorted by id."""
        with self._changed:
            self._refuse_if_closed()
            return [
                self._view(machine)
                for _, machine in sorted(self._machines.items())
                if tags.items() <= machine.tags.items()
            ]

    def destroy(self, instance_id: str) -> None:
        """End an instance's processes now; it leaves the listing later. No error when it is gone.

        Raises `CloudError` when a process does not end.
        """
        with self._changed:
            self._refuse_if_closed()
            machine = self._machines.get(instance_id)
        if machine is None or machine.state is not _State.EXISTS:
            return
        machine.local.end()
        with self._changed:
            if machine.state is _State.EXISTS:
                machine.state = _State.ENDING
                self._note(CloudEvent.DESTROYED, machine.provider_type, machine.id)
                self._schedule(self._parameters.destroy_delay_s, partial(self._remove, machine))

    def set_tags(self, instance_id: str, tags: Mapping[str, str]) -> None:
        """Set tags of an instance; raises `InstanceNotFound`."""
        with self._changed:
            self._refuse_if_closed()
            if instance_id not in self._machines:
                raise InstanceNotFound(f"there is no instance {instance_id}")
            self._machines[instance_id].tags.update(tags)

    def run_due(self) -> float | None:
        """Do what is due by now, and return in how many seconds something is again.

        None when nothing is. On a real clock the cloud does this by itself; whoever gave it a
        clock of his own calls this whenever he has moved it.
        """
        with self._changed:
            while self._due:
                wait_s = self._due[0][0] - self._clock()
                if wait_s > 0:
                    return wait_s
                heapq.heappop(self._due)[2]()
            return None

    def history(self) -> list[HistoryEntry]:
        """Return a copy of what happened, oldest first; the last 100,000 events are kept."""
        with self._changed:
            return list(self._history)

    def close(self) -> None:
        """End the cloud with all that runs in it on this machine; twice is no error."""
        with self._changed:
            if self._closed:
                return
            self._closed = True
            self._changed.notify_all()
        self._timekeeper.join()
        for _, machine in sorted(self._machines.items()):
            try:
                machine.local.end()
                remove_files(self._directory / machine.id)
            except CloudError:
                _log.exception("instance %s does not end", machine.id)
        shutil.rmtree(self._directory, ignore_errors=True)

    def _refuse_if_closed(self) -> None:
        if self._closed:
            raise CloudError("the simulated cloud is closed")

    def _refuse_if_full(self, provider_type: str) -> None:
        quota = self._parameters.quota
        if quota and len(self._machines) >= quota:
            self._note(CloudEvent.OVER_QUOTA, provider_type)
            raise QuotaError(f"the quota of {quota} instances is used up")
        most = self._parameters.capacity.get(provider_type)
        taken = sum(each.provider_type == provider_type for each in self._machines.values())
        if most is not None and taken >= most:
            self._note(CloudEvent.AT_CAPACITY, provider_type)
            raise CapacityError(
                f"there is no capacity for more than {most} of {provider_type}",
                scope=CapacityScope.TYPE,
            )

    def _add(
        self, provider_type: str, tags: Mapping[str, str], public_key: str, token: str
    ) -> _Machine:
        self._created += 1
        instance_id = f"i-sim-{self._name}-{self._created:05d}"
        try:
            local = LocalMachine(
                instance_id=instance_id,
                directory=self._directory / instance_id,
                authorized_key=public_key,
            )
        except OSError as error:
            raise CloudError(f"this machine cannot hold another instance: {error}") from error
        machine = _Machine(
            id=instance_id,
            token=token,
            provider_type=provider_type,
            tags=dict(tags),
            local=local,
        )
        self._machines[instance_id] = self._by_token[token] = machine
        self._note(CloudEvent.CREATED, provider_type, instance_id)
        return machine

    def _boot_time_s(self) -> float:
        # Dice of its own for each instance, so that its fate does not hang on the others' order.
        dice = random.Random(f"{self._parameters.seed}:{self._created}")  # noqa: S311 - no secret, a replayable delay
        return self._parameters.boot_time_s + dice.random() * self._parameters.boot_jitter_s

    def _boot(self, machine: _Machine, init_command: str) -> None:
        if machine.state is _State.EXISTS:
            self._note(CloudEvent.BOOTED, machine.provider_type, machine.id)
            machine.local.boot(init_command)

    def _remove(self, machine: _Machine) -> None:
        machine.state = _State.GONE
        del self._machines[machine.id]
        self._note(CloudEvent.GONE, machine.provider_type, machine.id)
        remove_files(self._directory / machine.id)
        self._gone_tokens.append(machine.token)
        if len(self._gone_tokens) > _REMEMBERED_TOKENS:
            del self._by_token[self._gone_tokens.popleft()]

    def _view(self, machine: _Machine) -> Instance:
        address = machine.local.address if machine.state is _State.EXISTS else ""
        return _SimulatedInstance(
            id=machine.id, address=address, tags=dict(machine.tags), cloud=self
        )

    def _note(self, event: CloudEvent, provider_type: str, instance_id: str = "") -> None:
        self._history.append(
            HistoryEntry(
                time=self._clock(),
                event=event,
                instance_id=instance_id,
                provider_type=provider_type,
            )
        )

    def _schedule(self, delay_s: float, action: Callable[[], None]) -> None:
        self._scheduled += 1
        heapq.heappush(self._due, (self._clock() + delay_s, self._scheduled, action))
        self.run_due()
        self._changed.notify_all()

    def _keep_time(self) -> None:
        with self._changed:
            while not self._closed:
                self._changed.wait(self.run_due())


def _own_directory(state_dir: Path, name: str) -> Path:
    """Make a cloud's directory, and end what clouds left whose process was killed."""
    state_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
    for directory in sorted(state_dir.glob("cloud-*")):
        try:
            pid, started = map(int, (directory / _OWNER_FILE).read_text().split())
        except (OSError, ValueError):
            # Another process is making it this moment, or is removing it.
            continue
        if start_time(pid) == started:
            continue
        for instance in sorted(directory.glob("i-sim-*")):
            end_processes(instance.name)
            remove_files(instance)
        shutil.rmtree(directory, ignore_errors=True)
    # Commands on an instance have another working directory than we.
    own = state_dir.absolute() / f"cloud-{name}"
    own.mkdir(mode=0o700)
    (own / _OWNER_FILE).write_text(f"{os.getpid()} {start_time(os.getpid())}")
    return own


@dataclass(frozen=True, slots=True, kw_only=True)
class _SimulatedInstance:
    """An instance as it was when it was listed; see `drivers.interface.Instance`."""

    id: str
    address: str
    tags: Mapping[str, str]
    cloud: SimulatedCloud = field(repr=False)

    def destroy(self) -> None:
        self.cloud.destroy(self.id)

    def set_tags(self, tags: Mapping[str, str]) -> None:
        self.cloud.set_tags(self.id, tags)

    def verify_host_key(self, public_key: str) -> HostKeyVerdict:  # noqa: ARG002 - this cloud cannot tell
        return HostKeyVerdict.UNKNOWN
