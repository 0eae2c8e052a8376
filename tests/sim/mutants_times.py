"""Planted defects of held jobs, how jobs end, and times: limits, grace periods, not_before."""

from __future__ import annotations

from tests.sim.planting import Mutant

HOLDS = (
    Mutant(
        name="held jobs start after a restart",
        guard="a held job is held after a restart too",
        fault="a crash while a job is held",
        where="longshore.dispatcher.state.dependencies:Workflow._hold_with_job",
        old="if self._jobs.is_held(job_id):",
        new="if False:",
    ),
    Mutant(
        name="a held job goes on",
        guard="who waits for room leaves the queue when its job is held",
        fault="held jobs",
        where="longshore.dispatcher.state.dependencies:Workflow.hold",
        old="table.gates.block(container_id, Gate.JOB_HELD)",
        new="pass",
    ),
    Mutant(
        name="a released job stays held",
        guard="a released job goes on",
        fault="held jobs",
        where="longshore.dispatcher.state.dependencies:Workflow.hold",
        old="table.gates.unblock(container_id, Gate.JOB_HELD)",
        new="pass",
    ),
    Mutant(
        name="a hold is heard by nobody",
        guard="a hold changes who waits for room",
        fault="held jobs",
        where="longshore.dispatcher.state.dependencies:Workflow.hold",
        old="table.wait(table.containers[container_id], now)",
        new="pass",
    ),
)
ENDS = (
    Mutant(
        name="the last exit code counts",
        guard="a job's exit code is the highest of its failed containers",
        fault="jobs of which several fail",
        where="longshore.dispatcher.state.job_registry:JobRegistry.moved",
        old="live.exit_code = max(live.exit_code or 0, container.exit_code)",
        new="live.exit_code = container.exit_code",
    ),
    Mutant(
        name="tallies stay as they were",
        guard="a job counts its containers as they move",
        fault="every job",
        where="longshore.dispatcher.state.job_registry:JobRegistry.moved",
        old="live.tallies[number] = live.tallies[number].moved(before, container.state)",
        new="pass",
    ),
    Mutant(
        name="a job is never done",
        guard="a job has ended when all of its containers have",
        fault="every job",
        where="longshore.dispatcher.state.job_registry:JobRegistry.moved",
        old="live.total = live.total.moved(before, container.state)",
        new="pass",
    ),
    Mutant(
        name="ended jobs are kept",
        guard="a job that has ended is let go of",
        fault="every job",
        where="longshore.dispatcher.state.job_registry:JobRegistry.drain_changes",
        old="if live.job.state.final:",
        new="if False:",
    ),
    Mutant(
        name="a job's end is not journalled",
        guard="a job's end is journalled",
        fault="every job",
        where="longshore.dispatcher.state.job_registry:JobRegistry.drain_changes",
        old="if is_told or live.job.state is not before:",
        new="if is_told:",
    ),
    Mutant(
        name="a job ends with its first container",
        guard="a job has ended when all of its containers have",
        fault="every job",
        where="longshore.dispatcher.state.job_registry:_judged",
        old="if tally.ended < tally.total:",
        new="if not tally.ended:",
    ),
    Mutant(
        name="one cancelled cancels all",
        guard="a job of which some failed has failed",
        fault="cancelled elements",
        where="longshore.dispatcher.state.job_registry:_judged",
        old="if tally.cancelled and (job.cancel_requested or not tally.failed):",
        new="if tally.cancelled:",
    ),
)
TIMES = (
    Mutant(
        name="no time limits",
        guard="what runs for too long is ended",
        fault="time limits",
        where="longshore.dispatcher.state.containers:ContainerTable.running",
        old="self._limit_time(container, attempt)",
        new="pass",
    ),
    Mutant(
        name="time limits are forgotten",
        guard="a time limit outlives the process",
        fault="a crash while something with a limit runs",
        where="longshore.dispatcher.state.containers:ContainerTable.admit",
        old="self._limit_time(container, attempt)",
        new="pass",
    ),
    Mutant(
        name="a limit counts from the claim",
        guard="a time limit counts from the start",
        fault="starts that arrive late",
        where="longshore.dispatcher.state.containers:ContainerTable._limit_time",
        old="attempt.pulled_at or attempt.started_at",
        new="attempt.created_at",
    ),
    Mutant(
        name="a limit by a clock that was ahead",
        guard="nothing runs for longer than its limit after the clock is set back",
        fault="clocks that are set back",
        where="longshore.dispatcher.state.containers:ContainerTable.begin",
        old="self.time_limits.hasten(attempt_id, now + limit_s)",
        new="pass",
    ),
    Mutant(
        name="a limit outlives its attempt",
        guard="who has ended has no limit any more",
        fault="time limits",
        where="longshore.dispatcher.state.containers:ContainerTable.close",
        old="self.time_limits.discard(attempt.id)",
        new="pass",
    ),
    Mutant(
        name="over its limit and judged by its exit",
        guard="who was ended for its time limit has failed",
        fault="time limits",
        where="longshore.dispatcher.state.attempt_end:classify",
        old="FAILED and not _ended_in_time(\n        container, end.exit\n    ):",
        new="FAILED and end.exit is None:",
    ),
    Mutant(
        name="who makes way takes its time",
        guard="who makes way for others has no longer between TERM and KILL than all have",
        fault="long grace periods, processes that are deaf to TERM",
        where="longshore.pool.attempts:shorten_grace",
        old="if attempt is not None and attempt.grace_s is not None:",
        new="if False:",
        test="tests/unit/test_evictions.py::test_who_makes_way_has_no_more_time_than_all_get",
    ),
)

TIME_MUTANTS = (*HOLDS, *ENDS, *TIMES)
