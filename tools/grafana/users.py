"""The dashboard of who submits: where is my work?"""

from __future__ import annotations

from typing import Final

from tools.grafana.panels import (
    JOB,
    RATE,
    USD,
    DashboardSpec,
    PanelSpec,
    Query,
    Shape,
    growth,
    one,
    quantiles,
)

USERS: Final = DashboardSpec(
    uid="longshore-users",
    title="Longshore: work",
    description="What waits and why, what runs, and how it ends. `longshore explain ID` says it"
    " of one container.",
    since="now-6h",
    panels=(
        PanelSpec(
            title="Containers",
            description="Those that have not ended, by state.",
            shape=Shape.STACK,
            unit="none",
            queries=one(f"sum by (state) (longshore_containers{JOB})", "{{state}}"),
            width=12,
        ),
        PanelSpec(
            title="Jobs",
            description="Those that have not ended, by state.",
            shape=Shape.STACK,
            unit="none",
            queries=one(f"sum by (state) (longshore_jobs{JOB})", "{{state}}"),
            width=12,
        ),
        PanelSpec(
            title="Without room",
            description="Over quota: no more instances may be had. Short: the cloud has none of"
            " the types that would do.",
            shape=Shape.LINES,
            unit="none",
            queries=(
                Query(
                    expression=f"longshore_containers_not_allocated_over_quota{JOB}",
                    legend="over quota",
                ),
                Query(
                    expression=f"longshore_containers_not_allocated_at_capacity{JOB}",
                    legend="the cloud is short of them",
                ),
            ),
        ),
        PanelSpec(
            title="Held back",
            description="What may not run yet, by why; one may count for several.",
            shape=Shape.STACK,
            unit="none",
            queries=one(f"sum by (why) (longshore_containers_held_back{JOB})", "{{why}}"),
        ),
        PanelSpec(
            title="Longest wait",
            description="How long the one has waited that has done so for longest.",
            shape=Shape.LINES,
            unit="s",
            queries=one(f"longshore_longest_wait_seconds{JOB}", "longest wait"),
        ),
        PanelSpec(
            title="From the queue to the start",
            description="Of those that started of late.",
            shape=Shape.LINES,
            unit="s",
            queries=quantiles("longshore_queue_to_start_seconds"),
        ),
        PanelSpec(
            title="Attempts that ended in this range",
            description="By how they ended. `lost` and `preempted` ones run again by themselves.",
            shape=Shape.BARS,
            unit="short",
            queries=one(growth("longshore_attempts_total", "outcome"), "{{outcome}}"),
        ),
        PanelSpec(
            title="Jobs that ended in this range",
            description="By how they ended.",
            shape=Shape.BARS,
            unit="short",
            queries=one(growth("longshore_jobs_ended_total", "state"), "{{state}}"),
        ),
        PanelSpec(
            title="System, sysbatch and elastic jobs that wait",
            description="Their containers without a place, by the type of their job.",
            shape=Shape.LINES,
            unit="none",
            queries=one(f"longshore_scheduler_containers_waiting{JOB}", "{{type}}"),
            width=12,
        ),
        PanelSpec(
            title="What projects cost an hour",
            description="By the ledger, now: their shares of instances, and what was bought for"
            " them alone.",
            shape=Shape.STACK,
            unit=USD,
            queries=one(f"sum by (project) ({RATE}{JOB})", "{{project}}"),
            width=12,
        ),
    ),
)
