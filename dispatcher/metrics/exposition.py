"""The exposition: gauges are read off the engine's memory at each scrape, so that none can drift.

Each `metrics_…` module beside this one makes the families of one subject.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence

from prometheus_client import CollectorRegistry, ProcessCollector, generate_latest
from prometheus_client.core import Metric

from longshore.dispatcher.cost.prices import AS_BOUGHT, PricesInForce
from longshore.dispatcher.domain.views import Problem
from longshore.dispatcher.domain.vitals import ProcessVitals, TraceVitals, Vitals
from longshore.dispatcher.engine.view import EngineView
from longshore.dispatcher.metrics import (
    cloud,
    containers,
    instances,
    jobs,
    leaks,
    ledger,
    process,
    scheduling,
    store,
)
from longshore.dispatcher.state.agenda import LaunchResult
from longshore.pool.leaks import NO_LEFTOVERS, LeftoverReport


class Metrics:
    """The exposition of one engine; call on the thread that runs the engine."""

    def __init__(
        self,
        view: EngineView,
        *,
        heard_at: Callable[[str], float],
        leftovers: Callable[[], LeftoverReport] = lambda: NO_LEFTOVERS,
        prices_told_at: Callable[[], Mapping[str, float]] = dict,
        prices: Callable[[], PricesInForce] = lambda: AS_BOUGHT,
        certificate_ends_at: Callable[[], float | None] = lambda: None,
        traces: Callable[[], TraceVitals | None] = lambda: None,
    ) -> None:
        self._view = view
        #: When a worker's session was last heard, which the engine is not told of; 0.0 for never.
        self._heard_at = heard_at
        #: What stays of instances that are gone.
        self._leftovers = leftovers
        #: When the cloud has told the price of a type last, by its name.
        self._prices_told_at = prices_told_at
        #: The prices of now.
        self._prices = prices
        #: When the TLS certificate ends, None where there is none.
        self._certificate_ends_at = certificate_ends_at
        #: How traces are sent, None where none are.
        self._traces = traces
        #: What came of the times of periodic jobs' schedules, for who launches.
        self.launches: Counter[LaunchResult] = Counter()
        self._now = 0.0
        self._problems: Sequence[Problem] = ()
        self._vitals: Vitals | None = None
        self._process: ProcessVitals | None = None
        self._ledger = ledger.NOTHING_READ
        self._rates = ledger.RateMemory()
        self._registry = CollectorRegistry(auto_describe=False)
        self._registry.register(self)
        ProcessCollector(registry=self._registry)

    def exposition(
        self,
        now: float,
        *,
        problems: Sequence[Problem] = (),
        vitals: Vitals | None = None,
        of_process: ProcessVitals | None = None,
        of_ledger: ledger.LedgerNow = ledger.NOTHING_READ,
    ) -> bytes:
        """Return the text exposition of this moment; `now` in seconds since the epoch.

        `problems` are what is wrong, `vitals` how store and disk do, `of_process` how the process
        does, each None to leave that out; `of_ledger` is what was read of the ledger last.
        """
        self._now, self._problems, self._vitals = now, problems, vitals
        self._process, self._ledger = of_process, of_ledger
        return generate_latest(self._registry)

    def collect(self) -> Iterator[Metric]:
        """Yield all metric families (Prometheus' collector interface)."""
        view, pool = self._view, self._view.pool
        yield from instances.by_category(view, self._prices())
        yield from instances.probe_ages(pool, self._heard_at, self._now)
        yield from instances.lives(pool.statistics)
        yield from instances.waste(view.preemptible_waste())
        yield instances.price_ages(self._prices_told_at(), self._now)
        yield from leaks.families(view, self._now, self._leftovers(), self._prices())
        yield from cloud.families(pool.statistics)
        yield from containers.families(view, self._now)
        yield from jobs.families(view, self._now)
        yield jobs.launches(self.launches)
        yield from scheduling.families(view, self._now)
        yield process.problem(self._problems)
        yield process.sessions(pool)
        yield process.certificate(self._certificate_ends_at())
        yield from process.traces_sent(self._traces())
        yield from ledger.families(view, self._rates, self._ledger, self._now)
        if self._process is not None:
            yield from process.families(self._process)
        if self._vitals is not None:
            yield from store.families(self._vitals)
