"""Metrics of the server's own disk: the store, its commits, and the room that is left.

Stands alone: each subject of the metrics has a module, however few it has.
"""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client.core import GaugeMetricFamily, Metric

from longshore.dispatcher.domain.vitals import Vitals
from longshore.dispatcher.metrics.histograms import histogram


def families(vitals: Vitals) -> Iterator[Metric]:
    """Yield how the store does, and what room there is for it and for logs."""
    store = vitals.store
    yield GaugeMetricFamily(
        "longshore_store_writable",
        "1 while the store can be written: 0, and nothing is taken in, created or ended.",
        value=float(not store.problem),
    )
    sizes = GaugeMetricFamily(
        "longshore_store_bytes",
        "Size of the store's files: the database, and the log of what is not in it yet.",
        labels=("file",),
    )
    sizes.add_metric(("database",), store.database_bytes)
    sizes.add_metric(("wal",), store.wal_bytes)
    yield sizes
    yield GaugeMetricFamily(
        "longshore_store_pending_writes",
        "Containers and changes that wait to be committed.",
        value=store.pending,
    )
    yield histogram(
        "longshore_store_commit_duration_seconds",
        "How long each commit of the store took, which may hold many changes.",
        [((), store.commit_s)],
    )
    free = GaugeMetricFamily(
        "longshore_disk_free_bytes",
        "Bytes free where the store or the logs lie.",
        labels=("directory",),
    )
    inodes = GaugeMetricFamily(
        "longshore_disk_free_inodes",
        "Files that may be made where the store or the logs lie, if their number is limited.",
        labels=("directory",),
    )
    for name, room in (("logs", vitals.logs), ("store", store.room)):
        free.add_metric((name,), room.free_bytes)
        if room.free_inodes is not None:
            inodes.add_metric((name,), room.free_inodes)
    yield from (free, inodes)
