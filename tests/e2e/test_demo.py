"""`longshore demo` as a user starts it: a real process with a real server, SSH and processes."""

from __future__ import annotations

import os
import pty
import re
import signal
import subprocess
import sys
import threading
from pathlib import Path

from longshore.dispatcher.cli.demo.scenario import (
    IDLE_TIMEOUT_S,
    INSTANCE_TYPES,
    PROMISES,
    QUOTA_INSTANCES,
)

ROOT = Path(__file__).parent.parent.parent
COMMAND = [sys.executable, "-m", "longshore", "demo"]


def rows_of(text: str, first_column: str) -> list[list[str]]:
    """Return the cells of the plain table whose first column is called so."""
    lines = text.splitlines()
    start = next(index for index, line in enumerate(lines) if line.startswith(first_column))
    rows = []
    for line in lines[start + 1 :]:
        if not line:
            break
        rows.append(re.split(r" {2,}", line))
    return rows


def test_the_demo_keeps_its_promises() -> None:
    done = subprocess.run(
        COMMAND, capture_output=True, text=True, timeout=380, check=False, cwd=ROOT
    )
    told = done.stdout + done.stderr
    assert done.returncode == 0, told
    assert "\x1b" not in done.stdout
    assert "Traceback" not in told
    containers = {row[0]: row for row in rows_of(done.stdout, "CONTAINER")}
    assert set(containers) == set(PROMISES)
    assert len(containers) >= 8
    for name, row in containers.items():
        promise = PROMISES[name]
        assert row[-1] == promise.state
        if promise.exit_code is not None:
            assert row[-2] == str(promise.exit_code)
        assert row[4] in INSTANCE_TYPES
        assert float(row[6].removeprefix("$")) > 0
    instances = rows_of(done.stdout, "INSTANCE")
    assert len(instances) >= 1
    for row in instances:
        assert float(row[3]) < float(row[5]) < float(row[6])
    idled = [float(row[5]) - float(row[4]) for row in instances if row[4] != "-"]
    assert max(idled) > IDLE_TIMEOUT_S - 1
    used = {row[3] for row in containers.values()}
    assert used <= {row[0] for row in instances}
    assert f"at most\n{QUOTA_INSTANCES} instances" in done.stdout
    assert "endless is at work: cancelling it" in done.stdout
    assert " waits: " in done.stdout
    assert "longshore serve" in done.stdout
    assert "longshore submit" in done.stdout


def test_on_a_terminal_the_demo_draws_and_ctrl_c_leaves_nothing() -> None:
    """The leak guard fails this test when a process of the demo outlives it."""
    controller, terminal = pty.openpty()
    process = subprocess.Popen(
        COMMAND, stdin=terminal, stdout=terminal, stderr=terminal, cwd=ROOT, start_new_session=True
    )
    os.close(terminal)
    drawn = bytearray()
    running = threading.Event()

    def read() -> None:
        try:
            while chunk := os.read(controller, 65536):
                drawn.extend(chunk)
                if b"running" in drawn:
                    running.set()
        except OSError:
            # Linux says EIO when the last writer has closed its end.
            return

    reader = threading.Thread(target=read)
    reader.start()
    try:
        assert running.wait(120), drawn.decode(errors="replace")
        os.kill(process.pid, signal.SIGINT)
        assert process.wait(120) == 130
    finally:
        process.kill()
        process.wait()
        reader.join()
        os.close(controller)
    text = drawn.decode(errors="replace")
    assert "\x1b[" in text
    assert "interrupted" in text
    assert "Traceback" not in text


def test_the_scenario_is_what_the_demo_says() -> None:
    states = [promise.state for promise in PROMISES.values()]
    assert states.count("failed") == 1
    assert states.count("cancelled") == 1
    assert len({promise.priority for promise in PROMISES.values()}) >= 4
    assert len({promise.cpus for promise in PROMISES.values()}) >= 3
    assert len({kind["price_per_hour"] for kind in INSTANCE_TYPES.values()}) == 3
