"""Gates on literal times: tokens, whose turn it is, what a hold keeps waiting."""

from __future__ import annotations

import pytest

from longshore.drivers.errors import BugError, RateLimitError
from longshore.pool.messages import DestroyInstance, ListInstances, SetTags
from longshore.pool.rate_limits import CloudGate, ProbeGate, QueuedCall, TokenBucket


def destroy(instance_id: str) -> DestroyInstance:
    return DestroyInstance(op_id=1, instance_id=instance_id)


def tags(instance_id: str, value: str = "") -> SetTags:
    return SetTags(op_id=1, instance_id=instance_id, tags=(("k", value),))


LISTING = ListInstances(op_id=1)


def names(calls: list[QueuedCall]) -> list[str]:
    return [f"{type(c).__name__[:4]} {getattr(c, 'instance_id', '')}".strip() for c in calls]


def empty_gate(now: float, per_second: float = 1.0) -> CloudGate:
    """Return a gate without a token at `now`."""
    gate = CloudGate(per_second)
    for _ in range(max(1, int(per_second))):
        gate.take_for_create(now)
    return gate


# ---- tokens --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("per_second", "at_once", "next_s"), [(20, 20, 0.05), (1, 1, 1), (0.1, 1, 10), (2.5, 2, 0.2)]
)
def test_a_second_s_worth_lies_ready_and_then_tokens_come_at_the_rate(
    per_second: float, at_once: int, next_s: float
) -> None:
    bucket = TokenBucket(per_second)
    now = 1.7e9
    assert bucket.ready(now, 999) == at_once
    assert [bucket.take(now) for _ in range(at_once + 1)] == [True] * at_once + [False]
    due = bucket.next_at(now)
    assert due - now == pytest.approx(next_s, abs=1e-5)
    assert bucket.ready(due, 999) == 1
    assert bucket.take(due)
    assert not bucket.take(due)
    assert bucket.ready(now + 1000, 999) == at_once, "no more than that is saved up"


# ---- calls of the cloud's ------------------------------------------------------------------------


def test_what_waits_goes_destroys_first_then_the_listing_then_tags_one_a_token() -> None:
    gate = empty_gate(0)
    for call in (tags("a"), LISTING, destroy("b"), destroy("c")):
        gate.ask(call, 0)
    assert gate.release(0) == []
    assert gate.next_at(0) == 1
    released = []
    for now in (1, 2, 3, 4):
        released += names(gate.release(now))
    assert released == ["Dest b", "Dest c", "List", "SetT a"]
    assert gate.next_at(5) is None


def test_with_tokens_everything_goes_at_once() -> None:
    gate = CloudGate(20)
    gate.ask(tags("a"), 0)
    gate.ask(destroy("b"), 0)
    assert names(gate.release(0)) == ["Dest b", "SetT a"]


def test_no_kind_starves_another() -> None:
    gate = empty_gate(0)
    gate.ask(LISTING, 0)
    gate.ask(tags("z"), 0)
    released = []
    for now in range(1, 12):
        gate.ask(destroy(f"i{now}"), now - 1)
        gate.ask(destroy(f"j{now}"), now - 1)
        released += names(gate.release(now))
    assert released.index("List") == 6
    assert "SetT z" not in released[:8]
    for now in range(12, 20):
        released += names(gate.release(now))
    assert "SetT z" in released


def test_a_call_takes_the_place_of_the_waiting_one_that_does_the_same() -> None:
    gate = empty_gate(0)
    gate.ask(destroy("a"), 0)
    gate.ask(destroy("b"), 0)
    gate.ask(destroy("a"), 0.5)
    gate.ask(tags("c", "old"), 0)
    gate.ask(tags("c", "new"), 0.5)
    assert len(gate) == 3
    assert names(gate.release(1)) == ["Dest a"]
    assert names(gate.release(2)) == ["Dest b"]
    assert gate.release(3) == [tags("c", "new")]


def test_nothing_is_sent_for_what_is_gone_and_no_tags_for_what_is_destroyed() -> None:
    gate = empty_gate(0)
    gate.ask(tags("a"), 0)
    gate.ask(destroy("a"), 0)
    gate.ask(destroy("b"), 0)
    gate.ask(tags("c"), 0)
    gate.drop("b")
    gate.drop("c")
    assert len(gate) == 1
    assert names(gate.release(9)) == ["Dest a"]


def test_a_hold_keeps_what_waits_of_its_kind_and_nothing_else() -> None:
    gate = CloudGate(20)
    gate.changes.failed(RateLimitError("slow", retry_after_s=30), 0)
    for call in (destroy("a"), tags("b"), LISTING):
        gate.ask(call, 1)
    assert names(gate.release(1)) == ["List"]
    assert gate.next_at(1) == 30
    gate.listings.failed(RateLimitError("slow", retry_after_s=60), 2)
    gate.ask(LISTING, 3)
    assert names(gate.release(30)) == ["Dest a", "SetT b"]
    assert gate.next_at(30) == 62
    assert names(gate.release(62)) == ["List"]


def test_creates_that_wait_for_tokens_have_their_turn_among_the_others() -> None:
    gate = empty_gate(0)
    gate.creates_wait(wait=True, served=False, now=0)
    assert gate.next_at(0) == 1
    for number in range(9):
        gate.ask(destroy(f"i{number}"), number)
    for now in range(1, 6):
        assert len(gate.release(now)) == 1
        assert not gate.is_turn_of_creates(now)
    assert gate.release(6) == []
    assert gate.is_turn_of_creates(6)
    assert gate.creates_left(6, 10) == 1
    gate.take_for_create(6)
    gate.creates_wait(wait=False, served=True, now=6)
    assert len(gate.release(7)) == 1


def test_a_create_without_a_token_is_a_bug() -> None:
    gate = empty_gate(0)
    assert gate.creates_left(0, 10) == 0
    with pytest.raises(BugError, match="max_cloud_ops_per_second"):
        gate.take_for_create(0)


# ---- probes --------------------------------------------------------------------------------------


def test_probes_go_first_come_first_served() -> None:
    gate = ProbeGate(1)
    assert gate.next_at(0) is None
    for worker_id in ("b", "a", "c", "b"):
        gate.ask(worker_id)
    gate.drop("a")
    assert (gate.first(), len(gate), "c" in gate, "a" in gate) == ("b", 2, True, False)
    assert gate.take(0)
    assert not gate.take(0.5)
    assert gate.next_at(0.5) == 1
