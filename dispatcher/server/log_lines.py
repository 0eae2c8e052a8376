"""The server's log: what each line has, and how it gets to standard error.

Who logs only puts what is to be said into a queue: it is made text and written on a thread of its
own, so that thousands of starts at once do not wait for thousands of lines. The queue has an end,
and a log that cannot be written (a full disk, a reader that is gone) stops nothing: whoever logs
may hold futures and outcomes for which others wait. How many lines are missing is said once there
is room again, or the stream takes them again.

As JSON each line has its `severity`, and ids under the names `container_id`, `attempt_id`,
`instance_id` and `job_id`. Nobody logs commands, environments or secrets; what looks like one all
the same, in the words of a cloud or of a program, is hidden.
"""

from __future__ import annotations

import atexit
import re
import sys
import threading
from collections import deque
from collections.abc import Callable, MutableMapping
from typing import Any, Final, TextIO

import structlog
import structlog.tracebacks
from structlog.typing import Processor

MOST_WAITING: Final = 100_000
"""How many lines may wait to be written."""

_FLUSH_S: Final = 5.0
_AT_ONCE: Final = 100
_PAUSE_S: Final = 0.005
"""Between so many lines: Python runs one thread at a time, and whoever logs has better to do."""

_IDS: Final = {
    "container": "container_id",
    "attempt": "attempt_id",
    "instance": "instance_id",
    "job": "job_id",
}
_HIDDEN: Final = "(hidden)"
_SECRETS = re.compile(
    r"(?P<before>"
    r"lsh_[0-9a-z]{10}_(?=[\w-]{43})"  # tokens of ours
    r"|whsec_(?=[\w+/=]{16})"  # keys of webhooks
    r"|\b(?:bearer|basic)\s+(?=[\w+/.~=-]{8})"
    r"|://(?=[^/\s\"@]*@)"  # users and passwords in URLs
    r"|\b(?:password|passwd|secret|token|api_?key|access_?key)="
    r")[^\s\"\\'&,;@]+",
    re.IGNORECASE,
)
_SIGNS: Final = (
    *("lsh_", "whsec_", "bearer", "basic", "://"),
    *("password=", "passwd=", "secret=", "token=", "key="),
)
"""A line without one of these has nothing to hide, which is quickly seen."""

Entry = MutableMapping[str, Any]


def redacted(text: str) -> str:
    """Return a line with what looks like a secret hidden."""
    small = text.lower()
    if not any(sign in small for sign in _SIGNS):
        return text
    return _SECRETS.sub(rf"\g<before>{_HIDDEN}", text)


def made_visible(_logger: object, _method: str, entry: Entry) -> Entry:
    """Return a line's values with what a terminal would act upon made visible.

    Clouds, instances and users put their own words into it. A traceback keeps its lines.
    """
    for name, value in entry.items():
        if isinstance(value, str) and not value.isprintable():
            kept = "\n" if name == "exception" else ""
            entry[name] = "".join(
                each if each.isprintable() or each in kept else repr(each)[1:-1] for each in value
            )
    return entry


def as_json(entry: Entry) -> str:
    """Return a line for programs: with its severity, and ids that say whose they are."""
    told = {_IDS.get(name, name): value for name, value in entry.items() if name != "level"}
    told["severity"] = str(entry.get("level", "info")).upper()
    return str(_TO_JSON(None, "", told))


_TO_JSON = structlog.processors.JSONRenderer()


class LogLines:
    """Writes lines to a stream in the order in which they come, on a thread of its own."""

    def __init__(
        self,
        stream: TextIO,
        render: Callable[[Entry], str] = as_json,
        *,
        most_waiting: int = MOST_WAITING,
    ) -> None:
        self._stream = stream
        self._render = render
        self._most_waiting = most_waiting
        self._waiting: deque[Entry | str | threading.Event] = deque()
        self._came = threading.Event()
        self._hurried = threading.Event()
        self._refused = 0
        self._is_closed = False
        self._thread = threading.Thread(target=self._work, name="log", daemon=True)
        self._thread.start()

    def write(self, entry: Entry | str) -> None:
        """Have a line written, or count it as refused where too many wait."""
        if self._is_closed:
            self._write(entry)
            return
        if len(self._waiting) >= self._most_waiting:
            self._refused += 1
            return
        self._waiting.append(entry)
        self._came.set()

    debug = info = warning = error = critical = write

    def flush(self, within_s: float = _FLUSH_S) -> bool:
        """Wait until all that came before was tried, for so long at most; return whether it was."""
        reached = threading.Event()
        self._waiting.append(reached)
        self._hurried.set()
        self._came.set()
        return reached.wait(within_s)

    def close(self) -> None:
        """End the thread; what comes from now on is written by whoever logs."""
        self.flush()
        self._is_closed = True
        self._came.set()
        self._thread.join(_FLUSH_S)

    def _work(self) -> None:
        while not self._is_closed:
            self._came.wait()
            self._came.clear()
            while self._waiting:
                self._hurried.wait(_PAUSE_S)
                self._write_some()
            self._hurried.clear()

    def _write_some(self) -> None:
        for _ in range(min(_AT_ONCE, len(self._waiting))):
            entry = self._waiting.popleft()
            if isinstance(entry, threading.Event):
                entry.set()
            else:
                self._write(entry)

    def _write(self, entry: Entry | str) -> None:
        try:
            line = entry if isinstance(entry, str) else self._render(entry)
        except (TypeError, ValueError) as error:
            line = as_json({"event": "a line could not be made text", "why": str(error)})
        refused = self._try(redacted(line))
        if refused:
            # The stream may have kept the first of them in its buffer: then that one comes late.
            told = {"event": "this log could not be written; lines are missing"}
            when = {} if isinstance(entry, str) else {"timestamp": entry.get("timestamp")}
            self._try(self._render({**told, "at_most": refused, "level": "warning", **when}))

    def _try(self, line: str) -> int:
        """Write a line if that can be done; return how many were refused since the last that was.

        What a stream refused it may keep: nothing is added to that, or all of it would come late.
        """
        try:
            self._stream.flush()
            self._stream.write(f"{line}\n")
            self._stream.flush()
        except (OSError, ValueError):
            self._refused += 1
            return 0
        refused, self._refused = self._refused, 0
        return refused


def configure_log() -> LogLines:
    """Have the log written to standard error; return what writes it there."""
    for_people = sys.stderr.isatty()
    lines = LogLines(sys.stderr, _as_text if for_people else as_json)
    atexit.register(lines.close)
    # A trace is made text at once: it is of a moment, and of values that go on.
    traces: list[Processor] = [
        # Without the values of variables: they hold what users keep secret.
        structlog.processors.format_exc_info
        if for_people
        else structlog.processors.ExceptionRenderer(
            structlog.tracebacks.ExceptionDictTransformer(show_locals=False)
        )
    ]
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            *traces,
            _as_it_is,
        ],
        wrapper_class=structlog.make_filtering_bound_logger("info"),
        logger_factory=lambda *_: lines,
        cache_logger_on_first_use=True,
    )
    return lines


def _as_it_is(_logger: object, _method: str, entry: Entry) -> tuple[tuple[Entry], dict[str, Any]]:
    """Hand a line on as values: whoever logs does not wait until it is text."""
    return (entry,), {}


def _as_text(entry: Entry) -> str:
    return str(_TO_TEXT(None, "", made_visible(None, "", entry)))


_TO_TEXT = structlog.dev.ConsoleRenderer(exception_formatter=structlog.dev.plain_traceback)
