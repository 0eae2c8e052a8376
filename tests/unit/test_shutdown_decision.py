"""What becomes of an instance, as one table: each trigger of a shutdown, what keeps one, the order.

Unless a row says otherwise: an instance that is ready and in contact, idle since `NOW`, wanted by
nobody, with nothing to fetch.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import reduce

import pytest

from longshore.drivers.interface import Power, Resources
from longshore.pool.model import (
    Absence,
    CloudRecord,
    IdleBehavior,
    LinkRecord,
    LoadRecord,
    PoolSettings,
    ShutdownRecord,
    Worker,
    WorkerState,
)
from longshore.pool.shutdown_decision import (
    Decision,
    Hold,
    Keep,
    KillOnceListed,
    RecheckAt,
    ShutDown,
    ShutdownFacts,
    shutdown_decision,
)
from longshore.pool.tags import without_room
from longshore.pool.transitions import TABLE, Trigger
from tests.samples import make_type

NOW = 10_000.0
SETTINGS = PoolSettings()
IDLE_END = NOW + SETTINGS.idle_timeout_s
PROBE_END = NOW + SETTINGS.probe_timeout_s
BOOT_END = NOW + SETTINGS.boot_timeout_s
LONG_AGO = 1.0

KEEP = Keep()
FACTS = ShutdownFacts(
    asked=None,
    is_claimed=False,
    in_use=False,
    behavior_asked=False,
    spares_unknown=False,
    stalled=False,
    recovered_at=0.0,
)

Fields = dict[str, object]

BOOTING: Fields = {"state": WorkerState.BOOTING, "link.session_up": False, "link.shown": False}
FOUND: Fields = BOOTING | {"state": WorkerState.UNKNOWN}
RUNNING: Fields = {"state": WorkerState.RUNNING}
SILENT: Fields = {"link.session_up": False}
OVERDUE: Fields = SILENT | {"link.last_contact": LONG_AGO, "link.boots_since": LONG_AGO}
IDLED_OUT: Fields = {"state_since": LONG_AGO}
HELD: Fields = {"behavior": IdleBehavior.HOLD}
DRAINS: Fields = {"behavior": IdleBehavior.DRAIN}
REMEMBERED: Fields = {"cloud.remembered": True}
STOPPED: Fields = SILENT | {"cloud.power": Power.STOPPED, "cloud.power_listings": 2}
FAILED: Fields = SILENT | {"cloud.power": Power.FAILED, "cloud.power_listings": 1}
LOG_ON_ITS_WAY: Fields = {"load.unreleased": {"a"}}
MISSING: Fields = {"cloud.absence": Absence(since=LONG_AGO, listings=9)}

KILLED: Fields = {"asked": Trigger.KILLED}
LISTED_AGAIN: Fields = {"asked": Trigger.LISTED_AGAIN}
UNWANTED: Fields = {"asked": Trigger.UNWANTED}
IN_USE: Fields = {"in_use": True}
CLAIMED: Fields = {"is_claimed": True}
STALLED: Fields = {"stalled": True}
AFTER_A_STALL: Fields = {"recovered_at": NOW}
BEHAVIOR_ASKED: Fields = {"behavior_asked": True}
STORE_LOST: Fields = {"spares_unknown": True}


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A case: what is other than usual of a worker, and of the facts, and what follows."""

    says: str
    worker: Fields = field(default_factory=dict)
    facts: Fields = field(default_factory=dict)
    comes_to: Decision


def ends(says: str, trigger: Trigger, worker: Fields, facts: Fields | None = None) -> Row:
    return Row(says=says, worker=worker, facts=facts or {}, comes_to=ShutDown(trigger=trigger))


def keeps(
    says: str, worker: Fields, facts: Fields | None = None, *, until: float | None = None
) -> Row:
    comes_to = KEEP if until is None else RecheckAt(at=until)
    return Row(says=says, worker=worker, facts=facts or {}, comes_to=comes_to)


