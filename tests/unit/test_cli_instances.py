"""What the listing of instances says of each."""

from __future__ import annotations

import asyncio
import re
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from longshore.dispatcher.api.schemas.instances import InstanceAnswer
from longshore.dispatcher.api.schemas.jobs import JobAnswer
from longshore.dispatcher.cli.answers import read
from longshore.dispatcher.cli.commands.instances import instance_row
from longshore.dispatcher.cli.commands.main import main
from longshore.dispatcher.cli.render.job_render import job_fields, job_row
from longshore.pool.tags import without_room
from tests.api_server import serving
from tests.rigs.engine import Rig
from tests.rigs.services import services_over, store_in
from tests.samples import make_container, make_type


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
    assert instance_row(read(document, InstanceAnswer))[-1] == note


def test_the_note_tells_first_when_the_cloud_takes_it_back() -> None:
    document = {"id": "i-1", "state": "running", "last_error": "connect: refused"}
    document["taken_back_at"] = "2026-01-31T23:59:59Z"
    note = instance_row(read(document, InstanceAnswer))[-1]
    assert note == "taken back at 2026-01-31T23:59:59Z; connect: refused"


def test_the_note_tells_first_for_how_long_listings_lack_it() -> None:
    document = {"id": "i-1", "state": "running", "last_error": "connect: refused"}
    document["missing_since"] = (datetime.now(UTC) - timedelta(seconds=125)).isoformat()
    note = instance_row(read(document, InstanceAnswer))[-1]
    assert re.fullmatch(r"missing for 2m\d\ds; connect: refused", note)


def test_the_note_tells_what_its_cloud_says() -> None:
    document = {"id": "i-1", "state": "running", "last_error": "connect: refused"}
    document["cloud_says"] = "the cloud says that it is stopped"
    note = instance_row(read(document, InstanceAnswer))[-1]
    assert note == "the cloud says that it is stopped; connect: refused"


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
    assert instance_row(read(document, InstanceAnswer))[3] == said


@pytest.mark.parametrize(
    ("state", "behavior", "said"),
    [
        ("running", "run", "drain (type not configured)"),
        ("running", "drain", "drain"),
        ("idle", "hold", "hold"),
        ("shutdown", "run", "run"),
    ],
)
def test_what_is_of_a_type_that_is_not_configured_is_told_to_be_drained(
    state: str, behavior: str, said: str
) -> None:
    seen = {"id": "i-1", "state": state, "idle_behavior": behavior}
    seen["instance_type"] = without_room("old").name
    assert instance_row(read(seen, InstanceAnswer))[3] == said


async def test_an_instance_of_a_type_that_is_gone_has_its_price_and_is_said_to_drain(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    rig = Rig(make_type(1))
    rig.submit(make_container(1))
    rig.types = {"t2": make_type(2)}
    rig.crash()
    rig.advance(3)
    with store_in(tmp_path) as store:
        async with services_over(rig, store, tmp_path) as services, serving(services) as (url, _):
            monkeypatch.setenv("LONGSHORE_URL", url)
            assert await asyncio.to_thread(main, ["instances"]) == 0
            assert re.split(r"  +", capsys.readouterr().out.splitlines()[1])[:5] == [
                "i-001",
                "t1 (not configured)",
                "running",
                "drain (type not configured)",
                "$0.123/h",
            ]
            assert await asyncio.to_thread(main, ["instance", "run", "i-001"]) == 0
            assert capsys.readouterr().out == (
                "i-001 is set to run, and drains all the same (type not configured): hold it to "
                "keep it\n"
            )
            assert await asyncio.to_thread(main, ["instance", "hold", "i-001"]) == 0
            assert capsys.readouterr().out == "i-001 is set to hold\n"
            rig.exit("c-1-1")
            assert await asyncio.to_thread(main, ["instance", "drain", "i-001"]) == 0
            assert capsys.readouterr().out == (
                "i-001 is set to drain, and is being shut down: nothing keeps it\n"
            )


def test_long_errors_are_cut_off_in_tables() -> None:
    document = {"id": "i-1", "state": "running", "last_error": "x" * 81}
    assert instance_row(read(document, InstanceAnswer))[-1] == "x" * 79 + "…"
    trouble = {"code": "started_again", "message": "x" * 300}
    seen = read({"id": "j-1", "state": "running", "trouble": trouble}, JobAnswer)
    assert job_row(seen)[-1] == "x" * 79 + "…"
    assert ("trouble", "x" * 300) in job_fields(seen)
    just = read({"id": "i-1", "state": "running", "last_error": "x" * 80}, InstanceAnswer)
    assert instance_row(just)[-1] == "x" * 80
