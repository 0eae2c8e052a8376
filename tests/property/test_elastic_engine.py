"""Elastic jobs in an engine to which anything happens: all of them come to an end."""

from __future__ import annotations

import random
from dataclasses import dataclass, field

import pytest

from longshore.dispatcher.domain.containers import ElasticSettings, QueuePolicy, SchedulerSettings
from longshore.dispatcher.domain.jobs import ElasticMode
from longshore.dispatcher.scheduler.placement.workload import NOTHING
from longshore.pool.messages import (
    AttemptExited,
    LogComplete,
    SessionLost,
    StartAttempt,
    StartRefused,
)
from longshore.pool.model import AttemptExit, AttemptReport, ExitKind, PoolSettings
from tests.rigs.elastic_jobs import elastic, essential, submit
from tests.rigs.engine import Rig
from tests.samples import make_container, make_type

STEPS = 60


@dataclass(slots=True)
class Fuzz:
    """One engine and what a seed does to it."""

    seed: int
    dice: random.Random = field(init=False)
    rig: Rig = field(init=False)
    jobs: int = 0
    loose: int = 0

    def __post_init__(self) -> None:
        self.dice = random.Random(self.seed)
        policies = list(QueuePolicy)
        self.rig = Rig(
            make_type(2),
            make_type(4),
            pool=PoolSettings(idle_timeout_s=60),
            settings=SchedulerSettings(
                max_instances=self.dice.choice([2, 4, 8]),
                max_price_factor=1000,
                elastic=ElasticSettings(
                    policy=policies[self.seed % len(policies)],
                    backfill=self.dice.random() < 0.5,
                ),
            ),
        )

    # ---- what happens ------------------------------------------------------------------------

    def submit_job(self) -> None:
        self.jobs += 1
        dice = self.dice
        parts = [
            essential(
                dice.randint(1, 3),
                f"e{number}",
                order=dice.randint(0, 1),
                cpus=dice.choice([0.5, 1, 2]),
            )
            for number in range(dice.randint(1, 2))
        ]
        if dice.random() < 0.8:
            parts.append(elastic(dice.randint(1, 5), cpus=dice.choice([0.5, 1])))
        submit(
            self.rig,
            self.jobs,
            *parts,
            mode=dice.choice(list(ElasticMode)),
            scale_up=dice.random() < 0.3,
            held=dice.random() < 0.1,
        )

    def submit_batch(self) -> None:
        self.loose += 1
        self.rig.submit(make_container(self.loose, cpus=self.dice.choice([0.5, 1, 3])))

    def end_something(self) -> None:
        running = self.open_attempts()
        if running:
            attempt_id = self.dice.choice(running)
            code = self.dice.choice([0, 0, 1])
            kind = self.dice.choice([ExitKind.EXITED] * 8 + [ExitKind.LOST])
            self.end(attempt_id, code, kind)

    def end(self, attempt_id: str, code: int, kind: ExitKind = ExitKind.EXITED) -> None:
        worker_id = self.rig.attempts[attempt_id].instance_id
        if attempt_id not in self.rig.on_instance.get(worker_id, {}):
            return
        how = AttemptExit(kind=kind, code=code)
        self.rig.on_instance[worker_id][attempt_id] = AttemptReport(
            attempt_id=attempt_id, container_id="", exit=how
        )
        self.rig.send(AttemptExited(worker_id=worker_id, attempt_id=attempt_id, exit=how))
        self.rig.send(LogComplete(worker_id=worker_id, attempt_id=attempt_id))

    def cancel(self) -> None:
        waiting = [c.id for c in self.rig.containers.values() if not c.state.final]
        if waiting:
            self.rig.cancel(self.dice.choice(sorted(waiting)))

    def cancel_job(self) -> None:
        jobs = [job.id for job in self.rig.jobs.values() if not job.state.final]
        if jobs:
            self.rig.cancel_job(self.dice.choice(sorted(jobs)))

    def hold_job(self) -> None:
        jobs = [job.id for job in self.rig.jobs.values() if not job.state.final]
        if jobs:
            self.rig.hold_job(self.dice.choice(sorted(jobs)), held=self.dice.random() < 0.5)

    def set_priority(self) -> None:
        waiting = [c.id for c in self.rig.containers.values() if not c.state.final]
        if waiting:
            self.rig.set_priority(self.dice.choice(sorted(waiting)), self.dice.choice([0, 500]))

    def lose_instance(self) -> None:
        if self.rig.cloud:
            gone = self.dice.choice(sorted(self.rig.cloud))
            del self.rig.cloud[gone], self.rig.on_instance[gone]
            self.rig.send(SessionLost(worker_id=gone, last_contact=self.rig.now, reason="reset"))

    def refuse_start(self) -> None:
        """Let the next start be refused."""
        self.rig.silent.add(StartAttempt)
        before = len(self.rig.sent)
        self.submit_job()
        code = self.dice.choice(["invalid", "busy", "overloaded"])
        for start in [c for c in self.rig.sent[before:] if isinstance(c, StartAttempt)]:
            self.rig.send(
                StartRefused(
                    op_id=start.op_id,
                    worker_id=start.worker_id,
                    attempt_id=start.order.attempt_id,
                    code=code,
                    message="no",
                )
            )
        self.rig.silent.clear()
        # Starts that followed are as if they had been lost on their way.
        self.rig.crash()

    def advance(self) -> None:
        self.rig.advance(self.dice.choice([0.5, 5, 70]))

    def crash(self) -> None:
        self.rig.crash()

    # ---- what must hold ------------------------------------------------------------------------

    def open_attempts(self) -> list[str]:
        return sorted(a.id for a in self.rig.attempts.values() if a.outcome is None)

    def check(self) -> None:
        for worker in self.rig.engine.pool.workers.values():
            assert NOTHING.fits_in(worker.load.free), f"{worker.id} holds more than it has"
        open_ = [self.rig.attempts[id_].container_id for id_ in self.open_attempts()]
        assert len(set(open_)) == len(open_), "a container runs twice"
        due = self.rig.engine.next_wakeup(self.rig.now)
        assert due is None or due > self.rig.now, "it would go round without end"

    def step(self) -> None:
        actions = (
            [self.submit_job] * 4
            + [self.end_something] * 10
            + [self.advance] * 6
            + [self.submit_batch, self.cancel, self.cancel_job, self.set_priority] * 2
            + [self.hold_job, self.lose_instance, self.crash, self.refuse_start]
        )
        self.dice.choice(actions)()
        self.check()

    def bring_to_an_end(self) -> None:
        """Release all, and let every program do its work and exit well, in some order."""
        for job in sorted(self.rig.jobs):
            if not self.rig.jobs[job].state.final and self.rig.jobs[job].held:
                self.rig.hold_job(job, held=False)
        for container in sorted(self.rig.containers.values(), key=lambda c: c.id):
            if not container.state.final and container.priority == 0:
                self.rig.set_priority(container.id, 500)
        for _ in range(400):
            if self.is_over():
                return
            open_ = self.open_attempts()
            for attempt_id in open_:
                self.end(attempt_id, 0)
            if not open_:
                self.give_one_up()
            self.rig.advance(20)
            self.check()

    def give_one_up(self) -> None:
        """Cancel the first job, if any, that limits keep from ever beginning."""
        for container in sorted(self.rig.containers.values(), key=lambda c: c.sequence):
            why = self.rig.engine.why_waiting(container.id)
            if why is not None and "no instance may be created" in why.message:
                self.rig.cancel_job(container.job_id)
                return

    def is_over(self) -> bool:
        return all(job.state.final for job in self.rig.jobs.values()) and all(
            container.state.final for container in self.rig.containers.values()
        )


@pytest.mark.parametrize("seed", range(12))
def test_whatever_happens_every_job_ends_and_nothing_is_kept_for_it(seed: int) -> None:
    fuzz = Fuzz(seed)
    for _ in range(STEPS):
        fuzz.step()
    fuzz.bring_to_an_end()
    rest = {id_: s for id_, s in fuzz.rig.states().items() if s in ("queued", "locked", "running")}
    assert fuzz.is_over(), {id_: (s, fuzz.rig.engine.why_waiting(id_)) for id_, s in rest.items()}
    workload = fuzz.rig.engine.workloads.elastic
    fuzz.rig.advance(10)
    assert workload.reservations == {}
    assert workload.claimed_workers == frozenset()
    assert workload.next_due() is None
