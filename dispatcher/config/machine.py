"""What this machine is: the one instance type of the loopback driver, and where data goes.

Stands alone: of the configuration it alone asks this machine, and not the file.
"""

from __future__ import annotations

import os
import shutil
from decimal import Decimal
from pathlib import Path

from longshore.drivers.interface import InstanceType, Resources

LOCAL_TYPE = "local"
_MEMORY_LIMITS = (
    Path("/sys/fs/cgroup/memory.max"),
    Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"),
)


def local_instance_type(data_dir: Path) -> InstanceType:
    """Return this machine as an instance type: its cpus, memory, and the disk of `data_dir`.

    Only the cpus that this process may use count, and a cgroup's limit on memory where it is seen.
    """
    return InstanceType(
        name=LOCAL_TYPE,
        provider_type=LOCAL_TYPE,
        resources=Resources(
            cpu_millis=1000 * len(os.sched_getaffinity(0)),
            memory_bytes=_memory_bytes(),
            disk_bytes=shutil.disk_usage(_existing(data_dir)).total,
        ),
        price_usd_per_hour=Decimal(0),
    )


def default_data_dir() -> Path:
    """Return where data goes unless told: the system's place for root, else the user's own."""
    if os.geteuid() == 0:
        return Path("/var/lib/longshore")
    return Path("~/.local/share/longshore").expanduser()


def _memory_bytes() -> int:
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    for path in _MEMORY_LIMITS:
        if path.is_file() and (text := path.read_text(encoding="ascii").strip()).isdigit():
            memory = min(memory, int(text))
    return memory


def _existing(path: Path) -> Path:
    while not path.exists():
        path = path.parent
    return path
