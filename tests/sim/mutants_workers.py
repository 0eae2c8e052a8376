"""Planted defects of what workers say and hear of attempts: the pool's attempts and probing."""

from __future__ import annotations

from tests.sim.planting import Mutant

STARTS = (
    Mutant(
        name="unknown is read as never",
        guard="a start without an answer is never read as one that did not happen",
        fault="answers that come late, sessions that drop",
        where="longshore.pool.attempts:on_unknown",
        old="attempt.start_op = 0\n",
        new='missing(core, attempt, "", now)\n    return\n',
    ),
    Mutant(
        name="missing before it is answered",
        guard="a start that is not answered yet is not missing",
        fault="probes that overlap a start",
        where="longshore.pool.probing:_find_missing",
        old="or attempt.start_op",
        new="",
        test=(
            "tests/unit/test_engine_stale_answers.py"
            "::test_an_attempt_whose_start_is_in_flight_is_not_missing"
        ),
    ),
    Mutant(
        name="missing by an old list",
        guard="only a probe that began later finds an attempt missing",
        fault="probes that overlap a start",
        where="longshore.pool.probing:_find_missing",
        old="if attempt.settled_op > event.op_id:",
        new="if False:",
    ),
    Mutant(
        name="never found missing",
        guard="what is not where it should be is found missing",
        fault="starts that never arrive",
        where="longshore.pool.probing:_find_missing",
        old="attempts.missing(core, attempt, message, now)",
        new="pass",
    ),
    Mutant(
        name="refused without end",
        guard="an instance that refuses starts in a row gets no more",
        fault="an instance that refuses every start",
        where="longshore.pool.attempts:on_refused",
        old="if worker.health.refusals >= REFUSALS_BEFORE_DRAIN:",
        new="if False:",
        test=(
            "tests/unit/test_engine_regressions.py"
            "::test_an_instance_on_which_nothing_starts_is_drained_and_fails_nobody"
        ),
    ),
    Mutant(
        name="users' faults are the instance's",
        guard="refusals for a fault of the request are not the instance's",
        fault="starts that are refused",
        where="longshore.pool.attempts:on_refused",
        old="blamed = not refused and ",
        new="blamed = ",
    ),
    Mutant(
        name="a new boot is not probed",
        guard="nothing starts in a boot of an instance before its boot probe has passed",
        fault="an instance that reboots",
        where="longshore.pool.probing:_settle",
        old="worker.state in READY and worker.link.boot_id != boot_id",
        new="False",
    ),
    Mutant(
        name="what is swallowed is not counted",
        guard="an instance on which nothing runs gets no more after three",
        fault="instances that swallow what is started there",
        where="longshore.pool.trials:note_end",
        old="if max(len(worker.health.swallowed), swallowed.times) >= ENDS_BEFORE_TRIAL:",
        new="if False:",
    ),
    Mutant(
        name="what ran was swallowed",
        guard="what is lost after it has run is no fault of its instance's",
        fault="runners that crash",
        where="longshore.pool.trials:note_end",
        old="case ExitKind.LOST if _had_run(worker, attempt, how, now):",
        new="case ExitKind.LOST if False:",
        test=(
            "tests/unit/test_trials.py"
            "::test_what_is_lost_after_it_has_run_is_no_fault_of_its_instances"
        ),
    ),
    Mutant(
        name="silence is taken for running",
        guard="what is lost unheard may never have run",
        fault="sessions that drop",
        where="longshore.pool.trials:_had_run",
        old="max(since, worker.link.attached_at)",
        new="since",
        test=(
            "tests/unit/test_trials.py::test_what_was_lost_while_nobody_heard_may_never_have_run"
        ),
    ),
    Mutant(
        name="a failed trial is no verdict",
        guard="an instance whose engine does not work is drained",
        fault="instances that swallow what is started there",
        where="longshore.pool.trials:judge",
        old="    if event.trial_error:",
        new="    if False:",
    ),
    Mutant(
        name="no trial is asked for",
        guard="an instance that is on trial is probed for it",
        fault="instances that swallow what is started there",
        where="longshore.pool.probing:_send_probe",
        old="trial=worker.health.on_trial",
        new="trial=False",
    ),
    Mutant(
        name="nobody comes for a trial",
        guard="an instance that is on trial is probed at once, though its session lives",
        fault="instances that swallow what is started there",
        where="longshore.pool.trials:note_end",
        old="core.timers.soonest(TimerKind.PROBE, worker.id, now)",
        new="pass",
    ),
    Mutant(
        name="unknown and never asked",
        guard="a start without an answer is looked for",
        fault="answers that come late",
        where="longshore.pool.attempts:on_unknown",
        old="core.timers.soonest(TimerKind.PROBE, worker.id, now)",
        new="",
    ),
    Mutant(
        name="unknown and settled",
        guard="a probe that began before a start's outcome was unknown says nothing of it",
        fault="sessions that drop",
        where="longshore.pool.attempts:on_unknown",
        old="attempt.settled_op = core.next_op()",
        new="",
        test=(
            "tests/unit/test_engine_stale_answers.py"
            "::test_a_probe_from_before_a_start_was_given_up_does_not_say_that_it_is_missing"
        ),
    ),
    Mutant(
        name="started and settled",
        guard="a probe that began before a start was confirmed says nothing of it",
        fault="probes that overlap a start",
        where="longshore.pool.attempts:on_started",
        old="attempt.settled_op = core.next_op()",
        new="",
    ),
    Mutant(
        name="refusals are never forgiven",
        guard="refusals count only in a row",
        fault="starts that are refused",
        where="longshore.pool.attempts:on_started",
        old="worker.health.started_one()",
        new="pass",
    ),
)
EXITS = (
    Mutant(
        name="ended twice",
        guard="an attempt ends once",
        fault="exits that are told twice",
        where="longshore.pool.attempts:_ended",
        old="if attempt.is_finished:",
        new="if False:",
        also=Mutant(
            name="ended twice in the table",
            guard="an attempt ends once",
            fault="exits that are told twice",
            where="longshore.dispatcher.state.containers:ContainerTable.close",
            old="if found is None:\n            return None\n",
            new="pass\n",
        ),
    ),
    Mutant(
        name="room is kept",
        guard="what has ended gives its room back",
        fault="every exit",
        where="longshore.pool.attempts:_vacate",
        old="core.free_resources(worker, attempt.id)",
        new="",
    ),
    Mutant(
        name="shut down before its logs came",
        guard="an instance is not idled out while a log is on its way",
        fault="every exit",
        where="longshore.pool.attempts:_ended",
        old="worker.load.awaits_log(attempt.id)",
        new="pass",
    ),
    Mutant(
        name="logs that never come are awaited",
        guard="what an instance no longer has is not awaited",
        fault="an instance that reboots",
        where="longshore.pool.probing:_find_missing",
        old="attempts.give_log_up(core, attempt, now)",
        new="pass",
    ),
    Mutant(
        name="strays run on",
        guard="a process that no container wants is ended",
        fault="strays",
        where="longshore.pool.attempts:_adopt_stray",
        old="kill(core, attempt.id, now)",
        new="",
    ),
    Mutant(
        name="strays of another store are ended",
        guard="what another store has started is kept until an admin decides",
        fault="processes of another store",
        where="longshore.pool.attempts:observe",
        old="elif current and strays.is_anothers(core, report):",
        new="elif False:",
    ),
    Mutant(
        name="beside kept strays",
        guard="nothing new goes where another store's process takes nobody knows what",
        fault="processes of another store",
        where="longshore.pool.model:Worker.takes_more",
        old=" and not self.load.unaccounted",
        new="",
        test=(
            "tests/unit/test_strays_kept.py"
            "::test_nothing_new_goes_beside_what_takes_nobody_knows_what"
        ),
    ),
    Mutant(
        name="strays by an old list",
        guard="what an older list shows running may have ended since",
        fault="lists that come late",
        where="longshore.pool.attempts:observe",
        old="elif current:",
        new="elif True:",
        test=(
            "tests/unit/test_engine_regressions.py"
            "::test_what_a_stale_probe_shows_running_is_not_taken_for_a_stray"
        ),
    ),
    Mutant(
        name="strays of others",
        guard="an instance has no say about attempts on others",
        fault="strays whose names others have",
        where="longshore.pool.core:PoolCore.find_attempt",
        old="attempt.worker_id == worker_id and ",
        new="",
        test=(
            "tests/unit/test_hostile_instance.py::test_an_instance_cannot_end_an_attempt_of_another"
        ),
    ),
    Mutant(
        name="exits change nothing",
        guard="an exit makes older lists worthless",
        fault="lists that come late",
        where="longshore.pool.attempts:_vacate",
        old="worker.invalidate_probe()",
        new="pass",
        test=(
            "tests/unit/test_residents.py"
            "::test_a_list_from_before_the_end_of_a_resident_makes_no_stray_of_it"
        ),
    ),
)
KILLS = (
    Mutant(
        name="KILL without session",
        guard="the time until KILL counts only while there is a session",
        fault="sessions that drop",
        where="longshore.pool.signals:send_if_wanted",
        old="if worker is None or not worker.link.session_up:",
        new="if worker is None:",
    ),
    Mutant(
        name="KILL first",
        guard="TERM comes before KILL",
        fault="cancels",
        where="longshore.pool.signals:send_if_wanted",
        old='signal, again_at = "TERM", now',
        new='signal, again_at = "KILL", now',
    ),
    Mutant(
        name="TERM for ever",
        guard="KILL follows when TERM does not help",
        fault="processes that are deaf to TERM",
        where="longshore.pool.signals:send_if_wanted",
        old="now >= kill_at",
        new="False",
    ),
    Mutant(
        name="the grace begins anew with each TERM",
        guard="the runner is told how much of the grace is left",
        fault="processes that are deaf to TERM",
        where="longshore.pool.signals:send_if_wanted",
        old="max(0.0, kill_at - now)",
        new="grace_of(core, attempt)",
    ),
    Mutant(
        name="signals are not repeated",
        guard="signals are repeated until the process ends",
        fault="processes that are deaf to TERM",
        where="longshore.pool.signals:send_if_wanted",
        old="core.timers.set(TimerKind.SIGNAL, attempt.id, again_at)",
        new="",
    ),
    Mutant(
        name="KILL for ever",
        guard="an instance whose process survives KILL is given up",
        fault="processes that are immortal",
        where="longshore.pool.attempts:signal_if_wanted",
        old="worker is not None and signals.unkillable(attempt)",
        new="False",
    ),
    Mutant(
        name="signals are not resumed",
        guard="what is to end gets its signal once there is a session",
        fault="sessions that drop",
        where="longshore.pool.probing:on_succeeded",
        old="_resume_signals(core, worker, now)",
        new="pass",
    ),
    Mutant(
        name="signals hastened",
        guard="a session that flaps does not use up the KILLs",
        fault="sessions that drop, processes that are slow to die",
        where="longshore.pool.probing:_resume_signals",
        old="if core.timers.due(TimerKind.SIGNAL, attempt.id) is None:",
        new="if True:",
        test=(
            "tests/unit/test_semantics_broken.py"
            "::test_a_session_that_flaps_does_not_use_up_the_kills"
        ),
    ),
)
PROBES = (
    Mutant(
        name="probes beyond their rate",
        guard="the rate of probes",
        fault="many instances",
        where="longshore.pool.probing:release",
        old="if not core.probe_gate.take(now):",
        new="if False:",
    ),
    Mutant(
        name="ready again after its end",
        guard="a probe says nothing of a worker that is being shut down",
        fault="probes that overlap a shutdown",
        where="longshore.pool.probing:on_succeeded",
        old="if worker is None or worker.state is WorkerState.SHUTDOWN:",
        new="if worker is None:",
        test=(
            "tests/unit/test_probing_edge_cases.py"
            "::test_a_probe_that_succeeds_after_the_shutdown_began_leaves_no_session"
        ),
    ),
    Mutant(
        name="a probe lets a lease run",
        guard="a probe suspends the lease of a held instance",
        fault="admins",
        where="longshore.pool.probing:_send_probe",
        old="suspend_lease=shutdown.suspends_lease(worker)",
        new="suspend_lease=False",
    ),
    Mutant(
        name="no boot probe",
        guard="an instance gets work only once its boot probe succeeds",
        fault="instances that never pass the boot probe",
        where="longshore.pool.probing:_send_probe",
        old="boot=worker.state not in READY",
        new="boot=False",
    ),
    Mutant(
        name="a boot error is overlooked",
        guard="a found instance whose boot probe fails gets no work",
        fault="instances that never pass the boot probe",
        where="longshore.pool.probing:on_succeeded",
        old="if event.boot_error:",
        new="if False:",
    ),
    Mutant(
        name="nothing is expected",
        guard="a probe says whose logs are awaited",
        fault="a crash",
        where="longshore.pool.probing:_send_probe",
        old="tuple(a.id for a in core.attempts_on(worker.id) if not a.stray)",
        new="()",
        test=(
            "tests/unit/test_hostile_instance.py"
            "::test_probes_name_the_attempts_whose_logs_may_be_kept"
        ),
    ),
    Mutant(
        name="a complaint is not heard",
        guard="a worker that is found broken gets no work",
        fault="instances that break, a crash",
        where="longshore.pool.probing:on_succeeded",
        old="_hear_complaint(core, worker, event.report.broken, now)",
        new="pass",
    ),
    Mutant(
        name="complaints are not heard",
        guard="a worker that says that it is broken gets no work",
        fault="instances that break",
        where="longshore.pool.probing:on_broken",
        old="if worker is not None and worker.health.complaint != event.message:",
        new="if False:",
    ),
    Mutant(
        name="the secret stays",
        guard="the secret is void once the key is proven",
        fault="every probe",
        where="longshore.pool.probing:_pin",
        old='worker.link.secret = ""',
        new="pass",
    ),
    Mutant(
        name="keys are not journalled",
        guard="a proven key is journalled",
        fault="a crash",
        where="longshore.pool.probing:_pin",
        old='core.note_changed(worker, "its host key is proven")',
        new="",
    ),
    Mutant(
        name="an old complaint is heard",
        guard="a list is not taken for newer than the heartbeats",
        fault="instances that break, lists that come late",
        where="longshore.pool.probing:on_succeeded",
        old="    if reattached:\n        # Later on",
        new="    if True:\n        # Later on",
        test=(
            "tests/unit/test_semantics_broken.py"
            "::test_while_a_session_lives_its_heartbeats_say_what_is_broken"
        ),
    ),
)

WORKERS_MUTANTS: tuple[Mutant, ...] = (*STARTS, *EXITS, *KILLS, *PROBES)
