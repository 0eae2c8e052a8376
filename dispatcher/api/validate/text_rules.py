"""Which characters texts for people may not have: those that act on whatever shows them.

That is: the control characters of ASCII and Latin-1, line separators, and what changes the
direction of text, so that a name could look like another one.
"""

from __future__ import annotations

import re

UNPLAIN = "\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069"
_UNPLAIN = re.compile(f"[{UNPLAIN}]")


def text_problem(text: str) -> str:
    """Return why `text` is not one line of plain text, in one sentence; "" when it is."""
    found = _UNPLAIN.search(text)
    if found is None:
        return ""
    return f"contains the control character U+{ord(found[0]):04X}: use one line of plain text"
