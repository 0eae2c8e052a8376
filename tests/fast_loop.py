"""What `make check` leaves to `make test`: tests that take long, as `tests/slow.txt` lists them.

The list is made anew by `python tools/slow_tests.py`, which runs and times them.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

SLOW = Path(__file__).with_name("slow.txt")
VARIABLE = "LONGSHORE_FAST_LOOP"
"""Set in the environment of the fast loop."""


def function_of(node_id: str) -> str:
    """Return a test's file and function, without its parameters."""
    return node_id.partition("[")[0]


def slow_tests() -> frozenset[str]:
    """Return the tests that take long, whatever their parameters."""
    return frozenset(SLOW.read_text(encoding="utf-8").split())


def left_out(node_ids: Iterable[str]) -> frozenset[str]:
    """Return which of these tests do not run now."""
    if VARIABLE not in os.environ:
        return frozenset()
    slow = slow_tests()
    return frozenset(each for each in node_ids if function_of(each) in slow)
