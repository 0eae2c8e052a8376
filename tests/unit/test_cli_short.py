"""What `ps` cuts short and `show` does not, and which limit `explain` points at."""

from __future__ import annotations

from dispatcher.cli.containers import ps_row
from dispatcher.cli.explain import LimitView, WaitingView, summary
from dispatcher.cli.views import ContainerView

WHY = "behind c-5, which is next in line: at quota: max_instances is 1 (position 2 of 4)"


def test_a_row_tells_who_is_next_and_why_in_few_words() -> None:
    seen = ContainerView(id="c-1", state="queued", waiting=WHY)
    assert ps_row(seen)[-1] == "behind c-5 (at quota) (position 2 of 4)"
    assert seen.note() == WHY
    other = ContainerView(id="c-1", state="queued", waiting="no room: none")
    assert ps_row(other)[-1] == "no room: none"


def test_the_limit_that_blocks_is_told_as_such() -> None:
    limits = (
        LimitView(name="max_instances", limit=9, used=9, reached=True),
        LimitView(name="max_hourly_spend_per_user", limit=2.5, blocking=True),
    )
    assert dict(summary(WaitingView(limits=limits)))["limits reached"] == (
        "max_instances: 9 of 9, max_hourly_spend_per_user: 2.5 (keeps it waiting)"
    )
