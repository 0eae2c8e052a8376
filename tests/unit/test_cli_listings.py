"""Listings are written as they come: a million items are never held at once."""

from __future__ import annotations

import json
import weakref
from collections.abc import Iterator

import pytest

from longshore.dispatcher.cli import output

MANY = 5_000


class Item(dict[str, object]):
    """One that can be watched."""


def items(number: int, alive: list[weakref.ref[Item]]) -> Iterator[Item]:
    for index in range(number):
        made = Item(id=f"c-{index}", text="a\nb")
        alive.append(weakref.ref(made))
        yield made


def held(alive: list[weakref.ref[Item]]) -> int:
    return sum(each() is not None for each in alive)


def columns(alive: list[weakref.ref[Item]], most: list[int]) -> output.Columns:
    def row(item: object) -> tuple[str, ...]:
        assert isinstance(item, Item)
        most.append(held(alive[-20:]))
        return str(item["id"]), "long cell" if item["id"] == "c-4000" else "x"

    return output.Columns(names=("ID", "TEXT"), row=row)


@pytest.mark.parametrize("number", [0, 1, 2, MANY])
def test_json_is_that_of_one_document(number: int, capsys: pytest.CaptureFixture[str]) -> None:
    alive: list[weakref.ref[Item]] = []
    listed = output.Columns(names=("ID",), row=lambda _: ("x",))
    more = output.print_items(items(number, alive), listed, most=MANY, as_json=True)
    written = capsys.readouterr().out
    expected = {"items": [{"id": f"c-{index}", "text": "a\nb"} for index in range(number)]}
    assert json.loads(written) == expected
    assert written == f"{json.dumps(expected, indent=2)}\n"
    assert (more, held(alive)) == (False, 0)


def test_a_table_holds_one_item_at_a_time_and_keeps_its_columns(
    capsys: pytest.CaptureFixture[str],
) -> None:
    alive: list[weakref.ref[Item]] = []
    most: list[int] = []
    assert not output.print_items(
        items(MANY, alive), columns(alive, most), most=MANY, as_json=False
    )
    lines = capsys.readouterr().out.splitlines()
    assert (len(lines), lines[0], lines[1]) == (MANY + 1, "ID     TEXT", "c-0    x")
    assert lines[4001] == "c-4000  long cell"
    assert max(most) <= 2


@pytest.mark.parametrize("as_json", [True, False])
def test_whether_there_are_more_is_known_without_them(
    capsys: pytest.CaptureFixture[str], *, as_json: bool
) -> None:
    alive: list[weakref.ref[Item]] = []
    listed = columns(alive, [])
    assert output.print_items(items(MANY, alive), listed, most=3, as_json=as_json)
    assert len(alive) == 4
    assert "c-3" not in capsys.readouterr().out
