"""Problems with what strangers wrote: where, what, and the sentence that says how to mend it.

Values are never quoted unless they are numbers, choices or sizes: others may hold secrets.
"""

from __future__ import annotations

import difflib
import heapq
import json
import re
from collections.abc import Iterable, Iterator
from itertools import takewhile

PROBLEMS_MAX = 100
_HINTS_MAX = 20
_COMPARED_MAX = 50
#: How alike two words must be for one to be a slip of the other: "datacenters" and "late_joiners",
#: at 0.61, are two words.
_NEAR = 0.7
_NEAREST = 5

#: What makes the opposite of the word that it goes with.
_DENIALS = frozenset(
    {"no", "not", "non", "never", "without", "dont", "anti", "unless", "except", "skip", "avoid"}
    | {"disable", "disabled", "disallow", "disallowed", "exclude", "excluded", "excluding"}
    | {"ignore", "omit", "deny", "forbid", "forbidden"}
)
_PAIRS = (
    *(("min", "max"), ("least", "most"), ("first", "last"), ("before", "after")),
    *(("start", "end"), ("start", "stop"), ("begin", "end"), ("include", "exclude")),
)
_OPPOSITES = {one: other for pair in _PAIRS for one, other in (pair, pair[::-1])}
_PART = re.compile(r"[A-Z]?[a-z0-9]+|[A-Z0-9]+(?![a-z])")

_KINDS: dict[type, str] = {
    str: "text",
    list: "a list",
    tuple: "a list",
    dict: "an object",
}
#: How a sentence begins that says what kind of value was wanted.
_SHAPE = re.compile(r"must be (?:an? |text|true or false|null)")
_PLAIN_KEY = re.compile(r"[A-Za-z0-9_-]{1,80}")


class ProblemsFull(Exception):  # noqa: N818 - a signal to stop looking, not an error
    """So many problems were found that looking for more helps nobody."""


class Problems:
    """Collects (path, sentence) pairs, at most 100 of them; then it raises `ProblemsFull`."""

    def __init__(self) -> None:
        self._found: list[tuple[str, str]] = []
        self._hinted = 0

    def add(self, path: str, sentence: str) -> None:
        """Note a problem; raises `ProblemsFull` when there are too many to be of use."""
        if len(self._found) == PROBLEMS_MAX:
            self._found.append(("", f"there may be more: only the first {PROBLEMS_MAX} are listed"))
            raise ProblemsFull
        self._found.append((path, sentence))

    def show(self, since: int, path: str, example: str) -> None:
        """Add an example to what was noted from `since` on about the shape of what is at `path`.

        An example of "" is none.
        """
        if not example:
            return
        for index, (place, sentence) in enumerate(self._found[since:], since):
            if place == path and _SHAPE.match(sentence):
                self._found[index] = (place, f"{sentence}; for example {example}")

    def extend(self, problems: Iterable[tuple[str, str]]) -> None:
        """Note several problems; raises `ProblemsFull` when there are too many to be of use."""
        for path, sentence in problems:
            self.add(path, sentence)

    def hint(self, word: str, known: Iterable[str]) -> str:
        """Return what may have been meant, see `did_you_mean`; after 20 questions, what is known.

        Comparing names takes its time, and who got so many wrong needs no more of it.
        """
        self._hinted += 1
        if self._hinted > _HINTS_MAX:
            return f"known are {listing(sorted(known))}"
        return did_you_mean(word, known)

    def __len__(self) -> int:
        return len(self._found)

    def listed(self) -> list[tuple[str, str]]:
        """Return all that was noted, in order, as a copy."""
        return list(self._found)


def member(path: str, key: str) -> str:
    """Return the path of `key` in the object at `path`: `env.HOME`, or `env["odd key"]`."""
    if not _PLAIN_KEY.fullmatch(key):
        return f"{path}[{quoted(key)}]"
    return f"{path}.{key}" if path else key


def element(path: str, index: int) -> str:
    """Return the path of an entry of the list at `path`: `command[3]`."""
    return f"{path}[{index}]"


def quoted(text: str) -> str:
    """Return `text` in double quotes, clipped and with control characters escaped."""
    return json.dumps(text if len(text) <= 60 else text[:57] + "...")


def described(value: object) -> str:
    """Return what `value` is, in the words of JSON; only numbers are shown themselves."""
    match value:
        case None | bool():
            return json.dumps(value)
        case int():
            return str(value) if value.bit_length() <= 64 else "a number that large"
        case float():
            return repr(value)
        case _:
            return _KINDS.get(type(value), f"a {type(value).__name__}")


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """Return `did you mean "x"?` for the nearest of `known`, or a sentence that lists them.

    Who says `not_exit_codes` is not told of `exit_codes`, which does the opposite.
    Comparing with 10,000 others well takes a second: of many, those are that begin and end alike.
    """
    names = sorted(known)
    if not names:
        return "there is none to choose from"
    alike = names
    if len(names) > _COMPARED_MAX:
        alike = heapq.nlargest(_COMPARED_MAX, names, key=lambda name: _alike(word, name))
    near = difflib.get_close_matches(word[:100], alike, n=_NEAREST, cutoff=_NEAR)
    near += [name for name in names if len(word) > 2 and name.startswith(word)]
    for name in near[:_NEAREST]:
        if not _is_opposite(word[:100], name):
            return f"did you mean {quoted(name)}?"
    return f"known are {listing(names)}"


def _is_opposite(word: str, name: str) -> bool:
    """Return whether two names say the opposite of each other, rather than one being a slip.

    They do where one of them, turned round, is more like the other than it was.
    """
    alike = _likeness(_joined(_parts(word)), _joined(_parts(name)))
    return any(
        _likeness(turned, _joined(_parts(other))) > alike
        for one, other in ((word, name), (name, word))
        for turned in _turned(one)
    )


def _turned(name: str) -> Iterator[str]:
    """Yield what says the opposite of a name: without a word that denies, with `min` for `max`."""
    parts = _parts(name)
    for index, part in enumerate(parts):
        before, after = parts[:index], parts[index + 1 :]
        if part in _DENIALS:
            yield _joined([*before, *after])
        elif part in _OPPOSITES:
            yield _joined([*before, _OPPOSITES[part], *after])
        elif not index:
            # Written as one word, as `noinit`.
            found = [each for each in _DENIALS if part.startswith(each)]
            yield from (_joined([part[len(each) :], *after]) for each in found)


def _parts(name: str) -> list[str]:
    """Return the words of a name, be it `exit_codes`, `exit-codes` or `exitCodes`, made small."""
    return [part.lower() for part in _PART.findall(name.replace("'", ""))]


def _joined(parts: list[str]) -> str:
    return "_".join(parts)


def _likeness(one: str, other: str) -> float:
    return difflib.SequenceMatcher(None, one, other).ratio()


def listing(names: Iterable[str]) -> str:
    """Return quoted names in their order, at most twenty."""
    every = list(names)
    more = f" and {len(every) - 20} more" if len(every) > 20 else ""
    return ", ".join(quoted(name) for name in every[:20]) + more


def _alike(one: str, other: str) -> int:
    """Return how many letters at the beginning and at the end of two names are the same."""
    return _in_common(one, other) + _in_common(one[::-1], other[::-1])


def _in_common(one: str, other: str) -> int:
    pairs = zip(one, other, strict=False)
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))
