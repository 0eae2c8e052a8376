"""What strangers wrote is decoded, or every problem with it is named at once."""

from __future__ import annotations

import json
from decimal import Decimal
from difflib import get_close_matches
from enum import Enum
from typing import Annotated, Any

import msgspec
import pytest

from longshore.dispatcher.input.problems import PROBLEMS_MAX, Problems, element, listing, member
from longshore.dispatcher.input.quantities import parse_cpus, parse_price
from longshore.dispatcher.input.validation import (
    JSON_DEPTH_MAX,
    CpuMillis,
    Price,
    Size,
    decode_all,
    did_you_mean,
    parse_json,
    parse_size,
)
from longshore.drivers.errors import InvalidRequest
from longshore.pool.model import PoolSettings


class Colour(Enum):
    RED = "red"
    GREEN = "green"


class Inner(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    host: Annotated[str, msgspec.Meta(min_length=1, max_length=5)]
    port: Annotated[int, msgspec.Meta(ge=1, le=65535)] = 22


class Cat(msgspec.Struct, tag_field="kind", tag="cat", forbid_unknown_fields=True):
    lives: int


class Dog(msgspec.Struct, tag_field="kind", tag="dog", forbid_unknown_fields=True):
    tricks: list[str]


class Outer(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    name: str
    memory: Size | None = None
    cpus: CpuMillis = CpuMillis(1000)
    price: Price = Price(0)
    colour: Colour = Colour.RED
    ratio: Annotated[float, msgspec.Meta(gt=0, lt=2)] = 1.0
    inner: Inner | None = None
    many: list[Inner] = []
    by_name: dict[str, Inner] = {}
    flag: bool = False
    port: int | str = 0
    code: Annotated[str, msgspec.Meta(pattern="^[a-z]+$")] = "a"
    pet: Cat | Dog | None = None

    def __post_init__(self) -> None:
        if self.name == "forbidden":
            raise ValueError("this name is forbidden")


def problems_of(value: object, path: str = "") -> list[tuple[str, str]]:
    with pytest.raises(InvalidRequest) as caught:
        decode_all(Outer, value, path)
    return caught.value.problems


def test_a_valid_value_decodes() -> None:
    decoded = decode_all(
        Outer,
        {"name": "n", "memory": "4GiB", "cpus": 0.1, "price": 0.34, "inner": {"host": "h"}},
    )
    assert decoded.memory == 4 * 2**30
    assert decoded.cpus == 100
    assert decoded.price == Decimal("0.34")
    assert decoded.inner == Inner(host="h")


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ([], [("", "must be an object, not a list")]),
        ({}, [("name", "is missing: add it")]),
        ({"name": 3}, [("name", "must be text, not 3: put it in quotes")]),
        ({"name": None}, [("name", "must be text, not null")]),
        ({"name": "n", "nam": 1}, [("nam", 'is not known: did you mean "name"?')]),
        (
            {"name": "n", "flag": "yes"},
            [("flag", "must be true or false, not text: write true")],
        ),
        (
            {"name": "n", "ratio": 2},
            [("ratio", "must be more than 0 and less than 2, not 2")],
        ),
        ({"name": "n", "ratio": "x"}, [("ratio", "must be a number, not text")]),
        ({"name": "n", "ratio": float("nan")}, [("ratio", "must be a finite number")]),
        (
            {"name": "n", "many": [{"host": "h"}, {"host": "h", "port": float("inf")}]},
            [("many[1].port", "must be a finite number")],
        ),
        (
            {"name": "n", "colour": "gren"},
            [("colour", 'must be one of "red", "green", not "gren"')],
        ),
        ({"name": "n", "colour": []}, [("colour", 'must be one of "red", "green", not a list')]),
        ({"name": "n", "inner": 3}, [("inner", "must be an object, not 3")]),
        (
            {"name": "n", "inner": {"hst": "", "port": 0}},
            [
                ("inner.hst", 'is not known: did you mean "host"?'),
                ("inner.port", "must be at least 1 and at most 65535, not 0"),
                ("inner.host", "is missing: add it"),
            ],
        ),
        (
            {"name": "n", "many": [{"host": "h"}, {"host": ""}, {"host": "abcdef", "port": True}]},
            [
                ("many[1].host", "must not be empty"),
                ("many[2].host", "must have at most 5 characters, not 6"),
                ("many[2].port", "must be a whole number, not true"),
            ],
        ),
        ({"name": "n", "many": {}}, [("many", "must be a list, not an object")]),
        (
            {"name": "n", "by_name": {"x": {"host": 1}, "a b": []}},
            [
                ("by_name.x.host", "must be text, not 1: put it in quotes"),
                ('by_name["a b"]', "must be an object, not a list"),
            ],
        ),
        (
            {"name": "n", "by_name": {3: {}}},
            [("by_name", "has a key that is 3: keys must be text, quote it")],
        ),
        (
            {"name": "n", True: 1},
            [("", "has a key that is true: keys must be text, quote it")],
        ),
        ({"name": "n", "port": []}, [("port", "must be a whole number or text, not a list")]),
        ({"name": "n", "pet": {"lives": 1}}, [("pet.kind", 'is missing: add one of "cat", "dog"')]),
        (
            {"name": "n", "pet": {"kind": "cow"}},
            [("pet.kind", 'must be one of "cat", "dog", not "cow"')],
        ),
        (
            {"name": "n", "pet": {"kind": "dog", "tricks": [1]}},
            [("pet.tricks[0]", "must be text, not 1: put it in quotes")],
        ),
        ({"name": "forbidden"}, [("", "this name is forbidden")]),
        (
            {"name": "n", "cpus": "2"},
            [("cpus", "must be a number of cpus like 2 or 0.5, not text")],
        ),
        ({"name": "n", "cpus": -1}, [("cpus", "must be from 0 to 10000 cpus, not -1")]),
        (
            {"name": "n", "cpus": 0.0001},
            [("cpus", "must have at most three decimals, not 0.0001")],
        ),
        (
            {"name": "n", "price": -0.5},
            [("price", "must be from 0 to 1000000 US dollars an hour, not -0.5")],
        ),
    ],
)
def test_every_problem_is_named(value: object, expected: list[tuple[str, str]]) -> None:
    assert problems_of(value) == expected


