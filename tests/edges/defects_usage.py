"""Planted defects of what measures attempts and tells of it; what they are is told in `defect`."""

from __future__ import annotations

from typing import Final

from tests.edges.defect import EdgeDefect

_UNIT: Final = "tests/unit/test_runner_usage.py::"
_TOLD: Final = "tests/unit/test_efficiency.py::"

USAGE: Final[tuple[EdgeDefect, ...]] = (
    EdgeDefect(
        name="a_group_in_which_nothing_ran_has_used_no_memory",
        guard="What was not measured is missing, and never 0",
        file="pool/runner/usage.py",
        old="if memory_bytes else None",
        new="if memory_bytes is not None else None",
        test=_UNIT + "test_a_group_in_which_nothing_has_run_has_no_memory_to_tell",
    ),
    EdgeDefect(
        name="disks_that_nobody_counts_were_not_used",
        guard="Without an account of disks their bytes are missing, and never 0",
        file="pool/runner/usage.py",
        old="    if text is None:\n        return None, None\n",
        new='    text = text or ""\n',
        test=_UNIT + "test_no_account_of_disks_is_missing_and_an_empty_one_is_none",
    ),
    EdgeDefect(
        name="counters_go_back_with_a_group_that_is_gone",
        guard="What was counted once stays counted",
        file="pool/runner/usage.py",
        old="cpu_seconds=most(self.cpu_seconds, reading.cpu_seconds),",
        new="cpu_seconds=reading.cpu_seconds,",
        test=_UNIT + "test_counters_never_go_back",
    ),
    EdgeDefect(
        name="the_mean_counts_looks_and_not_time",
        guard="The mean of memory is over the time, however often it was looked at",
        file="pool/runner/usage.py",
        old="            byte_seconds += (at - self.at) * reading.memory_bytes",
        new="            byte_seconds += reading.memory_bytes",
        test=_UNIT + "test_memory_is_averaged_over_the_time_that_it_was_in_use",
    ),
    EdgeDefect(
        name="a_collector_begins_to_measure_anew",
        guard="A collector goes on with what the one before has seen",
        file="pool/runner/meter.py",
        old=(
            "        before = read_samples(self._spool.path(name, SAMPLED))"
            " or Samples(self._since[name])\n"
            "        _write(self._spool.path(name, SAMPLED), before.after(reading, now))"
        ),
        new=(
            "        before = Samples(self._since[name])\n"
            "        _write(self._spool.path(name, SAMPLED), before.after(reading, now))"
        ),
        test=_UNIT + "test_looks_get_rarer_and_go_on_where_another_has_ended",
    ),
    EdgeDefect(
        name="what_has_ended_is_looked_at_on_and_on",
        guard="Who has ended is looked at no more",
        file="pool/runner/meter.py",
        old="        return spool.recorded(name) is None and os.path.exists(spool.path(name))",
        new="        return os.path.exists(spool.path(name))",
        test=_UNIT + "test_an_attempt_that_has_ended_is_looked_at_no_more",
    ),
    EdgeDefect(
        name="the_times_of_whoever_has_the_pid_now_are_taken",
        guard="A process that only has the pid of a supervisor that was killed is not taken for it",
        file="pool/runner/meter.py",
        old="        if 0 < machine.start_ticks(supervisor) <= started:",
        new="        if supervisor:",
        test=(
            _UNIT + "test_the_times_of_another_process_with_the_pid_of_the_supervisor_are_not_taken"
        ),
    ),
    EdgeDefect(
        name="the_whole_machine_is_taken_for_an_attempt_that_is_not_recorded_yet",
        guard="An attempt whose supervisor is not recorded has no processes that we know of",
        file="pool/runner/meter.py",
        old="            if supervisor and not pids:",
        new="            if not pids:",
        test=_UNIT + "test_before_its_supervisor_is_recorded_nothing_is_told_of_an_attempt",
    ),
    EdgeDefect(
        name="what_was_sampled_of_the_lost_is_not_told",
        guard="An attempt whose supervisor is gone has what was sampled",
        file="pool/runner/usage.py",
        old="    for name in (USAGE, SAMPLED):",
        new="    for name in (USAGE,):",
        test=_UNIT + "test_what_was_sampled_is_told_of_one_that_is_lost",
    ),
    EdgeDefect(
        name="the_engine_is_measured_where_nothing_ran",
        guard="What never ran has no usage",
        file="pool/runner/spool.py",
        old=" if ended.ran and not why else {}",
        new="",
        test=_UNIT + "test_what_never_ran_has_no_usage",
    ),
    EdgeDefect(
        name="nobody_reads_the_counters_at_the_end",
        guard="The counters are read once more at the end, while the supervisor is there",
        file="pool/runner/collector.py",
        old="                meter.finish(self._spool, attempt)",
        new="                pass",
        test="tests/contract/test_runner_usage.py::test_the_time_of_children_that_have_ended_counts",
    ),
    EdgeDefect(
        name="a_gpu_is_asked_though_it_has_not_answered",
        guard="One question at a time is put to a GPU that hangs",
        file="pool/runner/gpus.py",
        old="        if self._answer >= 0:\n            return self._read()\n",
        new="        found = self._read() if self._answer >= 0 else []\n        if found:\n"
        "            return found\n",
        test=(
            "tests/unit/test_runner_gpus.py"
            "::test_it_is_asked_once_in_a_while_and_nobody_waits_for_it"
        ),
    ),
    EdgeDefect(
        name="a_user_is_told_what_others_take",
        guard="A user is told of their own runs alone",
        file="dispatcher/service/efficiency.py",
        old="            which = replace(which, user=caller.user)",
        new="            pass",
        test=_TOLD + "test_a_caller_is_told_of_what_is_theirs_to_know",
    ),
    EdgeDefect(
        name="everybody_is_told_of_all_projects",
        guard="A caller is told of runs in their own projects alone",
        file="dispatcher/service/efficiency.py",
        old="        which = replace(which, projects=seen_projects(caller))\n",
        new="",
        test=_TOLD + "test_a_caller_is_told_of_what_is_theirs_to_know",
    ),
    EdgeDefect(
        name="older_runs_are_left_out_without_a_word",
        guard="It is said that older runs were not looked at",
        file="dispatcher/store/usage_reader.py",
        old="complete=len(sequences) <= MOST_LOOKED_AT",
        new="complete=True",
        test=_TOLD + "test_what_is_too_old_to_be_looked_at_is_said",
    ),
)
