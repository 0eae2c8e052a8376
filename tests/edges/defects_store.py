"""Planted defects of the store; what they are is told in `defect`."""

from __future__ import annotations

from typing import Final

from tests.edges.defect import EdgeDefect

STORE: Final[tuple[EdgeDefect, ...]] = (
    EdgeDefect(
        name="a_writer_keeps_a_broken_connection",
        guard="A connection on which nothing can begin any more is given up",
        file="dispatcher/store/writer.py",
        old=(
            "            if isinstance(error, StoreReplaced) or not "
            "is_outside_transaction(connection):"
        ),
        new="            if isinstance(error, StoreReplaced):",
        test=(
            "tests/unit/test_store_slow_commit.py"
            "::test_a_connection_that_a_failed_commit_left_in_a_transaction_is_given_up"
        ),
    ),
    EdgeDefect(
        name="the_store_is_synced_at_checkpoints_only",
        guard="What is acknowledged survives a loss of power",
        file="dispatcher/store/sqlite.py",
        old='        "synchronous=FULL",',
        new='        "synchronous=NORMAL",',
        test=("tests/unit/test_store_failures.py::test_a_commit_is_on_the_disk_before_it_is_told"),
    ),
)
