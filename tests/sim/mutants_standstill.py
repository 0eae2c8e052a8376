"""Planted defects of what is done, and not done, while the store cannot be written for long."""

from __future__ import annotations

from tests.sim.planting import Mutant

_FAULT = "a store that is away for minutes"


def _mutant(name: str, guard: str, where: str, old: str, new: str) -> Mutant:
    return Mutant(
        name=name, guard=guard, fault=_FAULT, where=where, old=old, new=new, long_stalls=True
    )


STANDSTILL_MUTANTS: tuple[Mutant, ...] = (
    Mutant(
        name="a standstill is not told",
        guard="the pool is told when its commands have waited for 30 s",
        fault=_FAULT,
        where="longshore.dispatcher.engine.outbox:Outbox.stall_event",
        old="if stalled == self.stalled:",
        new="if True:",
        also=_mutant(
            "nobody looks for it",
            "",
            "longshore.dispatcher.engine.outbox:Outbox.next_stall_event",
            "if self.stalled or not self._batches:",
            "if True:",
        ),
        long_stalls=True,
    ),
    _mutant(
        "a standstill is not noted",
        "while the store is away nobody is judged, and no signal is decided",
        "longshore.pool.store_stall:begin",
        "core.stalled = True",
        "pass",
    ),
    Mutant(
        name="signals are decided in a standstill",
        guard="no signal is decided while it could not be sent",
        fault=_FAULT,
        where="longshore.pool.signals:send_if_wanted",
        old="if core.stalled:",
        new="if False:",
        test=(
            "tests/unit/test_store_stall.py"
            "::test_residents_of_what_is_shut_down_meanwhile_have_their_time_afterwards"
        ),
    ),
    _mutant(
        "a standstill is silence",
        "nobody is judged by silence while no probe goes out",
        "longshore.pool.shutdown_decision:_of_no_use",
        "if facts.stalled:",
        "if False:",
    ),
    _mutant(
        "silence of a standstill counts",
        "everybody has the whole probe_timeout anew once the store is back",
        "longshore.pool.shutdown_decision:_timeout",
        "heard_at = max(worker.link.last_contact, facts.recovered_at)",
        "heard_at = worker.link.last_contact",
    ),
    _mutant(
        "boots of a standstill count",
        "everybody has the whole boot_timeout anew once the store is back",
        "longshore.pool.shutdown_decision:_timeout",
        "max(worker.link.boots_since, facts.recovered_at)",
        "worker.link.boots_since",
    ),
)
