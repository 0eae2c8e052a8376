"""A cloud in memory, with limits and delays, whose instances answer real SSH on this machine.

What happens is decided by the rules in `drivers.simulated.model`; here it is carried out. The
instances' processes run on this machine, so they end with the cloud; those of a cloud that was
killed are ended by the next one that uses the same directory.
"""

from __future__ import annotations

import logging
import os
import random
import secrets
import shutil
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import assert_never

from longshore.drivers.billing import Billed, BillingRule, EndedBy
from longshore.drivers.errors import AmbiguousResult, CapacityError, CloudError, QuotaError
from longshore.drivers.interface import Existence, HostKeyVerdict, Instance, InstanceType
from longshore.drivers.local.machine import LocalMachine, remove_files
from longshore.drivers.local.processes import INSTANCE_VARIABLE, end_processes, start_time
from longshore.drivers.simulated.model import CloudModel, Fate, Happening, Machine, as_thrown
from longshore.drivers.simulated.notice import NoticeBoard, moment_in, watch_command
from longshore.drivers.simulated.parameters import SimulatedParameters
from longshore.drivers.simulated.power import PowerLine

_log = logging.getLogger(__name__)

_HISTORY_LENGTH = 100_000
_OWNER_FILE = "owner"
_POWER_FILE = "power-off"
_ID_PREFIX = "i-sim-"
_BROKEN = "the simulated cloud broke this instance"


class CloudEvent(Enum):
    """What can happen in the cloud, as its history tells it."""

    CREATED = "created"
    BOOTED = "booted"
    BROKE = "broke"
    RECLAIM_NOTICE = "reclaim_notice"
    DESTROYED = "destroyed"
    ENDED_BY_ITSELF = "ended_by_itself"
    GONE = "gone"
    OVER_QUOTA = "over_quota"
    AT_CAPACITY = "at_capacity"
    FAILED = "failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryEntry:
    """One event at `time` on the cloud's clock; `instance_id` is "" when none came of it."""

    time: float
    event: CloudEvent
    instance_id: str
    provider_type: str


