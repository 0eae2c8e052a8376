"""Holds of creates on literal times: causes, scopes, doubling, trials, and when they end."""

from __future__ import annotations

import pytest

from longshore.drivers.errors import (
    CapacityError,
    CloudAuthError,
    CloudError,
    ErrorScope,
    QuotaError,
    RateLimitError,
)
from longshore.pool.backoff import CallDelay
from longshore.pool.create_backoff import CreateBackoff
from longshore.pool.holds import (
    EVERYTHING,
    CreateBlock,
    CreateBlockKind,
    HoldCause,
    InstanceCounts,
    Scope,
)
from longshore.pool.model import PoolSettings
from tests.samples import make_type

T1, T2 = make_type(1), make_type(2)
SPOT = make_type(1, name="spot", preemptible=True)
GPU = make_type(4, name="gpu")
TYPES = {type_.name: type_ for type_ in (T1, T2, SPOT, GPU)}
GROUPS = {"t1": "standard", "t2": "standard", "spot": "standard", "gpu": "gpu"}
SETTINGS = PoolSettings(quota_hold_s=90, capacity_hold_s=60)


class Cloud:
    """Holds over four types, of which creates fail at literal times."""

    def __init__(self, *, grouped: bool = True) -> None:
        self.instances = 0
        self.cpu_millis = 0
        self.instances_of_size: int | None = None
        self.holds = CreateBackoff(
            settings=SETTINGS, types=TYPES, groups=GROUPS if grouped else {"t1": ""}
        )

    def fail(self, error: CloudError, *, at: float, began: float, type_name: str = "t1") -> None:
        self.holds.failed(TYPES[type_name], error, began_at=began, tally=self.tally, now=at)

    def tally(self, scope: Scope, coming: int = 0) -> InstanceCounts:
        there = self.instances
        if scope.cpu_millis_from is not None and self.instances_of_size is not None:
            there = self.instances_of_size
        cpu_millis = self.cpu_millis or 1000 * there
        return InstanceCounts(there=there, there_cpu_millis=cpu_millis, coming=coming)

    def fail_in_a_row(self, error: CloudError, times: int) -> list[float]:
        """Let each trial fail when the hold ends; return how long each hold was."""
        lengths, now = [], 0.0
        for _ in range(times):
            self.fail(error, at=now, began=now)
            end = self.holds.next_end(now)
            assert end is not None
            lengths.append(end - now)
            now = end
        return lengths

    def create_block(self, type_name: str, now: float, *in_flight: str) -> CreateBlock | None:
        flying = [TYPES[name] for name in in_flight]

        def tally(scope: Scope) -> InstanceCounts:
            coming = sum(self.holds.covers(scope, type_) for type_ in flying)
            return self.tally(scope, coming)

        return self.holds.create_block(
            TYPES[type_name], in_flight=flying, unproven=False, tally=tally, now=now
        )

    def number(self, type_name: str, now: float) -> tuple[int, bool]:
        """Return how many of a type the one quota that is known of allows, and if that is tried."""
        (found,) = self.holds.allowances(TYPES[type_name], tally=self.tally, now=now).values()
        return found.number, found.is_trial

    def held_beside(self, *in_flight: str, now: float) -> list[str]:
        return [name for name in TYPES if self.create_block(name, now, *in_flight) is not None]

    def held(self, now: float) -> list[str]:
        return [name for name in TYPES if self.create_block(name, now) is not None]


# ---- how far a hold reaches ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("error", "grouped", "held"),
    [
        (QuotaError("q", scope=ErrorScope.TYPE), True, ["t1"]),
        (QuotaError("q"), False, ["t1", "t2", "spot", "gpu"]),
        (QuotaError("q"), True, ["t1", "t2"]),
        (CapacityError("c"), True, ["t1"]),
        (CapacityError("c", scope=ErrorScope.GROUP), True, ["t1", "t2"]),
        (CapacityError("c", scope=ErrorScope.GROUP), False, ["t1", "t2", "gpu"]),
        (CapacityError("c", scope=ErrorScope.ALL), True, ["t1", "t2", "spot", "gpu"]),
        (RateLimitError("r"), True, ["t1", "t2", "spot", "gpu"]),
        (CloudAuthError("a"), True, ["t1", "t2", "spot", "gpu"]),
        (CloudError("e"), True, ["t1", "t2", "spot", "gpu"]),
    ],
)
def test_each_error_holds_the_types_that_it_speaks_of(
    error: CloudError, grouped: bool, held: list[str]
) -> None:
    cloud = Cloud(grouped=grouped)
    cloud.fail(error, at=0, began=0)
    assert cloud.held(0.4) == held


