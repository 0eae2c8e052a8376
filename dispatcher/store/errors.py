"""What the store raises, or puts into the future of a write that it refuses."""

from __future__ import annotations

from typing import final

from longshore.dispatcher.domain.containers import ContainerState
from longshore.dispatcher.domain.jobs import JobState
from longshore.drivers.errors import LongshoreError


class StoreError(LongshoreError):
    """The root of all errors of the store."""


@final
class StoreUnusable(StoreError):  # noqa: N818 - it names a condition, as the taxonomy does
    """The store cannot be opened; the message says why and what an operator can do."""


@final
class StoreIsAnother(StoreError):  # noqa: N818 - it names a condition, as the taxonomy does
    """The store is not the one that its data directory knows; the message has both dates."""


@final
class StoreReplaced(StoreError):  # noqa: N818 - it names a condition, as the taxonomy does
    """The files of an open store are gone, or others lie in their place; the remedy is named."""


@final
class StoreBusy(StoreError):  # noqa: N818 - it names a condition, as the taxonomy does
    """Too much waits to be written or read already; the caller may try again later."""


@final
class StoreClosed(StoreError):  # noqa: N818 - it names a condition, as the taxonomy does
    """The store is closed, or was closed before it could write this; nothing was written."""


@final
class LeftInDoubt(StoreError):  # noqa: N818 - it names a condition, as the taxonomy does
    """The store was closed while this was being committed: it may be written or not."""


@final
class Withdrawn(StoreError):  # noqa: N818 - it names a condition, as the taxonomy does
    """The caller took the change back before it was written."""


@final
class IdempotentRepeat(StoreError):  # noqa: N818 - it names a condition, as the taxonomy does
    """The same request was committed before; `container_ids` are what it made, in order.

    Of a job that is the job's own id, alone.
    """

    def __init__(self, container_ids: tuple[str, ...]) -> None:
        super().__init__("this request was committed before")
        self.container_ids = container_ids


@final
class IdempotencyConflict(StoreError):  # noqa: N818 - it names a condition, as the taxonomy does
    """The idempotency key was used for a different request; the caller must take another."""


@final
class NoSuchContainer(StoreError):  # noqa: N818 - it names a condition, as the taxonomy does
    """There is no container of this id."""

    def __init__(self, container_id: str) -> None:
        super().__init__(f"there is no container {container_id}")
        self.container_id = container_id


@final
class NoSuchJob(StoreError):  # noqa: N818 - it names a condition, as the taxonomy does
    """There is no job of this id."""

    def __init__(self, job_id: str) -> None:
        super().__init__(f"there is no job {job_id}")
        self.job_id = job_id


@final
class AlreadyFinal(StoreError):  # noqa: N818 - it names a condition, as the taxonomy does
    """The container or job has ended, so that the change could have no effect.

    `what` names it as the message does ("job j-1"), `state` says how it ended.
    """

    def __init__(self, what: str, state: ContainerState | JobState) -> None:
        been = "been " if state in (ContainerState.CANCELLED, JobState.CANCELLED) else ""
        super().__init__(f"{what} has {been}{state.value} already")
        self.what = what
        self.state = state


@final
class ParentClosed(StoreError):  # noqa: N818 - it names a condition, as the taxonomy does
    """The container that submits this, or the job that it is a run of, takes nothing more.

    It has ended, or is being cancelled: the message says which of the two. Nothing can be done
    about it.
    """


@final
class RevisionConflict(StoreError):  # noqa: N818 - it names a condition, as the taxonomy does
    """The job cannot become this revision; the message tells people why, and what they can do."""


class OutOfOrder(StoreError):  # noqa: N818 - it says what would have come of it
    """A change builds on one that was refused: it is not written either. Start again."""


@final
class TooManySums(StoreError):  # noqa: N818 - it names a condition, as the taxonomy does
    """A question of the ledger has more sums than were asked for; ask for less, or coarser."""

    def __init__(self) -> None:
        super().__init__("the ledger has too many sums of that")
