"""Instances that swallow what is started there: its end comes at once, and nothing has run.

An instance whose storage or container engine is broken is idle again within milliseconds, and so
the best place for whoever waits: it would take a whole queue, and use up everybody's tries. Only it
can tell whether it is broken or the requests are, so nothing is concluded from ends alone:

- *What counts*: an attempt that ended as `lost` or by a fault of the engine's, neither told to end
  nor interrupted, and not by a fault of the request's own, nor a registry's, which the runner tells
  apart (`Fault`). One that was lost may have run, which is certain where it wrote to stdout, or was
  seen to run for as long as proves an instance (`pool.boot_failures`), over one session: then its
  supervisor went, and its instance is not blamed.
  Each container counts once, however often it is tried there, but at the third time it counts for
  all: it may be alone. Whoever was seen to run, by an exit, ends the count of its kind: with an
  image, or without.
- *At three* the instance gets no work until a probe has let its runner try the engine: with a
  container of the runner's own, in which there is no image and no word of a user's.
- *A trial that fails* marks the instance broken: it drains, with the reason. *One that passes* ends
  the count, and for a while what is swallowed of the same users' counts for nothing there: their
  requests were at fault in a way that the runner does not know, and must not keep others waiting.

Doubts: what was under way on the instance by the third end is swallowed too. A trial that passes
does not show that images can be pulled there. So nothing here keeps a container from being tried on
one instance alone: that others come first, ever later, and that one instance does not use up its
tries, is for the dispatcher (`dispatcher.scheduler.placement.avoiding`,
`dispatcher.state.restarts`).
"""

from __future__ import annotations

from longshore.pool import boot_failures, shutdown
from longshore.pool.core import PoolCore
from longshore.pool.messages import ProbeSucceeded
from longshore.pool.model import AttemptExit, ExitKind, Fault, PoolAttempt, Swallowed, Worker
from longshore.pool.timers import TimerKind

ENDS_BEFORE_TRIAL = 3
ACQUITTED_S = 600.0


def note_end(
    core: PoolCore, worker: Worker, attempt: PoolAttempt, how: AttemptExit, now: float
) -> None:
    """Count an end that came without a word to end, if nothing ran; else end the count."""
    match how.kind:
        case ExitKind.EXITED | ExitKind.OUT_OF_MEMORY:
            worker.health.seen_to_run(contained=attempt.contained)
            return
        case ExitKind.ENGINE_FAILURE if how.fault is not Fault.INSTANCE:
            return
        case ExitKind.LOST if _had_run(worker, attempt, how, now):
            return
        case ExitKind.ENGINE_FAILURE | ExitKind.LOST:
            pass
    if worker.health.on_trial or now < worker.health.acquitted.get(attempt.user, now):
        return
    before = worker.health.swallowed.get(attempt.container_id)
    swallowed = Swallowed(
        user=attempt.user,
        contained=attempt.contained,
        times=before.times + 1 if before is not None else 1,
    )
    ended = "was lost" if how.kind is ExitKind.LOST else "ended without having run"
    why = f"{attempt.id} {ended}: {how.message or how.kind.value}"
    worker.health.swallowed_one(attempt.container_id, swallowed, why)
    if max(len(worker.health.swallowed), swallowed.times) >= ENDS_BEFORE_TRIAL:
        worker.health.try_engine()
        worker.invalidate_probe()
        core.touch(worker.id)
        core.timers.soonest(TimerKind.PROBE, worker.id, now)
        core.note_changed(worker, f"its engine is tried: {worker.health.last_error}")


def _had_run(worker: Worker, attempt: PoolAttempt, how: AttemptExit, now: float) -> bool:
    """Return whether what was lost had certainly run before."""
    if how.stdout_bytes:
        return True
    since = attempt.running_since
    if since is None or attempt.pulling:
        return False
    return now - max(since, worker.link.attached_at) >= boot_failures.PROVES_AFTER_S


def judge(core: PoolCore, worker: Worker, event: ProbeSucceeded, now: float) -> None:
    """Take in what a probe found of the engine, if it tried it."""
    if not worker.health.on_trial:
        return
    if event.trial_error is None:
        # It was on its way before: the next one tries the engine.
        core.timers.soonest(TimerKind.PROBE, worker.id, now)
        return
    swallowed = worker.health.tried()
    core.touch(worker.id)
    if event.trial_error:
        number = len(swallowed)
        who = f"{number} containers" if number != 1 else "a container"
        what = f"{who} could not run there: {event.trial_error}"
        shutdown.mark_broken(core, worker, what)
        boot_failures.note(core, worker, what, now)
        return
    for user in sorted({each.user for each in swallowed.values()}):
        worker.health.acquit(user, now + ACQUITTED_S)
    core.note_changed(worker, "its engine works: it takes work again")
