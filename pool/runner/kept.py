"""What there is of a stream: which of its offsets lie in its log file, and how far it goes.

Offsets are the stream's and the file's. Two records say what of the file is a hole: how much of its
begin was given up since it was taken is written by who follows it, the gap by who collects it.
"""

from __future__ import annotations

import json
from typing import NamedTuple

from longshore.pool.runner import machine
from longshore.pool.runner.spool import write_whole


class Gap(NamedTuple):
    """From where to where nothing is there (0 to 0 for nowhere); `last`: the stream ends so."""

    start: int = 0
    end: int = 0
    last: bool = False


def read_start(record: str) -> int:
    """Return below which offset nothing is there, 0 when no record says so."""
    text = machine.read_text(record)
    return int(json.loads(text)[0]) if text else 0


def write_start(record: str, start: int) -> None:
    """Write down below which offset nothing is there, as older runners do and read it."""
    write_whole(record, json.dumps([start, 0, 0]).encode())


def read_gap(record: str) -> Gap:
    """Return the gap that is written down, an empty one when none is."""
    text = machine.read_text(record)
    return Gap(*json.loads(text)) if text else Gap()


def write_gap(record: str, gap: Gap) -> None:
    """Write a gap down, before there are zeros where it is."""
    write_whole(record, json.dumps(gap).encode())
