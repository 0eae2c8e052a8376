"""`longshore logs`: the bytes that a container wrote, followed if asked to.

Elsewhere than on a terminal they are as they were written; there, see `terminal_text`.
"""

from __future__ import annotations

import queue
import sys
import threading
import time
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Self

import click

from longshore.dispatcher.api.schemas.containers import ContainerAnswer
from longshore.dispatcher.cli.answers import is_final, read
from longshore.dispatcher.cli.client import CommandClient
from longshore.dispatcher.cli.commands.waiting import goes_on
from longshore.dispatcher.cli.container_words import earlier_attempts
from longshore.dispatcher.cli.events import shut_down
from longshore.dispatcher.cli.failure import INTERRUPTED, CommandFailure
from longshore.dispatcher.cli.ids import container_path, is_job
from longshore.dispatcher.cli.options import WholeNumber, server_command
from longshore.dispatcher.cli.output import say
from longshore.dispatcher.cli.render.terminal_text import Sink
from longshore.dispatcher.cli.select import chosen_container
from longshore.dispatcher.client.log_cursor import LogCursor

if TYPE_CHECKING:
    from urllib3.response import BaseHTTPResponse

BOTH_STREAMS = ("stdout", "stderr")
SILENCE_LIMIT_S = 60.0
PATIENCE_S = 600.0
PAUSE_S = 1.0
JOIN_LIMIT_S = 3.0
CHUNKS_QUEUED = 64
LOOK_INTERVAL_S = 2.0
SILENCES_PER_LOOK = 5


@click.command()
@click.argument("identifier", metavar="ID")
@click.option("--task", metavar="NAME", help="Of a job: the task that the container belongs to.")
@click.option(
    "--index",
    "array_index",
    type=WholeNumber(0),
    metavar="N",
    help="Of a job: the container's array index.",
)
@click.option(
    "--instance",
    metavar="ID",
    help="Of a system or sysbatch job: the instance that the container is on.",
)
@click.option("-f", "--follow", is_flag=True, help="Follow the log until the container has ended.")
@click.option(
    "--stream",
    type=click.Choice(BOTH_STREAMS),
    help="Only this stream, to stdout. Without it: stdout to stdout, stderr to stderr.",
)
@click.option(
    "--raw",
    is_flag=True,
    help="Write every byte as it is to a terminal, too, which obeys escape sequences.",
)
@server_command
def logs(
    *,
    client: CommandClient,
    identifier: str,
    task: str | None,
    array_index: int | None,
    instance: str | None,
    follow: bool,
    stream: str | None,
    raw: bool,
) -> int:
    """Write what container ID has written (its last attempt).

    Of a job's it is that of its only container, or of the one that --task and --index choose, or
    --instance, the last one there. Once the container has ended, to the last byte: the exit is
    known before all bytes are here.
    """
    container_id = identifier
    if is_job(identifier):
        container_id = chosen_container(client, identifier, task, array_index, instance)
    elif task is not None or array_index is not None or instance is not None:
        raise click.UsageError(
            "--task, --index and --instance choose a container of a job: give a job's id."
        )
    streams = (stream,) if stream else BOTH_STREAMS
    seen = None
    try:
        seen = look(client, container_id)
        to_the_end = follow or on_its_way(seen)
        trouble = LogTrouble(client, container_id)
        trouble.note(seen)
        patience = None if follow else PatienceAsked()

        def quiet(began: bool) -> None:
            if patience is not None:
                patience(began)
            trouble.look()

        received = copy_logs(client, container_id, streams, follow=to_the_end, quiet=quiet, raw=raw)
        if follow:
            seen = look(client, container_id)
    except KeyboardInterrupt:
        if seen is None or not is_final(seen):
            raise goes_on([container_id]) from None
        raise CommandFailure(
            f"interrupted; the log of {container_id} goes on", exit_code=INTERRUPTED
        ) from None
    if missing := shortage(seen, received):
        raise CommandFailure(missing)
    if not any(received.values()) and (why := never_started(seen)):
        # Nothing of the container's is on stderr, which would be its own byte for byte.
        say(why)
    return 0


