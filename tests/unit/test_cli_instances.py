"""What the listing of instances says of each."""

from __future__ import annotations

import pytest

from dispatcher.cli.instances import instance_row
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
