"""Some of many, others at each commit: what is too much for every run is all seen in the end."""

from __future__ import annotations

import hashlib
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol, TypeVar

ROOT = Path(__file__).resolve().parents[1]


class Named(Protocol):
    """What has a name of its own."""

    @property
    def name(self) -> str:
        """Return the name."""


Each = TypeVar("Each", bound=Named)


def some_of(many: Sequence[Each], count: int, salt: str) -> list[Each]:
    """Return `count` of `many`, the same ones for the same salt, and all of them in turn."""
    return sorted(many, key=lambda each: _digest(f"{salt} {each.name}"))[:count]


def commit() -> str:
    """Return which commit is checked out, "" where there is no repository, as in an sdist."""
    command = ["git", "rev-parse", "HEAD"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    return done.stdout.strip() if done.returncode == 0 else ""


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
