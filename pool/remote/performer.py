"""Carries out the core's commands: driver calls on threads, everything remote through the links.

Each command ends in exactly one event, whatever is raised on the way.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import assert_never

import structlog

from longshore.drivers.errors import LongshoreError
from longshore.drivers.interface import HostKeyVerdict
from longshore.pool.leaks import LeftoverReport
from longshore.pool.messages import (
    AskBills,
    AttemptStarted,
    CloseSession,
    CreateInstance,
    DestroyInstance,
    FindInstance,
    ListInstances,
    PoolCommand,
    PoolEvent,
    Probe,
    ProbeFailed,
    ProbeSucceeded,
    ReleaseAttempt,
    SetLease,
    SetTags,
    SignalAttempt,
    StartAttempt,
    StartRefused,
    StartUnknown,
    StartWithheld,
    UpdateLimits,
)
from longshore.pool.remote.cloud_calls import CloudCalls
from longshore.pool.remote.link import WorkerLink
from longshore.pool.remote.link_model import (
    LinkSettings,
    ProbeStageError,
    StartResult,
    StartVerdict,
)
from longshore.pool.remote.prices import PriceQuestion, PricesTold
from longshore.pool.remote.secret_source import (
    NoSecrets,
    SecretSource,
    SecretsUnusable,
    SecretsWithheld,
)
from longshore.pool.remote.worker_reports import LogSink, Post, WorkerReports

log = structlog.get_logger(__name__)

_CLOSING_THREADS = 8
_CLOUD_GRACE_S = 10.0

_NO_SECRETS = NoSecrets()

_Untold = SignalAttempt | ReleaseAttempt | SetLease | UpdateLimits
"""What has no outcome."""


class Performer:
    """Begins commands without blocking and posts what came of them.

    Probes run on `probe_threads` threads; everything else on an instance goes through the
    sessions' own threads, everything in the cloud through `cloud`. `close` ends all of them. What
    an attempt is given of `secrets` is looked up when its start is sent, each time anew.
    """

    def __init__(
        self,
        *,
        cloud: CloudCalls,
        link_settings: LinkSettings,
        logs: LogSink,
        post: Post,
        now: Callable[[], float],
        probe_threads: int = 64,
        secrets: SecretSource = _NO_SECRETS,
    ) -> None:
        self._cloud = cloud
        self._link_settings = link_settings
        self._logs = logs
        self._post = post
        self._now = now
        self._secrets = secrets
        self._links: dict[str, tuple[WorkerLink, WorkerReports]] = {}
        self._probes = ThreadPoolExecutor(probe_threads, thread_name_prefix="probe")
        self._closing = ThreadPoolExecutor(_CLOSING_THREADS, thread_name_prefix="closing")
        self._closed = False

    def perform(self, command: PoolCommand) -> None:
        """Begin one command; called on one thread, never blocks."""
        if self._closed:
            return
        match command:
            case (
                ListInstances()
                | CreateInstance()
                | DestroyInstance()
                | SetTags()
                | FindInstance()
                | AskBills()
            ):
                self._cloud.begin(command)
            case Probe():
                link, reports = self._link(command.worker_id)
                # Not when its thread begins: a `SetLease` that comes later may be carried out
                # sooner.
                link.set_lease(suspended=command.suspend_lease)
                reports.allow(command.expected)
                reports.probe_begins()
                self._probes.submit(self._guarded, self._probe, command, link, reports)
            case _:
                self._perform_on_link(command)

    def _perform_on_link(self, command: StartAttempt | CloseSession | _Untold) -> None:
        match command:
            case StartAttempt():
                self._start(command)
            case CloseSession():
                found = self._links.pop(command.worker_id, None)
                if found is not None:
                    # Cut first: what a frozen host holds up must not wait for a thread.
                    found[0].abandon()
                    self._closing.submit(self._guarded, found[0].close)
            case _:
                found = self._links.get(command.worker_id)
                if found is not None:
                    _tell(command, *found)

    def _guarded(self, function: Callable[..., None], *arguments: object) -> None:
        """Let no error end in silence: what a function did not foresee is logged with its trace."""
        try:
            function(*arguments)
        except Exception:
            log.exception("a command failed in a way that nobody foresaw")
            raise

    # ---- the workers -------------------------------------------------------------------------

    def _link(self, worker_id: str) -> tuple[WorkerLink, WorkerReports]:
        found = self._links.get(worker_id)
        if found is None:
            reports = WorkerReports(self._post, self._logs)
            link = WorkerLink(
                worker_id,
                settings=self._link_settings,
                listener=reports,
                log_offsets=reports.offsets,
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
                look_anyway=command.look_anyway,
                trial=command.trial,
                verify=lambda key: self._verify(command.worker_id, key),
            )
        except Exception as error:
            stage = error.stage if isinstance(error, ProbeStageError) else "unforeseen"
            if not isinstance(error, LongshoreError):
                log.exception(
                    "a probe failed in a way that nobody foresaw", instance=command.worker_id
                )
            failure = str(error) or type(error).__name__
            reports.note_probe(command.worker_id, failure, boot=command.boot)
            message = error.message if isinstance(error, ProbeStageError) else failure
            reports.probe_ends(
                ProbeFailed(
                    op_id=command.op_id,
                    worker_id=command.worker_id,
                    revision=command.revision,
                    stage=stage,
                    message=message,
                )
            )
            return
        failure = f"boot: {ready.boot_error}" if ready.boot_error else ""
        reports.note_probe(command.worker_id, failure, boot=command.boot)
        reports.probe_ends(
            ProbeSucceeded(
                op_id=command.op_id,
                worker_id=command.worker_id,
                revision=command.revision,
                began_at=began_at,
                host_key=ready.host_key,
                report=ready.report,
                boot_error=ready.boot_error,
                trial_error=ready.trial_error,
            )
        )

    def _verify(self, worker_id: str, public_key: str) -> HostKeyVerdict:
        return self._cloud.verify_host_key(worker_id, public_key)

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
                        code=result.code,
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

        try:
            secrets = self._secrets.values(command.order.secrets)
        except SecretsWithheld as error:
            self._post(
                StartWithheld(
                    op_id=command.op_id,
                    worker_id=worker_id,
                    attempt_id=attempt_id,
                    message=str(error),
                )
            )
            return
        except SecretsUnusable as error:
            refused = StartVerdict.REFUSED
            on_result(StartResult(verdict=refused, code="invalid", message=str(error)))
            return
        link, reports = found
        reports.allow((attempt_id,))
        link.start(command.order, command.boot_id, on_result, secrets=secrets)

    def leftovers(self) -> LeftoverReport:
        """Return what stays of instances that are gone, as far as the driver has told."""
        return self._cloud.leftovers()

    def prices(self, question: PriceQuestion) -> Future[PricesTold]:
        """Begin to ask the driver for prices; see `CloudCalls.prices`."""
        return self._cloud.prices(question)

    def last_contact(self, worker_id: str) -> float:
        """Return when a worker was last heard of, in seconds since the epoch; 0.0 for never."""
        found = self._links.get(worker_id)
        return found[0].last_contact if found is not None else 0.0

    def close(self) -> bool:
        """Drop every session and end every thread; what runs on instances goes on.

        Returns whether all threads ended: a driver call that hangs is not waited for for ever.
        """
        self._closed = True
        for worker_id in sorted(self._links):
            self._links[worker_id][0].abandon()
        for worker_id in sorted(self._links):
            self._links[worker_id][0].close()
        self._links.clear()
        # Each of those that wait for a thread might find a silent host.
        self._probes.shutdown(wait=True, cancel_futures=True)
        self._closing.shutdown(wait=True)
        return self._cloud.close(_CLOUD_GRACE_S)


def _tell(command: _Untold, link: WorkerLink, reports: WorkerReports) -> None:
    match command:
        case SignalAttempt():
            link.signal(command.attempt_id, command.signal, grace_s=command.grace_s)
        case ReleaseAttempt():
            reports.forget(command.attempt_id)
            link.release(command.attempt_id)
        case SetLease():
            link.set_lease(suspended=command.suspended)
        case UpdateLimits():
            link.update_limits(command.attempt_id, cpu_millis=command.cpu_millis)
        case _:
            assert_never(command)
