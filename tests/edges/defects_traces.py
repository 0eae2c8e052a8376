"""Guards of traces and of the server's log, each taken out."""

from __future__ import annotations

from typing import Final

from tests.edges.defect import EdgeDefect

_SPANS = "dispatcher/traces/spans.py"
_NEWS = "dispatcher/traces/news.py"
_CURSOR = "dispatcher/traces/cursor.py"
_EXPORT = "dispatcher/traces/export.py"
_OTLP = "dispatcher/traces/otlp.py"
_CONTEXT = "dispatcher/domain/trace_context.py"
_CONFIG = "dispatcher/config/traces.py"
_LINES = "dispatcher/server/log_lines.py"
_MADE = "tests/unit/test_trace_spans.py"
_SENT = "tests/unit/test_trace_export.py"
_READ = "tests/unit/test_config_traces.py"
_LOG = "tests/unit/test_serving_log.py"

TRACES: Final = (
    EdgeDefect(
        name="a_span_ends_before_it_began",
        guard="No span ends before it began",
        file=_SPANS,
        old="            end_ns=max(_ns(since), _ns(until)),\n",
        new="            end_ns=_ns(until),\n",
        test=f"{_MADE}::test_a_clock_that_was_set_back_makes_no_span_end_before_it_began",
    ),
    EdgeDefect(
        name="spans_of_two_stores_are_the_same",
        guard="Ids of spans follow from the store, too",
        file=_SPANS,
        old='"\\0".join((self.store, str(n_bytes), *words))',
        new='"\\0".join((str(n_bytes), *words))',
        test=f"{_MADE}::test_ids_are_the_same_in_each_process_and_others_in_another_store",
    ),
    EdgeDefect(
        name="a_sentence_is_in_a_span",
        guard="No sentence of a program is in a span",
        file=_SPANS,
        old=(
            '        "process.exit.code": attempt.exit_code,\n'
            '        "error.type": None if reason is None else reason.code,\n'
        ),
        new=(
            '        "process.exit.code": attempt.exit_code,\n'
            '        "error.type": None if reason is None else reason.message,\n'
        ),
        test=f"{_MADE}::test_nothing_that_may_be_secret_is_in_a_span",
    ),
    EdgeDefect(
        name="an_instance_has_any_number_of_spans",
        guard="An instance has so many spans and no more",
        file=_SPANS,
        old="        for each in states[:MOST_STATES]:\n",
        new="        for each in states:\n",
        test=f"{_MADE}::test_an_instance_that_changes_all_the_time_has_a_bounded_number_of_spans",
    ),
    EdgeDefect(
        name="what_others_do_not_record_is_sent",
        guard="Of a trace of others that is not recorded nothing is sent",
        file=_SPANS,
        old="is_sampled = self._is_sampled(own_trace) if parent is None else parent.is_sampled",
        new="is_sampled = self._is_sampled(own_trace)",
        test=f"{_MADE}::test_the_trace_of_who_submitted_it_goes_on",
    ),
    EdgeDefect(
        name="an_id_of_zeros_is_one",
        guard="An id of zeros names no trace",
        file=_CONTEXT,
        old="        or not (int(trace_id, 16) and int(span_id, 16))\n",
        new="",
        test=f"{_MADE}::test_a_header_that_is_none_is_ignored_and_a_variable_of_ones_own_stays",
    ),
    EdgeDefect(
        name="a_header_replaces_a_variable",
        guard="A container keeps a TRACEPARENT of its own",
        file=_CONTEXT,
        old="    if parent is None or TRACEPARENT in taken:\n",
        new="    if parent is None or not taken:\n",
        test=f"{_MADE}::test_a_header_that_is_none_is_ignored_and_a_variable_of_ones_own_stays",
    ),
    EdgeDefect(
        name="daemons_are_part_of_who_submitted_them",
        guard="Jobs that do not end with what was asked for are part of no trace",
        file="dispatcher/service/contracts.py",
        old="        if self.type is not JobType.BATCH or self.terms != NO_TERMS:\n",
        new="        if not self.tasks:\n",
        test=(
            "tests/unit/test_api_jobs.py::test_the_trace_of_a_request_goes_on_in_a_batch_job_alone"
        ),
    ),
    EdgeDefect(
        name="an_end_is_told_twice",
        guard="Each end is told once in the life of a process",
        file=_NEWS,
        old="            self._told[container.id] = ended\n",
        new="            pass\n",
        test=f"{_SENT}::test_each_end_is_told_once",
    ),
    EdgeDefect(
        name="a_start_tells_what_was_told",
        guard="What was recorded before a start is told already",
        file=_NEWS,
        old="{each.id: count for each in known if (count := _ended_attempts(each))}",
        new="{each.id: 0 for each in known if _ended_attempts(each)}",
        test=f"{_SENT}::test_each_end_is_told_once",
    ),
    EdgeDefect(
        name="a_restart_doubles_spans",
        guard="A restart leaves out what was sent",
        file=_NEWS,
        old="        if is_new and is_over is container.state.final and news.key not in sent:\n",
        new="        if is_new and is_over is container.state.final:\n",
        test=f"{_SENT}::test_a_restart_neither_loses_nor_doubles",
    ),
    EdgeDefect(
        name="a_restart_loses_spans",
        guard="A restart begins where everything before was sent",
        file=_CURSOR,
        old="            self.until = max(self.until, ended_at)\n",
        new="            self.until = max(self.until, heard_at)\n",
        test=f"{_SENT}::test_a_restart_neither_loses_nor_doubles",
    ),
    EdgeDefect(
        name="a_clock_that_was_set_back_loses_spans",
        guard="A cursor is not ahead of the clock",
        file=_CURSOR,
        old="        self.until = min(kept.until, now)\n",
        new="        self.until = kept.until\n",
        test=f"{_SENT}::test_a_cursor_that_cannot_be_read_begins_now",
    ),
    EdgeDefect(
        name="keys_of_spans_are_kept_for_ever",
        guard="Keys of what was sent go when nobody asks for them any more",
        file=_CURSOR,
        old="        while self._sent and self._sent[0][0] < self.until:\n",
        new="        while self._sent and self._sent[0][0] < 0:\n",
        test=f"{_SENT}::test_keys_are_kept_as_long_as_they_may_be_asked_for",
    ),
    EdgeDefect(
        name="traces_wait_without_end",
        guard="So much waits for the collector and no more",
        file=_EXPORT,
        old="        if len(self._queue) >= self._pace.most_queued:\n",
        new="        if len(self._queue) >= 10**9:\n",
        test=f"{_SENT}::test_a_collector_that_hangs_keeps_nobody_and_little",
    ),
    EdgeDefect(
        name="what_is_not_taken_is_dropped",
        guard="What the collector does not take is sent again",
        file=_EXPORT,
        old="            if self._clock() - began > self._pace.given_up_after_s:\n",
        new="            if self._clock() - began > 0:\n",
        test=f"{_SENT}::test_what_is_not_taken_is_sent_again_until_it_is",
    ),
    EdgeDefect(
        name="what_is_never_taken_keeps_the_others",
        guard="A batch that is never taken is dropped, and counted",
        file=_EXPORT,
        old="                self._dropped += len(batch)\n                return True\n",
        new="                return True\n",
        test=(
            f"{_SENT}::test_a_collector_that_is_gone_is_no_end_and_what_waits_too_long_is_counted"
        ),
    ),
    EdgeDefect(
        name="the_end_of_a_server_waits_for_the_collector",
        guard="The end of a server waits for the collector so long and no longer",
        file=_EXPORT,
        old="        self._thread.join(within_s)\n",
        new="        self._thread.join()\n",
        test=f"{_SENT}::test_a_collector_that_hangs_keeps_nobody_and_little",
    ),
    EdgeDefect(
        name="what_a_stop_leaves_is_taken_for_sent",
        guard="What was not sent at the end is left to the next start",
        file=_EXPORT,
        old="        if not why:\n            self._sent += len(made)\n",
        new="        if not why or self._closing.is_set():\n            self._sent += len(made)\n",
        test=f"{_SENT}::test_what_a_dead_collector_did_not_take_is_sent_by_the_next_process",
    ),
    EdgeDefect(
        name="traces_follow_redirects",
        guard="Who leads elsewhere has taken nothing",
        file=_OTLP,
        old="        if 300 <= answer.status_code < 400:\n",
        new="        if 600 <= answer.status_code:\n",
        test=f"{_SENT}::test_nobody_is_followed_elsewhere",
    ),
    EdgeDefect(
        name="traces_go_by_a_proxy",
        guard="No proxy of the environment is asked",
        file=_OTLP,
        old="        self.trust_env = False\n",
        new="",
        test=f"{_SENT}::test_no_proxy_is_asked",
    ),
    EdgeDefect(
        name="an_answer_of_a_collector_is_read_to_its_end",
        guard="Of an answer of the collector its status is read, and no more",
        file=_OTLP,
        old="        answer.close()\n",
        new="        _ = answer.content\n",
        test=f"{_SENT}::test_an_answer_without_an_end_is_not_read",
    ),
    EdgeDefect(
        name="headers_go_in_plain",
        guard="Headers go by https, but on this machine",
        file=_CONFIG,
        old='    if told.headers_file and parts.scheme != "https" and not is_loopback(host):\n',
        new='    if told.headers_file and parts.scheme != "https" and not host:\n',
        test=f"{_READ}::test_headers_do_not_go_where_they_are_read_on_their_way",
    ),
    EdgeDefect(
        name="headers_that_others_read_are_taken",
        guard="The headers of a collector are not open to others",
        file=_CONFIG,
        old="    if mode & 0o027:\n",
        new="    if mode & 0o022:\n",
        test=f"{_READ}::test_headers_that_are_none_are_told_and_never_shown",
    ),
    EdgeDefect(
        name="packages_may_be_missing",
        guard="Without the packages of the extra the configuration is refused",
        file=_CONFIG,
        old="    if not _is_installed():\n",
        new="    if not _is_installed and told:\n",
        test=f"{_READ}::test_without_the_packages_the_remedy_is_told",
    ),
    EdgeDefect(
        name="a_secret_is_logged",
        guard="What looks like a secret is hidden in the log",
        file=_LINES,
        old="        refused = self._try(redacted(line))\n",
        new="        refused = self._try(line)\n",
        test=f"{_LOG}::test_what_looks_like_a_secret_is_hidden_in_every_field",
    ),
    EdgeDefect(
        name="who_logs_makes_text",
        guard="A line is made text on a thread of its own",
        file=_LINES,
        old="        self._waiting.append(entry)\n",
        new=(
            "        self._waiting.append("
            "entry if isinstance(entry, str) else self._render(entry))\n"
        ),
        test=f"{_LOG}::test_a_line_is_made_text_by_nobody_who_logs",
    ),
    EdgeDefect(
        name="lines_wait_without_end",
        guard="So many lines wait to be written and no more",
        file=_LINES,
        old="        if len(self._waiting) >= self._most_waiting:\n",
        new="        if len(self._waiting) >= 10**9:\n",
        test=f"{_LOG}::test_a_reader_that_does_not_read_keeps_nobody_and_little",
    ),
    EdgeDefect(
        name="values_of_variables_are_logged",
        guard="A trace in the log has no values of variables",
        file=_LINES,
        old="ExceptionDictTransformer(show_locals=False)",
        new="ExceptionDictTransformer(show_locals=True)",
        test=f"{_LOG}::test_a_trace_has_no_values_of_variables",
    ),
)