def test_types_without_a_group_share_a_limit_of_their_own_whatever_their_market() -> None:
    types = {**TYPES, "own": make_type(8, name="own", preemptible=True)}
    holds = CreateBackoff(settings=SETTINGS, types=types, groups={"gpu": "gpu"})
    holds.failed(
        T1, QuotaError("q"), began_at=0, tally=lambda _scope: InstanceCounts(there=1), now=0
    )
    held = [
        n
        for n, t in types.items()
        if holds.create_block(
            t, in_flight=(), unproven=False, tally=lambda _: InstanceCounts(there=1), now=1
        )
        is not None
    ]
    assert held == ["t1", "t2", "spot", "own"]


def test_a_create_block_says_what_when_and_whom_it_concerns() -> None:
    cloud = Cloud()
    cloud.instances = 8
    cloud.fail(QuotaError("32 vcpus at most"), at=10, began=9)
    assert cloud.create_block("t2", 11) == CreateBlock(
        kind=CreateBlockKind.QUOTA,
        message="32 vcpus at most",
        until=100,
        covers=frozenset({"t1", "t2"}),
        everywhere=False,
        topic="quota QuotaError",
    )
    cloud.fail(RateLimitError("slow"), at=20, began=9, type_name="gpu")
    found = cloud.create_block("gpu", 20)
    assert found is not None
    assert (found.kind, found.until, found.everywhere) == (CreateBlockKind.OTHER, 21, True)


def test_refused_credentials_say_what_to_mend_and_long_errors_are_cut() -> None:
    cloud = Cloud()
    cloud.fail(CloudAuthError("expired"), at=0, began=0)
    found = cloud.create_block("t1", 0.4)
    assert found is not None
    assert "mend" in found.message
    assert "expired" in found.message
    cloud.fail(CapacityError("x" * 9999), at=0, began=0)
    found = cloud.create_block("t1", 1)
    assert found is not None
    assert len(found.message) == 500


# ---- how long ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("error", "lengths"),
    [
        (RateLimitError("r"), [1, 2, 4, 8, 16, 32, 60, 60]),
        (RateLimitError("r", retry_after_s=7), [7, 7, 7]),
        (RateLimitError("r", retry_after_s=-5), [1, 1]),
        (RateLimitError("r", retry_after_s=float("nan")), [1, 1]),
        (RateLimitError("r", retry_after_s=1e9), [3600, 3600]),
        (CloudError("e"), [0.5, 0.5, 0.5, 1, 2, 4, 8, 16, 32, 60, 60]),
        (CapacityError("c"), [60, 120, 240, 480, 900, 900]),
        (CapacityError("c", scope=ErrorScope.GROUP), [60, 120, 240, 480, 900, 900]),
        (QuotaError("q"), [90, 90, 90]),
    ],
)
def test_what_fails_again_and_again_holds_longer_up_to_a_bound(
    error: CloudError, lengths: list[float]
) -> None:
    assert Cloud().fail_in_a_row(error, len(lengths)) == lengths


def test_errors_of_creates_that_were_under_way_together_count_once() -> None:
    cloud = Cloud()
    for at in (10.0, 10.0, 10.5, 11.0):
        cloud.fail(CapacityError("c"), at=at, began=9)
    assert cloud.holds.next_end(11) == 71
    hold = cloud.holds.of(HoldCause.CAPACITY, 11)
    assert hold is not None
    assert hold.since == 10
    cloud.fail(CapacityError("c"), at=72, began=71)
    assert cloud.holds.next_end(72) == 72 + 120


def test_a_shorter_hold_of_the_same_cause_shortens_none() -> None:
    cloud = Cloud()
    cloud.fail(RateLimitError("r", retry_after_s=30), at=0, began=0)
    cloud.fail(RateLimitError("r", retry_after_s=5), at=1, began=0)
    assert cloud.holds.next_end(1) == 30


def test_a_success_begins_the_delays_anew_but_not_one_that_began_before_the_failure() -> None:
    cloud = Cloud()
    assert cloud.fail_in_a_row(CloudError("e"), 4) == [0.5, 0.5, 0.5, 1]
    cloud.holds.succeeded(T2, began_at=0.4)
    cloud.fail(CloudError("e"), at=3.5, began=3.5)
    assert cloud.holds.next_end(3.5) == 3.5 + 2
    cloud.holds.succeeded(T1, began_at=7.6)
    cloud.fail(CloudError("e"), at=8, began=8)
    assert cloud.holds.next_end(8) == 8 + 0.5


