"""The bench of the conformance kit: makes instances, waits for them, and leaves none behind."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from typing import TypeVar

from longshore.dispatcher.conformance.cleanup import CLUSTER_PREFIX, CreateRecords, sweep
from longshore.dispatcher.conformance.model import (
    Nonconformity,
    NotShown,
    RemoteShell,
    Trial,
    UnprovenKeyError,
)
from longshore.drivers.errors import (
    BugError,
    CloudError,
    HostKeyMismatch,
    RateLimitError,
    Unreachable,
)
from longshore.drivers.interface import (
    CLUSTER_TAG,
    IDLE_BEHAVIOR_TAG,
    TOKEN_TAG,
    TYPE_TAG,
    HostKeyVerdict,
    Instance,
    InstanceSet,
    InstanceType,
    PowersOff,
)
from longshore.drivers.registry import Capability

_INIT_DELAY_S = 1

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """All that a create call is given; the same one again asks for the same instance."""

    type: InstanceType
    token: str
    secret: str
    script: str
    tags: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """An instance that was made for a check, as its create call returned it."""

    instance: Instance
    wish: Wish

    @property
    def id(self) -> str:
        """Return the cloud's id of it."""
        return self.instance.id


@dataclass(frozen=True, slots=True, kw_only=True)
class Login:
    """The first login to an instance; `early` says why its init script had not ended by then."""

    shell: RemoteShell | None
    early: str


