"""Starting, signalling, burying and releasing attempts: every process that the runner spawns."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import signal
import socket
import time
from typing import Iterable

from longshore.pool.runner import (
    cgroups,
    containment,
    holders,
    inside,
    machine,
    scripts,
    secret_files,
)
from longshore.pool.runner.engines import ContainerEngine
from longshore.pool.runner.invocation import (
    DOOR_SUFFIX,
    Invocation,
    Recipe,
    check_sizes,
    container_name,
)
from longshore.pool.runner.podman_secrets import secret_name, secrets_of
from longshore.pool.runner.spawning import spawn, spawn_gathering, spawn_into
from longshore.pool.runner.spool import (
    STREAMS,
    Spool,
    SpooledAttempt,
    SpoolError,
    attempt_of,
    remove_flat,
    write_whole,
)
from longshore.pool.runner.wire import Refusal, StartOrder

FIRST_RETRY_S = 2.0  # of removing a container; it doubles
LONGEST_RETRY_S = 300.0
LONGEST_GRACE_S = 86_400.0  # nobody can ask for more; whoever does not say will send KILL
SIGNALS = {"TERM": signal.SIGTERM, "KILL": signal.SIGKILL}
SHORTAGES = frozenset(
    {
        errno.EAGAIN,
        errno.ENOMEM,
        errno.ENOSPC,
        errno.EDQUOT,
        errno.EMFILE,
        errno.ENFILE,
    }
)


class Launcher:
    """Spawns supervisors and helpers for one engine; it never waits for any of them."""

    def __init__(self, spool: Spool, engine: ContainerEngine, environ: dict[str, str]) -> None:
        self._spool = spool
        self._engine = engine
        self._environ = environ
        self._children: dict[int, str] = {}
        self._recipe = Recipe(spool, engine, environ)
        self._groups = ""
        if engine.hierarchy:
            self._groups = os.path.join(engine.hierarchy, spool.places.name)
        self._can_be_born_in_group = True
        self._busy_groups: list[str] = []
        #: The sockets of attempts that were started, until somebody takes them.
        self.doors: dict[str, socket.socket] = {}
        # When to try again to remove the containers of released attempts, and what to wait then.
        self._leaving = dict.fromkeys(os.listdir(spool.leaving_dir), (0.0, FIRST_RETRY_S))

    # ---- start ----

    def start(self, order: StartOrder) -> SpooledAttempt | None:
        """Start an attempt and return it; None when that id was started before.

        Refusal means that it was not started and left nothing behind.
        """
        if self._spool.read(order.attempt_id) is not None:
            return None
        if self._engine.problem:
            raise Refusal("engine", self._engine.problem)
        imageless = self._engine.imageless and not order.image
        name = "process" if imageless else self._engine.name
        contained = name != "process"
        parent = self._spool.places.name if contained else self._groups
        group = parent and f"{parent}/{order.attempt_id}"
        recipe = self._recipe
        invocation = recipe.contained(order, group) if contained else recipe.bare(order)
        check_sizes(invocation)
        boot, resident = self._spool.boot_id, order.resident
        words = (*(order.entrypoint or ()), *order.command)[:1] if contained else ()
        attempt = attempt_of(
            order.attempt_id,
            order.container_id,
            name,
            boot,
            group,
            resident=resident,
            program=b"".join(words).decode("utf-8", "replace"),
            overrides=contained and order.entrypoint is not None,
        )
        try:
            lock = self._spool.claim(attempt)
        except OSError as error:
            code = _code(error, "spool")
            raise Refusal(code, f"the attempt cannot be written down: {error}") from error
        if lock is None:
            return None
        try:
            self._spawn_claimed(order, attempt, lock, invocation)
        except OSError as error:
            secret_files.remove(self._spool, attempt.attempt_id)
            self._remove_traces(attempt)
            if contained:
                cgroups.remove(group)
            elif group:
                containment.remove(group)
            code = _code(error, "spawn")
            raise Refusal(code, f"the attempt cannot be started: {error}") from error
        finally:
            os.close(lock)
        self._spool.tell(self._spool.words, attempt.attempt_id)
        return attempt

    def _spawn_claimed(
        self, order: StartOrder, attempt: SpooledAttempt, lock: int, invocation: Invocation
    ) -> None:
        """Make what the attempt needs and spawn its supervisor; OSError when it cannot be."""
        spool, name, group = self._spool, order.attempt_id, attempt.cgroup
        bare = attempt.engine == "process"
        given = {5: -1, 6: -1, 7: -1, 8: -1}
        try:
            given[5] = _open_pipe(spool.collected(name))
            for target, stream in zip((6, 7), STREAMS):
                given[target] = _open_pipe(spool.pipe(name, stream))
                if bare and self._engine.uid >= 0:
                    # So that its user can open it again, as `/dev/stderr`.
                    os.chown(given[target], self._engine.uid, self._engine.gid)
            if not bare:
                cgroups.create(group, memory_bytes=order.memory_bytes, cpu_millis=order.cpu_millis)
                given[8] = cgroups.open_oom_event(group) if order.memory_bytes else -1
            else:
                work = self._recipe.work(order)
                os.mkdir(work, 0o700)
                if self._engine.uid >= 0:
                    os.chown(work, self._engine.uid, self._engine.gid)
            where = self._recipe.secret_places(order, bare=bare)
            secret_files.write(spool, where, order.secrets, self._recipe.readers(bare=bare))
            given[9] = lock
            self._make_what_it_reads(order, attempt, invocation)
            if bare:
                self._spawn_bare(name, group, invocation, given)
            else:
                self._spawn(name, invocation.argv, invocation.env, given)
        finally:
            for target in (5, 6, 7, 8):
                if given[target] >= 0:
                    os.close(given[target])

    def _make_what_it_reads(
        self, order: StartOrder, attempt: SpooledAttempt, invocation: Invocation
    ) -> None:
        """Make the files of an attempt's variables and secrets, and the socket that it asks at."""
        spool, name = self._spool, order.attempt_id
        if order.api:
            self.doors[name] = self._make_door(attempt)
        if invocation.variables:
            write_whole(spool.path(name, "env"), invocation.variables)
        for index, (_, value) in enumerate(invocation.secrets):
            write_whole(spool.path(name, secret_name(spool, name, index)), value)

    def _make_door(self, attempt: SpooledAttempt) -> socket.socket:
        """Make the directory of an attempt's socket, which it may not write in, and the socket."""
        directory = self._door_of(attempt)
        if os.path.dirname(directory) == self._spool.places.apart:
            try:
                self._spool.make_apart()
            except SpoolError as error:
                raise OSError(str(error)) from error
        os.mkdir(directory)
        os.chmod(directory, 0o711)  # noqa: S103 - to pass through is neither to list nor to read
        return self._bind_door(attempt)

    def reopen_door(self, attempt: SpooledAttempt) -> socket.socket | None:
        """Return a new socket in the place of one of a session before; None where none was.

        OSError when it cannot be made now.
        """
        return self._bind_door(attempt) if os.path.isdir(self._door_of(attempt)) else None

    def _bind_door(self, attempt: SpooledAttempt) -> socket.socket:
        if attempt.engine == "process":
            uid, gid = self._engine.uid, self._engine.gid
            return inside.bind(self._door_of(attempt), uid=uid, gid=gid, mode=0o600)
        # Whoever a container's program is: nobody else reaches it.
        return inside.bind(self._door_of(attempt), uid=-1, gid=-1, mode=0o666)

    def _door_of(self, attempt: SpooledAttempt) -> str:
        return self._recipe.door(attempt.attempt_id, contained=attempt.engine != "process")

    def _spawn(
        self, attempt_id: str, argv: list[bytes], env: dict[bytes, bytes], given: dict[int, int]
    ) -> None:
        """Spawn `sh` with our descriptors `given` under other numbers."""
        self._children[spawn(argv, self._told(attempt_id, env), given)] = attempt_id

    def _spawn_bare(
        self, attempt_id: str, group: str, invocation: Invocation, given: dict[int, int]
    ) -> None:
        """Spawn a supervisor that ends all of its job: what is in a group, or else below it.

        It is born in the group if it can be, else its job joins.
        """
        env = self._told(attempt_id, invocation.env)
        if not group:
            self._children[spawn_gathering(invocation.argv, env, given)] = attempt_id
            return
        containment.create(group)
        env[b"_ls_group"] = os.fsencode(group)
        if self._can_be_born_in_group and containment.is_version_2(group):
            try:
                self._children[spawn_into(group, invocation.argv, env, given)] = attempt_id
            except OSError:
                self._can_be_born_in_group = False  # an older kernel, or a sandbox
            else:
                return
        env[b"_ls_join"] = os.fsencode(f"{group}/cgroup.procs")
        self._children[spawn(invocation.argv, env, given)] = attempt_id

    def _told(self, attempt_id: str, env: dict[bytes, bytes]) -> dict[bytes, bytes]:
        """Return the environment of a script that records what becomes of an attempt."""
        told = {
            **env,
            b"_ls_id": attempt_id.encode(),
            b"_ls_spool": self._spool.path(attempt_id).rstrip("/").encode(),
            b"_ls_fifo": self._spool.words.encode(),
            b"_ls_mark": self._spool.places.name.encode(),
        }
        told.setdefault(b"PATH", machine.SYSTEM_PATH.encode())
        return told

    # ---- limits ----

    def limit_cpus(self, attempt: SpooledAttempt, cpu_millis: int) -> bool:
        """Change what a live attempt may use of cpus; OSError when it cannot be changed.

        False for one without a container, which has no limits from its start on: its group, if
        any, may lie where no limit can be set.
        """
        if attempt.engine == "process":
            return False
        cgroups.limit_cpus(attempt.cgroup, cpu_millis)
        return True

    # ---- signals ----

    def signal(self, attempt: SpooledAttempt, name: str, grace_s: float = LONGEST_GRACE_S) -> bool:
        """Send TERM or KILL to all of a live attempt; False when it is to be tried again.

        Its pid may not be recorded yet, or a helper may still be at the signal before. After TERM,
        KILL comes by itself in `grace_s` to what outlives the program that was started (in a
        container nothing does); to the program itself it only comes from the dispatcher.
        """
        pid, ticks = self._spool.job(attempt)
        if not pid:
            return False
        if attempt.engine == "process":
            # Without room to write it down, what is left is killed when the program ends.
            with contextlib.suppress(OSError):
                if name == "TERM":
                    self._spool.begin_grace(attempt.attempt_id, grace_s)
                else:
                    self._spool.end_grace(attempt.attempt_id)
            self._signal_all(attempt, pid, ticks, SIGNALS[name])
            return True
        if name == "KILL":
            cgroups.kill(attempt.cgroup)
        return self._signal_by_engine(attempt, name, pid)

    def _signal_by_engine(self, attempt: SpooledAttempt, name: str, pid: int) -> bool:
        """Have a helper signal a container, one at a time: its engine may hang.

        Each has a time limit. It holds a lock that outlives this session, on the mark that tells
        its supervisor of a signal.
        """
        mark = self._spool.mark_killed(attempt.attempt_id)
        try:
            fcntl.flock(mark, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            # The one that is under way does for another TERM, but a KILL must follow it.
            return name == "TERM"
        else:
            wanted = name if name == "KILL" else self._spool.stop_signal(attempt.attempt_id)
            words = [wanted or name, container_name(attempt.attempt_id), str(pid), name]
            env = {b"_ls_limit": scripts.SIGNAL_LIMIT_S}
            self._help(attempt.attempt_id, scripts.KILL, words, env=env, given={9: mark})
            return True
        finally:
            os.close(mark)

    def _signal_all(self, attempt: SpooledAttempt, pid: int, ticks: int, number: int) -> None:
        """Signal every process of an attempt once, but for its supervisor, which tells of the end.

        The group of the program gets it at one moment. What is born elsewhere meanwhile gets it
        when it is repeated.
        """
        alive = signal_group(pid, ticks, number)
        if attempt.cgroup:
            found = containment.members(attempt.cgroup)
        else:
            found = holders.found(self._spool, [attempt.attempt_id])[attempt.attempt_id]
        self._signal_each(attempt.attempt_id, found, number, reached=pid if alive else 0)

    def _signal_each(
        self, attempt_id: str, found: Iterable[int], number: int, *, reached: int = 0
    ) -> None:
        """Signal processes of an attempt, but for ours and the group that was `reached` before."""
        own = holders.own_files(self._spool, attempt_id)
        for each in found:
            with contextlib.suppress(ProcessLookupError):  # it has just ended
                if reached and os.getpgid(each) == reached:
                    continue
                if own.isdisjoint(holders.open_files(each)):
                    os.kill(each, number)

    # ---- the end ----

    def bury(self, attempt: SpooledAttempt) -> None:
        """Make an attempt lost if its supervisor is gone, having ended what is left of it.

        A container engine needs time for that: a helper takes the place of the supervisor.
        """
        lock = self._spool.seize(attempt.attempt_id)
        if lock is None:
            return
        try:
            pid, ticks = self._spool.job(attempt)
            if pid:
                signal_group(pid, ticks, signal.SIGKILL)
            if attempt.engine == "process" or attempt.boot_id != self._spool.boot_id:
                self.end_rest(attempt)
                secret_files.remove(self._spool, attempt.attempt_id)
                self._spool.record_lost(attempt.attempt_id)
                return
            # At once: `rm -f` would first ask it kindly, for ten seconds.
            cgroups.kill(attempt.cgroup)
            prefix, env = self._prefix(attempt), self._of_container(attempt)
            secret_files.remove(self._spool, attempt.attempt_id)
            self._help(attempt.attempt_id, scripts.BURY, [], prefix, env=env, given={9: lock})
        finally:
            os.close(lock)

    def free_pipes(self, attempts: Iterable[SpooledAttempt]) -> None:
        """End what may hold the pipes of attempts whose end is recorded, and would never be told.

        Not their supervisors: with these, what is in the pipes would be gone. It takes a look at
        every process of the machine, one for all of the attempts.
        """
        held = {each.attempt_id: each for each in attempts if self._may_be_held(each)}
        found = holders.found(self._spool, held) if held else {}
        for attempt_id, pids in found.items():
            group = held[attempt_id].cgroup
            grouped = containment.members(group) if group else []
            self._signal_each(attempt_id, [*grouped, *pids], signal.SIGKILL)

    def _may_be_held(self, attempt: SpooledAttempt) -> bool:
        name = attempt.attempt_id
        if attempt.engine == "process" and self._spool.is_collected(name):
            with contextlib.suppress(FileNotFoundError):  # another session has just released it
                return self._spool.recorded(name) is not None
        return False

    def end_rest(self, attempt: SpooledAttempt) -> None:
        """End what an attempt that has ended left running; a container's ends with its first."""
        if attempt.engine != "process":
            return
        if attempt.cgroup:
            containment.kill(attempt.cgroup)
        else:
            kill_marked(self._spool.places.name, attempt.attempt_id)

    def reap(self) -> list[str]:
        """Collect children that have ended and return the attempts that they were spawned for."""
        found = []
        with contextlib.suppress(ChildProcessError):  # there are none at all
            while True:
                pid = os.waitpid(-1, os.WNOHANG)[0]
                if not pid:
                    break
                found += [self._children.pop(pid)] if pid in self._children else []
        # Those that were killed at a release may be gone by now.
        self._busy_groups = [group for group in self._busy_groups if not containment.remove(group)]
        return found

    def release(self, attempt: SpooledAttempt) -> None:
        """Forget an ended attempt, with its log, working directory, container, secrets and cgroup.

        What it left running ends here at the latest: see `end_rest`.
        """
        secret_files.remove(self._spool, attempt.attempt_id)
        if attempt.engine == "process":
            self.end_rest(attempt)
            if attempt.cgroup and not containment.remove(attempt.cgroup):
                self._busy_groups.append(attempt.cgroup)
            self._remove_traces(attempt)
        else:
            self._remove_work(attempt.attempt_id)
            self._spool.set_aside(attempt.attempt_id)
            self._leaving[attempt.attempt_id] = 0.0, FIRST_RETRY_S
            self.tick(time.monotonic())

    @property
    def leaves(self) -> bool:
        """Return whether the container of any released attempt may still be there."""
        return any(self._spool.read_leaving(name) is not None for name in self._leaving)

    def tick(self, now: float) -> float | None:
        """Remove containers of released attempts whose time has come, again if it failed.

        Returns when to be called again, None when all are gone.
        """
        for attempt_id, (due_at, delay_s) in list(self._leaving.items()):
            if now < due_at:
                continue
            attempt = self._spool.read_leaving(attempt_id)
            if attempt is None:
                del self._leaving[attempt_id]
            else:
                self._leaving[attempt_id] = now + delay_s, min(2 * delay_s, LONGEST_RETRY_S)
                with contextlib.suppress(OSError):  # as little as it needs is not to be had now
                    self._remove_container(attempt)
        return min((due_at for due_at, _ in self._leaving.values()), default=None)

    def _remove_container(self, attempt: SpooledAttempt) -> None:
        """Spawn who removes a released attempt's container, unless one is still at it."""
        left = self._spool.leaving(attempt.attempt_id)
        lock = os.open(os.path.join(left, "lock"), os.O_RDWR)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return
        else:
            secrets = secrets_of(self._spool, left)
            for name in secrets:
                os.truncate(os.path.join(left, name), 0)  # the name is all that is needed of it
            env = self._of_container(attempt)
            env[b"_ls_left"], env[b"_ls_secrets"] = left.encode(), " ".join(secrets).encode()
            groups, prefix = cgroups.directories(attempt.cgroup), self._prefix(attempt)
            self._help(
                attempt.attempt_id, scripts.RELEASE, groups, prefix, env=env, given={9: lock}
            )
        finally:
            os.close(lock)

    def _of_container(self, attempt: SpooledAttempt) -> dict[bytes, bytes]:
        """Return what a helper's script has to know of an attempt's container."""
        return {
            b"_ls_name": container_name(attempt.attempt_id).encode(),
            b"_ls_group": cgroups.tree(attempt.cgroup).encode(),
            b"_ls_limit": scripts.ANSWER_LIMIT_S,
        }

    def _remove_traces(self, attempt: SpooledAttempt) -> None:
        self._remove_work(attempt.attempt_id)
        self._spool.forget(attempt.attempt_id)

    def sweep(self) -> None:
        """Remove what a runner left that died over it; nothing of that runs."""
        self._spool.sweep()
        secret_files.sweep(self._spool)
        if self._engine.work == self._spool.places.apart:
            self._spool.make_apart()  # it lies where others tidy up
        for group in containment.groups_below(self._groups) if self._groups else []:
            if self._spool.read(os.path.basename(group)) is None:
                containment.kill(group)
                containment.remove(group)
        for place in self._work_places():
            for name in sorted(os.listdir(place)):
                if name.startswith("."):
                    self._help(name, 'rm -rf -- "$1"', [os.path.join(place, name)])
                attempt_id, is_door, _ = name.partition(DOOR_SUFFIX)
                if is_door and self._spool.read(attempt_id) is None:
                    remove_flat(os.path.join(place, name))

    def _work_places(self) -> list[str]:
        # Both, since another engine may have been configured when an attempt was started.
        places = (self._spool.places.work, self._spool.places.apart)
        return [place for place in places if os.path.isdir(place)]

    def _remove_door(self, attempt_id: str) -> None:
        listener = self.doors.pop(attempt_id, None)
        if listener is not None:
            listener.close()
        for place in self._work_places():
            remove_flat(os.path.join(place, attempt_id + DOOR_SUFFIX))

    def _remove_work(self, attempt_id: str) -> None:
        """Remove a working directory: at once if it is empty, else out of sight and by a helper.

        What it had its socket in goes with it.
        """
        self._remove_door(attempt_id)
        for place in self._work_places():
            work = os.path.join(place, attempt_id)
            if os.path.isdir(work) and not _removed(work):
                dying = os.path.join(place, f".{attempt_id}.{time.time_ns()}")
                os.rename(work, dying)
                self._help(attempt_id, 'rm -rf -- "$1"', [dying])

    def _prefix(self, attempt: SpooledAttempt) -> tuple[str, ...]:
        # An attempt of an engine that was configured before is still reached by its bare name.
        return self._engine.prefix if attempt.engine == self._engine.name else (attempt.engine,)

    def _help(
        self,
        attempt_id: str,
        script: str,
        words: list[str],
        prefix: tuple[str, ...] = (),
        *,
        env: dict[bytes, bytes] | None = None,
        given: dict[int, int] | None = None,
    ) -> None:
        text = scripts.for_engine(script, prefix or self._engine.prefix)
        argv = [word.encode() for word in ("sh", "-c", text, "sh", *words)]
        own = {os.fsencode(key): os.fsencode(value) for key, value in self._environ.items()}
        self._spawn(attempt_id, argv, {**own, **(env or {})}, given or {})


def _code(error: OSError, otherwise: str) -> str:
    """Return the code of a refusal: what there is too little of now may be there again later."""
    return "overloaded" if error.errno in SHORTAGES else otherwise


def _open_pipe(path: str) -> int:
    """Make a pipe and open both of its ends: who writes is never told that nobody reads."""
    os.mkfifo(path, 0o600)
    return os.open(path, os.O_RDWR)


def _removed(directory: str) -> bool:
    """Remove a directory if it is empty, and return whether it was."""
    try:
        os.rmdir(directory)
    except OSError:
        return False
    return True


def signal_group(pid: int, ticks: int, number: int) -> bool:
    """Signal the process group of a job, or the job alone while it has no group of its own.

    False when the job has ended, whatever it left in its group.
    """
    if machine.start_ticks(pid) != ticks:
        return False
    with contextlib.suppress(ProcessLookupError):  # it has just ended
        if os.getpgid(pid) == pid:
            os.killpg(pid, number)
        else:
            os.kill(pid, number)
    return True


def end_session(pid: int, ticks: int) -> None:
    """Kill what is left of a process that was spawned in a session of its own, and of its group.

    The process may have ended and been waited for: what it left keeps its group, and no other gets
    the number of that. Where the group is empty, another process may have the number.
    """
    if machine.start_ticks(pid) in (0, ticks):
        with contextlib.suppress(ProcessLookupError):  # nothing is left
            os.killpg(pid, signal.SIGKILL)


def kill_marked(spool_name: str, attempt_id: str) -> None:
    """Kill whatever carries an attempt's mark in its environment, wherever it has moved to."""
    for pid in machine.processes():
        if attempt_id in holders.marks(spool_name, pid):
            with contextlib.suppress(ProcessLookupError):  # it has just ended
                os.kill(pid, signal.SIGKILL)


def reserve_low_descriptors() -> None:
    """Fill descriptors below 10, so that none that is passed on collides with where it goes."""
    while True:
        descriptor = os.open(os.devnull, os.O_RDWR)
        if descriptor >= 10:
            os.close(descriptor)
            return
