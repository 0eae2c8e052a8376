"""One object per worker that ties its connection, proof, runner and session together."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import structlog

from longshore.drivers.errors import (
    CloudError,
    CommandFailed,
    HostKeyMismatch,
    RemoteError,
    Unreachable,
)
from longshore.drivers.interface import HostKeyVerdict
from longshore.pool.hostkey import (
    ANSWER_LIMIT_BYTES,
    UnprovenCause,
    is_proof,
    proof_command,
    say_unproven,
    unproven_cause,
)
from longshore.pool.lease import contact_command
from longshore.pool.model import (
    NO_SECRET_VALUES,
    REBOOTED,
    AttemptOrder,
    ProbeReport,
    SecretValues,
)
from longshore.pool.remote.api_relay import ApiRelay
from longshore.pool.remote.deploy import (
    bounded_command,
    deploy,
    failure_text,
    run_runner,
    runner_command,
)
from longshore.pool.remote.link_attempts import AttemptFeed, LinkListener, LogOffsets, ignore_reply
from longshore.pool.remote.link_lease import LeaseRenewal
from longshore.pool.remote.link_model import (
    LinkReady,
    LinkSettings,
    ProbeStage,
    ProbeStageError,
    StartResult,
    StartVerdict,
)
from longshore.pool.remote.remote_shell import AnswerStream, for_any_shell, run_script
from longshore.pool.remote.session import Session, SessionSettings
from longshore.pool.remote.session_requests import RequestFailed
from longshore.pool.remote.ssh import SshConnection
from longshore.pool.remote.wire import (
    MAX_LINE_BYTES,
    ApiBody,
    ApiGone,
    ApiRequest,
    Hello,
    Listing,
    MalformedMessageError,
    Push,
    Reply,
    decode_listing,
    decode_trial,
    order_fields,
)

# ---- tells a worker's runner what an attempt may use of cpus from now on -------------------------

_log = structlog.get_logger(__name__)


def tell_limits(session: Session, worker_id: str, attempt_id: str, *, cpu_millis: int) -> None:
    """Send new limits, behind all that was requested before; never blocks.

    The session ends when they cannot arrive: whoever decides takes them for set until then.
    """

    def on_reply(reply: Reply | RequestFailed) -> None:
        if isinstance(reply, RequestFailed) and not reply.code:
            session.cut()
        elif isinstance(reply, RequestFailed) or not reply.ok:
            _log.warning(
                "the limits of an attempt cannot be changed; it keeps those that it has",
                instance=worker_id,
                attempt=attempt_id,
                cpu_millis=cpu_millis,
                code=reply.code,
                error=reply.message,
            )

    fields = {"attempt_id": attempt_id, "cpu_millis": cpu_millis}
    session.request("update-limits", fields, on_reply)


# ---- reaches a worker's host and has it prove that its key is the right one ----------------------


class UnprovenError(ProbeStageError):
    """An instance did not prove its host key by its secret; `cause` is why."""

    def __init__(self, message: str, *, cause: UnprovenCause) -> None:
        super().__init__(ProbeStage.HOST_KEY, message)
        self.cause = cause


def connect_proven(
    settings: LinkSettings,
    address: str,
    host_key: str,
    secret: str,
    verify: Callable[[str], HostKeyVerdict],
) -> SshConnection:
    """Return a connection to `address` ("host:port") whose host key is proven.

    `host_key` is the pinned key or "", `secret` what an unpinned host must prove to know, and
    `verify` the driver's word on a key; when it raises a `CloudError`, that counts as UNKNOWN.
    The caller closes the connection. Raises `ProbeStageError` of CONNECT or HOST_KEY.
    """

    def judge(presented: str) -> HostKeyVerdict:
        try:
            verdict = verify(presented)
        except CloudError:
            verdict = HostKeyVerdict.UNKNOWN
        if verdict is HostKeyVerdict.UNKNOWN and not host_key and not secret:
            what = "no pinned key, no secret and no word of the driver to know its key by"
            raise HostKeyMismatch(f"{address}: {what}")
        return verdict

    try:
        connection = SshConnection.connect(
            address,
            user=settings.user,
            private_key=settings.private_key,
            expected_host_key=host_key,
            deadline_s=settings.connect_timeout_s,
            verify=judge,
            handshakes=settings.handshakes,
        )
    except HostKeyMismatch as error:
        raise ProbeStageError(ProbeStage.HOST_KEY, str(error)) from error
    except Unreachable as error:
        raise ProbeStageError(ProbeStage.CONNECT, str(error)) from error
    if not connection.proven:
        try:
            _prove(connection, secret, timeout_s=settings.command_timeout_s)
        except UnprovenError:
            connection.close()
            raise
        except RemoteError as error:
            connection.close()
            raise ProbeStageError(ProbeStage.HOST_KEY, str(error)) from error
    return connection


def _prove(connection: SshConnection, secret: str, *, timeout_s: float) -> None:
    result = run_script(
        connection,
        proof_command(),
        deadline_s=timeout_s,
        output_limit_bytes=ANSWER_LIMIT_BYTES,
    )
    if is_proof(secret, connection.host_key, result.stdout):
        return
    cause = unproven_cause(secret, exit_status=result.exit_status, answer=result.stdout)
    said = failure_text(result) if result.exit_status else ""
    raise UnprovenError(
        f"{connection.address}: it does not prove its host key: {say_unproven(cause)}"
        f"{f' ({said})' if said else ''}",
        cause=cause,
    )


# ---- one object per worker that ties its connection, proof, runner and session together ----------

_COMMAND_OUTPUT_BYTES: Final = 1024 * 1024
_FAR_SHARE: Final = 0.8
"""How much of its time a boot probe gets on the far side, so that it ends before it is given up."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Looks:
    """What a probe looks at; see `WorkerLink.probe`."""

    boot: bool
    look_anyway: bool
    trial: bool
    void_secret: bool


