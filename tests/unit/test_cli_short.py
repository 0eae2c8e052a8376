"""What `ps` cuts short and `show` does not, and which limit `explain` points at."""

from __future__ import annotations

from longshore.dispatcher.api.schemas.containers import (
    AttemptAnswer,
    ContainerAnswer,
    UsageAnswer,
    WaitAnswer,
)
from longshore.dispatcher.api.schemas.explain import LimitAnswer, WaitingAnswer
from longshore.dispatcher.cli.commands.containers import ps_row, show_fields
from longshore.dispatcher.cli.commands.explain import summary
from longshore.dispatcher.cli.container_words import note
from longshore.dispatcher.cli.usage_words import usage_fields
from tests.answers import told

WHY = "behind c-5, which is next in line: at quota: max_instances is 1 (position 2 of 4)"


def test_a_row_tells_who_is_next_and_why_in_few_words() -> None:
    wait = told(WaitAnswer, code="behind", behind="c-5", behind_code="at_quota")
    seen = told(
        ContainerAnswer,
        id="c-1",
        state="queued",
        waiting=WHY,
        waiting_for=wait,
        position=2,
        queue_length=4,
    )
    assert ps_row(seen)[-1] == "behind c-5 (at quota) (position 2 of 4)"
    assert note(seen) == WHY
    why = "it waits for j-1 to succeed"
    after = told(WaitAnswer, code="after", behind="j-1")
    seen = told(ContainerAnswer, id="c-1", state="queued", waiting=why, waiting_for=after)
    assert ps_row(seen)[-1] == why
    other = told(ContainerAnswer, id="c-1", state="queued", waiting="no room: none")
    assert ps_row(other)[-1] == "no room: none"


def test_a_row_and_the_page_say_what_is_not_known_of_one_that_should_run() -> None:
    seen = told(ContainerAnswer, id="c-1", state="running", instance="i-1", doubt="nobody knows")
    assert ps_row(seen)[-1] == "i-1 (in doubt)"
    assert ("in doubt", "nobody knows") in show_fields(seen)


def test_a_row_and_the_page_say_what_is_known_of_the_image() -> None:
    pull = told(AttemptAnswer, number=1, pulling_since="2026-01-01T00:00:00Z")
    seen = told(ContainerAnswer, id="c-1", state="running", entrypoint=(), attempts=(pull,))
    assert ps_row(seen)[2] == "pulling"
    assert ("state", "pulling") in show_fields(seen)
    assert ("entrypoint", "none") in show_fields(seen)
    there = told(
        AttemptAnswer,
        number=1,
        pulling_since="2026-01-01T00:00:00Z",
        pulled_at="2026-01-02T00:00:00Z",
        image_digest="sha256:1",
        warning="look out",
    )
    seen = told(
        ContainerAnswer, id="c-1", state="running", entrypoint=("a", "b c"), attempts=(there,)
    )
    assert ps_row(seen)[2] == "running"
    page = dict(show_fields(seen))
    assert (page["image digest"], page["warning"]) == ("sha256:1", "look out")
    assert page["entrypoint"] == "a 'b c'"


def test_the_page_says_what_the_last_attempt_really_took() -> None:
    usage = told(
        UsageAnswer,
        peak_memory_bytes=210 * 2**20,
        cpu_seconds=45.0,
        read_bytes=0,
        written_bytes=10 * 2**20,
    )
    ran = {"started_at": "2026-01-01T00:00:00Z", "finished_at": "2026-01-01T00:00:30Z"}
    attempt = told(AttemptAnswer, number=1, usage=usage, **ran)
    seen = told(ContainerAnswer, id="c-1", state="succeeded", attempts=(attempt,))
    page = dict(show_fields(seen))
    assert page["memory used"] == "210MiB at the peak"
    assert page["cpu time"] == "45.00s (1.50 cpus on average)"
    assert (page["read from disk"], page["written to disk"]) == ("0B", "10MiB")
    assert (page["gpu memory used"], page["gpu utilization"]) == ("", "")
    unmeasured = told(AttemptAnswer, number=1, **ran)
    seen = told(ContainerAnswer, id="c-1", state="succeeded", attempts=(unmeasured,))
    assert "memory used" not in dict(show_fields(seen))


def test_a_gpu_and_a_long_time_are_told_in_words() -> None:
    usage = told(
        UsageAnswer,
        peak_memory_bytes=3,
        mean_memory_bytes=2,
        cpu_seconds=3600.0,
        gpu_peak_memory_bytes=2**30,
        gpu_mean_utilization=0.254,
    )
    page = dict(usage_fields(told(AttemptAnswer, number=1, usage=usage)))
    assert page["memory used"] == "3B at the peak, 2B on average"
    assert page["cpu time"] == "1h00m"
    assert (page["gpu memory used"], page["gpu utilization"]) == ("1GiB at the peak", "25%")
    assert (page["read from disk"], page["written to disk"]) == ("", "")


def test_the_limit_that_blocks_is_told_as_such() -> None:
    limits = (
        told(LimitAnswer, name="max_instances", limit=9, used=9, adds=1, reached=True),
        told(LimitAnswer, name="max_hourly_spend_per_user", limit=2.5, whose="bob", blocking=True),
    )
    assert dict(summary(told(WaitingAnswer, limits=limits)))["limits reached"] == (
        "max_instances: 9 of 9 used, it would add 1; "
        "max_hourly_spend_per_user of bob: 2.5 (keeps it waiting)"
    )
