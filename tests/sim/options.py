"""What one run of the simulation is made of: all of it follows from the seed."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Any

import msgspec

from longshore.dispatcher.domain.containers import Placement, Profile, SchedulerSettings
from longshore.drivers.billing import BillingEnd, BillingStart
from longshore.drivers.simulated.parameters import (
    SimulatedBilling,
    SimulatedFaults,
    SimulatedParameters,
)
from longshore.pool.model import PoolSettings
from tests.samples import make_type
from tests.sim.elastic_options import with_elastic_jobs
from tests.sim.faults import Demand, DispatcherFaults, HostFaults
from tests.sim.job_options import with_jobs
from tests.sim.per_instance_options import with_per_instance_jobs
from tests.sim.plan_users import with_plans
from tests.sim.quiet_options import in_quiet
from tests.sim.timeline import Dice

LONGEST_DOWN_S = (3.0, 30.0)

#: Units of billed time and the least of it.
_UNITS_S = ((1, 0), (1, 60), (1, 600), (60, 0), (60, 600), (3600, 3600))

SPOT = replace(make_type(2, name="t2s", price="0.1", preemptible=True), provider_type="p2s")
DEFAULTS = (("cpus", 1500), ("memory", 2**30))
TYPES = (make_type(1), make_type(2, defaults=DEFAULTS), make_type(4), SPOT)


@dataclass(frozen=True, slots=True, kw_only=True)
class SimOptions:
    """One run. `limits_change_every_s` is how often quota and capacity change (0: never).

    Of the cloud's calls, `hanging_calls` never answer; a share (`flickers`) of sights of instances
    is missing from listings though earlier ones had them; others change tags (`meddled_every_s`).
    Every `old_flickers_every_s` an instance of any age, or all of them, is missing from listings
    for up to `longest_flicker_s`, and the cloud does not know its id, often as its session drops.
    The account has `foreign` instances of others, which `unfiltered_listings` show too, and of ours
    `unconfigured` and `left_over` ones. In the calm memory is kept but if it `restarts_in_calm`.
    Somebody stops an instance every `stops_every_s`; of sights of others a share says so wrongly
    (`wrongly_stopped`).
    Of quota groups that are `forbidden` there may be none, from a time on until another.
    """

    seed: int
    safety_s: float
    demand: Demand
    hosts: HostFaults
    dispatcher: DispatcherFaults
    cloud: SimulatedParameters
    pool: PoolSettings
    scheduler: SchedulerSettings
    limits_change_every_s: float = 0.0
    hanging_calls: float = 0.0
    driver_verifies_keys: bool = False
    powers_off: bool = True
    foreign: int = 0
    unconfigured: int = 0
    left_over: int = 0
    unfiltered_listings: bool = False
    flickers: float = 0.0
    meddled_every_s: float = 0.0
    old_flickers_every_s: float = 0.0
    longest_flicker_s: float = 0.0
    restarts_in_calm: bool = True
    forbidden: tuple[str, ...] = ()
    forbidden_from_s: float = 0.0
    allowed_after_s: float = 0.0
    stops_every_s: float = 0.0
    wrongly_stopped: float = 0.0
    pace: float = 1.0

    def described(self) -> str:
        """Return what differs from a run in which nothing goes wrong, one line a part."""
        lines = [f"seed {self.seed}, safety for {self.safety_s:.0f} s"]
        parts = ("demand", "hosts", "dispatcher", "cloud", "pool", "scheduler")
        lines += [f"  {name}: {getattr(self, name)}" for name in parts]
        rest = (
            "limits_change_every_s",
            "hanging_calls",
            "driver_verifies_keys",
            "powers_off",
            "foreign",
            "unconfigured",
            "left_over",
            "unfiltered_listings",
            "flickers",
            "meddled_every_s",
            "old_flickers_every_s",
            "longest_flicker_s",
            "restarts_in_calm",
            "forbidden",
            "forbidden_from_s",
            "allowed_after_s",
            "stops_every_s",
            "wrongly_stopped",
        )
        lines.append("  " + ", ".join(f"{name}={getattr(self, name)}" for name in rest))
        return "\n".join(lines)


def options_of(seed: int) -> SimOptions:
    """Return the run that a seed stands for: each fault is there in some runs, mixed at random."""
    dice, rarer = Dice(seed, "options"), Dice(seed, "rarer options")
    options = SimOptions(
        seed=seed,
        safety_s=dice.between(150, 700),
        demand=_demand(dice, rarer),
        hosts=replace(_hosts(dice, rarer), foreign_strays_every_s=_foreign_strays(seed)),
        dispatcher=_dispatcher(dice, rarer),
        cloud=_cloud(dice, rarer),
        pool=_pool(dice, rarer),
        scheduler=_scheduler(dice),
        limits_change_every_s=_every(dice, 80),
        hanging_calls=_share(dice, 0.05),
        driver_verifies_keys=dice.falls(0.35),
        powers_off=dice.falls(0.8),
        foreign=dice.whole(0, 2),
        unconfigured=dice.whole(0, 2),
        unfiltered_listings=dice.falls(0.5),
        flickers=_share(rarer, 0.3),
        meddled_every_s=_every(rarer, 100),
        left_over=rarer.whole(0, 2),
        restarts_in_calm=rarer.falls(0.5),
    )
    options = _worse(options, Dice(seed, "worse options"))
    options = _scheduling(options, Dice(seed, "scheduling options"))
    options = _lacking(options, Dice(seed, "flicker"))
    options = _refusing(options, Dice(seed, "refused options"))
    if Dice(seed, "impossible options").falls(0.15):
        faults = msgspec.structs.replace(options.cloud.faults, impossible_types=("p1",))
        cloud = msgspec.structs.replace(options.cloud, faults=faults)
        options = replace(options, cloud=cloud)
    options = _taking_back(options, Dice(seed, "interrupted options"))
    options = _on_spot(options, Dice(seed, "spot options"))
    if (swallowing := Dice(seed, "swallowing options")).falls(0.1):
        share = swallowing.between(0.1, 0.5)
        options = replace(options, hosts=replace(options.hosts, swallowing=share))
        options = _alone(options, Dice(seed, "lonely options"))
    options = _unpulling(options, Dice(seed, "unpulling options"))
    right = options.restarts_in_calm or not options.dispatcher.clock_steps_s
    demand = with_jobs(options.demand, Dice(seed, "job options"), clock_is_right=right)
    asked = with_per_instance_jobs(demand, options.scheduler, seed)
    options = in_quiet(options, *with_elastic_jobs(*asked, seed))
    options = _smaller(options, Dice(seed, "small machines"))
    options = _stopping(options, Dice(seed, "stopped instances"))
    options = _holding(options, Dice(seed, "timed holds"))
    options = _billing(options, Dice(seed, "billing"))
    return replace(options, demand=with_plans(options.demand, seed))


def _worse(options: SimOptions, dice: Dice) -> SimOptions:
    """Return a run in which, now and then, faults come close together: some need each other."""
    hosts = replace(options.hosts, partitions_every_s=_every(dice, 60))
    demand = replace(options.demand, alike=_share(dice, 1.0))
    faults = options.cloud.faults
    if dice.falls(0.25):
        # News of starts crosses with lists of what runs.
        hosts = replace(
            hosts,
            late_lists=0.9,
            late_orders=0.7,
            drops_at_starts=0.2,
            slow_answers=0.2,
            drops_every_s=15.0,
        )
        demand = replace(
            demand,
            longest_run_s=dice.between(2, 30),
            behaviors_every_s=20.0,
            cancels_every_s=20.0,
        )
        faults = msgspec.structs.replace(faults, breaking=0.6, longest_life_s=100.0)
    if dice.falls(0.15):
        faults = msgspec.structs.replace(faults, rate_limits=0.4, create_errors=0.4)
    pool, scheduler = options.pool, options.scheduler
    quick: dict[str, float] = {}
    if dice.falls(0.15):
        # What takes long comes to its end where little else goes wrong.
        hosts = replace(
            hosts, immortal=0.25, reboots_every_s=0.0, deaths_every_s=0.0, freezes_every_s=0.0
        )
        demand = replace(demand, longest_run_s=250.0, cancels_every_s=10.0, kills_every_s=0.0)
        pool = msgspec.structs.replace(pool, term_timeout_s=5.0)
        scheduler = msgspec.structs.replace(
            scheduler,
            placement=Placement.PACKED,
            max_instances=2,
            max_containers_per_instance=256,
        )
    if dice.falls(0.15):
        # Instances are gone again before the call that made them has returned.
        hosts = replace(hosts, broken_boots=0.5)
        quick = {"create_delay_s": 28.0, "boot_time_s": 2.0, "destroy_delay_s": 2.0}
        pool = msgspec.structs.replace(pool, max_concurrent_creates=1)
        faults = msgspec.structs.replace(faults, slow_boots=0.4)
    if demand.alike:
        lists = demand.containers // 3 + 1
        demand = replace(demand, containers=lists, longest_list=max(demand.longest_list, 6))
    cloud = msgspec.structs.replace(options.cloud, faults=faults, **quick)
    return replace(options, hosts=hosts, demand=demand, cloud=cloud, pool=pool, scheduler=scheduler)


def _scheduling(options: SimOptions, dice: Dice) -> SimOptions:
    """Return a run in which, now and then, more is asked of the scheduler than to find room."""
    if dice.falls(0.5):
        return options
    demand = replace(
        options.demand,
        retrying=_share(dice, 1.0),
        supervising=_share(dice, 0.6),
        cpuless=_share(dice, 0.5),
        unnamed=_share(dice, 0.5),
    )
    if demand.retrying and dice.falls(0.5):
        demand = replace(demand, failing=0.8, longest_run_s=dice.between(2, 30))
    scheduler = msgspec.structs.replace(
        options.scheduler,
        max_containers=dice.whole(1, 6) if dice.falls(0.3) else None,
        supervisor_fraction=dice.between(0, 0.8),
    )
    return replace(
        options,
        demand=demand,
        hosts=replace(options.hosts, overloaded=_share(dice, 0.5)),
        dispatcher=replace(options.dispatcher, overloads_every_s=_every(dice, 80)),
        scheduler=scheduler,
    )


def _refusing(options: SimOptions, dice: Dice) -> SimOptions:
    """Return a run in which, now and then, little happens but that instances refuse starts."""
    if not dice.falls(0.03):
        return options
    return replace(
        options,
        safety_s=600.0,
        hosts=HostFaults(refused=0.5),
        demand=Demand(containers=60, longest_run_s=dice.between(2, 20)),
        dispatcher=DispatcherFaults(),
        cloud=SimulatedParameters(seed=options.cloud.seed),
        pool=msgspec.structs.replace(options.pool, idle_timeout_s=60.0),
        scheduler=SchedulerSettings(max_instances=4),
        limits_change_every_s=0.0,
        hanging_calls=0.0,
        left_over=0,
        old_flickers_every_s=0.0,
    )


def _alone(options: SimOptions, dice: Dice) -> SimOptions:
    """Return a run in which, now and then, one container after the other has one instance."""
    if not dice.falls(0.5):
        return options
    return replace(
        options,
        demand=replace(options.demand, containers=4, longest_list=1),
        pool=msgspec.structs.replace(options.pool, idle_timeout_s=100.0),
        scheduler=msgspec.structs.replace(options.scheduler, max_instances=1),
        left_over=0,
    )


def _unpulling(options: SimOptions, dice: Dice) -> SimOptions:
    """Return a run in which, now and then, some instances run nothing that has an image."""
    if not dice.falls(0.15):
        return options
    few = dice.falls(0.3)
    scheduler = msgspec.structs.replace(
        options.scheduler,
        max_instances=dice.whole(1, 2) if few else options.scheduler.max_instances,
        max_lost_attempts=dice.whole(2, 4),
    )
    return replace(
        options,
        hosts=replace(options.hosts, unpulling=dice.between(0.1, 0.7)),
        demand=replace(options.demand, imaged=dice.between(0.5, 1)),
        scheduler=scheduler,
    )


def _smaller(options: SimOptions, dice: Dice) -> SimOptions:
    """Return a run in which, now and then, machines have less than their types say, or all do.

    Memory of that is kept when the faults end, but for a crash.
    """
    if not dice.falls(0.04):
        return options
    share = 1.0 if dice.falls(0.5) else dice.between(0.3, 0.8)
    hosts = replace(options.hosts, smaller=share)
    return replace(options, hosts=hosts, restarts_in_calm=False)


def _holding(options: SimOptions, dice: Dice) -> SimOptions:
    """Return a run in which, now and then, admins hold instances for a time.

    Not where clocks are set at restarts: when such a time is over follows from the clock.
    """
    if not dice.falls(0.042) or options.dispatcher.clock_steps_s:
        return options
    often_s = dice.between(8, 25)
    return replace(
        options,
        demand=replace(
            options.demand, behaviors_every_s=often_s, timed_holds=dice.between(0.5, 1.0)
        ),
    )


def _billing(options: SimOptions, dice: Dice) -> SimOptions:
    """Return a run whose cloud bills in one of the ways in which clouds do, and perhaps tells."""
    unit_s, minimum_s = _UNITS_S[dice.whole(0, len(_UNITS_S) - 1)]
    billing = SimulatedBilling(
        starts=BillingStart.REQUESTED if dice.falls(0.3) else BillingStart.RUNNING,
        ends=BillingEnd.TERMINATED if dice.falls(0.3) else BillingEnd.SHUTTING_DOWN,
        unit_s=unit_s,
        minimum_s=minimum_s,
        minimum_amount_usd=0.01 if dice.falls(0.2) else 0.0,
        free_if_reclaimed_within_s=dice.whole(60, 3600) if dice.falls(0.5) else 0,
    )
    return replace(
        options,
        cloud=msgspec.structs.replace(
            options.cloud,
            billing=billing,
            zones=("z1", "z2", "z3")[: dice.whole(0, 3)],
            tells_billing=dice.falls(0.8),
            pending_time_s=_share(dice, options.cloud.boot_time_s),
        ),
    )


def _stopping(options: SimOptions, dice: Dice) -> SimOptions:
    """Return a run in which, now and then, somebody stops instances, or the cloud says so.

    Perhaps it does so twice in one listing.
    """
    if not dice.falls(0.04):
        return options
    twice = max(options.cloud.faults.duplicates, 0.3)
    faults = msgspec.structs.replace(options.cloud.faults, duplicates=twice)
    return replace(
        options,
        cloud=msgspec.structs.replace(options.cloud, faults=faults),
        stops_every_s=dice.between(20, 80),
        wrongly_stopped=dice.between(0.05, 0.5),
    )


def _taking_back(options: SimOptions, dice: Dice) -> SimOptions:
    """Return a run in which, now and then, what takes long goes again and again with its instance.

    The cloud tells of it shortly before.
    """
    if not dice.falls(0.02):
        return options
    faults = SimulatedFaults(reclaims=0.9, reclaim_notice_s=10.0, longest_life_s=90.0)
    return replace(
        options,
        safety_s=600.0,
        hosts=HostFaults(),
        demand=Demand(containers=30, longest_run_s=250.0),
        dispatcher=DispatcherFaults(),
        cloud=SimulatedParameters(seed=options.cloud.seed, boot_time_s=5.0, faults=faults),
        # It stays on what is taken back, so that its waits grow long.
        scheduler=SchedulerSettings(max_instances=8, max_reclaimed_attempts=20),
        limits_change_every_s=0.0,
        hanging_calls=0.0,
        left_over=0,
        old_flickers_every_s=0.0,
    )


def _lacking(options: SimOptions, dice: Dice) -> SimOptions:
    """Return a run in which, now and then, listings lack instances that are there, for long.

    In some of them new ones are listed far later than elsewhere; some drivers cannot be asked.
    """
    flicker_s, lag_s = dice.between(20, 250), dice.between(30, 150)
    gone_after_s, boot_timeout_s = dice.between(60, 240), options.pool.boot_timeout_s
    every_s = _every(dice, 60)
    cloud = msgspec.structs.replace(options.cloud, finds=dice.falls(0.6))
    if dice.falls(0.25):
        # The journal of a launch whose answer is lost is kept for a boot timeout.
        gone_after_s, boot_timeout_s = (
            max(gone_after_s, lag_s * 1.2),
            max(boot_timeout_s, 2 * lag_s),
        )
        faults = msgspec.structs.replace(cloud.faults, listing_lag_s=lag_s)
        cloud = msgspec.structs.replace(cloud, faults=faults)
    return replace(
        options,
        cloud=cloud,
        pool=msgspec.structs.replace(
            options.pool, gone_after_s=gone_after_s, boot_timeout_s=boot_timeout_s
        ),
        old_flickers_every_s=every_s,
        longest_flicker_s=flicker_s if every_s else 0.0,
    )


def _on_spot(options: SimOptions, dice: Dice) -> SimOptions:
    """Return a run in which, now and then, what is cheapest is taken back soon, or never to be had.

    Whoever may run on demand is to end there. Some make way for others, or are held back, which is
    not the cloud's doing.
    """
    if not dice.falls(0.03):
        return options
    faults = SimulatedFaults(reclaims=0.95, reclaim_notice_s=10.0, longest_life_s=90.0)
    capacity = {"p2s": 0} if dice.falls(0.4) else {}
    return replace(
        options,
        safety_s=600.0,
        hosts=HostFaults(),
        demand=Demand(containers=30, longest_run_s=250.0, priorities_every_s=15.0),
        dispatcher=DispatcherFaults(crashes_every_s=150.0 if dice.falls(0.5) else 0.0),
        cloud=SimulatedParameters(
            seed=options.cloud.seed, boot_time_s=5.0, capacity=capacity, faults=faults
        ),
        pool=msgspec.structs.replace(options.pool, capacity_hold_s=10.0),
        scheduler=SchedulerSettings(
            max_instances=8,
            max_price_factor=1.0,
            max_reclaimed_attempts=dice.whole(1, 2),
            preemptible_patience_s=dice.between(30, 120),
        ),
        limits_change_every_s=0.0,
        hanging_calls=0.0,
        left_over=0,
    )


def without(options: SimOptions, names: list[str]) -> SimOptions:
    """Return the same run with some faults switched off, by the names of their fields.

    Raises `ValueError` for a name that no part has.
    """
    for name in names:
        off: dict[str, Any] = {name: 0}
        if name in {field.name for field in fields(options)}:
            options = replace(options, **off)
        elif name in {field.name for field in fields(options.hosts)}:
            options = replace(options, hosts=replace(options.hosts, **off))
        elif name in {field.name for field in fields(options.dispatcher)}:
            options = replace(options, dispatcher=replace(options.dispatcher, **off))
        elif name in {field.name for field in fields(options.demand)}:
            options = replace(options, demand=replace(options.demand, **off))
        elif name in SimulatedFaults.__struct_fields__:
            faults = msgspec.structs.replace(options.cloud.faults, **off)
            options = replace(options, cloud=msgspec.structs.replace(options.cloud, faults=faults))
        else:
            raise ValueError(f"there is no fault {name!r}")
    return options


def _share(dice: Dice, most: float) -> float:
    """Return 0 in half of the runs, else up to `most`."""
    present, share = dice.falls(0.5), dice.random()
    return share * most if present else 0.0


def _every(dice: Dice, mean_s: float) -> float:
    """Return 0 (never) in half of the runs, else a mean time around `mean_s`."""
    present, factor = dice.falls(0.5), dice.between(0.3, 3.0)
    return mean_s * factor if present else 0.0


def _demand(dice: Dice, rarer: Dice) -> Demand:
    lists, in_bursts = dice.whole(3, 30), rarer.falls(0.25)
    return Demand(
        containers=lists // 4 + 1 if in_bursts else lists,
        longest_list=8 if in_bursts else 2,
        longest_run_s=dice.between(5, 150),
        failing=_share(dice, 0.4),
        cancels_every_s=_every(dice, 40),
        priorities_every_s=_every(dice, 40),
        behaviors_every_s=_every(dice, 50),
        kills_every_s=_every(dice, 150),
    )


def _foreign_strays(seed: int) -> float:
    """Return how often another store's processes come; by dice of their own, in some runs."""
    dice = Dice(seed, "another store")
    return dice.between(20, 120) if dice.falls(0.08) else 0.0


