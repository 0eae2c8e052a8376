"""The command line as a process: start-up, help, no server, broken output."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from longshore.dispatcher.cli.commands.main import COMMANDS, cli, main
from tests.cli_server import cli_server

ROOT = Path(__file__).parent.parent.parent
START_UP_CPU_S = 0.4


def longshore(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "longshore", *arguments],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        cwd=ROOT,
        env={**os.environ, **environment},
        stdin=subprocess.DEVNULL,
    )


@pytest.fixture
def nobody() -> str:
    """A URL at which nobody listens."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
    return f"http://127.0.0.1:{port}"


def all_commands() -> list[list[str]]:
    nested = [["instance", name] for name in ("run", "hold", "drain", "kill")]
    nested += [["config", name] for name in ("init", "check", "show")]
    return [[], *([name] for name in COMMANDS), *nested]


@pytest.mark.parametrize("path", all_commands(), ids=" ".join)
def test_every_command_explains_itself(path: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*path, "--help"]) == 0
    text = capsys.readouterr().out
    assert text.startswith(f"Usage: {' '.join(['longshore', *path])}")
    assert len(text.splitlines()) > 4


def test_the_overview_names_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"]) == 0
    text = capsys.readouterr().out
    assert all(f"\n  {name} " in text for name in COMMANDS)


def test_a_wrong_command_name_is_a_usage_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["summit"]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err == "longshore: No such command 'summit'. See 'longshore --help'\n"


USAGE_ERRORS = [
    ["submit"],
    ["submit", "-f", "x.yml", "--", "true"],
    ["submit", "-f", "x.yml", "--cpus", "1"],
    ["submit", "--cpus", "nan", "--", "true"],
    ["submit", "--cpus", "inf", "--", "true"],
    ["submit", "--max-price", "0", "--", "true"],
    ["submit", "--priority", "1001", "--", "true"],
    ["submit", "--follow", "--json", "--", "true"],
    ["submit", "--preemptible", "maybe", "--", "true"],
    ["submit", "--label", "novalue", "--", "true"],
    ["submit", "--no-such-option", "--", "true"],
    ["submit", "--array", "ten", "--", "true"],
    ["submit", "--array", "5", "-f", "x.yml"],
    ["submit", "--after", "somebody", "--", "true"],
    ["submit", "--time-limit", "soon", "--", "true"],
    ["submit", "--not-before", "soon", "--", "true"],
    ["priority", "c-1", "high"],
    ["hold"],
    ["hold", "c-1"],
    ["release"],
    ["jobs", "--state", "queued"],
    ["jobs", "--limit", "0"],
    ["ps", "--index", "1"],
    ["ps", "--task", "align"],
    ["logs", "--index", "-1", "j-1"],
    ["logs", "--task", "align", "c-1"],
    ["wait"],
    ["wait", "--timeout", "-1", "c-1"],
    ["cancel"],
    ["ps", "--state", "happy"],
    ["ps", "--limit", "0"],
    ["instance", "explode", "i-1"],
    ["ps", "--url", "nonsense"],
    ["ps", "--url", "http://a..b"],
]


@pytest.mark.parametrize("arguments", USAGE_ERRORS, ids=" ".join)
def test_usage_errors_exit_with_2(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(arguments) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("longshore: ")


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (
            ["priority", "c-1", "high"],
            "'N': must be a whole number from 0 to 1000, and 'high' is not",
        ),
        (
            ["priority", "c-1", "1001"],
            "'N': must be a whole number from 0 to 1000, and '1001' is not",
        ),
        (["ps", "--limit", "0.5"], "'--limit': must be a whole number from 1 to 1000000, and"),
        (
            ["submit", "--gpus", "-1", "--", "x"],
            "must be a whole number from 0 on, and '-1' is not",
        ),
        (["submit", "--cpus", "nan", "--", "x"], "'--cpus': must be a number from 0 on, and 'nan'"),
        (["submit", "--max-price", "0", "--", "x"], "must be a number above 0, and '0' is not"),
        (["wait", "c-1", "--timeout", "soon"], "must be a number from 0 on, and 'soon' is not"),
    ],
)
def test_numbers_are_asked_for_in_plain_words(
    arguments: list[str], sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments) == 2
    assert sentence in capsys.readouterr().err


@pytest.mark.parametrize("path", [[], ["instance"], ["config"]], ids=" ".join)
def test_a_group_alone_explains_itself(path: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*path, "--help"]) == 0
    explained = capsys.readouterr().out
    assert main(path) == 2
    assert capsys.readouterr() == ("", explained)


