"""What the simulation found of elastic jobs, each as the shortest story that leads there."""

from __future__ import annotations

from dataclasses import replace

from longshore.dispatcher.domain.containers import (
    Constraints,
    ElasticSettings,
    Preemptible,
    Profile,
    SchedulerSettings,
)
from longshore.dispatcher.domain.jobs import ElasticMode
from longshore.dispatcher.domain.messages import BehaviorRequested
from longshore.pool.messages import (
    CreateInstance,
    ListInstances,
    Probe,
    SessionLost,
    StartAttempt,
    StartRefused,
)
from longshore.pool.model import ExitKind, IdleBehavior, InstanceSeen, PoolSettings
from tests.rigs.elastic_jobs import (
    attempt_of,
    elastic,
    essential,
    rig_of,
    running,
    state_of,
    submit,
)
from tests.rigs.engine import Rig, last_commands
from tests.samples import make_type


def refuse(rig: Rig, start: StartAttempt, code: str) -> None:
    """Let an instance refuse a start."""
    rig.send(
        StartRefused(
            op_id=start.op_id,
            worker_id=start.worker_id,
            attempt_id=start.order.attempt_id,
            code=code,
            message="no",
        )
    )


def refuse_first(rig: Rig, code: str) -> None:
    """Submit a job of two members, of which the first is refused; the other is not answered."""
    rig.silent.add(StartAttempt)
    submit(rig, 1, essential(1, "a"), essential(1, "b"))
    refuse(rig, last_commands(rig, StartAttempt)[0], code)
    rig.silent.discard(StartAttempt)


def test_a_member_that_was_done_is_so_after_a_crash_though_clocks_were_set_back() -> None:
    """Seed 3: by the clock it had succeeded before its job began anew, and it ran again."""
    rig = rig_of(2)
    refuse_first(rig, "busy")
    rig.now -= 600
    rig.crash()
    rig.advance(120)
    assert running(rig) == {"a": 1, "b": 1}
    rig.exit(attempt_of(rig, 1000))
    rig.crash()
    rig.advance(120)
    assert running(rig) == {"b": 1}
    rig.exit(attempt_of(rig, 1001))
    assert state_of(rig) == "succeeded"


def test_no_member_of_an_elastic_job_waits_as_batch_work_would_after_a_crash() -> None:
    """Seed 169: one was held back that an overloaded instance had refused; the others started."""
    rig = rig_of(2)
    refuse_first(rig, "overloaded")
    rig.crash()
    waits = rig.engine.table.gates.reason(rig.engine.table.containers["c-1000"])
    assert waits is None


def test_nothing_is_created_in_place_of_what_a_job_beyond_all_limits_keeps() -> None:
    """Seeds 416, 857, 956: a job was found to be beyond them, and left the other one its room."""
    rig = rig_of(1, most=3, elastic=ElasticSettings(backfill=True))
    rig.silent.add(ListInstances)
    rig.crash()
    submit(rig, 1, essential(5))
    submit(rig, 2, essential(2))
    rig.silent.discard(ListInstances)
    rig.crash()
    rig.advance(60)
    assert running(rig, 2) == {"e": 2}
    assert len(rig.cloud) == 2


def test_a_member_that_is_refused_for_its_own_fault_while_it_is_to_end_fails_its_job() -> None:
    """Seeds 534, 593, 1140: it was to make way for the job's next start, and was tried again."""
    rig = rig_of(2)
    refuse_first(rig, "system")
    refuse(rig, last_commands(rig, StartAttempt)[1], "invalid")
    assert state_of(rig) == "failed: essential b cannot be started: no"
    assert len(last_commands(rig, StartAttempt)) == 2


