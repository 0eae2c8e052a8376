"""How things look: tables and values on a terminal, plain columns and JSON elsewhere."""

from __future__ import annotations

import json
import sys
import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from itertools import chain, islice
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from rich.console import OverflowMethod
    from rich.table import Table

STATE_STYLES: Mapping[str, str] = {
    "queued": "yellow",
    "locked": "yellow",
    "booting": "yellow",
    "unknown": "yellow",
    "running": "cyan",
    "succeeded": "green",
    "idle": "green",
    "failed": "bold red",
    "cancelled": "magenta",
    "shutdown": "magenta",
    "gone": "dim",
}


#: Rows that are held to know how wide a table's columns are.
FIRST_ROWS = 1000
CENT = Decimal("0.01")
NAME_WIDTH = 24
WIDEST = 10_000
WRAPPED_WIDTH = 24
NOTE_WIDTH = 80
TEXT_WIDTH = 100


def on_terminal() -> bool:
    """Return whether a person looks at what is written to stdout."""
    return sys.stdout.isatty()


def safe(text: str) -> str:
    """Return `text` with what a terminal would act upon made visible.

    Names and messages come from other users: an escape sequence in one must not reach a terminal.
    """
    if text.isprintable():
        return text
    return "".join(
        character if character.isprintable() else repr(character)[1:-1] for character in text
    )


def say(sentence: str) -> None:
    """Write a sentence to stderr, whoever it comes from."""
    click.echo(f"longshore: {safe(sentence)}", err=True)


def cut(sentence: str) -> str:
    """Return a sentence as a table's row has it: an engine's error may be a page of text."""
    return sentence if len(sentence) <= NOTE_WIDTH else f"{sentence[: NOTE_WIDTH - 1].rstrip()}…"


def print_json(document: object) -> None:
    """Write one JSON document to stdout.

    On a terminal it is in ASCII: what acts on a terminal is valid in JSON as it is.
    """
    click.echo(_json_text(document))


def _json_text(document: object) -> str:
    as_it_is = sys.stdout.encoding.lower() == "utf-8" and not on_terminal()
    text = json.dumps(document, indent=2, ensure_ascii=not as_it_is)
    # The one such character that is ASCII, and that JSON does not escape either.
    return text if as_it_is else text.replace("\x7f", "\\u007f")


def print_table(
    columns: Sequence[str], rows: Sequence[Sequence[str]], *, wrap: tuple[str, ...] = ()
) -> None:
    """Write rows under column names; `wrap` are the columns that give way on a narrow terminal.

    All other columns stay whole, if need be wider than the terminal: an id that is cut off is of
    no use. When stdout is not a terminal nothing is styled, wrapped or cut off.
    """
    if not on_terminal():
        for line in plain_table(columns, rows):
            click.echo(line)
        return
    from rich.console import Console  # noqa: PLC0415 - slow to import, and only terminals need it

    console = Console(highlight=False)
    table = rich_table(columns, rows, wrap=wrap)
    unbounded = console.options.update(max_width=WIDEST)
    console.width = max(console.width, console.measure(table, options=unbounded).minimum)
    console.print(table)


@dataclass(frozen=True, slots=True, kw_only=True)
class Columns:
    """How a listing's items become rows of a table."""

    names: tuple[str, ...]
    row: Callable[[Mapping[str, Any]], Sequence[str]]
    #: Those that give way on a narrow terminal.
    wrap: tuple[str, ...] = ()


def print_items(
    items: Iterable[Mapping[str, Any]], columns: Columns, *, most: int, as_json: bool
) -> bool:
    """Write a listing as one JSON document or as a table, and return whether there are more.

    At most `most` are written, and no more than a page of them is held: `items` may be a million.
    A table's widths are those of the first of them, so later cells may stand out.
    """
    source = iter(items)
    shown = islice(source, most)
    if as_json:
        _stream_json(shown)
    else:
        _stream_table(columns, map(columns.row, shown))
    return next(source, None) is not None


def _stream_json(items: Iterable[Mapping[str, Any]]) -> None:
    """Write what `print_json` would of `{"items": [...]}`."""
    separator = ""
    for item in items:
        opening = separator or '{\n  "items": [\n'
        click.echo(f"{opening}{textwrap.indent(_json_text(item), '    ')}", nl=False)
        separator = ",\n"
    click.echo("\n  ]\n}" if separator else '{\n  "items": []\n}')


def _stream_table(columns: Columns, rows: Iterator[Sequence[str]]) -> None:
    first = list(islice(rows, FIRST_ROWS))
    if on_terminal():
        print_table(columns.names, [*first, *rows], wrap=columns.wrap)
        return
    widths = _widths(columns.names, first)
    for row in chain([columns.names], first, rows):
        click.echo(_line(row, widths))


