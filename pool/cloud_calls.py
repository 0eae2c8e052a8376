"""Driver calls on threads: each ends in exactly one event, in time, whatever a plug-in does.

A driver has no deadlines of its own. A call that takes longer than allowed is answered for: a
listing has failed, a create is ambiguous; what it says afterwards is dropped, and the next listing
shows what it did.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from concurrent.futures import wait as wait_for_all
from dataclasses import dataclass
from typing import Any

import structlog

from drivers.errors import AmbiguousResult, CloudError, InstanceNotFound, RateLimitError
from drivers.interface import CLUSTER_TAG, HostKeyVerdict, Instance, InstanceSet
from pool.messages import (
    Created,
    CreateFailed,
    CreateInstance,
    Destroyed,
    DestroyFailed,
    DestroyInstance,
    Listed,
    ListingFailed,
    ListInstances,
    PoolEvent,
    SetTags,
    TagsFailed,
    TagsSet,
)
from pool.model import InstanceSeen
from pool.ssh_watchdog import Watchdog

log = structlog.get_logger(__name__)

Post = Callable[[PoolEvent], None]
CloudCommand = ListInstances | CreateInstance | DestroyInstance | SetTags


@dataclass(frozen=True, slots=True, kw_only=True)
class Launching:
    """What every instance is created with.

    `init_command` makes the script of an instance from its secret; `public_key` may log in.
    """

    image: str
    init_command: Callable[[str], str]
    public_key: str


class _Outcome:
    """Lets the first of several words on a command through, and no other."""

    def __init__(self, post: Post) -> None:
        self._post = post
        self._lock = threading.Lock()
        self._told = False

    def tell(self, event: PoolEvent) -> bool:
        """Post the event unless one was posted; return whether it was this one."""
        with self._lock:
            if self._told:
                return False
            self._told = True
        self._post(event)
        return True


class CloudCalls:
    """Begins driver calls without blocking, and posts what came of them.

    `threads` should exceed the creates that may be in flight, so that creates that hang keep no
    destroy waiting; listings have a thread of their own. `default_port` is that of addresses which
    name none.
    """

    def __init__(
        self,
        driver: InstanceSet,
        *,
        cluster: str,
        launching: Launching,
        post: Post,
        now: Callable[[], float],
        threads: int,
        call_timeout_s: float,
        default_port: int,
    ) -> None:
        self._driver = driver
        self._cluster = cluster
        self._launching = launching
        self._post = post
        self._now = now
        self._call_timeout_s = call_timeout_s
        self._default_port = default_port
        self._instances: dict[str, Instance] = {}
        self._busy: set[tuple[str, str]] = set()
        self._failures: dict[tuple[str, str], str] = {}
        self._lock = threading.Lock()
        self._running: set[Future[Any]] = set()
        self._calls = ThreadPoolExecutor(threads, thread_name_prefix="cloud")
        self._listings = ThreadPoolExecutor(1, thread_name_prefix="listing")
        self._watchdog = Watchdog()
        self._watchdog.enlist()

    def begin(self, command: CloudCommand) -> None:
        """Begin a call; its outcome is posted within the time limit."""
        match command:
            case ListInstances():
                self._submit(self._listings, self._list, command)
            case CreateInstance():
                self._submit(self._calls, self._create, command)
            case DestroyInstance():
                self._submit_alone("destroy", command, self._destroy)
            case SetTags():
                self._submit_alone("tags", command, self._set_tags)

    def verify_host_key(self, instance_id: str, public_key: str) -> HostKeyVerdict:
        """Return the driver's word on a key; blocks, for the time limit of a call at most.

        Raises what the driver raises, and `CloudError` when it does not answer in time.
        """
        instance = self._instance(instance_id)
        future = self._calls.submit(instance.verify_host_key, public_key)
        self._note_running(future)
        try:
            return future.result(self._call_timeout_s)
        except (TimeoutError, CancelledError) as error:
            raise CloudError("no word of the driver on a host key") from error

    def close(self, grace_s: float) -> bool:
        """Wait up to `grace_s` for calls in flight; return whether all of them ended."""
        self._calls.shutdown(wait=False, cancel_futures=True)
        self._listings.shutdown(wait=False, cancel_futures=True)
        with self._lock:
            running = set(self._running)
        hanging = wait_for_all(running, timeout=grace_s).not_done
        self._watchdog.leave()
        if hanging:
            log.warning("driver calls hang", calls=len(hanging))
            return False
        self._calls.shutdown(wait=True)
        self._listings.shutdown(wait=True)
        self._driver.close()
        return True

    # ---- on the way -----------------------------------------------------------------------

    def _submit(
        self,
        executor: ThreadPoolExecutor,
        call: Callable[[CloudCommand, _Outcome], None],
        command: CloudCommand,
        done: Callable[[], None] = lambda: None,
    ) -> None:
        outcome = _Outcome(self._post)

        def late() -> None:
            if outcome.tell(self._too_late(command)):
                log.warning("a driver call takes too long", **_about(command))

        def run() -> None:
            try:
                with self._watchdog.alarm(time.monotonic() + self._call_timeout_s, late):
                    call(command, outcome)
            finally:
                done()

        self._note_running(executor.submit(run))

    def _note_running(self, future: Future[Any]) -> None:
        with self._lock:
            self._running.add(future)
        future.add_done_callback(self._ended)

    def _submit_alone(
        self,
        kind: str,
        command: DestroyInstance | SetTags,
        call: Callable[[CloudCommand, _Outcome], None],
    ) -> None:
        """Begin a call unless the same is under way for this instance, which is told as such."""
        key = (kind, command.instance_id)
        with self._lock:
            if key in self._busy:
                self._post(self._failed(command, CloudError("an earlier call still runs")))
                return
            self._busy.add(key)

        def done() -> None:
            with self._lock:
                self._busy.discard(key)

        self._submit(self._calls, call, command, done)

    def _ended(self, future: Future[Any]) -> None:
        with self._lock:
            self._running.discard(future)
        error = None if future.cancelled() else future.exception()
        if error is not None and not isinstance(error, CloudError):
            log.error("a driver call failed unforeseen", exc_info=error)

    def _too_late(self, command: CloudCommand) -> PoolEvent:
        return self._failed(
            command, AmbiguousResult(f"no answer within {self._call_timeout_s:g} s")
        )

    @staticmethod
    def _failed(command: CloudCommand, error: CloudError) -> PoolEvent:
        match command:
            case ListInstances():
                return ListingFailed(op_id=command.op_id, error=error)
            case CreateInstance():
                return CreateFailed(op_id=command.op_id, token=command.launch.token, error=error)
            case DestroyInstance():
                return DestroyFailed(
                    op_id=command.op_id, instance_id=command.instance_id, error=error
                )
            case SetTags():
                return TagsFailed(op_id=command.op_id, instance_id=command.instance_id, error=error)

    # ---- the calls ------------------------------------------------------------------------

    def _list(self, command: CloudCommand, outcome: _Outcome) -> None:
        began_at = self._now()
        with self._lock:
            known_before = set(self._instances)
        try:
            listed = list(self._driver.instances({CLUSTER_TAG: self._cluster}))
            seen = tuple(self._seen(instance) for instance in listed)
        except Exception as error:  # noqa: BLE001 - a plug-in may raise anything; it is told
            self._note_failure(command, error)
            outcome.tell(self._failed(command, _as_cloud_error(error)))
            return
        self._note_failure(command, None)
        self._keep(listed, seen, forget=known_before)
        outcome.tell(Listed(op_id=command.op_id, began_at=began_at, instances=seen))

    def _keep(
        self, instances: Sequence[Instance], seen: Sequence[InstanceSeen], *, forget: set[str]
    ) -> None:
        """Keep the newest objects; forget those of `forget` that are not among them."""
        with self._lock:
            for instance, value in zip(instances, seen, strict=True):
                self._instances[value.id] = instance
            for instance_id in forget - {value.id for value in seen}:
                self._instances.pop(instance_id, None)
                for kind in (DestroyInstance, SetTags):
                    self._failures.pop((kind.__name__, instance_id), None)

    def _create(self, command: CloudCommand, outcome: _Outcome) -> None:
        assert isinstance(command, CreateInstance)  # noqa: S101 - narrows the type
        launch = command.launch
        try:
            instance = self._driver.create(
                instance_type=command.instance_type,
                image=self._launching.image,
                tags=dict(command.tags),
                init_command=self._launching.init_command(launch.secret),
                public_key=self._launching.public_key,
                token=launch.token,
            )
            seen = self._seen(instance)
        except CloudError as error:
            kind = type(error).__name__
            log.warning("create failed", type=launch.type_name, kind=kind, error=str(error))
            outcome.tell(self._failed(command, _bounded(error)))
            return
        except Exception as error:
            # Nobody knows how far it got, so nobody may say that nothing was created.
            log.exception("a driver raised what no driver should")
            doubt = AmbiguousResult(f"{type(error).__name__}: {error}")
            outcome.tell(self._failed(command, doubt))
            return
        self._keep([instance], [seen], forget=set())
        outcome.tell(Created(op_id=command.op_id, token=launch.token, instance=seen))

    def _destroy(self, command: CloudCommand, outcome: _Outcome) -> None:
        assert isinstance(command, DestroyInstance)  # noqa: S101 - narrows the type
        try:
            self._instance(command.instance_id).destroy()
        except InstanceNotFound:
            # There is nothing to destroy, which is what was asked; the listing has the last word.
            log.info("destroy: no such instance", instance=command.instance_id)
        except Exception as error:  # noqa: BLE001 - a plug-in may raise anything; it is told
            self._note_failure(command, error)
            outcome.tell(self._failed(command, _as_cloud_error(error)))
            return
        self._note_failure(command, None)
        outcome.tell(Destroyed(op_id=command.op_id, instance_id=command.instance_id))

    def _set_tags(self, command: CloudCommand, outcome: _Outcome) -> None:
        assert isinstance(command, SetTags)  # noqa: S101 - narrows the type
        try:
            self._instance(command.instance_id).set_tags(dict(command.tags))
        except Exception as error:  # noqa: BLE001 - a plug-in may raise anything; it is told
            self._note_failure(command, error)
            outcome.tell(self._failed(command, _as_cloud_error(error)))
            return
        self._note_failure(command, None)
        outcome.tell(TagsSet(op_id=command.op_id, instance_id=command.instance_id))

    def _note_failure(self, command: CloudCommand, error: Exception | None) -> None:
        """Log that a call failed, None for that it did not, unless it was so the last time."""
        about = _about(command)
        instance_id = about.get("instance", "")
        key = (about["call"], instance_id)
        failure = "" if error is None else f"{type(error).__name__}: {error}"
        with self._lock:
            before = self._failures.pop(key, "")
            if failure and (not instance_id or instance_id in self._instances):
                self._failures[key] = failure
        if failure and failure != before:
            log.warning("a driver call failed", **about, error=failure)
        elif before and not failure:
            log.info("a driver call succeeds again", **about)

    def _seen(self, instance: Instance) -> InstanceSeen:
        return InstanceSeen(
            id=instance.id,
            address=with_port(instance.address, self._default_port),
            tags=tuple(sorted(instance.tags.items())),
        )

    def _instance(self, instance_id: str) -> Instance:
        with self._lock:
            instance = self._instances.get(instance_id)
        if instance is None:
            raise InstanceNotFound(f"no listing has shown {instance_id}")
        return instance


def with_port(address: str, port: int) -> str:
    """Return an address as `host:port`; one that names a port keeps it, "" stays ""."""
    if not address or address.count(":") == 1 or "]:" in address:
        return address
    if ":" in address and not address.startswith("["):
        address = f"[{address}]"
    return f"{address}:{port}"


def _about(command: CloudCommand) -> dict[str, str]:
    """Return what a log line says of a call."""
    about = {"call": type(command).__name__}
    if isinstance(command, DestroyInstance | SetTags):
        about["instance"] = command.instance_id
    return about


def _as_cloud_error(error: Exception) -> CloudError:
    if isinstance(error, CloudError):
        return _bounded(error)
    log.error("a driver raised what no driver should", exc_info=error)
    return CloudError(f"{type(error).__name__}: {error}")


def _bounded(error: CloudError) -> CloudError:
    """Return the error without a retry time that is none."""
    if isinstance(error, RateLimitError):
        told = error.retry_after_s
        if told is not None and (not math.isfinite(told) or told < 0):
            error.retry_after_s = None
    return error
