"""Planted defects of jobs: who waits for whom, how many of an array at once, how a job ends."""

from __future__ import annotations

from tests.sim.planting import Mutant

DEPENDENCIES = (
    Mutant(
        name="nobody waits for others",
        guard="who waits for others is held back until they have ended",
        fault="what is waited for",
        where="longshore.dispatcher.state.dependencies:Workflow._admit_waiting",
        old="if rest or failed is not None:",
        new="if False:",
    ),
    Mutant(
        name="what had ended before is forgotten",
        guard="what had ended before somebody waits for it is told with the submission",
        fault="waiting for what has ended",
        where="longshore.dispatcher.state.dependencies:Workflow._known",
        old="if node in ended:",
        new="if False:",
    ),
    Mutant(
        name="who ended together is cancelled twice",
        guard="who ended together with what it waits for waits no more",
        fault="cancelled jobs",
        where="longshore.dispatcher.state.dependencies:Workflow._propagate_ends",
        old="self._dependencies.drop(container.id)",
        new="pass",
    ),
    Mutant(
        name="who cannot start waits on",
        guard="who waits for what did not succeed is cancelled",
        fault="what fails and is waited for",
        where="longshore.dispatcher.state.dependencies:Workflow._node_ended",
        old="self._cancel_dependent(container_id, node, now)",
        new="pass",
    ),
    Mutant(
        name="elements wait for the whole array",
        guard="element by element each waits for its own",
        fault="arrays element by element",
        where="longshore.dispatcher.state.dependencies:_node",
        old="if not dependency.each or container.array_index is None:",
        new="if True:",
        test="tests/unit/test_workflow_jobs.py::test_elements_wait_for_their_own",
    ),
    Mutant(
        name="the first end is enough",
        guard="who waits for several waits for all",
        fault="what waits for several",
        where="longshore.dispatcher.state.dependencies:Dependencies.ended",
        old="elif not needs:",
        new="elif True:",
    ),
    Mutant(
        name="who has gone is awaited",
        guard="who has gone waits for nothing any more",
        fault="cancels of what waits",
        where="longshore.dispatcher.state.dependencies:Dependencies.drop",
        old="dependents.pop(container_id, None)",
        new="pass",
    ),
    Mutant(
        name="any end will do",
        guard="who waits for success does not start after a failure",
        fault="what fails and is waited for",
        where="longshore.dispatcher.state.dependencies:Dependencies.ended",
        old="if fails(needs.pop(node), succeeded=succeeded):",
        new="if needs.pop(node) is None:",
    ),
    Mutant(
        name="only success will do",
        guard="who waits for the end starts after a failure too",
        fault="what fails and is waited for",
        where="longshore.dispatcher.state.dependencies:fails",
        old="return on is DependencyOn.SUCCESS and not succeeded",
        new="return not succeeded",
    ),
    Mutant(
        name="an earlier failure is overlooked",
        guard="who waits for the success of what had failed before is cancelled",
        fault="waiting for what has ended",
        where="longshore.dispatcher.state.dependencies:failed_among",
        old="if succeeded is not None and fails(on, succeeded=succeeded):",
        new="if False:",
    ),
    Mutant(
        name="the first element ends the task",
        guard="a task has ended when all of it has",
        fault="arrays that are waited for",
        where="longshore.dispatcher.state.job_registry:JobRegistry.ends_with",
        old="if tally.ended == tally.total:",
        new="if tally.ended:",
    ),
    Mutant(
        name="a task succeeds whatever fails",
        guard="a task has succeeded when all of it has",
        fault="arrays of which some fail",
        where="longshore.dispatcher.state.job_registry:JobRegistry.ends_with",
        old="succeeded = tally.succeeded == tally.total",
        new="succeeded = True",
    ),
    Mutant(
        name="the end of a job is not told",
        guard="who waits for a job hears of its end",
        fault="jobs that are waited for",
        where="longshore.dispatcher.state.job_registry:JobRegistry.ends_with",
        old="if whole.ended == whole.total:",
        new="if False:",
    ),
    Mutant(
        name="a job succeeds whatever fails",
        guard="a job has succeeded when all of it has",
        fault="jobs that are waited for",
        where="longshore.dispatcher.state.job_registry:JobRegistry.ends_with",
        old="ended.append((container.job_id, whole.succeeded == whole.total))",
        new="ended.append((container.job_id, True))",
        test=(
            "tests/unit/test_workflow_jobs.py"
            "::test_who_waits_for_a_job_is_cancelled_when_any_of_it_has_failed"
        ),
    ),
)
ARRAYS = (
    Mutant(
        name="arrays have no limit",
        guard="no more of an array are under way than its limit",
        fault="arrays with a limit",
        where="longshore.dispatcher.state.dependencies:Workflow._admit_waiting",
        old="elif not self._jobs.enter(container):",
        new="elif False:",
    ),
    Mutant(
        name="who is free takes no turn",
        guard="who has waited for others waits for its turn too",
        fault="arrays with a limit that wait for others",
        where="longshore.dispatcher.state.dependencies:Workflow._node_ended",
        old="if self._jobs.enter(container):",
        new="if True:",
        test=(
            "tests/unit/test_workflow_jobs.py"
            "::test_who_waits_for_others_does_not_line_up_by_another_priority"
        ),
    ),
    Mutant(
        name="a turn is not passed on",
        guard="whose turn it is waits for room",
        fault="arrays with a limit",
        where="longshore.dispatcher.state.dependencies:Workflow._propagate_ends",
        old="released = self._enter_window(self._jobs.leave(container), now) or released",
        new="self._jobs.leave(container)",
        test=(
            "tests/unit/test_workflow_jobs.py"
            "::test_an_element_that_is_held_back_gives_its_turn_up_once_it_has_ended"
        ),
    ),
    Mutant(
        name="one too many",
        guard="no more of an array are under way than its limit",
        fault="arrays with a limit",
        where="longshore.dispatcher.state.job_registry:JobRegistry.enter",
        old="if len(window.under_way) < window.most:",
        new="if len(window.under_way) <= window.most:",
        test="tests/unit/test_workflow_jobs.py::test_an_array_has_no_more_under_way_than_it_may",
    ),
    Mutant(
        name="who has gone gets a turn",
        guard="who was cancelled while it waited for its turn is passed over",
        fault="cancelled elements",
        where="longshore.dispatcher.state.job_registry:JobRegistry.leave",
        old="if next_id in live.containers:",
        new="if True:",
    ),
    Mutant(
        name="who only waited gives a turn on",
        guard="only who had a turn gives it on",
        fault="cancelled elements",
        where="longshore.dispatcher.state.job_registry:JobRegistry.leave",
        old="if window is None or container.id not in window.under_way:",
        new="if window is None:",
        test="tests/unit/test_workflow_jobs.py::test_an_array_has_no_more_under_way_than_it_may",
    ),
    Mutant(
        name="who runs has no turn after a restart",
        guard="what ran before a restart counts as under way",
        fault="a crash while an array runs",
        where="longshore.dispatcher.state.dependencies:Workflow.admit",
        old="self._jobs.force(container)",
        new="pass",
        test="tests/unit/test_workflow_jobs.py::test_an_array_has_no_more_under_way_than_it_may",
    ),
    Mutant(
        name="elements do not know which they are",
        guard="an attempt finds its index in its environment",
        fault="arrays",
        where="longshore.dispatcher.scheduler.placement.start:environment",
        old="if container.array_index is not None and array_size is not None:",
        new="if False:",
    ),
    Mutant(
        name="every attempt is the first",
        guard="an attempt finds its number in its environment",
        fault="restarts",
        where="longshore.dispatcher.scheduler.placement.start:environment",
        old='"LONGSHORE_ATTEMPT": str(attempt.number)',
        new='"LONGSHORE_ATTEMPT": "1"',
    ),
)

REQUESTS = (
    Mutant(
        name="images without an engine are taken",
        guard="what the engine of the configuration can never run is refused",
        fault="users who ask for what no instance can run",
        where="longshore.dispatcher.service.admission:AdmissionController.refuse_impossible",
        old="if sentence := _without_engine(self._engine, spec.image):",
        new="if False:",
        test=(
            "tests/unit/test_admission_engine.py"
            "::test_what_the_engine_of_the_configuration_never_runs_is_refused"
        ),
    ),
)

JOB_MUTANTS = (*DEPENDENCIES, *ARRAYS, *REQUESTS)
