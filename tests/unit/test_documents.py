"""The documents promise nothing that is not there: commands, options, files, links, names."""

from __future__ import annotations

import re
import shlex
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import click
import msgspec
import pytest

from longshore.dispatcher.api.schemas.containers import ContainerRequest
from longshore.dispatcher.api.schemas.jobs import JobRequest, TaskRequest
from longshore.dispatcher.cli.commands.main import cli
from longshore.dispatcher.input.yaml_text import documents
from tests.job_bodies import decoder

ROOT = Path(__file__).resolve().parents[2]
DOCUMENTS = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), ROOT / "config.example.yml"])
TARGETS = set(re.findall(r"^([a-z]+):", ROOT.joinpath("Makefile").read_text(), re.MULTILINE))

SHELL_BLOCK = re.compile(r"^```sh\n(.*?)^```", re.MULTILINE | re.DOTALL)
YAML_BLOCK = re.compile(r"^```yaml\n(.*?)^```", re.MULTILINE | re.DOTALL)
CODE = re.compile(r"`([^`\n]+)`")
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)
# An identifier of ours: snake_case, CamelCase, CONSTANT_CASE, perhaps with what it belongs to.
DECISIONS = sorted(ROOT.glob("docs/decisions/[0-9]*.md"))
# A line of the picture of the layers: how deep it is, and the folders that stand beside each other.
PICTURED = re.compile(r"^( *)([\w()]+(?: \| [\w()]+)*)(?:  +\S.*)?$")
NAME = re.compile(r"^(?:\w+\.)*(_?\w*(?:[a-z0-9]_[a-z0-9]|[a-z][A-Z]|[A-Z]_[A-Z])\w*)$")
METRIC_SUFFIX = "_total"
IMPORTED = re.compile(r"^(longshore\.(?:dispatcher|pool|drivers)(?:\.\w+)*)$")
FILE = re.compile(
    r"^(?:dispatcher|pool|drivers|tests|tools|benchmarks|docs|dashboards|\.ci)/[\w./-]*$"
    r"|^[\w.-]+\.(?:md|toml|yml)$|^Makefile$"
)


@cache
def source_words() -> frozenset[str]:
    """Return every word of our sources, tests and settings."""
    folders = ("dispatcher", "pool", "drivers", "tests", "tools")
    files = [
        ROOT / "pyproject.toml",
        *(each for f in folders for each in ROOT.glob(f"{f}/**/*.py")),
    ]
    return frozenset(word for each in files for word in re.findall(r"\w+", each.read_text()))


def anchors(text: str) -> set[str]:
    """Return the anchors of the headings of a page, as GitHub makes them."""
    prose = re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL)
    plain = (re.sub(r"[^\w\- ]", "", heading.lower()) for heading in HEADING.findall(prose))
    return {each.strip().replace(" ", "-") for each in plain}


def unknown_names(text: str, known: frozenset[str]) -> list[str]:
    """Return the identifiers in the inline code of a text that are no words of `known`."""
    found = (NAME.match(code) for code in CODE.findall(text))
    names = {match.group(1).removesuffix(METRIC_SUFFIX) for match in found if match}
    return sorted(names - known)


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
    words = [word for line in command_lines(text) for word in line.split()]
    files = [word for word in (*CODE.findall(text), *words) if FILE.match(word)]
    missing = [
        *(link for link in links if not (document.parent / link.partition("#")[0]).exists()),
        *(name for name in files if not (ROOT / name).exists() and name != "longshore.yml"),
    ]
    assert not missing, "\n".join(["", *missing])


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_anchors_in_documents_exist(document: Path) -> None:
    missing = []
    for link in LINK.findall(document.read_text()):
        page, _, anchor = link.partition("#")
        if "://" in link or not anchor:
            continue
        target = document.parent / page if page else document
        if not target.exists() or anchor not in anchors(target.read_text()):
            missing.append(link)
    assert not missing, "\n".join(["", *missing])


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_names_in_documents_exist(document: Path) -> None:
    unknown = unknown_names(document.read_text(), source_words())
    assert not unknown, "\n".join(["", *unknown])


