"""Creates of which nobody knows whether they made an instance: one may be chance, a row is none.

Pure: `now` comes in.
"""

from __future__ import annotations


class Doubts:
    """The rows of such creates, by the name of their type."""

    def __init__(self, *, forgotten_after_s: float) -> None:
        """Know of none; a row that holds nothing is forgotten after so long."""
        self._forgotten_after_s = forgotten_after_s
        self._since: dict[str, float] = {}

    def begins_row(self, type_name: str, *, began_at: float, holding: bool, now: float) -> bool:
        """Note a create, begun at `began_at`; return whether it is, or went with, a row's first.

        `holding` says that errors hold the type, or did a short while ago.
        """
        since = self._since.get(type_name)
        if since is None or (now >= since + self._forgotten_after_s and not holding):
            self._since[type_name] = now
            return True
        return began_at <= since

    def ended(self, type_name: str, *, began_at: float) -> None:
        """Note that a create succeeded: that ends the row, unless it began before that did."""
        if type_name in self._since and began_at >= self._since[type_name]:
            del self._since[type_name]