def _hosts(dice: Dice, rarer: Dice) -> HostFaults:
    return HostFaults(
        drops_every_s=_every(dice, 40),
        freezes_every_s=_every(dice, 50),
        longest_freeze_s=60.0 if dice.falls(0.7) else 900.0,
        runner_crashes_every_s=_every(dice, 120),
        rekeys_every_s=_every(dice, 300),
        lost_logs=_share(dice, 0.2),
        slow_answers=_share(dice, 0.5),
        repeats=_share(dice, 0.3),
        refused=_share(dice, 0.6),
        deaf=_share(dice, 0.6),
        immortal=_share(dice, 0.15),
        lost_supervisors=_share(dice, 0.1),
        late_exits=_share(dice, 0.2),
        sick_boots=_share(dice, 0.2),
        late_addresses=dice.falls(0.3),
        reboots_every_s=_every(dice, 200),
        deaths_every_s=_every(dice, 300),
        strays_every_s=_every(dice, 100),
        flaps_every_s=_every(dice, 100),
        late_lists=_share(dice, 0.9),
        drops_at_starts=_share(dice, 0.5),
        late_orders=_share(dice, 0.9),
        slow_deaths=_share(dice, 0.8),
        refusing=_share(dice, 0.2),
        wrong_clocks=_share(dice, 0.3),
        broken_boots=_share(rarer, 0.3),
    )


