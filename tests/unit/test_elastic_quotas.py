"""Elastic jobs and the account's quotas: nothing is created without end for a job above one."""

from __future__ import annotations

from collections.abc import Callable

from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from longshore.dispatcher.domain.containers import Constraints, ElasticSettings, SchedulerSettings
from longshore.dispatcher.domain.jobs import ElasticMode
from longshore.drivers.errors import CloudError, ErrorScope, QuotaError
from longshore.pool.messages import CreateInstance
from longshore.pool.model import PoolSettings
from tests.rigs.elastic_jobs import essential, running, submit
from tests.rigs.engine import Rig
from tests.samples import make_type

HOUR_S = 3600.0
LONGEST_S = 3600.0
MOST_TRIALS = 6
"""How often, after the first error, it is tried in an hour: after 60 s, 120 s, …, 1,920 s."""


def rig_with(
    *cpus: int,
    refuses: Callable[[Rig, CreateInstance], CloudError | None],
    idle_s: float = 60,
    backfill: bool = False,
    groups: dict[str, str] | None = None,
) -> Rig:
    """Return an engine without instances, some of whose creates the cloud refuses."""
    rig = Rig(
        *(make_type(each) for each in cpus),
        pool=PoolSettings(idle_timeout_s=idle_s),
        settings=SchedulerSettings(
            max_instances=100, max_price_factor=1000, elastic=ElasticSettings(backfill=backfill)
        ),
        quota_groups=groups,
    )
    rig.create_error = lambda command: refuses(rig, command)
    return rig


def quota(most: int) -> Callable[[Rig, CreateInstance], CloudError | None]:
    """Return a cloud's refusal of more instances than `most` of all types."""
    return lambda rig, _command: QuotaError("no more") if len(rig.cloud) >= most else None


def billed_s(rig: Rig, seconds: float) -> float:
    """Return for how long instances were there, added up, while some time goes by."""
    found = 0.0
    for _ in range(int(seconds / 5)):
        rig.advance(5)
        found += 5 * len(rig.cloud)
    return found


def only(name: str) -> Constraints:
    return Constraints(instance_types=(name,))


def test_a_job_above_the_quota_costs_little_however_long_it_waits() -> None:
    rig = rig_with(4, refuses=quota(5))
    submit(rig, 1, essential(24))
    assert billed_s(rig, HOUR_S) < 5 * HOUR_S / 50
    assert len(rig.created_types()) <= (MOST_TRIALS + 1) * 8
    why = rig.engine.why_waiting("c-1000")
    assert why is not None
    assert why.code == "no_room"
    assert "the cloud's quota is too small" in why.message
    assert "by its last error there may be 5 instances (no more)" in why.message
    assert why.until is not None
    assert rig.now < why.until <= rig.now + LONGEST_S


def test_when_the_quota_is_raised_the_job_begins_within_the_longest_delay() -> None:
    rig = rig_with(4, refuses=quota(3))
    submit(rig, 1, essential(16))
    rig.advance(HOUR_S)
    rig.create_error = lambda _command: None
    rig.advance(LONGEST_S)
    assert running(rig) == {"e": 16}


def test_what_was_created_in_vain_goes_at_once_whatever_the_idle_timeout() -> None:
    rig = rig_with(4, refuses=quota(5), idle_s=86400)
    submit(rig, 1, essential(24, cpus=2))
    rig.advance(20)
    assert len(rig.created_types()) > 5
    assert len(rig.cloud) == 0


def test_a_job_that_is_within_the_quota_goes_ahead_of_one_above_it_with_backfill() -> None:
    rig = rig_with(4, refuses=quota(3), backfill=True)
    submit(rig, 1, essential(16))
    rig.advance(30)
    submit(rig, 2, essential(12))
    rig.advance(90)
    assert running(rig, 2) == {"e": 12}
    assert running(rig) == {}


