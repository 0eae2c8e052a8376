"""The server's log on a terminal: the words of strangers do not steer it."""

from __future__ import annotations

import io
import sys
from collections.abc import Iterator

import pytest
import structlog

from dispatcher import serving

ATTACK = "\x1b]0;mine\x07\x9b2J"


class Terminal(io.StringIO):
    """A stderr that says that a person looks at it."""

    def isatty(self) -> bool:
        return True


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Iterator[Terminal]:
    before = structlog.get_config()
    made = Terminal()
    monkeypatch.setattr(sys, "stderr", made)
    serving._configure_log()
    yield made
    structlog.configure(**before)


def fail() -> None:
    raise ValueError(ATTACK)


def test_what_would_steer_a_terminal_is_shown_instead(terminal: Terminal) -> None:
    log = structlog.get_logger()
    log.warning(ATTACK, why=ATTACK, count=1)
    try:
        fail()
    except ValueError:
        log.exception("a driver raised")
    said = terminal.getvalue()
    assert "\x1b]0;" not in said
    assert "\x07" not in said
    assert "\x9b" not in said
    assert said.count("\\x1b]0;mine\\x07\\x9b2J") == 3, "event, value and error"
    assert "\nTraceback (most recent call last):\n" in said
    assert "count" in said
