"""When the pool asks how what is gone was billed, for how long, and what it tells the engine."""

from __future__ import annotations

from dataclasses import replace

import pytest

from longshore.drivers.billing import NOTHING_BILLED, Billed, EndedBy
from longshore.drivers.errors import CloudError, RateLimitError
from longshore.pool import reactor
from longshore.pool.messages import AskBills, BillsFailed, BillsTold, Probe, SessionLost
from longshore.pool.open_bills import ASKED_FOR_S, MOST_AT_ONCE
from longshore.pool.pool_events import InstanceBilled, WorkerChanged
from longshore.pool.timers import TimerKind
from tests.rigs.pool import PoolRig

BEGUN = Billed(billed_from=900.0, zone="z1")
WHOLE = replace(BEGUN, billed_until=1500.0, ended_by=EndedBy.REQUEST)


def with_instances(*ids: str, asks: bool = True, billed: Billed = NOTHING_BILLED) -> PoolRig:
    rig = PoolRig(asks_bills=asks)
    for id_ in ids:
        rig.boot(id_)
        tell(rig, id_, billed)
    return rig


def tell(rig: PoolRig, id_: str, billed: Billed) -> None:
    rig.cloud[id_] = replace(rig.cloud[id_], billed=billed)
    list_now(rig)


def list_now(rig: PoolRig) -> None:
    rig.advance(1)
    rig.core.timers.set(TimerKind.LIST, "", rig.now)
    rig.settle()


def lose(rig: PoolRig, *ids: str) -> None:
    """Let instances end; the cloud says so at once."""
    rig.silent.add(Probe)
    for id_ in ids:
        del rig.cloud[id_]
        rig.send(SessionLost(worker_id=id_, last_contact=rig.now, reason="reset"))
    list_now(rig)
    assert not set(ids) & rig.core.workers.keys()


def asked(rig: PoolRig) -> list[tuple[str, ...]]:
    return [command.instance_ids for command in rig.asked(AskBills)]


def answer(rig: PoolRig, **bills: Billed) -> None:
    """Answer the question that is under way."""
    rig.send(BillsTold(op_id=rig.asked(AskBills)[-1].op_id, bills=tuple(sorted(bills.items()))))


def told(rig: PoolRig) -> list[tuple[str, Billed, bool]]:
    return [(n.instance_id, n.billed, n.final) for n in rig.asked(InstanceBilled)]


def test_what_listings_tell_is_kept_also_when_they_tell_less_and_noted_once() -> None:
    rig = with_instances("a", billed=BEGUN)
    noted = [n.reason for n in rig.asked(WorkerChanged) if "billing" in n.reason]
    assert noted == ["the cloud says that its billing has begun"]
    tell(rig, "a", NOTHING_BILLED)
    assert rig.core.workers["a"].cloud.billed == BEGUN
    tell(rig, "a", WHOLE)
    assert rig.core.workers["a"].cloud.billed == WHOLE
    noted = [n.reason for n in rig.asked(WorkerChanged) if "billing" in n.reason]
    assert noted[1:] == ["the cloud says that its billing has ended"]


def test_those_that_go_together_are_asked_of_with_one_call_and_settled_by_its_answer() -> None:
    rig = with_instances("a", "b", billed=BEGUN)
    lose(rig, "a", "b")
    assert asked(rig) == []
    rig.advance(10)
    assert asked(rig) == [("a", "b")]
    answer(rig, a=WHOLE, b=replace(WHOLE, billed_from=None, zone=""), c=WHOLE)
    assert told(rig) == [("a", WHOLE, True), ("b", WHOLE, True)]
    rig.advance(ASKED_FOR_S * 2)
    assert len(asked(rig)) == 1


def test_the_cloud_is_asked_again_ever_later_for_an_hour_and_then_no_more() -> None:
    rig = with_instances("a")
    lose(rig, "a")
    gone_at, times = rig.now, []
    for _ in range(2 * int(ASKED_FOR_S)):
        before = len(asked(rig))
        rig.advance(1)
        if len(asked(rig)) > before:
            times.append(rig.now - gone_at)
            answer(rig, a=BEGUN)
    assert times[:5] == [5, 20, 50, 110, 230]
    assert times[-1] == pytest.approx(ASKED_FOR_S, abs=1)
    assert len(times) < 15
    assert told(rig) == [("a", BEGUN, False), ("a", BEGUN, True)]


