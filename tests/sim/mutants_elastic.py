"""Planted defects of elastic jobs: who starts when, who makes way, how a job ends, what is kept."""

from __future__ import annotations

from tests.sim.planting import Mutant

ORDER = (
    Mutant(
        name="what a job needs starts at once",
        guard="essential members start by startup_order",
        fault="jobs with an order of their start",
        where="longshore.dispatcher.scheduler.elastic.lifecycle:may_start",
        old="if component.startup_order == first and member.state is MemberState.PLACED",
        new="if member.state is MemberState.PLACED",
    ),
    Mutant(
        name="elastic members start first",
        guard="elastic members start once all essential ones run",
        fault="jobs that grow as they begin",
        where="longshore.dispatcher.scheduler.elastic.lifecycle:may_start",
        old="candidates = essential or [",
        new="candidates = [",
    ),
    Mutant(
        name="rigid jobs begin in part",
        guard="a rigid job begins with all of its members",
        fault="rigid jobs where room is short",
        where="longshore.dispatcher.scheduler.elastic.place:ElasticPlacement.needed",
        old="all_of_it = job.mode is ElasticMode.RIGID and not job.is_running",
        new="all_of_it = False",
    ),
    Mutant(
        name="a job begins with some of what it needs",
        guard="a job begins with all of its essential members or not at all",
        fault="jobs that need more than there is",
        where="longshore.dispatcher.scheduler.elastic.place:ElasticPlacement.needed",
        old="and member.state is MemberState.WAITING",
        new="and member.state is MemberState.WAITING and member.index == 0",
    ),
    Mutant(
        name="members who are held back start",
        guard="a member that is held back has no place",
        fault="members that are held back",
        where="longshore.dispatcher.scheduler.elastic.controller:ElasticScheduler._look_at",
        old="elif (why := self._table.why_not_begin(container)) is not None:",
        new="elif (why := self._table.why_not_begin(container)) is not None and not why:",
    ),
)
TURNS = (
    Mutant(
        name="who comes later begins first",
        guard="without backfill nobody overtakes the first job that waits",
        fault="jobs that need more than there is",
        where="longshore.dispatcher.scheduler.elastic.schedule:_Pass._turn",
        old="if self._blocker is not None:",
        new="if False:",
    ),
    Mutant(
        name="the policy is overlooked",
        guard="elastic jobs have their turn by the policy",
        fault="jobs that need more than there is",
        where="longshore.dispatcher.scheduler.elastic.order:in_order",
        old="key=lambda job: (_rank(job, settings, now), job.sequence, job.id))",
        new="key=lambda job: (-job.sequence, job.id))",
    ),
)
GIVING = (
    Mutant(
        name="all jobs give back",
        guard="only flexible jobs give elastic members back",
        fault="jobs that wait for what malleable ones use",
        where="longshore.dispatcher.scheduler.elastic.place:ElasticPlacement._giveable",
        old="if job.mode is not ElasticMode.FLEXIBLE or not job.is_running:",
        new="if not job.is_running:",
        test="tests/unit/test_elastic_controller.py::test_a_malleable_job_gives_nothing_back",
    ),
    Mutant(
        name="what a job needs is given back",
        guard="no essential member makes way",
        fault="jobs that wait for what flexible ones use",
        where="longshore.dispatcher.scheduler.elastic.place:ElasticPlacement._giveable",
        old="if component.role is TaskRole.ELASTIC and slot is not None:",
        new="if slot is not None:",
    ),
    Mutant(
        name="who gets room starts at once",
        guard="a member starts once those have ended who made way for it",
        fault="members that make way",
        where="longshore.dispatcher.scheduler.elastic.apply:ElasticApplier._fits",
        old="fits = charge(wanted, on_shared_cpu=worker.load.on_shared_cpu).fits_in(free)",
        new="fits = free is not None",
    ),
    Mutant(
        name="nothing is kept for elastic jobs",
        guard="the room of members that are not started is kept from others",
        fault="instances that are on their way, or on which somebody makes way",
        where="longshore.dispatcher.scheduler.elastic.run:ElasticPass._keep",
        old="self.reservations = {",
        new="self.reservations = {} and {",
    ),
)
ENDS = (
    Mutant(
        name="any exit will do",
        guard="a job fails when an essential member fails",
        fault="essential members that fail",
        where="longshore.dispatcher.scheduler.elastic.lifecycle:_after_essential",
        old="if end.kind is MemberExitKind.EXITED and end.exit_code == 0:",
        new="if end.kind is MemberExitKind.EXITED:",
    ),
    Mutant(
        name="the first success is enough",
        guard="a job has succeeded when all essential members have",
        fault="essential members that end one by one",
        where="longshore.dispatcher.scheduler.elastic.lifecycle:_finished",
        old="if not all(each.state.is_over for _, each in _essentials(job)):",
        new="if False:",
    ),
    Mutant(
        name="what runs of a job outlives it",
        guard="what runs of a job ends with it",
        fault="jobs that end while elastic members run",
        where="longshore.dispatcher.scheduler.elastic.controller:ElasticScheduler._conclude",
        old="self._applier.stops(live, stopping, AttemptOutcome.CANCELLED, ending)",
        new="[]",
    ),
    Mutant(
        name="what waits of a job outlives it",
        guard="what waits of a job ends with it",
        fault="jobs that end while members wait",
        where="longshore.dispatcher.scheduler.elastic.controller:ElasticScheduler._conclude",
        old="self._applier.finishes(live, why, but)",
        new="[]",
    ),
    Mutant(
        name="a job goes on without what it needs",
        guard="a job fails of which an essential member is cancelled",
        fault="cancelled members",
        where="longshore.dispatcher.scheduler.elastic.controller:ElasticScheduler._look_at",
        old="if live.is_essential(key):",
        new="if False:",
        test=(
            "tests/unit/test_elastic_requests.py"
            "::test_an_essential_container_that_is_cancelled_while_it_waits_fails_the_job"
        ),
    ),
    Mutant(
        name="elastic members fail for good",
        guard="an elastic member that ends otherwise than it should is placed again",
        fault="elastic members that fail",
        where="longshore.dispatcher.scheduler.elastic.lifecycle:ended",
        old="if component.role is TaskRole.ELASTIC:",
        new="if False:",
    ),
    Mutant(
        name="who dies again and again starts at once",
        guard="an elastic member that dies again and again waits longer each time",
        fault="elastic members that fail",
        where="longshore.dispatcher.scheduler.elastic.lifecycle:delay_s",
        old="return doubled_s(AGAIN_FIRST_S, deaths - 2, DEATHS_MOST_S) if deaths > 1 else 0.0",
        new="return 0.0",
    ),
    Mutant(
        name="what is taken back is a job's loss",
        guard="what the cloud takes back does not count among a job's losses",
        fault="instances that the cloud takes back",
        where="longshore.dispatcher.scheduler.elastic.end_reasons:_exit_kind",
        old="return MemberExitKind.START_FAILED",
        new="return MemberExitKind.LOST if code == INTERRUPTED else MemberExitKind.START_FAILED",
    ),
    Mutant(
        name="who was done is not needed again",
        guard="a job that begins anew runs those again that were done",
        fault="instances that are lost with essential members",
        where="longshore.dispatcher.scheduler.elastic.lifecycle:_queued_again",
        old="_without_place(member) if member.state is MemberState.FINISHED else member",
        new="member",
        test=(
            "tests/unit/test_elastic_controller.py"
            "::test_what_had_ended_well_runs_anew_when_its_job_begins_again"
        ),
    ),
    Mutant(
        name="who has ended for good begins anew",
        guard="whose container has ended for good has no place again though its job begins anew",
        fault="cancelled members",
        where="longshore.dispatcher.scheduler.elastic.lifecycle:_queued_again",
        old="_without_place(member) if member.state is MemberState.FINISHED else member",
        new="_without_place(member) if member.state.is_over else member",
    ),
    Mutant(
        name="a job begins anew at once",
        guard="a job that lost what it needs waits before it begins anew",
        fault="instances that are lost with essential members",
        where="longshore.dispatcher.scheduler.elastic.lifecycle:_queued_again",
        old="not_before=now + doubled_s(AGAIN_FIRST_S, job.failed_starts, AGAIN_MOST_S),",
        new="not_before=0.0,",
    ),
)
ROOM = (
    Mutant(
        name="what is bought is not claimed",
        guard="what is created for elastic jobs is claimed at once",
        fault="jobs for which instances are created",
        where="longshore.dispatcher.scheduler.elastic.purchase:ElasticMarket.buy",
        old="bool(found.purchases) or self.infeasible != before or self.over_budget != over_budget",
        new="False",
    ),
    Mutant(
        name="elastic jobs have no limit",
        guard="no more members are started than may run at once",
        fault="a limit of containers",
        where="longshore.dispatcher.scheduler.elastic.apply:ElasticApplier.start",
        old="if most is not None and self._table.placed >= most:",
        new="if False:",
    ),
    Mutant(
        name="spare cpus are given to each",
        guard="spare cpus are shared",
        fault="several members on one instance",
        where="longshore.dispatcher.scheduler.elastic.cpu_shares:cpu_limits",
        old="spare_millis // len(takers)",
        new="spare_millis",
    ),
    Mutant(
        name="limits are told once",
        guard="a new session is told all limits of cpus again",
        fault="limits that go down with their session",
        where="longshore.dispatcher.scheduler.elastic.cpu_shares:SpareCpus._share",
        old="if given is None or given.attached_at != worker.link.attached_at:",
        new="if given is None:",
    ),
    Mutant(
        name="cpus of others are spare",
        guard="only what nobody has reserved is shared",
        fault="members beside batch work",
        where="longshore.dispatcher.scheduler.elastic.cpu_shares:unreserved_millis",
        old="left = left.minus(charge(given, on_shared_cpu=on_shared_cpu))",
        new="pass",
    ),
)

