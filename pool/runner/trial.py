"""The trial of an engine by a container of the runner's own, when what others start never runs.

`engines.choose` asks an engine only whether it is there: that costs little, and is asked at each
new instance. Broken storage, a network that cannot be made or a runtime that crashes show only when
a container runs. So this makes an image of one program (a few machine instructions, which need
nothing in the image), runs it as attempts are run, and removes both. Nothing of a user's is in it:
what fails here is the machine's fault.
"""

from __future__ import annotations

import contextlib
import os
import struct
import subprocess
import time

from longshore.pool.runner import cgroups, machine
from longshore.pool.runner.engines import (
    LABEL,
    PROBLEM_CHARACTERS,
    ContainerEngine,
    EngineOptions,
    try_process,
)
from longshore.pool.runner.spool import Spool

TIMEOUT_S = 24
_PROGRAM = "/trial"
_EXIT_0 = {
    # mov eax, 60; xor edi, edi; syscall
    "x86_64": (62, bytes.fromhex("b83c00000031ff0f05")),
    # mov x0, #0; mov x8, #93; svc #0
    "aarch64": (183, bytes.fromhex("000080d2a80b80d2010000d4")),
}
"""What exits with 0, by machine: its number in the header of a program, and the instructions."""


def problem(config: EngineOptions, engine: ContainerEngine, spool: Spool, timeout_s: float) -> str:
    """Return why the engine that was chosen runs nothing here, "" when it does.

    It takes `timeout_s` at most, but for what it clears up.
    """
    if engine.problem:
        return engine.problem
    deadline = time.monotonic() + timeout_s
    found = ""
    if engine.name != "process":
        found = _of_containers(engine, spool, deadline)
    if not found and (engine.name == "process" or engine.imageless):
        found = _of_processes(config, spool, deadline)
    return f"{engine.name}: {found}"[:PROBLEM_CHARACTERS] if found else ""


def _of_processes(config: EngineOptions, spool: Spool, deadline: float) -> str:
    bare = try_process(config, spool)
    if bare.problem:
        return bare.problem
    return _run((*bare.drop, "/bin/sh", "-c", "exit 0"), deadline)


def _of_containers(engine: ContainerEngine, spool: Spool, deadline: float) -> str:
    name = f"longshore-trial-{os.getpid()}"
    group = f"{spool.places.name}/{name}"
    archive = os.path.join(spool.places.runner, f".{name}.tar")
    try:
        with open(archive, "wb") as file:
            file.write(_image())
        cgroups.create(group, memory_bytes=0, cpu_millis=0)
        return _import_and_run(engine, spool, (name, archive, group), deadline)
    except OSError as error:
        return f"nothing can be written for a container: {error}"
    finally:
        # Whatever became of it: at most once more as long as it may take.
        late = time.monotonic() + TIMEOUT_S
        _run((*engine.prefix, "rm", "--force", name), late)
        _run((*engine.prefix, "rmi", "--force", f"{name}:latest"), late)
        cgroups.remove(group)
        with contextlib.suppress(FileNotFoundError):  # it could not be written
            os.unlink(archive)


def _import_and_run(
    engine: ContainerEngine, spool: Spool, made: tuple[str, str, str], deadline: float
) -> str:
    name, archive, group = made
    image = f"{name}:latest"
    failed = _run((*engine.prefix, "import", archive, image), deadline)
    if failed or os.uname().machine not in _EXIT_0:
        return failed
    label = f"{LABEL}={spool.places.name}"
    words = ["run", "--name", name, "--label", label, "--cgroup-parent", f"/{group}"]
    words += ["--log-driver", "none"]
    if engine.name == "podman":
        words += ["--quiet", "--cgroups=no-conmon"]
    if engine.init:
        words += ["--init"]
    return _run((*engine.prefix, *words, *engine.arguments, image, _PROGRAM), deadline)


def _image() -> bytes:
    """Return the archive (ustar) of a file system with the one program that the trial runs."""
    program = _program()
    fields = (
        _PROGRAM.strip("/").encode().ljust(100, b"\0"),
        b"0000755\0" + 2 * b"0000000\0",
        b"%011o\0" % len(program) + b"%011o\0" % 0,
        8 * b" " + b"0" + 100 * b"\0",
        b"ustar\00000" + 80 * b"\0" + 167 * b"\0",
    )
    head = b"".join(fields)
    head = head[:148] + b"%06o\0 " % sum(head) + head[156:]
    padded = program + -len(program) % 512 * b"\0"
    return head + padded + 1024 * b"\0"


def _program() -> bytes:
    """Return a static program for this machine that exits with 0 (ELF, 64 bits); b"" elsewhere."""
    number, code = _EXIT_0.get(os.uname().machine, (0, b""))
    if not code:
        return b""
    base, headers = 0x400000, 64 + 56
    size = headers + len(code)
    ident = b"\x7fELF" + bytes((2, 1, 1)) + bytes(9)
    entry = base + headers
    head = struct.pack("<HHIQQQIHHHHHH", 2, number, 1, entry, 64, 0, 0, 64, 56, 1, 0, 0, 0)
    load = struct.pack("<IIQQQQQQ", 1, 5, 0, base, base, size, size, 0x1000)
    return ident + head + load + code


def _run(command: tuple[str, ...], deadline: float) -> str:
    """Run a command until a deadline and return why it failed, "" if it did not."""
    left_s = deadline - time.monotonic()
    environ = {**os.environ, "PATH": f"{os.environ.get('PATH', '')}:{machine.SYSTEM_PATH}"}
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=max(1.0, left_s),
            check=False,
            env=environ,
        )
    except subprocess.TimeoutExpired:
        return "it did not end in time"
    except OSError as error:
        return str(error)
    if done.returncode == 0:
        return ""
    said = done.stderr.decode("utf-8", "replace").strip().split("\n")[-1]
    return said or f"exit status {done.returncode}"
