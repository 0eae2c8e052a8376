"""The error taxonomy: what a driver, or anything remote, may raise, and what each one means.

A driver maps every failure of its cloud onto one of these. Anything else that escapes a driver is
treated as a `CloudError` of unknown cause, never as success and never as "it did not happen".
"""

from __future__ import annotations

from enum import Enum
from typing import final


class ErrorScope(Enum):
    """How far a shortage or a limit reaches: one type, its quota group, or the whole account."""

    TYPE = "type"
    GROUP = "group"
    ALL = "all"


class LongshoreError(Exception):
    """The root of all errors that Longshore raises on purpose."""


class CloudError(LongshoreError):
    """A cloud operation failed; the caller may try again later."""


@final
class RateLimitError(CloudError):
    """The API throttles us; in `retry_after_s` seconds it may answer (None: not told)."""

    def __init__(self, message: str, *, retry_after_s: float | None = None) -> None:
        super().__init__(message)
        self.retry_after_s = retry_after_s


@final
class QuotaError(CloudError):
    """A limit of the account is reached, as far as `scope` says; destroying may make room.

    A limit of the whole account told as one of a group would let less important containers of
    other groups take each place that comes free.
    """

    def __init__(self, message: str, *, scope: ErrorScope = ErrorScope.GROUP) -> None:
        super().__init__(message)
        self.scope = scope


@final
class CapacityError(CloudError):
    """The cloud is short of what was asked, as far as `scope` says; another type may be had."""

    def __init__(self, message: str, *, scope: ErrorScope = ErrorScope.TYPE) -> None:
        super().__init__(message)
        self.scope = scope


@final
class InstanceNotFound(CloudError):  # noqa: N818 - the design fixes the name
    """The instance does not exist (any more); a destroy that raises it has succeeded."""


@final
class CloudAuthError(CloudError):
    """The cloud refuses our credentials; an operator must mend them."""


@final
class AmbiguousResult(CloudError):  # noqa: N818 - the design fixes the name
    """Nobody knows whether the operation happened; only the next listing can tell."""


class RemoteError(LongshoreError):
    """Something on an instance failed."""


@final
class Unreachable(RemoteError):  # noqa: N818 - the design fixes the name
    """The instance does not answer, or stopped answering, within the deadline."""


@final
class HostKeyMismatch(RemoteError):  # noqa: N818 - the design fixes the name
    """The far end is not, or does not prove to be, the instance that we created."""


@final
class CommandFailed(RemoteError):  # noqa: N818 - the design fixes the name
    """A command ran on the instance and failed; `exit_status` and `stderr` tell how."""

    def __init__(self, message: str, *, exit_status: int, stderr: str = "") -> None:
        super().__init__(message)
        self.exit_status = exit_status
        self.stderr = stderr


@final
class ConfigError(LongshoreError):
    """The configuration cannot be used; `problems` lists all of them as (path, what and remedy)."""

    def __init__(self, problems: list[tuple[str, str]]) -> None:
        super().__init__("; ".join(f"{path}: {what}" for path, what in problems))
        self.problems = problems


@final
class InvalidRequest(LongshoreError):  # noqa: N818 - the design fixes the name
    """A request cannot be accepted; `problems` lists all of them as (path, what and remedy)."""

    def __init__(self, problems: list[tuple[str, str]]) -> None:
        super().__init__("; ".join(f"{path}: {what}" for path, what in problems))
        self.problems = problems


@final
class BugError(LongshoreError):
    """Our own code broke a promise; never caught below the runtime."""
