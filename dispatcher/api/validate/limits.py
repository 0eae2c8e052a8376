"""What the API bounds and what it fills in, injected by whoever puts the server together."""

from __future__ import annotations

from dataclasses import dataclass

from longshore.dispatcher.domain.containers import PRIORITY_DEFAULT


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiLimits:
    """Every limit of the API; sizes in bytes, times in seconds."""

    connections: int = 512
    #: What a connection has for its first request's head.
    head_timeout_s: float = 10.0
    #: A connection that is idle for this long is closed.
    keep_alive_s: float = 75.0
    request_bytes: int = 16 * 2**20
    list_items: int = 10_000
    job_tasks: int = 10_000
    #: What one container or task may wait for, and what those of one request may in all.
    after_entries: int = 10_000
    after_entries_in_all: int = 300_000
    command_items: int = 10_000
    command_bytes: int = 512 * 2**10
    argument_bytes: int = 128 * 2**10 - 1
    environment_items: int = 10_000
    environment_bytes: int = 2**20
    #: One container's image, command and environment as JSON, since they travel to the runner in
    #: one line of at most 1 MiB.
    order_bytes: int = 2**20 - 16 * 2**10
    labels: int = 64
    #: Shortens pages of large containers.
    page_bytes: int = 16 * 2**20
    body_timeout_s: float = 60.0
    large_body_bytes: int = 256 * 2**10
    concurrent_large_bodies: int = 8
    log_chunk_bytes: int = 256 * 2**10
    concurrent_streams: int = 500
    subscribers: int = 100
    #: Each keeps a thread busy, and the processor.
    concurrent_exports: int = 4
    #: Each has one of the store's few readers; the next wait, of each caller so many.
    cost_questions: int = 2
    waiting_cost_questions: int = 32
    #: A connection that takes nothing of what it is sent for this long is closed.
    write_timeout_s: float = 60.0
    heartbeat_s: float = 15.0
    watch_interval_s: float = 0.5
    log_recheck_s: float = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Defaults:
    """What a request that does not say gets.

    `type_dimensions` are those in which some instance type has a default of its own instead.
    """

    cpu_millis: int = 1000
    memory_bytes: int = 512 * 2**20
    disk_bytes: int = 0
    priority: int = PRIORITY_DEFAULT
    project: str = "default"
    type_dimensions: tuple[str, ...] = ()
