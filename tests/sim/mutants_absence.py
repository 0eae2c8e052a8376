"""Planted defects of what decides whether an instance that listings lack is gone."""

from __future__ import annotations

from tests.sim.planting import Mutant

FLICKERS = "instances of any age that listings lack"
LAG = "listings that lag far"

ABSENCE_MUTANTS = (
    Mutant(
        name="new instances must be listed at once",
        guard="an instance that no listing has shown yet has boot_timeout_s",
        fault=LAG,
        where="longshore.pool.absence:is_gone",
        old="if evidence.age_s < settings.boot_timeout_s:",
        new="if False:",
    ),
    Mutant(
        name="missing for a moment",
        guard="an instance is missing for gone_after_s before it counts as gone",
        fault=FLICKERS,
        where="longshore.pool.absence:is_gone",
        old="long = evidence.lacking_s >= settings.gone_after_s",
        new="long = True",
    ),
    Mutant(
        name="unknown is gone",
        guard="that the cloud does not know an id says nothing",
        fault=FLICKERS,
        where="longshore.pool.absence:on_found",
        old="absence.existence = event.existence",
        new="absence.existence = Existence.GONE",
    ),
    Mutant(
        name="destroyed is gone though it runs",
        guard="what runs on an instance that is being destroyed is not lost by one listing",
        fault=FLICKERS,
        where="longshore.pool.absence:_evidence",
        old=" and not _runs_something(core, worker)",
        new="",
    ),
    Mutant(
        name="missing takes work",
        guard="an instance that listings lack gets no new work",
        fault=FLICKERS,
        where="longshore.pool.probing:takes_work",
        old="and not worker.cloud.unseen",
        new="",
    ),
    Mutant(
        name="claims wait for a listing",
        guard="an instance that no listing has shown yet serves its claims once it is reached",
        fault=LAG,
        where="longshore.pool.model:Worker.is_ready",
        old="not self.cloud.unseen",
        new="not self.cloud.remembered",
    ),
    Mutant(
        name="questions during a hold",
        guard="a rate limit holds the questions for instances",
        fault="rate limits",
        where="longshore.pool.absence:on_find_failed",
        old="core.cloud_gate.finds.failed(event.error, now)",
        new="pass",
    ),
    Mutant(
        name="who speaks is missing",
        guard="an instance with a session is there, whatever listings say",
        fault=FLICKERS,
        where="longshore.pool.absence:note",
        old="worker.link.session_up or began_at",
        new="began_at",
    ),
)