def test_nobody_starts_of_a_job_that_lost_a_place_before_all_have_one_again() -> None:
    """Seeds 204, 439: those who still had places were started, though others had none."""
    rig = rig_of(2, 2)
    rig.silent |= {StartAttempt, CreateInstance}
    late = [essential(1, "late", order=1), essential(1, "big", order=1, cpus=2)]
    submit(rig, 1, essential(1, "early"), *late)
    lost = next(id_ for id_ in sorted(rig.cloud) if id_ != rig.started_on()["c-1000"])
    rig.send(BehaviorRequested(worker_id=lost, behavior=IdleBehavior.DRAIN))
    rig.silent.remove(StartAttempt)
    rig.start_now(last_commands(rig, StartAttempt)[-1])
    rig.advance(5)
    assert running(rig) == {"early": 1}
    rig.create_now(last_commands(rig, CreateInstance)[-1])
    rig.advance(5)
    assert running(rig) == {"early": 1, "late": 1, "big": 1}


def test_a_rigid_job_that_lost_a_place_before_it_started_starts_nothing_without_all() -> None:
    """Nobody's seed: its essential member started alone once somebody had made way for it."""
    rig = rig_of(2, 2, most=4)
    submit(rig, 1, essential(1, "first"), elastic(1, "gives"))
    tasks = essential(1, "e"), elastic(1, "large", cpus=2)
    submit(rig, 2, *tasks, mode=ElasticMode.RIGID)
    lost = next(id_ for id_ in sorted(rig.cloud) if id_ != rig.started_on()["c-1000"])
    rig.silent.add(CreateInstance)
    rig.send(BehaviorRequested(worker_id=lost, behavior=IdleBehavior.DRAIN))
    rig.exit(attempt_of(rig, 1001), code=143)
    rig.advance(5)
    assert running(rig, 2) == {}
    for command in last_commands(rig, CreateInstance):
        rig.create_now(command)
    rig.advance(5)
    assert running(rig, 2) == {"e": 1, "large": 1}


def test_room_of_who_was_told_to_end_by_a_user_is_not_kept_twice() -> None:
    """Seed 20011: it made way for another job too, and its room was kept beside what was free."""
    rig = rig_of(4)
    submit(rig, 1, essential(1), elastic(1))
    rig.set_priority("c-1001", 0)
    submit(rig, 2, essential(1, cpus=3))
    assert [room.cpu_millis for room in rig.engine.workloads.elastic.reservations.values()] == [
        2000
    ]
    rig.exit(attempt_of(rig, 1001), code=143)
    assert running(rig, 2) == {"e": 1}


def test_room_of_who_was_told_to_end_by_a_user_is_not_counted_twice() -> None:
    """Seed 8054: it was there for a job that waits once as free, and once as what is given back."""
    rig = rig_of(4)
    submit(rig, 1, essential(1), elastic(1))
    rig.set_priority("c-1001", 0)
    submit(rig, 2, essential(1, cpus=4))
    assert not rig.engine.workloads.elastic.reservations
    waits = rig.engine.why_waiting("c-2000")
    assert waits is not None
    assert waits.code == "no_room"
    assert rig.attempts[attempt_of(rig, 1001)].stop_reason.of == ""


def test_a_job_begins_where_its_room_was_counted_though_it_is_spread() -> None:
    """Seed 2747: two halves were spread over both instances, and none was left for who shares."""
    rig = rig_of(1, 1, profile=Profile.DISTRIBUTE_LOAD)
    submit(rig, 1, essential(1, "shares", cpus=0), essential(2, "half", cpus=0.5))
    assert running(rig) == {"shares": 1, "half": 2}


def test_who_makes_way_is_told_for_whom_though_others_begin_there_too() -> None:
    """Seed 293: it was told the first that began on its instance, for whom there was room."""
    rig = rig_of(5)
    submit(rig, 1, essential(1), elastic(2))
    submit(rig, 2, essential(1, cpus=5))
    submit(rig, 3, essential(1))
    submit(rig, 4, essential(1, cpus=2))
    rig.cancel("c-2000")
    assert running(rig, 3) == {"e": 1}
    told = [rig.attempts[attempt_of(rig, number)].stop_reason.of for number in (1001, 1002)]
    assert told == ["", "j-4"]


