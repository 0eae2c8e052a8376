"""How much room a file system has left, in bytes and in files."""

from __future__ import annotations

import os
from pathlib import Path

from longshore.dispatcher.domain.vitals import DiskRoom


def room_at(directory: Path) -> DiskRoom:
    """Return the room where `directory` lies, or will lie.

    Of one that is not there, or that we may not look at, its parent's: whoever asks how a server
    does must get an answer above all when something is wrong with its disk. Raises `OSError` when
    not even the root can be asked.
    """
    disk = _told_of(directory)
    return DiskRoom(
        directory=str(directory),
        free_bytes=disk.f_bavail * disk.f_frsize,
        free_inodes=disk.f_favail if disk.f_files else None,
        inodes=disk.f_files,
    )


def _told_of(place: Path) -> os.statvfs_result:
    try:
        return os.statvfs(place)
    except OSError:
        if place == place.parent:
            raise
        return _told_of(place.parent)
