"""The commands of the runner: `attach` serves a session, `list` prints what it would say.

`trial` prints whether the engine works.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import os
import signal
import sys
from typing import Any, Iterator

from longshore.pool.runner import (
    collector,
    engines,
    handshake,
    launch,
    machine,
    trial,
    watching,
    wire,
)
from longshore.pool.runner.attach import AttachSession
from longshore.pool.runner.engines import ContainerEngine, EngineConfigError
from longshore.pool.runner.launch import Launcher
from longshore.pool.runner.lease import Lease, PowerOff
from longshore.pool.runner.output import Output
from longshore.pool.runner.spool import Spool, SpoolError, places
from longshore.pool.runner.wire import ProtocolError, Refusal


def main(program: str, arguments: list[str]) -> int:
    """Run one command of the runner in the file `program` and return its exit status.

    2 means that it was called wrongly or cannot work here, 1 that a session ended in disorder; the
    message is on standard error.
    """
    parser = argparse.ArgumentParser(prog="runner")
    parser.add_argument("command", choices=("attach", "list", "trial"))
    parser.add_argument("--cluster", required=True)
    parser.add_argument("--engine-json", default="{}")
    parser.add_argument("--timeout-s", type=int, default=trial.TIMEOUT_S)
    given = parser.parse_args(arguments)
    try:
        config = engines.parse_config(given.engine_json)
        os.umask(0o022)
        spool = Spool(places(given.cluster, dict(os.environ)))
        engine = engines.choose(config, spool)
        if given.command == "list":
            return _list(given.cluster, spool, engine)
        if given.command == "trial":
            return _try(given.cluster, trial.problem(config, engine, spool, given.timeout_s))
        return _attach(given.cluster, spool, engine, _sha256(program))
    except (EngineConfigError, SpoolError) as error:
        sys.stderr.write(f"runner: {error}\n")
        return 2
    except (ProtocolError, OSError) as error:
        sys.stderr.write(f"runner: {error}\n")
        return 1


def _describe(cluster: str, spool: Spool, engine: ContainerEngine) -> dict[str, Any]:
    size = machine.size(dict(os.environ))
    return {
        **({} if size is None else {"machine": {"cpus": size[0], "memory_bytes": size[1]}}),
        "protocol": wire.PROTOCOL,
        "cluster": cluster,
        "boot_id": spool.boot_id,
        "engine": engine.name,
        "attempts": [spool.report(attempt) for attempt in spool.attempts()],
        "broken": spool.broken() or engine.problem,
        "advice": engine.advice,
    }


def _list(cluster: str, spool: Spool, engine: ContainerEngine) -> int:
    launch.reserve_low_descriptors()
    launcher = Launcher(spool, engine, dict(os.environ))
    _tidy(spool, launcher, sweep=False)
    sys.stdout.buffer.write(wire.encode(_describe(cluster, spool, engine)))
    sys.stdout.flush()
    _leave_watcher(spool, launcher)
    return 0


def _try(cluster: str, problem: str) -> int:
    answer = {"protocol": wire.PROTOCOL, "cluster": cluster, "problem": problem}
    sys.stdout.buffer.write(wire.encode(answer))
    return 0


def _tidy(spool: Spool, launcher: Launcher, *, sweep: bool) -> None:
    """Bury what nobody watches, and have collected what has ended.

    What cannot be done now, as on a full disk, is done later.
    """
    if sweep:
        with _tolerating():
            launcher.sweep()
    attempts = spool.attempts()
    with _tolerating():
        launcher.free_pipes(attempts)
    for attempt in attempts:
        with _tolerating():
            launcher.bury(attempt)
    with _tolerating():
        collector.settle(spool)


@contextlib.contextmanager
def _tolerating() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        sys.stderr.write(f"runner: {error}\n")


def _lease(spool: Spool) -> Lease:
    return Lease(spool.places, PowerOff(spool.places, dict(os.environ)))


def _leave_watcher(spool: Spool, launcher: Launcher) -> None:
    """Leave somebody who keeps the lease and the spool, if whoever should has been killed."""
    lease = _lease(spool)
    lock = handshake.idle_lock(spool) if lease.in_force or spool.needs_keeper else None
    if lock is not None:
        os.chdir("/")
        watching.detach(spool, launcher, lease, lock=lock, wakeup=_hear_signals(), doors={})
        os.close(lock)


def _attach(cluster: str, spool: Spool, engine: ContainerEngine, runner_sha256: str) -> int:
    launch.reserve_low_descriptors()
    os.chdir("/")
    try:
        hello = handshake.read_hello(0, cluster=cluster, runner_sha256=runner_sha256)
        lock = handshake.take_over(spool, hello.epoch)
    except Refusal as refusal:
        message = {"type": "refused", "code": refusal.code, "message": str(refusal)}
        sys.stdout.buffer.write(wire.encode(message))
        sys.stdout.flush()
        return 1
    wakeup = _hear_signals()
    launcher = Launcher(spool, engine, dict(os.environ))
    lease = _lease(spool)
    output = Output(1)
    session = AttachSession(
        spool=spool,
        engine=engine,
        launcher=launcher,
        lease=lease,
        output=output,
        epoch=hello.epoch,
    )
    try:
        lease.agree(hello.lease)
        _tidy(spool, launcher, sweep=True)
        spool.stores.hear(hello.store, [each.attempt_id for each in spool.attempts()])
        own = {"type": "hello", "epoch": hello.epoch, "runner_sha256": runner_sha256}
        description = _describe(cluster, spool, engine)
        output.push({**own, **description})
        reports = description["attempts"]
        ended = {each["attempt_id"] for each in reports if each["exit"] is not None}
        live = [each for each in spool.attempts() if each.attempt_id not in ended]
        session.run(hello, source=0, wakeup=wakeup, live=live)
    finally:
        if session.taken_over:
            lease.leave()
        else:
            watching.detach(spool, launcher, lease, lock=lock, wakeup=wakeup, doors=session.doors)
        os.close(lock)
    return 0


def _hear_signals() -> int:
    """Return a descriptor on which the numbers of SIGTERM and SIGCHLD arrive."""
    reading, writing = os.pipe()
    os.set_blocking(reading, False)
    os.set_blocking(writing, False)
    signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
    for number in (signal.SIGTERM, signal.SIGCHLD):
        signal.signal(number, _note)
    return reading


def _note(_number: int, _frame: object) -> None:
    """Do nothing here: the number arrives on the wake-up descriptor."""


def _sha256(program: str) -> str:
    try:
        with open(program, "rb") as file:
            return hashlib.sha256(file.read()).hexdigest()
    except OSError as error:
        raise SpoolError(f"cannot read the runner itself: {error}") from error
