"""Carries out the core's commands: driver calls on threads, everything remote through the links.

Each command ends in exactly one event, whatever is raised on the way.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import assert_never

import structlog

from drivers.errors import AmbiguousResult, CloudError, InstanceNotFound, LongshoreError
from drivers.interface import CLUSTER_TAG, HostKeyVerdict, Instance, InstanceSet
from pool.hostkey import init_fragment
from pool.link import (
    LinkSettings,
    ProbeStageError,
    StartResult,
    StartVerdict,
    WorkerLink,
)
from pool.messages import (
    AttemptStarted,
    CloseSession,
    Created,
    CreateFailed,
    CreateInstance,
    Destroyed,
    DestroyFailed,
    DestroyInstance,
    Listed,
    ListingFailed,
    ListInstances,
    PoolCommand,
    PoolEvent,
    Probe,
    ProbeFailed,
    ProbeSucceeded,
    ReleaseAttempt,
    SetTags,
    SignalAttempt,
    StartAttempt,
    StartRefused,
    StartUnknown,
    TagsFailed,
    TagsSet,
)
from pool.model import InstanceSeen
from pool.worker_reports import LogSink, Post, WorkerReports

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Launching:
    """What every instance is created with: image, operator's script, our public key."""

    image: str
    init_command: str
    public_key: str