def _dispatcher(dice: Dice, rarer: Dice) -> DispatcherFaults:
    return DispatcherFaults(
        crashes_every_s=_every(dice, 80),
        longest_down_s=LONGEST_DOWN_S[rarer.whole(0, 1)] if dice.falls(0.8) else 2500.0,
        stalls_every_s=_every(dice, 100),
        refusals=_share(dice, 0.01),
        crashes_at_requests=_share(dice, 0.4),
        clock_steps_s=_share(dice, 7200),
    )


def _cloud(dice: Dice, rarer: Dice) -> SimulatedParameters:
    faults = SimulatedFaults(
        create_errors=_share(dice, 0.2),
        destroy_errors=_share(dice, 0.3),
        listing_errors=_share(dice, 0.3),
        tag_errors=_share(dice, 0.3),
        rate_limits=_share(dice, 0.25),
        retry_after_s=_share(dice, 40),
        lost_answers=_share(dice, 0.2),
        false_alarms=_share(dice, 0.2),
        listing_lag_s=_share(dice, 25),
        gone_lag_s=_share(dice, 60),
        tag_lag_s=_share(dice, 40),
        duplicates=_share(dice, 0.2),
        slow_boots=_share(dice, 0.2),
        dead_boots=_share(dice, 0.3),
        vanishing=_share(dice, 0.3),
        reclaims=_share(dice, 0.6),
        reclaim_notice_s=120.0 if dice.falls(0.5) else 0.0,
        longest_life_s=dice.between(40, 400),
        without_runner=_share(dice, 0.15),
        breaking=_share(dice, 0.4),
    )
    if rarer.falls(0.1):
        faults = msgspec.structs.replace(faults, retry_after_s=rarer.between(3_000, 40_000))
    grouped = dice.falls(0.4)
    return SimulatedParameters(
        boot_time_s=dice.between(1, 30),
        boot_jitter_s=dice.between(0, 20),
        seed=dice.whole(0, 1_000_000),
        quota=dice.whole(1, 6) if dice.falls(0.3) else 0,
        quota_groups={"p1": "small", "p2": "small", "p2s": "small", "p4": "big"} if grouped else {},
        group_quotas={"small": dice.whole(1, 4), "small/spot": 2, "big": 2} if grouped else {},
        capacity={"p1": dice.whole(0, 3)} if dice.falls(0.3) else {},
        create_delay_s=_share(rarer, 28),
        destroy_delay_s=dice.between(0, 20),
        faults=faults,
    )


