"""Planted defects of what the cloud's word that an instance is stopped brings about."""

from __future__ import annotations

from tests.sim.planting import Mutant

_STOPS = "instances that somebody stops"
_WRONGLY = "listings that call stopped what runs"

CONDITION_MUTANTS: tuple[Mutant, ...] = (
    Mutant(
        name="stopped instances are kept",
        guard="an instance that two listings call stopped is ended, and its work goes elsewhere",
        fault=_STOPS,
        where="longshore.pool.shutdown_decision:_told",
        old="return Trigger.STOPPED",
        new="pass",
    ),
    Mutant(
        name="one word ends an instance",
        guard="one listing that calls an instance stopped ends nothing",
        fault=_WRONGLY,
        where="longshore.pool.shutdown_decision:_told",
        old=" and worker.cloud.power_listings > 1",
        new="",
    ),
    Mutant(
        name="a word ends what answers",
        guard="who has a session is there, whatever listings say",
        fault=_WRONGLY,
        where="longshore.pool.shutdown_decision:_told",
        old="if worker.link.session_up:",
        new="if False:",
    ),
    Mutant(
        name="words are added up",
        guard="a listing that says otherwise begins the count anew",
        fault=_WRONGLY,
        where="longshore.pool.listing:_hear_condition",
        old="worker.cloud.power_listings = 1",
        new="worker.cloud.power_listings += 1",
    ),
    Mutant(
        name="a word that is repeated counts twice",
        guard="a listing that tells an instance twice has said once how it stands",
        fault="listings that tell an instance twice",
        where="longshore.pool.listing:_hear_condition",
        old="elif not repeated:",
        new="else:",
    ),
)
