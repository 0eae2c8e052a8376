"""`longshore secret` and `submit --secret`: values come from standard input, files, variables."""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from longshore.dispatcher.cli.commands.main import main
from longshore.dispatcher.cli.failure import CommandFailure
from longshore.dispatcher.cli.secret_values import secret_uses, secret_variables
from tests.cli_server import CliServer, cli_server

Capture = pytest.CaptureFixture[str]
VALUE = "hunter2-or-so"


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[CliServer]:
    with cli_server() as running:
        monkeypatch.setenv("LONGSHORE_URL", running.url)
        yield running


def given(monkeypatch: pytest.MonkeyPatch, content: bytes) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content)))


def opened(server: CliServer, name: str, project: str = "default") -> str:
    vault = server.rig.vault
    place = f"secret {project} {name}"
    return vault.box.open(vault.secrets[project, name].ciphertext, place=place)


@pytest.mark.parametrize(
    ("content", "value"),
    [(b"a b", "a b"), (b"a b\n", "a b"), (b"two\nlines\n\n", "two\nlines\n"), ("ä".encode(), "ä")],
)
def test_a_value_comes_from_standard_input_less_one_newline(
    server: CliServer, monkeypatch: pytest.MonkeyPatch, capsys: Capture, content: bytes, value: str
) -> None:
    given(monkeypatch, content)
    assert main(["secret", "set", "db"]) == 0
    assert capsys.readouterr().out == "secret db of project default is set\n"
    assert opened(server, "db") == value


def test_a_file_is_taken_as_it_is(server: CliServer, tmp_path: Path) -> None:
    tmp_path.joinpath("cert.pem").write_bytes(b"cert\n")
    words = ["secret", "set", "cert", "--from-file", str(tmp_path / "cert.pem")]
    assert main([*words, "--project", "lab/one"]) == 0
    assert opened(server, "cert", "lab/one") == "cert\n"


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (b"", "standard input is empty"),
        (b"\n", "standard input is empty"),
        (b"\xff\xfe", "is no text (UTF-8)"),
        (b"x" * 32_769, "has over 32768 bytes"),
    ],
)
def test_what_can_be_no_value_is_refused_before_it_is_sent(
    monkeypatch: pytest.MonkeyPatch, capsys: Capture, content: bytes, told: str
) -> None:
    monkeypatch.setenv("LONGSHORE_URL", "http://127.0.0.1:9")
    given(monkeypatch, content)
    assert main(["secret", "set", "db"]) == 2
    assert told in capsys.readouterr().err


def test_explain_names_the_command_that_mends_a_wait_for_a_secret(
    server: CliServer, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    given(monkeypatch, VALUE.encode())
    assert main(["secret", "set", "db"]) == 0
    assert main(["submit", "--use-secret", "db:env=A", "--", "true"]) == 0
    container_id = capsys.readouterr().out.split()[-1]
    assert main(["secret", "rm", "db"]) == 0
    server.do(lambda rig: rig.settled())
    capsys.readouterr()
    assert main(["explain", container_id]) == 0
    told = " ".join(capsys.readouterr().out.split())
    assert "there is no secret 'db' in project default any more" in told
    assert "(longshore secret set db --project default)" in told


def test_they_are_listed_removed_and_encrypted_anew(
    server: CliServer, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    given(monkeypatch, VALUE.encode())
    assert main(["secret", "set", "db"]) == 0
    assert main(["secret", "rotate-keys"]) == 0
    assert "1 secrets are encrypted with a new key" in capsys.readouterr().out
    assert opened(server, "db") == VALUE
    assert main(["secret", "list"]) == 0
    header, line = capsys.readouterr().out.splitlines()
    assert (header.split()[:3], line.split()[0]) == (["NAME", "SET", "BY"], "db")
    assert main(["secret", "list", "--json"]) == 0
    assert VALUE not in capsys.readouterr().out
    assert main(["secret", "rm", "db"]) == 0
    assert capsys.readouterr().out == "secret db of project default is removed\n"
    assert main(["secret", "rm", "db"]) == 1
    assert "there is no secret db in project default" in capsys.readouterr().err


def test_a_submission_has_secret_values_and_secrets(
    server: CliServer, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    given(monkeypatch, b"x")
    assert main(["secret", "set", "db"]) == 0
    monkeypatch.setenv("TOKEN", VALUE)
    given(monkeypatch, b"from-stdin\n")
    words = ["--secret", "TOKEN", "--secret", "OTHER", "--use-secret", "db:env=DB", "-e", "A=b"]
    assert main(["submit", *words, "--json", "--", "true"]) == 0
    output = capsys.readouterr().out
    shown = json.loads(output.partition("}\n{")[0][output.index("{") :])
    assert shown["env"] == {"A": "b", "TOKEN": {"secret": True}, "OTHER": {"secret": True}}
    assert shown["secrets"] == [{"name": "db", "env": "DB"}]
    (container,) = server.rig.containers()
    box = server.rig.vault.box
    opened_env = {n: box.open(sealed, place=f"env {n}") for n, sealed in container.spec.sealed_env}
    assert opened_env == {"TOKEN": VALUE, "OTHER": "from-stdin"}


def test_a_value_on_the_command_line_is_refused_without_it(capsys: Capture) -> None:
    assert main(["submit", "--secret", f"TOKEN={VALUE}", "--", "true"]) == 2
    told = capsys.readouterr().err
    assert "never a value" in told
    assert VALUE not in told


def test_standard_input_holds_one_value() -> None:
    with pytest.raises(CommandFailure, match="holds one value, not those of ONE and TWO"):
        secret_variables(["ONE", "TWO"])


@pytest.mark.parametrize(
    ("option", "found"),
    [
        ("db:env=DB", {"name": "db", "env": "DB"}),
        ("cert:file=a=b", {"name": "cert", "file": "a=b"}),
        ("pull:registry=ghcr.io:443", {"name": "pull", "registry": "ghcr.io:443"}),
        ("db", None),
        ("db:env", None),
        ("db:variable=DB", None),
        (":env=DB", None),
    ],
)
def test_how_a_secret_is_given(option: str, found: dict[str, str] | None) -> None:
    if found is None:
        with pytest.raises(CommandFailure, match="is not NAME:env=VARIABLE"):
            secret_uses([option])
    else:
        assert secret_uses([option]) == [found]