class Bench:
    """What the checks work with: the driver's instance set, and one instance that they share.

    What the shared instance takes is done when it is first asked for. If that fails, the check that
    asked has found it, and those that ask later raise `NotShown`. Used on one thread but for
    `create`.
    """

    def __init__(self, trial: Trial) -> None:
        """Make the instance set; raises what the driver's `make` raises."""
        self.trial = trial
        self.shell = trial.shell
        self.patience = trial.patience
        self.cluster = CLUSTER_PREFIX + trial.new_token()[:8]
        self.set: InstanceSet = self.open()
        self._table = CreateRecords(
            clusters=(self.cluster, self.other_cluster), clock=trial.context.clock
        )
        self._facts: dict[str, object] = {}
        self._missing: dict[str, str] = {}
        self._shells: list[RemoteShell] = []

    @property
    def other_cluster(self) -> str:
        """Return the cluster that instances carry which stand for another installation's."""
        return f"{self.cluster}-other"

    @property
    def many(self) -> bool:
        """Return whether there may be more than one instance."""
        return Capability.MANY_INSTANCES in self.trial.info.capabilities

    @property
    def power_off(self) -> str:
        """Return the driver's power-off command, "" for none."""
        return self.set.power_off_command() if isinstance(self.set, PowersOff) else ""

    def open(self) -> InstanceSet:
        """Return a new instance set; whoever opens it closes it."""
        trial = self.trial
        context = replace(trial.context, cluster=self.cluster)
        return trial.info.make(trial.parameters, context)

    def now(self) -> float:
        """Return monotonic seconds."""
        return self.trial.context.clock()

    def clear_up(self) -> tuple[str, ...]:
        """Destroy all that the checks made; return what may be left. Twice is fine."""
        self._hang_up()
        if not self._table.asked:
            return ()
        return sweep(self.set, self._table, self.patience, self.trial.wait)

    def close(self) -> None:
        """Close the set."""
        self.set.close()

    # ---- calls -------------------------------------------------------------------------------

    def wish(
        self, *, type_: InstanceType | None = None, cluster: str = "", init_delay_s: int = 0
    ) -> Wish:
        """Return what a create call of the dispatcher's is given, with a new token."""
        token, secret = self.trial.new_token(), self.trial.new_token()
        type_ = type_ or self.trial.instance_type
        tags = {
            CLUSTER_TAG: cluster or self.cluster,
            TYPE_TAG: type_.name,
            TOKEN_TAG: token,
            IDLE_BEHAVIOR_TAG: "run",
        }
        script = self.shell.init_command(secret, power_off=self.power_off, delay_s=init_delay_s)
        return Wish(type=type_, token=token, secret=secret, script=script, tags=tags)

    def create(
        self, wish: Wish | None = None, *, into: InstanceSet | None = None, patient: bool = True
    ) -> Subject:
        """Create an instance and note it down; raises what the driver raises.

        `wish` None is a new one, `into` the set that is called (None: ours). If `patient`, a
        throttled call is made again.
        """
        wanted, target = wish or self.wish(), into or self.set

        def call() -> Instance:
            return target.create(
                instance_type=wanted.type,
                image=self.trial.image,
                tags=dict(wanted.tags),
                init_command=wanted.script,
                public_key=self.shell.public_key,
                token=wanted.token,
            )

        with self._table.asking(wanted.token):
            instance = self.patiently(call) if patient else call()
            self._table.made(wanted.token, instance)
        return Subject(instance=instance, wish=wanted)

    def patiently(self, call: Callable[[], T]) -> T:
        """Make a call; when it is throttled, again, as long as a listing may lag."""
        until = self.now() + self.patience.listing_lag_s
        while True:
            try:
                return call()
            except RateLimitError as error:
                pause_s = error.retry_after_s or self.patience.poll_interval_s
                if self.now() + pause_s > until:
                    raise
                self.trial.wait(pause_s)

    def ours(self) -> list[Instance]:
        """List what carries the tag of this run."""
        return list(self.patiently(lambda: self.set.instances({CLUSTER_TAG: self.cluster})))

    def listed(self, instance_id: str) -> Instance | None:
        """Return an instance as a listing by the tag of this run shows it, None if it does not."""
        found = [each for each in self.ours() if each.id == instance_id]
        return found[0] if found else None

    def until(self, look: Callable[[], T | None], timeout_s: float, what: str, remedy: str) -> T:
        """Return what `look` returns once that is not None; raises `Nonconformity` in the end.

        What `look` raises of `CloudError` may pass; the last one is told with `what`.
        """
        deadline = self.now() + timeout_s
        for pause_s in self.patience.pauses_s():
            told = ""
            try:
                seen = look()
            except CloudError as error:
                seen, told = None, f" (the last call: {type(error).__name__}: {error})"
            if seen is not None:
                return seen
            if self.now() >= deadline:
                raise Nonconformity(f"{what} within {timeout_s:g} s{told}", remedy)
            self.trial.wait(pause_s)
        raise BugError("the pauses of the kit have an end")

    def await_listed(self, instance_id: str) -> Instance:
        """Return an instance once it is listed."""
        return self.until(
            lambda: self.listed(instance_id),
            self.patience.listing_lag_s,
            f"{instance_id} is not listed by the tag {CLUSTER_TAG}={self.cluster}",
            "tag instances in the create call itself, and list all that carry the tags",
        )

    def await_gone(self, instance_id: str) -> None:
        """Return once an instance is not listed any more."""
        self.until(
            lambda: True if self.listed(instance_id) is None else None,
            self.patience.gone_timeout_s,
            f"{instance_id} was destroyed and does not leave the listing",
            "have destroy end the instance for good, and list none that the cloud has ended",
        )
        self._table.gone(instance_id)

    @contextmanager
    def own(self, *, type_: InstanceType | None = None, cluster: str = "") -> Iterator[Subject]:
        """Make an instance for one check, which is destroyed after it."""
        self.make_room()
        subject = self.create(self.wish(type_=type_, cluster=cluster))
        try:
            yield subject
        finally:
            self.destroy_now(subject.instance)

    def destroy_now(self, instance: Instance) -> None:
        """Destroy an instance that a check is done with; what fails is left to the sweep."""
        with suppress(CloudError):
            instance.destroy()
        if not self.many:
            with suppress(Nonconformity):
                self.await_gone(instance.id)

    def make_room(self) -> None:
        """Destroy the shared instance where there can be only one."""
        if not self.many and isinstance(subject := self._facts.get("first"), Subject):
            self.forget_first()
            self.destroy_now(subject.instance)

    # ---- the shared instance -------------------------------------------------------------------

    def first(self) -> Subject:
        """Return the shared instance; it is created when there is none."""
        return self._once(
            "first", "an instance", lambda: self.create(self.wish(init_delay_s=_INIT_DELAY_S))
        )

    def first_listed(self) -> Instance:
        """Return the shared instance as a listing shows it."""
        subject = self.first()
        self._once("listed", "an instance that is listed", lambda: self.await_listed(subject.id))
        return self.await_listed(subject.id)

    def first_login(self) -> Login:
        """Return what came of the first login to the shared instance."""
        subject, _ = self.first(), self.first_listed()
        return self._once("login", "a login", lambda: self.log_in_first(subject))

    def first_shell(self) -> RemoteShell:
        """Return a connection to the shared instance, its host key proven by its secret."""
        login, subject = self.first_login(), self.first()
        return self._once("shell", "a proven host key", lambda: self._proven(login, subject))

    def gone_first(self) -> tuple[Subject, Instance]:
        """Destroy the shared instance; return it, and an object of it from before, once it is gone.

        The next check that needs a shared instance has a new one.
        """
        return self._once("gone", "an instance that could be destroyed", self._destroyed)

    def pause(self) -> None:
        """Have whoever wants that look at the shared instance, if there is one."""
        subject = self._facts.get("first")
        if self.trial.pause is not None and isinstance(subject, Subject):
            seen = subject.instance
            with suppress(CloudError):
                seen = self.listed(subject.id) or seen
            self.trial.pause(subject.id, seen.address or "no address yet")

    def forget_first(self) -> None:
        """Make the next check that needs the shared instance have a new one."""
        self._hang_up()
        self._facts = {name: fact for name, fact in self._facts.items() if name == "gone"}

    def _destroyed(self) -> tuple[Subject, Instance]:
        subject, old = self.first(), self.first_listed()
        was_reached = "login" in self._facts
        self.forget_first()
        self.patiently(old.destroy)
        self.await_gone(subject.id)
        if was_reached and self._still_admits(subject, old.address):
            raise Nonconformity(
                f"{subject.id} is not listed any more, and still lets us log in",
                "list instances until the cloud has ended them",
            )
        return subject, old

    def _still_admits(self, subject: Subject, address: str) -> bool:
        try:
            shell = self.shell.connect(
                address, secret=subject.wish.secret, verify=lambda _: HostKeyVerdict.UNKNOWN
            )
        except (Unreachable, HostKeyMismatch, UnprovenKeyError):
            return False
        shell.close()
        return True

    def log_in_first(self, subject: Subject) -> Login:
        """Log in as soon as that is possible, and see whether the init script has ended."""

        def look() -> Login | None:
            try:
                shell = self.connect(subject)
            except Unreachable as error:
                raise CloudError(str(error)) from error
            except HostKeyMismatch as error:
                return Login(shell=None, early=f"its host key was another one then ({error})")
            except UnprovenKeyError as error:
                if not error.may_pass:
                    raise Nonconformity(str(error), error.remedy) from error
                return Login(shell=None, early=f"the instance's secret was not there yet ({error})")
            status, _ = shell.run(
                self.shell.mark_command, timeout_s=self.patience.command_timeout_s
            )
            return Login(shell=shell, early="the script was still running" if status else "")

        return self.until(
            look,
            self.patience.boot_timeout_s,
            f"nobody can log in to {subject.id}",
            "tell its address, and have the public key of the create call in place for the user "
            "that `ssh_user` of the context names",
        )

    def connect(self, subject: Subject) -> RemoteShell:
        """Connect to an instance and have its secret prove its key; raises a `RemoteError`."""
        listed = self.listed(subject.id)
        if listed is None or not listed.address:
            raise Unreachable("it has no address" if listed else "it is not listed")
        shell = self.shell.connect(
            listed.address, secret=subject.wish.secret, verify=lambda _: HostKeyVerdict.UNKNOWN
        )
        self._shells.append(shell)
        return shell

    def logged_in(self, subject: Subject) -> RemoteShell:
        """Return a connection to an instance of a check's own, once it has booted."""
        for name in ("login", "shell"):
            if name in self._missing:
                raise NotShown(f"it takes a login, and there is none: {self._missing[name]}")
        self.await_listed(subject.id)
        return self._proven(self.log_in_first(subject), subject)

    def _proven(self, login: Login, subject: Subject) -> RemoteShell:
        def look() -> RemoteShell | None:
            try:
                return self.connect(subject)
            except (Unreachable, HostKeyMismatch, UnprovenKeyError) as error:
                raise CloudError(str(error)) from error

        return login.shell or self.until(
            look,
            self.patience.boot_timeout_s,
            f"{subject.id} does not prove its host key by its secret",
            "run the init command of the create call, whole and before anybody can log in",
        )

    def _once(self, name: str, thing: str, make: Callable[[], T]) -> T:
        if name in self._missing:
            raise NotShown(f"it takes {thing}, and there is none: {self._missing[name]}")
        if name not in self._facts:
            try:
                self._facts[name] = make()
            except Exception as error:
                self._missing[name] = str(error) or type(error).__name__
                raise
        made: T = self._facts[name]  # type: ignore[assignment]  # each name is made by one maker only
        return made

    def _hang_up(self) -> None:
        while self._shells:
            self._shells.pop().close()
