"""Reaches a worker's host and has it prove that its key is the right one."""

from __future__ import annotations

from collections.abc import Callable

from longshore.drivers.errors import CloudError, HostKeyMismatch, RemoteError, Unreachable
from longshore.drivers.interface import HostKeyVerdict
from longshore.pool.deploy import failure_text
from longshore.pool.hostkey import (
    ANSWER_LIMIT_BYTES,
    UnprovenCause,
    is_proof,
    proof_command,
    say_unproven,
    unproven_cause,
)
from longshore.pool.link_model import LinkSettings, ProbeStage, ProbeStageError
from longshore.pool.remote_shell import run_script
from longshore.pool.ssh import SshConnection


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
