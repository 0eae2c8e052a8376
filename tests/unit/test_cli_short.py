"""What `ps` cuts short and `show` does not, and which limit `explain` points at."""

from __future__ import annotations

from datetime import UTC, datetime

from longshore.dispatcher.cli.commands.containers import ps_row, show_fields
from longshore.dispatcher.cli.commands.explain import LimitView, WaitingView, summary
from longshore.dispatcher.cli.views import AttemptView, ContainerView, WaitView

WHY = "behind c-5, which is next in line: at quota: max_instances is 1 (position 2 of 4)"


def test_a_row_tells_who_is_next_and_why_in_few_words() -> None:
    wait = WaitView(code="behind", behind="c-5", behind_code="at_quota")
    seen = ContainerView(
        id="c-1", state="queued", waiting=WHY, waiting_for=wait, position=2, queue_length=4
    )
    assert ps_row(seen)[-1] == "behind c-5 (at quota) (position 2 of 4)"
    assert seen.note() == WHY
    told = "it waits for j-1 to succeed"
    after = WaitView(code="after", behind="j-1")
    seen = ContainerView(id="c-1", state="queued", waiting=told, waiting_for=after)
    assert ps_row(seen)[-1] == told
    other = ContainerView(id="c-1", state="queued", waiting="no room: none")
    assert ps_row(other)[-1] == "no room: none"


def test_a_row_and_the_page_say_what_is_not_known_of_one_that_should_run() -> None:
    seen = ContainerView(id="c-1", state="running", instance="i-1", doubt="nobody knows")
    assert ps_row(seen)[-1] == "i-1 (in doubt)"
    assert ("in doubt", "nobody knows") in show_fields(seen)


def test_a_row_and_the_page_say_what_is_known_of_the_image() -> None:
    pull = AttemptView(number=1, pulling_since=datetime(2026, 1, 1, tzinfo=UTC))
    seen = ContainerView(id="c-1", state="running", entrypoint=(), attempts=(pull,))
    assert ps_row(seen)[2] == "pulling"
    assert ("state", "pulling") in show_fields(seen)
    assert ("entrypoint", "none") in show_fields(seen)
    there = AttemptView(
        number=1,
        pulling_since=datetime(2026, 1, 1, tzinfo=UTC),
        pulled_at=datetime(2026, 1, 2, tzinfo=UTC),
        image_digest="sha256:1",
        warning="look out",
    )
    seen = ContainerView(id="c-1", state="running", entrypoint=("a", "b c"), attempts=(there,))
    assert ps_row(seen)[2] == "running"
    told = dict(show_fields(seen))
    assert (told["image digest"], told["warning"]) == ("sha256:1", "look out")
    assert told["entrypoint"] == "a 'b c'"


def test_the_limit_that_blocks_is_told_as_such() -> None:
    limits = (
        LimitView(name="max_instances", limit=9, used=9, adds=1, reached=True),
        LimitView(name="max_hourly_spend_per_user", limit=2.5, whose="bob", blocking=True),
    )
    assert dict(summary(WaitingView(limits=limits)))["limits reached"] == (
        "max_instances: 9 of 9 used, it would add 1; "
        "max_hourly_spend_per_user of bob: 2.5 (keeps it waiting)"
    )
