"""`longshore cost export` and `reconcile`: the ledger as files, and bills against it.

A bill has millions of rows. They are added up as they are read, by instance, hours and kind, and
what comes of it goes to the server by pieces of instances (`dispatcher.cost.reconcile.piece_of`);
nothing is sent before the whole file was read and has no problem.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import click
import msgspec

from longshore.dispatcher.api.schemas.cost import BillParts, CostAnswer, ReconcileAnswer
from longshore.dispatcher.cli import output
from longshore.dispatcher.cli.answers import read
from longshore.dispatcher.cli.bill_files import BillFileError, read_bill
from longshore.dispatcher.cli.bill_parts import bill_name, files_of, hash_of
from longshore.dispatcher.cli.bill_sums import PAGE_INSTANCES, BillSums, only_instances, together
from longshore.dispatcher.cli.client import LIMIT_MAX, CommandClient
from longshore.dispatcher.cli.failure import USAGE, CommandFailure
from longshore.dispatcher.cli.options import WholeNumber, json_option, server_command
from longshore.dispatcher.cli.render.terminal_text import Sink
from longshore.dispatcher.client.dialogue import FILE_SILENCE_LIMIT_S

_PARTS = BillParts.__struct_fields__
_NUMBERS = msgspec.json.Encoder(decimal_format="number")


@click.command()
@click.option("--focus", type=click.Choice(["1.4", "1.2"]), help="As FOCUS; for admins.")
@click.option("--csv", "as_csv", is_flag=True, help="As plain CSV; so it is if nothing is said.")
@click.option("--month", metavar="YYYY-MM", default="", help="The month; default: this one.")
@click.option("--tz", metavar="ZONE", default="", help="The zone of the month; default: UTC.")
@click.option("--label", "labels", metavar="KEY", multiple=True, help="A column for this label.")
@click.option(
    "-o", "--output", "path", type=click.Path(dir_okay=False), metavar="FILE", help="Not to stdout."
)
@server_command
def export(
    *,
    client: CommandClient,
    focus: str | None,
    as_csv: bool,
    month: str,
    tz: str,
    labels: tuple[str, ...],
    path: str | None,
) -> None:
    """Write the lines of a month as a file: a row for each instance, hour and attempt or cause."""
    if focus and as_csv:
        raise click.UsageError("--focus and --csv are two forms of a file: give one of them.")
    query = [
        ("format", f"focus-{focus}" if focus else "csv"),
        ("month", month),
        ("tz", tz),
        ("label", ",".join(labels)),
    ]
    asked = [each for each in query if each[1]]
    with client.stream(
        "/v1/cost/export", asked, read_timeout_s=FILE_SILENCE_LIMIT_S, accept="text/csv"
    ) as response:
        pieces = client.chunks(response)
        if path is None:
            sink = Sink(sys.stdout.buffer, raw=not sys.stdout.isatty())
            for piece in pieces:
                sink.write(piece)
            sink.end()
        else:
            _write_whole(Path(path), pieces)


def _write_whole(path: Path, pieces: Iterator[bytes]) -> None:
    """Write a file that is there once all of it came, and as it was until then."""
    staged = path.with_name(f"{path.name}.part")
    try:
        with staged.open("wb") as file:
            for piece in pieces:
                file.write(piece)
            file.flush()
            os.fsync(file.fileno())
        staged.replace(path)
    except OSError as error:
        raise CommandFailure(
            f"cannot write {path}: {error.strerror or error}",
            remedy="Name another file with -o",
        ) from error
    finally:
        staged.unlink(missing_ok=True)


# ---- bills ---------------------------------------------------------------------------------------


@click.command("reconcile")
@click.argument(
    "given", metavar="FILE...", nargs=-1, required=True, type=click.Path(path_type=Path)
)
@click.option("--month", metavar="YYYY-MM", default="", help="Default: that of the bill's rows.")
@click.option("--final", is_flag=True, help="Nothing will be added to the bill any more.")
@click.option("--partial", is_flag=True, help="Only hours between the bill's first and last count.")
@click.option("--apply", is_flag=True, help="Book what is missing to the bill as corrections.")
@click.option(
    "--limit",
    type=WholeNumber(0, LIMIT_MAX),
    default=20,
    show_default=True,
    help="How many instances the table shows, the most different first.",
)
@json_option
@server_command
def reconcile_bill(
    *,
    client: CommandClient,
    given: tuple[Path, ...],
    month: str,
    final: bool,
    partial: bool,
    apply: bool,
    limit: int,
    as_json: bool,
) -> None:
    """Compare a cloud's bill with the ledger; for admins.

    FILE is AWS CUR 2.0 or FOCUS, as CSV, gzip or Parquet. A bill in several files is one bill: name
    all of them, their folder, or the manifest of an export by AWS. With --apply reports of that
    month say what the bill does; the same bill again changes nothing.
    """
    currency = read(client.get("/v1/cost", [("limit", "1")]), CostAnswer).currency
    files, bill = _bill_of(given, currency)
    asked = {
        "month": month or bill.month(),
        "billed_from_hour": bill.billed_from_hour,
        "billed_until_hour": bill.billed_until_hour,
        "file": bill_name(files),
        "sha256": hash_of(files),
        "final": final,
        "partial": partial,
    }
    pieces = [{**asked, **piece} for piece in bill.pieces()]
    found = together([page for piece in pieces for page in _pages(client, piece)])
    if apply:
        _refuse_a_part(found)
        booked = [_sent(client, {**piece, "apply": True, "limit": 1}) for piece in pieces]
        corrections = sum(each.corrections for each in booked)
        found = msgspec.structs.replace(found, corrections=corrections)
    if as_json:
        output.print_json(msgspec.json.decode(_NUMBERS.encode(found)))
        return
    _print_difference(found, str(asked["month"]), limit, applied=apply)


def _bill_of(given: Sequence[Path], currency: str) -> tuple[list[Path], BillSums]:
    """Return the files of a bill and what all of them come to; tell all that is wrong with them."""
    problems: list[tuple[str, str]] = []
    bill, files = BillSums(), list[Path]()
    try:
        files = files_of(given)
    except BillFileError as error:
        problems += error.problems
    for path in files:
        try:
            for line in read_bill(path, currency):
                bill.add(line)
        except BillFileError as error:
            lead = f"{path}: " if len(files) > 1 else ""
            problems += [(f"{lead}{place}".rstrip(": "), what) for place, what in error.problems]
    if problems:
        raise CommandFailure(
            f"{' '.join(map(str, given))} cannot be used as a bill",
            remedy="Mend what is listed, or export the bill anew",
            exit_code=USAGE,
            problems=problems,
        )
    return files, bill


def _pages(client: CommandClient, piece: Mapping[str, object]) -> Iterator[ReconcileAnswer]:
    """Yield the answers to a piece: the first with its sums, the others with instances alone."""
    offset: int | None = 0
    while offset is not None:
        page = _sent(client, {**piece, "limit": PAGE_INSTANCES, "offset": offset})
        yield page if not offset else only_instances(page)
        offset = page.next_offset


def _sent(client: CommandClient, piece: Mapping[str, object]) -> ReconcileAnswer:
    return read(client.send("POST", "/v1/cost/reconcile", piece), ReconcileAnswer)


def _refuse_a_part(found: ReconcileAnswer) -> None:
    """Raise `CommandFailure` where the bill is plainly a part of what it is said to be."""
    if found.not_covered_hours:
        raise CommandFailure(
            f"the ledger has instance hours ({found.not_covered_hours}) before the bill's first"
            " hour or after its last one, which would be taken for not billed; nothing is booked",
            remedy="Name all files of the month's bill, or say --partial, by which only hours"
            " within it count",
            exit_code=USAGE,
        )


def _print_difference(found: ReconcileAnswer, month: str, limit: int, *, applied: bool) -> None:
    output.print_fields(
        [
            ("month", month),
            ("bill", f"{found.billed:f} {found.currency}"),
            ("ledger", f"{found.booked:f} {found.currency}"),
            ("not this cluster's", f"{found.elsewhere:f}"),
            ("outside of the month", f"{found.outside:f}"),
            ("compared by", "hour" if found.coarsest_hours == 1 else f"{found.coarsest_hours} h"),
        ]
    )
    rows = [("bill less ledger", *_cells(found.parts))]
    rows += [(each.instance_id, *_cells(each.parts)) for each in found.instances[:limit]]
    output.print_table(("", *(name.replace("_", " ").upper() for name in _PARTS)), rows)
    more = len(found.instances) - limit
    if more > 0:
        output.say(f"instances that are not shown: {more} (--limit)")
    if applied:
        click.echo(f"{found.corrections} corrections are booked")
    elif found.parts.total:
        click.echo("nothing is booked; --apply books what is missing to the bill")


def _cells(parts: BillParts) -> list[str]:
    return [f"{getattr(parts, name):f}" for name in _PARTS]
