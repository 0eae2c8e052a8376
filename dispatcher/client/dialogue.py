"""What a client says to its server, and in which order: decided once, for both rims.

Theory of operation. What is to be done is a generator (`Steps`). It yields one step at a time, is
sent what came of it, and returns the answer, or raises a `ClientError`. `Telling` yields `Tell`
among the steps as well: what the user is to be handed meanwhile. Who carries steps out is a rim
(`blocking_transport`, `async_transport`): it sends, reads, waits, and decides nothing. It holds at
most one stream: `Open` begins it and `Close` ends it, as the rim does itself when the generator is
done, has failed, or is not gone on with.

- A call is sent until `next_step` ends it: `run`, and `opened` where its answer goes on.
- A listing is asked for page by page until the server names no next one, or sends an empty page.
- A log and events are taken up where they broke (`LogCursor`, `EventCursor`), with the patience of
  `Reconnection`; and so does who waits for an end go on to look.

It does no I/O. Its clock, its dice and the keys of creates are `Outside`'s, given in by the rim.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import Any, Generic, TypeVar, assert_never

from longshore.dispatcher.api.schemas.containers import EventAnswer
from longshore.dispatcher.client import calls, event_stream, log_cursor
from longshore.dispatcher.client.calls import Answer, ListOf, Page, PagedListing, TypedCall
from longshore.dispatcher.client.errors import ClientError, decoded, stranger
from longshore.dispatcher.client.event_stream import EventCursor, EventGap, FrameParser
from longshore.dispatcher.client.exchange import (
    Answered,
    AnswerLost,
    ApiCall,
    GaveUp,
    Received,
    RepeatPolicy,
    SendAgain,
    TryOutcome,
    WrongScheme,
    lost,
    may_be_tls,
    next_step,
)
from longshore.dispatcher.client.log_cursor import LogCursor
from longshore.dispatcher.client.waiting import Reconnection, Run, has_ended, look_after_s

READ_TIMEOUT_S = 60.0
"""An answer that is silent for longer does not come any more."""

Result = TypeVar("Result")
Item = TypeVar("Item")
Said = TypeVar("Said")


FILE_SILENCE_LIMIT_S = 600.0
"""A file is silent while what comes next of it is made."""


# ---- what a rim is asked to do -------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Send:
    """Send a call once and read its answer; what came of it is a `TryOutcome`."""

    call: ApiCall


@dataclass(frozen=True, slots=True, kw_only=True)
class Open:
    """Send a call once and keep its answer open if its status is 200: then `Opened` came of it.

    Otherwise it is as with `Send`. It counts as broken when nothing comes for `silence_s`.
    """

    call: ApiCall
    silence_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Opened:
    """What came of `Open`: the answer can be read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Read:
    """Read on in the answer that is open: bytes as they come, none at its end, or `AnswerLost`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Close:
    """Close the answer that is open, if one is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pause:
    """Wait."""

    after_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class AskForTls:
    """Ask the server's port whether it speaks TLS: that is a bool."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tell(Generic[Result]):
    """Hand this to the user."""

    item: Result


Step = Send | Open | Read | Close | Pause | AskForTls
# What is sent back is as the step says; Python's types cannot say that of a generator.
Steps = Generator[Step, Any, Result]
Telling = Generator[Step | Tell[Item], Any, None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Done(Generic[Result]):
    """Nothing is left to be done: this is the answer."""

    result: Result


def advanced(steps: Generator[Said, Any, Result], came: object) -> Said | Done[Result]:
    """Return what is to be done next; `came` is what came of the last step, None at the start.

    Raises `ClientError`.
    """
    try:
        return steps.send(came)
    except StopIteration as end:
        return Done(result=end.value)


@dataclass(frozen=True, slots=True, kw_only=True)
class Outside:
    """What is not decided here but found: handed in by a rim."""

    #: The time of a steady clock.
    now_s: Callable[[], float]
    #: A number from 0 to 1, which spreads pauses.
    dice: Callable[[], float]
    #: A new idempotency key.
    new_key: Callable[[], str]


# ---- what is said --------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Dialogue:
    """What can be said to one server, which errors call `url`."""

    url: str
    policy: RepeatPolicy
    outside: Outside

    def key(self, given: str | None) -> str:
        """Return the idempotency key of a create: the one that is given, None for a new one."""
        return self.outside.new_key() if given is None else given

    def run(self, typed: TypedCall[Answer]) -> Steps[Answer]:
        """Carry out a call; return its answer."""
        return typed.read(decoded(self.url, (yield from self.body(typed.call))))

    def body(self, call: ApiCall) -> Steps[bytes]:
        """Carry out a call; return the body of its answer."""
        repeated = 0
        while True:
            outcome: TryOutcome = yield Send(call=call)
            if (received := (yield from self._after(call, outcome, repeated))) is not None:
                return received.body
            repeated += 1

    def opened(self, call: ApiCall, silence_s: float) -> Steps[None]:
        """Open an answer that goes on, to be read; it is broken when silent for `silence_s`."""
        repeated = 0
        while True:
            outcome: Opened | TryOutcome = yield Open(call=call, silence_s=silence_s)
            if isinstance(outcome, Opened):
                return
            if (yield from self._after(call, outcome, repeated)) is not None:
                raise stranger(self.url)
            repeated += 1

    def chunk(self) -> Steps[bytes]:
        """Return what comes next of the open answer, no bytes at its end.

        Raises `LostAnswerError` when it breaks.
        """
        came: bytes | AnswerLost = yield Read()
        if isinstance(came, AnswerLost):
            raise lost(self.url, late=came.late)
        return came

    def items(self, wanted: PagedListing[ListOf[Item]]) -> Telling[Item]:
        """Tell the items of a listing."""
        page = yield from self._page_after(wanted, None)
        while page is not None:
            for each in page.items:
                yield Tell(item=each)
            page = yield from self._page_after(wanted, page)

    def whole(self, wanted: PagedListing[Page]) -> Steps[Page]:
        """Return all pages of a listing as one."""
        pages: list[Page] = []
        page = yield from self._page_after(wanted, None)
        while page is not None:
            pages.append(page)
            page = yield from self._page_after(wanted, page)
        return calls.joined(pages)

    def log(self, container_id: str, cursor: LogCursor, *, follow: bool) -> Telling[bytes]:
        """Tell what a container wrote from where a reader is, with `follow` to its end."""
        look = calls.container(container_id)
        going_on = Reconnection()
        while True:
            try:
                cursor = cursor.seen((yield from self.run(look)))
                going_on.reached(self.outside.now_s())
                asked = calls.logs(container_id, cursor, follow=follow)
                yield from self.opened(asked, log_cursor.SILENCE_LIMIT_S)
                if cursor.offset and not cursor.is_of((yield from self.run(look))):
                    yield Close()
                    continue
                while chunk := (yield from self.chunk()):
                    cursor = cursor.received(len(chunk))
                    yield Tell(item=chunk)
            except ClientError as error:
                yield from self._patience(going_on, error)
            else:
                # The server ends a stream properly only when nothing can follow.
                return

    def file(self, call: ApiCall) -> Telling[bytes]:
        """Tell the bytes of a file; raises `LostAnswerError` where it is cut off."""
        yield from self.opened(call, FILE_SILENCE_LIMIT_S)
        while chunk := (yield from self.chunk()):
            yield Tell(item=chunk)

    def events(self, last_event_id: str) -> Telling[EventAnswer | EventGap]:
        """Tell what happens behind an event, "" for from now on; it has no end."""
        cursor = EventCursor(last_id=last_event_id)
        going_on = Reconnection()
        while True:
            try:
                asked = calls.events(cursor.last_id)
                yield from self.opened(asked, event_stream.SILENCE_LIMIT_S)
                going_on.reached(self.outside.now_s())
                if gap := cursor.connected():
                    yield Tell(item=gap)
                frames = FrameParser()
                while chunk := (yield from self.chunk()):
                    for frame in frames.feed(chunk):
                        if (told := cursor.take(frame)) is not None:
                            yield Tell(item=told)
                # A server that stops ends its streams; it may be there again soon.
                raise lost(self.url, late=False)
            except ClientError as error:
                yield from self._patience(going_on, error)

    def looks(self, look: TypedCall[Run], known: Run, timeout_s: float | None) -> Telling[Run]:
        """Tell each look at what is `known`, until one shows that it has ended.

        Raises `TimeoutError` after `timeout_s`, None for no limit.
        """
        now_s = self.outside.now_s
        began_s = now_s()
        going_on = Reconnection()
        going_on.reached(began_s)
        looks = 0
        while not has_ended(known):
            looks += 1
            pause_s = look_after_s(looks)
            if timeout_s is not None:
                left_s = began_s + timeout_s - now_s()
                if left_s <= 0:
                    raise TimeoutError(f"{known.id} has not ended within {timeout_s:g} s")
                pause_s = min(pause_s, left_s)
            yield Pause(after_s=pause_s)
            try:
                known = yield from self.run(look)
            except ClientError as error:
                yield from self._patience(going_on, error)
            else:
                going_on.reached(now_s())
                yield Tell(item=known)

    def _page_after(self, wanted: PagedListing[Page], page: Page | None) -> Steps[Page | None]:
        """Return what comes behind a page, None for nothing; behind None, the first one."""
        if page is None:
            return (yield from self.run(wanted.page(None)))
        if page.next_cursor is None or not page.items:
            return None
        return (yield from self.run(wanted.page(page.next_cursor)))

    def _patience(self, going_on: Reconnection, error: ClientError) -> Steps[None]:
        """Wait before going on without what failed; raises `error` when it is no use."""
        yield Close()
        yield Pause(after_s=going_on.pause_s(error, self.outside.now_s(), self.outside.dice()))

    def _after(self, call: ApiCall, outcome: TryOutcome, repeated: int) -> Steps[Received | None]:
        """Return the answer, or None after the pause before a repeat; raises what is final."""
        if may_be_tls(self.url, outcome, repeated) and (yield AskForTls()):
            outcome = WrongScheme(spoken="https")
        step = next_step(
            call,
            outcome,
            url=self.url,
            repeated=repeated,
            policy=self.policy,
            dice=self.outside.dice(),
        )
        match step:
            case Answered(received=received):
                return received
            case GaveUp(error=error):
                raise error
            case SendAgain(after_s=after_s):
                yield Pause(after_s=after_s)
                return None
            case _:
                assert_never(step)
