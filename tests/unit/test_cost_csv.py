"""The CSV of the ledger: RFC 4180, harmless in a spreadsheet, with sums that are exact."""

from __future__ import annotations

import csv
import io
from dataclasses import replace
from decimal import Decimal

import pytest

from longshore.dispatcher.cost.csv_export import LINE_COLUMNS, Cell, csv_text, lines_csv
from longshore.dispatcher.cost.money import GRAINS_PER_USD, in_dollars
from longshore.dispatcher.cost.running_decimals import RunningDecimal
from tests.cost_samples import ALIGN, IDLE, WORK, many


def rows_of(text: str) -> list[list[str]]:
    return list(csv.reader(io.StringIO(text, newline=""), strict=True))


@pytest.mark.parametrize(
    ("cell", "written"),
    [
        ("plain", "plain"),
        ("", ""),
        (None, ""),
        ("=1+1", "'=1+1"),
        ("+1", "'+1"),
        ("-1", "'-1"),
        ("@SUM(A1)", "'@SUM(A1)"),
        ("\t=1", "'\t=1"),
        ("\r=1", '"\'\r=1"'),
        ("\n=1", '"\'\n=1"'),
        ("＝1", "'＝1"),  # noqa: RUF001 - full-width, as a spreadsheet in Japan takes it
        ("a=1", "a=1"),
        ('a,"b"', '"a,""b"""'),
        (-1, "-1"),
        (Decimal("-1E-7"), "-0.0000001"),
        (Decimal("1E+3"), "1000"),
    ],
)
def test_a_cell_is_written(cell: Cell, written: str) -> None:
    assert list(csv_text(["one", "two"], [[cell, "x"]])) == ["one,two\r\n", f"{written},x\r\n"]


def test_a_name_of_a_column_is_harmless_too() -> None:
    assert list(csv_text(["=1", "b"], [])) == ["'=1,b\r\n"]


def test_a_row_of_another_length_is_refused() -> None:
    with pytest.raises(ValueError, match="1 cells for 2 columns"):
        list(csv_text(["a", "b"], [["x"]]))


def test_a_line_says_all_that_it_knows() -> None:
    [names, row] = rows_of("".join(lines_csv([WORK], ["team", "none"])))
    told = dict(zip(names, row, strict=True))
    assert names == [*LINE_COLUMNS, "label:team", "label:none"]
    assert told["hour"] == "2026-10-01T00:00:00Z"
    assert (told["label:team"], told["label:none"]) == ("cells", "")
    assert (told["hours"], told["usd_per_hour"]) == ("0.500000000000", "0.115000000")
    assert (told["usd"], told["market"], told["array_index"]) == (
        "0.057500000000",
        "on-demand",
        "3",
    )


def test_names_that_users_choose_run_nothing() -> None:
    hostile = replace(ALIGN, job_name="=cmd|' /C calc'!A0", labels=(("team", "@x"),))
    [names, row] = rows_of("".join(lines_csv([replace(WORK, account=hostile)], ["team"])))
    told = dict(zip(names, row, strict=True))
    assert told["job"] == "'=cmd|' /C calc'!A0"
    assert told["label:team"] == "'@x"


def test_amounts_of_a_file_add_up_to_the_exact_sum() -> None:
    lines = list(many(3000))
    [names, *rows] = rows_of("".join(lines_csv(lines)))
    amounts = [Decimal(row[names.index("usd")]) for row in rows]
    assert sum(amounts) == in_dollars(sum(line.grains for line in lines))
    # Each is its own amount, but for the last place.
    for line, amount in zip(lines, amounts, strict=True):
        assert abs(amount - in_dollars(line.grains)) <= Decimal("1e-12")
    # Rounded each by itself they would not have added up: the test can fail.
    assert sum(in_dollars(line.grains) for line in lines) != sum(amounts)


def test_what_costs_nothing_is_nothing_in_any_company() -> None:
    third = GRAINS_PER_USD // 3 + 1
    amounts = RunningDecimal(GRAINS_PER_USD)
    told = [amounts.next(each) for each in (third, 0, third, 0, -third, -third)]
    assert {told[1], told[3]} == {Decimal(0)}
    assert sum(told) == 0


def test_lines_leave_one_by_one() -> None:
    """A month has millions of lines: nobody may wait for the last one, or keep them."""
    taken = []

    def watched() -> object:
        for line in (WORK, IDLE, WORK):
            taken.append(line)
            yield line

    written = lines_csv(watched())  # type: ignore[arg-type]  # a generator of lines, seen from here
    assert (next(written)[:4], taken) == ("hour", [])
    next(written)
    assert taken == [WORK]
