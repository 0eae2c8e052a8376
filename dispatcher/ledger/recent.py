"""What happened lately, by key, in bounded memory; pure."""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import Generic, TypeVar

Key = TypeVar("Key", bound=Hashable)
Entry = TypeVar("Entry")


@dataclass(slots=True)
class _Kept(Generic[Entry]):
    """The entries of one key with their sizes, and what all that takes."""

    size_bytes: int
    entries: deque[tuple[int, Entry]] = field(default_factory=deque)


class Recent(Generic[Key, Entry]):
    """Entries by key: so many of a key, so many keys, and so many bytes in all.

    Who got an entry longest ago goes first. Sizes are estimates, of the whole as if nothing in it
    were shared.
    """

    def __init__(
        self,
        *,
        most_of_a_key: int,
        most_keys: int,
        most_bytes: int,
        key_bytes: Callable[[Key], int],
        entry_bytes: Callable[[Entry], int],
    ) -> None:
        self._most_of_a_key = most_of_a_key
        self._most_keys = most_keys
        self._most_bytes = most_bytes
        self._key_bytes = key_bytes
        self._entry_bytes = entry_bytes
        self._kept: OrderedDict[Key, _Kept[Entry]] = OrderedDict()
        self.size_bytes = 0

    def __contains__(self, key: Key) -> bool:
        return key in self._kept

    def __len__(self) -> int:
        return len(self._kept)

    def of(self, key: Key) -> list[Entry]:
        """Return the entries of a key, the earliest first, as a new list."""
        kept = self._kept.get(key)
        return [entry for _, entry in kept.entries] if kept is not None else []

    def last(self, key: Key) -> Entry | None:
        """Return the latest entry of a key, None when there is none."""
        kept = self._kept.get(key)
        return kept.entries[-1][1] if kept is not None else None

    def add(self, key: Key, entry: Entry) -> None:
        """Keep an entry; what is too much then is forgotten, if need be this one too."""
        kept = self._kept.get(key)
        if kept is None:
            kept = self._kept[key] = _Kept(self._key_bytes(key))
            self.size_bytes += kept.size_bytes
        size_bytes = self._entry_bytes(entry)
        kept.entries.append((size_bytes, entry))
        kept.size_bytes += size_bytes
        self.size_bytes += size_bytes
        self._kept.move_to_end(key)
        if len(kept.entries) > self._most_of_a_key:
            self._forget_first(kept)
        while len(self._kept) > self._most_keys or self.size_bytes > self._most_bytes:
            if len(self._kept) == 1 and len(kept.entries) > 1:
                self._forget_first(kept)
                continue
            _, forgotten = self._kept.popitem(last=False)
            self.size_bytes -= forgotten.size_bytes

    def _forget_first(self, kept: _Kept[Entry]) -> None:
        size_bytes, _ = kept.entries.popleft()
        kept.size_bytes -= size_bytes
        self.size_bytes -= size_bytes
