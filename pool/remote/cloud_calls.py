"""Driver calls on threads: each ends in exactly one event, in time, whatever a plug-in does.

A driver has no deadlines of its own. A call that takes longer than allowed is answered for: a
listing has failed, a create is ambiguous; what it says afterwards is dropped, and the next listing
shows what it did. Until it ends it keeps its thread, and each kind of call has its own: those of
other kinds go on. One that finds no thread in the time allowed has failed, and is never begun.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from concurrent.futures import wait as wait_for_all
from dataclasses import dataclass
from typing import Any, TypeVar

import structlog

from longshore.drivers.errors import AmbiguousResult, CloudError, InstanceNotFound, RateLimitError
from longshore.drivers.interface import (
    CLUSTER_TAG,
    Existence,
    Finds,
    Found,
    HostKeyVerdict,
    Instance,
    InstanceSet,
    Power,
    TellsCondition,
)
from longshore.pool.backoff import REASON_LENGTH
from longshore.pool.leaks import LeftoverReport
from longshore.pool.messages import (
    AskBills,
    BillsFailed,
    BillsTold,
    Created,
    CreateFailed,
    CreateInstance,
    Destroyed,
    DestroyFailed,
    DestroyInstance,
    FindFailed,
    FindInstance,
    InstanceFound,
    Listed,
    ListingFailed,
    ListInstances,
    PoolEvent,
    SetTags,
    TagsFailed,
    TagsSet,
)
from longshore.pool.model import InstanceSeen
from longshore.pool.remote.bills import BillWords
from longshore.pool.remote.leftovers import LeftoverWatch
from longshore.pool.remote.prices import PriceQuestion, PricesTold, prices_told
from longshore.pool.remote.ssh_watchdog import Watchdog

# ---- threads for one kind of driver calls; a call that still waits for one can be taken back -----

_Result = TypeVar("_Result")


class BoundedExecutor:
    """Carries calls out, so many at once, first come first served; usable from any thread.

    A call that hangs keeps its place for as long as it does.
    """

    def __init__(self, name: str, places: int) -> None:
        self.places = places
        self._threads = ThreadPoolExecutor(places, thread_name_prefix=name)
        # Not the executor's own queue: that keeps what was cancelled until a thread comes by.
        self._waiting: dict[Future[Any], Callable[[], None]] = {}
        self._taken = 0
        self._closed = False
        self._lock = threading.Lock()

    @property
    def taken(self) -> int:
        """Return at how many of the places there is a call."""
        return self._taken

    def submit(self, call: Callable[[], _Result]) -> Future[_Result]:
        """Have a call carried out as soon as there is a place; raises `RuntimeError` if closed."""
        future: Future[_Result] = Future()

        def carry_out() -> None:
            future.set_running_or_notify_cancel()
            try:
                result = call()
            except BaseException as error:  # noqa: BLE001 - whoever has the future is told
                future.set_exception(error)
            else:
                future.set_result(result)

        with self._lock:
            if self._closed:
                raise RuntimeError("no driver call is begun any more")
            self._waiting[future] = carry_out
            if self._taken < self.places:
                self._taken += 1
                self._threads.submit(self._work)
        return future

    def withdraw(self, future: Future[_Result]) -> bool:
        """Cancel a call that waits and return True; one that has begun goes on."""
        with self._lock:
            if self._waiting.pop(future, None) is None:
                return False
        return future.cancel()

    def close(self) -> None:
        """Cancel what waits, and begin nothing any more; returns at once."""
        with self._lock:
            self._closed = True
            waiting, self._waiting = self._waiting, {}
        for future in waiting:
            future.cancel()
        self._threads.shutdown(wait=False)

    def join(self) -> None:
        """Wait for the end of all threads."""
        self._threads.shutdown(wait=True)

    def _work(self) -> None:
        while (carry_out := self._next()) is not None:
            carry_out()

    def _next(self) -> Callable[[], None] | None:
        """Return the call that waits for longest; None gives the place up."""
        with self._lock:
            if not self._waiting:
                self._taken -= 1
                return None
            return self._waiting.pop(next(iter(self._waiting)))


# ---- the one outcome of a driver call, whoever has the first word on it --------------------------

Post = Callable[[PoolEvent], None]
CloudCommand = ListInstances | CreateInstance | DestroyInstance | SetTags | FindInstance | AskBills


class OneShot:
    """Lets the first of several words on a command through, and no other."""

    def __init__(self, post: Post) -> None:
        self._post = post
        self._lock = threading.Lock()
        self._told = False

    @property
    def told(self) -> bool:
        """Return whether a word was let through."""
        return self._told

    def tell(self, event: PoolEvent) -> bool:
        """Post the event unless one was posted; return whether it was this one."""
        with self._lock:
            if self._told:
                return False
            self._told = True
        self._post(event)
        return True


def failed(command: CloudCommand, error: CloudError) -> PoolEvent:
    """Return the outcome that says that a call failed."""
    match command:
        case ListInstances():
            return ListingFailed(op_id=command.op_id, error=error)
        case CreateInstance():
            return CreateFailed(op_id=command.op_id, token=command.launch.token, error=error)
        case DestroyInstance():
            return DestroyFailed(op_id=command.op_id, instance_id=command.instance_id, error=error)
        case SetTags():
            return TagsFailed(op_id=command.op_id, instance_id=command.instance_id, error=error)
        case FindInstance():
            return FindFailed(op_id=command.op_id, instance_id=command.instance_id, error=error)
        case AskBills():
            return BillsFailed(op_id=command.op_id, error=error)


# ---- driver calls on threads: each ends in exactly one event, in time, whatever a plug-in does ---

log = structlog.get_logger(__name__)

# One is under way at a time; the others are for when those before it hang.
_LISTING_THREADS = 4
_BILLS_THREADS = 2
_KEPT_S = 3600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Launching:
    """What every instance is created with.

    `init_command` makes the script of an instance from its secret; `public_key` may log in.
    """

    image: str
    init_command: Callable[[str], str]
    public_key: str


class CloudCalls:
    """Begins driver calls without blocking, and posts what came of them.

    `threads` are for each kind of call but listings. They should exceed the creates that may be in
    flight, so that one that hangs keeps no other waiting. `default_port` is that of addresses
    which name none.
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
        self._leftovers = LeftoverWatch(driver, cluster=cluster, now=now)
        self._cluster = cluster
        self._launching = launching
        self._post = post
        self._now = now
        self._bill_words = BillWords(now)
        self._call_timeout_s = call_timeout_s
        self._default_port = default_port
        self._instances: dict[str, tuple[Instance, float]] = {}
        self._busy: set[tuple[str, str]] = set()
        self._failures: dict[tuple[str, str], str] = {}
        self._lock = threading.Lock()
        self._running: set[Future[Any]] = set()
        self._lanes: dict[type[CloudCommand], BoundedExecutor] = {
            ListInstances: BoundedExecutor("listing", _LISTING_THREADS),
            CreateInstance: BoundedExecutor("create", threads),
            DestroyInstance: BoundedExecutor("destroy", threads),
            SetTags: BoundedExecutor("tags", threads),
            FindInstance: BoundedExecutor("find", threads),
            AskBills: BoundedExecutor("bills", _BILLS_THREADS),
        }
        self._keys = BoundedExecutor("host-key", threads)
        self._looks = BoundedExecutor("leftovers", 1)
        self._price_calls = BoundedExecutor("prices", 1)
        self._watchdog = Watchdog()
        self._watchdog.enlist()

    def begin(self, command: CloudCommand) -> None:
        """Begin a call; its outcome is posted within the time limit.

        It may wait for a thread for as long again: then that it was not begun is its outcome.
        """
        match command:
            case ListInstances():
                self._submit(self._list, command)
            case CreateInstance():
                self._submit(self._create, command)
            case DestroyInstance():
                self._submit_alone("destroy", command, self._destroy)
            case SetTags():
                self._submit_alone("tags", command, self._set_tags)
            case FindInstance():
                self._submit_alone("find", command, self._find)
            case AskBills():
                self._submit(self._bills, command)

    def verify_host_key(self, instance_id: str, public_key: str) -> HostKeyVerdict:
        """Return the driver's word on a key; blocks, for the time limit of a call at most.

        Raises what the driver raises, and `CloudError` when it does not answer in time.
        """
        instance = self._instance(instance_id)
        future = self._keys.submit(lambda: instance.verify_host_key(public_key))
        self._note_running(future)
        try:
            return future.result(self._call_timeout_s)
        except (TimeoutError, CancelledError) as error:
            self._keys.withdraw(future)
            raise CloudError("no word of the driver on a host key") from error

    def leftovers(self) -> LeftoverReport:
        """Return what stays of instances that are gone, as far as the driver has told."""
        return self._leftovers.told()

    def prices(self, question: PriceQuestion) -> Future[PricesTold]:
        """Begin to ask for prices; the outcome has no deadline, and raises what a driver raises.

        One question is asked at a time. Raises `RuntimeError` once this is closed.
        """
        future = self._price_calls.submit(lambda: prices_told(self._driver, question))
        self._note_running(future)
        return future

    def close(self, grace_s: float) -> bool:
        """Wait up to `grace_s` for calls in flight; return whether all of them ended."""
        lanes = (*self._lanes.values(), self._keys, self._looks, self._price_calls)
        for lane in lanes:
            lane.close()
        with self._lock:
            running = set(self._running)
        hanging = wait_for_all(running, timeout=grace_s).not_done
        self._watchdog.leave()
        if hanging:
            log.warning("driver calls hang", calls=len(hanging))
            return False
        for lane in lanes:
            lane.join()
        self._driver.close()
        return True

    # ---- on the way -----------------------------------------------------------------------

    def _submit(
        self,
        call: Callable[[CloudCommand, OneShot], None],
        command: CloudCommand,
        done: Callable[[], None] = lambda: None,
    ) -> None:
        lane = self._lanes[type(command)]
        outcome = OneShot(self._post)

        def warn(what: str) -> None:
            log.warning(what, **_about(command), under_way=lane.taken, at_most=lane.places)

        def late() -> None:
            if outcome.tell(self._too_late(command)):
                warn("a driver call takes too long")

        def never_begun() -> None:
            if lane.withdraw(future):
                done()
                outcome.tell(failed(command, self._no_thread()))
                warn("a driver call was never begun")

        def run() -> None:
            try:
                with self._watchdog.alarm(time.monotonic() + self._call_timeout_s, late):
                    call(command, outcome)
            finally:
                done()

        future = lane.submit(run)
        self._note_running(future)
        waiting = self._watchdog.arm(time.monotonic() + self._call_timeout_s, never_begun)
        future.add_done_callback(lambda _: self._watchdog.disarm(waiting))

    def _note_running(self, future: Future[Any]) -> None:
        with self._lock:
            self._running.add(future)
        future.add_done_callback(self._ended)

    def _submit_alone(
        self,
        kind: str,
        command: DestroyInstance | SetTags | FindInstance,
        call: Callable[[CloudCommand, OneShot], None],
    ) -> None:
        """Begin a call unless the same is under way for this instance, which is told as such."""
        key = (kind, command.instance_id)
        with self._lock:
            if key in self._busy:
                self._post(failed(command, CloudError("an earlier call still runs")))
                return
            self._busy.add(key)

        def done() -> None:
            with self._lock:
                self._busy.discard(key)

        self._submit(call, command, done)

    def _ended(self, future: Future[Any]) -> None:
        with self._lock:
            self._running.discard(future)
        error = None if future.cancelled() else future.exception()
        if error is not None and not isinstance(error, CloudError):
            log.error("a driver call failed unforeseen", exc_info=error)

    def _too_late(self, command: CloudCommand) -> PoolEvent:
        return failed(command, AmbiguousResult(f"no answer within {self._call_timeout_s:g} s"))

    def _no_thread(self) -> CloudError:
        within = f"within {self._call_timeout_s:g} s"
        return CloudError(f"never begun: no thread was free {within}, since calls before it hang")

    # ---- the calls ------------------------------------------------------------------------

    def _list(self, command: CloudCommand, outcome: OneShot) -> None:
        began_at = self._now()
        try:
            listed = list(self._driver.instances({CLUSTER_TAG: self._cluster}))
            seen = tuple(self._seen(instance) for instance in listed)
        except Exception as error:  # noqa: BLE001 - a plug-in may raise anything; it is told
            self._note_failure(command, error)
            outcome.tell(failed(command, _as_cloud_error(error)))
            return
        if outcome.told:
            return  # a newer one may have been kept meanwhile
        self._note_failure(command, None)
        self._keep(listed, seen)
        outcome.tell(Listed(op_id=command.op_id, began_at=began_at, instances=seen))
        self._look_for_leftovers()

    def _look_for_leftovers(self) -> None:
        if not self._leftovers.begin():
            return
        try:
            self._note_running(self._looks.submit(self._leftovers.look))
        except RuntimeError:
            # The server stops; the next one looks.
            self._leftovers.give_up()

    def _keep(self, instances: Sequence[Instance], seen: Sequence[InstanceSeen]) -> None:
        """Keep the newest objects; forget those that were shown for the last time long ago.

        A listing may lack an instance that is there, and is to be destroyed.
        """
        now = self._now()
        with self._lock:
            for instance, value in zip(instances, seen, strict=True):
                self._instances[value.id] = (instance, now)
            old = [id_ for id_, (_, at) in self._instances.items() if now >= at + _KEPT_S]
            for instance_id in old:
                del self._instances[instance_id]
                for kind in (DestroyInstance, SetTags, FindInstance):
                    self._failures.pop((kind.__name__, instance_id), None)

    def _create(self, command: CloudCommand, outcome: OneShot) -> None:
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
            outcome.tell(failed(command, _bounded(error)))
            return
        except Exception as error:
            # Nobody knows how far it got, so nobody may say that nothing was created.
            log.exception("a driver raised what no driver should")
            doubt = AmbiguousResult(f"{type(error).__name__}: {error}")
            outcome.tell(failed(command, doubt))
            return
        self._keep([instance], [seen])
        outcome.tell(Created(op_id=command.op_id, token=launch.token, instance=seen))

    def _destroy(self, command: CloudCommand, outcome: OneShot) -> None:
        assert isinstance(command, DestroyInstance)  # noqa: S101 - narrows the type
        try:
            self._instance(command.instance_id).destroy()
        except InstanceNotFound:
            # There is nothing to destroy, which is what was asked; the pool has the last word.
            log.info("destroy: no such instance", instance=command.instance_id)
            self._note_failure(command, None)
            outcome.tell(
                Destroyed(op_id=command.op_id, instance_id=command.instance_id, known=False)
            )
            return
        except Exception as error:  # noqa: BLE001 - a plug-in may raise anything; it is told
            self._note_failure(command, error)
            outcome.tell(failed(command, _as_cloud_error(error)))
            return
        self._note_failure(command, None)
        outcome.tell(Destroyed(op_id=command.op_id, instance_id=command.instance_id))

    def _set_tags(self, command: CloudCommand, outcome: OneShot) -> None:
        assert isinstance(command, SetTags)  # noqa: S101 - narrows the type
        try:
            self._instance(command.instance_id).set_tags(dict(command.tags))
        except Exception as error:  # noqa: BLE001 - a plug-in may raise anything; it is told
            self._note_failure(command, error)
            outcome.tell(failed(command, _as_cloud_error(error)))
            return
        self._note_failure(command, None)
        outcome.tell(TagsSet(op_id=command.op_id, instance_id=command.instance_id))

    def _find(self, command: CloudCommand, outcome: OneShot) -> None:
        assert isinstance(command, FindInstance)  # noqa: S101 - narrows the type
        found = Found(existence=Existence.UNKNOWN)
        try:
            if isinstance(self._driver, Finds):
                told = self._driver.find(command.instance_id)
                found = told if isinstance(told, Found) else Found(existence=told)
        except Exception as error:  # noqa: BLE001 - a plug-in may raise anything; it is told
            self._note_failure(command, error)
            outcome.tell(failed(command, _as_cloud_error(error)))
            return
        self._note_failure(command, None)
        outcome.tell(
            InstanceFound(
                op_id=command.op_id,
                instance_id=command.instance_id,
                existence=found.existence,
                reason=_cut(found.reason),
            )
        )

    def _bills(self, command: CloudCommand, outcome: OneShot) -> None:
        assert isinstance(command, AskBills)  # noqa: S101 - narrows the type
        try:
            bills = self._bill_words.asked(self._driver, command.instance_ids)
        except Exception as error:  # noqa: BLE001 - a plug-in may raise anything; it is told
            self._note_failure(command, error)
            outcome.tell(failed(command, _as_cloud_error(error)))
            return
        self._note_failure(command, None)
        outcome.tell(BillsTold(op_id=command.op_id, bills=bills))

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
        power, reason = Power.ON, ""
        if isinstance(instance, TellsCondition) and instance.condition.power is not Power.ON:
            power, reason = instance.condition.power, _cut(instance.condition.reason)
        return InstanceSeen(
            id=instance.id,
            address=with_port(instance.address, self._default_port),
            tags=tuple(sorted(instance.tags.items())),
            power=power,
            reason=reason,
            billed=self._bill_words.as_listed(instance),
        )

    def _instance(self, instance_id: str) -> Instance:
        with self._lock:
            kept = self._instances.get(instance_id)
        if kept is None:
            raise InstanceNotFound(f"no listing has shown {instance_id}")
        return kept[0]


def _cut(reason: str) -> str:
    """Return the cloud's words on one line, as long as those of an error may be."""
    return " ".join(reason.split())[:REASON_LENGTH]


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
    if isinstance(command, DestroyInstance | SetTags | FindInstance):
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
