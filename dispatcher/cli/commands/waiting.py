"""The part that `wait` and `submit --wait` share: watch, show, and find the exit code."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from longshore.dispatcher.api.schemas.jobs import JobAnswer
from longshore.dispatcher.cli import output
from longshore.dispatcher.cli.answers import Awaited, exit_status, is_final
from longshore.dispatcher.cli.client import CommandClient, Json
from longshore.dispatcher.cli.failure import INTERRUPTED, TIMED_OUT, CommandFailure
from longshore.dispatcher.cli.ids import what_goes_on
from longshore.dispatcher.cli.job_terms import why_endless
from longshore.dispatcher.cli.render.progress import progress_for
from longshore.dispatcher.cli.watching import Watcher


class NotEndedError(CommandFailure):
    """Something has not ended in time; `raw` has what is known of all, in their order, as JSON."""

    def __init__(self, sentence: str, *, remedy: str, raw: list[Json]) -> None:
        super().__init__(sentence, remedy=remedy, exit_code=TIMED_OUT)
        self.raw = raw


def await_ended(
    client: CommandClient, identifiers: Sequence[str], timeout_s: float | None
) -> tuple[list[Awaited], list[Json]]:
    """Wait until containers and jobs have ended; return them in their order, and their JSON.

    Raises `NotEndedError` (exit code 124) when `timeout_s` passes (None: never), `CommandFailure`
    (130) when interrupted.
    """
    progress = progress_for(identifiers)
    told: set[str] = set()

    def changed(seen: Awaited) -> None:
        progress.changed(seen)
        if isinstance(seen, JobAnswer) and seen.id not in told and not is_final(seen):
            told.add(seen.id)
            if why := why_endless(seen):
                output.say(f"waiting for {seen.id} until it is cancelled: {why}")

    watch = Watcher(client, identifiers, changed=changed, say=progress.say)
    try:
        with progress.shown():
            ended = watch.run(timeout_s)
    except KeyboardInterrupt:
        raise goes_on(identifiers) from None
    if not ended:
        waited_for = [each for each in watch.ids if not is_final(watch.answers[each])]
        raise NotEndedError(
            f"not ended within {timeout_s:g} s: {named(waited_for)}",
            remedy="They go on" if len(waited_for) > 1 else "It goes on",
            raw=[watch.raw[each] for each in watch.ids],
        )
    return [watch.answers[each] for each in watch.ids], [watch.raw[each] for each in watch.ids]


def goes_on(identifiers: Sequence[str]) -> CommandFailure:
    """Return what is said after Ctrl-C: waiting ends, what was waited for does not."""
    first = identifiers[0]
    return CommandFailure(
        f"interrupted; {what_goes_on(identifiers)} ({named(identifiers)})",
        remedy=f"See 'longshore wait {first}', end with 'longshore cancel {first}'",
        exit_code=INTERRUPTED,
    )


def named(identifiers: Sequence[str], at_most: int = 5) -> str:
    """Return ids as a phrase, the first few by name."""
    rest = len(identifiers) - at_most
    return ", ".join(identifiers[:at_most]) + (f" and {rest} more" if rest > 0 else "")


def status_of(ended: Iterable[Awaited]) -> int:
    """Return the first exit code that is not 0, in the order given."""
    return next((status for each in ended if (status := exit_status(each))), 0)
