"""Creates of which nobody knows what came of them: one holds nothing, a row holds as errors do."""

from __future__ import annotations

from longshore.drivers.errors import AmbiguousResult
from longshore.pool.create_backoff import AmbiguousCreates
from longshore.pool.holds import HoldCause
from longshore.pool.messages import CreateFailed, CreateInstance
from tests.health import told
from tests.rigs.engine import Rig, last_commands
from tests.samples import make_container, make_type
from tests.sim.options import options_of
from tests.sim.world import World


def doubtful() -> Rig:
    """Return a rig whose cloud answers each create with a doubt."""
    rig = Rig(make_type(1))
    rig.create_error = lambda _command: AmbiguousResult("an internal error")
    return rig


def creates(rig: Rig) -> list[CreateInstance]:
    return last_commands(rig, CreateInstance)


def holds(rig: Rig) -> list[HoldCause]:
    return [hold.cause for hold in rig.engine.pool.holds.active(rig.now)]


def test_creates_that_all_end_in_doubt_are_not_tried_without_end() -> None:
    """Found by a review: 550 in ten minutes, each of which may be billed, and nobody was told."""
    rig = doubtful()
    rig.submit(*(make_container(number) for number in range(1, 11)))
    rig.advance(600)
    assert 20 < len(creates(rig)) < 50
    assert told(rig) == ["nobody knows whether the last creates made instances: an internal error"]
    reason = rig.engine.why_waiting("c-9")
    assert reason is not None
    assert reason.code == "creates_held"
    rig.create_error = lambda _command: None
    rig.advance(120)
    assert told(rig) == []
    assert set(rig.states().values()) == {"running"}


def test_one_doubt_holds_nothing_and_those_that_were_under_way_with_it_are_no_others() -> None:
    rig = doubtful()
    rig.submit(*(make_container(number) for number in (1, 2, 3)))
    assert (len(creates(rig)), holds(rig)) == (3, [])
    assert told(rig) == []
    rig.advance(1)
    rig.submit(make_container(4))
    assert (len(creates(rig)), holds(rig)) == (4, [HoldCause.ERROR])


def test_a_create_that_succeeds_ends_the_row() -> None:
    rig = doubtful()
    rig.submit(make_container(1))
    rig.advance(1)
    rig.create_error = lambda _command: None
    rig.submit(make_container(2))
    rig.advance(1)
    rig.create_error = lambda _command: AmbiguousResult("time-out")
    rig.submit(make_container(3))
    assert (len(creates(rig)), holds(rig)) == (3, [])


def in_doubt(rig: Rig, number: int) -> CreateInstance:
    """Submit a container for which a create is under way."""
    rig.submit(make_container(number))
    assert len(creates(rig)) == number
    return creates(rig)[-1]


def doubt(rig: Rig, create: CreateInstance) -> None:
    """Answer a create with a doubt."""
    error = AmbiguousResult("time-out")
    rig.send(CreateFailed(op_id=create.op_id, token=create.launch.token, error=error))


def show(rig: Rig, create: CreateInstance) -> None:
    """Let the next listing show what a create made."""
    rig.boot("t1", longshore_token=create.launch.token)


def test_a_create_in_doubt_whose_instance_is_listed_was_made() -> None:
    rig = Rig(make_type(1))
    rig.silent.add(CreateInstance)
    made = in_doubt(rig, 1)
    doubt(rig, made)
    show(rig, made)
    rig.advance(3)
    assert rig.states() == {"c-1": "running"}
    doubt(rig, in_doubt(rig, 2))
    assert holds(rig) == []


def test_so_was_one_whose_instance_is_listed_before_its_answer_leaves_a_doubt() -> None:
    rig = Rig(make_type(1))
    rig.silent.add(CreateInstance)
    doubt(rig, in_doubt(rig, 1))
    rig.advance(1)
    made = in_doubt(rig, 2)
    show(rig, made)
    rig.advance(3)
    assert set(rig.worker_states().values()) == {"running"}
    doubt(rig, made)
    doubt(rig, in_doubt(rig, 3))
    assert holds(rig) == []


def test_a_create_that_is_under_way_has_not_succeeded_because_its_instance_comes_and_goes() -> None:
    """It was the one trial after an error, and another was begun beside it."""
    World(options_of(11679)).run()


def test_what_was_in_doubt_long_ago_begins_no_row_unless_errors_went_on() -> None:
    doubts = AmbiguousCreates(forgotten_after_s=900)
    assert doubts.begins_row("t1", began_at=0, holding=False, now=0)
    assert doubts.begins_row("t2", began_at=5, holding=False, now=5), "another type's"
    assert not doubts.begins_row("t1", began_at=899, holding=False, now=899)
    assert not doubts.begins_row("t1", began_at=900, holding=True, now=900)
    assert doubts.begins_row("t1", began_at=900, holding=False, now=900)
    assert not doubts.begins_row("t1", began_at=901, holding=False, now=901)


def test_a_success_that_began_before_the_doubt_ends_no_row() -> None:
    doubts = AmbiguousCreates(forgotten_after_s=900)
    doubts.begins_row("t1", began_at=0, holding=False, now=10)
    doubts.ended("t1", began_at=9)
    assert not doubts.begins_row("t1", began_at=11, holding=False, now=12)
    doubts.ended("t1", began_at=10)
    doubts.ended("t1", began_at=10)
    assert doubts.begins_row("t1", began_at=13, holding=False, now=14)
