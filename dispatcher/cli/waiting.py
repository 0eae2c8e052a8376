"""The part that `wait` and `submit --wait` share: watch, show, and find the exit code."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from dispatcher.cli.client import Client, Json
from dispatcher.cli.failure import INTERRUPTED, TIMED_OUT, Failure
from dispatcher.cli.progress import progress_for
from dispatcher.cli.views import ContainerView
from dispatcher.cli.watching import Watch


def await_containers(
    client: Client, container_ids: Sequence[str], timeout_s: float | None
) -> tuple[list[ContainerView], list[Json]]:
    """Wait until all have ended and return them, as views and as JSON, in the order given.

    Raises `Failure`: exit code 124 when `timeout_s` passes (None: never), 130 when interrupted.
    """
    progress = progress_for(container_ids)
    watch = Watch(client, container_ids, changed=progress.changed, say=progress.say)
    try:
        with progress.shown():
            ended = watch.run(timeout_s)
    except KeyboardInterrupt:
        raise goes_on(container_ids) from None
    if not ended:
        waited_for = [each for each in watch.ids if not watch.views[each].final]
        raise Failure(
            f"not ended within {timeout_s:g} s: {named(waited_for)}",
            remedy="They go on" if len(waited_for) > 1 else "It goes on",
            exit_code=TIMED_OUT,
        )
    return [watch.views[each] for each in watch.ids], [watch.raw[each] for each in watch.ids]


def goes_on(container_ids: Sequence[str]) -> Failure:
    """Return what is said after Ctrl-C: waiting ends, the containers do not."""
    who = "the container goes on" if len(container_ids) == 1 else "the containers go on"
    first = container_ids[0]
    return Failure(
        f"interrupted; {who} ({named(container_ids)})",
        remedy=f"See 'longshore wait {first}', end with 'longshore cancel {first}'",
        exit_code=INTERRUPTED,
    )


def named(container_ids: Sequence[str], at_most: int = 5) -> str:
    """Return ids as a phrase, the first few by name."""
    rest = len(container_ids) - at_most
    return ", ".join(container_ids[:at_most]) + (f" and {rest} more" if rest > 0 else "")


def status_of(ended: Iterable[ContainerView]) -> int:
    """Return the first exit code that is not 0, in the order given."""
    return next((each.status for each in ended if each.status), 0)
