"""Whatever happens to an instance with residents: its records add up, and a destroy follows."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from longshore.pool import attempts, shutdown
from longshore.pool.messages import (
    AttemptStarted,
    BrokenReported,
    DestroyInstance,
    LogComplete,
    Probe,
    StartAttempt,
    StartRefused,
    StartUnknown,
)
from longshore.pool.model import IdleBehavior, PoolAttempt, Worker, WorkerState
from tests.rigs.pool import PoolRig

NAMES = [
    *("place", "reside", "start", "refuse", "doubt", "exit", "log", "kill"),
    *("lose", "answer", "complain", "unwanted", "drain", "hold", "run", "wait"),
]
STEPS = st.lists(st.tuples(st.sampled_from(NAMES), st.integers(0, 200)), max_size=25)
BEHAVIORS = {"drain": IdleBehavior.DRAIN, "hold": IdleBehavior.HOLD, "run": IdleBehavior.RUN}


class Life:
    """One instance, to which steps happen where they can."""

    def __init__(self) -> None:
        self.rig = PoolRig()
        self.worker: Worker = self.rig.boot("i-1")
        self.rig.silent |= {StartAttempt, Probe}
        self.placed = 0

    def step(self, name: str, number: int) -> None:
        """Let one thing happen; `number` says which, or for how long."""
        rig, worker = self.rig, self.worker
        there = rig.core.attempts_on("i-1")
        attempt = there[number % len(there)] if there else None
        if name in ("place", "reside"):
            self._place(number, resident=name == "reside")
        elif name in BEHAVIORS:
            if worker.state is not WorkerState.SHUTDOWN:
                rig.behave(worker, BEHAVIORS[name])
        elif name == "wait":
            rig.advance(number)
        elif name == "lose":
            rig.lose_session(worker)
        elif name == "complain":
            rig.send(BrokenReported(worker_id="i-1", message="disk" if number % 2 else ""))
        elif name == "unwanted":
            shutdown.on_unwanted(rig.core, worker, rig.now)
        elif name == "answer":
            rig.send(rig.probe_answer(rig.asked(Probe)[-1]))
        elif attempt is not None:
            self._tell(name, attempt)
        rig.settle()

    def _place(self, number: int, *, resident: bool) -> None:
        if self.worker.is_ready:
            self.placed += 1
            grace_s = None if number > 150 else float(number)
            attempt_id = f"a-{self.placed:02}"
            self.rig.place(self.worker, attempt_id, resident=resident, grace_s=grace_s)

    def _tell(self, name: str, attempt: PoolAttempt) -> None:
        rig, id_ = self.rig, attempt.id
        match name:
            case "start":
                rig.on_instance["i-1"].add(id_)
                rig.send(AttemptStarted(op_id=attempt.start_op, worker_id="i-1", attempt_id=id_))
            case "refuse":
                rig.send(
                    StartRefused(
                        op_id=attempt.start_op,
                        worker_id="i-1",
                        attempt_id=id_,
                        code="overloaded",
                        message="",
                    )
                )
            case "doubt":
                rig.send(
                    StartUnknown(
                        op_id=attempt.start_op, worker_id="i-1", attempt_id=id_, message=""
                    )
                )
            case "exit":
                rig.exit(self.worker, id_)
            case "log":
                if attempt.is_finished:
                    rig.send(LogComplete(worker_id="i-1", attempt_id=id_))
            case "kill":
                attempts.kill(rig.core, id_, rig.now)


@settings(max_examples=300, deadline=None)
@given(steps=STEPS)
def test_a_destroy_follows_every_shutdown_in_time_whatever_happens(
    steps: list[tuple[str, int]],
) -> None:
    life = Life()
    rig, worker = life.rig, life.worker
    for name, number in steps:
        life.step(name, number)
        if worker.state is WorkerState.SHUTDOWN:
            late = rig.now > worker.state_since + rig.core.settings.term_timeout_s
            assert rig.asked(DestroyInstance) or not late
        else:
            assert not rig.asked(DestroyInstance)
    if worker.state is not WorkerState.SHUTDOWN:
        rig.behave(worker, IdleBehavior.RUN)
        shutdown.set_awaited(rig.core, frozenset(), rig.now)
        for attempt_id in sorted(worker.load.attempts.keys() - worker.load.resident):
            rig.end(worker, attempt_id)
        rig.advance(rig.core.settings.boot_timeout_s + rig.core.settings.probe_timeout_s)
    assert worker.state is WorkerState.SHUTDOWN
    rig.advance(rig.core.settings.term_timeout_s)
    assert rig.asked(DestroyInstance)
    assert not worker.link.session_up
