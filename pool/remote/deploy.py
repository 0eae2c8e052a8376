"""How the runner gets onto an instance, and is verified each time before it is executed."""

from __future__ import annotations

import functools
import hashlib
import io
import shlex
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol

from longshore.drivers.errors import CommandFailed
from longshore.pool.hostkey import RUNNER_DIRECTORY, void_command
from longshore.pool.remote.remote_shell import run_script
from longshore.pool.remote.ssh import CommandResult, SshConnection

# --------------------------------------------------------------------------------------------------
# Builds the runner that is sent to instances: one zipapp, the same bytes for the same sources.

_STAMP = (1980, 1, 1, 0, 0, 0)
# What is imported is Python 3.8; this itself is any, so that an older one can be told.
_MAIN = """import sys

if sys.version_info < (3, 8):
    sys.exit("this is Python %d.%d, and the runner needs 3.8 or later" % sys.version_info[:2])

from longshore.pool.runner.main import main

sys.exit(main(sys.argv[0], sys.argv[1:]))
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunnerBundle:
    """The runner as one zipapp, and the SHA-256 of it in hex."""

    data: bytes
    sha256: str


@functools.cache
def build_runner() -> RunnerBundle:
    """Return the runner of this installation, built once a process.

    Nothing in it depends on when or where it is built, so that equal sources have equal names on
    the instances. It is not compressed, since compressors differ.
    """
    sources = Path(__file__).resolve().parents[1] / "runner"
    files = {
        f"longshore/pool/runner/{path.name}": path.read_text("utf-8")
        for path in sources.glob("*.py")
    }
    files |= {"longshore/__init__.py": "", "longshore/pool/__init__.py": "", "__main__.py": _MAIN}
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_STORED) as archive:
        for name in sorted(files):
            archive.writestr(zipfile.ZipInfo(name, _STAMP), files[name])
    data = buffer.getvalue()
    return RunnerBundle(data=data, sha256=hashlib.sha256(data).hexdigest())


# ---- how the runner gets onto an instance, and is verified each time before it is executed -------

_NOT_DEPLOYED: Final = 91
_UPLOAD_FAILED: Final = 92
_MESSAGE_BYTES: Final = 2048


class Bundle(Protocol):
    """The runner as one zipapp, and the SHA-256 of it in hex (`pool.bundle.RunnerBundle`)."""

    @property
    def data(self) -> bytes:
        """Return the zipapp."""
        ...

    @property
    def sha256(self) -> str:
        """Return its digest, by which it is named and verified."""
        ...


def runner_command(bundle: Bundle, arguments: tuple[str, ...], *, void_secret: bool = False) -> str:
    """Return shell that executes the deployed runner, if what is there has the right digest.

    It ends with status 91, having executed nothing, when the runner is missing or altered. With
    `void_secret` the instance secret is deleted first.
    """
    words = " ".join(shlex.quote(each) for each in arguments)
    void = f"{void_command()}; " if void_secret else ""
    verified = f"{_verified(bundle, _name(bundle))} || exit {_NOT_DEPLOYED}"
    return f'{void}{verified}; exec python3 "$f" {words}'


def deploy(connection: SshConnection, bundle: Bundle, *, deadline_s: float) -> None:
    """Upload the runner, under a temporary name until its digest is right.

    Harmless when it is there already, and when two do it at once. Raises `CommandFailed` when the
    far side could not keep it (a full disk, say), and `Unreachable`.
    """
    upload = (
        f'{RUNNER_DIRECTORY}umask 077; mkdir -p "$d" && t="$(mktemp "$d/.upload-XXXXXX")" '
        f"|| exit {_UPLOAD_FAILED}; "
        f'if cat > "$t" && {_is_right(bundle, "$t")}; then exec mv -f "$t" "$d/{_name(bundle)}"; '
        f'else rm -f "$t"; exit {_UPLOAD_FAILED}; fi'
    )
    result = run_script(connection, upload, stdin=bundle.data, deadline_s=deadline_s)
    if result.exit_status != 0:
        raise _failure("the runner could not be deployed", result)


def run_runner(
    connection: SshConnection,
    bundle: Bundle,
    arguments: tuple[str, ...],
    *,
    deadline_s: float,
    output_limit_bytes: int,
    void_secret: bool = False,
) -> bytes | None:
    """Run the deployed runner and return its standard output; None when it is not deployed.

    One round trip, with the verification. Raises `CommandFailed` for any other exit status than
    0, and `Unreachable` when it is not done within `deadline_s`.
    """
    command = runner_command(bundle, arguments, void_secret=void_secret)
    result = run_script(
        connection, command, deadline_s=deadline_s, output_limit_bytes=output_limit_bytes
    )
    if result.exit_status == _NOT_DEPLOYED:
        return None
    if result.exit_status != 0:
        raise _failure("the runner failed", result)
    return result.stdout


def bounded_command(command: str, timeout_s: float, *, first: str = "") -> str:
    """Return shell that runs `command` and ends it after `timeout_s` on the far side too.

    Without this, a command that hangs would be left behind there with every try. `first` is shell
    that is run before, whatever comes of it.
    """
    words = shlex.quote(command)
    before = f"( {first} ); " if first else ""
    return (
        f"{before}if command -v timeout >/dev/null 2>&1; "
        f"then exec timeout {max(1, round(timeout_s))} /bin/sh -c {words}; "
        f"else exec /bin/sh -c {words}; fi"
    )


def failure_text(result: CommandResult) -> str:
    """Return the end of what a failed command said, for people."""
    said = (result.stderr or result.stdout)[-_MESSAGE_BYTES:].decode(errors="replace").strip()
    return f"exit status {result.exit_status}" + (f": {said}" if said else "")


def _failure(what: str, result: CommandResult) -> CommandFailed:
    return CommandFailed(
        f"{what}: {failure_text(result)}",
        exit_status=result.exit_status,
        stderr=result.stderr.decode(errors="replace"),
    )


def _name(bundle: Bundle) -> str:
    return f"runner-{bundle.sha256}.pyz"


def _verified(bundle: Bundle, name: str) -> str:
    return f'{RUNNER_DIRECTORY}f="$d/{name}"; [ -f "$f" ] && {_is_right(bundle, "$f")}'


def _is_right(bundle: Bundle, path: str) -> str:
    digest = shlex.quote(bundle.sha256)
    return f'[ "$(sha256sum < "{path}" | cut -c1-64)" = {digest} ]'