class PatienceAsked:
    """Says once to a person why nothing comes after a container has ended."""

    def __init__(self) -> None:
        self._said = False

    def __call__(self, began: bool) -> None:
        """Say it, unless it was said."""
        del began
        # Elsewhere than on a terminal, stderr is the container's, byte for byte.
        if not self._said and sys.stderr.isatty():
            say("the container has ended, and the rest of its log is on its way; waiting for it")
        self._said = True


class LogTrouble:
    """Says on stderr what keeps a log from coming, once each time that something begins to."""

    def __init__(self, client: CommandClient, container_id: str) -> None:
        self._client = client
        self._id = container_id
        self._silences = 0
        self._said = False

    def note(self, seen: ContainerAnswer) -> None:
        """Say what a look at the container has shown, unless it was said."""
        if seen.log_problem and not self._said:
            say(f"the log of {self._id} is not whole here: {seen.log_problem}")
        self._said = bool(seen.log_problem)

    def look(self) -> None:
        """Look again, at one silence of several: many may follow what is quiet for days."""
        self._silences += 1
        if self._silences % SILENCES_PER_LOOK != 1:
            return
        try:
            self.note(look(self._client, self._id))
        except CommandFailure as failure:
            # Whoever reads the log goes on as well, and says so when the server stays away.
            if not failure.passing:
                raise


def look(client: CommandClient, container_id: str) -> ContainerAnswer:
    """Return a container as it is now."""
    return read(client.get(container_path(container_id)), ContainerAnswer)


def on_its_way(seen: ContainerAnswer) -> bool:
    """Return whether a container has ended with bytes of its log not yet at the server."""
    return is_final(seen) and bool(seen.attempts) and not seen.attempts[-1].log_complete


def shortage(seen: ContainerAnswer, received: Mapping[str, int]) -> str:
    """Return what is missing of the log of an ended container, as a sentence; "" for nothing."""
    if not is_final(seen) or not seen.attempts:
        return ""
    last = seen.attempts[-1]
    written = {"stdout": last.stdout_bytes, "stderr": last.stderr_bytes}
    short = [
        f"{count} of {written[stream]} bytes of {stream}"
        for stream, count in received.items()
        if count < written[stream]
    ]
    if not short:
        return ""
    return (
        f"{' and '.join(short)} are here: the rest was cut off at the server's limit, "
        "or was lost with its instance"
    )


def never_started(seen: ContainerAnswer) -> str:
    """Return why there is no output of a container of which nothing ran, "" where some did."""
    if any(each.started_at is not None for each in seen.attempts):
        return ""
    if earlier_attempts(seen):
        return ""
    if is_final(seen):
        why = f": {seen.reason.message}" if seen.reason is not None else ""
        return f"{seen.id} has no output: it never started ({seen.state}{why})"
    why = f": {seen.waiting}" if seen.waiting else ""
    return f"{seen.id} has no output yet: it has not started ({seen.state}{why})"


def copy_logs(
    client: CommandClient,
    container_id: str,
    streams: Sequence[str],
    *,
    follow: bool,
    quiet: Callable[[bool], None] | None = None,
    raw: bool = False,
) -> dict[str, int]:
    """Copy streams to ours until they end, one alone to stdout; return the bytes of each.

    While nothing comes, `quiet` is called every few seconds with whether anything came before. A
    terminal obeys what it is sent only if it is `raw`. Raises `CommandFailure`.
    """
    sinks = _sinks(streams, raw=raw)
    try:
        return _copied(client, container_id, sinks, follow=follow, quiet=quiet)
    finally:
        for sink in sinks.values():
            sink.end()


def _sinks(streams: Sequence[str], *, raw: bool) -> dict[str, Sink]:
    both = len(streams) > 1
    ours = {each: sys.stderr if both and each == "stderr" else sys.stdout for each in streams}
    return {each: Sink(out.buffer, raw=raw or not out.isatty()) for each, out in ours.items()}


def _copied(
    client: CommandClient,
    container_id: str,
    sinks: Mapping[str, Sink],
    *,
    follow: bool,
    quiet: Callable[[bool], None] | None,
) -> dict[str, int]:
    sources = [Tail(client, container_id, each) for each in sinks]
    if not follow:
        for source in sources:
            for chunk in source.bytes_so_far():
                sinks[source.stream].write(chunk)
        return {source.stream: source.received for source in sources}
    began = False
    with Tails(sources) as tails:
        for stream, chunk in tails.chunks(LOOK_INTERVAL_S):
            if chunk:
                began = True
                sinks[stream].write(chunk)
            elif quiet is not None:
                quiet(began)
    return {source.stream: source.received for source in sources}


