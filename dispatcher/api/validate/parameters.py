"""What may stand in a query string: each parameter once, for the check and for the document.

A route names its parameters; `QueryString` takes no other, and reads each by what stands here,
which the OpenAPI document tells too.
"""

from __future__ import annotations

from dataclasses import dataclass

from longshore.dispatcher.input.quantities import JOB_CONTAINERS_MAX

TEXT_MAX_CHARACTERS = 255
CURSOR_MAX_CHARACTERS = 1000
PAGE_ITEMS_MAX = 1000
PAGE_ITEMS_DEFAULT = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Text:
    """One line of plain text; left out or empty it is ""."""

    name: str
    description: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Whole:
    """A whole number from `low` to `high`; left out it is `default`, None for not given."""

    name: str
    description: str
    low: int
    high: int
    default: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """One of `words`; left out it is `default`, "" for none of them."""

    name: str
    description: str
    words: tuple[str, ...]
    default: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Choices:
    """Some of `words`, with commas between them or given several times; left out it is none."""

    name: str
    description: str
    words: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Switch:
    """`true` or `false`, the latter when it is left out."""

    name: str
    description: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Instant:
    """A time in RFC 3339; left out it is none."""

    name: str
    description: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Cursor:
    """Where a page begins, as the page before said; left out it is the first."""

    name: str
    description: str


Parameter = Text | Whole | Choice | Choices | Switch | Instant | Cursor

LIMIT = Whole(
    name="limit",
    description="How many items a page has at most; it has fewer where they are large.",
    low=1,
    high=PAGE_ITEMS_MAX,
    default=PAGE_ITEMS_DEFAULT,
)
CURSOR = Cursor(
    name="cursor",
    description="The `next_cursor` of the page before, for the page after it.",
)
PAGE_PARAMETERS = (LIMIT, CURSOR)
"""Those of every list."""

USER = Text(name="user", description="Only this user's.")
PROJECT = Text(name="project", description="Only this project's.")
NAME = Text(name="name", description="Only those of this name.")
ARRAY_INDEX = Whole(
    name="array_index",
    description="Only those of this index in their array.",
    low=0,
    high=JOB_CONTAINERS_MAX - 1,
    default=None,
)
