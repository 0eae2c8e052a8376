"""What the conformance kit is handed and what it tells; `dispatcher.conformance.kit` runs it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from enum import Enum
from typing import Protocol, runtime_checkable

import msgspec

from longshore.drivers.errors import RemoteError
from longshore.drivers.interface import HostKeyVerdict, InstanceType
from longshore.drivers.registry import DriverContext, DriverInfo

_FIRST_POLLS = 20
_POLL_GROWTH = 1.5

Verify = Callable[[str], HostKeyVerdict]


class Nonconformity(Exception):  # noqa: N818 - it is what the driver does wrong, and never escapes the kit
    """The driver does not do what it must; `remedy` tells its author what to do."""

    def __init__(self, what: str, remedy: str) -> None:
        super().__init__(f"{what}; {remedy}")
        self.what = what
        self.remedy = remedy


class NotShown(Exception):  # noqa: N818 - it is no error, and never escapes the kit
    """A check cannot be made here; its text says why."""


class UnprovenKeyError(RemoteError):
    """An instance was reached and did not prove its host key; the text says why.

    `may_pass` says that its init script may have yet to run; `remedy` is what would do else.
    """

    def __init__(self, message: str, *, may_pass: bool, remedy: str) -> None:
        super().__init__(message)
        self.may_pass = may_pass
        self.remedy = remedy


class RemoteShell(Protocol):
    """One connection to an instance whose host key is proven, logged in."""

    @property
    def host_key(self) -> str:
        """Return the key that was proven, as "TYPE BASE64"."""
        ...

    def run(self, command: str, *, timeout_s: float) -> tuple[int, str]:
        """Run a shell command and return its exit status and what it wrote to standard output.

        Raises a `RemoteError`.
        """
        ...

    def close(self) -> None:
        """End the connection; twice is no error."""
        ...


class Shell(Protocol):
    """How the kit reaches instances; `conformance.shell` does it as the dispatcher does."""

    @property
    def public_key(self) -> str:
        """Return the key that may log in, as "TYPE BASE64"."""
        ...

    @property
    def strange_key(self) -> str:
        """Return the public key of somebody who may not log in, as "TYPE BASE64"."""
        ...

    @property
    def mark_command(self) -> str:
        """Return shell that succeeds where an init command of ours has run to its end."""
        ...

    def init_command(self, secret: str, *, power_off: str, delay_s: int) -> str:
        """Return an instance's first script, as the dispatcher writes it.

        It puts `secret` in place, sees to it that `power_off` ("" for nothing) is run when nobody
        comes for an hour, takes `delay_s` longer than it must, and leaves a mark at its end.
        """
        ...

    def connect(self, address: str, *, secret: str, verify: Verify) -> RemoteShell:
        """Connect to `address`, prove the host key by the driver's word or `secret`, and log in.

        Raises `Unreachable`, `HostKeyMismatch` when the key is wrong, and `UnprovenKeyError`.
        """
        ...

    def boot_probe(self, address: str, *, secret: str, verify: Verify) -> None:
        """Do all that the dispatcher does before it uses an instance; raises a `RemoteError`."""
        ...

    def admits_strangers(self, address: str) -> bool:
        """Return whether somebody with another key can log in; raises `Unreachable`."""
        ...


class Cause(Enum):
    """Trouble that only a test bed can make, on demand."""

    LOST_ANSWER = "the next create call is carried out and its answer is lost"
    THROTTLED = "the cloud throttles every call"
    QUOTA_OF_GROUP = "the account's limit of the type's quota group is reached"
    QUOTA_OF_ACCOUNT = "a limit of the whole account is reached"
    SHORT_OF_TYPE = "the cloud is short of the instance type"
    SHORT_OF_ALL = "the cloud is short of everything"
    BAD_CREDENTIALS = "the cloud refuses the credentials"
    SERVER_ERROR = "the cloud answers every call with an error of its own"
    CUT_LISTING = "a part of the listing cannot be had"
    DUPLICATES = "the cloud lists every instance twice"


@runtime_checkable
class Bed(Protocol):
    """A cloud under a test's control, in which trouble can be made."""

    @property
    def causes(self) -> frozenset[Cause]:
        """Return which trouble it can make."""
        ...

    def causing(self, cause: Cause) -> AbstractContextManager[None]:
        """Make trouble as long as the context lasts; only called with one of `causes`."""
        ...


