"""An admin's hold has a reason, an author, a time and, if wished, an end, after a restart too."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from longshore.dispatcher.cli.commands.main import main
from longshore.dispatcher.domain.messages import BehaviorRequested
from longshore.pool.core import MOST_NOTES_OF_GONE
from longshore.pool.messages import DestroyInstance
from longshore.pool.model import BehaviorNote, IdleBehavior, PoolSettings
from tests.cli_server import CliServer, cli_server
from tests.rigs.engine import Rig, last_commands
from tests.samples import make_container, make_type

Capture = pytest.CaptureFixture[str]
IDLE_S = 30.0


def idle_rig() -> Rig:
    """Return an engine with one instance on which nothing runs any more."""
    rig = Rig(make_type(1), pool=PoolSettings(idle_timeout_s=IDLE_S, sync_interval_s=10))
    rig.submit(make_container(1))
    rig.exit("c-1-1")
    return rig


def ask(rig: Rig, behavior: IdleBehavior, *, until: float | None = None) -> BehaviorNote:
    note = BehaviorNote(behavior=behavior, reason="a look at it", by="ann", at=rig.now, until=until)
    rig.send(BehaviorRequested(worker_id="i-001", behavior=behavior, note=note))
    return note


def behavior(rig: Rig) -> IdleBehavior:
    return rig.engine.pool.workers["i-001"].behavior


def test_a_hold_ends_at_its_end_and_the_instance_is_shut_down_when_it_is_idle_for_long() -> None:
    rig = idle_rig()
    note = ask(rig, IdleBehavior.HOLD, until=rig.now + 3600)
    assert rig.engine.pool.workers["i-001"].note == note
    rig.advance(3599)
    assert behavior(rig) is IdleBehavior.HOLD
    assert last_commands(rig, DestroyInstance) == []
    rig.advance(2)
    assert [each.instance_id for each in last_commands(rig, DestroyInstance)] == ["i-001"], (
        "it has been idle for long by then"
    )


def test_one_that_is_at_work_goes_on_working_when_its_hold_ends() -> None:
    rig = Rig(make_type(1), pool=PoolSettings(idle_timeout_s=IDLE_S, sync_interval_s=10))
    rig.submit(make_container(1))
    ask(rig, IdleBehavior.HOLD, until=rig.now + 60)
    rig.advance(61)
    worker = rig.engine.pool.workers["i-001"]
    assert (worker.behavior, worker.note) == (IdleBehavior.RUN, None)
    assert rig.instances["i-001"].note is None


def test_a_hold_without_an_end_stays() -> None:
    rig = idle_rig()
    ask(rig, IdleBehavior.HOLD)
    rig.advance(100_000)
    assert behavior(rig) is IdleBehavior.HOLD


def test_another_word_takes_the_end_of_the_first_away() -> None:
    rig = idle_rig()
    ask(rig, IdleBehavior.HOLD, until=rig.now + 60)
    later = ask(rig, IdleBehavior.HOLD)
    rig.advance(3600)
    assert behavior(rig) is IdleBehavior.HOLD
    assert rig.engine.pool.workers["i-001"].note == later


@pytest.mark.parametrize("down_s", [10.0, 7200.0])
def test_a_restart_knows_who_holds_it_and_until_when(down_s: float) -> None:
    rig = Rig(make_type(1), pool=PoolSettings(idle_timeout_s=IDLE_S, sync_interval_s=10))
    rig.submit(make_container(1))
    note = ask(rig, IdleBehavior.HOLD, until=rig.now + 3600)
    rig.advance(30)
    rig.now += down_s
    rig.crash()
    if down_s < 3600:
        assert rig.engine.pool.workers["i-001"].note == note
        rig.advance(3600 - down_s)
    rig.advance(60)
    assert behavior(rig) is IdleBehavior.RUN
    assert rig.instances["i-001"].note is None


@pytest.mark.parametrize(("held_h", "gone_h"), [(6.0, 2.0), (2.0, 6.0)])
def test_a_hold_ends_also_where_its_instance_was_gone_for_hours(
    held_h: float, gone_h: float
) -> None:
    rig = idle_rig()
    note = ask(rig, IdleBehavior.HOLD, until=rig.now + held_h * 3600)
    rig.advance(60)
    seen = rig.cloud.pop("i-001")
    rig.advance(600)
    assert "i-001" not in rig.engine.pool.workers
    rig.advance(gone_h * 3600 - 600)
    rig.cloud["i-001"] = seen
    rig.advance(60)
    if gone_h < held_h:
        assert (behavior(rig), rig.engine.pool.workers["i-001"].note) == (IdleBehavior.HOLD, note)
        rig.advance((held_h - gone_h) * 3600 - 200)
        assert behavior(rig) is IdleBehavior.HOLD
    rig.advance(300)
    assert "i-001" in [each.instance_id for each in last_commands(rig, DestroyInstance)]


def test_of_those_that_are_gone_few_notes_are_kept() -> None:
    rig = idle_rig()
    pool = rig.engine.pool
    ask(rig, IdleBehavior.HOLD)
    for number in range(MOST_NOTES_OF_GONE + 5):
        pool.asked_notes[f"i-gone-{number}"] = pool.asked_notes["i-001"]
    pool.forget("i-gone-7")
    left = [each for each in pool.asked_notes if each != "i-001"]
    assert (len(left), left[0]) == (MOST_NOTES_OF_GONE, "i-gone-5")
    assert "i-001" in pool.asked_notes


def test_a_note_says_nothing_of_another_behavior() -> None:
    rig = idle_rig()
    ask(rig, IdleBehavior.HOLD)
    worker = rig.engine.pool.workers["i-001"]
    worker.behavior = IdleBehavior.DRAIN
    assert worker.note is None


# ---- as it is asked for and shown ----------------------------------------------------------------


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[CliServer]:
    with cli_server() as running:
        running.do(lambda rig: rig.add_instance("i-1"))
        monkeypatch.setenv("LONGSHORE_URL", running.url)
        yield running


@pytest.mark.usefixtures("server")
def test_who_holds_an_instance_why_and_until_when_is_shown(capsys: Capture) -> None:
    end = "2099-01-01T00:00:00Z"
    assert main(["instance", "hold", "i-1", "--reason", "disk makes noises"]) == 0
    assert capsys.readouterr().out == "i-1 is set to hold\n"
    assert main(["instance", "show", "i-1"]) == 0
    shown = capsys.readouterr().out
    assert re.search(r"hold by anonymous since 20[0-9TZ:-]+: disk makes noises", shown)
    assert main(["instances"]) == 0
    assert "disk makes noises" in " ".join(capsys.readouterr().out.split())
    assert main(["instance", "drain", "i-1", "--until", end]) == 2
    assert "No such option" in capsys.readouterr().err


def test_what_is_wrong_with_a_hold_is_told_at_once(server: CliServer, capsys: Capture) -> None:
    del server
    assert main(["instance", "hold", "i-1", "--until", "2001-01-01T00:00:00Z"]) == 2
    assert "is over already: name a moment to come" in capsys.readouterr().err
    assert main(["instance", "hold", "i-1", "--until", "+900d"]) == 2
    assert "is over a year ahead" in capsys.readouterr().err
    assert main(["instance", "hold", "i-1", "--until", "+2h"]) == 0
    assert capsys.readouterr().out.startswith("i-1 is set to hold until 20")
