"""What was decided lately of instances, and who made way: each once, with its reason."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace

import pytest

from longshore.dispatcher.api.render.overview import decision_list
from longshore.dispatcher.cli.commands.main import main
from longshore.dispatcher.domain.containers import Container
from longshore.dispatcher.service.overview import OverviewService
from longshore.dispatcher.state.decisions import MOST_DECISIONS, DecisionLog
from longshore.dispatcher.state.history import Decision, DecisionKind
from longshore.drivers.errors import InvalidRequest, QuotaError
from longshore.pool.messages import CreateFailed, CreateInstance
from longshore.pool.model import Launch, Payer
from tests.cli_server import CliServer, cli_server
from tests.rigs.api import ApiRig
from tests.rigs.engine import Rig, last_commands
from tests.samples import make_container, make_type


def kept(rig: Rig, *kinds: DecisionKind) -> list[Decision]:
    """Return what was decided, the earliest first."""
    found = rig.view.decisions(kinds=frozenset(kinds) or None, before=None, limit=100)
    return found[::-1]


def of(project: str, number: int, *, priority: int = 500) -> Container:
    return replace(make_container(number, cpus=4, priority=priority), project=project)


def test_an_instance_is_bought_for_somebody_and_shut_down_for_a_reason() -> None:
    rig = Rig(make_type(4))
    rig.submit(of("vision", 1))
    [bought] = kept(rig)
    assert bought.kind is DecisionKind.BOUGHT
    assert bought.instance_type == "t4"
    assert "for c-1" in bought.message or "in vision" in bought.message
    assert "USD an hour" in bought.message
    rig.exit("c-1-1")
    rig.advance(3600.0)
    ends = kept(rig, DecisionKind.SHUT_DOWN)
    assert len(ends) == 1, "told once, however often it is asked for"
    assert "idle" in ends[0].message
    assert ends[0].instance_id


def test_creates_that_are_held_are_told_once_with_the_reason() -> None:
    rig = Rig(make_type(4))
    rig.silent.add(CreateInstance)
    rig.submit(of("a", 1))
    [create] = last_commands(rig, CreateInstance)
    error = QuotaError("no more than 0 instances")
    rig.send(CreateFailed(op_id=create.op_id, token=create.launch.token, error=error))
    [held] = kept(rig, DecisionKind.CREATES_HELD)
    assert "no more than 0 instances" in held.message
    assert "quota" in held.message


def test_only_the_latest_are_kept_and_they_come_in_pages() -> None:
    log = DecisionLog()
    type_ = make_type(4)
    for number in range(MOST_DECISIONS + 5):
        launch = Launch(
            token=f"token-{number}",
            type_name=type_.name,
            secret="",
            created_at=0.0,
            payer=Payer(project="p", user="ann", job_name="align"),
        )
        command = CreateInstance(op_id=number, launch=launch, instance_type=type_, tags=())
        log.take_in([command, command], (), 5.0 + number)
    assert log.since == 5.0
    first = log.latest(kinds=None, before=None, limit=2)
    assert [each.number for each in first] == [MOST_DECISIONS + 5, MOST_DECISIONS + 4]
    assert first[0].message.endswith("for align of ann in p")
    rest = log.latest(kinds=None, before=first[-1].number, limit=MOST_DECISIONS)
    assert [rest[0].number, rest[-1].number] == [MOST_DECISIONS + 3, 6]
    assert log.latest(kinds=frozenset({DecisionKind.MADE_WAY}), before=None, limit=5) == []


def test_a_page_leads_to_the_next_and_no_cursor_is_made_up() -> None:
    rig = Rig(make_type(4))
    rig.submit(of("a", 1))
    rig.submit(of("a", 2))
    service = OverviewService(view=rig.view, now=lambda: rig.now)
    page = service.decisions(kinds=None, cursor="", limit=1)
    assert page.next_cursor is not None
    following = service.decisions(kinds=None, cursor=page.next_cursor, limit=1)
    numbers = [each.items[0].number for each in (page, following)]
    assert numbers == [2, 1]
    assert following.next_cursor is None
    told = decision_list(page)
    assert told.items[0].kind == "bought"
    assert told.recorded_since is not None
    with pytest.raises(InvalidRequest):
        service.decisions(kinds=None, cursor="bm9uZQ==", limit=1)


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[CliServer]:
    with cli_server() as server:
        monkeypatch.setenv("LONGSHORE_URL", server.url)
        yield server


async def drop_one(rig: ApiRig) -> None:
    await rig.add_instance("i-1")


def test_the_command_shows_them(server: CliServer, capsys: pytest.CaptureFixture[str]) -> None:
    server.do(drop_one)
    assert main(["decisions", "--kind", "bought"]) == 0
    assert "nothing was decided since" in capsys.readouterr().out
    assert main(["decisions", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["items"] == []
