"""All planted defects of the edges, and which of them `make test` plants at a commit."""

from __future__ import annotations

import hashlib
import subprocess
from collections.abc import Sequence
from typing import Final

from tests.edges.defect import EdgeDefect
from tests.edges.defects_api import API
from tests.edges.defects_logs import LOGS
from tests.edges.defects_remote import REMOTE
from tests.edges.defects_runner import RUNNER
from tests.edges.defects_store import STORE
from tests.edges.planting import ROOT

DEFECTS: Final = (*API, *LOGS, *REMOTE, *RUNNER, *STORE)


def some_of(defects: Sequence[EdgeDefect], count: int, salt: str) -> list[EdgeDefect]:
    """Return `count` defects, the same ones for the same salt, and all of them in turn."""
    return sorted(defects, key=lambda each: _digest(f"{salt} {each.name}"))[:count]


def part_of(defects: Sequence[EdgeDefect], part: int, parts: int) -> list[EdgeDefect]:
    """Return one of `parts` equal parts, the first of which is 1."""
    return list(defects)[part - 1 :: parts]


def commit() -> str:
    """Return which commit is checked out, "" where there is no repository, as in an sdist."""
    command = ["git", "rev-parse", "HEAD"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    return done.stdout.strip() if done.returncode == 0 else ""


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