class Performer:
    """Begins commands without blocking and posts what came of them.

    Driver calls run on `cloud_threads` threads (more than `max_concurrent_creates`, so that creates
    that hang do not keep a destroy waiting), listings on one of their own, probes on
    `probe_threads`; everything else goes through the sessions' own threads. `close` ends them.
    """

    def __init__(
        self,
        *,
        driver: InstanceSet,
        cluster: str,
        launching: Launching,
        link_settings: LinkSettings,
        logs: LogSink,
        post: Post,
        now: Callable[[], float],
        cloud_threads: int,
        probe_threads: int = 64,
    ) -> None:
        self._driver = driver
        self._cluster = cluster
        self._launching = launching
        self._link_settings = link_settings
        self._logs = logs
        self._post = post
        self._now = now
        self._instances: dict[str, Instance] = {}
        self._instances_lock = threading.Lock()
        self._links: dict[str, tuple[WorkerLink, WorkerReports]] = {}
        self._cloud = ThreadPoolExecutor(cloud_threads, thread_name_prefix="cloud")
        self._listings = ThreadPoolExecutor(1, thread_name_prefix="listing")
        self._probes = ThreadPoolExecutor(probe_threads, thread_name_prefix="probe")
        self._closed = False

    def perform(self, command: PoolCommand) -> None:
        """Begin one command; called on one thread, never blocks."""
        if self._closed:
            return
        match command:
            case ListInstances():
                self._listings.submit(self._guarded, self._list, command)
            case CreateInstance():
                self._cloud.submit(self._guarded, self._create, command)
            case DestroyInstance():
                self._cloud.submit(self._guarded, self._destroy, command)
            case SetTags():
                self._cloud.submit(self._guarded, self._set_tags, command)
            case Probe():
                link, reports = self._link(command.worker_id)
                reports.probe_begins()
                self._probes.submit(self._guarded, self._probe, command, link, reports)
            case _:
                self._perform_on_link(command)

    def _perform_on_link(
        self, command: StartAttempt | SignalAttempt | ReleaseAttempt | CloseSession
    ) -> None:
        match command:
            case StartAttempt():
                self._start(command)
            case SignalAttempt():
                if command.worker_id in self._links:
                    link, _ = self._links[command.worker_id]
                    link.signal(command.attempt_id, command.signal)
            case ReleaseAttempt():
                if command.worker_id in self._links:
                    link, _ = self._links[command.worker_id]
                    link.release(command.attempt_id)
            case CloseSession():
                found = self._links.pop(command.worker_id, None)
                if found is not None:
                    self._probes.submit(self._guarded, found[0].close)
            case _:
                assert_never(command)

    def _guarded(self, function: Callable[..., None], *arguments: object) -> None:
        """Let no error end in silence: what a function did not foresee is logged with its trace."""
        try:
            function(*arguments)
        except Exception:
            log.exception("a command failed in a way that nobody foresaw")
            raise

    # ---- the cloud ---------------------------------------------------------------------------

    def _list(self, command: ListInstances) -> None:
        began_at = self._now()
        try:
            listed = list(self._driver.instances({CLUSTER_TAG: self._cluster}))
            seen = tuple(_seen(instance) for instance in listed)
        except Exception as error:  # noqa: BLE001 - a plug-in may raise anything; it becomes an event
            self._post(ListingFailed(op_id=command.op_id, error=_as_cloud_error(error)))
            return
        with self._instances_lock:
            for instance, value in zip(listed, seen, strict=True):
                self._instances[value.id] = instance
            for gone in sorted(self._instances.keys() - {value.id for value in seen}):
                if gone not in self._links:
                    del self._instances[gone]
        self._post(Listed(op_id=command.op_id, began_at=began_at, instances=seen))

    def _create(self, command: CreateInstance) -> None:
        launch = command.launch
        try:
            instance = self._driver.create(
                instance_type=command.instance_type,
                image=self._launching.image,
                tags=dict(command.tags),
                init_command=init_fragment(launch.secret) + "\n" + self._launching.init_command,
                public_key=self._launching.public_key,
                token=launch.token,
            )
            seen = _seen(instance)
        except CloudError as error:
            self._post(CreateFailed(op_id=command.op_id, token=launch.token, error=error))
            return
        except Exception as error:  # noqa: BLE001 - a plug-in may raise anything
            # Nobody knows how far it got, so nobody may say that nothing was created.
            doubt = AmbiguousResult(f"{type(error).__name__}: {error}")
            self._post(CreateFailed(op_id=command.op_id, token=launch.token, error=doubt))
            return
        with self._instances_lock:
            self._instances[seen.id] = instance
        self._post(Created(op_id=command.op_id, token=launch.token, instance=seen))

    def _destroy(self, command: DestroyInstance) -> None:
        try:
            self._instance(command.instance_id).destroy()
        except InstanceNotFound:
            # There is nothing to destroy, which is what was asked; the listing has the last word.
            log.info("destroy: no such instance", instance=command.instance_id)
        except Exception as error:  # noqa: BLE001 - a plug-in may raise anything
            self._post(
                DestroyFailed(
                    op_id=command.op_id,
                    instance_id=command.instance_id,
                    error=_as_cloud_error(error),
                )
            )
            return
        self._post(Destroyed(op_id=command.op_id, instance_id=command.instance_id))

    def _set_tags(self, command: SetTags) -> None:
        try:
            self._instance(command.instance_id).set_tags(dict(command.tags))
        except Exception as error:  # noqa: BLE001 - a plug-in may raise anything
            self._post(
                TagsFailed(
                    op_id=command.op_id,
                    instance_id=command.instance_id,
                    error=_as_cloud_error(error),
                )
            )
            return
        self._post(TagsSet(op_id=command.op_id, instance_id=command.instance_id))

    def _instance(self, instance_id: str) -> Instance:
        with self._instances_lock:
            instance = self._instances.get(instance_id)
        if instance is None:
            raise InstanceNotFound(f"no listing has shown {instance_id}")
        return instance

    # ---- the workers -------------------------------------------------------------------------

    def _link(self, worker_id: str) -> tuple[WorkerLink, WorkerReports]:
        found = self._links.get(worker_id)
        if found is None:
            reports = WorkerReports(self._post, self._logs)
            link = WorkerLink(
                worker_id,
                settings=self._link_settings,
                listener=reports,
                log_offsets=self._logs.offsets,
            )
            found = self._links[worker_id] = (link, reports)
        return found

    def _probe(self, command: Probe, link: WorkerLink, reports: WorkerReports) -> None:
        began_at = self._now()
        try:
            ready = link.probe(
                address=command.address,
                host_key=command.host_key,
                secret=command.secret,
                boot=command.boot,
                verify=lambda key: self._verify(command.worker_id, key),
            )
        except Exception as error:
            stage = error.stage if isinstance(error, ProbeStageError) else "unforeseen"
            if not isinstance(error, LongshoreError):
                log.exception("a probe failed in a way that nobody foresaw")
            reports.probe_ends(
                ProbeFailed(
                    op_id=command.op_id,
                    worker_id=command.worker_id,
                    revision=command.revision,
                    stage=stage,
                    message=str(error) or type(error).__name__,
                )
            )
            return
        reports.probe_ends(
            ProbeSucceeded(
                op_id=command.op_id,
                worker_id=command.worker_id,
                revision=command.revision,
                began_at=began_at,
                host_key=ready.host_key,
                report=ready.report,
            )
        )

    def _verify(self, worker_id: str, public_key: str) -> HostKeyVerdict:
        return self._instance(worker_id).verify_host_key(public_key)

    def _start(self, command: StartAttempt) -> None:
        worker_id, attempt_id = command.worker_id, command.order.attempt_id
        found = self._links.get(worker_id)
        if found is None:
            self._post(
                StartUnknown(
                    op_id=command.op_id,
                    worker_id=worker_id,
                    attempt_id=attempt_id,
                    message="there is no session",
                )
            )
            return

        def on_result(result: StartResult) -> None:
            match result.verdict:
                case StartVerdict.STARTED:
                    event: PoolEvent = AttemptStarted(
                        op_id=command.op_id, worker_id=worker_id, attempt_id=attempt_id
                    )
                case StartVerdict.REFUSED:
                    event = StartRefused(
                        op_id=command.op_id,
                        worker_id=worker_id,
                        attempt_id=attempt_id,
                        message=result.message,
                    )
                case StartVerdict.UNKNOWN:
                    event = StartUnknown(
                        op_id=command.op_id,
                        worker_id=worker_id,
                        attempt_id=attempt_id,
                        message=result.message,
                    )
                case _:
                    assert_never(result.verdict)
            self._post(event)

        found[0].start(command.order, on_result)

    def close(self) -> None:
        """Drop every session and end every thread; what runs on instances goes on."""
        self._closed = True
        for worker_id in sorted(self._links):
            self._links[worker_id][0].close()
        self._links.clear()
        self._cloud.shutdown(wait=True)
        self._listings.shutdown(wait=True)
        self._probes.shutdown(wait=True)
        self._driver.close()


def _seen(instance: Instance) -> InstanceSeen:
    tags = tuple(sorted(instance.tags.items()))
    return InstanceSeen(id=instance.id, address=instance.address, tags=tags)


def _as_cloud_error(error: Exception) -> CloudError:
    if isinstance(error, CloudError):
        return error
    log.error("a driver raised what no driver should", error_type=type(error).__name__)
    return CloudError(f"{type(error).__name__}: {error}")
