"""Planted defects of system and sysbatch jobs: where they run, when, and at whose cost."""

from __future__ import annotations

from tests.sim.planting import Mutant

PLACES = (
    Mutant(
        name="new instances are overlooked",
        guard="what changes on an instance is looked at",
        fault="system jobs, instances that join",
        where="longshore.dispatcher.scheduler.system.controller:SystemScheduler.place",
        old="changed = self._wanted | self._changes.drain()",
        new="changed = set(self._wanted)",
    ),
    Mutant(
        name="a job's change is overlooked",
        guard="a job that was held, released or reprioritised is looked at everywhere",
        fault="jobs on every instance that are steered",
        where="longshore.dispatcher.scheduler.system.controller:SystemScheduler.changed",
        old="self._whole = True",
        new="pass",
    ),
    Mutant(
        name="what ran once runs again",
        guard="a sysbatch job that has run to its end on an instance is left at that",
        fault="sysbatch jobs",
        where="longshore.dispatcher.scheduler.system.plan:_Turn._fill",
        old="if past.settled and self.job.kind is PerInstanceKind.SYSBATCH:",
        new="if False:",
    ),
    Mutant(
        name="refused everywhere, and on it goes",
        guard="a sysbatch job that every instance refuses ends, and says why",
        fault="starts that are refused",
        where="longshore.dispatcher.scheduler.system.controller:SystemScheduler._conclude_what_is_done",
        old="if refused and not job.tally.succeeded:",
        new="if False:",
    ),
    Mutant(
        name="a restart forgets what ran once",
        guard="what a sysbatch job has run is remembered over a restart",
        fault="sysbatch jobs, a crash",
        where="longshore.dispatcher.scheduler.system.controller:SystemScheduler.take_in",
        old="self._past.put(past)",
        new="pass",
        test=(
            "tests/unit/test_per_instance_jobs.py"
            "::test_a_sysbatch_that_succeeded_is_not_run_again_after_a_restart"
        ),
    ),
    Mutant(
        name="lost and unwanted, and run once more",
        guard="a sysbatch attempt that was lost does not run again if its user says so",
        fault="sysbatch jobs, runners that crash",
        where="longshore.dispatcher.scheduler.system.snapshot:_is_settled",
        old="return not runs_again_if_lost(container)",
        new="return False",
        test=(
            "tests/unit/test_per_instance_lost.py"
            "::test_a_sysbatch_attempt_that_is_lost_runs_again_unless_its_user_says_not"
        ),
    ),
    Mutant(
        name="any instance will do",
        guard="an instance that a job does not match gets nothing of it",
        fault="jobs that are for some types only",
        where="longshore.dispatcher.scheduler.system.match:Matching.mismatch",
        old="found = mismatch(host.type, job.spec.constraints)",
        new='found = ""',
    ),
    Mutant(
        name="who exits starts again at once",
        guard="what exits again and again waits before each further start",
        fault="system attempts that exit",
        where="longshore.dispatcher.scheduler.system.plan:_Turn._fill",
        old="if due > self.work.snapshot.now:",
        new="if False:",
    ),
    Mutant(
        name="containers outlive their instance",
        guard="a container that waits for an instance ends with it",
        fault="per-instance jobs without room, instances that go",
        where="longshore.dispatcher.scheduler.system.controller:SystemScheduler._forget_gone",
        old="self._applier.end_on_gone(gone, now)",
        new="pass",
    ),
    Mutant(
        name="containers are made anew each time",
        guard="a job has one container for each instance",
        fault="per-instance jobs that wait",
        where="longshore.dispatcher.scheduler.system.apply:SystemApplier._waiting",
        old="if known is not None:",
        new="if known is not None and known.attempts:",
        test=(
            "tests/unit/test_per_instance_trouble.py"
            "::test_a_daemon_that_finds_no_room_on_an_instance_is_told_until_it_has_some"
        ),
    ),
    Mutant(
        name="a held job starts all the same",
        guard="a held job gets nothing new on any instance",
        fault="jobs on every instance that are held",
        where="longshore.dispatcher.scheduler.system.apply:SystemApplier._place",
        old="if is_held(job) or container.priority == 0:",
        new="if False:",
        test=(
            "tests/unit/test_per_instance_jobs.py"
            "::test_a_held_job_places_nothing_until_it_is_released"
        ),
    ),
    Mutant(
        name="held jobs take room",
        guard="a held job takes no room, and nobody makes way for it",
        fault="jobs on every instance that are held, full instances",
        where="longshore.dispatcher.scheduler.system.plan:_Turn.of",
        old="if job.held:",
        new="if False:",
        test=(
            "tests/unit/test_per_instance_planner.py"
            "::test_a_held_job_is_told_what_it_would_get_and_takes_no_room"
        ),
    ),
    Mutant(
        name="held jobs evict",
        guard="nobody makes way for a held job",
        fault="jobs on every instance that are held, full instances",
        where="longshore.dispatcher.scheduler.system.apply:SystemApplier._evict",
        old="if is_held(job):",
        new="if False:",
    ),
    Mutant(
        name="held instances get new attempts",
        guard="nothing new is placed on a held instance",
        fault="instances that are held",
        where="longshore.dispatcher.scheduler.system.match:closed",
        old="if host.behavior is IdleBehavior.HOLD and not job.on_paused:",
        new="if False:",
    ),
    Mutant(
        name="draining instances get new attempts",
        guard="nothing new is placed on a draining instance",
        fault="instances that drain",
        where="longshore.dispatcher.scheduler.system.match:closed",
        old="if host.behavior is IdleBehavior.DRAIN:",
        new="if False:",
        test=(
            "tests/unit/test_semantics_per_instance_places.py"
            "::test_nothing_new_is_placed_on_a_held_or_draining_instance_unless_the_job_says_so"
        ),
    ),
    Mutant(
        name="an admin's drain only counts",
        guard="what is broken, or taken back, is drained to per-instance jobs, too",
        fault="instances that the cloud takes back",
        where="longshore.dispatcher.scheduler.system.snapshot:host_of",
        old="if behavior is IdleBehavior.RUN and pool.is_draining(worker):",
        new="if False:",
        test=(
            "tests/unit/test_per_instance_placement.py"
            "::test_an_instance_that_the_cloud_takes_back_gets_no_daemon_beside_its_batch_work"
        ),
    ),
    Mutant(
        name="who nobody wants is overlooked",
        guard="nothing starts before what nobody wants has ended on the instance",
        fault="processes that nobody asked for",
        where="longshore.dispatcher.scheduler.system.snapshot:host_of",
        old="and not pool.has_strays(worker.id)",
        new="",
        test=(
            "tests/unit/test_per_instance_jobs.py"
            "::test_nothing_is_placed_where_a_process_that_nobody_wants_is_still_being_ended"
        ),
    ),
    Mutant(
        name="who joins late is served all the same",
        guard="a job without late joiners is not for instances that come after it",
        fault="jobs without late joiners",
        where="longshore.dispatcher.scheduler.system.match:closed",
        old="if not job.late_joiners and host.joined_at > job.revised_at:",
        new="if False:",
    ),
)
UPDATES = (
    Mutant(
        name="one update too many",
        guard="no more updates begin at once than the job allows",
        fault="revisions that need a restart",
        where="longshore.dispatcher.scheduler.system.rollout:Rollout.left",
        old="return max(0, update.max_parallel -",
        new="return max(0, 1 + update.max_parallel -",
    ),
    Mutant(
        name="held instances are updated",
        guard="nothing is updated on a held instance",
        fault="instances that are held, revisions that need a restart",
        where="longshore.dispatcher.scheduler.system.reconcile:_held",
        old="if case.host.behavior is not IdleBehavior.HOLD or case.job.on_paused:",
        new="if True:",
    ),
    Mutant(
        name="attempts end for successors that do not fit",
        guard="an attempt runs on where its successor would have no room",
        fault="revisions that ask for more, on full instances",
        where="longshore.dispatcher.scheduler.system.plan:_Turn._update",
        old="elif room.fits_now(need_, [attempt.resources]):",
        new="elif True:",
        test=(
            "tests/unit/test_per_instance_placement.py"
            "::test_an_attempt_runs_on_where_its_successor_would_not_fit"
        ),
    ),
    Mutant(
        name="rounds are forgotten",
        guard="a round keeps those that follow waiting",
        fault="revisions that need a restart",
        where="longshore.dispatcher.scheduler.system.plan:_Turn._rollout_now",
        old="return self.rollout.having_begun(self.begun, self.work.snapshot.now)",
        new="return self.rollout",
    ),
    Mutant(
        name="the old specification starts again",
        guard="what starts is the job's latest revision",
        fault="revisions that need a restart",
        where="longshore.dispatcher.scheduler.system.apply:SystemApplier._place",
        old="self._give_spec(container, job)",
        new="pass",
    ),
    Mutant(
        name="an update in place does not last",
        guard="an attempt that is updated in place is one of the new revision",
        fault="revisions that need no restart",
        where="longshore.dispatcher.scheduler.system.apply:SystemApplier._update_in_place",
        old="attempt = replace(attempt, revision=revision_of(job))",
        new="pass",
    ),
)
OTHERS = (
    Mutant(
        name="nobody is told who evicted him",
        guard="who is evicted knows for which job",
        fault="system jobs without room",
        where="longshore.dispatcher.scheduler.system.apply:SystemApplier._evict",
        old="whom = StopReason(cause=StopCause.FOR_JOB, of=job.id)",
        new="whom = StopReason(cause=StopCause.NOTHING)",
        test=(
            "tests/unit/test_per_instance_beside_batch.py"
            "::test_who_is_evicted_waits_again_knows_for_whom_and_loses_no_retry"
        ),
    ),
    Mutant(
        name="everybody may evict",
        guard="only those jobs evict that may, by the settings",
        fault="jobs without room that may not evict",
        where="longshore.dispatcher.scheduler.system.evict:preempting",
        old="if not settings.allows(kind_of(request.by), request.priority):",
        new="if False:",
    ),
    Mutant(
        name="equals make way",
        guard="who makes way is 100 points of priority below",
        fault="system jobs without room",
        where="longshore.dispatcher.scheduler.placement.preemption:victims",
        old="if priority - attempt.priority >= MIN_GAP]",
        new="if True]",
    ),
    Mutant(
        name="promised room is given away",
        guard="room that a job waits for is not given to others",
        fault="system attempts that exit, beside batch work",
        where="longshore.dispatcher.scheduler.system.controller:SystemScheduler._keep",
        old="self._kept.update(decided.reserved)",
        new="pass",
    ),
    Mutant(
        name="room that is not free yet is used",
        guard="nothing starts in room that others still take",
        fault="system jobs that many want, attempts that take a while to end",
        where="longshore.dispatcher.scheduler.system.capacity:SystemCapacity.fits_now",
        old="return _fits(self.now, wanted, given) and",
        new="return",
    ),
    Mutant(
        name="a cpu is kept beside the one that is shared",
        guard="a cpu that is kept for those who share one is there for all of them",
        fault="system jobs that share a cpu and end again and again",
        where="longshore.dispatcher.scheduler.system.capacity:SystemCapacity.take",
        old="if self.holds_shared_cpu and shares_a_cpu(wanted):",
        new="if False:",
    ),
    Mutant(
        name="who matters most makes way first",
        guard="who matters least makes way first",
        fault="system jobs without room",
        where="longshore.dispatcher.scheduler.placement.preemption:_taken",
        old="groupby(sorted(willing, key=_loss), key=_priority)",
        new="groupby(sorted(willing, key=_loss, reverse=True), key=_priority)",
        test="tests/unit/test_preemption.py::test_the_lowest_priority_goes_first",
    ),
    Mutant(
        name="more make way than need be",
        guard="nobody makes way without whom there is room all the same",
        fault="system jobs without room",
        where="longshore.dispatcher.scheduler.placement.preemption:_needed",
        old="if trial.short():",
        new="if True:",
        test="tests/unit/test_preemption.py::test_superfluous_ones_are_dropped",
    ),
    Mutant(
        name="residents leave before the batch work",
        guard="on a draining instance per-instance attempts end last",
        fault="instances that drain",
        where="longshore.dispatcher.scheduler.system.snapshot:host_of",
        old="has_batch_work=len(worker.load.attempts) > len(worker.load.resident)",
        new="has_batch_work=False",
        test="tests/unit/test_per_instance_jobs.py::test_what_drains_ends_its_batch_work_first",
    ),
    Mutant(
        name="who ignores a drain ends all the same",
        guard="what ignores drains goes on on a draining instance",
        fault="instances that drain, jobs that ignore it",
        where="longshore.dispatcher.scheduler.system.reconcile:_draining",
        old="and not case.job.ignore_system",
        new="",
    ),
)
RESIDENTS = (
    Mutant(
        name="daemons keep a forgotten instance",
        guard="a start says who keeps no instance that is left alone",
        fault="system jobs",
        where="longshore.dispatcher.scheduler.placement.start:AttemptStarter.start",
        old="resident=bool(container.pinned_to),",
        new="resident=False,",
    ),
    Mutant(
        name="residents are not told to end",
        guard="what belongs to an instance is told of its end",
        fault="system jobs on idle instances",
        where="longshore.pool.shutdown:stop_residents",
        old="if not worker.link.session_up or not ending:",
        new="if True:",
        test=(
            "tests/unit/test_dismissal.py"
            "::test_residents_get_term_and_the_instance_is_destroyed_when_the_last_has_ended"
        ),
    ),
    Mutant(
        name="residents have no time",
        guard="an instance waits for its residents before it is destroyed",
        fault="system attempts that take a while to end",
        where="longshore.pool.shutdown:_is_ending",
        old="attempt.told_to_end and not signals.unkillable(attempt)",
        new="False",
        test=(
            "tests/unit/test_dismissal.py"
            "::test_residents_have_the_longest_grace_of_them_but_no_more_than_all_get"
        ),
    ),
    Mutant(
        name="residents are waited for without end",
        guard="no instance waits for its residents for longer than all get",
        fault="system attempts that survive signals",
        where="longshore.pool.shutdown:_wait",
        old="core.timers.set(TimerKind.DISMISSAL, worker.id, now + patience_s)",
        new="core.timers.set(TimerKind.DISMISSAL, worker.id, now + 100_000.0)",
    ),
    Mutant(
        name="residents keep a drained instance",
        guard="residents do not keep a draining instance",
        fault="instances that drain",
        where="longshore.pool.shutdown:in_use",
        old="for attempt_id in worker.load.attempts.keys() - worker.load.resident",
        new="for attempt_id in worker.load.attempts.keys()",
        test=(
            "tests/unit/test_residents.py"
            "::test_draining_ends_the_batch_work_first_and_the_residents_then"
        ),
    ),
    Mutant(
        name="daemons take the places of containers",
        guard="residents do not count among the containers that an instance may have",
        fault="limits of containers on an instance",
        where="longshore.pool.model:LoadRecord.busy_with",
        old="return len(self.attempts) - len(self.resident)",
        new="return len(self.attempts)",
    ),
)
ENDS = (
    Mutant(
        name="a job that ran everywhere goes on",
        guard="a sysbatch job without late joiners ends once it has run wherever it should",
        fault="instances that are never ready",
        where="longshore.dispatcher.scheduler.system.controller:SystemScheduler._is_any_nearly_done",
        old="return any(job.tally.ended == job.tally.total for job in lives)",
        new="return False",
    ),
)

PER_INSTANCE_MUTANTS = (*PLACES, *UPDATES, *OTHERS, *RESIDENTS, *ENDS)
