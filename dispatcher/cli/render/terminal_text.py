"""What a container wrote, on its way to a terminal: colours pass, and nothing else that acts.

A terminal obeys what is written to it: it sets the window's title and the clipboard, answers into
the shell's input, hides lines. Logs come from other users, so on a terminal whatever is no text is
shown and not obeyed, as Git does with what a remote says (`sideband.allowControlCharacters`).
"""

from __future__ import annotations

import codecs
import re
from typing import BinaryIO

#: Tab, line feed, carriage return and backspace: lines and progress bars are made of them.
_LAYOUT = "\t\n\r\b"
_COLOUR = re.compile(r"\x1b\[[0-9;:]{0,64}m")
_BEGUN = re.compile(r"\x1b(?:\[[0-9;:]{0,64})?\Z")
#: Control characters, what turns the direction of the text, and half characters.
_ACTING = re.compile(
    "[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]"
)


class Sink:
    """Where the bytes of a stream go; `raw` ones go as they are.

    `end` writes what was held back since more of it could have come.
    """

    def __init__(self, out: BinaryIO, *, raw: bool) -> None:
        self._out = out
        self._raw = raw
        self._decoder = codecs.getincrementaldecoder("utf-8")("backslashreplace")
        self._held = ""

    def write(self, chunk: bytes) -> None:
        """Write bytes so that whoever reads sees them now."""
        self._out.write(chunk if self._raw else self._shown(chunk).encode())
        self._out.flush()

    def end(self) -> None:
        """Write what is left; nothing comes after it."""
        if not self._raw:
            self._out.write(_visible(self._held + self._decoder.decode(b"", final=True)).encode())
            self._out.flush()

    def _shown(self, chunk: bytes) -> str:
        text = self._held + self._decoder.decode(chunk)
        begun = _BEGUN.search(text)
        cut = begun.start() if begun else len(text)
        self._held = text[cut:]
        return _visible(text[:cut])


def _visible(text: str) -> str:
    if not _ACTING.search(text):
        return text
    parts, end = [], 0
    for colour in _COLOUR.finditer(text):
        parts += [_escaped(text[end : colour.start()]), colour.group()]
        end = colour.end()
    return "".join([*parts, _escaped(text[end:])])


def _escaped(text: str) -> str:
    return _ACTING.sub(
        lambda found: found.group() if found.group() in _LAYOUT else repr(found.group())[1:-1],
        text,
    )
