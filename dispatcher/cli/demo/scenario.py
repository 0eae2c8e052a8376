"""What the demo runs: a small cloud, ten containers, and what must come of each."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

QUOTA_INSTANCES = 3
DEADLINE_S = 120.0
IDLE_TIMEOUT_S = 3.0
EXIT_CODE_OF_FAULTY = 3

INSTANCE_TYPES: dict[str, dict[str, Any]] = {
    "small": {"provider_type": "sim.small", "cpus": 1, "memory": "2GiB", "price_per_hour": 0.05},
    "medium": {"provider_type": "sim.medium", "cpus": 2, "memory": "4GiB", "price_per_hour": 0.10},
    "large": {"provider_type": "sim.large", "cpus": 4, "memory": "8GiB", "price_per_hour": 0.19},
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Promise:
    """A container of the demo and what must come of it.

    `says` is a line that its log must hold ("" for none); one to be `cancelled` is cancelled once
    it has said so.
    """

    name: str
    cpus: int
    priority: int
    script: str
    says: str
    state: str = "succeeded"
    exit_code: int | None = 0

    @property
    def cancelled(self) -> bool:
        """Return whether the demo cancels it."""
        return self.state == "cancelled"

    def request(self) -> dict[str, Any]:
        """Return what is submitted."""
        return {
            "name": self.name,
            "command": ["/bin/sh", "-c", self.script],
            "cpus": self.cpus,
            "memory": f"{self.cpus * 256}MiB",
            "priority": self.priority,
        }


def working(name: str, *, cpus: int, priority: int, seconds: int) -> Promise:
    """Return a container that works for some seconds and says so at the end."""
    says = f"{name} is done"
    return Promise(
        name=name, cpus=cpus, priority=priority, script=f"sleep {seconds}; echo '{says}'", says=says
    )


LIST = tuple(working(f"frame-{n}", cpus=1, priority=500, seconds=2) for n in (1, 2, 3))
ALONE = (
    working("urgent", cpus=1, priority=900, seconds=2),
    working("simulation", cpus=4, priority=700, seconds=3),
    Promise(
        name="endless",
        cpus=1,
        priority=600,
        script=f"echo 'endless has begun'; exec sleep {DEADLINE_S:.0f}",
        says="endless has begun",
        state="cancelled",
        exit_code=None,
    ),
    working("report", cpus=2, priority=500, seconds=2),
    Promise(
        name="faulty",
        cpus=1,
        priority=500,
        script=f"sleep 1; echo 'faulty gives up'; exit {EXIT_CODE_OF_FAULTY}",
        says="faulty gives up",
        state="failed",
        exit_code=EXIT_CODE_OF_FAULTY,
    ),
    working("archive", cpus=2, priority=200, seconds=2),
    working("background", cpus=1, priority=100, seconds=1),
)
PROMISES = {each.name: each for each in (*ALONE, *LIST)}


def configuration(directory: Path) -> dict[str, Any]:
    """Return the configuration of the demo's server, which keeps everything in `directory`."""
    return {
        "listen": "127.0.0.1:0",
        "data_dir": str(directory / "data"),
        "driver": {
            "name": "simulated",
            "parameters": {
                "boot_time_s": 1.5,
                "boot_jitter_s": 1.0,
                "destroy_delay_s": 0.5,
                "quota": QUOTA_INSTANCES,
            },
        },
        "instance_types": INSTANCE_TYPES,
        "engine": {"name": "process"},
        "pool": {
            "idle_timeout_s": IDLE_TIMEOUT_S,
            "sync_interval_s": 2,
            "probe_interval_s": 1,
            "shutdown_timeout_s": 2,
            "quota_hold_s": 2,
            "signal_interval_s": 1,
        },
        "scheduler": {"max_price_factor": 4},
    }