def test_nothing_is_created_beside_what_a_job_behind_lets_go() -> None:
    """Seed 7493: what one kept that had no place left went to another, for which one was bought."""
    rig = Rig(make_type(1), settings=SchedulerSettings(max_containers=3))
    rig.silent.add(CreateInstance)
    submit(rig, 2, essential(2))
    submit(rig, 1, essential(2))
    creates = last_commands(rig, CreateInstance)
    assert len(creates) == 2
    rig.create_now(creates[0])
    rig.advance(1)
    assert len(last_commands(rig, CreateInstance)) == 2
    rig.create_now(creates[1])
    rig.advance(60)
    assert running(rig, 1) == {"e": 2}


def test_what_a_job_lets_go_is_had_by_one_behind_it_though_nobody_lacks_anything() -> None:
    """Nobody's seed: an instance that one had no use for any more stood by while another waited."""
    rig = rig_of(2, most=3, max_containers=3, elastic=ElasticSettings(backfill=True))
    submit(rig, 3, essential(1))
    rig.silent.add(CreateInstance)
    rig.advance(1)  # what was first seen at that moment would stand for what is created
    submit(rig, 2, essential(2, cpus=2))
    submit(rig, 4, essential(1, cpus=2))
    rig.create_now(last_commands(rig, CreateInstance)[0])
    rig.advance(1)
    assert running(rig, 4) == {}
    submit(rig, 1, essential(1))
    assert running(rig, 1) == {"e": 1}
    assert running(rig, 4) == {"e": 1}


def test_room_of_who_makes_way_is_not_given_away_when_it_is_planned_anew() -> None:
    """Nobody's seed: it died for a job whose place the next plan of that pass gave to another."""
    rig = rig_of(5, most=4, max_containers=5, elastic=ElasticSettings(backfill=True))
    submit(rig, 3, essential(1), elastic(1))
    rig.silent.add(CreateInstance)
    rig.advance(1)  # what was first seen at that moment would stand for what is created
    submit(rig, 2, essential(3, cpus=5))
    submit(rig, 4, essential(1))
    submit(rig, 1, essential(2, cpus=2))
    assert rig.attempts[attempt_of(rig, 3001)].stop_reason.of == "j-1"
    rig.exit(attempt_of(rig, 3001), code=143)
    assert running(rig, 1) == {"e": 2}
    assert running(rig, 4) == {}


def test_a_rigid_job_that_begins_anew_waits_for_who_died_again_and_again() -> None:
    """Nobody's seed: its elastic member was to rest for a minute, and was started with the job."""
    rig = rig_of(2)
    submit(rig, 1, essential(1), elastic(1), mode=ElasticMode.RIGID)
    for _ in range(5):
        rig.advance(10)
        rig.exit(attempt_of(rig, 1001), code=1)
    rig.exit(attempt_of(rig, 1000), kind=ExitKind.LOST)
    rig.advance(7)
    assert running(rig) == {}
    waits = rig.engine.why_waiting("c-1000")
    assert waits is not None
    assert waits.message.startswith("it begins with all components, and one that died is placed")
    rig.advance(2)
    assert running(rig) == {"e": 1, "w": 1}


def test_a_job_that_lost_whom_it_needs_too_often_fails_though_the_instance_is_there() -> None:
    """Seeds 7057, 7540: its member had run and was gone, and was taken for one that never did."""
    rig = rig_of(1, max_lost_attempts=1)
    submit(rig, 1, essential(1))
    assert running(rig) == {"e": 1}
    there = rig.started_on()["c-1000"]
    del rig.on_instance[there]["c-1000-1"]
    rig.send(SessionLost(worker_id=there, last_contact=rig.now, reason="reset"))
    rig.advance(60)
    assert state_of(rig).startswith("failed: essential e was lost (")
    assert there in rig.cloud


