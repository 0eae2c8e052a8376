"""Per-instance jobs while instances come, fill, drain and go: what no plan may do, and its end."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
)

from longshore.dispatcher.domain.containers import Constraints
from longshore.dispatcher.domain.jobs import PerInstanceKind
from longshore.dispatcher.scheduler.system.model import (
    Block,
    Host,
    Ignore,
    PerInstanceJob,
    PlaceOn,
    SystemPlan,
    SystemSnapshot,
    Update,
)
from longshore.dispatcher.scheduler.system.plan import plan
from longshore.drivers.interface import InstanceType, Resources
from longshore.pool.model import IdleBehavior
from tests.rigs.per_instance import FOO, SYSBATCH, WITH_FOO, World, make_job, make_spec, revised
from tests.samples import make_type

TYPES = (make_type(2), make_type(4), WITH_FOO)
STAGGER_S = 30.0
MOST_INSTANCES = 5


def is_for(job: PerInstanceJob, host: Host) -> bool:
    """Return whether a job may be placed on an instance, said in another way than the planner's."""
    wanted = dict(job.spec.constraints.labels)
    matches = all(dict(host.type.labels).get(key) == value for key, value in wanted.items())
    works_off = host.behavior is IdleBehavior.DRAIN and host.has_batch_work
    spared = host.behavior is IdleBehavior.DRAIN and job.ignore_system
    held = host.behavior is IdleBehavior.HOLD
    paused = job.on_paused and (works_off or spared or held)
    there = host.ready and not host.going_away
    in_time = job.late_joiners or host.joined_at <= job.revised_at
    takes_new = host.behavior is IdleBehavior.RUN or paused
    return matches and there and in_time and takes_new and not job.stopped