@runtime_checkable
class ForeignInstances(Protocol):
    """What a bed has beside the rest when it can make instances that are not ours."""

    def make_foreign(self) -> str:
        """Create an instance behind the driver's back, without any of our tags; return its id."""
        ...

    def is_running(self, instance_id: str) -> bool:
        """Return whether the cloud runs an instance."""
        ...


@runtime_checkable
class Markets(Protocol):
    """What a bed has beside the rest when it knows how an instance was bought."""

    def is_preemptible(self, instance_id: str) -> bool:
        """Return whether the cloud may take this instance back."""
        ...


@runtime_checkable
class Notices(Protocol):
    """What a bed has beside the rest when it can give notice of an instance's end."""

    def give_notice(self, instance_id: str, ends_at: str) -> None:
        """Have the cloud tell an instance that it ends at `ends_at` (`YYYY-MM-DDTHH:MM:SSZ`)."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Patience:
    """How long the kit waits; all in seconds.

    The kit looks again and again, soon at first and then each `poll_interval_s`.
    """

    #: How long a listing may lag behind what was done.
    listing_lag_s: float = 60.0
    #: How long an instance may take until it can be logged in to.
    boot_timeout_s: float = 600.0
    #: How long a destroyed one may be listed.
    gone_timeout_s: float = 300.0
    #: How long a command may take.
    command_timeout_s: float = 60.0
    poll_interval_s: float = 1.0
    #: How long it looks whether an interruption watch waits.
    watch_s: float = 5.0

    def pauses_s(self) -> Iterator[float]:
        """Yield without end how long to wait before each next look."""
        pause_s = self.poll_interval_s / _FIRST_POLLS
        while True:
            yield min(pause_s, self.poll_interval_s)
            pause_s *= _POLL_GROWTH


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """A driver to be tried, and all that it takes to try it.

    The instance set is made by `info.make` from `parameters` and `context`, with a cluster of the
    kit's own in place of the context's.
    """

    info: DriverInfo
    parameters: msgspec.Struct
    context: DriverContext
    #: What is created.
    instance_type: InstanceType
    shell: Shell
    #: Waits so many seconds.
    wait: Callable[[float], None]
    #: Returns seconds since the epoch, by this machine's clock.
    epoch_now: Callable[[], float]
    #: Returns 32 hex digits that nobody can guess.
    new_token: Callable[[], str]
    image: str = ""
    #: Created once; None when there is none.
    preemptible_type: InstanceType | None = None
    #: Only asked about.
    other_types: tuple[InstanceType, ...] = ()
    #: None for a real account.
    bed: Bed | None = None
    patience: Patience = Patience()
    #: One more shell command to run on an instance, "" for none.
    command: str = ""
    #: Called with the id and address of an instance before it is destroyed.
    pause: Callable[[str, str], None] | None = None


class Outcome(Enum):
    """What came of a check."""

    PASSED = "passed"
    FAILED = "failed"
    NOT_SHOWN = "not shown"


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """What one check showed."""

    name: str
    outcome: Outcome
    took_s: float
    #: For FAILED and NOT_SHOWN.
    why: str = ""
    #: For FAILED what to do, else "".
    remedy: str = ""
    #: For PASSED what may be worth knowing, else "".
    note: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """All results in order, and what could not be destroyed, a line each."""

    driver: str
    cluster: str
    results: tuple[Result, ...]
    left: tuple[str, ...]

    @property
    def conforms(self) -> bool:
        """Return whether no check failed and nothing was left behind."""
        return not self.left and all(each.outcome is not Outcome.FAILED for each in self.results)
