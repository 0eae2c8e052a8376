"""What a test sees of the order in which files are synced, named and removed."""

from __future__ import annotations

import os
from pathlib import Path

import pytest


def record_syncs(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """Return a list to which the path of each file or directory is added that is synced."""
    paths: list[Path] = []
    really = os.fsync

    def fsync(descriptor: int) -> None:
        paths.append(Path(f"/proc/self/fd/{descriptor}").readlink())
        really(descriptor)

    monkeypatch.setattr(os, "fsync", fsync)
    return paths


def write_half(monkeypatch: pytest.MonkeyPatch, function: str) -> None:
    """Have `os.write` or `os.pwrite` take half of what it is given once, then find a full disk."""
    really, calls = getattr(os, function), iter((True,))

    def half(descriptor: int, data: bytes, *place: int) -> int:
        if next(calls, False):
            written: int = really(descriptor, data[: len(data) // 2], *place)
            return written
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, function, half)
