"""The Unix socket in the data directory: who may open it is an admin, without a token.

It is bound in a directory that nobody else may enter, and moved to its place with its mode: at no
time is there one that others could open. Who speaks there is asked of the kernel all the same
(`api.doors`): a mode can be changed.
"""

from __future__ import annotations

import os
import socket
import tempfile
from contextlib import suppress
from pathlib import Path

NAME = "longshore.sock"
PATH_BYTES_MOST = 107
"""What a path of a Unix socket may have on Linux, without its final null."""
_BACKLOG = 128
# The longest name that `mkdtemp` gives it, which is there for a moment.
_WHILE_BOUND = len(".12345678/s") - len(NAME)


def path_problem(data_dir: str) -> str:
    """Return why no socket can be in a data directory, in one sentence; "" when it can."""
    path = os.fsencode(str(Path(data_dir) / NAME))
    length = len(path) + max(0, _WHILE_BOUND)
    if length <= PATH_BYTES_MOST:
        return ""
    return (
        f"the path {os.fsdecode(path)} has {length} bytes, and that of a Unix socket has "
        f"{PATH_BYTES_MOST} at most: choose a shorter data_dir"
    )


def bind(data_dir: Path) -> socket.socket:
    """Return a listening socket in a data directory, in the place of one that a crash left there.

    Raises `OSError`. The store's lock tells that no other server of this directory runs.
    """
    place = data_dir / NAME
    bound = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        with tempfile.TemporaryDirectory(prefix=".", dir=data_dir) as private:
            first = Path(private) / "s"
            bound.bind(str(first))
            first.chmod(0o600)
            bound.listen(_BACKLOG)
            first.replace(place)
    except BaseException:
        bound.close()
        raise
    bound.setblocking(False)
    return bound


def unlink(data_dir: Path, inode: int) -> None:
    """Take a socket away, if it is still the one with this inode."""
    place = data_dir / NAME
    with suppress(FileNotFoundError):
        if place.lstat().st_ino == inode:
            place.unlink()


def inode_of(data_dir: Path) -> int:
    """Return the inode of the socket in a data directory; raises `OSError`."""
    return (data_dir / NAME).lstat().st_ino