def test_a_success_elsewhere_says_nothing_of_a_type_that_was_short() -> None:
    cloud = Cloud()
    cloud.fail_in_a_row(CapacityError("c"), 2)
    cloud.holds.succeeded(T2, began_at=180)
    cloud.fail(CapacityError("c"), at=180, began=180)
    assert cloud.holds.next_end(180) == 180 + 240


def test_after_a_quarter_of_an_hour_of_quiet_all_is_forgotten() -> None:
    cloud = Cloud()
    cloud.fail_in_a_row(CapacityError("c"), 3)
    assert cloud.create_block("t1", 420 + 899, "t1") is not None, "still on trial"
    assert cloud.create_block("t1", 420 + 900, "t1") is None
    cloud.fail(CapacityError("c"), at=420 + 900, began=420 + 900)
    assert cloud.holds.next_end(1320) == 1320 + 60


# ---- quota ---------------------------------------------------------------------------------------


def test_a_quota_keeps_nobody_from_as_many_as_there_were_when_it_refused() -> None:
    cloud = Cloud()
    cloud.instances = 3
    cloud.fail(QuotaError("3"), at=0, began=0)
    assert cloud.held(10) == ["t1", "t2"]
    cloud.instances = 2
    assert cloud.held(20) == [], "one has left"
    assert cloud.held_beside("t1", now=20) == ["t1", "t2"], "and its place is being taken"
    cloud.instances = 3
    assert cloud.held(30) == ["t1", "t2"], "it is taken"
    assert cloud.held(89.5) == ["t1", "t2"]
    assert cloud.held(90) == [], "if there may be more is tried"


def test_more_than_were_known_are_known_once_they_are_there_and_one_more_is_tried() -> None:
    cloud = Cloud()
    cloud.instances = 3
    cloud.fail(QuotaError("3"), at=0, began=0)
    assert cloud.number("t1", now=90) == (1, True)
    cloud.instances = 4
    cloud.holds.succeeded(T1, began_at=90)
    cloud.holds.quotas.made(T1, cloud.tally, began_at=90, now=91)
    assert cloud.number("t1", now=91) == (1, True), "not as many as one likes"
    cloud.fail(QuotaError("4"), at=92, began=91)
    cloud.instances = 2
    assert cloud.number("t1", now=93) == (2, False)


def test_one_that_was_refused_beside_what_came_meanwhile_is_not_tried_at_once() -> None:
    cloud = Cloud(grouped=False)
    cloud.instances, cloud.cpu_millis = 2, 8000
    cloud.fail(QuotaError("2"), at=0, began=0)
    cloud.instances, cloud.cpu_millis = 3, 5000
    cloud.holds.quotas.made(T1, cloud.tally, began_at=90, now=100)
    cloud.fail(QuotaError("3"), at=101, began=95, type_name="t2")
    assert cloud.number("t2", now=102) == (0, True), "three, with five cpus, were too many"
    cloud.cpu_millis = 4000
    assert cloud.number("t1", now=102) == (1, True), "one more, with no more cpus, may be allowed"


def test_nobody_knows_if_a_quota_counts_instances_or_cpus() -> None:
    """What both would allow is known to be allowed; what one of them would is tried at once."""
    cloud = Cloud(grouped=False)
    cloud.instances, cloud.cpu_millis = 3, 6000
    cloud.fail(QuotaError("3"), at=0, began=0)
    cloud.instances, cloud.cpu_millis = 2, 2000
    assert cloud.number("t2", now=1) == (1, False)
    assert cloud.number("t1", now=1) == (1, False), "four cpus are left, and one place"
    cloud.cpu_millis = 5000
    assert cloud.number("t2", now=1) == (1, True), "a larger one than has left"
    cloud.instances, cloud.cpu_millis = 3, 5000
    assert cloud.number("t1", now=1) == (1, True), "two small ones in the place of a large one"
    cloud.cpu_millis = 6000
    assert cloud.number("t1", now=1) == (0, True)


def test_a_quota_that_refuses_one_alone_holds_what_is_as_large_and_nothing_smaller() -> None:
    cloud = Cloud()
    cloud.fail(QuotaError("0"), at=0, began=0, type_name="t2")
    assert cloud.held(89.5) == ["t2"]
    found = cloud.create_block("t2", 1)
    assert found is not None
    assert (found.kind, found.until) == (CreateBlockKind.NONE_ALLOWED, 90)
    assert cloud.held(90) == []
    cloud.instances_of_size = 0
    cloud.instances = 5
    cloud.fail(QuotaError("0"), at=100, began=100, type_name="t2")
    assert cloud.held(101) == ["t2"], "smaller ones that are there tell nothing else"