class WorkerLink:
    """The way to one worker; every method may be called from any thread."""

    def __init__(
        self,
        worker_id: str,
        *,
        settings: LinkSettings,
        listener: LinkListener,
        log_offsets: LogOffsets,
    ) -> None:
        """Make a link that is not connected yet.

        `log_offsets(attempt_id)` returns how many bytes of stdout and stderr are kept; it is
        called from reader threads, for each attempt that the instance knows at an attach.
        """
        self._worker_id = worker_id
        self._settings = settings
        self._listener = listener
        self._feed = AttemptFeed(worker_id, listener, log_offsets, settings.clock)
        self._relay = ApiRelay(worker_id, settings.api)
        self._lease = LeaseRenewal(worker_id, settings)
        self._probing = threading.Lock()
        self._lock = threading.Lock()
        self._connection: SshConnection | None = None
        self._beside: SshConnection | None = None
        self._session: Session | None = None
        self._closed = False
        self._secret_void = False
        self._last_contact = 0.0

    @property
    def last_contact(self) -> float:
        """Return when the instance was last heard, by the settings' clock; 0.0 for never."""
        return self._last_contact

    def probe(
        self,
        *,
        address: str,
        host_key: str,
        secret: str,
        boot: bool,
        verify: Callable[[str], HostKeyVerdict],
        look_anyway: bool = False,
        trial: bool = False,
    ) -> LinkReady:
        """Reach the worker, prove its key, list what runs there, and attach a session.

        A live connection and session are used again. `host_key` is the pinned key or "", `secret`
        what an unpinned host must prove to know, and `boot` asks for the boot probe; with
        `look_anyway` its failure is told in the answer and does not end the probe. `trial` asks
        whether the engine works there, which is told in the answer too. `verify` is the
        driver's word on a key; when it raises a `CloudError`, that counts as UNKNOWN. With a pinned
        key, the secret is deleted on the host. Blocks; one probe runs at a time.

        The report is the hello's of a session that is attached here: an earlier one may have held
        orders that no list shows, and has been ended by the runner only then.

        Raises `ProbeStageError`.
        """
        with self._probing:
            if self._closed:
                raise ProbeStageError(ProbeStage.CONNECT, "the link was closed")
            connection = self._connected(address, host_key, secret, verify)
            looks = _Looks(
                boot=boot, look_anyway=look_anyway, trial=trial, void_secret=bool(host_key)
            )
            if not self._is_taken(connection):
                try:
                    return self._look(connection, looks)
                except ProbeStageError:
                    if not self._is_taken(connection):
                        raise
            return self._look_beside(connection, looks, verify)

    def start(
        self,
        order: AttemptOrder,
        boot_id: str,
        on_result: Callable[[StartResult], None],
        *,
        secrets: SecretValues = NO_SECRET_VALUES,
    ) -> None:
        """Start an attempt in the boot that it is meant for; `on_result` is called exactly once.

        `secrets` go along, and are kept nowhere.

        Where the instance has booted anew it is refused as "rebooted": no session outlives a boot.
        It is called from the session's reader thread, or at once from this one when there is no
        session or the order cannot be sent. Never blocks.
        """

        def on_reply(reply: Reply | RequestFailed) -> None:
            on_result(_start_result(reply))

        session = self._session
        if session is None:
            on_result(StartResult(verdict=StartVerdict.UNKNOWN, message="there is no session"))
            return
        if session.hello.boot_id != boot_id:
            message = "the instance has booted anew since the start was decided"
            refused = StartVerdict.REFUSED
            on_result(StartResult(verdict=refused, code=REBOOTED, message=message))
            return
        self._feed.expect(order)
        session.request("start", {"attempt": order_fields(order, secrets)}, on_reply)

    def signal(self, attempt_id: str, signal: str, *, grace_s: float) -> None:
        """Send TERM or KILL to an attempt, if there is a session; its exit tells the rest.

        `grace_s` is in how many seconds KILL follows TERM.
        """
        session = self._session
        if session is not None:
            fields = {"attempt_id": attempt_id, "signal": signal, "grace_s": grace_s}
            session.request("kill", fields, ignore_reply)

    def update_limits(self, attempt_id: str, *, cpu_millis: int) -> None:
        """Change what an attempt may use of cpus, if there is a session, after any start so far."""
        session = self._session
        if session is not None:
            tell_limits(session, self._worker_id, attempt_id, cpu_millis=cpu_millis)

    def release(self, attempt_id: str) -> None:
        """Have the runner forget an attempt; without a session its exit will be told again."""
        self._feed.forget(attempt_id)
        session = self._session
        if session is not None:
            session.request("release", {"attempt_id": attempt_id}, ignore_reply)

    def set_lease(self, *, suspended: bool) -> None:
        """Tell the runner, and that of each session to come, whether to suspend the lease."""
        self._lease.suspend(suspended)

    def cut(self) -> None:
        """Break session and connection, so that what hangs on them ends soon; returns at once.

        Nothing else changes: the listener hears of the loss, and `probe` makes a new connection.
        """
        session = self._session
        if session is not None:
            session.cut()
        for connection in (self._connection, self._beside):
            if connection is not None:
                connection.cut()

    def abandon(self) -> None:
        """Do as `cut`, for good: the listener hears of no loss, and what is left is to `close`."""
        with self._lock:
            self._closed = True
        self.cut()

    def close(self) -> None:
        """End session and connection, without a word to the listener; a probe in flight fails.

        Starts without a reply end UNKNOWN. May take seconds if the listener holds a thread up.
        """
        with self._lock:
            self._closed = True
            session, self._session = self._session, None
            connection, self._connection = self._connection, None
            beside = self._beside
            self._lease.end(session)
        if session is not None:
            session.close()
        if connection is not None:
            connection.close()
        if beside is not None:
            beside.cut()

    # ---- the stages of a probe ----------------------------------------------------------------

    def _look(
        self, connection: SshConnection, looks: _Looks, *, attaches: bool = True
    ) -> LinkReady:
        boot_error = ""
        try:
            if looks.boot:
                boot_error = self._boot(connection, may_fail=looks.look_anyway)
            listed = self._list(connection, void_secret=looks.void_secret)
            trial_error = self._try_engine(connection) if looks.trial else None
            greeted = self._attach(connection) if attaches else None
        except ProbeStageError as error:
            # A live session has heartbeats, which know better than one command that is late.
            silent = isinstance(error.__cause__, Unreachable) and not self._attached()
            if silent or error.stage is ProbeStage.ATTACH:
                self._drop(connection)
            if boot_error:
                what = f"{boot_error}; looking for what runs all the same: {error}"
                raise ProbeStageError(ProbeStage.BOOT, what) from error
            raise
        return LinkReady(
            host_key=connection.host_key,
            report=listed if greeted is None else greeted,
            boot_error=boot_error,
            trial_error=trial_error,
        )

    def _is_taken(self, connection: SshConnection) -> bool:
        """Return whether the session takes all that its connection may have (`MaxSessions 1`)."""
        return connection.is_full and self._attached()

    def _look_beside(
        self,
        connection: SshConnection,
        looks: _Looks,
        verify: Callable[[str], HostKeyVerdict],
    ) -> LinkReady:
        """Do the same over a connection of its own, and leave the session where it is."""
        address, host_key = connection.address, connection.host_key
        beside = connect_proven(self._settings, address, host_key, "", verify)
        with self._lock:
            self._beside = beside
            closed = self._closed
        try:
            if closed:
                raise ProbeStageError(ProbeStage.CONNECT, "the link was closed")
            return self._look(beside, looks, attaches=False)
        finally:
            with self._lock:
                self._beside = None
            beside.close()

    def _connected(
        self, address: str, host_key: str, secret: str, verify: Callable[[str], HostKeyVerdict]
    ) -> SshConnection:
        """Return the live connection if it will do, or a new one whose key is proven."""
        with self._lock:
            old, session = self._connection, self._session
        if old is not None:
            usable = old.alive and (session is None or session.alive)
            if usable and old.address == address and host_key in ("", old.host_key):
                return old
            self._drop(old)
        if session is not None:
            session.cut()
            if not session.join():
                what = "the session before has not ended: its listener is at work still"
                raise ProbeStageError(ProbeStage.CONNECT, what)
        connection = connect_proven(self._settings, address, host_key, secret, verify)
        self._touch()
        with self._lock:
            if not self._closed:
                self._connection = connection
                return connection
        connection.close()
        raise ProbeStageError(ProbeStage.CONNECT, "the link was closed")

    def _boot(self, connection: SshConnection, *, may_fail: bool) -> str:
        """Run the boot probe; return why it failed, if it may, "" when it passed."""
        try:
            self._run_boot_probe(connection)
        except ProbeStageError as error:
            if not may_fail:
                raise
            return error.message
        return ""

    def _run_boot_probe(self, connection: SshConnection) -> None:
        settings, timeout_s = self._settings, self._settings.command_timeout_s
        contact = contact_command() if settings.power_off_command else ""
        probe = settings.boot_probe_command
        try:
            result = run_script(
                connection,
                bounded_command(probe, _FAR_SHARE * timeout_s, first=contact),
                deadline_s=timeout_s,
                output_limit_bytes=_COMMAND_OUTPUT_BYTES,
            )
        except RemoteError as error:
            raise ProbeStageError(ProbeStage.BOOT, str(error)) from error
        self._touch()
        if result.exit_status != 0:
            raise ProbeStageError(ProbeStage.BOOT, failure_text(result))

    def _list(self, connection: SshConnection, *, void_secret: bool) -> ProbeReport:
        settings = self._settings
        void_secret = void_secret and not self._secret_void
        try:
            output = self._run_list(connection, void_secret=void_secret)
            if output is None:
                self._deploy(connection)
                output = self._run_list(connection, void_secret=False)
        except RemoteError as error:
            if isinstance(error, ProbeStageError):
                raise
            raise ProbeStageError(ProbeStage.LIST, str(error)) from error
        if output is None:
            what = "the runner is gone, or altered, right after it was deployed"
            raise ProbeStageError(ProbeStage.DEPLOY, what)
        self._secret_void = self._secret_void or void_secret
        try:
            listing = decode_listing(output, settings.cluster)
        except MalformedMessageError as error:
            raise ProbeStageError(ProbeStage.LIST, str(error)) from error
        self._touch()
        return _report(listing)

    def _run_list(self, connection: SshConnection, *, void_secret: bool) -> bytes | None:
        return run_runner(
            connection,
            self._settings.bundle,
            ("list", *self._runner_arguments()),
            deadline_s=self._settings.command_timeout_s,
            output_limit_bytes=MAX_LINE_BYTES,
            void_secret=void_secret,
        )

    def _try_engine(self, connection: SshConnection) -> str:
        """Let the runner try its engine; return why it does not work, "" when it does.

        The list before went over the same connection: an instance that answers that, and not this
        in time, has an engine that hangs. What is lost with the connection fails the attach.
        """
        timeout_s = self._settings.command_timeout_s
        bound_s = max(1, round(_FAR_SHARE * timeout_s))
        try:
            output = run_runner(
                connection,
                self._settings.bundle,
                ("trial", *self._runner_arguments(), "--timeout-s", str(bound_s)),
                deadline_s=timeout_s,
                output_limit_bytes=MAX_LINE_BYTES,
            )
            return decode_trial(output or b"").problem
        except CommandFailed as error:
            return f"the runner's trial of its engine failed: {error}"
        except Unreachable as error:
            if not connection.alive:
                raise ProbeStageError(ProbeStage.TRIAL, str(error)) from error
            return f"the engine does not answer: {error}"
        except MalformedMessageError as error:
            raise ProbeStageError(ProbeStage.TRIAL, str(error)) from error

    def _deploy(self, connection: SshConnection) -> None:
        timeout_s = self._settings.command_timeout_s
        try:
            deploy(connection, self._settings.bundle, deadline_s=timeout_s)
        except RemoteError as error:
            raise ProbeStageError(ProbeStage.DEPLOY, str(error)) from error

    def _attach(self, connection: SshConnection) -> ProbeReport | None:
        """Attach a session and return what its hello reports; None when one lives already."""
        if self._attached():
            return None
        settings = self._settings
        command = runner_command(settings.bundle, ("attach", *self._runner_arguments()))
        try:
            channel = connection.open_channel(
                for_any_shell(command), deadline_s=settings.command_timeout_s
            )
            stream = AnswerStream(channel)
            session = Session.attach(stream, cut=connection.cut, settings=self._session_settings())
            self._touch()
            self._begin(connection, session)
        except (CommandFailed, Unreachable, MalformedMessageError) as error:
            raise ProbeStageError(ProbeStage.ATTACH, str(error)) from error
        except RuntimeError as error:
            raise ProbeStageError(ProbeStage.ATTACH, f"no thread: {error}") from error
        return _report(session.hello)

    def _begin(self, connection: SshConnection, session: Session) -> None:
        with self._lock:
            if self._closed:
                raise ProbeStageError(ProbeStage.ATTACH, "the link was closed")
            if self._session is not None:
                raise ProbeStageError(ProbeStage.ATTACH, "the session before has yet to end")
            self._feed.reset()
            session.start(_Listener(self, connection, session))
            self._session = session
            self._lease.begin(session)

    def _attached(self) -> bool:
        session = self._session
        return session is not None and session.alive

    def _session_settings(self) -> SessionSettings:
        settings = self._settings
        return SessionSettings(
            cluster=settings.cluster,
            epoch=settings.epoch,
            runner_sha256=settings.bundle.sha256,
            attach_timeout_s=settings.command_timeout_s,
            request_timeout_s=settings.command_timeout_s,
            heartbeat_interval_s=settings.heartbeat_interval_s,
            heartbeat_timeout_s=settings.heartbeat_timeout_s,
            lease=self._lease.terms(),
            interruption_watch=settings.interruption_watch,
            store=settings.store,
        )

    def _runner_arguments(self) -> tuple[str, ...]:
        settings = self._settings
        return ("--cluster", settings.cluster, "--engine-json", settings.engine_json)

    # ---- what sessions and stages leave --------------------------------------------------------

    def _touch(self) -> None:
        self._last_contact = self._settings.clock()

    def _drop(self, connection: SshConnection) -> None:
        with self._lock:
            if self._connection is connection:
                self._connection = None
        connection.close()

    def _ended(self, connection: SshConnection, session: Session, reason: str) -> None:
        with self._lock:
            if self._session is session:
                self._session = None
            self._lease.end(session)
            closed = self._closed
        self._drop(connection)
        if not closed:
            self._listener.lost(self._worker_id, self._last_contact, reason)


