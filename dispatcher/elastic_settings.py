"""How elastic jobs queue, as the configuration says it; pure data."""

from __future__ import annotations

from enum import Enum
from typing import Annotated

import msgspec

_MIB = 2**20


class QueuePolicy(Enum):
    """Which job comes first; `hrrn` is the highest ratio of response to runtime."""

    FIFO = "fifo"
    SIZE = "size"
    DYNSIZE = "dynsize"
    SJF = "sjf"
    SRPT = "srpt"
    HRRN = "hrrn"


class ElasticSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How elastic jobs queue.

    With `backfill` a job that cannot start does not keep those behind it waiting. Under `dynsize` a
    job shrinks by `dynsize_bytes_per_s` for each second that it waited.
    """

    policy: QueuePolicy = QueuePolicy.FIFO
    backfill: bool = False
    dynsize_bytes_per_s: Annotated[int, msgspec.Meta(ge=0, le=2**50)] = 256 * _MIB
