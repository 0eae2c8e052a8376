"""A small world for per-instance jobs: instances with attempts, which do what plans say."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from longshore.dispatcher.domain.containers import (
    AttemptOutcome,
    Constraints,
    ContainerSpec,
    Retries,
)
from longshore.dispatcher.domain.jobs import PerInstanceKind, UpdateStrategy
from longshore.dispatcher.scheduler.placement import preemption
from longshore.dispatcher.scheduler.placement.preemption import PreemptionSettings
from longshore.dispatcher.scheduler.system.evict import preempting
from longshore.dispatcher.scheduler.system.model import (
    Evict,
    Host,
    LiveAttempt,
    MarkLost,
    PastAttempt,
    PerInstanceJob,
    PlaceOn,
    Preempt,
    RoomRequest,
    Step,
    Stop,
    SystemPlan,
    SystemSnapshot,
    Update,
    UpdateInPlace,
    Victim,
    nobody,
)
from longshore.dispatcher.scheduler.system.plan import plan
from longshore.dispatcher.scheduler.system.rollout import Rollout
from longshore.drivers.interface import InstanceType, Resources
from longshore.pool.charging import charge
from longshore.pool.model import IdleBehavior
from tests.samples import make_type


def make_spec(
    *,
    cpus: float = 1,
    image: str = "",
    command: tuple[str, ...] = ("serve",),
    env: tuple[tuple[str, str], ...] = (),
    delay_s: float = 15.0,
    constraints: Constraints | None = None,
    **more: object,
) -> ContainerSpec:
    """Return what a daemon asks for: so many cpus and no more."""
    return ContainerSpec(
        name="daemon",
        image=image,
        command=command,
        env=env,
        resources=Resources(cpu_millis=int(1000 * cpus)),
        constraints=constraints or Constraints(),
        retries=Retries(delay_s=delay_s),
        **more,  # type: ignore[arg-type]  # the few optional fields of ContainerSpec
    )


def make_job(
    number: int = 1,
    *,
    kind: PerInstanceKind = PerInstanceKind.SYSTEM,
    spec: ContainerSpec | None = None,
    priority: int = 500,
    revision: int = 1,
    max_parallel: int = 1,
    stagger_s: float = 30.0,
    **more: object,
) -> PerInstanceJob:
    """Return job number N."""
    return PerInstanceJob(
        id=f"j-{number}",
        sequence=number,
        kind=kind,
        revision=revision,
        spec=spec or make_spec(),
        priority=priority,
        update=UpdateStrategy(max_parallel=max_parallel, stagger_s=stagger_s),
        **more,  # type: ignore[arg-type]  # the few optional fields of PerInstanceJob
    )


def revised(job: PerInstanceJob, at: float = 0.0, **fields: object) -> PerInstanceJob:
    """Return the next revision of a job; fields of the job itself or of its specification."""
    own = {k: v for k, v in fields.items() if k in PerInstanceJob.__slots__}
    rest = {k: v for k, v in fields.items() if k not in own}
    spec = replace(job.spec, **rest)  # type: ignore[arg-type]  # fields of the specification
    more: dict[str, object] = {"spec": spec, **own}
    return replace(job, revision=job.revision + 1, revised_at=at, **more)  # type: ignore[arg-type]  # fields of the job


@dataclass(slots=True, kw_only=True)
class RigAttempt:
    """What runs on an instance: an attempt of a per-instance job, or batch work."""

    id: str
    instance_id: str
    resources: Resources
    priority: int
    job: PerInstanceJob | None = None
    restarted_at: float | None = None
    ending: AttemptOutcome | None = None


@dataclass(slots=True, kw_only=True)
class World:
    """Instances by id, who lives on them, and the latest attempts that ended there."""

    now: float = 0.0
    jobs: dict[str, PerInstanceJob] = field(default_factory=dict)
    hosts: dict[str, Host] = field(default_factory=dict)
    all_attempts: dict[str, RigAttempt] = field(default_factory=dict)
    past: dict[tuple[str, str], PastAttempt] = field(default_factory=dict)
    rollouts: dict[str, Rollout] = field(default_factory=dict)
    updates: list[tuple[float, str, str]] = field(default_factory=list)
    places: list[PlaceOn] = field(default_factory=list)
    preempt: Preempt = nobody
    made: int = 0

    # ---- what is there -------------------------------------------------------------------------

    def boot(self, number: int, type_: InstanceType | None = None, **more: object) -> str:
        """Let instance number N join now, empty."""
        host = Host(
            id=f"i-{number:02}",
            type=type_ or make_type(4),
            free=Resources(),
            joined_at=self.now,
            **more,  # type: ignore[arg-type]  # the few optional fields of Host
        )
        self.hosts[host.id] = host
        return host.id

    def change(self, instance_id: str, **fields: object) -> None:
        """Change what is so of an instance."""
        self.hosts[instance_id] = replace(self.hosts[instance_id], **fields)  # type: ignore[arg-type]  # fields of Host

    def submit(self, job: PerInstanceJob) -> None:
        """Submit a job, or another revision of it."""
        self.jobs[job.id] = job

    def revise(self, **fields: object) -> None:
        """Submit another revision of the first job; fields of it or of its specification."""
        self.submit(revised(self.jobs["j-1"], at=self.now, **fields))

    def occupy(self, instance_id: str, *, cpus: float, priority: int = 500) -> str:
        """Let batch work run on an instance; return its id."""
        self.made += 1
        attempt = RigAttempt(
            id=f"c-{self.made}",
            instance_id=instance_id,
            resources=Resources(cpu_millis=int(1000 * cpus)),
            priority=priority,
        )
        self.all_attempts[attempt.id] = attempt
        return attempt.id

    def exit(self, attempt_id: str, *, settled: bool = False, failed: bool = True) -> None:
        """Let an attempt end by itself."""
        outcome = AttemptOutcome.FAILED if failed else AttemptOutcome.SUCCEEDED
        self._end(self.all_attempts[attempt_id], outcome, settled=settled)

    def vanish(self, instance_id: str) -> None:
        """Let an instance be gone, with all that ran on it but what is ours to conclude."""
        del self.hosts[instance_id]
        for attempt in list(self.all_attempts.values()):
            if attempt.instance_id == instance_id and attempt.job is None:
                del self.all_attempts[attempt.id]

    def on(self, instance_id: str) -> list[RigAttempt]:
        """Return who lives on an instance, by id."""
        found = [t for t in self.all_attempts.values() if t.instance_id == instance_id]
        return sorted(found, key=lambda attempt: attempt.id)

    def attempts(self, job_id: str = "j-1") -> dict[str, RigAttempt]:
        """Return the live attempts of a job by instance."""
        found = [t for t in self.all_attempts.values() if t.job is not None and t.job.id == job_id]
        return {t.instance_id: t for t in sorted(found, key=lambda each: each.instance_id)}

    # ---- plans ---------------------------------------------------------------------------------

    def snapshot(self, only: Iterable[str] | None = None) -> SystemSnapshot:
        """Return what a plan is made from, of some instances (None: of all)."""
        shown = set(self.hosts if only is None else only)
        live = [t for t in self.all_attempts.values() if only is None or t.instance_id in shown]
        return SystemSnapshot(
            now=self.now,
            jobs=list(self.jobs.values()),
            hosts=[self._seen(host) for host in self.hosts.values() if host.id in shown],
            live=[_live(attempt, attempt.job) for attempt in live if attempt.job is not None],
            past=list(self.past.values()),
            rollouts=dict(self.rollouts),
        )

    def _seen(self, host: Host) -> Host:
        all_attempts = self.on(host.id)
        free, on_shared_cpu = host.type.allocatable, 0
        for attempt in all_attempts:
            free = free.minus(charge(attempt.resources, on_shared_cpu=on_shared_cpu))
            on_shared_cpu += attempt.resources.cpu_millis == 0
        return replace(
            host,
            free=free,
            on_shared_cpu=on_shared_cpu,
            leaving=tuple(t.resources for t in all_attempts if t.ending is not None),
            has_batch_work=any(t.job is None for t in all_attempts),
        )

    def plan(self, only: Iterable[str] | None = None) -> SystemPlan:
        """Return what is to be done now, and do nothing."""
        return plan(self.snapshot(only), self.preempt)

    def step(self, only: Iterable[str] | None = None) -> SystemPlan:
        """Plan and carry it out; what is told to end is ending until `settle`."""
        decided = self.plan(only)
        self.rollouts = {**self.rollouts, **decided.rollouts}
        for step in decided.steps:
            self.do(step)
        return decided

    def settle(self) -> None:
        """Let all that is being ended be ended."""
        for attempt in list(self.all_attempts.values()):
            if attempt.ending is not None:
                self._end(attempt, attempt.ending, settled=False)

    def run(self, most: int = 20) -> SystemPlan:
        """SystemPlan and carry out until nothing changes any more at this moment."""
        changed: list[Step] = []
        for _ in range(most):
            self.settle()
            decided = self.step()
            changed = changing(decided)
            if not changed:
                return decided
        raise AssertionError(f"not settled after {most} plans: {changed}")

    def do(self, step: Step) -> None:
        """Carry out one step."""
        match step:
            case PlaceOn():
                self._place(step)
            case Update():
                self.updates.append((self.now, step.job_id, step.instance_id))
                self.all_attempts[step.attempt_id].ending = AttemptOutcome.CANCELLED
            case UpdateInPlace():
                attempt, job = self.all_attempts[step.attempt_id], self.jobs[step.job_id]
                attempt.job, attempt.priority = job, job.priority
            case Stop():
                self.all_attempts[step.attempt_id].ending = AttemptOutcome.CANCELLED
            case MarkLost():
                del self.all_attempts[step.attempt_id]
            case Evict():
                for victim in step.victims:
                    self.all_attempts[victim].ending = AttemptOutcome.PREEMPTED
            case _:
                pass

    def _place(self, step: PlaceOn) -> None:
        assert step.instance_id not in self.attempts(step.job_id), "it runs there already"
        self.made += 1
        past = self.past.get((step.job_id, step.instance_id))
        job = self.jobs[step.job_id]
        restarted_at = None
        if past is not None and past.revision == job.revision:
            # What we ended ourselves is followed by no restart.
            ours = past.outcome in {AttemptOutcome.CANCELLED, AttemptOutcome.PREEMPTED}
            restarted_at = past.restarted_at if ours else self.now
        attempt = RigAttempt(
            id=f"a-{self.made}",
            instance_id=step.instance_id,
            resources=step.resources,
            priority=job.priority,
            job=job,
            restarted_at=restarted_at,
        )
        self.all_attempts[attempt.id] = attempt
        self.places.append(step)

    def _end(self, attempt: RigAttempt, outcome: AttemptOutcome, *, settled: bool) -> None:
        del self.all_attempts[attempt.id]
        if attempt.job is None:
            return
        self.past[attempt.job.id, attempt.instance_id] = PastAttempt(
            id=attempt.id,
            job_id=attempt.job.id,
            instance_id=attempt.instance_id,
            revision=attempt.job.revision,
            outcome=outcome,
            ended_at=self.now,
            restarted_at=attempt.restarted_at,
            settled=settled,
        )

    # ---- who makes way -------------------------------------------------------------------------

    def preemption(self, settings: PreemptionSettings) -> Preempt:
        """Return what evicts by the rules of the product."""
        return preempting(settings, lambda instance_id: map(_as_running, self.on(instance_id)))

    def lowest_first(self, request: RoomRequest) -> Sequence[Victim] | None:
        """Evict the lowest of at least 100 points below until there is room; a plain double."""
        free, on_shared_cpu, taken = request.room, request.on_shared_cpu, []
        candidates = sorted(
            (
                t
                for t in self.on(request.instance_id)
                if t.id not in request.spared
                and t.ending is None
                and request.priority - t.priority >= 100
            ),
            key=lambda attempt: (attempt.priority, attempt.id),
        )
        for attempt in candidates:
            if charge(request.asked, on_shared_cpu=on_shared_cpu).fits_in(free):
                break
            on_shared_cpu -= attempt.resources.cpu_millis == 0
            free = free.plus(charge(attempt.resources, on_shared_cpu=on_shared_cpu))
            taken.append(Victim(attempt_id=attempt.id, resources=attempt.resources))
        return taken if charge(request.asked, on_shared_cpu=on_shared_cpu).fits_in(free) else None


def _as_running(attempt: RigAttempt) -> preemption.RunningAttempt:
    return preemption.RunningAttempt(
        attempt_id=attempt.id,
        priority=attempt.priority,
        resources=attempt.resources,
        is_ending=attempt.ending is not None,
    )


def _live(attempt: RigAttempt, job: PerInstanceJob) -> LiveAttempt:
    return LiveAttempt(
        id=attempt.id,
        job_id=job.id,
        instance_id=attempt.instance_id,
        revision=job.revision,
        spec=job.spec,
        resources=attempt.resources,
        is_ending=attempt.ending is not None,
    )


def changing(decided: SystemPlan) -> list[Step]:
    """Return the steps of a plan that change something."""
    kinds = (PlaceOn, Update, UpdateInPlace, Stop, MarkLost, Evict)
    return [step for step in decided.steps if isinstance(step, kinds)]


def kinds_of(decided: SystemPlan) -> dict[str, int]:
    """Return how many steps of each kind a plan has."""
    names = [type(step).__name__ for step in decided.steps]
    return {name: names.count(name) for name in sorted(set(names))}


def world(number: int, *jobs: PerInstanceJob, type_: InstanceType | None = None) -> World:
    """Return a world with so many empty instances, i-01 and on, and some jobs."""
    made = World()
    for each in range(1, number + 1):
        made.boot(each, type_)
    for job in jobs:
        made.submit(job)
    return made


def running(number: int = 1, **of_job: object) -> World:
    """Return a world with a job that runs on all of its instances."""
    made = world(number, make_job(**of_job))  # type: ignore[arg-type]  # arguments of make_job
    made.run()
    assert len(made.attempts()) == number
    return made


FOO = Constraints(labels=(("role", "foo"),))
ENV = (("LEVEL", "debug"),)
WITH_FOO = make_type(4, name="t4foo", labels=(("role", "foo"),))
HELD, DRAIN, RUN = IdleBehavior.HOLD, IdleBehavior.DRAIN, IdleBehavior.RUN
SYSTEM, SYSBATCH = PerInstanceKind.SYSTEM, PerInstanceKind.SYSBATCH