class _Listener:
    """What one session tells its link."""

    def __init__(self, link: WorkerLink, connection: SshConnection, session: Session) -> None:
        self._link = link
        self._connection = connection
        self._session = session

    def opened(self) -> None:
        self._link._relay.begin(self._session)
        self._link._feed.opened(self._session)

    def pushed(self, message: Push) -> None:
        match message:
            case ApiRequest() | ApiBody() | ApiGone():
                self._link._relay.pushed(self._session, message)
            case _:
                self._link._feed.pushed(self._session, message)

    def heard(self) -> None:
        self._link._touch()

    def ended(self, reason: str) -> None:
        self._link._ended(self._connection, self._session, reason)


def _report(source: Listing | Hello) -> ProbeReport:
    return ProbeReport(
        attempts=source.attempts,
        boot_id=source.boot_id,
        engine=source.engine,
        broken=source.broken,
        advice=source.advice,
        machine=source.machine,
    )


def _start_result(reply: Reply | RequestFailed) -> StartResult:
    match reply:
        case Reply(ok=True):
            return StartResult(verdict=StartVerdict.STARTED)
        case RequestFailed(code=""):
            return StartResult(verdict=StartVerdict.UNKNOWN, message=reply.message)
        case Reply() | RequestFailed():
            refused = StartVerdict.REFUSED
            return StartResult(verdict=refused, code=reply.code, message=reply.message)