NEEDS_SERVER = [
    ["submit", "--", "true"],
    ["submit", "--wait", "--", "true"],
    ["ps"],
    ["ps", "--json"],
    ["show", "c-1"],
    ["logs", "c-1"],
    ["logs", "-f", "c-1"],
    ["wait", "c-1"],
    ["cancel", "c-1"],
    ["priority", "c-1", "5"],
    ["submit", "--array", "2", "--", "true"],
    ["jobs"],
    ["jobs", "--json"],
    ["show", "j-1"],
    ["ps", "--job", "j-1"],
    ["explain", "j-1"],
    ["logs", "j-1"],
    ["wait", "c-1", "j-1"],
    ["cancel", "j-1"],
    ["priority", "j-1", "5"],
    ["hold", "j-1"],
    ["release", "j-1"],
    ["instances"],
    ["instance", "hold", "i-1"],
    ["instance", "kill", "i-1"],
]


@pytest.mark.parametrize("arguments", NEEDS_SERVER, ids=" ".join)
def test_without_a_server_every_command_exits_with_3(
    arguments: list[str],
    nobody: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("LONGSHORE_URL", nobody)
    assert main(arguments) == 3
    captured = capsys.readouterr()
    assert captured.out == ""
    assert f"cannot reach the server at {nobody}: connection refused" in captured.err
    assert "longshore serve" in captured.err


def test_a_name_that_does_not_resolve_exits_with_3(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["ps", "--url", "http://nowhere.invalid"]) == 3
    assert "cannot reach the server at http://nowhere.invalid" in capsys.readouterr().err


def test_importing_the_console_script_imports_nothing_slow() -> None:
    probe = (
        "import sys, longshore.dispatcher.cli.commands.main\n"
        "slow = ['aiohttp', 'sqlalchemy', 'paramiko', 'boto3', 'botocore', 'urllib3', 'rich', "
        "'yaml', 'structlog', 'asyncio', 'alembic', 'prometheus_client']\n"
        "print([name for name in slow if name in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", probe],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
        cwd=ROOT,
    )
    assert done.stdout.strip() == "[]"


def test_no_client_command_imports_the_server(nobody: str) -> None:
    probe = (
        "import sys\n"
        "from longshore.dispatcher.cli.commands.main import main\n"
        f"main(['ps', '--url', {nobody!r}])\n"
        "main(['--help'])\n"
        "slow = ['aiohttp', 'sqlalchemy', 'paramiko', 'boto3', 'structlog', 'alembic', 'asyncio']\n"
        "print([name for name in slow if name in sys.modules], file=sys.stderr)"
    )
    done = subprocess.run(
        [sys.executable, "-c", probe],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
        cwd=ROOT,
    )
    assert done.stderr.splitlines()[-1] == "[]"


@pytest.mark.alone
def test_a_command_starts_quickly(nobody: str) -> None:
    """The least of several runs: the machine is shared, and only our own share is bounded."""
    needed = []
    for _ in range(5):
        before = os.times()
        assert longshore("ps", "--url", nobody).returncode == 3
        after = os.times()
        needed.append(
            after.children_user
            - before.children_user
            + after.children_system
            - before.children_system
        )
    assert min(needed) < START_UP_CPU_S, needed


def test_a_broken_pipe_is_quiet(tmp_path: Path) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    with (tmp_path / "stderr").open("w+") as errors, os.fdopen(writer, "w") as output:
        done = subprocess.run(
            [sys.executable, "-m", "longshore", "--help"],
            stdout=output,
            stderr=errors,
            timeout=60,
            check=False,
            cwd=ROOT,
        )
        errors.seek(0)
        assert errors.read() == ""
    assert done.returncode == 1


@pytest.mark.parametrize(
    "arguments", [["version"], ["--help"], ["ps"], ["ps", "--json"]], ids=" ".join
)
def test_a_full_disk_is_one_sentence(arguments: list[str]) -> None:
    with cli_server() as server, Path("/dev/full").open("w") as full:
        # Buffered, or what is left in the buffer is not written again at exit.
        environment = {key: value for key, value in os.environ.items() if key != "PYTHONUNBUFFERED"}
        done = subprocess.run(
            [sys.executable, "-m", "longshore", *arguments],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            timeout=60,
            check=False,
            cwd=ROOT,
            env={**environment, "LONGSHORE_URL": server.url},
        )
    assert done.stderr == "longshore: cannot write: No space left on device\n"
    assert done.returncode == 1


def test_a_bug_of_ours_is_one_sentence_and_a_traceback_for_those_who_ask(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken(*_: object, **__: object) -> None:
        raise KeyError("oops")

    monkeypatch.setattr(cli, "main", broken)
    assert main(["version"]) == 1
    assert "Traceback" not in capsys.readouterr().err
    monkeypatch.setenv("LONGSHORE_DEBUG", "1")
    assert main(["version"]) == 1
    assert "Traceback" in capsys.readouterr().err


def test_version_is_one_line_or_one_document(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["version"]) == 0
    assert capsys.readouterr().out.startswith("longshore ")
    assert main(["version", "--json"]) == 0
    assert set(json.loads(capsys.readouterr().out)) == {"version"}
    assert main(["version"]) == main(["--version"]) == 0
    first, second = capsys.readouterr().out.splitlines()
    assert first == second
