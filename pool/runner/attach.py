"""The session: one loop over requests, exits, growing logs and a heartbeat."""

from __future__ import annotations

import contextlib
import os
import selectors
import signal
import socket
import sys
import time
from typing import Any, Callable, Iterator

from longshore.pool.runner import collector, launch, machine, wire
from longshore.pool.runner.engines import ContainerEngine
from longshore.pool.runner.handshake import Greeting
from longshore.pool.runner.images import Image
from longshore.pool.runner.inotify import GrowthListener
from longshore.pool.runner.inside import InsideDoors
from longshore.pool.runner.interruption import InterruptionWatch
from longshore.pool.runner.launch import Launcher
from longshore.pool.runner.lease import Lease
from longshore.pool.runner.logs import LogPump
from longshore.pool.runner.output import Output
from longshore.pool.runner.spool import STREAMS, Spool, SpooledAttempt, keep_instance
from longshore.pool.runner.wire import ProtocolError, Refusal

READ_BYTES = 65_536
BURIAL_INTERVAL_S = 1.0  # how long an orphan's supervisor may be gone unnoticed; ours tell at once
KILL_INTERVAL_S = 0.02
MAX_COMPLAINTS = 100


class AttachSession:
    """What one `attach` knows, after the hellos; `taken_over` once a newer one wants to begin."""

    def __init__(
        self,
        *,
        spool: Spool,
        engine: ContainerEngine,
        launcher: Launcher,
        lease: Lease,
        output: Output,
        epoch: int,
    ) -> None:
        self._spool = spool
        self._engine = engine
        self._launcher = launcher
        self._lease = lease
        self._output = output
        self._epoch = epoch
        self._lines = wire.LineBuffer()
        self._writing = False
        self._pump = LogPump(spool, output.push)
        self._inside = InsideDoors(output.push)
        self._live: dict[str, SpooledAttempt] = {}
        self._kills: dict[str, tuple[str, float]] = {}
        self._images: dict[str, Image] = {}
        self._ended = False
        self._complaints: set[str] = set()
        self.taken_over = False
        #: The sockets inside of attempts that outlive us, by attempt, after `run`.
        self.doors: dict[str, socket.socket] = {}
        self._requests = {
            "start": self._start,
            "kill": self._kill,
            "list": self._list,
            "tail": self._tail,
            "release": self._release,
            "update-limits": self._update_limits,
            "lease": self._change_lease,
            "api_answer": self._inside.take_answer,
        }

    # ---- the loop ----

    def run(self, hello: Greeting, *, source: int, wakeup: int, live: list[SpooledAttempt]) -> None:
        """Serve until the other side ends, breaks the protocol or is taken over from.

        `source` is read for lines, after those that came with `hello`; `wakeup` tells of signals;
        `live` are the attempts whose exit was not in our hello.
        """
        os.set_blocking(source, False)
        # Opened for both directions, so that it never ends; opened before the spool is looked at,
        # so that an exit is seen by one or by the other.
        fifo = os.open(self._spool.fifo, os.O_RDWR | os.O_NONBLOCK)
        selector = selectors.PollSelector()
        growth = GrowthListener(self._spool.places.logs, selector, self._pump.grew)
        selector.register(source, selectors.EVENT_READ, self._read_lines)
        selector.register(wakeup, selectors.EVENT_READ, self._read_signals)
        selector.register(fifo, selectors.EVENT_READ, self._read_exits)
        watch = InterruptionWatch(
            hello.interruption_watch, dict(os.environ), selector, self._interrupt
        )
        try:
            self._lines = hello.lines
            self._live = {each.attempt_id: each for each in live}
            self._inside.begin(selector)
            self._look_after(list(self._live), self._reopen_door)
            for line in hello.rest:
                self._take(line)
            self._serve(selector, growth, watch, hello.heartbeat_interval_s)
            self._output.flush()
        finally:
            self.doors = self._inside.end()
            watch.close()
            selector.close()
            growth.close()
            os.close(fifo)

    def _serve(
        self,
        selector: selectors.PollSelector,
        growth: GrowthListener,
        watch: InterruptionWatch,
        interval_s: float,
    ) -> None:
        heartbeat_at = burial_at = 0.0
        while not self._ended:
            now = time.monotonic()
            if now >= heartbeat_at:
                self._heartbeat()
                heartbeat_at = now + interval_s
            if now >= burial_at:
                self._bury(list(self._live))
                burial_at = now + BURIAL_INTERVAL_S
            growth.tick(now)
            self._retry_kills()
            leaving_at = self._launcher.tick(now)
            inside_at = self._inside.tick(now)
            self._fill(selector)
            watched_at = watch.tick(now)
            due = [heartbeat_at]
            due += [] if watched_at is None else [watched_at]
            due += [] if leaving_at is None else [leaving_at]
            due += [] if inside_at is None else [inside_at]
            due += [] if self._inside.idle or self._output.paced else [now]
            due += [burial_at] if self._live else []
            due += [] if growth.due_at is None else [growth.due_at]
            due += [now + KILL_INTERVAL_S] if self._kills else []
            # After what has come was read: a dispatcher may be heard at the last moment.
            orphaned_in_s = self._lease.tick(live=keep_instance(self._live.values()))
            due += [] if orphaned_in_s is None else [now + orphaned_in_s]
            for key, _ in selector.select(max(0.0, min(due) - now)):
                key.data(key.fd, now)

    def _fill(self, selector: selectors.PollSelector) -> None:
        self._output.flush()
        while not self._pump.idle() and not self._output.paced:
            with contextlib.suppress(OSError):  # of one stream: it is looked at when it grows
                self._pump.pump()
        if not self._output.paced:
            # A piece in each turn, behind the logs: neither waits for the other.
            self._inside.pump()
        self._output.flush()
        if self._output.waiting == self._writing:
            return
        self._writing = self._output.waiting
        if self._writing:
            selector.register(self._output.descriptor, selectors.EVENT_WRITE, self._write)
        else:
            selector.unregister(self._output.descriptor)

    def _write(self, _descriptor: int, _now: float) -> None:
        self._output.flush()

    def _read_lines(self, source: int, _now: float) -> None:
        try:
            data = os.read(source, READ_BYTES)
        except BlockingIOError:
            return
        if not data:
            self._ended = True
            return
        for line in self._lines.feed(data):
            self._take(line)

    def _read_signals(self, wakeup: int, _now: float) -> None:
        numbers = os.read(wakeup, READ_BYTES)
        if signal.SIGTERM in numbers:
            self._ended = self.taken_over = True  # by a newer session
            return
        self._bury(self._launcher.reap())

    def _read_exits(self, fifo: int, _now: float) -> None:
        try:
            names = os.read(fifo, READ_BYTES).decode("utf-8", "replace").split("\n")
        except BlockingIOError:
            return
        self._look_after(names, self._check)

    # ---- what happens by itself ----

    def _check(self, attempt_id: str) -> None:
        """Push what is new of a live attempt's image, and its exit if it has one by now."""
        attempt = self._live.get(attempt_id)
        if attempt is None:
            return
        if attempt.engine != "process":
            self._tell_image(attempt)
        if self._spool.ended(attempt_id) is None:
            return
        self._inside.shut(attempt_id)
        self._launcher.end_rest(attempt)
        exit_ = self._spool.exit_of(attempt)
        del self._live[attempt_id]
        self._images.pop(attempt_id, None)
        self._kills.pop(attempt_id, None)
        self._pump.grew({f"{attempt_id}.{stream}" for stream in STREAMS})
        report = {"attempt_id": attempt_id, "container_id": attempt.container_id, "exit": exit_}
        self._output.push({"type": "exited", **report})

    def _tell_image(self, attempt: SpooledAttempt) -> None:
        image = self._spool.image(attempt.attempt_id)
        if image is not None and image != self._images.get(attempt.attempt_id):
            self._images[attempt.attempt_id] = image
            whose = {"attempt_id": attempt.attempt_id, "container_id": attempt.container_id}
            self._output.push({"type": "image", **whose, "image": image.fields()})

    def _bury(self, attempt_ids: list[str]) -> None:
        """Find the exits whose word did not reach us, and the attempts that nobody watches."""
        if self._live:
            collector.ensure(self._spool)
        mine = [each for each in attempt_ids if each in self._live]
        with self._tolerating("what holds pipes"):
            self._launcher.free_pipes([self._live[each] for each in mine])
        self._look_after(mine, self._bury_one)

    def _bury_one(self, attempt_id: str) -> None:
        self._launcher.bury(self._live[attempt_id])
        self._check(attempt_id)

    def _look_after(self, attempt_ids: list[str], look: Callable[[str], None]) -> None:
        """Look at attempts; what cannot be done for one is tried again in a second, with all."""
        for attempt_id in attempt_ids:
            with self._tolerating(f"attempt {attempt_id}"):
                look(attempt_id)

    @contextlib.contextmanager
    def _tolerating(self, what: str) -> Iterator[None]:
        """Say on standard error what fails here, each thing once; it does not end the session."""
        try:
            yield
        except OSError as error:
            problem = f"runner: {what}: {error}\n"
            if problem not in self._complaints and len(self._complaints) < MAX_COMPLAINTS:
                self._complaints.add(problem)
                sys.stderr.write(problem)

    def _interrupt(self, at: str) -> None:
        """Push when the cloud takes the instance back, and what there is of logs before that."""
        self._output.push({"type": "interruption", "at": at})
        self._pump.grew(None)

    def _heartbeat(self) -> None:
        if self._output.paced:
            return
        self._output.push(
            {
                "type": "heartbeat",
                "live": sorted(self._live),
                "load": machine.load(),
                "memory_free_bytes": machine.memory_free_bytes(),
                "disk_free_bytes": machine.disk_free_bytes(self._spool.places.logs),
                "broken": self._spool.broken() or self._engine.problem,
            }
        )

    def _retry_kills(self) -> None:
        self._look_after(list(self._kills), self._retry_kill)

    def _retry_kill(self, attempt_id: str) -> None:
        if self._launcher.signal(self._live[attempt_id], *self._kills[attempt_id]):
            del self._kills[attempt_id]

    # ---- requests ----

    def _take(self, line: bytes) -> None:
        message = wire.decode(line)
        if message.get("type") == "log_ack":
            self._acknowledge(message)
            return
        number = message.get("id")
        if isinstance(number, bool) or not isinstance(number, int):
            raise ProtocolError("a request has no id")
        try:
            answer = {"ok": True, **self._answer(message)}
        except Refusal as refusal:
            answer = {"ok": False, "code": refusal.code, "message": str(refusal)}
        except OSError as error:
            answer = {"ok": False, "code": "system", "message": str(error)}
        self._output.push({"type": "reply", "id": number, **answer})
        if answer["ok"] and message["type"] == "start":
            self._follow_from_start(message["attempt"]["attempt_id"])

    def _answer(self, message: dict[str, Any]) -> dict[str, Any]:
        epoch = wire.count_field(message, "epoch")
        if epoch < self._epoch:
            raise Refusal("epoch", f"epoch {epoch} is over, {self._epoch} leads")
        if epoch > self._epoch:
            self._spool.remember_epoch(epoch)
            self._epoch = epoch
        self._lease.contact()
        handle = self._requests.get(wire.text_field(message, "type"))
        if handle is None:
            raise Refusal("invalid", "there is no such request")
        return handle(message)

    def _acknowledge(self, message: dict[str, Any]) -> None:
        try:
            offset = wire.count_field(message, "offset")
            attempt_id = wire.text_field(message, "attempt_id")
            self._pump.acknowledge(attempt_id, wire.text_field(message, "stream"), offset)
        except Refusal as refusal:
            raise ProtocolError(f"a log_ack is malformed: {refusal}") from refusal
        self._lease.contact()

    def _start(self, message: dict[str, Any]) -> dict[str, Any]:
        attempt = self._launcher.start(wire.parse_order(message.get("attempt")))
        if attempt is None:
            return {"already": True}
        collector.ensure(self._spool)  # before anybody is told that it runs
        self._live[attempt.attempt_id] = attempt
        door = self._launcher.doors.pop(attempt.attempt_id, None)
        if door is not None:
            self._inside.open(attempt.attempt_id, door)
        return {"already": False}

    def _reopen_door(self, attempt_id: str) -> None:
        door = self._launcher.reopen_door(self._live[attempt_id])
        if door is not None:
            self._inside.open(attempt_id, door)

    def _follow_from_start(self, attempt_id: str) -> None:
        if not self._pump.follows(attempt_id):
            self._pump.follow(attempt_id, dict.fromkeys(STREAMS, 0))

    def _change_lease(self, message: dict[str, Any]) -> dict[str, Any]:
        self._lease.suspend(wire.flag_field(message, "suspended"))
        return {}

    def _kill(self, message: dict[str, Any]) -> dict[str, Any]:
        attempt_id = wire.name_field(message, "attempt_id")
        name = wire.text_field(message, "signal")
        if name not in launch.SIGNALS:
            raise Refusal("invalid", "signal must be TERM or KILL")
        grace_s = wire.seconds_field(message, "grace_s", missing=launch.LONGEST_GRACE_S)
        self._check(attempt_id)
        if attempt_id not in self._live:
            return {"signalled": False}
        # Its pid may not be known yet: then it is tried again shortly. KILL is never taken back.
        sent = self._launcher.signal(self._live[attempt_id], name, grace_s)
        if not sent and self._kills.get(attempt_id, ("", 0.0))[0] != "KILL":
            self._kills[attempt_id] = name, grace_s
        return {"signalled": True}

    def _update_limits(self, message: dict[str, Any]) -> dict[str, Any]:
        attempt_id = wire.name_field(message, "attempt_id")
        if "cpu_millis" not in message:
            raise Refusal("invalid", "cpu_millis is missing")
        cpu_millis = wire.cpus_field(message)
        attempt = self._live.get(attempt_id)
        limited = attempt is not None and self._launcher.limit_cpus(attempt, cpu_millis)
        return {"limited": limited}

    def _list(self, _: dict[str, Any]) -> dict[str, Any]:
        return {"attempts": [self._spool.report(each) for each in self._spool.attempts()]}

    def _tail(self, message: dict[str, Any]) -> dict[str, Any]:
        attempt_id = wire.name_field(message, "attempt_id")
        offsets = {stream: wire.count_field(message, stream) for stream in STREAMS}
        if self._spool.read(attempt_id) is None:
            raise Refusal("unknown", "there is no such attempt here")
        self._pump.follow(attempt_id, offsets)
        return {}

    def _release(self, message: dict[str, Any]) -> dict[str, Any]:
        attempt_id = wire.name_field(message, "attempt_id")
        attempt = self._spool.read(attempt_id)
        if attempt is None:
            return {}
        if self._spool.ended(attempt_id) is None:
            return {"kept": True}
        self._check(attempt_id)
        self._pump.drop(attempt_id)
        self._launcher.release(attempt)
        return {}
