"""Planted defects of how attempts are carried: the engine's, the table's and the pool's guards."""

from __future__ import annotations

from tests.sim.mutants_places import PLACES_MUTANTS
from tests.sim.mutants_workers import WORKERS_MUTANTS
from tests.sim.planting import Mutant

LOST_LOGS = (
    "tests/unit/test_log_problem.py"
    "::test_logs_that_are_lost_with_their_instance_are_told_by_name_and_size"
)

COMMITS = (
    Mutant(
        name="one commit lets go of all",
        guard="a commit lets go only of what follows it",
        fault="a store that lags",
        where="longshore.dispatcher.engine.outbox:Outbox.committed",
        old="while self._batches and self._batches[0].done:",
        new="while self._batches:",
    ),
    Mutant(
        name="commands before their commit",
        guard="what follows a change waits for its commit",
        fault="a crash between two commands",
        where="longshore.dispatcher.engine.engine:Engine._commands",
        old="return [Commit(changes=changes, then=tuple(then))]",
        new="return [*then, Commit(changes=changes, then=())]",
    ),
    Mutant(
        name="an end is not journalled",
        guard="what an attempt's end will mean is journalled before it is killed",
        fault="a crash between TERM and the exit",
        where="longshore.dispatcher.state.containers:ContainerTable.mark_stopping",
        old="self.changes.append(SaveAttempt(attempt=attempt))",
        new="",
    ),
    Mutant(
        name="complete logs are not journalled",
        guard="a log is released only once its completeness is committed",
        fault="every exit",
        where="longshore.dispatcher.state.containers:AwaitingLogs.log_complete",
        old="self._changes.append(SaveAttempt(attempt=replace(attempt, log_complete=True)))",
        new="",
    ),
    Mutant(
        name="release at the exit",
        guard="an exit is released only when its log is complete",
        fault="every exit",
        where="longshore.pool.attempts:_ended",
        old="worker.load.awaits_log(attempt.id)",
        new="_release(core, attempt.worker_id, attempt.remote_id)",
    ),
)
RESTARTS = (
    Mutant(
        name="pinned keys are forgotten",
        guard="a proven host key outlives the process",
        fault="a crash",
        where="longshore.dispatcher.engine.recovery:_restore_wishes",
        old="if record.host_key:",
        new="if False:",
    ),
    Mutant(
        name="running attempts are forgotten",
        guard="what an earlier process started is awaited",
        fault="a crash while something runs",
        where="longshore.dispatcher.engine.recovery:_restore_container",
        old="if attempt.outcome is None:",
        new="if False:",
    ),
    Mutant(
        name="logs on their way are forgotten",
        guard="an ended attempt's log is awaited across a restart",
        fault="a crash between an exit and the end of its log",
        where="longshore.dispatcher.engine.recovery:restore",
        old="_expect(pool, attempt, Resources(), Finished(without_exit=attempt.exit_code is None))",
        new="pass",
    ),
    Mutant(
        name="claims are forgotten",
        guard="a claim of an earlier process is renewed or given up",
        fault="a crash while a container is locked",
        where="longshore.dispatcher.engine.recovery:_restore_container",
        old="if container.state is ContainerState.LOCKED and not container.has_open_attempt:",
        new="if False:",
    ),
    Mutant(
        name="held back across a restart",
        guard="a container held back by its priority is ended after a restart too",
        fault="a crash between a priority's commit and its event",
        where="longshore.dispatcher.engine.requests:UserRequests.begin",
        old="elif container.priority == 0 and container.has_open_attempt:",
        new="elif False:",
    ),
    Mutant(
        name="instances that went unseen",
        guard="what was known and is not in the first listing is looked for, until it is gone",
        fault="an instance that ends while no dispatcher runs",
        where="longshore.pool.listing:_take_up_missing",
        old="for instance_id in sorted(core.unlisted):",
        new="for instance_id in ():",
    ),
    Mutant(
        name="cancels are forgotten",
        guard="a cancel that was committed is taken up again",
        fault="a crash between a cancel's commit and its event",
        where="longshore.dispatcher.engine.requests:UserRequests.begin",
        old="if container.cancel_requested:",
        new="if False:",
    ),
    Mutant(
        name="locked and held back",
        guard="a container held back by its priority gives up its claim after a restart",
        fault="a crash between a priority's commit and its event",
        where="longshore.dispatcher.engine.requests:UserRequests.begin",
        old="elif container.priority == 0 and container.state is ContainerState.LOCKED:",
        new="elif False:",
    ),
    Mutant(
        name="kills are forgotten",
        guard="an attempt that was being ended is ended by the next process",
        fault="a crash between TERM and the exit",
        where="longshore.dispatcher.engine.requests:UserRequests.begin",
        old="and container.attempts[-1].intended_outcome is not None:",
        new="and False:",
    ),
    Mutant(
        name="planning before the listing",
        guard="nothing is planned before the first listing",
        fault="listings that fail",
        where="longshore.dispatcher.scheduler.batch.scheduling_pass:SchedulingPass.next_pass",
        old="if not self.pool.listed_once:",
        new="if False:",
    ),
)
ENDINGS = (
    Mutant(
        name="cancelled while it runs",
        guard="a container is cancelled only when what runs of it has ended",
        fault="a cancel",
        where="longshore.dispatcher.engine.requests:UserRequests._cancel",
        old="if container.has_open_attempt:",
        new="if False:",
    ),
    Mutant(
        name="held back and runs on",
        guard="priority 0 ends what runs",
        fault="a change of priority",
        where="longshore.dispatcher.engine.requests:UserRequests._set_priority",
        old="self._preempt(container_id, now)",
        new="pass",
    ),
    Mutant(
        name="held back and keeps its claim",
        guard="priority 0 gives a claim up",
        fault="a change of priority",
        where="longshore.dispatcher.engine.requests:UserRequests._set_priority",
        old="if priority == 0 and container.state is ContainerState.LOCKED:",
        new="if False:",
        test=(
            "tests/unit/test_planner_edge_cases.py"
            "::test_held_back_while_it_waits_or_has_a_claim_a_container_starts_nowhere"
        ),
    ),
    Mutant(
        name="queued while it runs",
        guard="what has an open attempt does not wait for another",
        fault="a change of priority",
        where="longshore.dispatcher.engine.requests:UserRequests._set_priority",
        old="if not container.has_open_attempt:",
        new="if True:",
        test=(
            "tests/unit/test_engine_flow.py"
            "::test_priority_zero_holds_back_and_ends_what_runs_as_preempted"
        ),
    ),
    Mutant(
        name="priority 0 waits",
        guard="priority 0 is never started",
        fault="a change of priority",
        where="longshore.dispatcher.state.containers:ContainerTable.wait",
        old="if container.priority > 0 and",
        new="if",
    ),
    Mutant(
        name="a cancel is judged by its exit",
        guard="an attempt that was cancelled is cancelled, whatever its exit",
        fault="a cancel",
        where="longshore.dispatcher.state.attempt_end:classify",
        old=(
            "if container.cancel_requested or attempt.intended_outcome is AttemptOutcome.CANCELLED:"
        ),
        new=(
            "if end.exit is None and ("
            "container.cancel_requested or attempt.intended_outcome is AttemptOutcome.CANCELLED):"
        ),
    ),
    Mutant(
        name="our own kill is a failure",
        guard="an attempt that was preempted goes back to the queue, whatever its exit",
        fault="a change of priority",
        where="longshore.dispatcher.state.attempt_end:classify",
        old="if attempt.intended_outcome is AttemptOutcome.PREEMPTED:",
        new="if attempt.intended_outcome is AttemptOutcome.PREEMPTED and end.exit is None:",
    ),
    Mutant(
        name="a cancel is tried again",
        guard="an attempt that is missing and was cancelled is not tried again",
        fault="starts without an answer, instances that end",
        where="longshore.dispatcher.state.attempt_end:classify",
        old=(
            "if container.cancel_requested or attempt.intended_outcome is AttemptOutcome.CANCELLED:"
        ),
        new=(
            "if end.exit is not None and ("
            "container.cancel_requested or attempt.intended_outcome is AttemptOutcome.CANCELLED):"
        ),
    ),
    Mutant(
        name="a bad request is tried again",
        guard="a start refused for a fault of the request fails",
        fault="starts that are refused",
        where="longshore.dispatcher.state.attempt_end:classify",
        old="if end.kind is EndKind.REFUSED:",
        new="if False:",
        test=(
            "tests/unit/test_engine_flow.py"
            "::test_a_refused_start_fails_the_container_with_the_runners_words"
        ),
    ),
    Mutant(
        name="nothing waits for its secrets",
        guard="what lacks a secret is kept out of the queue",
        fault="a secret that is missing",
        where="longshore.dispatcher.state.containers:ContainerTable._gate_by_secrets",
        old="self.gates.block(container.id, Gate.SECRETS)",
        new="pass",
        test=(
            "tests/unit/test_secrets_engine.py"
            "::test_what_lacks_a_secret_waits_without_an_instance_and_goes_on_by_itself"
        ),
    ),
    Mutant(
        name="a withheld start is a loss",
        guard="a start that was never sent for want of a secret is no try",
        fault="a secret that is missing",
        where="longshore.dispatcher.state.attempt_end:classify",
        old="if end.kind is EndKind.WITHHELD:",
        new="if False:",
        test=(
            "tests/unit/test_secrets_engine.py"
            "::test_a_withheld_start_is_no_try_and_blames_no_instance"
        ),
    ),
    Mutant(
        name="another key would do",
        guard="a secret value waits for the very key that it was encrypted with",
        fault="a secret that is missing",
        where="longshore.dispatcher.domain.secrets:why_withheld",
        old="if data_key_of(sealed) not in known.keys",
        new="if not known.keys",
        test=("tests/unit/test_secrets_engine.py::test_who_waits_for_secrets"),
    ),
    Mutant(
        name="a secret of any project",
        guard="a secret is its project's",
        fault="a secret that is missing",
        where="longshore.dispatcher.domain.secrets:why_withheld",
        old="{(project, each.secret) for each in spec.secrets} - known.readable",
        new="{(project, each.secret) for each in spec.secrets if not known.readable}",
        test=("tests/unit/test_secrets_engine.py::test_who_waits_for_secrets"),
    ),
    Mutant(
        name="a preemption counts as a loss",
        guard="an attempt that is missing and was preempted is not lost",
        fault="a change of priority, instances that end",
        where="longshore.dispatcher.state.attempt_end:classify",
        old="if attempt.intended_outcome is AttemptOutcome.PREEMPTED:",
        new="if attempt.intended_outcome is AttemptOutcome.PREEMPTED and end.exit is not None:",
        test=(
            "tests/unit/test_engine_regressions.py"
            "::test_what_is_being_preempted_goes_back_to_the_queue_even_when_its_instance_goes"
        ),
    ),
    Mutant(
        name="losses without end",
        guard="what is lost too often fails",
        fault="instances that end",
        where="longshore.dispatcher.state.restarts:may_try_again",
        old="tries.lost < most and on_one",
        new="on_one",
    ),
    Mutant(
        name="lost and unwanted",
        guard="what may not be tried again after a loss is not",
        fault="instances that end",
        where="longshore.dispatcher.state.restarts:may_try_again",
        old="runs_again_if_lost(container) and ",
        new="",
    ),
    Mutant(
        name="ended before it began",
        guard="nothing ends before it began, though the clock was set back",
        fault="a clock that is set while no dispatcher runs",
        where="longshore.dispatcher.state.attempt_end:close",
        old="max(ended_at, attempt.started_at or attempt.created_at)",
        new="ended_at",
    ),
    Mutant(
        name="exited before it began",
        guard="no exit comes before its start, though the clock was set back",
        fault="a clock that is set while no dispatcher runs",
        where="longshore.dispatcher.state.attempt_end:when_it_ran",
        old="max(started_at, now)",
        new="now",
    ),
    Mutant(
        name="instances tell the time",
        guard="an instance says how long an attempt ran only as far as that can be true",
        fault="an instance whose clock is wrong",
        where="longshore.dispatcher.state.attempt_end:when_it_ran",
        old="0 <= ran_s <= now - began_at",
        new="True",
    ),
    Mutant(
        name="the dead wait in the queue",
        guard="what has ended waits no more",
        fault="a cancel",
        where="longshore.dispatcher.state.containers:ContainerTable._dequeue",
        old="self.queue.discard(container.id)",
        new="",
    ),
    Mutant(
        name="logs of the gone are awaited",
        guard="nobody waits for logs from an instance that is gone",
        fault="instances that end",
        where="longshore.dispatcher.engine.engine:Engine._forget_instance",
        old="self.table.unreleased.drop_instance(instance_id)",
        new="",
    ),
    Mutant(
        name="logs go with their instance untold",
        guard="the logs that are lost with an instance are told, by attempt",
        fault="a full disk",
        where="longshore.dispatcher.engine.engine:Engine._forget_instance",
        old="left = self.table.unreleased.written_on(instance_id)",
        new="left = []",
        test=LOST_LOGS,
    ),
    Mutant(
        name="an instance goes with logs untold",
        guard="an instance that is shut down with logs is told as that",
        fault="a full disk",
        where="longshore.dispatcher.engine.engine:Engine._record_worker",
        old="if going else []",
        new="if False else []",
        test=LOST_LOGS,
    ),
)

ATTEMPT_MUTANTS: tuple[Mutant, ...] = (
    *COMMITS,
    *RESTARTS,
    *ENDINGS,
    *PLACES_MUTANTS,
    *WORKERS_MUTANTS,
)
