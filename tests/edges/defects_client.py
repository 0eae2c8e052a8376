"""Planted defects of the client library; what they are is told in `defect`."""

from __future__ import annotations

from typing import Final

from tests.edges.defect import EdgeDefect

_EXCHANGE = "tests/unit/test_client_exchange.py"
_STREAMS = "tests/unit/test_client_streams.py"
_HOSTILE = "tests/unit/test_client_hostile.py"
_SERVER = "tests/unit/test_client_server.py"

CLIENT: Final[tuple[EdgeDefect, ...]] = (
    EdgeDefect(
        name="a_lost_answer_is_always_repeated",
        guard="What may change something twice is not sent again",
        file="dispatcher/client/exchange.py",
        old="    does_no_harm = repeatable is not Repeatable.ONCE\n",
        new="    does_no_harm = bool(repeatable)\n",
        test=f"{_HOSTILE}::test_what_has_no_key_and_changes_something_is_sent_once",
    ),
    EdgeDefect(
        name="each_repeat_of_a_create_has_a_key_of_its_own",
        guard="A create that is repeated keeps its key",
        file="dispatcher/client/calls.py",
        old="        idempotency_key=key,\n",
        new='        idempotency_key="",\n',
        test=f"{_HOSTILE}::test_a_create_is_sent_again_under_the_same_key[sync]",
    ),
    EdgeDefect(
        name="an_outcome_in_doubt_is_final",
        guard="What the server does not know yet is asked again with the same key",
        file="dispatcher/client/exchange.py",
        old="        case LostAnswerError() | OutcomeUnknownError():\n",
        new="        case LostAnswerError():\n",
        test=f"{_EXCHANGE}::test_how_often_a_call_is_repeated",
    ),
    EdgeDefect(
        name="an_outcome_in_doubt_is_taken_for_a_refusal",
        guard="A 503 that leaves it open whether it was done is not read as one that was not",
        file="dispatcher/client/errors.py",
        old="    if status == 503 and problem_type == IN_DOUBT_TYPE:\n",
        new="    if status == 0 and problem_type == IN_DOUBT_TYPE:\n",
        test=f"{_EXCHANGE}::test_what_is_raised",
    ),
    EdgeDefect(
        name="whoever_is_in_doubt_is_not_told_the_key",
        guard="A create that remains in doubt names its key",
        file="dispatcher/client/exchange.py",
        old="        error.idempotency_key = call.idempotency_key\n",
        new="",
        test=f"{_EXCHANGE}::test_a_create_that_is_in_doubt_names_its_key",
    ),
    EdgeDefect(
        name="repeats_go_on_for_ever",
        guard="Every call ends: repeats are counted",
        file="dispatcher/client/exchange.py",
        old="    if repeated >= _most_repeats(error, call.repeatable, policy):\n",
        new="    if _most_repeats(error, call.repeatable, policy) == 0:\n",
        test=f"{_EXCHANGE}::test_how_often_a_call_is_repeated",
    ),
    EdgeDefect(
        name="a_refusal_without_a_time_is_repeated",
        guard="A refusal is repeated only where the server says when",
        file="dispatcher/client/exchange.py",
        old="            may = error.retry_after_s is not None\n",
        new="            may = True\n",
        test=f"{_HOSTILE}::test_a_refusal_that_names_no_time_is_final[sync]",
    ),
    EdgeDefect(
        name="retry_after_is_not_heard",
        guard="Nobody comes back before Retry-After",
        file="dispatcher/client/exchange.py",
        old="max(own_s, retry_after_s or 0.0)",
        new="own_s",
        test=f"{_EXCHANGE}::test_how_long_the_pause_is",
    ),
    EdgeDefect(
        name="a_server_puts_a_caller_to_sleep_for_a_day",
        guard="What Retry-After wants is capped",
        file="dispatcher/client/exchange.py",
        old="    pause_s = min(policy.longest_pause_s, max(own_s, retry_after_s or 0.0))\n",
        new="    pause_s = max(own_s, retry_after_s or 0.0)\n",
        test=f"{_EXCHANGE}::test_how_long_the_pause_is",
    ),
    EdgeDefect(
        name="all_come_back_at_once",
        guard="Pauses have jitter",
        file="dispatcher/client/exchange.py",
        old="    return pause_s * (1.0 + policy.jitter * dice)\n",
        new="    return pause_s * (1.0 + 0.0 * dice)\n",
        test=f"{_EXCHANGE}::test_how_long_the_pause_is",
    ),
    EdgeDefect(
        name="the_token_follows_a_redirect",
        guard="A redirect never carries the token elsewhere",
        file="dispatcher/client/async_transport.py",
        old="                allow_redirects=False,\n",
        new="                allow_redirects=True,\n",
        test=f"{_HOSTILE}::test_a_redirect_never_carries_the_token_elsewhere[async]",
    ),
    EdgeDefect(
        name="the_token_follows_a_redirect_of_the_sync_client",
        guard="A redirect never carries the token elsewhere",
        file="dispatcher/client/blocking_transport.py",
        old="                redirect=False,\n                retries=False,\n",
        new="                redirect=True,\n                retries=3,\n",
        test=f"{_HOSTILE}::test_a_redirect_never_carries_the_token_elsewhere[sync]",
    ),
    EdgeDefect(
        name="what_is_no_stream_is_asked_for_for_ever",
        guard="An answer that is no stream ends the reading",
        file="dispatcher/client/async_transport.py",
        old="                raise stranger(self.url)\n",
        new="                repeated += 0\n",
        test=f"{_HOSTILE}::test_an_answer_that_is_no_stream_is_told",
    ),
    EdgeDefect(
        name="an_id_is_a_path",
        guard="An id is quoted: it never becomes another path",
        file="dispatcher/client/calls.py",
        old='quote(next(places), safe="")',
        new="quote(next(places))",
        test=f"{_HOSTILE}::test_ids_are_quoted_and_never_another_path[sync]",
    ),
    EdgeDefect(
        name="any_certificate_will_do",
        guard="The server's certificate is checked",
        file="dispatcher/client/settings.py",
        old="        return ssl.create_default_context(cafile=self.ca_file)\n",
        new=(
            "        context = ssl.create_default_context(cafile=self.ca_file)\n"
            "        context.check_hostname = False\n"
            "        return context\n"
        ),
        test=f"{_SERVER}::test_a_certificate_of_another_name_is_refused[async]",
    ),
    EdgeDefect(
        name="a_dead_socket_is_preferred",
        guard="This machine's socket is used only where somebody answers on it",
        file="dispatcher/client/settings.py",
        old="            probe.connect(str(path))\n",
        new="            path.lstat()\n",
        test=f"{_SERVER}::test_this_machines_server_is_found_by_its_socket",
    ),
    EdgeDefect(
        name="a_log_begins_anew_after_a_break",
        guard="A log is taken up at the offset where it broke",
        file="dispatcher/client/log_cursor.py",
        old="        return replace(self, offset=self.offset + count)\n",
        new="        return replace(self, offset=self.offset + 0 * count)\n",
        test=f"{_HOSTILE}::test_a_log_is_taken_up_where_it_broke[sync]",
    ),
    EdgeDefect(
        name="another_attempt_is_read_from_the_old_offset",
        guard="Another attempt's log is not read from the offset of the one before",
        file="dispatcher/client/log_cursor.py",
        old="            offset = self._beyond(container, more)\n",
        new="            offset = self.offset\n",
        test=f"{_STREAMS}::test_where_a_log_is_taken_up",
    ),
    EdgeDefect(
        name="what_an_open_attempt_wrote_is_taken_for_all",
        guard="What an attempt wrote counts only once its log is complete",
        file="dispatcher/client/log_cursor.py",
        old="    return attempt.outcome is not None and attempt.log_complete\n",
        new="    return attempt.outcome is not None\n",
        test=f"{_STREAMS}::test_where_a_log_is_taken_up",
    ),
    EdgeDefect(
        name="a_log_is_read_without_a_second_look",
        guard="An attempt that begins between the look and the answer is not read from the middle",
        file="dispatcher/client/log_cursor.py",
        old="        return not self.offset or self.seen(container) == self\n",
        new="        return not self.offset or bool(container.id)\n",
        test=(
            f"{_HOSTILE}"
            "::test_an_attempt_that_begins_between_the_look_and_the_answer_is_not_read_from_the_middle[sync]"
        ),
    ),
    EdgeDefect(
        name="events_go_on_from_now",
        guard="Events go on behind the last one that came",
        file="dispatcher/client/event_stream.py",
        old="            self.last_id = frame.id\n",
        new='            self.last_id = ""\n',
        test=f"{_HOSTILE}::test_events_go_on_behind_the_last_that_came[async]",
    ),
    EdgeDefect(
        name="a_break_before_any_event_is_not_told",
        guard="Events that only the client can know to be missing are told",
        file="dispatcher/client/event_stream.py",
        old="        if self._connections > 1 and not self.last_id:\n",
        new="        if self._connections < 1:\n",
        test=f"{_STREAMS}::test_a_connection_that_broke_before_any_event_leaves_a_gap",
    ),
    EdgeDefect(
        name="a_gap_is_passed_over",
        guard="Where the server says that events are missing, a gap stands",
        file="dispatcher/client/event_stream.py",
        old='        if frame.kind == "gap":\n',
        new='        if frame.kind == "gaps":\n',
        test=f"{_HOSTILE}::test_a_gap_stands_where_events_are_missing[sync]",
    ),
    EdgeDefect(
        name="a_line_of_events_has_no_end",
        guard="A line of events is bounded",
        file="dispatcher/client/event_stream.py",
        old="        if len(self._pending) > self._max_line_bytes:\n",
        new="        if len(self._pending) < 0:\n",
        test=f"{_STREAMS}::test_a_line_without_end_is_an_error",
    ),
    EdgeDefect(
        name="a_refusal_is_waited_out",
        guard="What is refused is not tried again for ten minutes",
        file="dispatcher/client/waiting.py",
        old="        if self._last_contact_s is None or not error.passing:\n",
        new="        if self._last_contact_s is None:\n",
        test=f"{_STREAMS}::test_a_refusal_is_no_absence_and_neither_is_one_that_never_was_there",
    ),
    EdgeDefect(
        name="an_absent_server_is_waited_for_for_ever",
        guard="Patience with an absent server ends",
        file="dispatcher/client/waiting.py",
        old="        if now_s - self._last_contact_s > self._patience_s:\n",
        new="        if now_s - self._last_contact_s < 0:\n",
        test=f"{_STREAMS}::test_who_had_contact_is_patient_and_pauses_grow",
    ),
    EdgeDefect(
        name="what_failed_has_a_result",
        guard="A result is what has succeeded",
        file="dispatcher/client/waiting.py",
        old='        case "succeeded":\n',
        new='        case "succeeded" | "failed":\n',
        test=f"{_STREAMS}::test_a_result_is_what_a_future_would_give",
    ),
    EdgeDefect(
        name="a_token_is_made_twice",
        guard="A token whose answer was lost is asked for again under the same key",
        file="dispatcher/client/calls.py",
        old='    return _typed(NewTokenAnswer, "create_token", body=body, key=key)',
        new='    return _typed(NewTokenAnswer, "create_token", body=body, key=key[:0])',
        test=f"{_SERVER}::test_a_token_is_made_once_however_often_it_is_asked_for[sync]",
    ),
    EdgeDefect(
        name="nobody_is_told_what_to_do_with_a_lost_token",
        guard="The command line says how to get rid of a token whose text was lost",
        file="dispatcher/cli/commands/tokens.py",
        old="if failure.status == 409 else None",
        new="if failure.status == 410 else None",
        test="tests/unit/test_cli_untrusted_input.py"
        "::test_a_token_whose_answer_was_lost_is_asked_for_again_under_the_same_key",
    ),
)
