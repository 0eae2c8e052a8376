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
)
