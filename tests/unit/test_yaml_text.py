"""YAML as people write it: by the rules of YAML 1.2, and nothing is said twice."""

from __future__ import annotations

import json
import re
from itertools import pairwise
from pathlib import Path

import pytest

from longshore.dispatcher.api.validate.limits import ApiLimits, Defaults
from longshore.dispatcher.api.validate.submissions import SubmissionDecoder
from longshore.dispatcher.cli.failure import CommandFailure
from longshore.dispatcher.cli.submission import content, read_sources
from longshore.dispatcher.config.file import read_mapping
from longshore.dispatcher.input.yaml_text import YamlError, documents
from longshore.drivers.errors import ConfigError

OPERATIONS = Path(__file__).parents[2] / "docs" / "operations.md"
TEXT = "on: [yes, no, off, y, true, False]\nno: On\n"
MEANT = {"on": ["yes", "no", "off", "y", True, False], "no": "On"}


def test_only_true_and_false_are_booleans(tmp_path: Path) -> None:
    path = tmp_path / "some.yml"
    path.write_text(TEXT, encoding="utf-8")
    assert content(read_sources([str(path)])) == MEANT
    assert read_mapping(path) == MEANT


def test_the_retries_of_the_documentation_can_be_submitted_from_a_file(tmp_path: Path) -> None:
    line = re.search(r"in a file `(retries: [^`]*)`", OPERATIONS.read_text(encoding="utf-8"))
    assert line is not None
    path = tmp_path / "job.yml"
    path.write_text(f"command: [a]\nimage: busybox\n{line[1]}\n", encoding="utf-8")
    decoder = SubmissionDecoder(
        limits=ApiLimits(),
        defaults=Defaults(),
        instance_type_names=(),
        seal="{} sealed: {}".format,
    )
    item = decoder.decode(json.dumps(content(read_sources([str(path)]))).encode()).items[0]
    assert item.spec.retries.most == 3
    assert item.spec.retries.on == ("exit_code", "out_of_memory")
    assert item.spec.retries.exit_codes == (75,)


SCALARS = {
    "0100": 100,
    "+4": 4,
    "-0": 0,
    "0o17": 15,
    "0x1F": 31,
    "1e3": 1000.0,
    ".5": 0.5,
    "2.": 2.0,
    "1_000": "1_000",
    "12:30": "12:30",
    "190:20:30": "190:20:30",
    "0b11": "0b11",
    "2024-01-01": "2024-01-01",
    "2001-12-14t21:59:43.10-05:00": "2001-12-14t21:59:43.10-05:00",
    "=": "=",
    "~": None,
    "Null": None,
    "": None,
    "nUll": "nUll",
    "y": "y",
    "1.2.3": "1.2.3",
    ".inf": float("inf"),
}


@pytest.mark.parametrize("portable", [False, True])
@pytest.mark.parametrize(("written", "meant"), SCALARS.items())
def test_scalars_are_those_of_the_core_schema(
    written: str, meant: object, *, portable: bool
) -> None:
    assert documents(f"a: {written}\n", portable=portable) == [{"a": meant}]
    assert documents(f"- {written}\n", portable=portable) == [[meant]]


def test_a_word_that_is_a_value_in_yaml_1_1_is_an_argument() -> None:
    assert documents("command: [test, a, =, a]") == [{"command": ["test", "a", "=", "a"]}]


@pytest.mark.parametrize("portable", [False, True])
def test_every_key_that_stands_twice_is_told_with_both_lines(*, portable: bool) -> None:
    with pytest.raises(YamlError) as caught:
        documents("a: 1\nb: {c: 1, d: 2,\n  c: 3}\na: 3\n", portable=portable)
    assert [(each.place, each.what) for each in caught.value.problems] == [
        (":4:1", 'the key "a" was given in line 1 already: keep one'),
        (":3:3", 'the key "c" was given in line 2 already: keep one'),
    ]


def test_both_lines_are_told_of_a_job_file_in_yaml_and_in_json(tmp_path: Path) -> None:
    for name, text in (
        ("job.yml", "command: [a]\ncpus: 1\ncpus: 2\n"),
        ("job.json", '{"command": ["a"],\n"cpus": 1,\n"cpus": 2}'),
    ):
        path = tmp_path / name
        path.write_text(text, encoding="utf-8")
        with pytest.raises(CommandFailure) as caught:
            content(read_sources([str(path)]))
        what = 'the key "cpus" was given in line 2 already: keep one'
        assert caught.value.problems == ((f"{path}:3:1", what),)


def test_the_configuration_tells_both_lines(tmp_path: Path) -> None:
    path = tmp_path / "some.yml"
    path.write_text("cluster: a\ncluster: b\n", encoding="utf-8")
    with pytest.raises(ConfigError) as caught:
        read_mapping(path)
    what = 'the key "cluster" was given in line 1 already: keep one'
    assert caught.value.problems == [(f"{path}:2:1", what)]


def test_a_key_of_its_own_wins_over_what_is_merged_and_is_not_given_twice() -> None:
    text = "a: &a {x: 1, z: 1}\nb: &b {<<: *a, x: 2}\nc: {y: 3, <<: *b}\nd: {<<: [*b, *a]}\n"
    assert documents(text) == [
        {
            "a": {"x": 1, "z": 1},
            "b": {"x": 2, "z": 1},
            "c": {"x": 2, "y": 3, "z": 1},
            "d": {"x": 2, "z": 1},
        }
    ]


def test_aliases_that_stand_for_too_much_are_refused_at_once() -> None:
    """Nine lines that stand for 10^9 words."""
    lines = ["a: &a [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"{b}: &{b} [{', '.join([f'*{a}'] * 10)}]" for a, b in pairwise("abcdefghi")]
    with pytest.raises(YamlError, match="stand for more than 1000000 values"):
        documents("\n".join(lines))


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("a: 0x" + "f" * 5000, ":1:4 the number is too long"),
        ("a: " + "9" * 5000, ":1:4 the number is too long"),
        ("a: &a [*a]", "holds itself"),
        ("a: &a {<<: *a}", "holds itself"),
        ("a: {<<: 3}", ":1:9 << must name a mapping"),
        ("a: [1", ":2:1 while parsing a flow sequence"),
        ("schedule: */5 * * * *", "needs quotes"),
        ("a: !!python/object x", "could not determine a constructor"),
        ("? [a]\n: b", "unhashable"),
    ],
)
def test_what_is_no_yaml_is_told_with_its_place(text: str, told: str) -> None:
    with pytest.raises(YamlError, match=re.escape(told)):
        documents(text)