def test_who_was_cancelled_is_no_member_of_a_job_that_begins_anew() -> None:
    """Crowded seed 1251: it had a place again, and another job began in the room it gave back."""
    rig = rig_of(2, most=2)
    submit(rig, 1, essential(1), elastic(1))
    rig.cancel("c-1001")
    rig.exit(attempt_of(rig, 1001), code=143)
    rig.exit(attempt_of(rig, 1000), kind=ExitKind.LOST)
    rig.advance(60)
    assert running(rig, 1) == {"e": 1}
    rig.silent.add(CreateInstance)
    submit(rig, 2, essential(2))
    assert running(rig, 2) == {}, "there is room for one of them"
    rig.silent.discard(CreateInstance)
    rig.create_now(last_commands(rig, CreateInstance)[0])
    rig.advance(60)
    assert running(rig, 2) == {"e": 2}


def test_the_place_of_who_ends_on_an_instance_that_takes_no_work_is_free_soon_too() -> None:
    """Nobody's seed: it was not counted, and an elastic member made way for its place."""
    rig = rig_of(2, 3, max_containers=3)
    submit(rig, 1, essential(1), elastic(2))
    where = rig.started_on()
    assert where["c-1000"] == where["c-1001"] != where["c-1002"]
    rig.cancel("c-1001")
    rig.send(BehaviorRequested(worker_id=where["c-1001"], behavior=IdleBehavior.HOLD))
    submit(rig, 2, essential(1, cpus=2))
    assert rig.attempts[attempt_of(rig, 1002)].intended_outcome is None
    rig.exit(attempt_of(rig, 1001), code=143)
    assert running(rig, 2) == {"e": 1}


def test_nothing_is_created_for_whom_there_is_room_as_soon_as_those_before_him_have_theirs() -> (
    None
):
    """Seed 183: he could not begin where all others were set aside; he could where one made way."""
    spot = replace(make_type(2, name="spot", price="0.1", preemptible=True), provider_type="p2s")
    settings = SchedulerSettings(max_price_factor=1000, elastic=ElasticSettings(backfill=True))
    pool = PoolSettings(idle_timeout_s=86400)
    rig = Rig(make_type(2), spot, pool=pool, settings=settings, listed=False)
    rig.boot("spot")
    rig.boot("t2")
    lasting = Constraints(preemptible=Preemptible.FORBIDDEN)
    gives = elastic(2, cpus=0.5, constraints=lasting)
    submit(rig, 1, essential(1, constraints=lasting), gives)
    takes = essential(1, "b", cpus=0.5, constraints=lasting)
    submit(rig, 2, essential(1, "a", cpus=0.5), takes)
    rig.silent.discard(ListInstances)
    rig.list_now(last_commands(rig, ListInstances)[0].op_id)
    rig.settle()
    assert running(rig, 1) == {"e": 1, "w": 1}
    assert running(rig, 2) == {"a": 1, "b": 1}
    assert rig.created_types() == []


def test_who_made_way_stays_if_one_more_makes_way_and_that_leaves_room_for_both() -> None:
    """Seed 19967: new elastic members had the room of one who was told to end for somebody."""
    rig = rig_of(6, elastic=ElasticSettings(backfill=True))
    submit(rig, 1, essential(1), elastic(1, "large", cpus=3))
    submit(rig, 2, essential(1), elastic(1, "small", cpus=0.5))
    rig.silent.add(ListInstances)
    rig.crash()
    submit(rig, 3, essential(1, cpus=0.75))
    submit(rig, 4, essential(1, cpus=2.75))
    rig.silent.discard(ListInstances)
    rig.crash()
    rig.advance(60)
    told = [rig.attempts[attempt_of(rig, number)].stop_reason.of for number in (1001, 2001)]
    assert told == ["j-4", ""]
    rig.exit(attempt_of(rig, 1001), code=143)
    assert running(rig, 3) == running(rig, 4) == {"e": 1}