class Days(RuleBasedStateMachine):
    """Jobs and instances that change between plans, each of which is looked at."""

    def __init__(self) -> None:
        super().__init__()
        self.world = World()
        self.world.preempt = self.world.lowest_first
        self.booted = 0
        self.submitted = 0
        self.events = 0

    @initialize(
        types=st.lists(st.sampled_from(TYPES), min_size=1, max_size=4),
        kinds=st.lists(st.sampled_from(PerInstanceKind), min_size=1, max_size=2),
        max_parallel=st.integers(1, 2),
    )
    def begin(
        self, types: list[InstanceType], kinds: list[PerInstanceKind], max_parallel: int
    ) -> None:
        for type_ in types:
            self.boot(type_)
        for kind in kinds:
            self.submitted += 1
            self.world.submit(
                make_job(self.submitted, kind=kind, max_parallel=max_parallel, stagger_s=STAGGER_S)
            )

    # ---- what happens --------------------------------------------------------------------------

    @precondition(lambda self: len(self.world.hosts) < MOST_INSTANCES)
    @rule(type_=st.sampled_from(TYPES))
    def boot(self, type_: InstanceType) -> None:
        self.booted += 1
        self.world.boot(self.booted, type_)

    @precondition(lambda self: self.submitted < 3)
    @rule(
        kind=st.sampled_from(PerInstanceKind),
        cpus=st.sampled_from([0, 0.5, 1, 3]),
        priority=st.sampled_from([100, 200, 250, 600]),
        constraints=st.sampled_from([Constraints(), FOO]),
        max_parallel=st.integers(1, 3),
        flags=st.tuples(st.booleans(), st.booleans(), st.booleans()),
    )
    def submit(
        self,
        *,
        kind: PerInstanceKind,
        cpus: float,
        priority: int,
        constraints: Constraints,
        max_parallel: int,
        flags: tuple[bool, bool, bool],
    ) -> None:
        self.submitted += 1
        late_joiners, on_paused, ignore_system = flags
        self.world.submit(
            make_job(
                self.submitted,
                kind=kind,
                spec=make_spec(cpus=cpus, constraints=constraints),
                priority=priority,
                max_parallel=max_parallel,
                stagger_s=STAGGER_S,
                revised_at=self.world.now,
                late_joiners=late_joiners,
                on_paused=on_paused,
                ignore_system=ignore_system,
            )
        )

    def some_job(self, index: int) -> PerInstanceJob:
        return self.world.jobs[sorted(self.world.jobs)[index % len(self.world.jobs)]]

    def some_host(self, index: int) -> str:
        return sorted(self.world.hosts)[index % len(self.world.hosts)]

    @precondition(lambda self: self.world.jobs)
    @rule(
        index=st.integers(0, 9),
        fields=st.sampled_from(
            [
                {"env": (("A", "1"),)},
                {"env": (("A", "2"),)},
                {"labels": (("team", "x"),)},
                {"priority": 700},
                {"resources": Resources(cpu_millis=2000)},
                {"constraints": FOO},
                {"constraints": Constraints()},
            ]
        ),
    )
    def revise(self, index: int, fields: dict[str, object]) -> None:
        self.world.submit(revised(self.some_job(index), at=self.world.now, **fields))

    @precondition(lambda self: self.world.jobs)
    @rule(index=st.integers(0, 9))
    def stop(self, index: int) -> None:
        self.world.submit(replace(self.some_job(index), stopped=True))

    @precondition(lambda self: self.world.hosts)
    @rule(
        index=st.integers(0, 9),
        change=st.sampled_from(
            [
                *({"behavior": behavior} for behavior in IdleBehavior),
                {"ready": False},
                {"ready": True},
                {"going_away": True},
            ]
        ),
    )
    def change(self, index: int, change: dict[str, object]) -> None:
        self.world.change(self.some_host(index), **change)

    @precondition(lambda self: self.world.hosts)
    @rule(index=st.integers(0, 9))
    def vanish(self, index: int) -> None:
        self.world.vanish(self.some_host(index))

    @precondition(lambda self: self.world.hosts)
    @rule(index=st.integers(0, 9), cpus=st.sampled_from([0, 1, 2]), priority=st.integers(0, 6))
    def batch_work_comes(self, index: int, cpus: float, priority: int) -> None:
        """Let batch work in only where what is promised leaves room for it."""
        host_id = self.some_host(index)
        [host] = [each for each in self.world.snapshot().hosts if each.id == host_id]
        reserved = self.world.plan().reserved.get(host_id, Resources())
        asked = Resources(cpu_millis=int(1000 * cpus) or 1000)
        if asked.fits_in(host.free.minus(reserved)):
            self.world.occupy(host_id, cpus=cpus, priority=100 * priority)

    @precondition(lambda self: self.world.all_attempts)
    @rule(index=st.integers(0, 99), settled=st.booleans(), failed=st.booleans())
    def exit(self, index: int, *, settled: bool, failed: bool) -> None:
        running = sorted(
            t.id for t in self.world.all_attempts.values() if t.instance_id in self.world.hosts
        )
        if running:
            self.world.exit(running[index % len(running)], settled=settled, failed=failed)

    @rule(seconds=st.sampled_from([0.5, 10.0, 29.0, 30.0]))
    def pass_time(self, seconds: float) -> None:
        self.world.now += seconds

    # ---- what is planned -----------------------------------------------------------------------

    @invariant()
    def plan_of_all(self) -> None:
        """Plan after most events, and let what is told to end do so before every other plan."""
        self.events += 1
        if self.events % 4 == 0:
            return
        if self.events % 2:
            self.world.settle()
        snapshot = self.world.snapshot()
        decided = self.world.plan()
        in_disorder = shuffled(snapshot, seed=self.events)
        assert plan(in_disorder, self.world.preempt) == decided, "the order is no matter"
        self.looked_at(snapshot, decided)
        self.world.step()

    @precondition(lambda self: self.world.hosts)
    @rule(index=st.integers(0, 9))
    def plan_of_one(self, index: int) -> None:
        snapshot = self.world.snapshot(only=[self.some_host(index)])
        self.looked_at(snapshot, self.world.step(only=[self.some_host(index)]))

    def looked_at(self, snapshot: SystemSnapshot, decided: SystemPlan) -> None:
        jobs = {job.id: job for job in snapshot.jobs}
        hosts = {host.id: host for host in snapshot.hosts}
        steps = Counter((step.job_id, step.instance_id) for step in decided.steps)
        assert not steps or max(steps.values()) == 1
        for attempt in snapshot.live:
            assert steps[attempt.job_id, attempt.instance_id] == 1
        for step in decided.steps:
            if isinstance(step, PlaceOn | Block) and not getattr(step, "attempt_id", ""):
                assert is_for(jobs[step.job_id], hosts[step.instance_id])
            if isinstance(step, Update):
                assert is_for(jobs[step.job_id], replace(hosts[step.instance_id], joined_at=0.0))
        for host_id, room in decided.reserved.items():
            assert room.cpu_millis <= max(0, hosts[host_id].free.cpu_millis)

    # ---- what holds ----------------------------------------------------------------------------

    @invariant()
    def no_instance_is_over_its_room(self) -> None:
        for host in self.world.snapshot().hosts:
            assert host.free.cpu_millis >= 0

    @invariant()
    def no_two_attempts_of_a_job_live_on_one_instance(self) -> None:
        jobs = [
            (t.job.id, t.instance_id) for t in self.world.all_attempts.values() if t.job is not None
        ]
        assert len(jobs) == len(set(jobs))

    @invariant()
    def no_more_updates_than_max_parallel_within_any_stagger(self) -> None:
        for job in self.world.jobs.values():
            times = [at for at, job_id, _ in self.world.updates if job_id == job.id]
            for first in times:
                within = [at for at in times if first <= at < first + job.update.stagger_s]
                assert len(within) <= job.update.max_parallel

    def teardown(self) -> None:
        """Let nothing more happen: plans converge, and then leave all as it is."""
        world = self.world
        decided = world.run()
        for _ in range(100):
            if decided.next_at is None:
                break
            world.now = decided.next_at
            decided = world.run()
        assert {type(step) for step in decided.steps} <= {Ignore, Block}
        blocked = {(step.job_id, step.instance_id) for step in decided.blocked}
        self.all_is_as_it_should_be(blocked)

    def all_is_as_it_should_be(self, blocked: set[tuple[str, str]]) -> None:
        """Hold every job against every instance, without the planner's help."""
        world = self.world
        hosts = {host.id: host for host in world.snapshot().hosts}
        for job in world.jobs.values():
            attempts = world.attempts(job.id)
            for host in hosts.values():
                if (job.id, host.id) in blocked or not is_for(job, host):
                    continue
                past = world.past.get((job.id, host.id))
                done = past is not None and past.settled and past.revision == job.revision
                if host.id in attempts:
                    assert attempts[host.id].job == job
                else:
                    assert done
                    assert job.kind is SYSBATCH
            if job.stopped:
                assert attempts == {}


def shuffled(snapshot: SystemSnapshot, seed: int) -> SystemSnapshot:
    """Return the same in another order."""
    dice = random.Random(seed)
    return replace(
        snapshot,
        jobs=dice.sample(snapshot.jobs, len(snapshot.jobs)),
        hosts=dice.sample(snapshot.hosts, len(snapshot.hosts)),
        live=dice.sample(snapshot.live, len(snapshot.live)),
        past=dice.sample(snapshot.past, len(snapshot.past)),
    )


Days.TestCase.settings = settings(max_examples=200, stateful_step_count=30, deadline=None)
TestDays = Days.TestCase