def test_problems_of_different_fields_come_together() -> None:
    found = dict(problems_of({"memory": "4G", "cpus": "x", "code": "B", "flag": 1}))
    assert sorted(found) == ["code", "cpus", "flag", "memory", "name"]
    assert "4GB" in found["memory"]
    assert "4GiB" in found["memory"]


def test_the_path_is_put_before_every_path() -> None:
    assert problems_of({}, "[3]") == [("[3].name", "is missing: add it")]


def test_free_text_is_never_quoted() -> None:
    text = str(problems_of({"name": "n", "many": "s3cret", "flag": "s3cret", "ratio": "s3cret"}))
    assert "s3cret" not in text


def test_the_number_of_problems_is_bounded() -> None:
    found = problems_of({"name": "n", "many": [3] * 100_000})
    assert len(found) == PROBLEMS_MAX + 1
    assert "only the first 100" in found[-1][1]


def test_the_pool_settings_are_checked_in_full() -> None:
    with pytest.raises(InvalidRequest) as caught:
        decode_all(PoolSettings, {"idle_timeout": 5, "boot_timeout_s": 0}, "pool")
    assert caught.value.problems == [
        ("pool.idle_timeout", 'is not known: did you mean "idle_timeout_s"?'),
        ("pool.boot_timeout_s", "must be at least 0.01 and at most 2592000, not 0"),
    ]


@pytest.mark.parametrize(
    ("written", "size"),
    [
        (0, 0),
        (2**60, 2**60),
        ("0", 0),
        ("512", 512),
        ("512B", 512),
        ("1KB", 1000),
        ("1kb", 1000),
        ("1KiB", 1024),
        ("1Ki", 1024),
        ("512MB", 512_000_000),
        ("4GiB", 4 * 2**30),
        ("4 GiB", 4 * 2**30),
        (" 4GiB ", 4 * 2**30),
        ("1.5GiB", 3 * 2**29),
        ("0.1KiB", 103),
        ("1PiB", 2**50),
        ("1024PiB", 2**60),
    ],
)
def test_sizes_that_are_understood(written: int | str, size: int) -> None:
    assert parse_size(written) == size


@pytest.mark.parametrize(
    ("written", "said"),
    [
        (-1, "must not be negative"),
        (2**60 + 1, "larger than any machine"),
        (10**300, "larger than any machine"),
        ("1025PiB", "larger than any machine"),
        ("-1GiB", "is not a size"),
        ("4G", "ambiguous: write 4GB"),
        ("1.5m", "ambiguous: write 1.5MB"),
        ("4XB", "is not a size"),
        ("", "is not a size"),
        ("GiB", "is not a size"),
        ("4  GiB", "is not a size"),
        ("1e9", "is not a size"),
        ("NaN", "is not a size"),
        ("inf", "is not a size"),
        ("٤GiB", "is not a size"),
        ("9" * 10_000, "is not a size"),
        (1.5, "must be a size, not 1.5"),
        (float("nan"), "must be a size"),
        (True, "must be a size, not true"),
        (None, "must be a size, not null"),
        ([], "must be a size, not a list"),
    ],
)
def test_sizes_that_are_refused(written: Any, said: str) -> None:
    with pytest.raises(ValueError, match=said) as caught:
        parse_size(written)
    assert len(str(caught.value)) < 250


