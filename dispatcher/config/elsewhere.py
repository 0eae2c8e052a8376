"""Which sections name who is told elsewhere of what happens here, and what is looked at in each.

Stands alone: who checks a configuration names no more modules than it has to.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from longshore.dispatcher.config.model import Config
from longshore.dispatcher.config.notifications import check_notifications
from longshore.dispatcher.config.traces import check_traces
from longshore.dispatcher.input.problems import Problems

CHECKS_ELSEWHERE: Final[Mapping[str, Callable[[Config, Problems], None]]] = {
    "notifications": check_notifications,
    "traces": check_traces,
}