SETTLING = (
    Mutant(
        name="who could stay makes way",
        guard="members that gave way and need not go are put back",
        fault="jobs that wait for what flexible ones use",
        where="longshore.dispatcher.scheduler.elastic.place:ElasticPlacement._take_turn",
        old="back = {assignment.place for assignment in displaced if self._still_fits(assignment)}",
        new="back = set()",
        test=(
            "tests/unit/test_semantics_elastic.py"
            "::test_nothing_is_given_back_that_is_of_no_use_to_who_waits"
        ),
    ),
    Mutant(
        name="what is bought is for anybody",
        guard="who something was bought for goes there",
        fault="several jobs for which instances of both markets are created",
        where="longshore.dispatcher.scheduler.elastic.demand:UnplacedMembers._find",
        old="slot = self._bought_for(job, component)",
        new="slot = None",
        test=(
            "tests/unit/test_elastic_buying.py::test_what_is_bought_for_somebody_is_claimed_for_him"
        ),
    ),
    Mutant(
        name="instances are created at the first sight of a lack",
        guard="where somebody has a place by now it is decided anew before anything is created",
        fault="several jobs for which instances of both markets are created",
        where="longshore.dispatcher.scheduler.elastic.run:ElasticPass._plan",
        old="if not self._may_fare_otherwise(plan):",
        new="if True:",
    ),
)

ELASTIC_MUTANTS = (*ORDER, *TURNS, *GIVING, *ENDS, *ROOM, *SETTLING)
