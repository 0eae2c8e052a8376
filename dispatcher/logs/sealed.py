"""Both streams of an attempt in one file, once they are sealed and short: an inode, not four.

`LOG_DIR/SHARD/CONTAINER.ATTEMPT.sealed` begins with a line of JSON that says of each stream how
many bytes its text has (`kept`), how far the stream reaches (`end`), and where it was cut, if it
was (`truncated_at`). The texts of stdout and of stderr follow. The file is complete from the moment
on at which it has its name.
"""

from __future__ import annotations

import errno
import os
from pathlib import Path

import msgspec

SHORT_BYTES = 16 * 1024
"""How long the texts of both streams are together, at most."""
_HEADER_BYTES = 1024


class SealedStream(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What is known of one stream beside its text."""

    kept: int
    end: int
    truncated_at: int | None = None


class SealedStreams(msgspec.Struct, frozen=True, kw_only=True):
    """The first line of the file."""

    stdout: SealedStream
    stderr: SealedStream

    def base(self, stream: str) -> int:
        """Return where the text of a stream begins behind this line."""
        return self.stdout.kept if stream == "stderr" else 0


_DECODER = msgspec.json.Decoder(SealedStreams)


def sealed_path(text_path: Path) -> Path:
    """Return where the sealed file of the attempt is whose stream has its own file there."""
    container = text_path.parent
    return container.with_name(f"{container.name}.{text_path.stem}.sealed")


def read_header(descriptor: int, path: Path) -> tuple[SealedStreams, int]:
    """Return what an open file says of its streams, and where their texts begin.

    Raises `OSError` for a file that we did not write so.
    """
    line, end, _ = os.pread(descriptor, _HEADER_BYTES, 0).partition(b"\n")
    try:
        return _DECODER.decode(line), len(line) + len(end)
    except msgspec.DecodeError as error:
        raise OSError(errno.EIO, f"is damaged ({error})", str(path)) from error


def write_sealed(path: Path, streams: SealedStreams, texts: bytes) -> None:
    """Make the file, on the disk but for its name; raises `OSError`, and leaves nothing then."""
    content = msgspec.json.encode(streams) + b"\n" + texts
    new = path.with_name(f"{path.name}.new")
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC
    descriptor = os.open(new, flags, 0o600)
    try:
        try:
            if os.write(descriptor, content) < len(content):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(new))
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        new.rename(path)
    except OSError:
        new.unlink(missing_ok=True)
        raise
