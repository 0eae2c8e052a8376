"""All that a door to the dispatcher is given: one service a resource, over one store and engine."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from longshore.dispatcher.config.model import CostConfig, EngineName, LimitsConfig
from longshore.dispatcher.cost.focus import FocusContext
from longshore.dispatcher.domain.policies import NO_POLICIES, Policies
from longshore.dispatcher.engine.runtime import Runtime
from longshore.dispatcher.engine.view import EngineView
from longshore.dispatcher.explain.health import unreached
from longshore.dispatcher.logs.store import LogStore
from longshore.dispatcher.metrics.exposition import Metrics
from longshore.dispatcher.service.admission import AdmissionController
from longshore.dispatcher.service.audit import AuditService
from longshore.dispatcher.service.budgets import BudgetService, BudgetSettings
from longshore.dispatcher.service.containers import ContainerService
from longshore.dispatcher.service.cost_exports import UNKNOWN_BILLER, CostExports
from longshore.dispatcher.service.cost_gauges import CostGauges
from longshore.dispatcher.service.cost_reconciling import Reconciler
from longshore.dispatcher.service.cost_views import CostViews, make_cost_views
from longshore.dispatcher.service.costs import CostService
from longshore.dispatcher.service.efficiency import EfficiencyService
from longshore.dispatcher.service.estimates import EstimateService
from longshore.dispatcher.service.events import Broker, ContainerNotifier
from longshore.dispatcher.service.health import HealthService, Watched
from longshore.dispatcher.service.instances import (
    InstanceService,
    InstanceTellers,
    Leftovers,
    Prices,
    as_bought,
    no_leftovers,
)
from longshore.dispatcher.service.jobs import JobService
from longshore.dispatcher.service.logs import LogService
from longshore.dispatcher.service.measuring import Measuring
from longshore.dispatcher.service.overview import OverviewService
from longshore.dispatcher.service.secrets import SecretService
from longshore.dispatcher.service.spent import SpentService
from longshore.dispatcher.service.telling import Sender, Teller
from longshore.dispatcher.service.timeline import TimelineService
from longshore.dispatcher.service.tokens import TokenService
from longshore.dispatcher.store.store import Store
from longshore.dispatcher.store.vault import Vault
from longshore.drivers.interface import InstanceType

DEFAULT_COST = CostConfig()
NO_BUDGETS = BudgetSettings()


@dataclass(frozen=True, slots=True, kw_only=True)
class Services:
    """What a door may ask for, each part by itself; used on the loop's thread."""

    containers: ContainerService
    jobs: JobService
    instances: InstanceService
    logs: LogService
    events: Broker
    health: HealthService
    tokens: TokenService
    audit: AuditService
    secrets: SecretService
    costs: CostService
    exports: CostExports
    reconciler: Reconciler
    efficiency: EfficiencyService
    estimates: EstimateService
    spent: SpentService
    budgets: BudgetService
    timeline: TimelineService
    cost_views: CostViews
    overview: OverviewService
    #: With the Prometheus text exposition.
    measuring: Measuring


def make_services(
    *,
    runtime: Runtime,
    vault: Vault,
    logs: LogStore,
    broker: Broker,
    watchers: ContainerNotifier,
    metrics: Metrics,
    types: Sequence[InstanceType],
    now: Callable[[], float],
    new_id: Callable[[], str],
    random_bytes: Callable[[int], bytes],
    heard_at: Callable[[str], float],
    engine: EngineName,
    limits: LimitsConfig,
    policies: Policies = NO_POLICIES,
    cost: CostConfig = DEFAULT_COST,
    budgets: BudgetSettings = NO_BUDGETS,
    sender: Sender | None = None,
    biller: FocusContext = UNKNOWN_BILLER,
    leftovers: Leftovers = no_leftovers,
    prices: Prices = as_bought,
    watched: Sequence[Watched] = (),
) -> Services:
    """Return the services of one dispatcher.

    `new_id` gives the random part of ids, `random_bytes` so many that nobody guesses; `heard_at`
    is when a worker's session was last heard, `leftovers` what stays of instances that are gone,
    `prices` those of now; `engine` is what instances are to run containers with, and `limits`
    bound what may wait. `vault` has the secrets, and the store; `watched` is what may go wrong,
    `budgets` what is looked at of `cost`, `biller` whose bills are. `sender` is None for nobody.
    """
    view, store = runtime.view, vault.store
    admission = AdmissionController(
        runtime=runtime, vault=vault, types=types, engine=engine, limits=limits, policies=policies
    )
    health = HealthService(runtime=runtime, vault=vault, logs=logs, now=now, watched=watched)
    unreached_now = _unreached(view, now, heard_at)
    gauges = CostGauges(store=store, now=now, labels=cost.labels)
    looked_at = _budgets(runtime, store, Teller(store, broker, sender, now), budgets, now)
    containers = ContainerService(
        view=view, admission=admission, store=store, now=now, new_id=new_id, unreached=unreached_now
    )
    told = InstanceTellers(heard_at=heard_at, leftovers=leftovers, prices=prices)
    return Services(
        containers=containers,
        jobs=JobService(runtime=runtime, admission=admission, store=store, now=now, new_id=new_id),
        instances=InstanceService(view=view, admission=admission, store=store, now=now, told=told),
        secrets=SecretService(runtime=runtime, admission=admission, vault=vault, now=now),
        logs=LogService(
            containers=containers, view=view, logs=logs, watchers=watchers, unreached=unreached_now
        ),
        events=broker,
        health=health,
        tokens=TokenService(store=store, known=store.tokens(), now=now, random_bytes=random_bytes),
        costs=_costs(store, cost, now),
        exports=CostExports(store=store, now=now, context=biller),
        reconciler=Reconciler(store=store, now=now, labels=cost.labels, cluster=biller.cluster),
        audit=AuditService(store=store, last=store.last_audit_sequence(), now=now),
        budgets=looked_at,
        efficiency=EfficiencyService(view=view, store=store, now=now),
        estimates=EstimateService(policies=policies, view=view, store=store, now=now),
        spent=SpentService(store=store, now=now),
        timeline=TimelineService(store=store, now=now),
        cost_views=make_cost_views(view, store, now, cost=cost, prices=prices),
        overview=OverviewService(view=view, now=now),
        measuring=_measuring(metrics, runtime, health, looked_at, gauges),
    )


def _unreached(
    view: EngineView, now: Callable[[], float], heard_at: Callable[[str], float]
) -> Callable[[str], str]:
    """Return what tells why an instance is not reached now."""

    def unreached_now(instance_id: str) -> str:
        return unreached(view.pool, instance_id, now(), heard_at(instance_id))

    return unreached_now


def _budgets(
    runtime: Runtime,
    store: Store,
    teller: Teller,
    settings: BudgetSettings,
    now: Callable[[], float],
) -> BudgetService:
    return BudgetService(runtime=runtime, store=store, teller=teller, settings=settings, now=now)


def _measuring(
    metrics: Metrics,
    runtime: Runtime,
    health: HealthService,
    budgets: BudgetService,
    gauges: CostGauges,
) -> Measuring:
    return Measuring(metrics=metrics, runtime=runtime, health=health, budgets=budgets, costs=gauges)


def _costs(store: Store, cost: CostConfig, now: Callable[[], float]) -> CostService:
    return CostService(
        store=store,
        now=now,
        labels=cost.labels,
        currency=cost.currency,
        close_after_days=cost.close_after_days,
    )
