"""What attempts really took, measured by the real runner on real processes."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from longshore.pool.runner import containment
from longshore.pool.runner.usage import SAMPLED, read_samples
from tests.runner_harness import Attached, Runner, eventually, settle_on

MIB = 1 << 20
GREEDY = f"""
import os, sys, time
held = bytearray(b"x") * {200 * MIB}
with open("ten", "wb") as file:
    file.write(bytes({10 * MIB}))
    file.flush()
    os.fsync(file.fileno())
while time.process_time() < 0.3:
    pass
print("up", flush=True)
while not os.path.exists("gate"):
    time.sleep(0.01)
"""
"""Takes 200 MiB, writes 10 and burns a third of a second, until a gate is there."""


def run_greedy(runner: Runner, session: Attached, command: tuple[str, ...]) -> dict[str, Any]:
    """Run a greedy attempt until somebody has looked at it, and return its usage."""
    assert session.start("a", *command)["ok"]
    session.until(lambda: session.log("a") == b"up\n")
    seen = runner.spool / "attempts" / "a" / SAMPLED

    def looked_at() -> bool:
        samples = read_samples(str(seen))
        return samples is not None and (samples.peak_bytes or 0) > 190 * MIB

    eventually(looked_at)
    Path(runner.places.work, "a", "gate").touch()
    usage: dict[str, Any] = session.exit_of("a")["usage"]
    return usage


@pytest.mark.parametrize("hierarchy", [*containment.hierarchies()[:1], ""])
def test_a_process_is_measured(hierarchy: str) -> None:
    with Runner() as runner:
        settle_on(runner, hierarchy)
        session, _ = runner.attach()
        usage = run_greedy(runner, session, (sys.executable, "-c", GREEDY))
    assert 200 * MIB < usage["peak_memory_bytes"] < 280 * MIB
    assert 0 < usage["mean_memory_bytes"] <= usage["peak_memory_bytes"]
    assert 0.3 <= usage["cpu_seconds"] < 3
    assert 10 * MIB <= usage["written_bytes"] < 12 * MIB
    assert usage["read_bytes"] >= 0