def test_where_others_have_all_of_the_quota_one_refused_create_a_minute_is_the_price() -> None:
    rig = rig_with(4, refuses=quota(3))
    submit(rig, 1, essential(12))
    submit(rig, 2, essential(8))
    rig.advance(30)
    before = len(rig.created_types())
    rig.advance(600)
    assert 5 <= len(rig.created_types()) - before <= 11
    assert running(rig) == {"e": 12}
    rig.create_error = lambda _command: None
    rig.advance(70)
    assert running(rig, 2) == {"e": 8}


def test_nothing_of_other_types_is_created_for_a_job_one_of_whose_types_is_not_to_be_had() -> None:
    def refuses(_rig: Rig, command: CreateInstance) -> CloudError | None:
        is_large = command.launch.type_name == "t16"
        return QuotaError("none of these", scope=ErrorScope.TYPE) if is_large else None

    rig = rig_with(4, 16, refuses=refuses)
    tasks = (essential(8, "a", constraints=only("t4")), essential(1, "b", constraints=only("t16")))
    submit(rig, 1, *tasks)
    rig.advance(30)
    assert billed_s(rig, HOUR_S) == 0
    assert rig.created_types().count("t4") == 2
    assert rig.created_types().count("t16") > 30
    rig.create_error = lambda _command: None
    rig.advance(90)
    assert running(rig) == {"a": 8, "b": 1}


def test_a_quota_of_a_group_counts_the_instances_of_all_its_types() -> None:
    rig = rig_with(2, 4, refuses=quota(3), groups={"t2": "g", "t4": "g"})
    tasks = (essential(4, "a", constraints=only("t2")), essential(8, "b", constraints=only("t4")))
    submit(rig, 1, *tasks)
    assert billed_s(rig, HOUR_S) < 3 * HOUR_S / 50
    why = rig.engine.why_waiting("c-1000")
    assert why is not None
    assert "3 instances of t2, t4 (no more)" in why.message


def test_where_the_quota_of_a_group_allows_too_few_a_larger_one_of_it_is_created() -> None:
    groups = {"t1": "g", "t2": "g", "t4": "g"}
    rig = rig_with(1, 2, 4, refuses=quota(1), groups=groups)
    submit(rig, 1, essential(3, cpus=0.75))
    rig.advance(300)
    assert running(rig) == {"e": 3}
    assert rig.created_types()[-1] == "t4"


def test_no_instance_stands_by_for_a_job_behind_one_above_the_quota() -> None:
    rig = rig_with(2, refuses=quota(3), idle_s=10)
    for number, count in enumerate((30, 1), 1):
        submit(rig, number, essential(count), mode=ElasticMode.RIGID)
    assert billed_s(rig, 2500) < 300


@settings(max_examples=6, deadline=None, phases=[Phase.explicit, Phase.generate])
@given(
    most=st.integers(0, 4),
    cpus=st.lists(st.sampled_from((2, 4, 8)), min_size=1, max_size=2, unique=True),
    wanted=st.lists(st.integers(1, 40), min_size=1, max_size=3),
    mode=st.sampled_from(ElasticMode),
    backfill=st.booleans(),
    idle_s=st.sampled_from((10.0, 60.0, 600.0)),
)
def test_creates_that_lead_to_no_start_come_to_an_end(
    *,
    most: int,
    cpus: list[int],
    wanted: list[int],
    mode: ElasticMode,
    backfill: bool,
    idle_s: float,
) -> None:
    rig = rig_with(*cpus, refuses=quota(most), idle_s=idle_s, backfill=backfill)
    for number, count in enumerate(wanted, 1):
        submit(rig, number, essential(count), mode=mode)
    in_vain = 0.0
    for _ in range(int(HOUR_S / 10)):
        rig.advance(10)
        used = {a.instance_id for a in rig.attempts.values() if a.outcome is None}
        in_vain += 10 * len(rig.cloud.keys() - used)
    assert in_vain <= 30 * most * (MOST_TRIALS + 2) * len(wanted)
