"""An instance that is really this machine: a directory, an SSH server, and marked processes."""

from __future__ import annotations

import hashlib
import logging
import os
import select
import shutil
import signal
import subprocess
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path

from longshore.drivers.errors import CloudError
from longshore.drivers.local.processes import (
    INSTANCE_VARIABLE,
    end_groups,
    end_processes,
    login_environment,
)
from longshore.drivers.local.ssh_command import Wake
from longshore.drivers.local.ssh_server import SshServer, host_key_in

_log = logging.getLogger(__name__)

_OPEN_TO_OTHERS = Path("/var/tmp")  # noqa: S108 - only names that nobody else can know are removed
_WITHOUT_RUNNER = """\
#!/bin/sh
case "$1" in
*.pyz) echo "python3: the Python of this image cannot run archives" >&2; exit 1 ;;
esac
PATH=${PATH#*:}
export PATH
exec python3 "$@"
"""
_SHARED_MEMORY = Path("/dev/shm")  # noqa: S108 - only names that nobody else can know are removed


def instance_environment(
    instance_id: str, directory: Path, *, is_whole_machine: bool = False
) -> dict[str, str]:
    """Return what everything that runs on a local instance finds in its environment.

    Unless it is the whole machine it says nothing of what the machine has: several share that, and
    what they are sold as is made up.
    """
    return login_environment(
        {
            INSTANCE_VARIABLE: instance_id,
            "LONGSHORE_RUNNER_DIR": str(directory / "runner"),
            "LONGSHORE_HOST_KEYS": str(directory / "ssh_host_ed25519_key.pub"),
            **({} if is_whole_machine else {"LONGSHORE_MACHINE": "shared"}),
        }
    )


def write_atomically(path: Path, content: bytes) -> None:
    """Replace `path` by `content`; a crash leaves the old content or the new, never a part."""
    staged = path.with_name(path.name + ".new")
    with staged.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    staged.replace(path)


def remove_files(directory: Path) -> None:
    """Remove what an instance that has ended leaves on this machine's disk and in its memory.

    The runner keeps its spool on the machine's tmpfs, which a real instance would take along, its
    jobs in control groups, and the work of other users where these may go: for each cluster that
    has a directory in the runner's. The names are the runner's, and contract tests hold us to them.
    """
    runner = directory / "runner"
    for cluster in sorted(runner.glob("*/")):
        digest = hashlib.sha256(f"{runner}\0{cluster.name}".encode()).hexdigest()[:16]
        name = f"longshore-{os.geteuid()}-{digest}"
        if not end_groups(name):
            _log.warning("processes in the control group %s do not end", name)
        work = _OPEN_TO_OTHERS / f"longshore-work-{os.geteuid()}-{digest}"
        for left in (_SHARED_MEMORY / name, _SHARED_MEMORY / f"{name}-secrets", work):
            shutil.rmtree(left, ignore_errors=True)
    shutil.rmtree(directory, ignore_errors=True)


def _break_python(directory: Path, environment: dict[str, str]) -> None:
    """Put a Python in front of the search path that runs no archive."""
    directory.mkdir(mode=0o700, exist_ok=True)
    program = directory / "python3"
    program.write_text(_WITHOUT_RUNNER, encoding="utf-8")
    program.chmod(0o700)
    environment["PATH"] = f"{directory}:{environment['PATH']}"


def run_init(
    command: str, *, environment: Mapping[str, str], directory: Path, wake: Wake | None = None
) -> bool:
    """Run an instance's init script with `sh` in its directory, its output kept in `init.log`.

    Returns whether it came to its end, whatever its exit status: a cloud, too, boots an instance
    whose script failed. When `wake` is set first, the script is killed with its process group. The
    script lies in a file of ours alone meanwhile: it holds secrets, and arguments are everybody's
    to read.
    """
    script = directory / "init.sh"
    with suppress(FileNotFoundError):  # a crash left one, whose mode need not be ours
        script.unlink()
    script.touch(mode=0o600)
    script.write_text(command, encoding="utf-8")
    try:
        ended, status = _run_script(script, environment=environment, wake=wake)
    finally:
        with suppress(FileNotFoundError):  # the script itself may tidy up
            script.unlink()
    if ended and status != 0:
        _log.warning("the init script in %s ended with status %d", directory, status)
    return ended