class SimulatedCloud:
    """The cloud: its instances and its clock (monotonic seconds) around its rules; for any thread.

    `state_dir` may be shared by several clouds, each has a directory of its own in it. `destiny` is
    what becomes of instances in place of what the dice say (see `CloudModel`).
    """

    def __init__(
        self,
        parameters: SimulatedParameters,
        *,
        state_dir: Path,
        clock: Callable[[], float] = time.monotonic,
        destiny: Callable[[int, InstanceType, float, Fate], Fate] = as_thrown,
    ) -> None:
        self._create_delay_s = parameters.create_delay_s
        self._clock = clock
        # Taken once: what the cloud says of a time does not change when this machine's is set.
        self._epoch_s = time.time() - clock()
        self._tells_billing = parameters.tells_billing
        name = secrets.token_hex(3)
        self._directory = _own_directory(state_dir, name)
        self._model = CloudModel(
            parameters,
            name=name,
            dice=_dice(parameters.seed, "calls"),
            dice_of=lambda number: _dice(parameters.seed, str(number)),
            destiny=destiny,
        )
        # Everything below is looked at and changed under its lock only.
        self._changed = threading.Condition()
        self._closed = False
        self._machines: dict[str, LocalMachine] = {}
        self._boards: dict[str, NoticeBoard] = {}
        self._init_commands: dict[str, str] = {}
        self._history: deque[HistoryEntry] = deque(maxlen=_HISTORY_LENGTH)
        self._power_line = PowerLine(self._directory / _POWER_FILE, self._power_off)
        self._timekeeper = threading.Thread(
            target=self._keep_time, name="simulated-cloud", daemon=True
        )
        self._timekeeper.start()

    def create(
        self,
        *,
        instance_type: InstanceType,
        tags: Mapping[str, str],
        init_command: str,
        public_key: str,
        token: str,
    ) -> Instance:
        """Create an instance, or return the one that this `token` made; it boots by itself.

        Raises `QuotaError`, `CapacityError` and others, as limits and faults say.
        """
        with self._changed:
            self._refuse_if_closed()
            self.run_due()
            creation = self._model.create(instance_type, tags=tags, token=token, now=self._clock())
            if creation.machine is not None and creation.is_new:
                self._install(creation.machine, init_command, public_key)
            if creation.error is not None:
                self._note(_kind_of(creation.error), instance_type.provider_type)
            if creation.machine is not None:
                self._let_due_happen()
                self._pass_time(self._create_delay_s)
            machine = creation.answer()
            return self._view(machine, machine.tags)

    def instances(self, tags: Mapping[str, str]) -> list[Instance]:
        """Return the instances that carry all of `tags`, sorted by id; faults may repeat some."""
        with self._changed:
            self._refuse_if_closed()
            self.run_due()
            try:
                listing = self._model.listing(tags, self._clock())
            except CloudError:
                self._note(CloudEvent.FAILED)
                raise
            return [self._view(machine, shown) for machine, shown in listing]

    def find(self, instance_id: str) -> Existence:
        """Return what is known of an instance by its id.

        One of a cloud whose process is dead has ended: the first thing that this one did was to end
        what was left of it.
        """
        with self._changed:
            self._refuse_if_closed()
            self.run_due()
            found = self._model.find(instance_id, self._clock())
            if found is Existence.UNKNOWN and self._model.parameters.finds:
                name = instance_id.removeprefix(_ID_PREFIX).rpartition("-")[0]
                others = self._directory.parent / f"cloud-{name}"
                if name and others != self._directory and not others.exists():
                    return Existence.GONE
            return found

    def destroy(self, instance_id: str) -> None:
        """Begin to end an instance; it leaves the listing later. No error when it is gone."""
        with self._changed:
            self._refuse_if_closed()
            self.run_due()
            machine = self._model.machines.get(instance_id)
            try:
                begun = self._model.destroy(instance_id, self._clock())
            except CloudError:
                self._note(CloudEvent.FAILED, "", instance_id)
                raise
            if begun and machine is not None:
                self._note(CloudEvent.DESTROYED, machine.type.provider_type, instance_id)
                self._let_due_happen()

    def set_tags(self, instance_id: str, tags: Mapping[str, str]) -> None:
        """Set tags of an instance; raises `InstanceNotFound`."""
        with self._changed:
            self._refuse_if_closed()
            self.run_due()
            try:
                self._model.set_tags(instance_id, tags, self._clock())
            except CloudError:
                self._note(CloudEvent.FAILED, "", instance_id)
                raise

    def quota_group(self, instance_type: InstanceType) -> str:
        """Return the quota group of a type, "" when it has none of its own."""
        return self._model.group_of(instance_type)

    def billing_rule(self) -> BillingRule:
        """Return how the cloud bills, by its parameters."""
        return self._model.parameters.billing.rule()

    def bills(self, instance_ids: Sequence[str]) -> dict[str, Billed]:
        """Return what is known of the billing of instances, in seconds since the epoch.

        Also of ended ones, of which the last 10,000 are kept.
        """
        with self._changed:
            self._refuse_if_closed()
            self.run_due()
            told = self._model.bills(instance_ids, self._clock())
            return {id_: billed.later_by(self._epoch_s) for id_, billed in told.items()}

    def power_off_command(self) -> str:
        """Return the shell command that, run on an instance, ends it as a power-off would.

        It needs the environment that everything on the instance has.
        """
        return self._power_line.command(f'"${INSTANCE_VARIABLE}"')

    def interruption_watch(self) -> str:
        """Return the shell command that waits on an instance for the word that it is taken back.

        It needs the environment that everything on the instance has.
        """
        return watch_command(self._directory)

    def run_due(self) -> float | None:
        """Do what is due by now, and return in how many seconds something is again.

        None when nothing is. On a real clock the cloud does this by itself; whoever gave it a
        clock of his own calls this whenever he has moved it.
        """
        with self._changed:
            while (due := self._model.next_due()) is not None:
                wait_s = due - self._clock()
                if wait_s > 0:
                    return wait_s
                for happening, machine in self._model.run_due(self._clock()):
                    self._carry_out(happening, machine)
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
        self._power_line.close()
        for instance_id in sorted(self._machines):
            self._clear_away(instance_id)
        shutil.rmtree(self._directory, ignore_errors=True)

    def _refuse_if_closed(self) -> None:
        if self._closed:
            raise CloudError("the simulated cloud is closed")

    def _install(self, machine: Machine, init_command: str, public_key: str) -> None:
        self._note(CloudEvent.CREATED, machine.type.provider_type, machine.id)
        try:
            self._machines[machine.id] = LocalMachine(
                instance_id=machine.id,
                directory=self._directory / machine.id,
                authorized_key=public_key,
                has_runner=machine.fate.has_runner,
            )
            self._boards[machine.id] = NoticeBoard(self._directory / machine.id)
        except OSError as error:
            self._model.end(machine, self._clock())
            self._let_due_happen()
            raise CloudError(f"this machine cannot hold another instance: {error}") from error
        self._init_commands[machine.id] = init_command

    def _carry_out(self, happening: Happening, machine: Machine) -> None:
        """Do to a machine what has happened to it; what fails is in the log."""
        local = self._machines.get(machine.id)
        event = _EVENTS[happening]
        if happening is not Happening.ENDED or not machine.ending:
            self._note(event, machine.type.provider_type, machine.id)
        if local is None:
            return
        match happening:
            case Happening.BOOTED:
                local.boot(self._init_commands.pop(machine.id, ""))
            case Happening.BROKE:
                self._break(machine.id, local)
            case Happening.RECLAIM_NOTICE:
                self._give_notice(machine)
            case Happening.ENDED:
                self._cut_power(machine.id, local)
            case Happening.FORGOTTEN:
                self._clear_away(machine.id)
            case _:
                assert_never(happening)

    def _break(self, instance_id: str, local: LocalMachine) -> None:
        try:
            local.report_broken(_BROKEN)
        except OSError:
            _log.exception("instance %s cannot say that it is broken", instance_id)

    def _give_notice(self, machine: Machine) -> None:
        ends_at = machine.created_at + (machine.fate.ends_after_s or 0.0)
        board = self._boards.get(machine.id)
        try:
            if board is not None:
                board.give(moment_in(ends_at - self._clock()))
        except OSError:
            _log.exception("instance %s does not hear that it is taken back", machine.id)

    def _cut_power(self, instance_id: str, local: LocalMachine) -> None:
        self._init_commands.pop(instance_id, None)
        board = self._boards.pop(instance_id, None)
        if board is not None:
            board.close()
        try:
            local.end()
        except CloudError:
            _log.exception("instance %s does not end", instance_id)

    def _clear_away(self, instance_id: str) -> None:
        """End whatever is left of an instance, and remove its files."""
        local = self._machines.pop(instance_id)
        self._cut_power(instance_id, local)
        remove_files(self._directory / instance_id)

    def _power_off(self, instance_id: str) -> None:
        with self._changed:
            machine = self._model.machines.get(instance_id)
            if machine is not None and not self._closed:
                self._model.end(machine, self._clock(), EndedBy.ITSELF)
                self._let_due_happen()

    def _view(self, machine: Machine, tags: Mapping[str, str]) -> Instance:
        local = None if machine.ending else self._machines.get(machine.id)
        address = local.address if local is not None else ""
        if not self._tells_billing:
            return _SimulatedInstance(id=machine.id, address=address, tags=dict(tags), cloud=self)
        billed = self._model.billed(machine, self._clock()).later_by(self._epoch_s)
        return _BilledInstance(
            id=machine.id, address=address, tags=dict(tags), cloud=self, billed=billed
        )

    def _note(self, event: CloudEvent, provider_type: str = "", instance_id: str = "") -> None:
        self._history.append(
            HistoryEntry(
                time=self._clock(),
                event=event,
                instance_id=instance_id,
                provider_type=provider_type,
            )
        )

    def _pass_time(self, delay_s: float) -> None:
        """Wait; raises `AmbiguousResult` when the cloud is closed meanwhile."""
        until = self._clock() + delay_s
        while not self._closed and (remaining_s := until - self._clock()) > 0:
            self._changed.wait(remaining_s)
        if self._closed:
            raise AmbiguousResult("the simulated cloud was closed during the create call")

    def _let_due_happen(self) -> None:
        self.run_due()
        self._changed.notify_all()

    def _keep_time(self) -> None:
        with self._changed:
            while not self._closed:
                self._changed.wait(self.run_due())


_EVENTS = {
    Happening.BOOTED: CloudEvent.BOOTED,
    Happening.BROKE: CloudEvent.BROKE,
    Happening.RECLAIM_NOTICE: CloudEvent.RECLAIM_NOTICE,
    Happening.ENDED: CloudEvent.ENDED_BY_ITSELF,
    Happening.FORGOTTEN: CloudEvent.GONE,
}


def _kind_of(error: CloudError) -> CloudEvent:
    """Return what a create call that raises `error` is called in the history."""
    match error:
        case QuotaError():
            return CloudEvent.OVER_QUOTA
        case CapacityError():
            return CloudEvent.AT_CAPACITY
        case _:
            return CloudEvent.FAILED


def _dice(seed: int, whose: str) -> random.Random:
    return random.Random(f"{seed}:{whose}")  # noqa: S311 - no secret, a fate that can be replayed


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


@dataclass(frozen=True, slots=True, kw_only=True)
class _BilledInstance(_SimulatedInstance):
    """An instance of a cloud that tells how it is billed; see `drivers.billing.TellsBilling`."""

    billed: Billed