def test_modules_that_the_architecture_names_are_where_it_says() -> None:
    pages = [ROOT / "docs/architecture.md", *DECISIONS]
    told = [name for page in pages for name in re.findall(r"`([\w/]+\.py)`", page.read_text())]
    below = [ROOT, *(ROOT / each for each in ("dispatcher", "pool", "tests/sim"))]
    missing = sorted({each for each in told if not any((top / each).exists() for top in below)})
    assert len(told) > 50
    assert missing == []


# ---- the architecture and its decisions -------------------------------------------------------


def pictured(text: str) -> dict[str, list[list[str]]]:
    """Return the picture of a page: the lines of each folder from the top, "" for the outermost.

    A line is a list of the folders that stand on it. What is indented below a folder is in it.
    """
    picture = text.partition("```\n")[2].partition("```")[0]
    found: dict[str, list[list[str]]] = {}
    inside: list[str] = []
    for line in picture.splitlines():
        match = PICTURED.match(line)
        assert match, line
        depth = len(match.group(1)) // 2
        names = match.group(2).split(" | ")
        inside[depth:] = []
        found.setdefault(".".join(inside), []).append(names)
        inside.append(names[0])
    return found


def contracted() -> dict[str, list[list[str]]]:
    """Return the lines of each layers contract, by the folder that it is about."""
    settings = tomllib.loads(ROOT.joinpath("pyproject.toml").read_text())
    found = {}
    for each in settings["tool"]["importlinter"]["contracts"]:
        if each["type"] == "layers":
            [container] = each.get("containers", ["longshore"])
            lines = [line.removeprefix("longshore.").split(" | ") for line in each["layers"]]
            found[container.removeprefix("longshore").removeprefix(".")] = lines
    return found


def test_the_picture_of_the_layers_is_that_of_the_contracts() -> None:
    assert pictured(ROOT.joinpath("docs/architecture.md").read_text()) == contracted()


def test_a_picture_is_read() -> None:
    text = "x\n```\na                what\n  b | (c)        `of` it\n    d\n  e\nf\n```\n"
    assert pictured(text) == {"": [["a"], ["f"]], "a": [["b", "(c)"], ["e"]], "a.b": [["d"]]}


def test_the_architecture_is_two_pages() -> None:
    assert len(ROOT.joinpath("docs/architecture.md").read_text().splitlines()) < 160


def test_decisions_are_numbered_listed_and_told_alike() -> None:
    index = ROOT.joinpath("docs/decisions/README.md").read_text()
    rows = re.findall(r"^\| \[(\d+)\]\((\S+)\) \| (.+) \|$", index, re.MULTILINE)
    found = []
    for path in DECISIONS:
        headings = HEADING.findall(path.read_text())
        number, _, title = headings[0].partition(": ")
        found.append((number, path.name, title))
        assert headings[1:] == ["What was decided", "Against what, and why"], path.name
        assert path.name.startswith(f"{number}-"), path.name
    assert found == rows
    assert [int(number) for number, *_ in found] == list(range(1, len(found) + 1))
    assert len(found) > 30


def missing_imports(text: str) -> list[str]:
    """Return what inline code of a text names as ours by its import name, and is not there."""
    found = (IMPORTED.match(code) for code in CODE.findall(text))
    return sorted({match.group(1) for match in found if match and not is_ours(match.group(1))})


def is_ours(dotted: str) -> bool:
    """Return whether a dotted name is a module of ours, a folder, or a name in a module."""
    folder, _, name = dotted.partition(".")[2].replace(".", "/").rpartition("/")
    path = ROOT / folder / name
    if path.is_dir() or path.with_suffix(".py").is_file():
        return True
    module = ROOT.joinpath(f"{folder}.py")
    return module.is_file() and re.search(rf"\b{name}\b", module.read_text()) is not None


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_imports_in_documents_exist(document: Path) -> None:
    assert missing_imports(document.read_text()) == []


def test_an_import_that_is_not_there_is_found() -> None:
    there = (
        "`longshore.drivers` `longshore.drivers.registry` `longshore.drivers.registry.DriverInfo`"
    )
    gone = "`longshore.drivers.turns` `longshore.drivers.registry.Turns` `longshore.pool.state.x`"
    assert missing_imports(there) == []
    assert missing_imports(f"{there} {gone}") == sorted(gone.replace("`", "").split())


