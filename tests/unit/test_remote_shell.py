"""Scripts as they are sent to instances, and what comes back before the mark."""

from __future__ import annotations

import hashlib
import os
import re
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from longshore.drivers.errors import CommandFailed
from longshore.pool.remote.deploy import deploy, run_runner
from longshore.pool.remote.remote_shell import (
    NOISE_LIMIT_BYTES,
    AnswerStream,
    after_mark,
    for_any_shell,
)
from longshore.pool.remote.ssh import CommandResult, SshConnection
from tests.conftest import RequireTool

MARK = b"longshore-answers-here\n"


def run_by(shell: str, script: str) -> bytes | None:
    done = subprocess.run(
        [shell, "-c", for_any_shell(script)],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=True,
        timeout=60,
    )
    return after_mark(done.stdout)


TEXT = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=300)


@pytest.mark.real
@pytest.mark.parametrize("shell", ["sh", "bash", "tcsh", "fish"])
def test_any_text_arrives_as_it_is_through_any_login_shell(
    require_tool: RequireTool, shell: str
) -> None:
    path = require_tool(shell, shell)

    @settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
    @given(TEXT)
    def arrives(text: str) -> None:
        quoted = "'" + text.replace("'", "'\\''") + "'"
        assert run_by(path, f"printf %s {quoted}") == text.encode()

    arrives()
    for text in ("!!", "a\\nb\\\\", "it's\n'", "$HOME `id` ~ * {a,b} %s", "x" * 5000, "\\0101"):
        assert run_by(path, f"cat <<'END'\n{text}\nEND") == f"{text}\n".encode()


@pytest.mark.real
@pytest.mark.parametrize("shell", ["sh", "tcsh", "fish"])
def test_a_script_has_its_exit_status_and_standard_input(
    require_tool: RequireTool, shell: str
) -> None:
    done = subprocess.run(
        [require_tool(shell, shell), "-c", for_any_shell("cat; exit 7")],
        input=b"in",
        capture_output=True,
        check=False,
        timeout=60,
    )
    assert (done.returncode, done.stdout) == (7, MARK + b"in")


def test_no_word_is_too_long_for_an_old_shell_and_no_letter_is_special_to_any() -> None:
    command = for_any_shell("echo '" + "x\\\n!" * 3000 + "'")
    words = command.partition(" sh ")[2].split("' '")
    assert max(map(len, words)) <= 1000
    assert not re.search(r"[^ -~]|!", command)


@pytest.mark.parametrize(
    ("output", "answer"),
    [
        (MARK, b""),
        (MARK + b"a\nb", b"a\nb"),
        (b"hello\nday\n" + MARK + b"a", b"a"),
        (b"no line break" + MARK + b"a", b"a"),
        # What says the mark again is the script's own.
        (MARK + MARK, MARK),
        (b"", None),
        (b"hello\n", None),
        (for_any_shell("true").encode(), None),
    ],
)
def test_what_comes_before_the_mark_is_left_out(output: bytes, answer: bytes | None) -> None:
    assert after_mark(output) == answer


class Chunks:
    """A stream of given reads."""

    stderr_tail = b"no home"

    def __init__(self, *chunks: bytes | None) -> None:
        self._chunks = list(chunks)

    def read(self, timeout_s: float | None) -> bytes | None:
        del timeout_s
        return self._chunks.pop(0)

    def wake(self) -> None:
        raise AssertionError("nobody waits")

    def write(self, data: bytes) -> None:
        raise AssertionError(data)


def test_a_stream_begins_behind_the_mark_however_it_is_cut() -> None:
    stream = AnswerStream(Chunks(b"hello\nlongsh", None, MARK[6:], b"a", MARK, b""))
    reads = [stream.read(1.0) for _ in range(6)]
    assert reads == [None, None, None, b"a", MARK, b""]
    assert AnswerStream(Chunks(b"x\n" + MARK + b"{}")).read(1.0) == b"{}"


def test_a_stream_that_never_begins_is_told_with_what_was_said() -> None:
    stream = AnswerStream(Chunks(b"account disabled\n", b""))
    assert stream.read(1.0) is None
    with pytest.raises(CommandFailed, match=r"\(it ended; it said: account disabled\nno home\)"):
        stream.read(1.0)


def test_a_stream_that_says_too_much_before_is_given_up() -> None:
    stream = AnswerStream(Chunks(b"x" * NOISE_LIMIT_BYTES, b"x"))
    assert stream.read(1.0) is None
    with pytest.raises(CommandFailed, match=f"more than {NOISE_LIMIT_BYTES} bytes"):
        stream.read(1.0)


class OnThisMachine:
    """As much of a connection as a deployment needs: a login whose umask lets everybody read."""

    def __init__(self, home: Path) -> None:
        self._home = home

    def run(self, command: str, *, stdin: bytes = b"", **_: object) -> CommandResult:
        done = subprocess.run(
            ["sh", "-c", f"umask 0; {command}"],
            input=stdin,
            env={"PATH": os.environ["PATH"], "LONGSHORE_RUNNER_DIR": str(self._home / "runner")},
            capture_output=True,
            check=False,
            timeout=60,
        )
        return CommandResult(exit_status=done.returncode, stdout=done.stdout, stderr=done.stderr)


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """What is deployed, in the place of the runner."""

    data: bytes = b"print('hello')"
    sha256: str = hashlib.sha256(data).hexdigest()


def test_the_runner_is_for_its_user_alone_whatever_the_umask_of_the_login(tmp_path: Path) -> None:
    connection = cast(SshConnection, OnThisMachine(tmp_path))
    bounds = {"deadline_s": 60.0, "output_limit_bytes": 1000}
    assert run_runner(connection, Program(), (), **bounds) is None  # type: ignore[arg-type]  # a mapping of both
    deploy(connection, Program(), deadline_s=60.0)
    assert run_runner(connection, Program(), (), **bounds) == b"hello\n"  # type: ignore[arg-type]  # a mapping of both
    (runner,) = (tmp_path / "runner").iterdir()
    assert [path.stat().st_mode & 0o077 for path in (runner, runner.parent)] == [0, 0]


def test_what_is_altered_on_the_way_or_there_is_never_executed(tmp_path: Path) -> None:
    connection = cast(SshConnection, OnThisMachine(tmp_path))
    bounds = {"deadline_s": 60.0, "output_limit_bytes": 1000}
    with pytest.raises(CommandFailed, match="could not be deployed"):
        deploy(connection, Program(data=b"print('other')"), deadline_s=60.0)
    assert list((tmp_path / "runner").iterdir()) == []
    deploy(connection, Program(), deadline_s=60.0)
    (runner,) = (tmp_path / "runner").iterdir()
    runner.write_bytes(b"print('other')")
    assert run_runner(connection, Program(), (), **bounds) is None  # type: ignore[arg-type]  # a mapping of both
