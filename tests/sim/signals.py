"""The checks of how attempts are ended: TERM, a grace period, KILL."""

from __future__ import annotations

from math import inf

from longshore.dispatcher.domain.containers import StopCause
from longshore.dispatcher.engine.outbox import STALLED_AFTER_S
from longshore.dispatcher.state.attempt_end import container_of
from longshore.pool.messages import (
    AttemptStarted,
    PoolCommand,
    PoolEvent,
    ReleaseAttempt,
    SignalAttempt,
)
from longshore.pool.model import PoolAttempt, Starting, Stopping, WorkerState
from tests.sim.process import DispatcherProcess
from tests.sim.timeline import Timeline
from tests.sim.truth import Truth, expect

SLACK = 1e-6

WAITED_FOR = (StopCause.FOR_CONTAINER, StopCause.FOR_JOB)
"""For what those end whose room others wait for."""


class Signals:
    """Looks at one process: when it sends which signal."""

    def __init__(self, process: DispatcherProcess, timeline: Timeline, truth: Truth) -> None:
        self._process = process
        self._pool = process.engine.pool
        self._table = process.engine.table
        self._timeline = timeline
        self._truth = truth
        self._first_signals: dict[tuple[str, str], float] = {}
        self._last_signals: dict[tuple[str, str], tuple[str, float]] = {}
        self._graces_s: dict[tuple[str, str], float] = {}
        self._terms_sent: dict[tuple[str, str], float] = {}
        self._started_at: dict[str, float] = {}
        self._evicted: set[str] = set()
        self._released: set[tuple[str, str]] = set()

    def heard(self, event: PoolEvent) -> None:
        """Look at an event before the engine gets it."""
        if isinstance(event, AttemptStarted):
            self._started_at[event.attempt_id] = self._timeline.now

    def decided(self, command: PoolCommand) -> None:
        """Look at a command as it was decided."""
        if isinstance(command, SignalAttempt):
            self._on_signal(command)
        elif isinstance(command, ReleaseAttempt):
            # What nobody asked for may come again, by the name of an attempt elsewhere.
            stored = self._truth.store.attempts.get(command.attempt_id)
            if stored is not None and stored.instance_id == command.worker_id:
                self._released.add((command.worker_id, command.attempt_id))

    def _on_signal(self, command: SignalAttempt) -> None:
        key, now = (command.worker_id, command.attempt_id), self._timeline.now
        worker = self._pool.workers[command.worker_id]
        expect(key not in self._released, "what has ended for good is left alone", f"{key}")
        up = worker.link.session_up or worker.state is WorkerState.SHUTDOWN
        expect(up, "signals go over a session", f"{key}")
        attempt = self._pool.find_attempt(*key)
        phase = None if attempt is None else attempt.phase
        begins = isinstance(phase, Stopping) and phase.since == self._process.now()
        again = attempt is not None and not begins
        first = self._first_signals.get(key) if again else None
        told, last = self._last_signals.get(key, ("", -inf)) if again else ("", -inf)
        self._last_signals[key] = (command.signal, now)
        early = now < last + self._pool.settings.signal_interval_s - SLACK
        excused = self._started_at.get(command.attempt_id) == now or command.signal != told
        expect(not early or excused, "signals have their time", f"{key}: the last came at {last}")
        grace_s = self._graces_s[key] = self._grace_s(attempt)
        if command.signal == "KILL":
            patient = not grace_s or (first is not None and now >= first + grace_s - SLACK)
            expect(patient, "TERM comes before KILL", f"{key}: the first came at {first}")
        else:
            late = first is not None and now > first + grace_s + SLACK
            expect(not late, "KILL follows TERM", f"{key}: the first came at {first}")
            left_s = grace_s if first is None else first + grace_s - now
            told_s = command.grace_s
            right = abs(told_s - left_s) <= SLACK
            expect(right, "the runner knows when KILL is due", f"{key}: {told_s} s, not {left_s}")
        if attempt is None or not isinstance(attempt.phase, Starting):
            # A start that is on its way may come after any number of signals.
            self._first_signals[key] = now if first is None else first

    def _grace_s(self, attempt: PoolAttempt | None) -> float:
        """Return how long an attempt has between TERM and KILL, by what its user asked for.

        One that makes way for somebody has no more than all have, whoever ends it afterwards.
        """
        most_s = self._pool.settings.term_timeout_s
        container_id = "" if attempt is None or attempt.stray else container_of(attempt.id)
        container = self._table.containers.get(container_id)
        asked_s = None if container is None else container.spec.grace_period_s
        if container is None or asked_s is None:
            return most_s
        self._evicted |= {a.id for a in container.attempts if a.stop_reason.cause in WAITED_FOR}
        evicted = attempt is not None and attempt.id in self._evicted
        return min(asked_s, most_s) if evicted else asked_s

    def signalled(self, command: SignalAttempt) -> None:
        """Look at a signal that is sent: what the end will mean is journalled by now.

        KILL may come early by as much as TERM came late, which is less than makes a standstill.
        """
        key, now = (command.worker_id, command.attempt_id), self._timeline.now
        if command.signal == "TERM":
            self._terms_sent.setdefault(key, now)
        else:
            first = self._terms_sent.get(key, inf)
            least_s = self._graces_s[key] - STALLED_AFTER_S
            patient = least_s <= 0 or now >= first + least_s - SLACK
            expect(patient, "TERM comes before KILL", f"{key}: the first was sent at {first}")
        stored = self._truth.store.attempts.get(command.attempt_id)
        if stored is not None and stored.instance_id == command.worker_id:
            meant = stored.intended_outcome is not None or stored.outcome is not None
            expect(meant, "journal before kill", f"{stored}")
