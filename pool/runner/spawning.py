"""Spawning detached processes: none waits for us.

One may begin its life in a control group, or as a subreaper: who is orphaned below it becomes its
child, so that nothing that it has started leaves its sight.
"""

from __future__ import annotations

import ctypes
import os
import signal
import struct
from typing import Callable

RESET_SIGNALS = (
    signal.SIGPIPE,
    signal.SIGXFSZ,
    signal.SIGINT,
    signal.SIGQUIT,
    signal.SIGHUP,
    signal.SIGTERM,
    signal.SIGCHLD,
)
SHELL = "/bin/sh"
CLONE3 = 435  # its number on every architecture that it was added to
CLONE_ARGUMENTS = struct.Struct("=11Q")
CLONE_VFORK = 0x4000
CLONE_INTO_CGROUP = 0x2_0000_0000
PR_SET_CHILD_SUBREAPER = 36
CLONE_NUMBER = ctypes.c_long(CLONE3)
CLONE_SIZE = ctypes.c_size_t(CLONE_ARGUMENTS.size)
SIGNAL_SET_BYTES = 128  # of glibc; musl's and the kernel's are no larger
# Without giving up Python's lock around each call: there is one thread, and it is quicker.
LIBRARY = ctypes.PyDLL(None, use_errno=True)
LIBRARY.syscall.restype = ctypes.c_long


def spawn(argv: list[bytes], env: dict[bytes, bytes], given: dict[int, int]) -> int:
    """Spawn `sh` in a session of its own and return its pid.

    It gets our descriptors `given` (those that are not negative) under the numbers that are their
    keys; none of ours may be as low as these. OSError when it cannot be spawned.
    """
    actions: list[tuple[int, ...] | tuple[int, int, str, int, int]] = [
        (os.POSIX_SPAWN_OPEN, 0, "/dev/null", os.O_RDONLY, 0),
        (os.POSIX_SPAWN_OPEN, 1, "/dev/null", os.O_WRONLY, 0),
        (os.POSIX_SPAWN_DUP2, 1, 2),
    ]
    actions += [
        (os.POSIX_SPAWN_DUP2, source, target) for target, source in given.items() if source >= 0
    ]
    return os.posix_spawn(
        SHELL,
        argv,
        env,
        file_actions=actions,
        setsid=True,
        setsigmask=(),
        setsigdef=RESET_SIGNALS,
    )


def spawn_into(
    group: str, argv: list[bytes], env: dict[bytes, bytes], given: dict[int, int]
) -> int:
    """Spawn as `spawn` does, but in a control group of version 2 from its first instruction.

    To be born in a group takes half a millisecond; to move into one, the kernel waits ten for all
    its processors. OSError where the kernel does not know how. Only for a process with a single
    thread: it is a fork that Python does not know of.
    """
    directory = os.open(group, os.O_RDONLY | os.O_DIRECTORY)
    try:
        return _born(argv, env, given, lambda: _clone(directory), gathers=False)
    finally:
        os.close(directory)


def spawn_gathering(argv: list[bytes], env: dict[bytes, bytes], given: dict[int, int]) -> int:
    """Spawn as `spawn` does, but as a subreaper: who is orphaned below it becomes its child.

    `sh` keeps that when it is executed, and does not hand it on. OSError when there can be no more
    processes. Only for a process with a single thread, as `spawn_into`.
    """
    return _born(argv, env, given, _fork, gathers=True)


def _born(
    argv: list[bytes],
    env: dict[bytes, bytes],
    given: dict[int, int],
    birth: Callable[[], int],
    *,
    gathers: bool,
) -> int:
    opened = [os.open(os.devnull, os.O_RDONLY), os.open(os.devnull, os.O_WRONLY)]
    try:
        moves = [(opened[0], 0), (opened[1], 1), (opened[1], 2)]
        moves += [(source, target) for target, source in given.items() if source >= 0]
        child = _Child(argv, env, moves, gathers=gathers)
        pid = birth()
        if not pid:
            child.run()
        return pid
    finally:
        for descriptor in opened:
            os.close(descriptor)


class _Child:
    """What a newborn process does, made ready before it is born.

    Each page of memory that it touches is copied first, so it does as little as can be, and does
    it by the C library itself.
    """

    def __init__(
        self,
        argv: list[bytes],
        env: dict[bytes, bytes],
        moves: list[tuple[int, int]],
        *,
        gathers: bool,
    ) -> None:
        self._gathers = gathers
        words = [name + b"=" + value for name, value in env.items()]
        self._argv = (ctypes.c_char_p * (len(argv) + 1))(*argv, None)
        self._env = (ctypes.c_char_p * (len(words) + 1))(*words, None)
        self._moves = moves
        self._shell = SHELL.encode()
        self._no_signals = ctypes.create_string_buffer(SIGNAL_SET_BYTES)

    def run(self) -> None:
        """Become `sh`; never returns."""
        try:
            LIBRARY.setsid()
            if self._gathers:  # where the kernel does not let it, marks and pipes tell what is left
                LIBRARY.prctl(PR_SET_CHILD_SUBREAPER, *map(ctypes.c_ulong, (1, 0, 0, 0)))
            for source, target in self._moves:
                LIBRARY.dup2(source, target)
            for number in RESET_SIGNALS:
                LIBRARY.signal(number, None)
            LIBRARY.sigprocmask(signal.SIG_SETMASK, self._no_signals, None)
            LIBRARY.execve(self._shell, self._argv, self._env)
        finally:
            # Without an exit record and without its lock, the attempt is found to be lost.
            os._exit(127)


def _fork() -> int:
    pid = int(LIBRARY.fork())
    if pid < 0:
        raise OSError(ctypes.get_errno(), "cannot fork")
    return pid


def _clone(group: int) -> int:
    """Fork into a group; the parent goes on once the child has executed something else."""
    arguments = CLONE_ARGUMENTS.pack(
        CLONE_INTO_CGROUP | CLONE_VFORK, 0, 0, 0, signal.SIGCHLD, 0, 0, 0, 0, 0, group
    )
    buffer = ctypes.create_string_buffer(arguments, CLONE_ARGUMENTS.size)
    pid = int(LIBRARY.syscall(CLONE_NUMBER, buffer, CLONE_SIZE))
    if pid < 0:
        raise OSError(ctypes.get_errno(), "cannot be born in a control group")
    return pid
