"""Spawning detached processes: none waits for us, and one may begin its life in a control group."""

from __future__ import annotations

import ctypes
import os
import signal
import struct

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

    To be born in a group takes a third of a millisecond; to move into one, the kernel waits ten for
    all its processors. OSError where the kernel does not know how. Only for a process with a single
    thread: it is a fork that Python does not know of.
    """
    descriptor = os.open(group, os.O_RDONLY | os.O_DIRECTORY)
    try:
        pid = _clone(descriptor)
    finally:
        os.close(descriptor)
    if pid:
        return pid
    try:
        _become(argv, env, given)
    finally:
        # Without an exit record and without its lock, the attempt is found to be lost.
        os._exit(127)


def _clone(group: int) -> int:
    """Fork into a group; the parent goes on once the child has executed something else."""
    arguments = CLONE_ARGUMENTS.pack(
        CLONE_INTO_CGROUP | CLONE_VFORK, 0, 0, 0, signal.SIGCHLD, 0, 0, 0, 0, 0, group
    )
    library = ctypes.CDLL(None, use_errno=True)
    library.syscall.restype = ctypes.c_long
    buffer = ctypes.create_string_buffer(arguments, CLONE_ARGUMENTS.size)
    size = ctypes.c_size_t(CLONE_ARGUMENTS.size)
    pid = int(library.syscall(ctypes.c_long(CLONE3), buffer, size))
    if pid < 0:
        raise OSError(ctypes.get_errno(), "cannot be born in a control group")
    return pid


def _become(argv: list[bytes], env: dict[bytes, bytes], given: dict[int, int]) -> None:
    os.setsid()
    os.dup2(os.open("/dev/null", os.O_RDONLY), 0)
    os.dup2(os.open("/dev/null", os.O_WRONLY), 1)
    os.dup2(1, 2)
    for target, source in given.items():
        if source >= 0:
            os.dup2(source, target)
    for number in RESET_SIGNALS:
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    os.execve(SHELL, argv, env)  # noqa: S606 - the supervisor is a shell script, and no user's words are in it
