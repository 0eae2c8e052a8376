"""A real file system of 2 MiB, for what happens when a disk is full."""

from __future__ import annotations

import errno
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.conftest import not_tested

SIZE = "2m"


@contextmanager
def small_disk(directory: Path, *, inodes: int = 0) -> Iterator[Path]:
    """Mount 2 MiB on a new `directory`; without the right to, fail in CI, else skip loudly.

    `inodes` is how many it has, 0 for as many as it likes.
    """
    directory.mkdir()
    options = f"size={SIZE}" + (f",nr_inodes={inodes}" if inodes else "")
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", options, "longshore-test", directory],
        capture_output=True,
        text=True,
        check=False,
    )
    if mounted.returncode != 0:
        not_tested(f"a full disk; mounting a tmpfs failed: {mounted.stderr.strip()}")
    try:
        yield directory
    finally:
        # Lazily, so that a failed test that left a file open does not leave the mount as well.
        subprocess.run(["umount", "--lazy", directory], check=True)


def fill(directory: Path) -> Path:
    """Write a file until the disk is full; return it, for making room again."""
    ballast = directory / "ballast"
    with ballast.open("wb", buffering=0) as file:
        while True:
            try:
                file.write(bytes(4096))
            except OSError as error:
                if error.errno != errno.ENOSPC:
                    raise
                return ballast
