"""Planted defects of the API; what they are is told in `defect`."""

from __future__ import annotations

from typing import Final

from tests.edges.defect import EdgeDefect

API: Final[tuple[EdgeDefect, ...]] = (
    EdgeDefect(
        name="the_wait_for_a_log_begins_after_the_look",
        guard="What comes between a look at a log and the wait is not missed",
        file="dispatcher/api/log_stream.py",
        old=(
            "            # It must wait before we look, or what comes in between would "
            "go unnoticed.\n"
            "            await asyncio.sleep(0)"
        ),
        new="",
        test="tests/unit/test_api_streams.py::test_a_follower_waits_for_news_before_it_looks",
    ),
)