def test_cpus_and_prices_are_exact() -> None:
    assert parse_cpus(0.001) == 1
    assert parse_cpus(10_000) == 10_000_000
    assert parse_price(0.1) == Decimal("0.1")
    for bad in (float("inf"), 10**400, True, "1"):
        with pytest.raises(ValueError, match="must be"):
            parse_cpus(bad)
        with pytest.raises(ValueError, match="must be"):
            parse_price(bad)


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (b"", "is not JSON"),
        (b"{", "is not JSON"),
        (b"\xef\xbb\xbf{}", "is not JSON"),
        (b"{} {}", "is not JSON"),
        (b"\xff", "not UTF-8"),
        ('{"a":1}'.encode("utf-16"), "not UTF-8"),
        (b'{"a": 1, "b": {"c": 1, "c": 2}}', 'the key "c" appears twice'),
        (b"[NaN]", "NaN"),
        (b"[-Infinity]", "-Infinity"),
        (b"[1e999]", "too large"),
        (b"1" * 5000, "over 40 digits"),
        (b"[" * 200_000, "nested too deeply"),
        (b"[" + b"[]," * 300_000 + b"[]]", "over 300000 lists and objects"),
        (b'{"a":' * 100_000, "nested too deeply"),
        (b"[" * 40 + b"]" * 40, "nested too deeply"),
        (b'["\\ud800"]', "surrogate"),
        (b'{"\\uDC00": 1}', "surrogate"),
    ],
)
def test_json_that_is_refused(body: bytes, said: str) -> None:
    with pytest.raises(InvalidRequest, match=said):
        parse_json(body)


def test_json_that_is_understood() -> None:
    deepest: Any = 1
    for _ in range(JSON_DEPTH_MAX):
        deepest = [deepest]
    for value in ({"a": [1, 2.5, None, True, "é😀"]}, deepest, '"[\\' * 400_000, 10**39):
        assert parse_json(json.dumps(value).encode()) == value


def test_paths_and_suggestions_are_readable() -> None:
    assert member("env", "HOME") == "env.HOME"
    assert member("", "name") == "name"
    assert member("env", "a.b\n") == 'env["a.b\\n"]'
    assert len(member("env", "x" * 10_000)) < 100
    assert element("", 3) == "[3]"
    assert did_you_mean("larg", ["small", "large"]) == 'did you mean "large"?'
    assert did_you_mean("zzz", ["small", "large"]) == 'known are "large", "small"'


@pytest.mark.parametrize(
    ("word", "name"),
    [
        ("not_exit_codes", "exit_codes"),
        ("notExitCodes", "exit_codes"),
        ("no_exit_codes", "exit_codes"),
        ("exit_codes_excluded", "exit_codes"),
        ("exclude_exit_codes", "exit_codes"),
        ("without_retries", "retries"),
        ("dont_preempt_it", "preempt_it"),
        ("don't-preempt-it", "preempt_it"),
        ("skip_labels", "labels"),
        ("noretries", "retries"),
        ("disable_placement", "placement"),
        ("before", "not_before"),
        ("not_after", "not_before"),
        ("min_running", "max_running"),
        ("antiAffinity", "affinity"),
        ("last_delay_s", "first_delay_s"),
    ],
)
def test_nobody_is_told_of_what_does_the_opposite(word: str, name: str) -> None:
    assert did_you_mean(word, [name]) == f'known are "{name}"'


@pytest.mark.parametrize(
    ("word", "name"),
    [
        ("notbefore", "not_before"),
        ("notBefore", "not_before"),
        ("not_befor", "not_before"),
        ("nodes", "node"),
        ("notes", "nodes"),
        ("exitcodes", "exit_codes"),
        ("max_runing", "max_running"),
        ("firstdelay_s", "first_delay_s"),
        ("no_exit_code", "no_exit_codes"),
        ("ignoresystem", "ignore_system"),
        ("start_order", "startup_order"),
    ],
)
def test_a_slip_is_still_told_though_it_begins_like_a_denial(word: str, name: str) -> None:
    assert did_you_mean(word, [name]) == f'did you mean "{name}"?'


def test_what_does_the_opposite_keeps_no_slip_of_another_from_being_told() -> None:
    assert did_you_mean("not_codes", ["codes", "note_codes"]) == 'did you mean "note_codes"?'


def test_of_many_unknown_names_only_the_first_twenty_are_compared_with_what_is_known(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Found by an attacker's reading: 100 that were looked for among 210 took 1.6 s."""
    compared: list[int] = []

    def noted(word: str, names: list[str], n: int, cutoff: float) -> list[str]:
        compared.append(len(names))
        return get_close_matches(word, names, n, cutoff)

    monkeypatch.setattr("difflib.get_close_matches", noted)
    types = [f"m{number}.large" for number in range(210)]
    problems = Problems()
    hints = [problems.hint(f"m{number}q.large", types) for number in range(100)]
    assert hints[:20] == [f'did you mean "m{number}.large"?' for number in range(20)]
    assert set(hints[20:]) == {f"known are {listing(sorted(types))}"}
    assert compared == [50] * 20


def test_a_hint_is_given_only_when_a_word_is_near() -> None:
    known = ["late_joiners", "memory", "time_limit_s", "columns"]
    assert did_you_mean("memroy", known) == did_you_mean("mem", known) == 'did you mean "memory"?'
    assert did_you_mean("datacenters", known).startswith("known are")
    assert did_you_mean("t", known).startswith("known are")