def test_the_changes_for_plug_in_authors_name_what_they_import() -> None:
    text = ROOT.joinpath("CHANGELOG.md").read_text().partition("### Changed")[2]
    told = {match.group(1) for code in CODE.findall(text) if (match := IMPORTED.match(code))}
    example = "\n".join(p.read_text() for p in ROOT.glob("tests/example_driver/*.py"))
    imported = set(re.findall(r"^from (longshore\.[\w.]+) import", example, re.MULTILINE))
    assert len(imported) > 4
    assert imported <= told


def test_a_name_that_is_not_there_is_found() -> None:
    text = "`pool_x_y` `Engine.handle` `Engine.no_such` `x_total` `plain` `tests/x_y.py` `NoSuch`"
    assert unknown_names(text, frozenset({"x"})) == ["NoSuch", "no_such", "pool_x_y"]


def test_anchors_are_those_of_headings_outside_of_code() -> None:
    text = "# A: `b`, c-d?\n```sh\n# no heading\n```\n## At 3 a.m.\n"
    assert anchors(text) == {"a-b-c-d", "at-3-am"}


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


def test_every_key_of_a_container_is_told_with_its_default() -> None:
    text = ROOT.joinpath("docs/jobs.md").read_text()
    table = text.partition("## What a container may say")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| `(\w+)` \| (.+?) \|", table, re.MULTILINE)
    fields = {each.encode_name for each in msgspec.structs.fields(ContainerRequest)}
    assert {name for name, _ in rows} == fields
    defaults = dict(rows)
    for each in msgspec.structs.fields(ContainerRequest):
        simple = isinstance(each.default, bool)
        assert not simple or defaults[each.name] == f"`{str(each.default).lower()}`"


def test_every_variable_that_an_attempt_finds_is_told() -> None:
    text = ROOT.joinpath("docs/jobs.md").read_text()
    section = text.partition("## What a container finds")[2].partition("\n## ")[0]
    told = set(re.findall(r"`(LONGSHORE_\w+)`", section))
    ours_to_run = (p for p in ROOT.glob("dispatcher/**/*.py") if "conformance" not in p.parts)
    sources = [ROOT / "pool/runner/invocation.py", *ours_to_run]
    words = {w for each in sources for w in re.findall(r"LONGSHORE_[A-Z_]+[A-Z]", each.read_text())}
    of_commands = {"TOKEN", "CA_FILE", "DEBUG", "RUNNER_DIR", "PARAMETER"}
    ours = words - {f"LONGSHORE_{name}" for name in of_commands}
    assert ours == told


def test_job_files_in_the_page_on_jobs_are_taken() -> None:
    blocks = YAML_BLOCK.findall(ROOT.joinpath("docs/jobs.md").read_text())
    assert len(blocks) > 4
    for block in blocks:
        [job] = documents(block)
        decoder().job(job)


def test_keys_that_stand_for_those_of_another_system_are_taken() -> None:
    section = ROOT.joinpath("docs/jobs.md").read_text().partition("## From another system")[2]
    codes = [code for code in CODE.findall(section) if re.match(r"\w+: ", code)]
    told: list[dict[str, Any]] = [each for code in codes for each in documents(code)]
    # "N", "ID" and "NAME" are the reader's; a role takes another task beside it.
    told = [each for each in told if not re.search(r"\b(N|ID|NAME)\b|role", str(each))]
    of_tasks = [each for each in told if each.keys() <= set(TaskRequest.__struct_fields__)]
    of_jobs = [each for each in told if each.keys() <= set(JobRequest.__struct_fields__)]
    assert len(of_tasks) > 5
    assert len(of_jobs) > 2
    for each in of_tasks:
        decoder().job({"tasks": [{"command": ["true"], **each}]})
    for each in of_jobs:
        kind = {"type": "system"} if "update" in each else {}
        decoder().job({"tasks": [{"command": ["true"]}], **kind, **each})
