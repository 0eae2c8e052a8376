"""What attempts really took of their instances, as these measured it; pure data.

An instance may say what it likes, so that each number has bounds.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import msgspec

MOST_BYTES = 2**53
"""The largest size that an instance may tell: what JSON can say exactly."""

Measured = Annotated[int, msgspec.Meta(ge=0, le=MOST_BYTES)]


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptUsage:
    """What an attempt really took, as its instance measured it; each None where it could not.

    It is for people, and for what they ask for the next time: no cost follows from it.
    """

    peak_memory_bytes: Measured | None = None
    #: Over the time that it ran.
    mean_memory_bytes: Measured | None = None
    #: Of all processors together.
    cpu_seconds: Annotated[float, msgspec.Meta(ge=0, le=MOST_BYTES)] | None = None
    #: From and to disks: what a cache in memory served is not in it.
    read_bytes: Measured | None = None
    written_bytes: Measured | None = None
    gpu_peak_memory_bytes: Measured | None = None
    #: From 0 to 1, over the GPUs that it used while it did.
    gpu_mean_utilization: Annotated[float, msgspec.Meta(ge=0, le=1)] | None = None
