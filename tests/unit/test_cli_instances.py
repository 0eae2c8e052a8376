"""What the listing of instances says of each."""

from __future__ import annotations

import pytest

from dispatcher.cli.instances import instance_row
from dispatcher.cli.job_lines import job_fields, job_row
from dispatcher.cli.job_views import JobView
from dispatcher.cli.views import InstanceView, view


@pytest.mark.parametrize(
    ("broken", "last_error", "note"),
    [
        (None, None, ""),
        ("no disk", None, "no disk"),
        (None, "connect: refused", "connect: refused"),
        # A broken instance that cannot be destroyed: the error of the cloud's is what is to mend.
        ("no disk", "destroy: denied", "no disk; destroy: denied"),
    ],
)
def test_the_note_tells_what_is_broken_and_what_failed_last(
    broken: str | None, last_error: str | None, note: str
) -> None:
    document = {"id": "i-1", "state": "shutdown", "broken": broken, "last_error": last_error}
    assert instance_row(view(document, InstanceView))[-1] == note


def test_the_note_tells_first_when_the_cloud_takes_it_back() -> None:
    document = {"id": "i-1", "state": "running", "last_error": "connect: refused"}
    document["taken_back_at"] = "2026-01-31T23:59:59Z"
    note = instance_row(view(document, InstanceView))[-1]
    assert note == "taken back at 2026-01-31T23:59:59Z; connect: refused"


@pytest.mark.parametrize(
    ("state", "behavior", "broken", "said"),
    [
        ("running", "run", "no disk", "drain (broken)"),
        ("running", "hold", "no disk", "hold"),
        ("shutdown", "run", "no disk", "run"),
        ("running", "run", None, "run"),
    ],
)
def test_what_is_broken_is_told_to_be_drained_unless_somebody_holds_it(
    state: str, behavior: str, broken: str | None, said: str
) -> None:
    document = {"id": "i-1", "state": state, "idle_behavior": behavior, "broken": broken}
    assert instance_row(view(document, InstanceView))[3] == said


def test_long_errors_are_cut_off_in_tables() -> None:
    document = {"id": "i-1", "state": "running", "last_error": "x" * 81}
    assert instance_row(view(document, InstanceView))[-1] == "x" * 79 + "…"
    trouble = {"code": "started_again", "message": "x" * 300}
    seen = view({"id": "j-1", "state": "running", "trouble": trouble}, JobView)
    assert job_row(seen)[-1] == "x" * 79 + "…"
    assert ("trouble", "x" * 300) in job_fields(seen)
    just = view({"id": "i-1", "state": "running", "last_error": "x" * 80}, InstanceView)
    assert instance_row(just)[-1] == "x" * 80
