"""Planted defects of holds of instances that have an end."""

from __future__ import annotations

from tests.sim.planting import Mutant

_TIMED = "admins who hold an instance for a time"

STEERING_MUTANTS: tuple[Mutant, ...] = (
    Mutant(
        name="a hold goes on after its end",
        guard="an instance that was held until a time runs again then",
        fault=_TIMED,
        where="longshore.pool.shutdown:_keep_note",
        old="core.timers.set(TimerKind.RELEASE, worker.id, note.until)",
        new="pass",
    ),
    Mutant(
        name="a hold ends before its time",
        guard="a hold lasts until its end",
        fault=_TIMED,
        where="longshore.pool.shutdown:_keep_note",
        old="note.until)",
        new="note.at)",
    ),
    Mutant(
        name="an end before is the end of the next hold",
        guard="what is asked of an instance later has its own end, or none",
        fault=_TIMED,
        where="longshore.pool.shutdown:_keep_note",
        old="    worker.noted = note\n",
        new="    worker.noted = note = note or worker.noted\n",
    ),
    Mutant(
        name="a restart forgets when a hold ends",
        guard="the end of a hold is known after a restart",
        fault=f"{_TIMED}, a crash",
        where="longshore.dispatcher.engine.recovery:_restore_wishes",
        old="pool.asked_notes[record.id] = record.note",
        new="pass",
    ),
    Mutant(
        name="a restart awaits no end of a hold",
        guard="the end of a hold is awaited after a restart",
        fault=f"{_TIMED}, a crash",
        where="longshore.pool.core:PoolCore.add_worker",
        old="self.timers.set(TimerKind.RELEASE, worker.id, worker.noted.until)",
        new="pass",
    ),
)
