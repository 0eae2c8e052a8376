"""Planted defects of how the word is taken that the cloud takes an instance back."""

from __future__ import annotations

from tests.sim.planting import Mutant

INTERRUPTION_MUTANTS = (
    Mutant(
        name="the cloud's word is not heard",
        guard="what the cloud takes back gets no new work",
        fault="instances that are taken back, with notice",
        where="longshore.pool.interruption:on_noticed",
        old="worker.health.taken_back(event.at)",
        new="pass",
    ),
    Mutant(
        name="every word is believed",
        guard="only preemptible types are believed to be taken back",
        fault="jobs that forge a notice",
        where="longshore.pool.interruption:on_noticed",
        old="if not worker.type.preemptible:",
        new="if False:",
    ),
    Mutant(
        name="a reclaim is told as a loss",
        guard="an instance that the cloud had said it takes back is told as taken back",
        fault="instances that are taken back, with notice",
        where="longshore.pool.core:PoolCore._remove",
        old="gone = worker.shutdown.reason or taken_back or trigger.value",
        new="gone = worker.shutdown.reason or trigger.value",
        test=(
            "tests/unit/test_interruption.py"
            "::test_what_is_lost_with_it_was_preempted_and_runs_again"
        ),
    ),
    Mutant(
        name="lost instead of preempted",
        guard="what goes with an instance that is taken back is preempted, not lost",
        fault="instances that are taken back, with notice",
        where="longshore.dispatcher.state.attempt_end:classify",
        old="if end.interrupted:",
        new="if end.interrupted and end.exit is not None:",
    ),
    Mutant(
        name="taken back without end",
        guard="what the cloud takes back again and again runs on what it does not",
        fault="instances that are taken back again and again",
        where="longshore.dispatcher.state.restarts:is_lasting",
        old=">= settings.max_reclaimed_attempts",
        new="< 0",
    ),
    Mutant(
        name="whoever made way is spared",
        guard="only what the cloud takes back counts for that",
        fault="containers that are held back, instances that are taken back",
        where="longshore.dispatcher.state.restarts:_is_reclaimed",
        old="attempt.reason.code == INTERRUPTED",
        new="attempt.outcome is AttemptOutcome.PREEMPTED",
    ),
    Mutant(
        name="spot is waited for without end",
        guard="who has no preemptible instance for long gets another",
        fault="a preemptible type of which there is none",
        where="longshore.dispatcher.scheduler.placement.preemptible_market:PreemptibleMarket.update",
        old="now >= since + self._patience_s",
        new="now < since",
    ),
    Mutant(
        name="nobody waits for spot",
        guard="a preemptible type that is short is waited for, for its time",
        fault="a preemptible type of which there is none",
        where="longshore.dispatcher.scheduler.placement.preemptible_market:PreemptibleMarket.update",
        old="now >= since + self._patience_s",
        new="now >= since",
    ),
    Mutant(
        name="the factor counts from what is given up",
        guard="who gives preemptible types up is allowed the cheapest of the others",
        fault="a preemptible type of which there is none",
        where="longshore.dispatcher.scheduler.placement.preemptible:instead_of_scarce",
        old="within([type_ for type_ in fitting if not type_.preemptible])",
        new="[type_ for type_ in within(fitting) if not type_.preemptible]",
    ),
    Mutant(
        name="what was lost costs nothing",
        guard="preemptible types get dearer by what is lost of their use",
        fault="instances that are taken back again and again",
        where="longshore.dispatcher.domain.feasibility:within_price",
        old="as_new(t).effective_usd_per_hour <= limit",
        new="t.price_usd_per_hour <= limit",
    ),
    Mutant(
        name="interrupted and tried again at once",
        guard="whose instances are taken back one after the other waits",
        fault="instances that are taken back again and again",
        where="longshore.dispatcher.state.restarts:FailureHistory.due",
        old="self.interruptions > 1 or",
        new="",
        test=(
            "tests/unit/test_interruption.py"
            "::test_a_container_that_is_taken_along_again_and_again_waits_longer_each_time"
        ),
    ),
    Mutant(
        name="interruptions never wait longer",
        guard="whose instances are taken back one after the other waits longer each time",
        fault="instances that are taken back again and again",
        where="longshore.dispatcher.state.restarts:FailureHistory.longest_delay_s",
        old="doubled_s(_INTERRUPTION_FIRST_S, self.interruptions - 2, _INTERRUPTION_MOST_S)",
        new="_INTERRUPTION_FIRST_S",
        test=(
            "tests/unit/test_interruption.py"
            "::test_a_container_that_is_taken_along_again_and_again_waits_longer_each_time"
        ),
    ),
)