def _run_script(
    script: Path, *, environment: Mapping[str, str], wake: Wake | None
) -> tuple[bool, int]:
    """Run a script in its directory and return whether it ended by itself, and its status."""
    with (
        script.with_name("init.log").open("ab") as output,
        subprocess.Popen(
            ["/bin/sh", str(script)],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            env=environment,
            cwd=script.parent,
            start_new_session=True,
        ) as process,
    ):
        ended = _await_end(process.pid, wake)
        if not ended:
            # Not reaped yet, so the id is still that of our own child and of its group.
            os.killpg(process.pid, signal.SIGKILL)
        return ended, process.wait()


def _await_end(pid: int, wake: Wake | None) -> bool:
    """Return True once `pid` has ended, or False as soon as `wake` is set."""
    descriptor = os.pidfd_open(pid)
    try:
        poll = select.poll()
        poll.register(descriptor, select.POLLIN)
        if wake is not None:
            poll.register(wake.fileno(), select.POLLIN)
        return descriptor in dict(poll.poll())
    finally:
        os.close(descriptor)


class LocalMachine:
    """What answers for one local instance, as long as this process lives.

    It has its address from the first moment, and refuses connections until `boot` is through.
    `directory` is made when missing; what is in it already (the host key) is taken up again.
    Without `has_runner` its Python is broken, as in a bad image: what is deployed cannot run.
    `is_whole_machine` says that it is all of this machine, and not one of several on it.
    """

    def __init__(
        self,
        *,
        instance_id: str,
        directory: Path,
        authorized_key: str,
        has_runner: bool = True,
        is_whole_machine: bool = False,
    ) -> None:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._instance_id = instance_id
        self._directory = directory
        self._environment = instance_environment(
            instance_id, directory, is_whole_machine=is_whole_machine
        )
        if not has_runner:
            _break_python(directory / "bin", self._environment)
        self._server = SshServer(
            "127.0.0.1",
            host_key=host_key_in(directory),
            authorized_key=authorized_key,
            environment=self._environment,
            directory=directory,
        )
        self._lock = threading.Lock()
        self._boot: threading.Thread | None = None
        self._wake = Wake()
        self._closed = False

    @property
    def address(self) -> str:
        """Return "host:port" of its SSH server."""
        return self._server.address

    @property
    def host_key(self) -> str:
        """Return its host key as "TYPE BASE64"."""
        return self._server.host_key

    def boot(self, init_command: str, *, initialised: Callable[[], None] | None = None) -> None:
        """Run `init_command` ("" for none) on a thread, call `initialised`, and let clients in.

        `initialised` is not called when the machine is closed before the script has ended. Without
        effect when it is booting, booted or closed.
        """
        with self._lock:
            if self._closed or self._boot is not None:
                return
            self._boot = threading.Thread(
                target=self._run_boot, args=(init_command, initialised), name="boot", daemon=True
            )
            self._boot.start()

    def report_broken(self, reason: str) -> None:
        """Let the instance say of itself from now on that it is broken, as its owner would."""
        runner = Path(self._environment["LONGSHORE_RUNNER_DIR"])
        runner.mkdir(mode=0o700, exist_ok=True)
        write_atomically(runner / "broken", f"{reason}\n".encode())

    def close(self) -> None:
        """End the SSH server, its sessions and a boot that is under way; detached processes stay.

        Twice is no error.
        """
        with self._lock:
            if self._closed:
                return
            self._closed = True
        self._wake.set()
        if self._boot is not None:
            self._boot.join()
        self._wake.close()
        self._server.close()

    def end(self) -> None:
        """End everything that runs on it, detached or not, and close. Twice is no error.

        Raises `CloudError` when a process does not end; call again later.
        """
        # Killed first, since sessions of dead processes close at once; and again, since only a
        # closed server starts no more of them.
        end_processes(self._instance_id)
        self.close()
        end_processes(self._instance_id)

    def _run_boot(self, init_command: str, initialised: Callable[[], None] | None) -> None:
        try:
            ended = not init_command or run_init(
                init_command,
                environment=self._environment,
                directory=self._directory,
                wake=self._wake,
            )
            if not ended:
                return
            if initialised is not None:
                initialised()
        except (OSError, CloudError):
            _log.exception("instance %s cannot boot", self._instance_id)
            return
        self._server.start()