class Tail:
    """One stream of one container from its first byte on; survives a lost server."""

    def __init__(self, client: CommandClient, container_id: str, stream: str) -> None:
        self.stream = stream
        self._client = client
        self._id = container_id
        self._cursor = LogCursor(stream=stream)
        self._stopped = threading.Event()
        self._lock = threading.Lock()
        self._response: BaseHTTPResponse | None = None

    @property
    def received(self) -> int:
        """Return how many bytes of the last attempt have come."""
        return self._cursor.offset

    def bytes_so_far(self) -> Iterator[bytes]:
        """Yield what there is now."""
        yield from self._read(follow=False)

    def bytes_to_the_end(self) -> Iterator[bytes]:
        """Yield everything until the container has ended and all was read, or `stop`.

        Raises `CommandFailure` when there never was contact, or none for `PATIENCE_S`.
        """
        last_contact: float | None = None
        while not self._stopped.is_set():
            try:
                self._cursor = self._cursor.seen(look(self._client, self._id))
                last_contact = time.monotonic()
                if not (yield from self._read(follow=True)):
                    continue
            except CommandFailure as failure:
                if last_contact is None or not failure.passing:
                    raise
                if time.monotonic() - last_contact > PATIENCE_S:
                    raise
                self._stopped.wait(PAUSE_S)
            else:
                # The server ends a stream properly only when nothing can follow.
                return

    def stop(self) -> None:
        """Make a reader in another thread return soon."""
        self._stopped.set()
        with self._lock:
            if self._response is not None:
                shut_down(self._response)

    def _read(self, *, follow: bool) -> Generator[bytes, None, bool]:
        """Yield bytes from where we are; return False at once if that is no place in it."""
        query = [("stream", self.stream), ("offset", str(self._cursor.offset))]
        if follow:
            query.append(("follow", "true"))
        path = container_path(self._id, "/logs")
        response = self._client.stream(path, query, read_timeout_s=SILENCE_LIMIT_S)
        try:
            with self._lock:
                self._response = response
            # `stop` has either seen the response just noted, or is seen here.
            if self._stopped.is_set():
                return True
            if self._cursor.offset and not self._cursor.is_of(look(self._client, self._id)):
                return False
            for chunk in self._client.chunks(response):
                self._cursor = self._cursor.received(len(chunk))
                yield chunk
                if self._stopped.is_set():
                    break
            return True
        finally:
            with self._lock:
                self._response = None
            response.close()


class Tails:
    """A context manager that reads several tails at once, each in its thread."""

    def __init__(self, tails: Sequence[Tail]) -> None:
        self._tails = tails
        self._queue: queue.Queue[tuple[str, bytes | CommandFailure | None]] = queue.Queue(
            CHUNKS_QUEUED
        )
        self._stopped = threading.Event()
        self._threads = [
            threading.Thread(target=self._run, args=(tail,), name=tail.stream, daemon=True)
            for tail in tails
        ]

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopped.set()
        for tail in self._tails:
            tail.stop()
        for thread in self._threads:
            # Bounded, as a frozen server may hold a request; the thread ends with the process.
            thread.join(JOIN_LIMIT_S)

    def chunks(self, silence_s: float) -> Iterator[tuple[str, bytes]]:
        """Yield (stream, bytes) as they come, and no bytes after each `silence_s` of silence.

        Raises the first `CommandFailure` of any stream.
        """
        left = len(self._threads)
        while left:
            try:
                stream, content = self._queue.get(timeout=silence_s)
            except queue.Empty:
                yield "", b""
                continue
            match content:
                case CommandFailure():
                    raise content
                case None:
                    left -= 1
                case _:
                    yield stream, content

    def _run(self, tail: Tail) -> None:
        try:
            for chunk in tail.bytes_to_the_end():
                self._put((tail.stream, chunk))
            self._put((tail.stream, None))
        except CommandFailure as failure:
            self._put((tail.stream, failure))

    def _put(self, item: tuple[str, bytes | CommandFailure | None]) -> None:
        while not self._stopped.is_set():
            try:
                self._queue.put(item, timeout=0.5)
            except queue.Full:
                continue
            return
