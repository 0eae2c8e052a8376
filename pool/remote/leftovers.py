"""What stays of instances that are gone, such as volumes: looked for now and then, and remembered.

Only a driver that is `Leftovers` can tell, by calls that take their time: so nobody who asks for
leaks waits for one. A look follows a listing, on a thread of its own, once in `LOOK_INTERVAL_S` at
most, and one at a time. What two looks in a row have shown is a leak; what only one has shown may
be on its way, as volumes are while their instance ends.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

import structlog

from longshore.drivers.errors import CloudAuthError, CloudError
from longshore.drivers.interface import CLUSTER_TAG, InstanceSet, Leftover, Leftovers
from longshore.pool.leaks import LeftBehind, LeftoverReport

log = structlog.get_logger(__name__)

LOOK_INTERVAL_S = 300.0
_LOOKS = 2


class LeftoverWatch:
    """Looks for what stays, and tells what was seen; usable from any thread.

    `now` tells seconds since the epoch.
    """

    def __init__(self, driver: InstanceSet, *, cluster: str, now: Callable[[], float]) -> None:
        self._driver = driver if isinstance(driver, Leftovers) else None
        self._cluster = cluster
        self._now = now
        self._lock = threading.Lock()
        self._seen: dict[tuple[str, str], LeftBehind] = {}
        self._problem = ""
        self._looking = False
        self._looked_at: float | None = None

    def begin(self) -> bool:
        """Return whether a look is due; if so, `look` or `give_up` must follow."""
        now = self._now()
        with self._lock:
            looked_at = self._looked_at
            early = looked_at is not None and 0 <= now - looked_at < LOOK_INTERVAL_S
            if self._driver is None or self._looking or early:
                return False
            self._looking = True
            self._looked_at = now
            return True

    def look(self) -> None:
        """Ask the driver, and keep what it says; an error is logged when it is a new one."""
        try:
            assert self._driver is not None  # noqa: S101 - `begin` has seen to it
            found = self._driver.leftovers({CLUSTER_TAG: self._cluster})
        except Exception as error:  # noqa: BLE001 - a plug-in may raise anything; it is told
            self._note_problem(error)
        else:
            self._note_problem(None)
            self._keep({(each.kind, each.id): each for each in found})
        finally:
            self.give_up()

    def give_up(self) -> None:
        """Say that the look that has begun is over."""
        with self._lock:
            self._looking = False

    def told(self) -> LeftoverReport:
        """Return what is known now; the value is a copy."""
        with self._lock:
            seen, problem = sorted(self._seen.items()), self._problem
            taken_s = self._now() - (self._looked_at or 0.0) if self._looking else 0.0
        if taken_s >= LOOK_INTERVAL_S:
            problem = f"the driver has not answered for {taken_s:.0f} s"
        items = tuple(each for _, each in seen if each.looks >= _LOOKS)
        return LeftoverReport(items=items, problem=problem)

    def _keep(self, found: dict[tuple[str, str], Leftover]) -> None:
        now = self._now()
        with self._lock:
            known = self._seen
            self._seen = {
                key: LeftBehind(
                    leftover=leftover,
                    since=known[key].since if key in known else now,
                    looks=known[key].looks + 1 if key in known else 1,
                )
                for key, leftover in found.items()
            }

    def _note_problem(self, error: Exception | None) -> None:
        problem = "" if error is None else _sentence(error)
        with self._lock:
            before, self._problem = self._problem, problem
        if problem and problem != before:
            log.warning("what stays of instances that are gone cannot be looked for", error=problem)
        elif before and not problem:
            log.info("what stays of instances that are gone can be looked for again")


def _sentence(error: Exception) -> str:
    expected = isinstance(error, CloudError)
    told = str(error) if expected else f"{type(error).__name__}: {error}"
    if isinstance(error, CloudAuthError):
        return f"the credentials may not look: {told}"
    return told
