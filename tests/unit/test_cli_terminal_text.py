"""What a container wrote is shown on a terminal, and not obeyed by it."""

from __future__ import annotations

import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from longshore.dispatcher.cli.render.terminal_text import Sink


def shown(*chunks: bytes, raw: bool = False) -> bytes:
    """Return what a terminal gets of `chunks`."""
    out = io.BytesIO()
    sink = Sink(out, raw=raw)
    for chunk in chunks:
        sink.write(chunk)
    sink.end()
    return out.getvalue()


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        (b"plain\ttext\r\nbar\b\b", b"plain\ttext\r\nbar\b\b"),
        ("grün ✓ 👩‍💻\u00a0x".encode(), "grün ✓ 👩‍💻\u00a0x".encode()),
        (b"\x1b[1;31mred\x1b[0m", b"\x1b[1;31mred\x1b[0m"),
        (b"\x1b]0;title\x07", rb"\x1b]0;title\x07"),
        (b"\x1b]52;c;cm0gLXJm\x07", rb"\x1b]52;c;cm0gLXJm\x07"),
        (b"\x1b[2J\x1b[6n", rb"\x1b[2J\x1b[6n"),
        ("\x9b6n".encode(), rb"\x9b6n"),
        ("a\u202eb".encode(), rb"a\u202eb"),
        (b"\xff\x00\x7f", rb"\xff\x00\x7f"),
        (b"\x1b", rb"\x1b"),
        (b"\x1b[31", rb"\x1b[31"),
        (b"\x1b[" + b"1" * 100, rb"\x1b[" + b"1" * 100),
    ],
)
def test_only_text_and_colours_pass(written: bytes, expected: bytes) -> None:
    assert shown(written) == expected
    assert shown(*(bytes([each]) for each in written)) == expected
    assert shown(written, raw=True) == written


@given(st.lists(st.binary(max_size=40), max_size=6))
def test_however_it_comes_the_same_is_shown(chunks: list[bytes]) -> None:
    assert shown(*chunks) == shown(b"".join(chunks))


def test_a_line_is_shown_as_soon_as_it_comes() -> None:
    out = io.BytesIO()
    Sink(out, raw=False).write(b"half a line")
    assert out.getvalue() == b"half a line"
