"""The engine under generated trouble: first anything may happen, then everything must end well."""

from __future__ import annotations

import random

import pytest

from longshore.dispatcher.domain.containers import Placement, SchedulerSettings
from longshore.dispatcher.domain.messages import BehaviorRequested, InstanceKillRequested
from longshore.drivers.errors import AmbiguousResult, CapacityError, CloudError, QuotaError
from longshore.pool.messages import (
    CreateInstance,
    DestroyInstance,
    ListInstances,
    Probe,
    SessionLost,
    StartAttempt,
    StartUnknown,
)
from longshore.pool.model import AttemptReport, ExitKind, IdleBehavior, InstanceSeen
from tests.rigs.engine import Rig
from tests.samples import make_container, make_type
from tests.sizes import sized

SEEDS = sized(50, 150)
STEPS = 60


class Trouble:
    """A rig to which a seed's dice do something at each step."""

    def __init__(self, seed: int) -> None:
        self.dice = random.Random(seed)
        self.rig = Rig(
            *(make_type(n) for n in (1, 2, 4)),
            settings=SchedulerSettings(
                max_instances=self.dice.choice([1, 3, 8]),
                placement=self.dice.choice(list(Placement)),
                max_lost_attempts=100,
            ),
        )
        self.rig.create_error = self.create_error
        self.submitted = 0
        self.calm = False

    def create_error(self, command: CreateInstance) -> CloudError | None:
        if self.calm or self.dice.random() < 0.7:
            return None
        error = self.dice.choice(
            [QuotaError("q"), CapacityError("c"), AmbiguousResult("a"), CloudError("?")]
        )
        if isinstance(error, AmbiguousResult) and self.dice.random() < 0.5:
            number = len(self.rig.cloud) + 1000 + self.rig.engine.pool.next_op()
            instance_id = f"i-{number}"
            self.rig.cloud[instance_id] = InstanceSeen(
                id=instance_id, address=f"{instance_id}:22", tags=command.tags
            )
            self.rig.on_instance[instance_id] = {}
        return error

    def running(self) -> list[str]:
        return sorted(
            attempt_id
            for reports in self.rig.on_instance.values()
            for attempt_id, report in reports.items()
            if report.exit is None and attempt_id in self.rig.attempts
        )

    def step(self) -> None:
        choices = [
            self.submit,
            self.exit,
            self.exit,
            self.cancel,
            self.priority,
            self.lose_session,
            self.behave,
            self.kill,
            self.vanish,
            self.pass_time,
            self.pass_time,
            self.crash,
            self.mute,
            self.lag,
        ]
        self.dice.choice(choices)()

    def submit(self) -> None:
        for _ in range(self.dice.randint(1, 4)):
            self.submitted += 1
            self.rig.submit(
                make_container(
                    self.submitted,
                    cpus=self.dice.randint(1, 4),
                    priority=self.dice.randint(0, 5),
                )
            )

    def exit(self) -> None:
        if running := self.running():
            attempt_id = self.dice.choice(running)
            kind = self.dice.choice([ExitKind.EXITED, ExitKind.EXITED, ExitKind.LOST])
            if self.rig.attempts[attempt_id].instance_id in self.rig.cloud:
                self.rig.exit(attempt_id, self.dice.choice([0, 0, 1]), kind)

    def cancel(self) -> None:
        if waiting := [c for c in self.rig.containers.values() if not c.state.final]:
            self.rig.cancel(self.dice.choice(waiting).id)

    def priority(self) -> None:
        if waiting := [c for c in self.rig.containers.values() if not c.state.final]:
            self.rig.set_priority(self.dice.choice(waiting).id, self.dice.randint(0, 5))

    def worker(self) -> str:
        workers = sorted(self.rig.engine.pool.workers)
        return self.dice.choice(workers) if workers else ""

    def lose_session(self) -> None:
        if worker_id := self.worker():
            self.rig.send(SessionLost(worker_id=worker_id, last_contact=self.rig.now, reason="?"))

    def behave(self) -> None:
        if worker_id := self.worker():
            behavior = self.dice.choice(list(IdleBehavior))
            self.rig.send(BehaviorRequested(worker_id=worker_id, behavior=behavior))

    def kill(self) -> None:
        if worker_id := self.worker():
            self.rig.send(InstanceKillRequested(worker_id=worker_id, reason="?"))

    def vanish(self) -> None:
        if self.rig.cloud:
            instance_id = self.dice.choice(sorted(self.rig.cloud))
            del self.rig.cloud[instance_id]
            self.rig.on_instance.pop(instance_id, None)

    def pass_time(self) -> None:
        self.rig.advance(self.dice.choice([0.5, 5.0, 61.0, 700.0]))

    def crash(self) -> None:
        self.rig.crash()

    def lag(self) -> None:
        """The store hangs for some steps; then it catches up, or the dispatcher dies first."""
        if self.rig.store_lags:
            return
        self.rig.store_lags = True
        for _ in range(self.dice.randint(1, 4)):
            self.step()
        self.rig.store_lags = False
        if self.dice.random() < 0.5:
            self.rig.commit()
            self.rig.settle()
        else:
            self.crash()

    def mute(self) -> None:
        """Answers to starts, probes, destroys or listings get lost for a while."""
        muted = self.dice.choice([StartAttempt, Probe, DestroyInstance])
        self.rig.silent.add(muted)
        self.submit()
        self.rig.advance(self.dice.choice([0.0, 3.0]))
        self.rig.silent.discard(muted)
        starts = [c for c in self.rig.sent if isinstance(c, StartAttempt)]
        for start in starts if muted is StartAttempt else ():
            attempt_id = start.order.attempt_id
            reports = self.rig.on_instance.get(start.worker_id)
            if reports is None or attempt_id in reports:
                continue
            if self.rig.attempts[attempt_id].outcome is not None:
                continue
            if self.dice.random() < 0.5:
                reports[attempt_id] = AttemptReport(
                    attempt_id=attempt_id, container_id=start.order.container_id
                )
            self.rig.send(
                StartUnknown(
                    op_id=start.op_id,
                    worker_id=start.worker_id,
                    attempt_id=attempt_id,
                    message="?",
                )
            )
        if muted is not StartAttempt:
            self.crash()

    def recover(self) -> None:
        """No more faults: everything that was submitted must end, and every instance go."""
        self.calm = True
        rig = self.rig
        rig.crash()
        for container in list(rig.containers.values()):
            if not container.state.final and container.priority == 0:
                rig.set_priority(container.id, 1)
        for _ in range(400):
            for worker_id in sorted(rig.engine.pool.workers):
                rig.send(BehaviorRequested(worker_id=worker_id, behavior=IdleBehavior.RUN))
            for attempt_id in self.running():
                if rig.attempts[attempt_id].instance_id in rig.cloud:
                    rig.exit(attempt_id, 0)
            rig.advance(30)
            if all(c.state.final for c in rig.containers.values()) and not rig.cloud:
                return
        raise AssertionError(f"not over: {rig.states()} {rig.worker_states()}")


@pytest.mark.parametrize("seed", range(SEEDS))
def test_safety_then_liveness(seed: int) -> None:
    trouble = Trouble(seed)
    for _ in range(STEPS):
        trouble.step()
    trouble.recover()
    rig = trouble.rig
    assert len(rig.containers) == trouble.submitted, "no acknowledged container is lost"
    for container in rig.containers.values():
        outcomes = [
            a.outcome.value if a.outcome else None
            for a in sorted(rig.attempts.values(), key=lambda a: a.number)
            if a.container_id == container.id
        ]
        assert None not in outcomes
        assert "succeeded" not in outcomes[:-1], "what succeeded never runs again"
        if container.state.value == "succeeded":
            assert outcomes[-1] == "succeeded"
    rig.advance(3600)
    assert rig.cloud == {}
    assert rig.launches == {}
    assert [i.id for i in rig.instances.values() if i.gone_at is None] == []
    assert ListInstances in {type(command) for command in rig.sent}
