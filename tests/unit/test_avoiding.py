"""Where a container was lost it goes last: what a pass decides for it, and for those beside it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from longshore.dispatcher.domain.containers import Container, Placement, Profile, SchedulerSettings
from longshore.dispatcher.domain.feasibility import eligible_types
from longshore.dispatcher.explain.explanation import explain
from longshore.dispatcher.scheduler.batch.plan import plan
from longshore.dispatcher.scheduler.placement.fleet import PackingPolicy, Slot, SlotKind
from longshore.dispatcher.scheduler.placement.snapshot import Limits, Plan
from longshore.dispatcher.scheduler.placement.wait_reasons import elsewhere
from longshore.dispatcher.state.queue import SET_APART_MOST, Queue
from longshore.dispatcher.state.restarts import avoided, returns_at
from longshore.drivers.interface import InstanceType, Resources
from longshore.pool.holds import CreateBlockKind
from longshore.pool.messages import SignalAttempt
from longshore.pool.model import ExitKind, Fault, PoolSettings
from tests.rigs.engine import Rig, last_commands
from tests.rigs.planner import make_limits, make_view
from tests.samples import GIB, lost_on, make_container, make_type

T1, T4 = make_type(1), make_type(4)
RULES = PackingPolicy(
    placement=Placement.PACKED, profile=Profile.OPTIMIZE_UTILIZATION, max_containers=256
)


def slot(id_: str, type_: InstanceType = T1, *, used: int = 0, last_busy: float = 1.0) -> Slot:
    taken = Resources(cpu_millis=1000 * used, memory_bytes=GIB * used)
    return Slot(
        kind=SlotKind.READY,
        id=id_,
        type=type_,
        free=type_.allocatable.minus(taken),
        count=used,
        last_busy=last_busy,
        idle=used == 0,
        spared_until=100.0,
    )


def wanting(number: int, *lost_there: str, cpus: int = 1) -> Container:
    """Return a container, the lower the higher its number, that was lost on some instances."""
    return lost_on(make_container(number, cpus=cpus, priority=100 - number), *lost_there)


def decide(waiting: Sequence[Container], *slots: Slot, limits: Limits, **more: object) -> Plan:
    types = [T1, T4]
    queue = Queue(lambda k: eligible_types(types, k.resources, k.constraints, max_price_factor=10))
    for container in waiting:
        queue.add(container)
    return plan(make_view(queue, slots, limits, RULES, **more))


def full(instances: int, *, most: int = 0) -> Limits:
    return make_limits(instances=instances, max_instances=most or instances)


def starts(decided: Plan) -> list[tuple[str, str]]:
    return [(each, slot.id) for line in decided.lines for each, slot in line.starts]


def codes(decided: Plan) -> set[str]:
    return {reason.code for reason in decided.waiting.values()}


# ---- where it goes -------------------------------------------------------------------------------


def test_others_come_first_and_are_waited_for_while_they_are_busy() -> None:
    waiting = [wanting(1, "a")]
    assert starts(decide(waiting, slot("a"), slot("b"), limits=full(2))) == [("c-1", "b")]
    decided = decide(waiting, slot("a"), slot("b", used=1), limits=full(2))
    assert (starts(decided), codes(decided)) == ([], {"elsewhere"})
    assert not decided.stopped
    assert decided.next_in_line == []


def test_the_others_of_its_kind_have_the_room_that_it_leaves() -> None:
    waiting = [wanting(1, "a"), wanting(2), wanting(3)]
    decided = decide(waiting, slot("a"), slot("b", used=1), limits=full(2))
    assert starts(decided) == [("c-2", "a")]


def test_one_is_bought_where_it_may_be_though_there_is_room_where_it_was_lost() -> None:
    for there in ([slot("a")], [slot("a"), slot("b", used=1)]):
        decided = decide([wanting(1, "a")], *there, limits=full(len(there), most=3))
        assert (starts(decided), len(decided.creates)) == ([], 1)


@pytest.mark.parametrize(
    "kind", [CreateBlockKind.QUOTA, CreateBlockKind.CAPACITY, CreateBlockKind.OTHER]
)
def test_where_nothing_else_is_to_be_had_it_goes_back(kind: CreateBlockKind) -> None:
    held = make_limits(instances=1, max_instances=9, held=(kind, "none"))
    assert starts(decide([wanting(1, "a")], slot("a"), limits=held)) == [("c-1", "a")]
    assert starts(decide([wanting(1, "a")], slot("a"), limits=full(1))) == [("c-1", "a")]


def test_an_instance_of_a_type_that_would_not_do_is_no_other() -> None:
    waiting = [wanting(1, "a", cpus=4)]
    decided = decide(waiting, slot("a", T4), slot("b", used=1), limits=full(2))
    assert starts(decided) == [("c-1", "a")]


def test_who_has_been_patient_goes_back() -> None:
    there = (slot("a"), slot("b", used=1))
    at_9 = {"limits": full(2), "returns_at": lambda _id: 9.0}
    assert starts(decide([wanting(1, "a")], *there, now=8.0, **at_9)) == []  # type: ignore[arg-type]  # by name
    assert starts(decide([wanting(1, "a")], *there, now=9.0, **at_9)) == [("c-1", "a")]  # type: ignore[arg-type]  # by name


def test_patience_ends_ten_minutes_after_the_last_loss_whatever_the_clock_did() -> None:
    container = lost_on(make_container(1), "b", "a", "b", at=1000.0)
    assert avoided(container) == ("a", "b")
    assert returns_at(container, 1003.0) == 1603.0
    assert returns_at(container, 1002.0) == 1002.0, "the clock was set back"


def test_the_reason_names_a_few_instances() -> None:
    why = decide([wanting(1, "a")], slot("a"), slot("b", used=1), limits=full(2)).waiting
    (reason,) = why.values()
    assert reason.message.startswith("it waits for room elsewhere than on a, where it was lost")
    assert reason.until is None
    told = elsewhere(list("abcdefg"), reason, 0.0).message
    assert "on a, b, c, d, e and 2 more, where" in told


def test_where_they_were_lost_makes_no_other_kinds_of_requests_to_those_who_submit() -> None:
    """A registry that fails must not have the queue called full."""
    queue = Queue(lambda k: eligible_types([T1], k.resources, k.constraints, max_price_factor=10))
    for number in range(1, 5):
        queue.add(wanting(number, f"i-{number}"))
    assert len(queue.classes()) == 4
    assert queue.classes_with({queue.key_of(wanting(9))}) == 1
    assert queue.classes_with({queue.key_of(wanting(9, cpus=4))}) == 2


# ---- those beside it -----------------------------------------------------------------------------


def test_what_came_for_lower_ones_is_no_use_to_who_was_lost_there() -> None:
    """The one next in line wants a larger type; those behind may use what came for lower ones."""
    waiting = [wanting(1, cpus=4), wanting(2, "a")]
    a, b, c = (slot(name, last_busy=0.0) for name in "abc")
    a.spared_until = c.spared_until = 200.0  # b is withheld for the first
    decided = decide(waiting, a, b, c, limits=full(3))
    assert decided.stopped
    assert starts(decided) == [("c-2", "c")]
    a, b = (slot(name, last_busy=0.0) for name in "ab")
    a.spared_until = 200.0
    assert starts(decide(waiting, a, b, limits=full(2))) == []


def test_a_limit_that_others_use_up_in_the_same_pass_lets_those_below_go_on() -> None:
    waiting = [wanting(1, cpus=4), wanting(2, "a"), wanting(3)]
    decided = decide(waiting, slot("a"), limits=full(1, most=2))
    assert [each.type.name for each in decided.creates] == ["t4"]
    assert starts(decided) == [("c-3", "a")]
    assert not decided.stopped
    assert decided.next_in_line == []


def test_who_lacks_a_new_one_and_has_room_is_not_told_to_be_at_a_limit() -> None:
    """Nobody is evicted for it, and nobody waits behind it."""
    waiting = [wanting(1, cpus=4), wanting(2, "a"), wanting(3)]
    decided = decide(waiting, slot("a"), limits=full(1, most=2))
    assert starts(decided) == [("c-3", "a")], "and now there is none"
    assert codes(decided) == {"elsewhere"}


def important_rig(instances: int) -> Rig:
    """Return a rig at its limit in which c-9 was lost on i-001 and waits, and lower ones run."""
    settings = SchedulerSettings(max_instances=instances, preempt_from_priority=800)
    rig = Rig(make_type(1), settings=settings, pool=PoolSettings(idle_timeout_s=100_000))
    for number in range(1, instances + 1):
        rig.submit(make_container(number, priority=100 * number))
    rig.submit(make_container(9, priority=900))
    rig.exit("c-1-1", 143)
    assert rig.started_on()["c-9"] == "i-001"
    rig.exit("c-9-1", 125, ExitKind.ENGINE_FAILURE, Fault.INSTANCE)
    assert rig.states()["c-1"] == "running"
    rig.advance(2)
    return rig


def test_nobody_is_evicted_where_it_would_not_go() -> None:
    rig = important_rig(2)
    assert {each.attempt_id for each in last_commands(rig, SignalAttempt)} == {"c-1-1", "c-2-1"}
    rig.exit("c-2-1", 143)
    assert rig.started_on()["c-9"] == "i-002"


def test_where_there_is_no_other_instance_room_is_made_where_it_was_lost() -> None:
    rig = important_rig(1)
    assert {each.attempt_id for each in last_commands(rig, SignalAttempt)} == {"c-1-1", "c-1-2"}
    rig.exit("c-1-2", 143)
    assert rig.started_on()["c-9"] == "i-001"


def test_it_is_told_which_instances_it_goes_to_last() -> None:
    settings = SchedulerSettings(max_instances=2)
    rig = Rig(make_type(1), settings=settings, pool=PoolSettings(idle_timeout_s=100_000))
    rig.submit(make_container(1), make_container(2), make_container(3))
    rig.exit("c-1-1", 125, ExitKind.ENGINE_FAILURE, Fault.INSTANCE)
    rig.advance(5)
    container = rig.engine.table.containers["c-1"]
    waiting = explain(rig.view, container, rig.now).waiting
    assert waiting is not None
    assert waiting.instances.count("avoided") == 1
    assert waiting.instances.count("exhausted") == 1


def test_who_may_evict_does_so_where_it_was_lost_once_it_has_been_patient() -> None:
    """Else one loss of an important one held up all below it for as long as others were busy."""
    settings = SchedulerSettings(max_instances=2, preempt_from_priority=800)
    rig = Rig(make_type(1), settings=settings, pool=PoolSettings(idle_timeout_s=1_000_000))
    rig.submit(make_container(1, priority=100), make_container(2, priority=950))
    rig.submit(make_container(9, priority=900))
    rig.exit("c-1-1", 143)
    rig.exit("c-9-1", 125, ExitKind.ENGINE_FAILURE, Fault.INSTANCE)
    rig.advance(300)
    assert rig.states() == {"c-1": "running", "c-2": "running", "c-9": "queued"}
    for _ in range(6):
        rig.advance(60)
    assert "c-1-2" in {command.attempt_id for command in last_commands(rig, SignalAttempt)}
    rig.exit("c-1-2", 143)
    assert rig.states()["c-9"] == "running"


def test_so_many_may_avoid_instances_and_more_avoid_none() -> None:
    """A registry that is away for all made a class of each set of instances, for every pass."""
    queue = Queue(lambda _: (T1,))
    for number in range(SET_APART_MOST + 50):
        queue.add(wanting(number, f"i-{number}"))
    apart = [each.key.avoided for each in queue.classes() if each.key.avoided]
    assert (len(apart), len(queue.classes())) == (SET_APART_MOST, SET_APART_MOST + 1)
    # Who waits stays where it is, whatever becomes of the others and of its priority.
    late = wanting(SET_APART_MOST + 10, f"i-{SET_APART_MOST + 10}")
    queue.discard("c-0")
    queue.add(replace(late, priority=900))
    assert queue.class_of(late.id) is not None
    assert queue.key_of(late).avoided == ()
    queue.add(wanting(999, "i-x"))
    assert queue.key_of(wanting(999, "i-x")).avoided == ("i-x",)


def test_kinds_of_requests_are_counted_without_a_look_at_each_class() -> None:
    queue = Queue(lambda _: (T1,))
    for number in range(30):
        queue.add(wanting(number, f"i-{number % 10}"))
    one, other = queue.key_of(wanting(50)), queue.key_of(wanting(50, cpus=2))
    assert (queue.classes_with(set()), queue.classes_with({one})) == (1, 1)
    assert queue.classes_with({one, other, queue.key_of(wanting(51, "i-1", cpus=2))}) == 2
    for number in range(30):
        queue.discard(wanting(number).id)
    assert queue.classes_with(set()) == 0
