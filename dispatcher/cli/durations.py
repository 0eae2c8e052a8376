"""Lengths of time and moments as people type them: 90s, 10m, 1h30m, +30m, 2026-01-31T12:00:00Z."""

from __future__ import annotations

import math
import re
from datetime import UTC, datetime, timedelta
from typing import Any

import click

SECONDS: dict[str, int] = {"d": 86_400, "h": 3_600, "m": 60, "s": 1}
LONGEST_S = 100 * 365 * 86_400
_PLAIN = re.compile(r"[0-9]{1,12}(\.[0-9]{1,9})?")
_PARTS = re.compile(
    r"(?=[0-9])(?:([0-9]{1,9})d)?(?:([0-9]{1,9})h)?(?:([0-9]{1,9})m)?(?:([0-9]{1,12})s)?"
)
_MOMENT = re.compile(
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}[Tt ][0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{1,9})?"
    r"([Zz]|[+-][0-9]{2}:[0-9]{2})"
)


def seconds_of(text: str) -> float:
    """Return how many seconds "90", "1.5", "90s", "10m", "2h", "1d" or "1h30m" are, at most 100
    years of them; raises `ValueError` for anything else."""
    if _PLAIN.fullmatch(text):
        length_s = float(text)
    elif found := _PARTS.fullmatch(text):
        parts = zip(SECONDS.values(), found.groups(default="0"), strict=True)
        length_s = float(sum(factor * int(number) for factor, number in parts))
    else:
        raise ValueError(text)
    if length_s > LONGEST_S:
        raise ValueError(text)
    return length_s


def moment_of(text: str, now: datetime) -> datetime:
    """Return the moment that RFC 3339 with a zone names, or "+30m" after `now`.

    Raises `ValueError` for anything else.
    """
    if text.startswith("+"):
        return now + timedelta(seconds=seconds_of(text[1:]))
    if not _MOMENT.fullmatch(text):
        raise ValueError(text)
    return datetime.fromisoformat(text.upper())


class Span(click.ParamType[float]):
    """A length of time; it becomes a number of seconds, a whole one where it can."""

    name = "span"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        """Return the seconds."""
        try:
            length_s = seconds_of(str(value))
        except ValueError:
            self.fail(
                f"must be a length of time like 90s, 10m, 2h, 1d or a number of seconds, and"
                f" {value!r} is not",
                param,
                ctx,
            )
        return int(length_s) if length_s == math.floor(length_s) else length_s


class MomentParam(click.ParamType[str]):
    """A moment; it becomes RFC 3339 in UTC."""

    name = "moment"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Return the moment as the server reads it."""
        try:
            when = moment_of(str(value), datetime.now(UTC)).astimezone(UTC)
        except (ValueError, OverflowError):
            self.fail(
                "must be a moment with its zone like 2026-01-31T12:00:00Z, or a length of time"
                f" from now like +30m, and {value!r} is neither",
                param,
                ctx,
            )
        return when.isoformat(timespec="milliseconds").replace("+00:00", "Z")
