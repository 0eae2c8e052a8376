"""What the server measures of itself while it runs, and the exposition of all that.

The engine is read at each scrape. What a scrape cannot see is measured beside it: how late the
event loop is, since whatever it does for long, everybody waits for; and what the ledger has, which
a scrape may not wait for (`service.cost_gauges`).
"""

from __future__ import annotations

import asyncio

from longshore.dispatcher.domain.vitals import ProcessVitals
from longshore.dispatcher.engine.runtime import Runtime
from longshore.dispatcher.metrics.exposition import Metrics
from longshore.dispatcher.metrics.ledger import BudgetNow, LedgerNow
from longshore.dispatcher.service.budgets import BudgetService
from longshore.dispatcher.service.cost_gauges import CostGauges
from longshore.dispatcher.service.health import HealthService
from longshore.pool.histogram import Histogram

LOOK_EACH_S = 0.5
"""How often it is seen how late the event loop is."""

_DELAY_BOUNDS_S = (0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0)


class LoopDelay:
    """Measures the event loop that it is watched on."""

    def __init__(self) -> None:
        #: By how many seconds it was late, of each look.
        self.late_s = Histogram(_DELAY_BOUNDS_S)

    async def watch(self, *, look_each_s: float = LOOK_EACH_S) -> None:
        """Sleep again and again, and see how late it wakes, until it is cancelled."""
        loop = asyncio.get_running_loop()
        while True:
            due = loop.time() + look_each_s
            await asyncio.sleep(look_each_s)
            self.late_s.observe(loop.time() - due)


class Measuring:
    """Measures, and exposes; used on the loop's thread."""

    def __init__(
        self,
        *,
        metrics: Metrics,
        runtime: Runtime,
        health: HealthService,
        budgets: BudgetService,
        costs: CostGauges,
    ) -> None:
        self._metrics, self._runtime, self._health = metrics, runtime, health
        self._budgets, self._costs = budgets, costs
        self._delay = LoopDelay()

    async def watch_loop(self) -> None:
        """Measure the event loop until cancelled."""
        await self._delay.watch()

    async def read_ledger(self) -> None:
        """Read the ledger again and again, until cancelled."""
        await self._costs.look_for_ever()

    def exposition(self) -> bytes:
        """Return the Prometheus text exposition of this moment."""
        budgets = tuple(
            BudgetNow(budget=each.budget, use=each.use, is_stopped=each.stop is not None)
            for each in self._budgets.all_standings()
        )
        return self._metrics.exposition(
            self._costs.now(),
            problems=self._health.problems(),
            vitals=self._health.vitals(),
            of_process=ProcessVitals(
                engine=self._runtime.vitals(), loop_delay_s=self._delay.late_s
            ),
            of_ledger=LedgerNow(month=self._costs.month, budgets=budgets),
        )
