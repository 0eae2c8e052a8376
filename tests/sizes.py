"""How much is tried of what has no end: a part in `make test`, the whole in `make proofs`."""

from __future__ import annotations

import os

VARIABLE = "LONGSHORE_WHOLE"
"""Set in the environment of `make proofs`."""


def sized(part: int, whole: int) -> int:
    """Return how many of these are tried in this run."""
    return whole if VARIABLE in os.environ else part