def test_what_was_told_beside_others_is_told_of_a_size_when_none_is_left() -> None:
    cloud = Cloud()
    cloud.instances = 1
    cloud.fail(QuotaError("q"), at=0, began=0, type_name="t2")
    assert cloud.held(1) == ["t1", "t2"]
    cloud.instances = 0
    cloud.fail(QuotaError("q"), at=2, began=2, type_name="t2")
    assert cloud.held(3) == ["t2"]


def test_what_has_just_left_may_be_counted_still() -> None:
    cloud = Cloud()
    cloud.holds.instance_left(T2, 0)
    cloud.fail(QuotaError("q"), at=89, began=89, type_name="t2")
    assert cloud.held(90) == ["t1", "t2"]
    found = cloud.create_block("t2", 90)
    assert found is not None
    assert found.kind is CreateBlockKind.QUOTA
    cloud.fail(QuotaError("q"), at=180, began=180, type_name="t2")
    assert cloud.held(181) == ["t2"]


# ---- trials --------------------------------------------------------------------------------------


def test_when_a_hold_ends_one_create_is_tried_in_its_scope_until_one_succeeds() -> None:
    cloud = Cloud()
    cloud.fail(CapacityError("c", scope=ErrorScope.GROUP), at=0, began=0)
    scope = Scope(group="standard", preemptible=False)
    assert cloud.holds.allowances(T1, tally=cloud.tally, now=59) == {}, "it is held"
    assert list(cloud.holds.allowances(T1, tally=cloud.tally, now=60)) == [scope]
    assert cloud.holds.allowances(GPU, tally=cloud.tally, now=60) == {}
    assert cloud.create_block("t1", 60) is None
    found = cloud.create_block("t1", 60, "t2")
    assert found is not None
    assert (found.kind, found.until) == (CreateBlockKind.CAPACITY, None)
    assert cloud.create_block("t1", 60, "gpu") is None, "another scope"
    cloud.holds.succeeded(T2, began_at=60)
    assert cloud.holds.allowances(T1, tally=cloud.tally, now=61) == {}
    assert cloud.create_block("t1", 61, "t2") is None


def test_a_trial_after_a_quota_is_no_quota() -> None:
    cloud = Cloud(grouped=False)
    cloud.instances = 1
    cloud.fail(QuotaError("q"), at=0, began=0)
    found = cloud.create_block("gpu", 90, "t1")
    assert found is not None
    assert (found.kind, found.until) == (CreateBlockKind.OTHER, None)
    assert "one create is being tried" in found.message


def test_useless_instances_hold_creates_for_longer_and_longer() -> None:
    cloud = Cloud()
    lengths, now = [], 0.0
    for count in range(2, 15):
        cloud.holds.boot_failed(count=count, why="no python", now=now)
        end = cloud.holds.next_end(now)
        assert end is not None
        lengths.append(end - now)
        now = end
    assert lengths == [0.5, 1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 900, 900]
    assert list(cloud.holds.allowances(GPU, tally=cloud.tally, now=now)) == [EVERYTHING]


def test_what_a_useless_instance_says_of_itself_is_cut() -> None:
    cloud = Cloud()
    cloud.holds.boot_failed(count=2, why="x" * 4096, now=0)
    hold = cloud.holds.of(HoldCause.BOOT_FAILURE, 0)
    assert hold is not None
    assert hold.reason.startswith("the last 2 instances were of no use: xxx")
    assert len(hold.reason) == 500, "every waiting container shows it"


def test_each_cause_holds_on_its_own() -> None:
    cloud = Cloud()
    cloud.fail(RateLimitError("r", retry_after_s=30), at=0, began=0)
    cloud.fail(CloudError("e"), at=0, began=0)
    cloud.fail(CapacityError("c"), at=0, began=0)
    assert [h.cause for h in cloud.holds.active(0.4)] == [
        HoldCause.CAPACITY,
        HoldCause.RATE_LIMIT,
        HoldCause.ERROR,
    ]
    assert cloud.holds.next_end(0.4) == 0.5
    assert [h.cause for h in cloud.holds.active(0.5)] == [HoldCause.CAPACITY, HoldCause.RATE_LIMIT]
    assert cloud.held(30) == ["t1"]


