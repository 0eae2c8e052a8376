"""Properties of holds and gates on generated times: bounded rates, no starvation, ends."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from hypothesis import given
from hypothesis import strategies as st

from longshore.drivers.errors import (
    CapacityError,
    CloudError,
    ErrorScope,
    QuotaError,
    RateLimitError,
)
from longshore.drivers.interface import InstanceType
from longshore.pool.create_backoff import CreateBackoff
from longshore.pool.holds import HoldCause, InstanceCounts, Scope
from longshore.pool.messages import AskBills, DestroyInstance, ListInstances, SetTags
from longshore.pool.model import PoolSettings
from longshore.pool.rate_limits import CloudGate, ProbeGate, QueuedCall, TokenBucket
from tests.samples import make_type

LONGEST_HOLD_S = 3600.0
TYPES = {
    type_.name: type_
    for type_ in (
        make_type(1),
        make_type(2),
        make_type(1, name="spot", preemptible=True),
        make_type(4, name="gpu"),
    )
}
NAMES = sorted(TYPES)
RATES = st.floats(0.1, 50)
STEPS_S = st.one_of(st.just(0.0), st.floats(0, 3), st.floats(0, 200))
START = 1.7e9


def check_rate(times: list[float], per_second: float) -> None:
    """Check every window: no more in it than the rate allows, and one second's worth."""
    burst = max(1.0, per_second)
    for first in range(len(times)):
        for last in range(first, len(times)):
            window_s = times[last] - times[first]
            assert last - first + 1 <= per_second * window_s + burst + 0.001


@given(RATES, st.lists(st.tuples(STEPS_S, st.integers(1, 60)), max_size=20))
def test_no_window_has_more_than_the_rate_and_a_token_promised_is_there(
    per_second: float, tries: list[tuple[float, int]]
) -> None:
    bucket, now, taken = TokenBucket(per_second), START, []
    for step_s, wanted in tries:
        now += step_s
        ready = bucket.ready(now, 1000)
        got = [bucket.take(now) for _ in range(wanted)]
        assert sum(got) == min(ready, wanted)
        taken += [now] * sum(got)
        due = bucket.next_at(now)
        assert bucket.ready(due, 1) == 1, "whoever waits until then gets it"
    check_rate(taken, per_second)


@dataclass
class GateRun:
    """A gate driven as the pool drives it, noting what was sent when."""

    gate: CloudGate
    now: float = START
    sent: list[tuple[float, QueuedCall]] = field(default_factory=list)
    created: list[float] = field(default_factory=list)
    creates_wanted: int = 0

    def release(self) -> None:
        for call in self.gate.release(self.now):
            holds = {ListInstances: self.gate.listings, AskBills: self.gate.bills}
            hold = holds.get(type(call), self.gate.changes)
            assert self.now >= hold.until, "nothing is sent while a hold covers it"
            self.sent.append((self.now, call))

    def plan(self) -> None:
        """Create what may be created, like a planning pass."""
        left = self.gate.creates_left(self.now, self.creates_wanted)
        for _ in range(left):
            self.gate.take_for_create(self.now)
            self.created.append(self.now)
        self.creates_wanted -= left
        self.gate.creates_wait(wait=self.creates_wanted > 0, served=left > 0, now=self.now)
        self.release()

    def wake(self, until: float) -> None:
        """Do what is due until a time."""
        for _ in range(10_000):
            due = self.gate.next_at(self.now)
            if due is None or due > until:
                self.now = until
                return
            assert due >= self.now
            self.now = due
            self.release()
            if self.gate.is_turn_of_creates(self.now):
                self.plan()
        raise AssertionError("the gate never settles")


STEPS = st.lists(
    st.tuples(
        STEPS_S,
        st.sampled_from(
            [
                "destroy",
                "list",
                "tags",
                "bills",
                "create",
                "limit_list",
                "limit_changes",
                "limit_bills",
            ]
        ),
        st.integers(0, 5),
    ),
    max_size=40,
)


@given(st.floats(0.1, 20), STEPS)
def test_the_gate_keeps_rate_and_holds_and_starves_nobody(
    per_second: float, steps: list[tuple[float, str, int]]
) -> None:
    run = GateRun(gate=CloudGate(per_second))
    gate = run.gate
    waiting: set[tuple[str, int]] = set()
    for step_s, what, number in steps:
        run.wake(run.now + step_s)
        match what:
            case "destroy":
                gate.ask(DestroyInstance(op_id=1, instance_id=str(number)), run.now)
                waiting.discard(("tags", number))
            case "list":
                gate.ask(ListInstances(op_id=1), run.now)
            case "tags":
                gate.ask(SetTags(op_id=1, instance_id=str(number), tags=()), run.now)
            case "bills":
                gate.ask(AskBills(op_id=1, instance_ids=(str(number),)), run.now)
            case "create":
                run.creates_wanted += number
                run.plan()
            case "limit_list":
                gate.listings.failed(RateLimitError("r", retry_after_s=number * 10), run.now)
            case "limit_bills":
                gate.bills.failed(RateLimitError("r", retry_after_s=number * 10), run.now)
            case _:
                gate.changes.failed(RateLimitError("r"), run.now)
        if what in ("destroy", "list", "tags", "bills"):
            waiting.add((what, 0 if what in ("list", "bills") else number))
        run.release()
    assert len(gate) <= 2 + 2 * 6, "one a kind and instance"
    calls = len(gate) + run.creates_wanted
    run.wake(run.now + LONGEST_HOLD_S + (calls + 1) / per_second)
    assert len(gate) == 0, "everything is sent at last"
    assert run.creates_wanted == 0, "creates too"
    sent = {_key(call) for _, call in run.sent}
    assert waiting <= sent
    times = sorted([at for at, _ in run.sent] + run.created)
    check_rate(times, per_second)


