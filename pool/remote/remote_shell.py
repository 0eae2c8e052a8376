"""Scripts on instances, whatever the login shell of the user is, and whatever that says of its own.

sshd hands a command to the user's login shell. That may be no POSIX shell (csh and fish quote
otherwise), and it reads its start-up files first (`.bashrc`, `.cshrc`), which may write to the
standard output that we read answers from. So a script goes there in letters that mean the same to
all of them, and says a mark first: what came before that is not its own.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Final, Protocol

from longshore.drivers.errors import CommandFailed
from longshore.pool.remote.ssh import CommandResult, SshConnection

NOISE_LIMIT_BYTES: Final = 64 * 1024
"""How much a login shell may write before what it is told to run."""

_MARK: Final = b"longshore-answers-here"
_SAY_MARK: Final = r"printf 'longshore-%s\n' answers-here; "
"""Not the mark itself, which a shell that shows its commands would say too."""

_UNSAFE: Final = re.compile(rb"[^ -~]|['!\\]")
_SAFE_PIECE: Final = re.compile(r"(?:\\0[0-7]{3}|[^\\]){1,200}")
_SAID_BYTES: Final = 1024


class ShellStream(Protocol):
    """The bytes of a command on the far side (`pool.remote.ssh_channel.SshChannel`)."""

    def read(self, timeout_s: float | None) -> bytes | None:
        """Return bytes, b"" at the end, None when none came in time or `wake` was called."""
        ...

    def wake(self) -> None:
        """Make a waiting `read` return None."""
        ...

    def write(self, data: bytes) -> None:
        """Send all of `data`; raises `Unreachable`."""
        ...

    @property
    def stderr_tail(self) -> bytes:
        """Return the end of what the far side complained of."""
        ...


def for_any_shell(script: str) -> str:
    """Return a command that has `sh` say the mark and run a POSIX script, for any login shell.

    What sh, csh and fish read differently, as quotes, backslashes, `!` and line breaks, is told in
    octal numbers, and in words that are short enough for an old csh.
    """
    text = (_SAY_MARK + script).encode("utf-8", "surrogateescape")
    escaped = _UNSAFE.sub(lambda found: b"\\0%03o" % found[0][0], text).decode("ascii")
    pieces = " ".join(f"'{piece}'" for piece in _pieces(escaped))
    return f"""exec /bin/sh -c 'eval "$(printf %b "$@")"' sh {pieces}"""


def _pieces(escaped: str) -> Iterator[str]:
    return (found[0] for found in _SAFE_PIECE.finditer(escaped))


def run_script(
    connection: SshConnection,
    script: str,
    *,
    stdin: bytes = b"",
    deadline_s: float,
    output_limit_bytes: int = 64 * 1024,
) -> CommandResult:
    """Run a POSIX script to its end and return what it left, without what the login shell said.

    Raises what `SshConnection.run` does, and `CommandFailed` where the script was never run.
    """
    result = connection.run(
        for_any_shell(script),
        stdin=stdin,
        deadline_s=deadline_s,
        output_limit_bytes=output_limit_bytes + NOISE_LIMIT_BYTES,
    )
    answer = after_mark(result.stdout)
    if answer is None:
        how = f"exit status {result.exit_status}"
        raise CommandFailed(
            _never_run(result.stdout, result.stderr, how), exit_status=result.exit_status
        )
    return replace(result, stdout=answer)


def after_mark(output: bytes) -> bytes | None:
    """Return what a script itself has written, None where it has not begun."""
    _, mark, answer = output.partition(_MARK + b"\n")
    return answer if mark else None


class AnswerStream:
    """The stream of a script that was sent `for_any_shell`: what the login shell says is left out.

    A `read` raises `CommandFailed` where the script never begins.
    """

    def __init__(self, stream: ShellStream) -> None:
        self._stream = stream
        self._noise: bytearray | None = bytearray()

    def read(self, timeout_s: float | None) -> bytes | None:
        """Return bytes of the script's own, b"" at the end, None when none came (yet)."""
        data = self._stream.read(timeout_s)
        if self._noise is None or data is None:
            return data
        self._noise += data
        answer = after_mark(bytes(self._noise))
        if answer is not None:
            self._noise = None
            return answer or None
        if data == b"" or len(self._noise) > NOISE_LIMIT_BYTES:
            how = "it ended" if data == b"" else f"more than {NOISE_LIMIT_BYTES} bytes of that"
            said = bytes(self._noise)
            raise CommandFailed(_never_run(said, self.stderr_tail, how), exit_status=-1)
        return None

    def wake(self) -> None:
        """Make a waiting `read` return None."""
        self._stream.wake()

    def write(self, data: bytes) -> None:
        """Send all of `data`; raises `Unreachable`."""
        self._stream.write(data)

    @property
    def stderr_tail(self) -> bytes:
        """Return the end of what the far side complained of."""
        return self._stream.stderr_tail


def _never_run(stdout: bytes, stderr: bytes, how: str) -> str:
    told = b"\n".join(part.strip() for part in (stdout, stderr) if part.strip())
    said = told[:_SAID_BYTES].decode(errors="replace")
    return (
        "the login shell of the SSH user did not run what it was told to"
        f" ({how}{f'; it said: {said}' if said else ''}): give that user a shell that runs"
        " commands, and no forced command"
    )
