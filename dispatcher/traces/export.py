"""Sends what has ended to the collector, on a thread of its own.

The engine's thread only puts news into a queue that has an end: what comes while it is full is
dropped and counted, so a collector that is slow, gone or says no costs the engine nothing. All else
is done here: spans are made, sent in batches and, while the collector does not take them, sent
again after a pause that doubles. A batch that was not taken for five minutes is dropped and
counted, so that one that is never taken does not keep the others.

Each span is sent once it has ended. After each batch that was taken it is written down how far that
is (`cursor`): a process that starts sends what the one before it has not. So each is sent at least
once; one is sent twice only if the process ended between the collector's answer and that note, and
then with the same ids.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final, Protocol, assert_never

import structlog

from longshore.dispatcher.domain.vitals import TraceVitals
from longshore.dispatcher.store.errors import StoreBusy, StoreClosed
from longshore.dispatcher.store.trace_reader import TraceReader
from longshore.dispatcher.traces.cursor import SentCursor
from longshore.dispatcher.traces.news import ContainerNews, InstanceNews, News
from longshore.dispatcher.traces.spans import MOST_STATES, InstanceFacts, SpanMaker, SpanRecord
from longshore.pool.backoff import doubled_s

MOST_QUEUED: Final = 50_000
"""How many containers and instances may wait to be sent."""

_AT_ONCE: Final = 200
_STATES_READ: Final = MOST_STATES + 100
_GATHER_S: Final = 1.0
"""For how long news gather before they are sent."""

_PAUSE_S: Final = 1.0
_LONGEST_PAUSE_S: Final = 30.0
_GIVEN_UP_AFTER_S: Final = 300.0

_log = structlog.get_logger(__name__)


class SpanSender(Protocol):
    """What brings spans to a collector."""

    def send(self, records: Sequence[SpanRecord]) -> str:
        """Send spans; return why they were not taken, "" if they were."""
        ...

    def close(self) -> None:
        """End what goes on."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class TracePace:
    """How long news gather, tries pause, and a batch is tried."""

    gather_s: float = _GATHER_S
    pause_s: float = _PAUSE_S
    longest_pause_s: float = _LONGEST_PAUSE_S
    given_up_after_s: float = _GIVEN_UP_AFTER_S
    most_queued: int = MOST_QUEUED


@dataclass(frozen=True, slots=True, kw_only=True)
class _Queued:
    news: News
    heard_at: float


class TraceExport:
    """Sends news until `close`; `tell` may be called on any thread."""

    def __init__(
        self,
        sender: SpanSender,
        *,
        maker: SpanMaker,
        reader: TraceReader,
        cursor: SentCursor,
        now: Callable[[], float],
        clock: Callable[[], float],
        pace: TracePace | None = None,
    ) -> None:
        """`now` gives seconds since the epoch, `clock` such that are never set back."""
        self._sender = sender
        self._maker = maker
        self._reader = reader
        self._cursor = cursor
        self._now = now
        self._clock = clock
        self._pace = pace or TracePace()
        self._queue: deque[_Queued] = deque()
        self._news_came = threading.Event()
        self._closing = threading.Event()
        self._sent = self._dropped = 0
        self._why = ""
        self._thread = threading.Thread(target=self._run, name="traces", daemon=True)

    def start(self, missed: Iterable[News] = ()) -> None:
        """Begin to send, first what an earlier process has `missed`."""
        self._cursor.write()
        for each in missed:
            self.tell(each)
        self._thread.start()

    def tell(self, news: News) -> None:
        """Have it sent, or drop it where too much waits; never waits itself."""
        if len(self._queue) >= self._pace.most_queued:
            self._dropped += 1
            return
        self._queue.append(_Queued(news=news, heard_at=self._now()))
        self._news_came.set()

    def vitals(self) -> TraceVitals:
        """Return how it does."""
        return TraceVitals(sent=self._sent, dropped=self._dropped, waiting=len(self._queue))

    def problem(self) -> str:
        """Return why traces do not arrive, and what to do about it; "" while they do."""
        if not self._why:
            return ""
        return (
            f"traces do not arrive at the collector ({self._why}); see that traces.endpoint has its"
            " address, that traces.headers_file has what it asks for, and that it runs"
        )

    def close(self, within_s: float) -> bool:
        """Send what waits, for so long at most; return whether all of it was sent.

        What was not is sent by the process that starts next.
        """
        self._closing.set()
        self._news_came.set()
        self._thread.join(within_s)
        self._sender.close()
        return not self._thread.is_alive() and not self._queue

    # ---- on the thread of its own ---------------------------------------------------------------

    def _run(self) -> None:
        try:
            self._work()
        except Exception:  # noqa: BLE001 - an error of ours must be seen, and stops nothing else
            self._why = "after an error of our own; see the log, and start the server again"
            _log.exception("traces are sent no more")

    def _work(self) -> None:
        while True:
            self._news_came.wait()
            self._closing.wait(self._pace.gather_s)
            self._news_came.clear()
            while self._queue:
                batch = [self._queue[n] for n in range(min(_AT_ONCE, len(self._queue)))]
                if not self._deliver(batch):
                    return
                for _ in batch:
                    self._queue.popleft()
            if self._closing.is_set():
                return

    def _deliver(self, batch: Sequence[_Queued]) -> bool:
        """Return whether a batch is done with: it was taken, or given up."""
        began, tries = self._clock(), 0
        while why := self._try(batch):
            if why != self._why:
                _log.warning("traces do not arrive", why=why)
            self._why = why
            if self._closing.is_set():
                return False
            if self._clock() - began > self._pace.given_up_after_s:
                self._dropped += len(batch)
                return True
            pause_s = doubled_s(self._pace.pause_s, tries, self._pace.longest_pause_s)
            self._closing.wait(pause_s)
            tries += 1
        if self._why:
            _log.info("traces arrive again")
        self._why = ""
        return True

    def _try(self, batch: Sequence[_Queued]) -> str:
        """Send a batch and note that; return why it was not taken, "" if it was."""
        made: list[SpanRecord] = []
        noted: list[tuple[float, float, str]] = []
        try:
            for each in batch:
                ended_at, found = self._made(each.news)
                made += found
                noted.append((ended_at, each.heard_at, each.news.key))
        except (StoreBusy, StoreClosed) as error:
            return f"the store cannot be read: {error}"
        why = self._sender.send(made) if made else ""
        if not why:
            self._sent += len(made)
            self._cursor.advance(noted)
        return why

    def _made(self, news: News) -> tuple[float, list[SpanRecord]]:
        """Return the spans of news, and a time at which it had ended."""
        match news:
            case ContainerNews():
                made = self._maker.of_container(news.container, after=news.after)
                return news.ended_at, list(made)
            case InstanceNews():
                found = self._reader.instance(news.instance_id, most=_STATES_READ)
                if found is None:
                    return 0.0, []
                story = InstanceFacts(bill=found[0], states=found[1])
                of = self._maker.of_gone if news.is_gone else self._maker.of_ready
                ended_ms = story.bill.gone_ms if news.is_gone else story.bill.ready_ms
                return (ended_ms or 0) / 1000, list(of(story))
            case unknown:
                assert_never(unknown)