def test_a_rigid_job_of_which_one_was_cancelled_begins_with_all_that_are_left() -> None:
    """Nobody's seed: it began without one that lost its place, since another was over already."""
    rig = rig_of(2, 2, 2, 2)
    submit(rig, 1, essential(1, cpus=2), elastic(3, cpus=1.5))
    tasks = essential(1, cpus=2), elastic(2, cpus=2)
    submit(rig, 2, *tasks, mode=ElasticMode.RIGID, held=True)
    rig.cancel("c-2001")
    rig.hold_job("j-2", held=False)
    told = [attempt_of(rig, number) for number in (1001, 1002, 1003)]
    told = [
        attempt_id for attempt_id in told if rig.attempts[attempt_id].intended_outcome is not None
    ]
    assert len(told) == 2
    waits = rig.engine.why_waiting("c-2002")
    assert waits is not None
    where = next(id_ for id_ in rig.cloud if f"on {id_}," in waits.message)
    rig.send(BehaviorRequested(worker_id=where, behavior=IdleBehavior.HOLD))
    for attempt_id in told:
        rig.exit(attempt_id, code=143)
    assert running(rig, 2) == {"e": 1}
    waits = rig.engine.why_waiting("c-2002")
    assert waits is not None
    assert waits.code == "has_place"


def test_who_had_room_elsewhere_does_not_take_what_was_created_for_one_behind_him() -> None:
    """Seed 14799: one more was created for that one, by each plan in which a larger one came."""
    spot = replace(make_type(2, name="spot", price="0.1", preemptible=True), provider_type="p2s")
    spread = SchedulerSettings(max_price_factor=1000, profile=Profile.DISTRIBUTE_LOAD)
    rig = Rig(make_type(2), spot, settings=spread)
    rig.silent |= {CreateInstance, Probe}
    submit(rig, 1, essential(1), elastic(1), scale_up=True)
    lasting = Constraints(preemptible=Preemptible.FORBIDDEN)
    submit(rig, 2, essential(1, cpus=2), elastic(1, cpus=2, constraints=lasting), scale_up=True)
    wanted = ["spot", "spot", "t2"]
    assert rig.created_types() == wanted
    for number, create in enumerate(last_commands(rig, CreateInstance), 1):
        id_ = f"i-{number}"
        rig.cloud[id_] = InstanceSeen(id=id_, address=f"{id_}:22", tags=create.tags)
        rig.on_instance[id_] = {}
    rig.advance(60)
    assert sorted(rig.engine.pool.workers) == ["i-1", "i-2", "i-3"]
    rig.silent.clear()
    for probe in last_commands(rig, Probe):
        rig.probe_now(probe)
        rig.settle()
    assert rig.created_types() == wanted
    assert running(rig, 1) == running(rig, 2) == {"e": 1, "w": 1}


def test_what_is_created_is_for_what_jobs_need_first_once_those_before_have_their_room() -> None:
    """Seed 9235: an elastic member had it, while those behind were taken to wait for limits."""
    rig = rig_of(4, 4, most=4)
    submit(rig, 1, essential(1, cpus=4), elastic(1, cpus=4), scale_up=True)
    assert running(rig, 1) == {"e": 1, "w": 1}
    rig.silent.add(Probe)
    for number, count in ((2, 2), (3, 2), (4, 1)):
        submit(rig, number, essential(count, cpus=4))
    gone = rig.started_on()["c-1001"]
    del rig.cloud[gone], rig.on_instance[gone]
    rig.advance(70)
    assert running(rig, 1) == {"e": 1}
    assert len(rig.created_types()) == 2
    rig.cancel_job("j-2")
    assert len(rig.created_types()) == 3
    rig.silent.discard(Probe)
    for probe in last_commands(rig, Probe)[-5:]:
        rig.probe_now(probe)
    rig.advance(60)
    assert running(rig, 3) == {"e": 2}
    assert running(rig, 4) == {"e": 1}
    assert running(rig, 1) == {"e": 1}
