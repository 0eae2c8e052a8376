"""The first metrics: read off the engine's memory at each scrape, so that no gauge can drift."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from dispatcher.engine import Engine
from dispatcher.model import ContainerState
from pool import launching
from pool.core import HoldCause
from pool.model import IdleBehavior, Worker, WorkerState


class Metrics:
    """The exposition of one engine; call on the thread that runs the engine."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._now = 0.0
        self._registry = CollectorRegistry(auto_describe=False)
        self._registry.register(self)

    def exposition(self, now: float) -> bytes:
        """Return the text exposition of this moment; `now` in seconds since the epoch."""
        self._now = now
        return generate_latest(self._registry)

    def collect(self) -> Iterator[Metric]:
        """Yield all metric families (Prometheus' collector interface)."""
        yield from self._instances()
        yield from self._containers()
        yield from self._scheduling()

    def _instances(self) -> Iterator[Metric]:
        names = ("category", "instance_type")
        count = GaugeMetricFamily(
            "longshore_instances", "Instances by category and type.", labels=names
        )
        price = GaugeMetricFamily(
            "longshore_instances_price_usd_per_hour",
            "Price of the instances by category and type.",
            labels=names,
        )
        cpus = GaugeMetricFamily(
            "longshore_instances_cpus", "Cpus by category and type.", labels=names
        )
        memory = GaugeMetricFamily(
            "longshore_instances_memory_bytes", "Memory by category and type.", labels=names
        )
        groups: dict[tuple[str, str], list[Worker]] = {}
        for worker in self._engine.pool.workers.values():
            groups.setdefault((category(worker), worker.type.name), []).append(worker)
        for labels in sorted(groups):
            workers = groups[labels]
            count.add_metric(labels, len(workers))
            price.add_metric(labels, float(sum(w.type.price_usd_per_hour for w in workers)))
            cpus.add_metric(labels, sum(w.type.resources.cpu_millis for w in workers) / 1000)
            memory.add_metric(labels, sum(w.type.resources.memory_bytes for w in workers))
        yield from (count, price, cpus, memory)

    def _containers(self) -> Iterator[Metric]:
        ledger = self._engine.ledger
        states = Counter(c.state for c in ledger.containers.values())
        family = GaugeMetricFamily(
            "longshore_containers", "Containers that have not ended, by state.", labels=("state",)
        )
        for state in ContainerState:
            if not state.final:
                family.add_metric((state.value,), states[state])
        yield family
        waiting = [c.created_at for c in ledger.containers.values() if c.id in ledger.queue]
        yield GaugeMetricFamily(
            "longshore_longest_wait_seconds",
            "Age of the oldest container that waits for a place.",
            value=max(0.0, self._now - min(waiting)) if waiting else 0.0,
        )
        outcomes = CounterMetricFamily(
            "longshore_attempts", "Attempts that ended, by outcome.", labels=("outcome",)
        )
        for outcome in sorted(ledger.outcomes):
            outcomes.add_metric((outcome,), ledger.outcomes[outcome])
        yield outcomes

    def _scheduling(self) -> Iterator[Metric]:
        pool = self._engine.pool
        yield CounterMetricFamily(
            "longshore_planning_passes",
            "Planning passes since the start.",
            value=self._engine.placing.passes,
        )
        yield GaugeMetricFamily(
            "longshore_pending_launches",
            "Create calls whose instance is not known yet.",
            value=sum(1 for p in pool.launches.values() if not p.instance_id),
        )
        hold = launching.creates_hold(pool, self._now)
        yield GaugeMetricFamily(
            "longshore_at_quota",
            "1 while a quota holds creates.",
            value=float(hold is not None and hold[0] is HoldCause.QUOTA),
        )


def category(worker: Worker) -> str:
    """Return the one word under which an instance is counted."""
    if worker.state is WorkerState.SHUTDOWN:
        return "shutdown"
    if worker.behavior is IdleBehavior.HOLD:
        return "hold"
    if worker.state is WorkerState.RUNNING:
        return "in_use"
    return str(worker.state.value)
