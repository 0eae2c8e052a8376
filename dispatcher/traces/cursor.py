"""Up to where traces were sent: a small file in the data directory, for the next process.

It has a time before which everything that ended was sent, and the keys of what was sent that ended
then or later. It is replaced as a whole after each batch that the collector has taken, and is not
synced: after a loss of power more is sent again, which has the same ids.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Final

import msgspec
import structlog

NAME: Final = "traces-sent.json"
MOST_KEYS: Final = 10_000
"""How many keys are kept, the latest: what else has ended since the time is sent twice."""

_log = structlog.get_logger(__name__)


class _Kept(msgspec.Struct, frozen=True, kw_only=True):
    """What is in the file."""

    until: float
    sent: Annotated[list[str], msgspec.Meta(max_length=MOST_KEYS)] = []


class SentCursor:
    """Where an earlier process has got to, and this one; by one thread at a time."""

    def __init__(self, data_dir: Path, now: float) -> None:
        """Read what is kept: a file that is none, or is not there, begins at `now`."""
        self._path = data_dir / NAME
        kept = _read(self._path) or _Kept(until=now)
        #: Everything that ended before this was sent, in seconds since the epoch.
        self.until = min(kept.until, now)
        self._sent = deque(((self.until, key) for key in kept.sent), maxlen=MOST_KEYS)
        self._is_writable = True

    @property
    def sent(self) -> frozenset[str]:
        """Return the keys of what was sent that may have ended since."""
        return frozenset(key for _, key in self._sent)

    def advance(self, sent: Iterable[tuple[float, float, str]]) -> None:
        """Note what was sent, and write that down.

        Of each there are a time at which it had ended, when it was heard of, and its key; all that
        ended before that was heard of before it.
        """
        for ended_at, heard_at, key in sent:
            self.until = max(self.until, ended_at)
            self._sent.append((heard_at, key))
        while self._sent and self._sent[0][0] < self.until:
            self._sent.popleft()
        self.write()

    def write(self) -> None:
        """Write down where it is; where that cannot be, the log says so once."""
        kept = _Kept(until=self.until, sent=[key for _, key in self._sent])
        new = self._path.with_suffix(".new")
        try:
            new.touch(mode=0o600)
            new.write_bytes(msgspec.json.encode(kept))
            new.replace(self._path)
        except OSError as error:
            if self._is_writable:
                _log.warning("up to where traces were sent is not written", why=str(error))
            self._is_writable = False
        else:
            self._is_writable = True


def _read(path: Path) -> _Kept | None:
    try:
        return msgspec.json.decode(path.read_bytes(), type=_Kept)
    except FileNotFoundError:
        return None
    except (OSError, msgspec.MsgspecError) as error:
        _log.warning("up to where traces were sent is not known", file=str(path), why=str(error))
        return None