def test_a_question_that_fails_is_asked_again_after_a_rate_limit_when_allowed() -> None:
    rig = with_instances("a")
    lose(rig, "a")
    rig.advance(6)
    (first,) = rig.asked(AskBills)
    rig.send(BillsFailed(op_id=first.op_id, error=CloudError("down")))
    rig.advance(16)
    _, second = rig.asked(AskBills)
    limit = RateLimitError("slow down", retry_after_s=300)
    rig.send(BillsFailed(op_id=second.op_id, error=limit))
    rig.advance(298)
    assert len(asked(rig)) == 2
    rig.advance(3)
    assert len(asked(rig)) == 3
    answer(rig, a=WHOLE)
    assert told(rig) == [("a", WHOLE, True)]


def test_an_answer_to_another_question_says_nothing() -> None:
    rig = with_instances("a")
    lose(rig, "a")
    rig.advance(6)
    (question,) = rig.asked(AskBills)
    rig.send(BillsTold(op_id=question.op_id + 1, bills=(("a", WHOLE),)))
    rig.send(BillsTold(op_id=0, bills=(("a", WHOLE),)))
    assert told(rig) == []
    answer(rig, a=WHOLE)
    answer(rig, a=WHOLE)
    assert told(rig) == [("a", WHOLE, True)]


@pytest.mark.parametrize(("asks", "known"), [(True, WHOLE), (False, BEGUN)])
def test_nothing_is_asked_where_the_end_is_known_or_the_driver_cannot_tell(
    asks: bool, known: Billed
) -> None:
    rig = with_instances("a", asks=asks, billed=known)
    lose(rig, "a")
    rig.advance(2 * ASKED_FOR_S)
    assert asked(rig) == []
    assert told(rig) == [("a", known, True)]


def test_one_that_is_there_again_is_not_asked_of_and_keeps_what_was_told() -> None:
    rig = with_instances("a", billed=BEGUN)
    lose(rig, "a")
    rig.boot("a")
    assert rig.core.workers["a"].cloud.billed == BEGUN
    rig.advance(20)
    assert asked(rig) == []
    assert told(rig) == []


def test_one_that_shows_while_it_is_asked_of_is_not_settled() -> None:
    rig = with_instances("a", "b")
    lose(rig, "a", "b")
    rig.advance(6)
    rig.boot("a")
    answer(rig, a=WHOLE, b=WHOLE)
    assert told(rig) == [("b", WHOLE, True)]


def test_many_are_asked_of_in_parts_one_after_the_other() -> None:
    ids = [f"i-{number:03}" for number in range(MOST_AT_ONCE + 1)]
    rig = PoolRig(asks_bills=True)
    rig.core.bills.handed_in.update(dict.fromkeys(ids, NOTHING_BILLED))
    reactor.begin(rig.core, rig.now)
    rig.settle()
    rig.advance(6)
    assert asked(rig) == [tuple(ids[:MOST_AT_ONCE])]
    answer(rig)
    rig.advance(1)
    assert asked(rig)[1:] == [(ids[-1],)]


def test_what_an_earlier_process_left_is_asked_of_but_not_what_is_there_after_all() -> None:
    rig = PoolRig(asks_bills=True)
    rig.core.bills.handed_in.update(a=BEGUN, b=BEGUN, c=WHOLE)
    rig.boot("b")
    rig.advance(6)
    assert asked(rig) == [("a",)]
    answer(rig, a=WHOLE)
    assert told(rig) == [("c", WHOLE, True), ("a", WHOLE, True)]
    assert rig.core.workers["b"].cloud.billed == BEGUN


def test_of_two_words_on_one_time_the_narrower_counts_else_the_first() -> None:
    rough = Billed(billed_from=100.0, from_slack_s=60.0)
    assert rough.once_told(Billed(billed_from=100.0, from_slack_s=5.0)).from_slack_s == 5.0
    assert rough.once_told(Billed(billed_from=100.0, from_slack_s=300.0)) == rough
    assert rough.once_told(Billed(billed_from=700.0, from_slack_s=60.0)) == rough
    assert rough.once_told(NOTHING_BILLED) == rough
    assert NOTHING_BILLED.once_told(rough) == rough


def test_what_goes_while_others_are_asked_of_has_its_turn_once_they_are_answered() -> None:
    rig = with_instances("a", "b")
    lose(rig, "a")
    rig.advance(6)
    lose(rig, "b")
    rig.advance(20)
    assert asked(rig) == [("a",)]
    answer(rig, a=WHOLE)
    assert asked(rig) == [("a",), ("b",)]
    answer(rig, b=WHOLE)
    assert told(rig) == [("a", WHOLE, True), ("b", WHOLE, True)]
