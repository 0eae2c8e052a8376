"""What an attempt finds in its environment of what it is part of."""

from __future__ import annotations

from longshore.dispatcher.model import Attempt, Container


def environment(
    container: Container,
    attempt: Attempt,
    array_size: int | None,
    more: tuple[tuple[str, str], ...] = (),
) -> tuple[tuple[str, str], ...]:
    """Return the environment of an attempt: the user's, and ours, which wins; sorted by name.

    `array_size` is how many elements its array has, None when it is in none; `more` are further
    ones of ours.
    """
    ours = {
        "LONGSHORE_CONTAINER_ID": container.id,
        "LONGSHORE_ATTEMPT": str(attempt.number),
    }
    if container.job_id:
        ours["LONGSHORE_JOB_ID"] = container.job_id
    if container.task:
        ours["LONGSHORE_TASK"] = container.task
    if container.array_index is not None and array_size is not None:
        ours["LONGSHORE_ARRAY_INDEX"] = str(container.array_index)
        ours["LONGSHORE_ARRAY_SIZE"] = str(array_size)
    if container.pinned_to:
        ours["LONGSHORE_INSTANCE_ID"] = container.pinned_to
    return tuple(sorted({**dict(container.spec.env), **ours, **dict(more)}.items()))
