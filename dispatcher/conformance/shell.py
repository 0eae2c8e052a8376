"""How the conformance kit reaches instances: with the keys, proofs and probes of the dispatcher."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from longshore.dispatcher.conformance.model import RemoteShell, UnprovenKeyError, Verify
from longshore.drivers.errors import CommandFailed, HostKeyMismatch, Unreachable
from longshore.pool.hostkey import RUNNER_DIRECTORY, UnprovenCause, init_fragment, users_directory
from longshore.pool.lease import first_contact_fragment
from longshore.pool.model import AttemptExit, AttemptImage
from longshore.pool.remote.cloud_calls import with_port
from longshore.pool.remote.link import UnprovenError, WorkerLink, connect_proven
from longshore.pool.remote.link_attempts import LinkListener
from longshore.pool.remote.link_model import LinkSettings, ProbeStage, ProbeStageError
from longshore.pool.remote.remote_shell import run_script
from longshore.pool.remote.ssh import SshConnection
from longshore.pool.remote.ssh_keys import new_private_key, public_key_text

ORPHAN_TIMEOUT_S: Final = 3600.0
"""After how long without a contact an instance of the kit powers itself off, where it can."""

_MARK: Final = "conformance-mark"


class PoolShell:
    """See `dispatcher.conformance.model.Shell`.

    `settings` are those of the links of a dispatcher; an address without a port has `default_port`.
    """

    def __init__(self, settings: LinkSettings, *, default_port: int = 22) -> None:
        self._settings = settings
        self._default_port = default_port
        self._stranger = new_private_key()

    @property
    def public_key(self) -> str:
        """Return our own key."""
        return public_key_text(self._settings.private_key)

    @property
    def strange_key(self) -> str:
        """Return the public key of a pair that was made for this and is on no instance."""
        return public_key_text(self._stranger)

    @property
    def mark_command(self) -> str:
        """Return shell that looks for what the script leaves at its end."""
        return f'{RUNNER_DIRECTORY}[ -e "$d/{_MARK}" ]'

    def init_command(self, secret: str, *, power_off: str, delay_s: int) -> str:
        """Return the script: secret, lease, and the mark in the place of the operator's own."""
        user = self._settings.user
        lease = first_contact_fragment(ORPHAN_TIMEOUT_S, power_off, user=user)
        delay = f"sleep {delay_s}\n" if delay_s else ""
        mark = f'( {users_directory(user)}\n{delay}mkdir -p "$d" && : >"$d/{_MARK}" )\n'
        return f"{init_fragment(secret, user=user)}\n{lease}\n{mark}"

    def connect(self, address: str, *, secret: str, verify: Verify) -> RemoteShell:
        """Connect as a probe does.

        Raises `Unreachable`, `HostKeyMismatch`, and `UnprovenKeyError`.
        """
        connection = _connected(
            self._settings, with_port(address, self._default_port), secret, verify
        )
        return _Shell(connection=connection)

    def boot_probe(self, address: str, *, secret: str, verify: Verify) -> None:
        """Deploy the runner and attach a session to it, as the first probe of a worker does."""
        link = WorkerLink(
            "conformance",
            settings=self._settings,
            listener=_Nobody(),
            log_offsets=lambda _: (0, 0),
        )
        try:
            link.probe(
                address=with_port(address, self._default_port),
                host_key="",
                secret=secret,
                boot=True,
                verify=verify,
            )
        finally:
            link.close()

    def admits_strangers(self, address: str) -> bool:
        """Try to log in with the stranger's key; only a host that answers can refuse it."""
        settings = replace(self._settings, private_key=self._stranger)
        reached = with_port(address, self._default_port)
        try:
            connection = SshConnection.connect(
                reached,
                user=settings.user,
                private_key=settings.private_key,
                expected_host_key="",
                deadline_s=settings.connect_timeout_s,
            )
        except Unreachable:
            return False
        connection.close()
        return True


@dataclass(frozen=True, slots=True, kw_only=True)
class _Shell:
    """See `dispatcher.conformance.model.RemoteShell`."""

    connection: SshConnection

    @property
    def host_key(self) -> str:
        return self.connection.host_key

    def run(self, command: str, *, timeout_s: float) -> tuple[int, str]:
        result = run_script(self.connection, command, deadline_s=timeout_s)
        return result.exit_status, result.stdout.decode(errors="replace")

    def close(self) -> None:
        self.connection.close()


class _Nobody(LinkListener):
    """Listens to a session on which nothing is started."""

    def exited(self, worker_id: str, attempt_id: str, how: AttemptExit) -> None:
        """Hear of an exit: there is none."""

    def image(self, worker_id: str, attempt_id: str, image: AttemptImage) -> None:
        """Hear of an image: there is none."""

    def log(self, worker_id: str, attempt_id: str, stream: str, offset: int, data: bytes) -> None:
        """Hear of output: there is none."""

    def log_complete(self, worker_id: str, attempt_id: str) -> None:
        """Hear of the end of output: there is none."""

    def lost(self, worker_id: str, last_contact: float, reason: str) -> None:
        """Hear of a loss: the next check tells of it."""

    def interrupted(self, worker_id: str, at: str) -> None:
        """Hear that an instance is taken back: the next check tells of it."""

    def broken(self, worker_id: str, message: str) -> None:
        """Hear that an instance is broken: the next check tells of it."""


_REMEDIES: Final = {
    UnprovenCause.NO_PYTHON: "take an image with Python 3.8 or later in the SSH user's path",
    UnprovenCause.NO_KEYS: "take an image whose SSH server has its keys in"
    " /etc/ssh/ssh_host_*_key.pub, or set LONGSHORE_HOST_KEYS for the SSH user",
    UnprovenCause.OTHER_KEY: "take an image whose SSH server has its keys in"
    " /etc/ssh/ssh_host_*_key.pub, or set LONGSHORE_HOST_KEYS for the SSH user",
}
_ELSE: Final = "run the init command of the create call, whole and before anybody can log in"


def _connected(settings: LinkSettings, address: str, secret: str, verify: Verify) -> SshConnection:
    try:
        return connect_proven(settings, address, "", secret, verify)
    except UnprovenError as error:
        may_pass = error.cause in (UnprovenCause.SECRET_MISSING, UnprovenCause.SECRET_WRONG)
        remedy = _REMEDIES.get(error.cause, _ELSE)
        raise UnprovenKeyError(error.message, may_pass=may_pass, remedy=remedy) from error
    except ProbeStageError as error:
        if error.stage is ProbeStage.CONNECT or isinstance(error.__cause__, Unreachable):
            raise Unreachable(str(error)) from error
        if isinstance(error.__cause__, CommandFailed):
            remedy = "give the SSH user a login shell that runs commands, and no forced command"
            raise UnprovenKeyError(error.message, may_pass=False, remedy=remedy) from error
        raise HostKeyMismatch(str(error)) from error
