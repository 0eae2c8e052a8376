"""The dashboard of who runs it: what is wrong, and what do I turn?"""

from __future__ import annotations

from typing import Final

from tools.grafana.panels import (
    JOB,
    DashboardSpec,
    PanelSpec,
    Query,
    Shape,
    growth,
    one,
    quantile,
    quantiles,
)

_CALLS: Final = "longshore_driver_operation_duration_seconds"

_INSTANCES: Final = (
    PanelSpec(
        title="What is wrong",
        description="The kinds of problems that there are; docs/operations.md says what to do.",
        shape=Shape.LINES,
        unit="none",
        queries=one(f"sum by (kind) (longshore_problem{JOB})", "{{kind}}"),
        width=12,
    ),
    PanelSpec(
        title="Instances",
        description="By what they are at; `shutdown` that stays is billed and serves nobody.",
        shape=Shape.STACK,
        unit="none",
        queries=one(f"sum by (category) (longshore_instances{JOB})", "{{category}}"),
        width=12,
    ),
    PanelSpec(
        title="Boots in this range",
        description="Instances that became ready, or went before they were.",
        shape=Shape.BARS,
        unit="short",
        queries=one(growth("longshore_instance_boots_total", "outcome"), "{{outcome}}"),
    ),
    PanelSpec(
        title="From the create to ready",
        description="It should stay well below boot_timeout_s.",
        shape=Shape.LINES,
        unit="s",
        queries=(
            *quantiles("longshore_instance_time_to_ready_seconds", "ready, "),
            *quantiles("longshore_instance_time_to_ssh_seconds", "SSH, "),
        ),
    ),
    PanelSpec(
        title="Instances that went in this range",
        description="By what they were; `shutdown` is how it should be.",
        shape=Shape.BARS,
        unit="short",
        queries=one(growth("longshore_instances_disappeared_total", "state"), "{{state}}"),
    ),
    PanelSpec(
        title="Leaks",
        description="What is billed and not wanted: `longshore leaks` says what to do.",
        shape=Shape.STACK,
        unit="none",
        queries=one(f"sum by (kind) (longshore_leaked_instances{JOB})", "{{kind}}"),
    ),
    PanelSpec(
        title="Sessions",
        description="Each ready instance should have one; how long those were not heard of.",
        shape=Shape.LINES,
        unit="none",
        queries=(
            Query(expression=f"longshore_sessions{JOB}", legend="sessions"),
            Query(
                expression=f"longshore_probe_age_max_seconds{JOB}",
                legend="longest silence, in seconds",
            ),
        ),
    ),
    PanelSpec(
        title="Limits",
        description="1: a quota or max_instances keeps something waiting; creates without answer.",
        shape=Shape.LINES,
        unit="none",
        queries=(
            Query(expression=f"longshore_at_quota{JOB}", legend="at quota"),
            Query(expression=f"longshore_pending_launches{JOB}", legend="pending creates"),
        ),
    ),
    PanelSpec(
        title="Calls of the driver in this range",
        description="By their outcome.",
        shape=Shape.BARS,
        unit="short",
        queries=one(growth("longshore_driver_operations_total", "outcome"), "{{outcome}}"),
    ),
    PanelSpec(
        title="How long calls of the driver take",
        description="95 of 100 take no longer. It should stay well below cloud_call_timeout_s.",
        shape=Shape.LINES,
        unit="s",
        queries=one(
            "histogram_quantile(0.95, sum by (le, operation) "
            f"(rate({_CALLS}_bucket{JOB}[$__rate_interval])))",
            "{{operation}}",
        ),
    ),
    PanelSpec(
        title="Probes",
        description="How long they take, by what came of them.",
        shape=Shape.LINES,
        unit="s",
        queries=quantiles("longshore_run_probe_duration_seconds"),
    ),
)

_SERVER: Final = (
    PanelSpec(
        title="Planning passes",
        description="How long an event with a pass takes. Near 1 s the engine is overloaded.",
        shape=Shape.LINES,
        unit="s",
        queries=quantiles("longshore_planning_pass_duration_seconds"),
    ),
    PanelSpec(
        title="The loop",
        description="How long a turn of the engine takes, and by how much the event loop is late.",
        shape=Shape.LINES,
        unit="s",
        queries=(
            Query(
                expression=quantile(0.95, "longshore_engine_turn_duration_seconds"),
                legend="a turn, 95 %",
            ),
            Query(
                expression=quantile(0.95, "longshore_event_loop_delay_seconds"),
                legend="late, 95 %",
            ),
        ),
    ),
    PanelSpec(
        title="Commits of the store",
        description="Above 1 s the disk is slow.",
        shape=Shape.LINES,
        unit="s",
        queries=quantiles("longshore_store_commit_duration_seconds"),
    ),
    PanelSpec(
        title="What waits inside",
        description="Events for the engine, and changes for the disk; both have limits.",
        shape=Shape.LINES,
        unit="none",
        queries=(
            Query(expression=f"longshore_inbox_events{JOB}", legend="events"),
            Query(expression=f"longshore_store_pending_writes{JOB}", legend="writes"),
        ),
    ),
    PanelSpec(
        title="Room on disks",
        description="Below 512 MiB it is told as a problem.",
        shape=Shape.LINES,
        unit="bytes",
        queries=(
            Query(expression=f"longshore_disk_free_bytes{JOB}", legend="free for {{directory}}"),
            Query(expression=f"longshore_store_bytes{JOB}", legend="the store's {{file}}"),
        ),
    ),
    PanelSpec(
        title="The process",
        description="Memory that grows by the week though no more waits or runs is worth a report.",
        shape=Shape.LINES,
        unit="bytes",
        queries=one(f"process_resident_memory_bytes{JOB}", "memory"),
    ),
)

OPERATORS: Final = DashboardSpec(
    uid="longshore-operators",
    title="Longshore: operations",
    description="How instances, the cloud and the server do.",
    since="now-6h",
    panels=(*_INSTANCES, *_SERVER),
)