def plain_table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Return a table's lines, columns aligned and two blanks apart; an empty cell is `-`."""
    widths = _widths(columns, rows)
    return [_line(row, widths) for row in (columns, *rows)]


def _widths(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> list[int]:
    return [
        max(len(_cell(row[index])) for row in (columns, *rows)) for index in range(len(columns))
    ]


def _line(row: Sequence[str], widths: Sequence[int]) -> str:
    cells = zip(map(_cell, row), widths, strict=True)
    return "  ".join(cell.ljust(width) for cell, width in cells).rstrip()


def _cell(text: str) -> str:
    return safe(text) or "-"


def rich_table(
    columns: Sequence[str],
    rows: Sequence[Sequence[str]],
    *,
    wrap: tuple[str, ...] = (),
    one_line: bool = False,
) -> Table:
    """Return a table for a rich console; `one_line` cuts the `wrap` columns off where they end."""
    from rich.table import Table  # noqa: PLC0415 - slow to import, and only terminals need it
    from rich.text import Text  # noqa: PLC0415 - slow to import, and only terminals need it

    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in columns:
        if column in wrap:
            overflow: OverflowMethod = "ellipsis" if one_line else "fold"
            table.add_column(column, overflow=overflow, min_width=WRAPPED_WIDTH)
        else:
            table.add_column(column, no_wrap=True)
    for row in rows:
        cells = [Text(safe(cell), style=STATE_STYLES.get(cell, "")) for cell in row]
        for column, cell in zip(columns, cells, strict=True):
            if column == "NAME":
                cell.truncate(NAME_WIDTH, overflow="ellipsis")
            cell.no_wrap = one_line or column not in wrap
        table.add_row(*cells)
    return table


def print_fields(fields: Sequence[tuple[str, str]]) -> None:
    """Write name and value a line, leaving out what has no value."""
    shown = [(name, value) for name, value in fields if value]
    width = max((len(name) for name, _ in shown), default=0)
    for name, value in shown:
        click.echo(f"{name.ljust(width)}  {safe(value)}")


def print_block(title: str, rows: Sequence[tuple[str, str]]) -> None:
    """Write rows below a title, none for no rows."""
    if rows:
        click.echo(f"\n{title}")
        print_pairs(rows, indent="  ")


def print_pairs(rows: Sequence[tuple[str, str]], indent: str = "") -> None:
    """Write name and text a row, the text wrapped below itself; one without text is left out."""
    shown = [(safe(name), safe(text)) for name, text in rows if text]
    width = max((len(name) for name, _ in shown), default=0)
    for name, text in shown:
        first = f"{indent}{name.ljust(width)}  "
        print_wrapped(text, first=first, rest=" " * len(first))


def print_wrapped(text: str, *, first: str = "", rest: str = "") -> None:
    """Write a text in lines of at most `TEXT_WIDTH`, `first` before the first, `rest` before all
    others."""
    lines = textwrap.wrap(
        safe(text),
        max(TEXT_WIDTH, len(first) + 40),
        initial_indent=first,
        subsequent_indent=rest,
        break_on_hyphens=False,
        break_long_words=False,
    )
    click.echo("\n".join(lines))


def listing(
    as_json: bool,
    items: Sequence[Mapping[str, object]],
    table: Callable[[], None],
) -> None:
    """Write a listing as one JSON document or as a table."""
    if as_json:
        print_json({"items": list(items)})
    else:
        table()


def duration(seconds: float | None) -> str:
    """Return a span of time for people; "" for None."""
    if seconds is None:
        return ""
    whole = max(0, round(seconds))
    if whole < 60:
        return f"{whole}s"
    if whole < 3600:
        return f"{whole // 60}m{whole % 60:02d}s"
    if whole < 86400:
        return f"{whole // 3600}h{whole % 3600 // 60:02d}m"
    return f"{whole // 86400}d{whole % 86400 // 3600:02d}h"


def size(amount_bytes: int) -> str:
    """Return a number of bytes in the largest unit that is whole, "" for none."""
    if not amount_bytes:
        return ""
    for unit, factor in (("TiB", 2**40), ("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10)):
        if amount_bytes >= factor:
            return f"{amount_bytes / factor:.4g}{unit}"
    return f"{amount_bytes}B"


def money(usd: Decimal) -> str:
    """Return an amount of dollars with as many places as a cheap container needs."""
    return f"${usd:.2f}" if usd >= 1 else f"${usd:.6f}"


def price(usd_per_hour: Decimal) -> str:
    """Return a price per hour, with cents at least; "" for none."""
    if not usd_per_hour:
        return ""
    whole_cents = usd_per_hour.quantize(CENT)
    shown = whole_cents if whole_cents == usd_per_hour else usd_per_hour.normalize()
    return f"${shown:f}/h"