def _key(call: QueuedCall) -> tuple[str, int]:
    if isinstance(call, ListInstances):
        return ("list", 0)
    if isinstance(call, AskBills):
        return ("bills", 0)
    kind = "destroy" if isinstance(call, DestroyInstance) else "tags"
    return (kind, int(call.instance_id))


@given(st.floats(0.1, 20), st.lists(st.tuples(STEPS_S, st.integers(0, 9)), max_size=40))
def test_probes_keep_their_rate_and_order(
    per_second: float, asked: list[tuple[float, int]]
) -> None:
    gate, now = ProbeGate(per_second), START
    sent: list[tuple[float, str]] = []
    expected: list[str] = []

    def release(until: float) -> float:
        at = now
        while (due := gate.next_at(at)) is not None and due <= until:
            at, first = due, gate.first()
            assert first is not None
            assert gate.take(at), "the token that was promised is there"
            gate.drop(first)
            sent.append((at, first))
        return until

    for step_s, number in asked:
        now = release(now + step_s)
        if str(number) not in gate:
            expected.append(str(number))
        gate.ask(str(number))
    release(now + len(gate) / per_second + 1)
    assert [worker_id for _, worker_id in sent] == expected
    check_rate([at for at, _ in sent], per_second)


ERRORS = st.sampled_from(
    [
        QuotaError("q"),
        RateLimitError("r"),
        RateLimitError("r", retry_after_s=1e12),
        RateLimitError("r", retry_after_s=40),
        CloudError("e"),
        CapacityError("c"),
        CapacityError("c", scope=ErrorScope.GROUP),
        CapacityError("c", scope=ErrorScope.ALL),
        None,
    ]
)


@given(
    st.dictionaries(st.sampled_from(NAMES), st.sampled_from(["", "a", "b"])),
    st.lists(
        st.tuples(STEPS_S, st.sampled_from(["create", "answer", "answer", "leave"]), ERRORS),
        max_size=60,
    ),
    st.randoms(use_true_random=False),
)
def test_no_create_while_a_hold_covers_it_one_on_trial_and_every_hold_ends(
    groups: dict[str, str], steps: list[tuple[float, str, CloudError | None]], dice: object
) -> None:
    holds = CreateBackoff(settings=PoolSettings(), types=TYPES, groups=groups)
    choose = dice.choice  # type: ignore[attr-defined]  # Hypothesis' random.Random
    now, instances = START, [TYPES["t1"]] * 3
    in_flight: list[tuple[str, float]] = []
    for step_s, what, error in steps:
        now += step_s
        if what == "create":
            name = choose(NAMES)
            flying = [TYPES[each] for each, _ in in_flight]
            tally = _tally_of(holds, instances, flying)
            create_block = holds.create_block(
                TYPES[name], in_flight=flying, unproven=False, tally=tally, now=now
            )
            if create_block is None:
                _check_create(holds, name, flying, tally, now)
                in_flight.append((name, now))
        elif what == "answer" and in_flight:
            name, began_at = in_flight.pop(choose(range(len(in_flight))))
            if error is None:
                instances.append(TYPES[name])
                tally = _tally_of(holds, instances, [TYPES[each] for each, _ in in_flight])
                holds.succeeded(TYPES[name], began_at=began_at)
                holds.quotas.made(TYPES[name], tally, began_at=began_at, now=now)
            else:
                tally = _tally_of(holds, instances, [TYPES[each] for each, _ in in_flight])
                holds.failed(TYPES[name], error, began_at=began_at, tally=tally, now=now)
        elif what == "leave" and instances:
            holds.instance_left(instances.pop(), now)
        for hold in holds.active(now):
            assert hold.since <= now < hold.until <= now + LONGEST_HOLD_S
    assert holds.active(now + LONGEST_HOLD_S) == []
    assert holds.next_end(now + LONGEST_HOLD_S) is None
    end = now + LONGEST_HOLD_S
    tally = _tally_of(holds, instances, [])
    for type_ in TYPES.values():
        assert holds.create_block(type_, in_flight=(), unproven=False, tally=tally, now=end) is None


def _tally_of(
    holds: CreateBackoff, instances: list[InstanceType], flying: list[InstanceType]
) -> Callable[[Scope], InstanceCounts]:
    """Return what counts instances, as of now, and creates under way."""
    there, coming = list(instances), list(flying)

    def tally(scope: Scope) -> InstanceCounts:
        here = [type_.resources.cpu_millis for type_ in there if holds.covers(scope, type_)]
        more = [type_.resources.cpu_millis for type_ in coming if holds.covers(scope, type_)]
        return InstanceCounts(
            there=len(here),
            coming=len(more),
            there_cpu_millis=sum(here),
            coming_cpu_millis=sum(more),
        )

    return tally


def _check_create(
    holds: CreateBackoff,
    name: str,
    flying: list[InstanceType],
    tally: Callable[[Scope], InstanceCounts],
    now: float,
) -> None:
    """Check that no hold is ignored, and that what is tried at a quota is one, and the only one."""
    for hold in holds.active(now):
        covered = holds.covers(hold.scope, TYPES[name])
        assert not covered or hold.cause is HoldCause.QUOTA
    for known in holds.quotas.known(now):
        if holds.covers(known.scope, TYPES[name]):
            counted = tally(known.scope)
            within = counted.taken + 1 <= max(known.most, counted.standing)
            assert within or not counted.coming
    for scope, allowance in holds.allowances(TYPES[name], tally=tally, now=now).items():
        under_way = any(holds.covers(scope, each) for each in flying)
        assert not (allowance.is_trial and under_way)