ENDS = [
    ends("an admin kills it", Trigger.KILLED, RUNNING, KILLED | IN_USE),
    ends("killed though it is held", Trigger.KILLED, HELD, KILLED),
    ends("killed in a stall", Trigger.KILLED, RUNNING, KILLED | STALLED),
    ends("killed, remembered, with a session", Trigger.KILLED, REMEMBERED, KILLED),
    ends("listed again", Trigger.LISTED_AGAIN, FOUND, LISTED_AGAIN),
    ends("listed again, tags that hold it", Trigger.LISTED_AGAIN, FOUND | HELD, LISTED_AGAIN),
    ends("its place is needed", Trigger.UNWANTED, {}, UNWANTED),
    ends("its place is needed, without session", Trigger.UNWANTED, SILENT, UNWANTED),
    ends("two listings say stopped", Trigger.STOPPED, STOPPED | RUNNING, IN_USE),
    ends("stopped while it boots", Trigger.STOPPED, BOOTING | STOPPED),
    ends("stopped, of a lost store", Trigger.STOPPED, BOOTING | STOPPED, STORE_LOST),
    ends("failed before it was ready", Trigger.FAILED, BOOTING | FAILED),
    ends("its boot never ends", Trigger.BOOT_TIMEOUT, BOOTING | OVERDUE),
    ends("found, and never reached", Trigger.BOOT_TIMEOUT, FOUND | OVERDUE),
    ends("a draining one is unheard of", Trigger.BOOT_TIMEOUT, FOUND | OVERDUE | DRAINS),
    ends("silent while it runs something", Trigger.PROBE_TIMEOUT, RUNNING | OVERDUE, IN_USE),
    ends("silent while idle and awaited", Trigger.PROBE_TIMEOUT, OVERDUE, CLAIMED),
    ends("missing from listings, and silent", Trigger.PROBE_TIMEOUT, OVERDUE | MISSING),
    ends("an admin drains it", Trigger.DRAINED, DRAINS),
    ends("an admin drains it while it boots", Trigger.DRAINED, BOOTING | DRAINS),
    ends("strikes, a black hole, KILL survived", Trigger.DRAINED, {"health.verdict": "useless"}),
    ends("it says that it is broken", Trigger.DRAINED, {"health.complaint": "disk"}),
    ends("the cloud takes it back", Trigger.DRAINED, {"health.interruption": "12:00"}),
    ends("its type is not configured", Trigger.DRAINED, {"type": without_room("t")}),
    ends("all that runs was given up", Trigger.DRAINED, RUNNING | DRAINS),
    ends("drained though awaited", Trigger.DRAINED, DRAINS, CLAIMED),
    ends("found empty, and drains", Trigger.DRAINED, FOUND | DRAINS | {"link.shown": True}),
    ends("idle for long", Trigger.IDLE_TIMEOUT, IDLED_OUT),
    ends("idle for long in a stall", Trigger.IDLE_TIMEOUT, IDLED_OUT, STALLED),
    ends("its log never came", Trigger.IDLE_TIMEOUT, IDLED_OUT | LOG_ON_ITS_WAY),
]

KEEPS = [
    keeps("it is being shut down", {"state": WorkerState.SHUTDOWN}, KILLED),
    keeps("it is held", HELD | IDLED_OUT),
    keeps("it is held, and silent", HELD | OVERDUE),
    keeps("it is held, and broken", HELD | {"health.verdict": "useless"}),
    keeps("it is held, and its place is needed", HELD, UNWANTED),
    keeps("its tags are not known", REMEMBERED | OVERDUE),
    keeps("its place is needed, not its log", LOG_ON_ITS_WAY, UNWANTED, until=IDLE_END),
    keeps("its place is needed, and it runs", RUNNING, UNWANTED | IN_USE),
    keeps("one listing says stopped", STOPPED | {"cloud.power_listings": 1}, until=IDLE_END),
    keeps("stopped, and it answers", STOPPED | RUNNING | {"link.session_up": True}, IN_USE),
    keeps("failed after it was ready", FAILED | RUNNING, IN_USE, until=PROBE_END),
    keeps("it boots", BOOTING, until=BOOT_END),
    keeps("it boots, after a stall", BOOTING | OVERDUE, AFTER_A_STALL, until=BOOT_END),
    keeps("it is silent in a stall", RUNNING | OVERDUE, STALLED | IN_USE),
    keeps("after a stall", RUNNING | OVERDUE, AFTER_A_STALL | IN_USE, until=PROBE_END),
    keeps("it runs something", RUNNING, IN_USE),
    keeps("it drains, and runs something", RUNNING | DRAINS, IN_USE),
    keeps("silent, drains, runs", RUNNING | DRAINS | SILENT, IN_USE, until=PROBE_END),
    keeps("it drains, and nobody has looked", FOUND | DRAINS, until=BOOT_END),
    keeps("it drains, and its log comes", DRAINS | LOG_ON_ITS_WAY, until=PROBE_END),
    keeps("it drains, logs wait in a stall", DRAINS | LOG_ON_ITS_WAY, STALLED),
    keeps("it was used just now", {}, until=IDLE_END),
    keeps("it rests", IDLED_OUT | {"health.overloaded_until": NOW + 9}, until=IDLE_END + 9),
    keeps("a claim waits for it", IDLED_OUT, CLAIMED),
    keeps("missing, and it answers", MISSING, until=IDLE_END),
    keeps("missing, and silent for a while", MISSING | SILENT | RUNNING, IN_USE, until=PROBE_END),
]

