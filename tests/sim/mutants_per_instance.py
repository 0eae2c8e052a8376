"""Planted defects of system and sysbatch jobs: where they run, when, and at whose cost."""

from __future__ import annotations

from tests.sim.planting import Mutant

PLACES = (
    Mutant(
        name="new instances are overlooked",
        guard="what changes on an instance is looked at",
        fault="system jobs, instances that join",
        where="dispatcher.per_instance.placer:PerInstancePlacer.place",
        old="changed = self._wanted | self._pool.touched",
        new="changed = set(self._wanted)",
    ),
    Mutant(
        name="a job's change is overlooked",
        guard="a job that was held, released or reprioritised is looked at everywhere",
        fault="jobs on every instance that are steered",
        where="dispatcher.per_instance.placer:PerInstancePlacer.changed",
        old="self._whole = True",
        new="pass",
    ),
    Mutant(
        name="what ran once runs again",
        guard="a sysbatch job that has run to its end on an instance is left at that",
        fault="sysbatch jobs",
        where="dispatcher.planner.per_instance:_Turn._fill",
        old="if past.settled and self.job.kind is PerInstanceKind.SYSBATCH:",
        new="if False:",
    ),
    Mutant(
        name="containers outlive their instance",
        guard="a container that waits for an instance ends with it",
        fault="per-instance jobs without room, instances that go",
        where="dispatcher.per_instance.placer:PerInstancePlacer._forget_gone",
        old="self._deeds.end_on_gone(gone, now)",
        new="pass",
    ),
    Mutant(
        name="containers are made anew each time",
        guard="a job has one container for each instance",
        fault="per-instance jobs that wait",
        where="dispatcher.per_instance.deeds:Deeds._waiting",
        old="if known is not None:",
        new="if known is not None and known.attempts:",
    ),
    Mutant(
        name="a held job starts all the same",
        guard="a held job gets nothing new on any instance",
        fault="jobs on every instance that are held",
        where="dispatcher.per_instance.deeds:Deeds._place",
        old="if is_held(job) or container.priority == 0:",
        new="if False:",
    ),
    Mutant(
        name="held instances get new attempts",
        guard="nothing new is placed on a held instance",
        fault="instances that are held",
        where="dispatcher.planner.per_instance_match:closed",
        old="if host.behavior is IdleBehavior.HOLD and not job.on_paused:",
        new="if False:",
    ),
    Mutant(
        name="draining instances get new attempts",
        guard="nothing new is placed on a draining instance",
        fault="instances that drain",
        where="dispatcher.planner.per_instance_match:closed",
        old="if host.behavior is IdleBehavior.DRAIN:",
        new="if False:",
    ),
    Mutant(
        name="an admin's drain only counts",
        guard="what is broken, or taken back, is drained to per-instance jobs, too",
        fault="instances that the cloud takes back",
        where="dispatcher.per_instance.view:host_of",
        old="if behavior is IdleBehavior.RUN and idle.is_draining(worker):",
        new="if False:",
    ),
    Mutant(
        name="who joins late is served all the same",
        guard="a job without late joiners is not for instances that come after it",
        fault="jobs without late joiners",
        where="dispatcher.planner.per_instance_match:closed",
        old="if not job.late_joiners and host.joined_at > job.revised_at:",
        new="if False:",
    ),
)
UPDATES = (
    Mutant(
        name="one update too many",
        guard="no more updates begin at once than the job allows",
        fault="revisions that need a restart",
        where="dispatcher.planner.per_instance_rounds:Rollout.left",
        old="return max(0, update.max_parallel -",
        new="return max(0, 1 + update.max_parallel -",
    ),
    Mutant(
        name="rounds are forgotten",
        guard="a round keeps those that follow waiting",
        fault="revisions that need a restart",
        where="dispatcher.planner.per_instance:_Turn._rollout_now",
        old="return self.rollout.having_begun(self.begun, self.work.snapshot.now)",
        new="return self.rollout",
    ),
    Mutant(
        name="the old specification starts again",
        guard="what starts is the job's latest revision",
        fault="revisions that need a restart",
        where="dispatcher.per_instance.deeds:Deeds._place",
        old="self._give_spec(container, job)",
        new="pass",
    ),
    Mutant(
        name="an update in place does not last",
        guard="an attempt that is updated in place is one of the new revision",
        fault="revisions that need no restart",
        where="dispatcher.per_instance.deeds:Deeds._update_in_place",
        old="attempt = replace(attempt, revision=_revision(job))",
        new="pass",
    ),
)
OTHERS = (
    Mutant(
        name="nobody is told who evicted him",
        guard="who is evicted knows for which job",
        fault="system jobs without room",
        where="dispatcher.per_instance.deeds:Deeds._evict",
        old="whom = EndingFor(cause=EndingCause.FOR_JOB, of=job.id)",
        new="whom = EndingFor(cause=EndingCause.NOTHING)",
    ),
    Mutant(
        name="equals make way",
        guard="who makes way is 100 points of priority below",
        fault="system jobs without room",
        where="dispatcher.planner.preemption:victims",
        old="if priority - tenant.priority >= MIN_GAP]",
        new="if True]",
    ),
    Mutant(
        name="residents leave before the batch work",
        guard="on a draining instance per-instance attempts end last",
        fault="instances that drain",
        where="dispatcher.per_instance.view:host_of",
        old="has_batch_work=len(worker.attempts) > len(worker.resident)",
        new="has_batch_work=False",
    ),
)
RESIDENTS = (
    Mutant(
        name="residents are not dismissed",
        guard="what belongs to an instance is told of its end",
        fault="system jobs on idle instances",
        where="pool.residents:dismiss",
        old="if not worker.session_up or not ending:",
        new="if True:",
    ),
    Mutant(
        name="residents have no time",
        guard="an instance waits for its residents before it is destroyed",
        fault="system attempts that take a while to end",
        where="pool.residents:are_ending",
        old="attempt.dismissed and not signals.given_up(attempt)",
        new="False",
    ),
    Mutant(
        name="residents are waited for without end",
        guard="no instance waits for its residents for longer than all get",
        fault="system attempts that survive signals",
        where="pool.residents:dismiss",
        old="core.timers.set(TimerKind.DISMISSAL, worker.id, now + patience_s)",
        new="core.timers.set(TimerKind.DISMISSAL, worker.id, now + 100_000.0)",
    ),
    Mutant(
        name="residents keep a drained instance",
        guard="residents do not keep a draining instance",
        fault="instances that drain",
        where="pool.idle:in_use",
        old="for attempt_id in worker.attempts.keys() - worker.resident",
        new="for attempt_id in worker.attempts.keys()",
    ),
    Mutant(
        name="daemons take the places of containers",
        guard="residents do not count among the containers that an instance may have",
        fault="limits of containers on an instance",
        where="pool.model:Worker.busy_with",
        old="return len(self.attempts) - len(self.resident)",
        new="return len(self.attempts)",
    ),
)
ENDS = (
    Mutant(
        name="a job that ran everywhere goes on",
        guard="a sysbatch job without late joiners ends once it has run wherever it should",
        fault="instances that are never ready",
        where="dispatcher.per_instance.placer:PerInstancePlacer._is_any_nearly_done",
        old="if self._may_be_done(job.id) and job.tally.ended == job.tally.total:",
        new="if False:",
    ),
)

PER_INSTANCE_MUTANTS = (*PLACES, *UPDATES, *OTHERS, *RESIDENTS, *ENDS)
