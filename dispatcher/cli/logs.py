"""`longshore logs`: the bytes that a container wrote, as they are, followed if asked to."""

from __future__ import annotations

import queue
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, BinaryIO, Self

import click

from dispatcher.cli.client import Client, container_path
from dispatcher.cli.failure import UNREACHABLE, Failure
from dispatcher.cli.feed import shut_down
from dispatcher.cli.options import server_command
from dispatcher.cli.views import ContainerView, view
from dispatcher.cli.waiting import goes_on

if TYPE_CHECKING:
    from urllib3.response import BaseHTTPResponse

BOTH_STREAMS = ("stdout", "stderr")
SILENCE_LIMIT_S = 60.0
PATIENCE_S = 600.0
PAUSE_S = 1.0
JOIN_LIMIT_S = 3.0
CHUNKS_QUEUED = 64
LOOK_INTERVAL_S = 2.0


@click.command()
@click.argument("container_id", metavar="ID")
@click.option("-f", "--follow", is_flag=True, help="Go on until the container has ended.")
@click.option(
    "--stream",
    type=click.Choice(BOTH_STREAMS),
    help="Only this stream, to stdout. Without it: stdout to stdout, stderr to stderr.",
)
@server_command
def logs(*, client: Client, container_id: str, follow: bool, stream: str | None) -> int:
    """Write what container ID has written (its last attempt)."""
    try:
        streams = (stream,) if stream else BOTH_STREAMS
        copy_logs(client, container_id, streams, follow=follow)
    except KeyboardInterrupt:
        raise goes_on([container_id]) from None
    return 0


def copy_logs(
    client: Client,
    container_id: str,
    streams: Sequence[str],
    *,
    follow: bool,
    seen: Callable[[ContainerView], None] | None = None,
) -> None:
    """Copy streams to ours until they end; one alone goes to stdout.

    `seen` is called every few seconds with the container, until it runs. Raises `Failure`.
    """
    sinks: dict[str, BinaryIO] = dict.fromkeys(streams, sys.stdout.buffer)
    if len(streams) > 1:
        sinks["stderr"] = sys.stderr.buffer
    if not follow:
        for each in streams:
            for chunk in Tail(client, container_id, each).bytes_so_far():
                write(sinks[each], chunk)
        return
    with Tails([Tail(client, container_id, each) for each in streams]) as tails:
        asking = seen is not None
        for stream, chunk in tails.chunks(LOOK_INTERVAL_S):
            if chunk:
                write(sinks[stream], chunk)
            elif asking and seen is not None:
                now = view(client.get(container_path(container_id)), ContainerView)
                seen(now)
                asking = now.state in {"queued", "locked"}


def write(sink: BinaryIO, chunk: bytes) -> None:
    """Write bytes so that whoever reads sees them now."""
    sink.write(chunk)
    sink.flush()


class Tail:
    """One stream of one container from its first byte on; survives a lost server."""

    def __init__(self, client: Client, container_id: str, stream: str) -> None:
        self.stream = stream
        self._client = client
        self._id = container_id
        self._offset = 0
        self._attempts = 0
        self._stopped = threading.Event()
        self._lock = threading.Lock()
        self._response: BaseHTTPResponse | None = None

    def bytes_so_far(self) -> Iterator[bytes]:
        """Yield what there is now."""
        yield from self._read(follow=False)

    def bytes_to_the_end(self) -> Iterator[bytes]:
        """Yield everything until the container has ended and all was read, or `stop`.

        Raises `Failure` when there never was contact, or none for `PATIENCE_S`.
        """
        last_contact: float | None = None
        while not self._stopped.is_set():
            try:
                self._look()
                last_contact = time.monotonic()
                yield from self._read(follow=True)
            except Failure as failure:
                passing = failure.exit_code == UNREACHABLE or failure.status >= 500
                if last_contact is None or not passing:
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

    def _look(self) -> None:
        now = view(self._client.get(container_path(self._id)), ContainerView)
        attempts = len(now.attempts)
        if self._attempts and attempts > self._attempts:
            # Another attempt began, with a log of its own: rather some bytes twice than none.
            self._offset = 0
        self._attempts = attempts

    def _read(self, *, follow: bool) -> Iterator[bytes]:
        query = [("stream", self.stream), ("offset", str(self._offset))]
        if follow:
            query.append(("follow", "true"))
        path = container_path(self._id, "/logs")
        response = self._client.stream(path, query, read_timeout_s=SILENCE_LIMIT_S)
        try:
            with self._lock:
                self._response = response
            # `stop` has either seen the response just noted, or is seen here.
            if self._stopped.is_set():
                return
            for chunk in self._client.chunks(response):
                self._offset += len(chunk)
                yield chunk
                if self._stopped.is_set():
                    return
        finally:
            with self._lock:
                self._response = None
            response.close()


class Tails:
    """A context manager that reads several tails at once, each in its thread."""

    def __init__(self, tails: Sequence[Tail]) -> None:
        self._tails = tails
        self._queue: queue.Queue[tuple[str, bytes | Failure | None]] = queue.Queue(CHUNKS_QUEUED)
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

        Raises the first `Failure` of any stream.
        """
        left = len(self._threads)
        while left:
            try:
                stream, content = self._queue.get(timeout=silence_s)
            except queue.Empty:
                yield "", b""
                continue
            match content:
                case Failure():
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
        except Failure as failure:
            self._put((tail.stream, failure))

    def _put(self, item: tuple[str, bytes | Failure | None]) -> None:
        while not self._stopped.is_set():
            try:
                self._queue.put(item, timeout=0.5)
            except queue.Full:
                continue
            return
