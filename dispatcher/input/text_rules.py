"""Which characters texts for people may not have, and what a name of ours is made of.

Texts may not have what acts on whatever shows them: the control characters of ASCII and Latin-1,
line separators, and what changes the direction of text, so that a name could look like another one.
"""

from __future__ import annotations

import re

UNPLAIN = "\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069"
_UNPLAIN = re.compile(f"[{UNPLAIN}]")
_NAME = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._/-]{0,61}[A-Za-z0-9])?")
_NAME_RULE = "use 1 to 63 letters, digits, dots, dashes, underscores or slashes"


def text_problem(text: str) -> str:
    """Return why `text` is not one line of plain text, in one sentence; "" when it is."""
    found = _UNPLAIN.search(text)
    if found is None:
        return ""
    return f"contains the control character U+{ord(found[0]):04X}: use one line of plain text"


def name_problem(text: str) -> str:
    """Return why `text` is no name, such as a project's, in one sentence; "" when it is one."""
    return "" if _NAME.fullmatch(text) else f"is not a name: {_NAME_RULE}"