def ends(cloud: Cloud, type_name: str, *, now: float) -> float:
    hold = next(h for h in cloud.holds.active(now) if h.scope == Scope(type_name=type_name))
    return hold.until


def test_a_type_that_fails_twice_in_a_row_is_held_a_moment_longer_than_the_others() -> None:
    cloud = Cloud()
    cloud.fail(CloudError("?"), at=0, began=0)
    assert cloud.held(0.5) == [], "one failure may be anything"
    cloud.fail(CloudError("?"), at=0.5, began=0.5)
    assert cloud.held(0.99) == ["t1", "t2", "spot", "gpu"]
    assert cloud.held(1.05) == ["t1"], "another is tried before it"
    assert cloud.held(1.11) == [], "and where no other would do it is not put off for long"
    cloud.holds.succeeded(T1, began_at=1.7)
    cloud.fail(CloudError("?"), at=2, began=2)
    assert cloud.held(2.5) == [], "its own success ends the row"


def test_once_others_are_known_to_work_its_errors_hold_a_type_alone_and_for_longer_each_time() -> (
    None
):
    cloud = Cloud()
    cloud.fail(CloudError("?"), at=0, began=0)
    cloud.holds.succeeded(T2, began_at=0.5)
    lengths, now = [], 1.0
    for _ in range(11):
        cloud.fail(CloudError("?"), at=now, began=now)
        assert cloud.held(now) == ["t1"], "the others go on"
        end = ends(cloud, "t1", now=now)
        lengths.append(round(end - now, 6))
        now = end
    assert lengths == [0.5, 0.5, 1, 2, 4, 8, 16, 32, 60, 60, 60]
    cloud.fail(CloudError("?"), at=now, began=now, type_name="gpu")
    assert cloud.held(now) == ["t1", "t2", "spot", "gpu"], "of another nobody knows it yet"
    cloud.holds.succeeded(T1, began_at=now + 1)
    cloud.fail(CloudError("?"), at=now + 2, began=now + 2)
    assert len(cloud.held(now + 2)) == 4, "it worked since: what fails now may be everything"


def test_that_another_was_being_made_already_says_nothing() -> None:
    cloud = Cloud()
    cloud.fail(CloudError("?"), at=5, began=4)
    cloud.holds.succeeded(T2, began_at=4.9)
    cloud.fail(CloudError("?"), at=6, began=6)
    assert len(cloud.held(6)) == 4


def test_a_type_is_held_for_hardly_longer_than_the_others_when_all_fail() -> None:
    cloud = Cloud()
    now = 0.0
    for number in range(40):
        cloud.fail(CloudError("?"), at=now, began=now, type_name=("t1", "t2")[number % 2])
        everything = next(h for h in cloud.holds.active(now) if h.scope == EVERYTHING)
        now = everything.until
    assert cloud.held(now + 0.11) == []


def test_creates_of_a_type_that_were_under_way_together_make_it_no_suspect() -> None:
    cloud = Cloud()
    for _ in range(10):
        cloud.fail(CloudError("?"), at=5, began=4)
    assert cloud.held(5.5) == []


def test_bad_credentials_are_no_fault_of_a_type_and_a_single_type_has_no_other_to_give_way_to() -> (
    None
):
    cloud = Cloud()
    for at in range(5):
        cloud.fail(CloudAuthError("who?"), at=at * 100, began=at * 100)
    assert [hold.scope for hold in cloud.holds.active(400)] == [EVERYTHING]
    alone = CreateBackoff(settings=SETTINGS, types={"t1": T1}, groups={})
    for at in range(5):
        alone.failed(T1, CloudError("?"), began_at=at * 100, tally=cloud.tally, now=at * 100)
    assert [hold.scope for hold in alone.active(400)] == [EVERYTHING]


# ---- other calls ---------------------------------------------------------------------------------


def test_calls_that_are_no_creates_wait_as_told_or_longer_each_time() -> None:
    hold, now = CallDelay(), 0.0
    lengths = []
    for error in [CloudError("?")] * 8 + [RateLimitError("slow", retry_after_s=17)]:
        hold.failed(error, now)
        hold.failed(error, now)
        lengths.append(hold.until - now)
        hold.succeeded(now)
        now = hold.until
    assert lengths == [1, 2, 4, 8, 16, 32, 60, 60, 17], "those under way together count once"
    hold.succeeded(now)
    hold.failed(CloudError("?"), now)
    assert hold.until == now + 1
