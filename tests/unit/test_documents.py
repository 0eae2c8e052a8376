"""The documents do not promise what is not there: commands, options, targets, files and links."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from dispatcher.cli.main import cli

ROOT = Path(__file__).resolve().parents[2]
DOCUMENTS = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/*.md"), ROOT / "config.example.yml"])
TARGETS = set(re.findall(r"^([a-z]+):", ROOT.joinpath("Makefile").read_text(), re.MULTILINE))

SHELL_BLOCK = re.compile(r"^```sh\n(.*?)^```", re.MULTILINE | re.DOTALL)
CODE = re.compile(r"`([^`\n]+)`")
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
FILE = re.compile(
    r"^(?:dispatcher|pool|drivers|tests|tools|benchmarks|docs|dashboards|\.ci)/[\w./-]*$"
    r"|^[\w.-]+\.(?:md|toml|yml)$|^Makefile$"
)


def command_lines(text: str) -> Iterator[str]:
    """Yield every `longshore …` and `make …` in the shell blocks and the inline code of a text."""
    for block in SHELL_BLOCK.findall(text):
        for line in block.replace("\\\n", " ").splitlines():
            yield from re.split(r"\s(?:&&|\|\|?|&)(?=\s|$)", line.partition(" #")[0].lstrip("$ "))
    yield from CODE.findall(re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL))


def wrong_command(line: str) -> str:
    """Return what is wrong with one command line, "" when nothing is, or it is none of ours."""
    words = shlex.split(line.strip(), comments=True) if line.count("'") % 2 == 0 else []
    while words and re.match(r"^[A-Z_]+=", words[0]):
        words.pop(0)
    if not words:
        return ""
    if words[0] == "make":
        return "" if len(words) == 1 or words[1] in TARGETS else f"no target: {line}"
    if words[0].rpartition("/")[2] != "longshore":
        return ""
    return wrong_arguments(line, cli, words[1:])


def wrong_arguments(line: str, command: click.Command, words: list[str]) -> str:
    """Return which subcommand or option of a command line does not exist."""
    context = click.Context(command)
    options = {name for each in command.get_params(context) for name in each.opts}
    for position, word in enumerate(words):
        if word == "--":
            return ""
        if word.startswith("-") and word != "-":
            if word.partition("=")[0] not in options:
                return f"no option {word}: {line}"
        elif isinstance(command, click.Group):
            found = [command.get_command(context, each) for each in word.split("|")]
            if None in found:
                return f"no command {word}: {line}"
            return wrong_arguments(line, found[0] or command, words[position + 1 :])
    return ""


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_commands_in_documents_exist(document: Path) -> None:
    wrong = [what for line in command_lines(document.read_text()) if (what := wrong_command(line))]
    assert not wrong, "\n".join(["", *wrong])


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_files_and_links_in_documents_exist(document: Path) -> None:
    text = document.read_text()
    links = [link for link in LINK.findall(text) if "://" not in link and not link.startswith("#")]
    files = [code for code in CODE.findall(text) if FILE.match(code)]
    missing = [
        *(link for link in links if not (document.parent / link.partition("#")[0]).exists()),
        *(name for name in files if not (ROOT / name).exists() and name != "longshore.yml"),
    ]
    assert not missing, "\n".join(["", *missing])


@pytest.mark.parametrize(
    ("line", "wrong"),
    [
        ("longshore ps --json", ""),
        ("longshore instance hold|drain|run|kill ID", ""),
        ("LONGSHORE_TOKEN=x longshore logs -f c-1", ""),
        ("longshore submit --wait -- echo --no-such-option", ""),
        ("make test", ""),
        ("longshore", ""),
        ("longshore no-such-command", "no command no-such-command: longshore no-such-command"),
        ("longshore ps --no-such", "no option --no-such: longshore ps --no-such"),
        (
            "longshore instance hold|burn ID",
            "no command hold|burn: longshore instance hold|burn ID",
        ),
        ("make no-such-target", "no target: make no-such-target"),
    ],
)
def test_a_wrong_command_is_found(line: str, wrong: str) -> None:
    assert wrong_command(line) == wrong


def test_shell_blocks_are_read() -> None:
    text = (
        "```sh\n$ longshore serve &\nlongshore ps \\\n  --all | head  # all\n```\nand `make test`\n"
    )
    assert [" ".join(line.split()) for line in command_lines(text) if line.strip()] == [
        "longshore serve",
        "longshore ps --all",
        "head",
        "make test",
    ]
