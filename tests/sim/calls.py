"""Cloud calls in virtual time, as `pool.remote.cloud_calls` makes them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import assert_never

from longshore.drivers.billing import NOTHING_BILLED
from longshore.drivers.errors import AmbiguousResult, CloudError, InstanceNotFound, RateLimitError
from longshore.drivers.interface import Existence, Power
from longshore.drivers.simulated.model import CloudModel, Creation, Machine
from longshore.pool.messages import (
    AskBills,
    BillsFailed,
    BillsTold,
    Created,
    CreateFailed,
    CreateInstance,
    Destroyed,
    DestroyFailed,
    DestroyInstance,
    FindFailed,
    FindInstance,
    InstanceFound,
    Listed,
    ListingFailed,
    ListInstances,
    PoolEvent,
    SetTags,
    TagsFailed,
    TagsSet,
)
from longshore.pool.model import InstanceSeen
from tests.sim.timeline import Dice, Timeline

CloudCommand = ListInstances | CreateInstance | DestroyInstance | SetTags | FindInstance | AskBills
CLUSTER_TAGS = {"longshore-cluster": "sim"}
NEW_S = 30.0


@dataclass(slots=True, kw_only=True)
class CloudSurroundings:
    """What the calls of one dispatcher need; `appeared` hears of new machines and their secret.

    `hides` says whether listings, and the cloud's word on an id, lack an instance that is there,
    `power_of` how they say that it stands. `cloud_epoch_s` is what the cloud's own clock says when
    the timeline begins.
    """

    timeline: Timeline
    dice: Dice
    model: CloudModel
    post: Callable[[PoolEvent], None]
    epoch_now: Callable[[], float]
    alive: Callable[[], bool]
    appeared: Callable[[Machine, str], None]
    changed: Callable[[], None]
    timeout_s: float
    hanging: float
    late_addresses: bool
    find_dice: Dice
    bills_dice: Dice
    cloud_epoch_s: float
    hides: Callable[[Machine], bool]
    power_of: Callable[[Machine], Power]
    filters_tags: bool = True
    flickers: float = 0.0
    pace: float = 1.0


class VirtualCalls:
    """The driver calls of one dispatcher; those that have begun may outlive it."""

    def __init__(self, around: CloudSurroundings) -> None:
        self._around = around
        self._busy: set[tuple[str, str]] = set()
        self._known: set[str] = set()

    def calm_down(self) -> None:
        """Let what goes wrong with calls end."""
        self._around.hanging = self._around.flickers = 0.0

    def begin(self, command: CloudCommand) -> None:
        """Begin a call; its outcome is posted later, exactly one."""
        match command:
            case ListInstances():
                self._list(command)
            case CreateInstance():
                self._create(command)
            case DestroyInstance() | SetTags():
                self._alone(command)
            case FindInstance():
                self._find(command)
            case AskBills():
                self._bills(command)
            case _:
                assert_never(command)

    def _call(
        self,
        effect: Callable[[], PoolEvent],
        too_late: Callable[[CloudError], PoolEvent],
        *,
        takes_s: float = 0.0,
        dice: Dice | None = None,
    ) -> None:
        """Let `effect` happen in the cloud a little later, and its outcome come back."""
        around, dice = self._around, dice or self._around.dice
        there_s = dice.between(0, 0.3) * around.pace
        back_s = dice.between(0, 0.3) * around.pace + takes_s
        hangs = dice.falls(around.hanging)
        if hangs:
            there_s *= 60
            doubt = AmbiguousResult(f"no answer within {around.timeout_s:g} s")
            around.timeline.after(around.timeout_s, lambda: around.post(too_late(doubt)))

        def happen() -> None:
            if not around.alive() and dice.falls(0.5):
                return  # the process died before the request was sent
            outcome = effect()
            around.changed()
            if not hangs:
                around.timeline.after(back_s, lambda: around.post(outcome))

        around.timeline.after(there_s, happen)

    def _list(self, command: ListInstances) -> None:
        began_at = self._around.epoch_now()

        def effect() -> PoolEvent:
            try:
                tags = CLUSTER_TAGS if self._around.filters_tags else {}
                shown = self._around.model.listing(tags, self._around.timeline.now)
            except CloudError as error:
                return ListingFailed(op_id=command.op_id, error=self._as_told(error))
            powers = {machine.id: self._around.power_of(machine) for machine, _ in shown}
            seen = tuple(
                self._seen(machine, tags, powers[machine.id])
                for machine, tags in shown
                if not self._flickers(machine) and not self._around.hides(machine)
            )
            self._known.update(instance.id for instance in seen)
            return Listed(op_id=command.op_id, began_at=began_at, instances=seen)

        self._call(effect, lambda error: ListingFailed(op_id=command.op_id, error=error))

    def _create(self, command: CreateInstance) -> None:
        token = command.launch.token

        def failed(error: CloudError) -> PoolEvent:
            return CreateFailed(op_id=command.op_id, token=token, error=error)

        def effect() -> PoolEvent:
            made: Creation = self._around.model.create(
                command.instance_type,
                tags=dict(command.tags),
                token=token,
                now=self._around.timeline.now,
            )
            if made.machine is not None and made.is_new:
                self._around.appeared(made.machine, command.launch.secret)
            if made.error is not None or made.machine is None:
                return failed(self._as_told(made.error or CloudError("no instance")))
            self._known.add(made.machine.id)
            seen = self._seen(made.machine, made.machine.tags, Power.ON)
            return Created(op_id=command.op_id, token=token, instance=seen)

        self._call(effect, failed, takes_s=self._around.model.parameters.create_delay_s)

    def _find(self, command: FindInstance) -> None:
        around, dice = self._around, self._around.find_dice

        def failed(error: CloudError) -> PoolEvent:
            return FindFailed(op_id=command.op_id, instance_id=command.instance_id, error=error)

        def effect() -> PoolEvent:
            error = self._failure(dice)
            if error is not None:
                return failed(error)
            machine = around.model.machines.get(command.instance_id)
            existence = Existence.UNKNOWN
            if machine is None or not around.hides(machine):
                existence = around.model.existence(command.instance_id, around.timeline.now)
            return InstanceFound(
                op_id=command.op_id, instance_id=command.instance_id, existence=existence
            )

        self._call(effect, failed, dice=dice)

    def _bills(self, command: AskBills) -> None:
        around, dice = self._around, self._around.bills_dice

        def failed(error: CloudError) -> PoolEvent:
            return BillsFailed(op_id=command.op_id, error=error)

        def effect() -> PoolEvent:
            error = self._failure(dice)
            if error is not None:
                return failed(error)
            told = around.model.bills_of(command.instance_ids, around.timeline.now)
            bills = [
                (id_, billed.later_by(around.cloud_epoch_s))
                for id_, billed in sorted(told.items())
                if id_ not in around.model.machines or not around.hides(around.model.machines[id_])
            ]
            return BillsTold(op_id=command.op_id, bills=tuple(bills))

        self._call(effect, failed, dice=dice)

    def _failure(self, dice: Dice) -> CloudError | None:
        """Return how a question fails that has dice of its own, None for not."""
        faults = self._around.model.faults
        if dice.falls(faults.rate_limits):
            told_s = faults.retry_after_s * dice.random() or None
            return RateLimitError("slow down", retry_after_s=told_s)
        if dice.falls(faults.listing_errors):
            return CloudError("a question failed, as told")
        return None

    def _as_told(self, error: CloudError) -> CloudError:
        """Return an error as it is told: how long a rate limit lasts differs from call to call."""
        if isinstance(error, RateLimitError) and error.retry_after_s is not None:
            told_s = error.retry_after_s * self._around.dice.random()
            return RateLimitError(str(error), retry_after_s=told_s)
        return error

    def _flickers(self, machine: Machine) -> bool:
        """Return whether a listing lacks an instance that is new, though an earlier one had it."""
        young = self._around.timeline.now < machine.created_at + NEW_S
        return young and not machine.booted and self._around.dice.falls(self._around.flickers)

    def _alone(self, command: DestroyInstance | SetTags) -> None:
        """Begin a call unless the same is under way for this instance, which is told as such."""
        key = (type(command).__name__, command.instance_id)
        if key in self._busy:
            failed = _failed(command, CloudError("an earlier call still runs"))
            self._around.timeline.after(0, lambda: self._around.post(failed))
            return
        self._busy.add(key)

        def effect() -> PoolEvent:
            self._busy.discard(key)
            return (
                self._destroy(command)
                if isinstance(command, DestroyInstance)
                else self._tag(command)
            )

        self._call(effect, lambda error: _failed(command, error))

    def _destroy(self, command: DestroyInstance) -> PoolEvent:
        if command.instance_id in self._known:
            try:
                self._around.model.destroy(command.instance_id, self._around.timeline.now)
            except CloudError as error:
                return _failed(command, self._as_told(error))
        return Destroyed(op_id=command.op_id, instance_id=command.instance_id)

    def _tag(self, command: SetTags) -> PoolEvent:
        if command.instance_id not in self._known:
            return _failed(command, InstanceNotFound("no listing has shown it"))
        try:
            self._around.model.set_tags(
                command.instance_id, dict(command.tags), self._around.timeline.now
            )
        except CloudError as error:
            return _failed(command, self._as_told(error))
        return TagsSet(op_id=command.op_id, instance_id=command.instance_id)

    def _seen(self, machine: Machine, tags: dict[str, str], power: Power) -> InstanceSeen:
        around = self._around
        hidden = around.late_addresses and not machine.booted
        billed = NOTHING_BILLED
        if around.model.parameters.tells_billing:
            billed = around.model.billed(machine, around.timeline.now)
        return InstanceSeen(
            id=machine.id,
            address="" if hidden else f"{machine.id}:22",
            tags=tuple(sorted(tags.items())),
            power=power,
            billed=billed.later_by(around.cloud_epoch_s),
        )


def _failed(command: DestroyInstance | SetTags, error: CloudError) -> PoolEvent:
    if isinstance(command, DestroyInstance):
        return DestroyFailed(op_id=command.op_id, instance_id=command.instance_id, error=error)
    return TagsFailed(op_id=command.op_id, instance_id=command.instance_id, error=error)
