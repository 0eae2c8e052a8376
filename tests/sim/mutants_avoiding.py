"""Planted defects of what instances lose that are there: how often, and where it is tried next."""

from __future__ import annotations

from tests.sim.planting import Mutant

_UNPULLING = "instances on which pulls fail, though their engine works"

AVOIDING_MUTANTS: tuple[Mutant, ...] = (
    Mutant(
        name="who is given up is told of the last loss alone",
        guard="what was lost too often says that it is given up",
        fault=_UNPULLING,
        where="longshore.dispatcher.state.restarts:after",
        old="reason = given_up_reason(container, reason, settings)",
        new="pass",
        test=(
            "tests/unit/test_restart_policy.py"
            "::test_the_reason_of_a_container_that_was_lost_too_often_says_that_it_is_given_up"
        ),
    ),
    Mutant(
        name="one instance uses up all tries",
        guard="what an instance loses that is there counts once for it",
        fault=_UNPULLING,
        where="longshore.dispatcher.state.restarts:FailureHistory._take_in_loss",
        old="self.lost += not self.losses_on[attempt.instance_id]",
        new="self.lost += 1",
    ),
    Mutant(
        name="lost there and placed there again",
        guard="where a container was lost it is not placed while another instance has room",
        fault=_UNPULLING,
        where="longshore.dispatcher.scheduler.batch.plan:_Pass.best",
        old="if not avoided:",
        new="if True:",
    ),
    Mutant(
        name="busy instances are no others",
        guard="who was lost waits for other instances while these are only busy",
        fault=_UNPULLING,
        where="longshore.dispatcher.scheduler.batch.plan:_Pass._elsewhere",
        old="not has_others(line.key, slots, (t.name for t in self.create_limits.with_room(line)))",
        new="True",
    ),
    Mutant(
        name="nothing is bought for who was lost",
        guard="who has room only where it was lost has another instance, if one may be created",
        fault=_UNPULLING,
        where="longshore.dispatcher.scheduler.batch.plan:_Pass._elsewhere",
        old="if why is None:",
        new="if False:",
    ),
    Mutant(
        name="a container is swallowed alone without end",
        guard="one container that is swallowed three times puts the engine on trial",
        fault="instances that swallow what is started there",
        where="longshore.pool.trials:note_end",
        old="max(len(worker.health.swallowed), swallowed.times)",
        new="len(worker.health.swallowed)",
    ),
)
