"""What is shown to other people holds nothing that acts on their terminals."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any
from urllib.parse import quote

import pytest

from longshore.dispatcher.input.text_rules import text_problem
from tests.api_server import MINIMAL, Client, connected

UNPLAIN = [
    *map(chr, range(0x20)),
    *map(chr, range(0x7F, 0xA0)),
    *"\u061c\u200e\u200f\u2028\u2029",
    *map(chr, range(0x202A, 0x202F)),
    *map(chr, range(0x2066, 0x206A)),
]


@pytest.fixture
async def client() -> AsyncIterator[Client]:
    async with connected() as client:
        yield client


def test_each_control_character_is_named() -> None:
    for character in UNPLAIN:
        assert f"U+{ord(character):04X}" in text_problem(f"a{character}b")


def test_texts_of_all_languages_are_plain() -> None:
    for text in (
        "",
        "plain text",
        "é à ß",
        "日本語",
        "שלום",
        "سلام",
        "👩\u200d🚀",
        "a\u00a0b",
        "\ufeff",
    ):
        assert text_problem(text) == ""


@pytest.mark.parametrize("character", ["\x1b", "\x9b", "\u0085", "\u2028", "\u202e", "\u2066"])
@pytest.mark.parametrize(
    ("change", "path"),
    [
        ({"name": "a{}b"}, "name"),
        ({"project": "a{}b"}, "project"),
        ({"labels": {"a": "a{}b"}}, "labels.a"),
        ({"labels": {"a{}b": "x"}}, "labels["),
        ({"constraints": {"labels": {"a": "a{}b"}}}, "constraints.labels.a"),
        ({"constraints": {"instance_types": ["a{}b"]}}, "constraints.instance_types[0]"),
        ({"resources": {"a{}b": 1}}, "resources["),
        ({"env": {"a{}b": "1"}}, "env["),
        ({"image": "a{}b"}, "image"),
        ({"na{}me": "x"}, "["),
    ],
)
async def test_submissions_with_one_are_refused(
    client: Client, change: dict[str, Any], path: str, character: str
) -> None:
    status, answer = await client.post("/v1/containers", {**MINIMAL, **_filled(change, character)})
    assert status == 400
    (error,) = answer["errors"]
    assert error["path"].startswith(path)
    assert character not in error["path"] + error["message"]
    assert client.rig.containers() == []


def _filled(value: Any, character: str) -> Any:
    match value:
        case dict():
            return {_filled(k, character): _filled(v, character) for k, v in value.items()}
        case list():
            return [_filled(each, character) for each in value]
        case str():
            return value.replace("{}", character)
        case _:
            return value


@pytest.mark.parametrize("character", ["\x1b", "\x9b", "\u2028", "\u202e"])
async def test_reasons_and_filters_are_plain_too(client: Client, character: str) -> None:
    await client.rig.add_instance("i-1")
    said = f"too {character}old"
    status, answer = await client.post("/v1/instances/i-1/kill", {"reason": said})
    assert (status, answer["errors"][0]["path"]) == (400, "reason")
    status, answer = await client.call("GET", f"/v1/containers?name={quote(said)}")
    assert (status, answer["errors"][0]["path"]) == (400, "name")


async def test_programs_get_any_text_but_nul(client: Client) -> None:
    text = "".join(character for character in UNPLAIN if character != "\0")
    value = {"command": ["printf", text], "env": {"A": text}}
    status, answer = await client.post("/v1/containers", value)
    assert (status, answer["command"], answer["env"]) == (201, value["command"], value["env"])
