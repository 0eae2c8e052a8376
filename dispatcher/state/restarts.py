"""Whether and when a container is tried again; it follows from its attempts alone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from longshore.dispatcher.domain.containers import (
    ENGINE_FAILURE,
    INTERRUPTED,
    SUPERVISOR_LOST,
    Attempt,
    AttemptOutcome,
    Container,
    ContainerState,
    Preemptible,
    Reason,
    Retries,
    SchedulerSettings,
    WaitReason,
)
from longshore.dispatcher.domain.timefmt import moment
from longshore.dispatcher.state.attempt_end import ClosedAttempt, Finish, Requeue
from longshore.pool.backoff import doubled_s

_FINAL_STATE_AFTER = {
    AttemptOutcome.SUCCEEDED: ContainerState.SUCCEEDED,
    AttemptOutcome.FAILED: ContainerState.FAILED,
    AttemptOutcome.CANCELLED: ContainerState.CANCELLED,
}
"""What a container is after an attempt that is the last; the other outcomes go on."""

_SHORTEST_DELAY_S = 1.0
_INTERRUPTION_FIRST_S = 1.0
_INTERRUPTION_MOST_S = 900.0
_LOSS_FIRST_S = 1.0
_LOSS_MOST_S = 2.0
_LOSS_AGAIN_MOST_S = 60.0
_LOSSES_ON_ONE_MOST = 20
_PATIENCE_S = 600.0
_OVERLOAD_FIRST_S = 15.0
_OVERLOAD_MOST_S = 300.0
_OVERLOADS_MOST = 20


class FailureHistory:
    """What counts of a container's attempts for whether and when it is tried again.

    Attempts are taken in one after the other, so that one walk tells of each of them in its turn.
    """

    def __init__(self, retries: Retries, attempts: Iterable[Attempt] = ()) -> None:
        """Take in the attempts of a container with such `retries`, the earliest first."""
        self._retries = retries
        self._last: Attempt | None = None
        self._restarted_at: float | None = None
        self._failures_at: dict[int, int] = {}
        self.overloads = 0
        """How many were refused by instances that were overloaded."""
        self.interruptions = 0
        """How many of the latest in a row ended since the cloud took an instance."""
        self.losses = 0
        """How many of the latest in a row were lost, or not run, on an instance that is there.

        Nobody knows whose fault that is: it must not use up its tries within a moment.
        """
        self.lost = 0
        """How many count as lost: what an instance that is there loses counts once for it."""
        self.losses_on: Counter[str] = Counter()
        """How many were lost, or not run, on each instance that was there all the same."""
        self.reclaims = 0
        """How many of all did."""
        for attempt in attempts:
            self.take_in(attempt)

    @property
    def failures(self) -> int:
        """Return how often it failed at the revision of its job that it is of now."""
        return 0 if self._last is None else self._failures_at.get(self._last.revision, 0)

    def take_in(self, attempt: Attempt) -> None:
        """Go on to the next attempt."""
        last = self._last
        if last is not None and last.outcome is AttemptOutcome.FAILED:
            # Only what follows a failed one is a restart.
            self._restarted_at = attempt.created_at
        if attempt.outcome is AttemptOutcome.FAILED:
            failures = self._failures_at.get(attempt.revision, 0)
            self._failures_at[attempt.revision] = failures + 1
        self.overloads += _is_overload(attempt)
        interrupted = _is_reclaimed(attempt)
        self.reclaims += interrupted
        self.interruptions = self.interruptions + 1 if interrupted else 0
        self._take_in_loss(attempt)
        self._last = attempt

    def _take_in_loss(self, attempt: Attempt) -> None:
        if not _is_loss(attempt):
            self.losses = 0
            self.lost += attempt.outcome is AttemptOutcome.LOST and not _is_overload(attempt)
            return
        self.losses += 1
        self.lost += not self.losses_on[attempt.instance_id]
        self.losses_on[attempt.instance_id] += 1

    def due(self) -> float | None:
        """Return when it is started again after the latest attempt; see `restart_due`."""
        last = self._last
        waits = self.interruptions > 1 or self.losses > 0
        if last is not None and (_is_overload(last) or waits):
            return (last.finished_at or last.created_at) + self.longest_delay_s()
        if last is None or last.outcome is not AttemptOutcome.FAILED:
            return None
        if not self._is_tried_again(last):
            return None
        failed_at = last.finished_at or last.created_at
        return due_after(failed_at, self._restarted_at, self._retries)

    def longest_delay_s(self) -> float:
        """Return for how many seconds it is held back at most after its latest attempt."""
        if self.interruptions:
            return doubled_s(_INTERRUPTION_FIRST_S, self.interruptions - 2, _INTERRUPTION_MOST_S)
        if self.losses and self._last is not None:
            again = self.losses_on[self._last.instance_id] > 1 or _is_engine_failure(self._last)
            most_s = _LOSS_AGAIN_MOST_S if again else _LOSS_MOST_S
            return doubled_s(_LOSS_FIRST_S, self.losses - 1, most_s)
        if self._last is not None and _is_overload(self._last):
            return doubled_s(_OVERLOAD_FIRST_S, self.overloads - 1, _OVERLOAD_MOST_S)
        return max(self._retries.first_delay_s, _restart_delay_s(self._retries.delay_s))

    def reason(self, due: float) -> WaitReason:
        """Return why it waits until `due`; see `restart_reason`."""
        last = self._last
        if last is None:
            message = f"it is not to start before {moment(due)}"
            return WaitReason(code="not_before", message=message, until=due)
        why = last.reason
        if _is_overload(last):
            message = f"it is started again at {moment(due)}: its instance was overloaded"
            return WaitReason(code="restart_delay", message=message, until=due)
        if why is not None and _is_reclaimed(last):
            message = f"it is started again at {moment(due)}: {why.message}"
            message += f", which happened {self.reclaims} times"
            return WaitReason(code="restart_delay", message=message, until=due)
        if why is not None and last.outcome is AttemptOutcome.LOST:
            message = f"it is started again at {moment(due)}, elsewhere if it can be: {why.message}"
            return WaitReason(code="restart_delay", message=message, until=due)
        if why is not None and why.code == "exit_code":
            what = f"exited with {last.exit_code}"
        else:
            what = f"failed: {why.message}" if why is not None else "failed"
        tries = f"attempt {self.failures} of {self._retries.most + 1}"
        message = f"it is started again at {moment(due)}: {tries} {what}; {self._delay_told()}"
        return WaitReason(code="restart_delay", message=message, until=due)

    def _delay_told(self) -> str:
        """Return which delay it is that a restart waits for."""
        retries = self._retries
        if self._restarted_at is None:
            return f"the first restart waits for {retries.first_delay_s:g} s"
        return f"restarts are at least {_restart_delay_s(retries.delay_s):g} s apart"

    def _is_tried_again(self, last: Attempt) -> bool:
        retries = self._retries
        if self.failures > retries.most:
            return False
        code = last.reason.code if last.reason is not None else ""
        exited = code == "exit_code"
        if exited and retries.exit_codes and last.exit_code not in retries.exit_codes:
            return False
        return "failed" in retries.on or code in retries.on


def _tries(container: Container) -> FailureHistory:
    return FailureHistory(container.spec.retries, container.attempts)


def restart_due(container: Container) -> float | None:
    """Return when a container whose latest attempt failed is started again, by its `retries`.

    One that an overloaded instance refused, or whose instances the cloud takes back one after the
    other, waits longer each time, without a word from the user.

    In seconds since the epoch: for the first time `first_delay_s` after it failed (at once, when
    the user wants no pause), else `delay_s`, and a second at least, after the restart before at the
    earliest. None when it is not tried again, or
    did not fail. It follows from the attempts alone, so that it is known after a crash too.
    """
    return _tries(container).due()


def held_until(container: Container, now: float) -> float | None:
    """Return until when a container is held back after its latest attempt; see `restart_due`.

    A clock that was set back makes it wait no longer than the delay.
    """
    due = restart_due(container)
    return None if due is None else min(due, now + longest_delay_s(container))


def longest_delay_s(container: Container) -> float:
    """Return for how many seconds a container is held back at most after its latest attempt."""
    return _tries(container).longest_delay_s()


def restart_reason(container: Container, due: float) -> WaitReason:
    """Return why a container waits that is started (again) at `due` (seconds since the epoch)."""
    return _tries(container).reason(due)


def is_lasting(container: Container, settings: SchedulerSettings) -> bool:
    """Return whether a container is to have an instance that the cloud does not take back.

    That is once the cloud took back what it ran on too often. If it demands instances that may be
    taken back it stays on these, and is tried again later each time.
    """
    if not container.attempts or container.spec.constraints.preemptible is not Preemptible.ALLOWED:
        return False
    return sum(map(_is_reclaimed, container.attempts)) >= settings.max_reclaimed_attempts


def _is_reclaimed(attempt: Attempt) -> bool:
    return attempt.reason is not None and attempt.reason.code == INTERRUPTED


def due_after(ended_at: float, restarted_at: float | None, retries: Retries) -> float:
    """Return when what ended may be started again, in seconds since the epoch.

    `first_delay_s` after its end for the first time, then `delay_s` after the restart before at the
    earliest.
    """
    if restarted_at is None:
        return ended_at + retries.first_delay_s
    return max(ended_at, restarted_at + _restart_delay_s(retries.delay_s))


def _restart_delay_s(delay_s: float) -> float:
    """Return the least time between restarts: what fails at once must not keep us starting it."""
    return max(_SHORTEST_DELAY_S, delay_s)


def _is_overload(attempt: Attempt) -> bool:
    reason = attempt.reason
    return (
        attempt.outcome is AttemptOutcome.LOST
        and reason is not None
        and (reason.code == "overloaded")
    )


def _is_engine_failure(attempt: Attempt) -> bool:
    return attempt.reason is not None and attempt.reason.code == ENGINE_FAILURE


def _is_loss(attempt: Attempt) -> bool:
    reason = attempt.reason
    lost = attempt.outcome is AttemptOutcome.LOST and reason is not None
    return lost and reason is not None and reason.code in (SUPERVISOR_LOST, ENGINE_FAILURE)


def avoided(container: Container) -> tuple[str, ...]:
    """Return the instances on which a container was lost or not run, sorted.

    Others are tried first. One that is for a single instance has no other.
    """
    if not container.attempts or container.pinned_to:
        return ()
    return tuple(sorted({each.instance_id for each in container.attempts if _is_loss(each)}))


def returns_at(container: Container, now: float) -> float:
    """Return when a container may go back to where it was lost, though others could hold it.

    In seconds since the epoch; at once where its latest attempt ended after `now`, as it may have
    by a clock that was set back.
    """
    last = container.attempts[-1] if container.attempts else None
    ended_at = now if last is None else last.finished_at or last.created_at
    return ended_at + _PATIENCE_S if ended_at <= now else now


def final_reason(container: Container, reason: Reason | None) -> Reason | None:
    """Return why a container has failed for good, with the number of its failures if it may retry.

    `reason` is why its latest attempt failed, or was lost: what was lost counts as no failure.
    """
    most = container.spec.retries.most
    if reason is None or not most or container.attempts[-1].outcome is not AttemptOutcome.FAILED:
        return reason
    failures = _tries(container).failures
    message = f"{reason.message}; that was attempt {failures} of {most + 1}"
    if failures <= most:
        message += ", and such a failure is not tried again"
    return Reason(code=reason.code, message=message)


def runs_again_if_lost(container: Container) -> bool:
    """Return whether a container runs again, by its user's word, whose latest attempt was lost.

    What never started has lost nothing, and is tried again even where the user wants no retry.
    """
    last = container.attempts[-1]
    codes = ("never_started", ENGINE_FAILURE)
    never_started = last.reason is not None and last.reason.code in codes
    return container.spec.retry_lost or never_started or _is_overload(last)


def may_try_again(container: Container, settings: SchedulerSettings) -> bool:
    """Return whether a container whose latest attempt was lost goes back to the queue.

    Two kinds of loss have limits of their own: what overloaded instances refuse, since no instance
    is lost by it; and what is lost on one and the same instance while that is there, so that an
    instance on which nothing runs does not use up all tries.
    """
    tries = _tries(container)
    if _is_overload(container.attempts[-1]):
        return tries.overloads < _OVERLOADS_MOST
    most = settings.max_lost_attempts
    on_one = max(tries.losses_on.values(), default=0)
    few = tries.lost < most and on_one < max(most, _LOSSES_ON_ONE_MOST)
    return runs_again_if_lost(container) and few


def given_up_reason(
    container: Container, reason: Reason | None, settings: SchedulerSettings
) -> Reason | None:
    """Return why a container has failed whose latest attempt was lost, and that it is given up.

    `reason` is why that attempt was lost.
    """
    if reason is None:
        return None
    tries, most = _tries(container), settings.max_lost_attempts
    lost = sum(each.outcome is AttemptOutcome.LOST for each in container.attempts) - tries.overloads
    worst, on_one = max(tries.losses_on.items(), key=lambda each: each[1], default=("", 0))
    if _is_overload(container.attempts[-1]):
        why = f"overloaded instances refused it {tries.overloads} times"
    elif not runs_again_if_lost(container):
        why = "its retries say that what is lost is not tried again (lost: false)"
    elif tries.lost >= most:
        why = (
            f"attempts of it were lost or could not run {lost} times (max_lost_attempts is {most})"
        )
    else:
        why = f"attempts of it were lost or could not run {on_one} times on {worst}"
    return Reason(code=reason.code, message=f"{reason.message}; it is given up, since {why}")


def after(closed: ClosedAttempt, settings: SchedulerSettings, now: float) -> Requeue | Finish:
    """Return what becomes of a container of batch work one of whose attempts is over."""
    container, attempt = closed.container, closed.attempt
    outcome, reason = attempt.outcome, attempt.reason
    state = None if outcome is None else _FINAL_STATE_AFTER.get(outcome)
    if outcome is AttemptOutcome.LOST and not may_try_again(container, settings):
        state = ContainerState.FAILED
        reason = given_up_reason(container, reason, settings)
    else:
        until = held_until(container, now)
        if until is not None or state is None:
            return Requeue(container_id=container.id, until=until)
        if outcome is AttemptOutcome.FAILED:
            reason = final_reason(container, reason)
    return Finish(
        container_id=container.id, state=state, reason=reason, exit_code=attempt.exit_code
    )
