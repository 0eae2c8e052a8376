"""A real OpenSSH server as a test's instance: own host key, own directory, own loopback address."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Self

import pytest

_SSHD = Path("/usr/sbin/sshd")
_PRIVILEGE_SEPARATION = Path("/run/sshd")
_WAIT_S = 60.0
_PORTS_TRIED = 5


def require_sshd() -> None:
    """Fail in CI, and skip loudly elsewhere, when this machine has no OpenSSH server."""
    missing = [name for name in ("ssh-keygen", str(_SSHD)) if shutil.which(name) is None]
    if not missing:
        return
    message = f"SKIPPED FOR WANT OF A REAL PART: {', '.join(missing)}; install openssh-server"
    if os.environ.get("CI"):
        pytest.fail(message)
    pytest.skip(message)


def children_of(pid: int) -> list[int]:
    """Return the ids of the processes whose parent is `pid`, in order; none when it is gone."""
    found: list[int] = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            text = stat.read_text()
        except OSError:
            continue
        state, parent = text[text.rindex(")") + 2 :].split()[:2]
        if int(parent) == pid and state != "Z":
            found.append(int(stat.parent.name))
    return sorted(found)


def wait_until(condition: Callable[[], bool], what: str, *, timeout_s: float = _WAIT_S) -> None:
    """Return once `condition` holds; fail the test with `what` when it does not in time."""
    deadline = time.monotonic() + timeout_s
    while not condition():
        if time.monotonic() > deadline:
            raise AssertionError(f"waited {timeout_s:g} s in vain: {what}")
        time.sleep(0.01)


class SshdHost:
    """One `sshd` of our own with a fresh ed25519 host key, which runs until `stop`.

    `directory` is made when missing and holds everything: configuration, keys, log, and the
    runner's directory (`runner_directory`) with whatever is deployed. `authorized_key`
    ("TYPE BASE64") may log in as the user who runs the test, and nobody else. `environment` is
    set for every command, over the defaults for `HOME` (the directory) and `LONGSHORE_*`.
    `configuration` are further lines of `sshd_config`, which win over the ones here. Usable as a
    context manager. `port` 0 is any free one.
    """

    def __init__(
        self,
        directory: Path,
        host: str = "127.0.0.2",
        *,
        authorized_key: str,
        port: int = 0,
        environment: Mapping[str, str] | None = None,
        configuration: Sequence[str] = (),
    ) -> None:
        require_sshd()
        directory.mkdir(parents=True, exist_ok=True)
        if os.geteuid() == 0:
            _PRIVILEGE_SEPARATION.mkdir(mode=0o755, exist_ok=True)
        self.directory = directory
        self.host = host
        self.runner_directory = directory / "runner"
        self.log_file = directory / "sshd.log"
        key = directory / "ssh_host_ed25519_key"
        subprocess.run(
            ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "", "-f", str(key)], check=True
        )
        self.host_key = " ".join(key.with_suffix(".pub").read_text().split()[:2])
        (directory / "authorized_keys").write_text(authorized_key + "\n")
        variables = {
            # The developer's shell start-up files are no part of an instance, and may be slow.
            "HOME": str(directory),
            "LONGSHORE_RUNNER_DIR": str(self.runner_directory),
            "LONGSHORE_HOST_KEYS": str(directory / "ssh_host_*_key.pub"),
            "LONGSHORE_INSTANCE_ID": directory.name,
            "LONGSHORE_MACHINE": "shared",
            **(environment or {}),
        }
        self._lines = [*configuration, *self._configuration(key, variables)]
        self._process: subprocess.Popen[bytes] | None = None
        self.port = port
        if not port:
            self._start_on_a_free_port()
        elif not self._start():
            raise AssertionError(f"sshd did not start on {self.address}: {self._log()}")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def address(self) -> str:
        """Return "host:port"; it stays the same over a restart."""
        return f"{self.host}:{self.port}"

    @property
    def pid(self) -> int:
        """Return the process id of the listening server; an error while it is stopped."""
        assert self._process is not None, "the server is stopped"
        return self._process.pid

    def session_pids(self) -> list[int]:
        """Return the process ids that serve live connections, one each."""
        return children_of(self.pid)

    def kill_sessions(self) -> None:
        """Kill every live connection's process, and wait until they are gone."""
        for pid in self.session_pids():
            _kill(pid, signal.SIGKILL)
            _await_end(pid)

    def stop(self) -> None:
        """End the server and its connections; what they started detached goes on. Twice is fine."""
        if self._process is None:
            return
        # A stopped listener accepts nobody between the look at its children and their end.
        _kill(self.pid, signal.SIGSTOP)
        children = self.session_pids()
        for pid in (self.pid, *children):
            _kill(pid, signal.SIGKILL)
        self._process.wait()
        self._process = None
        for pid in children:
            _await_end(pid)

    def restart(self) -> None:
        """Stop, and start again with the same key and the same port."""
        self.stop()
        if not self._start():
            raise AssertionError(f"sshd did not come back on {self.address}: {self._log()}")

    def _configuration(self, key: Path, variables: Mapping[str, str]) -> list[str]:
        # sshd takes only the first SetEnv line, so all variables stand on one.
        pairs = " ".join(f'"{name}={value}"' for name, value in sorted(variables.items()))
        return [
            f"HostKey {key}",
            f"AuthorizedKeysFile {self.directory / 'authorized_keys'}",
            f"SetEnv {pairs}",
            "PidFile none",
            "UsePAM no",
            "StrictModes no",
            "PermitRootLogin prohibit-password",
            "PubkeyAuthentication yes",
            "PasswordAuthentication no",
            "KbdInteractiveAuthentication no",
            "UseDNS no",
            "PrintMotd no",
            "MaxStartups 1000",
            "MaxSessions 1000",
            "LogLevel VERBOSE",
        ]

    def _start_on_a_free_port(self) -> None:
        for _ in range(_PORTS_TRIED):
            with socket.socket() as probe:
                probe.bind((self.host, 0))
                self.port = probe.getsockname()[1]
            if self._start():
                return
        raise AssertionError(f"sshd did not start: {self._log()}")

    def _start(self) -> bool:
        configuration = self.directory / "sshd_config"
        listen = [f"Port {self.port}", f"ListenAddress {self.host}"]
        configuration.write_text("\n".join([*listen, *self._lines]) + "\n")
        with self.log_file.open("ab") as log:
            self._process = subprocess.Popen(
                [str(_SSHD), "-D", "-e", "-f", str(configuration)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        process = self._process
        wait_until(lambda: process.poll() is not None or self._answers(), f"sshd on {self.address}")
        if process.poll() is None:
            return True
        self._process = None
        return False

    def _answers(self) -> bool:
        try:
            with socket.create_connection((self.host, self.port), timeout=2.0) as client:
                return client.recv(4) == b"SSH-"
        except OSError:
            return False

    def _log(self) -> str:
        return self.log_file.read_text(errors="replace")[-2000:]


def _kill(pid: int, number: signal.Signals) -> None:
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return


def _await_end(pid: int) -> None:
    def ended() -> bool:
        try:
            text = Path(f"/proc/{pid}/stat").read_text()
        except OSError:
            return True
        return text[text.rindex(")") + 2] == "Z"

    wait_until(ended, f"the end of process {pid}")