def _pool(dice: Dice, rarer: Dice) -> PoolSettings:
    settings = PoolSettings(
        boot_timeout_s=dice.between(60, 300),
        probe_timeout_s=dice.between(60, 300),
        idle_timeout_s=dice.between(5, 60),
        sync_interval_s=dice.between(10, 60),
        probe_interval_s=dice.between(2, 10),
        term_timeout_s=dice.between(5, 40),
        offline_timeout_s=dice.between(20, 60),
        orphan_timeout_s=dice.between(300, 1800),
        quota_hold_s=dice.between(10, 60),
        capacity_hold_s=dice.between(10, 60),
        max_concurrent_creates=dice.whole(1, 5),
        max_cloud_ops_per_second=dice.between(0.5, 20),
        max_probes_per_second=dice.between(0.5, 10),
        cloud_call_timeout_s=30.0,
    )
    slow = {"max_cloud_ops_per_second": rarer.between(0.2, 0.8)} if rarer.falls(0.2) else {}
    return msgspec.structs.replace(settings, **slow)


def _scheduler(dice: Dice) -> SchedulerSettings:
    return SchedulerSettings(
        placement=Placement.PACKED if dice.falls(0.7) else Placement.EXCLUSIVE,
        profile=Profile.OPTIMIZE_UTILIZATION if dice.falls(0.7) else Profile.DISTRIBUTE_LOAD,
        max_instances=dice.whole(1, 8),
        max_price_factor=dice.between(1, 3),
        max_lost_attempts=dice.whole(1, 4) if dice.falls(0.3) else 100,
        max_containers_per_instance=dice.whole(1, 3) if dice.falls(0.3) else 256,
    )
