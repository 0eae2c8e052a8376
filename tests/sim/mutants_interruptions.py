"""Planted defects of how the word is taken that the cloud takes an instance back."""

from __future__ import annotations

from tests.sim.planting import Mutant

INTERRUPTION_MUTANTS = (
    Mutant(
        name="the cloud's word is not heard",
        guard="what the cloud takes back gets no new work",
        fault="instances that are taken back, with notice",
        where="pool.interruption:on_noticed",
        old="worker.interruption = event.at",
        new="pass",
    ),
    Mutant(
        name="every word is believed",
        guard="only preemptible types are believed to be taken back",
        fault="jobs that forge a notice",
        where="pool.interruption:on_noticed",
        old="if not worker.type.preemptible:",
        new="if False:",
    ),
    Mutant(
        name="lost instead of preempted",
        guard="what goes with an instance that is taken back is preempted, not lost",
        fault="instances that are taken back, with notice",
        where="dispatcher.ledger.outcomes:judge_gone",
        old="if of.interrupted:",
        new="if False:",
    ),
    Mutant(
        name="interrupted and tried again at once",
        guard="whose instances are taken back one after the other waits",
        fault="instances that are taken back again and again",
        where="dispatcher.restarts:Tries.due",
        old="self.interruptions > 1 or",
        new="",
    ),
    Mutant(
        name="interruptions never wait longer",
        guard="whose instances are taken back one after the other waits longer each time",
        fault="instances that are taken back again and again",
        where="dispatcher.restarts:Tries.longest_delay_s",
        old="doubled_s(_INTERRUPTION_FIRST_S, self.interruptions - 2, _INTERRUPTION_MOST_S)",
        new="_INTERRUPTION_FIRST_S",
    ),
)
