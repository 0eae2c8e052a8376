"""Planted defects of elastic jobs: who starts when, who makes way, how a job ends, what is kept."""

from __future__ import annotations

from tests.sim.planting import Mutant

ORDER = (
    Mutant(
        name="what a job needs starts at once",
        guard="essential members start by startup_order",
        fault="jobs with an order of their start",
        where="dispatcher.planner.elastic_fates:may_start",
        old="if component.startup_order == first and member.state is MemberState.PLACED",
        new="if member.state is MemberState.PLACED",
    ),
    Mutant(
        name="elastic members start first",
        guard="elastic members start once all essential ones run",
        fault="jobs that grow as they begin",
        where="dispatcher.planner.elastic_fates:may_start",
        old="candidates = essential or [",
        new="candidates = [",
    ),
    Mutant(
        name="rigid jobs begin in part",
        guard="a rigid job begins with all of its members",
        fault="rigid jobs where room is short",
        where="dispatcher.planner.elastic_stage:Stage.needed",
        old="all_of_it = job.mode is ElasticMode.RIGID and not job.is_running",
        new="all_of_it = False",
    ),
    Mutant(
        name="a job begins with some of what it needs",
        guard="a job begins with all of its essential members or not at all",
        fault="jobs that need more than there is",
        where="dispatcher.planner.elastic_stage:Stage.needed",
        old="and member.state is MemberState.WAITING",
        new="and member.state is MemberState.WAITING and member.index == 0",
    ),
    Mutant(
        name="members who are held back start",
        guard="a member that is held back has no place",
        fault="members that are held back",
        where="dispatcher.elastic.placer:ElasticPlacer._look_at",
        old="elif container.priority == 0 or self._is_held(container):",
        new="elif False:",
    ),
)
TURNS = (
    Mutant(
        name="who comes later begins first",
        guard="without backfill nobody overtakes the first job that waits",
        fault="jobs that need more than there is",
        where="dispatcher.planner.elastic:_Pass._ends_before",
        old="if not self._backfill:",
        new="if False:",
    ),
    Mutant(
        name="the policy is overlooked",
        guard="elastic jobs have their turn by the policy",
        fault="jobs that need more than there is",
        where="dispatcher.planner.elastic_order:in_order",
        old="key=lambda job: (_rank(job, settings, now), job.sequence, job.id))",
        new="key=lambda job: (-job.sequence, job.id))",
    ),
)
GIVING = (
    Mutant(
        name="all jobs give back",
        guard="only flexible jobs give elastic members back",
        fault="jobs that wait for what malleable ones use",
        where="dispatcher.planner.elastic_stage:Stage._giveable",
        old="if job.mode is not ElasticMode.FLEXIBLE or not job.is_running:",
        new="if not job.is_running:",
    ),
    Mutant(
        name="what a job needs is given back",
        guard="no essential member makes way",
        fault="jobs that wait for what flexible ones use",
        where="dispatcher.planner.elastic_stage:Stage._giveable",
        old="if component.role is Role.ELASTIC and slot is not None:",
        new="if slot is not None:",
    ),
    Mutant(
        name="who gets room starts at once",
        guard="a member starts once those have ended who made way for it",
        fault="members that make way",
        where="dispatcher.elastic.deeds:Deeds._fits",
        old="fits = charge(wanted, sharers=worker.sharers).fits_in(free)",
        new="fits = free is not None",
    ),
    Mutant(
        name="nothing is kept for elastic jobs",
        guard="the room of members that are not started is kept from others",
        fault="instances that are on their way, or on which somebody makes way",
        where="dispatcher.elastic.passes:ElasticPass._keep",
        old="self.kept = {",
        new="self.kept = {} and {",
    ),
)
ENDS = (
    Mutant(
        name="any exit will do",
        guard="a job fails when an essential member fails",
        fault="essential members that fail",
        where="dispatcher.planner.elastic_fates:_after_essential",
        old="if end.ending is Ending.EXITED and end.exit_code == 0:",
        new="if end.ending is Ending.EXITED:",
    ),
    Mutant(
        name="the first success is enough",
        guard="a job has succeeded when all essential members have",
        fault="essential members that end one by one",
        where="dispatcher.planner.elastic_fates:_finished",
        old="if any(each.state is not MemberState.FINISHED for _, each in _essentials(job)):",
        new="if False:",
    ),
    Mutant(
        name="what runs of a job outlives it",
        guard="what runs of a job ends with it",
        fault="jobs that end while elastic members run",
        where="dispatcher.elastic.placer:ElasticPlacer._conclude",
        old="self._deeds.stop(live, stopping, AttemptOutcome.CANCELLED, ending, now)",
        new="pass",
    ),
    Mutant(
        name="what waits of a job outlives it",
        guard="what waits of a job ends with it",
        fault="jobs that end while members wait",
        where="dispatcher.elastic.placer:ElasticPlacer._conclude",
        old="self._deeds.finish(live, why, now)",
        new="pass",
    ),
    Mutant(
        name="a job goes on without what it needs",
        guard="a job fails of which an essential member is cancelled",
        fault="cancelled members",
        where="dispatcher.elastic.placer:ElasticPlacer._look_at",
        old="if live.is_essential(key):",
        new="if False:",
    ),
    Mutant(
        name="elastic members fail for good",
        guard="an elastic member that ends otherwise than it should is placed again",
        fault="elastic members that fail",
        where="dispatcher.planner.elastic_fates:ended",
        old="if component.role is Role.ELASTIC:",
        new="if False:",
    ),
    Mutant(
        name="who was done is not needed again",
        guard="a job that begins anew runs those again that were done",
        fault="instances that are lost with essential members",
        where="dispatcher.planner.elastic_fates:_queued_again",
        old="_without_place(member) if member.state is MemberState.FINISHED else member",
        new="member",
    ),
    Mutant(
        name="a job begins anew at once",
        guard="a job that lost what it needs waits before it begins anew",
        fault="instances that are lost with essential members",
        where="dispatcher.planner.elastic_fates:_queued_again",
        old="not_before=now + doubled_s(AGAIN_FIRST_S, job.failed_starts, AGAIN_MOST_S),",
        new="not_before=0.0,",
    ),
)
ROOM = (
    Mutant(
        name="what is bought is not claimed",
        guard="what is created for elastic jobs is claimed at once",
        fault="jobs for which instances are created",
        where="dispatcher.elastic.market:Market.buy",
        old="is_new = bool(found.purchases) or self.beyond != before",
        new="is_new = False",
    ),
    Mutant(
        name="elastic jobs have no limit",
        guard="no more members are started than may run at once",
        fault="a limit of containers",
        where="dispatcher.elastic.deeds:Deeds.start",
        old="if most is not None and self._ledger.placed >= most:",
        new="if False:",
    ),
    Mutant(
        name="spare cpus are given to each",
        guard="spare cpus are shared",
        fault="several members on one instance",
        where="dispatcher.planner.elastic_shares:cpu_limits",
        old="spare_millis // len(takers)",
        new="spare_millis",
    ),
    Mutant(
        name="cpus of others are spare",
        guard="only what nobody has reserved is shared",
        fault="members beside batch work",
        where="dispatcher.planner.elastic_shares:unreserved_millis",
        old="left = left.minus(charge(given, sharers=sharers))",
        new="pass",
    ),
    Mutant(
        name="places outlive their instances",
        guard="who is to start on what takes no work any more waits again",
        fault="instances that go before members have started there",
        where="dispatcher.elastic.passes:ElasticPass._give_up_lost_places",
        old="if not has_room:",
        new="if False:",
    ),
)

ELASTIC_MUTANTS = (*ORDER, *TURNS, *GIVING, *ENDS, *ROOM)