UNLISTED: Fields = REMEMBERED | SILENT
LATER = [
    Row(says="no listing shows it", worker=UNLISTED, facts=KILLED, comes_to=KillOnceListed()),
]

LOST: Fields = BOOTING | OVERDUE | {"launched_here": False}
HOLDS = [
    Row(says="of a lost store", worker=LOST, facts=STORE_LOST, comes_to=Hold()),
    Row(says="failed, of a lost store", worker=LOST | FAILED, facts=STORE_LOST, comes_to=Hold()),
    ends("its key can be proven", Trigger.BOOT_TIMEOUT, LOST | {"link.secret": "s"}, STORE_LOST),
    ends("somebody said that it may run", Trigger.BOOT_TIMEOUT, LOST, BEHAVIOR_ASKED | STORE_LOST),
]

#: Each is overtaken by the one before it.
ORDER = [
    ends("killed before held", Trigger.KILLED, HELD | STOPPED | IDLED_OUT, KILLED),
    keeps("held before unwanted", HELD | STOPPED | IDLED_OUT, UNWANTED),
    ends("unwanted before stopped", Trigger.UNWANTED, STOPPED | IDLED_OUT, UNWANTED),
    ends("stopped before silent", Trigger.STOPPED, STOPPED | OVERDUE | DRAINS),
    ends("silent before drained", Trigger.PROBE_TIMEOUT, OVERDUE | DRAINS | IDLED_OUT),
    ends("drained before idle", Trigger.DRAINED, DRAINS | IDLED_OUT),
    keeps("the earliest look of two", SILENT, until=min(IDLE_END, PROBE_END)),
]


def made(fields: Fields) -> Worker:
    worker = Worker(
        id="i",
        type=make_type(4),
        token="t",
        launched_here=True,
        appeared_at=NOW,
        state=WorkerState.IDLE,
        state_since=NOW,
        behavior=IdleBehavior.RUN,
        cloud=CloudRecord(address="i:22", listed_at=NOW, listed=True),
        link=LinkRecord(session_up=True, last_contact=NOW, boots_since=NOW, shown=True),
        load=LoadRecord(free=Resources()),
        shutdown=ShutdownRecord(),
    )
    for path, value in fields.items():
        *parts, name = path.split(".")
        setattr(reduce(getattr, parts, worker), name, value)
    return worker


@pytest.mark.parametrize("row", ENDS + KEEPS + LATER + HOLDS + ORDER, ids=lambda row: row.says)
def test_what_becomes_of_an_instance(row: Row) -> None:
    facts = replace(FACTS, **row.facts)  # type: ignore[arg-type] # a row names fields that there are
    assert shutdown_decision(made(row.worker), facts, SETTINGS, NOW) == row.comes_to


def test_every_trigger_of_a_shutdown_has_a_row() -> None:
    told = {row.comes_to.trigger for row in ENDS if isinstance(row.comes_to, ShutDown)}
    moves = [(state, *move) for state, row in TABLE.items() for move in row.items()]
    assert told == {
        trigger
        for state, trigger, after in moves
        if after is WorkerState.SHUTDOWN and state is not WorkerState.SHUTDOWN
    }


@pytest.mark.parametrize("row", ENDS + ORDER, ids=lambda row: row.says)
def test_what_is_decided_is_a_move_that_a_worker_may_make(row: Row) -> None:
    if isinstance(row.comes_to, ShutDown):
        assert row.comes_to.trigger in TABLE[made(row.worker).state]
