"""Planted defects of the API; what they are is told in `defect`."""

from __future__ import annotations

from typing import Final

from tests.edges.defect import EdgeDefect

_CALLERS = "tests/unit/test_api_callers.py::"

API: Final[tuple[EdgeDefect, ...]] = (
    EdgeDefect(
        name="the_wait_for_a_log_begins_after_the_look",
        guard="What comes between a look at a log and the wait is not missed",
        file="dispatcher/api/routes/logs.py",
        old=(
            "            # It must wait before we look, or what comes in between would "
            "go unnoticed.\n"
            "            await asyncio.sleep(0)"
        ),
        new="",
        test="tests/unit/test_api_streams.py::test_a_follower_waits_for_news_before_it_looks",
    ),
    EdgeDefect(
        name="a_page_under_any_name_is_answered",
        guard="A server without tokens answers requests to this machine only",
        file="dispatcher/api/guards.py",
        old="    if match is None or not _is_loopback(match.group(1)):",
        new="    if match is None:",
        test=(
            "tests/unit/test_api_cross_origin.py::test_only_loopback_hosts_are_answered[evil.example-403]"
        ),
    ),
    EdgeDefect(
        name="a_page_of_another_origin_is_answered",
        guard="Pages of other origins are refused",
        file="dispatcher/api/guards.py",
        old=(
            "    if not _OUR_SITES.issuperset(sites) or not all(_same_port(each, port) "
            "for each in origins):"
        ),
        new="    if not _OUR_SITES.issuperset(sites):",
        test=(
            "tests/unit/test_api_cross_origin.py"
            "::test_only_our_own_origin_is_answered[http://localhost:8421-403]"
        ),
    ),
    EdgeDefect(
        name="a_page_of_another_site_is_answered",
        guard="What a browser says of another site is believed",
        file="dispatcher/api/guards.py",
        old=(
            "    if not _OUR_SITES.issuperset(sites) or not all(_same_port(each, port) "
            "for each in origins):"
        ),
        new="    if not all(_same_port(each, port) for each in origins):",
        test=(
            "tests/unit/test_api_cross_origin.py"
            "::test_only_our_own_site_is_answered[/health/live-sites2-403]"
        ),
    ),
    EdgeDefect(
        name="another_port_is_our_origin",
        guard="Another server on this machine is another origin",
        file="dispatcher/api/guards.py",
        old="    return loopback_port(match.group(2), default=default) == port",
        new="    return loopback_port(match.group(2), default=default) is not None",
        test=(
            "tests/unit/test_api_cross_origin.py"
            "::test_only_our_own_origin_is_answered[http://localhost:8421-403]"
        ),
    ),
    EdgeDefect(
        name="a_form_is_taken",
        guard="A body is declared as JSON, which no form can",
        file="dispatcher/api/guards.py",
        old="    if len(types) != 1 or not _JSON.fullmatch(types[0]):",
        new="    if len(types) != 1:",
        test=(
            "tests/unit/test_api_cross_origin.py"
            "::test_only_json_is_taken[application/json; charset=utf-16-415]"
        ),
    ),
    EdgeDefect(
        name="an_encoded_body_is_taken",
        guard="A body is not decompressed",
        file="dispatcher/api/guards.py",
        old='    if request.headers.get("Content-Encoding", "identity").lower() != "identity":',
        new='    if request.headers.get("Content-Encoding", "identity").lower() == "":',
        test="tests/unit/test_api_cross_origin.py::test_encoded_bodies_are_refused",
    ),
    EdgeDefect(
        name="a_port_has_no_limit",
        guard="A port is one that there can be",
        file="dispatcher/api/guards.py",
        old="    return port if port <= 65535 else None",
        new="    return port",
        test="tests/unit/test_api_cross_origin.py::test_a_port_that_cannot_be_is_nobodys[65536]",
    ),
    EdgeDefect(
        name="an_answer_is_for_pages_of_others",
        guard="No answer is for a page of another origin",
        file="dispatcher/api/guards.py",
        old='    "Cross-Origin-Resource-Policy": "same-origin",',
        new="",
        test=(
            "tests/unit/test_api_cross_origin.py"
            "::test_no_answer_is_for_other_origins[GET /health/live HTTP/1.1\\r\\nHost: "
            "localhost]"
        ),
    ),
    EdgeDefect(
        name="an_answer_is_sniffed",
        guard="An answer is of the type that it says",
        file="dispatcher/api/guards.py",
        old='    "X-Content-Type-Options": "nosniff",',
        new="",
        test=(
            "tests/unit/test_api_cross_origin.py"
            "::test_no_answer_is_for_other_origins[GET /health/live HTTP/1.1\\r\\nHost: "
            "localhost]"
        ),
    ),
    EdgeDefect(
        name="an_answer_is_kept_by_caches",
        guard="No cache keeps an answer",
        file="dispatcher/api/guards.py",
        old='    "Cache-Control": "no-store",',
        new="",
        test=(
            "tests/unit/test_api_cross_origin.py"
            "::test_no_answer_is_for_other_origins[GET /health/live HTTP/1.1\\r\\nHost: "
            "localhost]"
        ),
    ),
    EdgeDefect(
        name="large_bodies_have_no_limit",
        guard="Large bodies are few at a time",
        file="dispatcher/api/validate/bodies.py",
        old="        if self._held.total() >= most:",
        new="        if self._held.total() < 0:",
        test="tests/unit/test_api_refusals.py::test_large_bodies_are_few_at_a_time",
    ),
    EdgeDefect(
        name="a_large_body_keeps_its_place",
        guard="A large body that is done makes room",
        file="dispatcher/api/validate/bodies.py",
        old="            self._held[holder] -= 1",
        new="            self._held[holder] -= 0",
        test=(
            "tests/unit/test_api_refusals.py"
            "::test_a_large_body_that_is_done_makes_room_for_the_next"
        ),
    ),
    EdgeDefect(
        name="a_body_may_stall",
        guard="A body that stalls is given up",
        file="dispatcher/api/validate/bodies.py",
        old="            async with asyncio.timeout(self._limits.body_timeout_s):",
        new="            async with asyncio.timeout(3600 + self._limits.body_timeout_s):",
        test="tests/unit/test_api_refusals.py::test_a_body_that_stalls_is_given_up",
    ),
    EdgeDefect(
        name="a_body_has_no_limit",
        guard="A body has a limit",
        file="dispatcher/api/app.py",
        old="client_max_size=limits.request_bytes",
        new="client_max_size=2**40",
        test="tests/unit/test_api_refusals.py::test_bodies_over_the_limit_are_refused",
    ),
    EdgeDefect(
        name="an_unknown_parameter_is_ignored",
        guard="A parameter that nobody knows is named",
        file="dispatcher/api/validate/bodies.py",
        old="        if unknown:",
        new="        if unknown and known == ():",
        test="tests/unit/test_api_containers.py::test_a_wrong_parameter_is_named[nme=x-nme]",
    ),
    EdgeDefect(
        name="an_empty_number_is_the_default",
        guard="A number that is given is one, also in a query string",
        file="dispatcher/api/validate/bodies.py",
        old=(
            "        if text is None:\n            return parameter.default\n"
            "        low, high = parameter.low, parameter.high"
        ),
        new=(
            "        if not text:\n            return parameter.default\n"
            "        low, high = parameter.low, parameter.high"
        ),
        test=(
            "tests/unit/test_openapi.py"
            "::test_a_value_that_is_empty_is_refused_where_it_is_none[/v1/containers/c-1/logs-offset]"
        ),
    ),
    EdgeDefect(
        name="an_empty_switch_is_off",
        guard="A switch that is given is true or false",
        file="dispatcher/api/validate/bodies.py",
        old="        return text is not None and _one_of(",
        new='        return text not in (None, "") and _one_of(',
        test=(
            "tests/unit/test_openapi.py"
            "::test_a_value_that_is_empty_is_refused_where_it_is_none[/v1/instances-gone]"
        ),
    ),
    EdgeDefect(
        name="a_reused_key_is_a_state_that_does_not_allow_it",
        guard="A key that was another request's is told from what a state does not allow",
        file="dispatcher/api/render/problems.py",
        old="    KeyReused: 422,",
        new="    KeyReused: 409,",
        test=("tests/unit/test_api_containers.py::test_an_idempotency_key_makes_a_repeat_harmless"),
    ),
    EdgeDefect(
        name="a_refusal_that_a_route_may_answer_is_not_told",
        guard="The document tells every status that an operation answers",
        file="dispatcher/api/routes/openapi.py",
        old="    statuses = {400, 403, 417, 500, *route.refusals}",
        new="    statuses = {400, 403, 417, 500}",
        test="tests/unit/test_api_routes.py::test_priority_and_cancel",
    ),
    EdgeDefect(
        name="the_page_of_the_document_may_load_anything",
        guard="A browser keeps the packaged script of the documentation to this server",
        file="dispatcher/api/routes/docs.py",
        old='text=_PAGE, content_type="text/html", headers={"Content-Security-Policy": POLICY}',
        new='text=_PAGE, content_type="text/html"',
        test="tests/unit/test_api_docs.py::test_the_page_may_load_nothing_of_another_host",
    ),
    EdgeDefect(
        name="the_document_is_sent_to_a_validator",
        guard="The packaged script sends nothing to the internet",
        file="dispatcher/api/routes/docs.py",
        old="  validatorUrl: null,\n",
        new="",
        test="tests/unit/test_api_docs.py::test_the_page_refers_to_nothing_of_another_host",
    ),
    EdgeDefect(
        name="an_answer_that_may_have_a_secret_is_compressed",
        guard="What a POST answers is not compressed",
        file="dispatcher/api/compression.py",
        old='    if request.method != "GET" or not isinstance(response, web.Response):',
        new="    if not isinstance(response, web.Response):",
        test="tests/unit/test_api_compression.py::test_what_a_post_answers_is_sent_as_it_is",
    ),
    EdgeDefect(
        name="who_rules_gzip_out_gets_it",
        guard="Who gives gzip no weight gets answers as they are",
        file="dispatcher/api/compression.py",
        old='weights.get("*", 0.0)) > 0',
        new='weights.get("*", 0.0)) >= 0',
        test="tests/unit/test_api_compression.py::test_what_is_accepted[gzip;q=0-False]",
    ),
    EdgeDefect(
        name="small_answers_are_compressed",
        guard="What gains nothing is sent as it is",
        file="dispatcher/api/compression.py",
        old="len(body) >= COMPRESSED_FROM_BYTES and ",
        new="",
        test=(
            "tests/unit/test_api_compression.py::test_only_large_answers_to_a_get_are_compressed"
        ),
    ),
    EdgeDefect(
        name="a_cache_is_not_told_of_the_encoding",
        guard="A cache knows that an answer depends on what the client accepts",
        file="dispatcher/api/compression.py",
        old='    response.headers["Vary"] = "Accept-Encoding"\n',
        new="",
        test=(
            "tests/unit/test_api_compression.py::test_only_large_answers_to_a_get_are_compressed"
        ),
    ),
    EdgeDefect(
        name="who_takes_no_body_refuses_its_type",
        guard="A method that is not served is told as that, whatever is sent with it",
        file="dispatcher/api/guards.py",
        old=" and request.match_info.http_exception is None\n",
        new="\n",
        test=(
            "tests/unit/test_api_routes.py"
            "::test_a_wrong_method_is_told_before_a_body_that_is_no_json"
        ),
    ),
    EdgeDefect(
        name="a_stream_does_not_say_where_it_begins",
        guard="Who has been sent no event yet can go on without a gap",
        file="dispatcher/api/routes/events.py",
        old='b"retry: 2000\\n: longshore events\\n" + self._position()',
        new='b"retry: 2000\\n: longshore events\\n\\n"',
        test=(
            "tests/unit/test_api_streams.py"
            "::test_who_has_been_sent_nothing_yet_resumes_without_a_gap"
        ),
    ),
    EdgeDefect(
        name="a_heartbeat_does_not_say_how_far_it_is",
        guard="Who sees none of the events is not told of a gap for it",
        file="dispatcher/api/routes/events.py",
        old='b": heartbeat\\n" + self._position()',
        new='b": heartbeat\\n\\n"',
        test=(
            "tests/unit/test_api_streams.py::test_who_sees_none_of_the_events_is_told_how_far_it_is"
        ),
    ),
    EdgeDefect(
        name="an_id_of_another_start_is_taken",
        guard="A number means nothing to a server that began anew",
        file="dispatcher/api/routes/events.py",
        old="        if number > newest or epoch != self._encoder.epoch:",
        new="        if number > newest:",
        test=("tests/unit/test_api_streams.py::test_a_restart_between_two_events_is_told_as_a_gap"),
    ),
    EdgeDefect(
        name="a_parameter_may_be_given_twice",
        guard="A parameter is given once",
        file="dispatcher/api/validate/bodies.py",
        old=(
            "        if len(values) > 1:\n"
            '            raise InvalidRequest([(parameter.name, "is given twice: give it once")])\n'
            "        return values[0] if values else None"
        ),
        new="        return values[0] if values else None",
        test=(
            "tests/unit/test_api_containers.py"
            "::test_a_wrong_parameter_is_named[limit=1&limit=2-limit]"
        ),
    ),
    EdgeDefect(
        name="a_number_has_no_bounds",
        guard="A number is within its bounds",
        file="dispatcher/api/validate/bodies.py",
        old="        if not _WHOLE.fullmatch(text) or not low <= int(text) <= high:",
        new="        if not _WHOLE.fullmatch(text):",
        test=(
            "tests/unit/test_api_containers.py"
            "::test_a_wrong_parameter_is_named[job=j-1&array_index=100000000-array_index]"
        ),
    ),
    EdgeDefect(
        name="an_id_may_be_anything",
        guard="What can be no id never reaches the store",
        file="dispatcher/api/validate/ids.py",
        old="    if not _ID.fullmatch(identifier):",
        new="    if not identifier:",
        test=(
            "tests/unit/test_api_routes.py::test_what_can_be_no_id_never_reaches_the_backend[%00]"
        ),
    ),
    EdgeDefect(
        name="a_text_may_have_control_characters",
        guard="Text for people has no control characters",
        file="dispatcher/input/text_rules.py",
        old=('    if found is None:\n        return ""'),
        new=('    if found is None or ord(found[0]) < 0x80:\n        return ""'),
        test="tests/unit/test_api_plain_text.py::test_each_control_character_is_named",
    ),
    EdgeDefect(
        name="a_text_may_change_its_direction",
        guard="Text cannot look like another",
        file="dispatcher/input/text_rules.py",
        old='\\u2028-\\u202e\\u2066-\\u2069"',
        new='"',
        test="tests/unit/test_api_plain_text.py::test_each_control_character_is_named",
    ),
    EdgeDefect(
        name="a_query_may_have_control_characters",
        guard="A filter is plain text",
        file="dispatcher/api/validate/bodies.py",
        old=(
            "        if len(values) > 100 or not all(_PLAIN.fullmatch(value) for value in values):"
        ),
        new="        if len(values) > 100:",
        test="tests/unit/test_api_plain_text.py::test_reasons_and_filters_are_plain_too[\\x1b]",
    ),
    EdgeDefect(
        name="an_empty_list_is_taken",
        guard="A list has an item",
        file="dispatcher/api/validate/submissions.py",
        old="        if listed and not 1 <= len(value) <= self._limits.list_items:",
        new="        if listed and len(value) > self._limits.list_items:",
        test=(
            "tests/unit/test_api_refusals.py"
            "::test_a_body_that_is_no_request_is_refused[[]-send 1 to 10000]"
        ),
    ),
    EdgeDefect(
        name="a_list_waits_for_any_number",
        guard="What a list waits for is bounded in all",
        file="dispatcher/api/validate/submissions.py",
        old="        if entries > most:",
        new="        if entries < 0:",
        test="tests/unit/test_api_refusals.py::test_what_a_list_waits_for_is_bounded_in_all",
    ),
    EdgeDefect(
        name="users_name_variables_of_ours",
        guard="Variables of ours are refused at the submission",
        file="dispatcher/api/validate/containers.py",
        old="            elif name.startswith(RESERVED_PREFIX):",
        new="            elif name == RESERVED_PREFIX:",
        test=(
            "tests/unit/test_api_refusals.py"
            "::test_a_wrong_field_is_named[change22-env.LONGSHORE_ID-reserved]"
        ),
    ),
    EdgeDefect(
        name="a_variable_may_have_any_name",
        guard="A variable's name is one that programs can read",
        file="dispatcher/api/validate/containers.py",
        old="            if not VARIABLE.fullmatch(name):",
        new="            if not name:",
        test=(
            "tests/unit/test_api_refusals.py"
            "::test_a_wrong_field_is_named[change20-env.1A-not a variable's name]"
        ),
    ),
    EdgeDefect(
        name="an_argument_has_no_limit",
        guard="An argument is no longer than Linux passes on",
        file="dispatcher/api/validate/containers.py",
        old="            if sizes[index] > limits.argument_bytes:",
        new="            if sizes[index] < 0:",
        test=(
            "tests/unit/test_api_refusals.py"
            "::test_a_wrong_field_is_named[change15-command[0]-more than Linux]"
        ),
    ),
    EdgeDefect(
        name="the_end_of_an_attempt_is_skipped",
        guard="Who follows a log gets the end of an attempt before the next one's beginning",
        file="dispatcher/api/routes/logs.py",
        old="        if before is None or before == self._attempt_id:",
        new="        if before is not None or before == self._attempt_id:",
        test="tests/unit/test_api_streams.py::test_the_end_of_an_attempt_comes_before_the_next",
    ),
    EdgeDefect(
        name="one_user_has_all_places_of_large_bodies",
        guard="One user has half of the places of large bodies at most",
        file="dispatcher/api/validate/bodies.py",
        old="        if holder and self._held[holder] >= most_of_one:",
        new="        if holder and self._held[holder] >= most:",
        test=f"{_CALLERS}test_one_user_has_half_of_the_places_of_large_bodies",
    ),
    EdgeDefect(
        name="each_token_has_places_of_its_own",
        guard="Places of large bodies are counted by user, whatever the token",
        file="dispatcher/api/routes/callers.py",
        old='    return "" if caller is None or caller.is_local else caller.user',
        new='    return "" if caller is None or caller.is_local else caller.token_id',
        test=f"{_CALLERS}test_one_user_has_half_of_the_places_of_large_bodies",
    ),
    EdgeDefect(
        name="a_body_that_is_given_up_keeps_its_place",
        guard="A large body that does not come makes room",
        file="dispatcher/api/validate/bodies.py",
        old="            yield\n        finally:\n            self._held[holder] -= 1\n",
        new="            yield\n        except ValueError:\n            self._held[holder] -= 1\n",
        test=f"{_CALLERS}test_one_user_has_half_of_the_places_of_large_bodies",
    ),
    EdgeDefect(
        name="what_is_asked_is_kept_at_any_length",
        guard="What the audit log says of a request has a bound",
        file="dispatcher/api/entrance.py",
        old='        action = f"{request.method} {request.path}"[:_ACTION_CHARACTERS]',
        new='        action = f"{request.method} {request.path}"',
        test=f"{_CALLERS}test_the_audit_log_cuts_what_is_long",
    ),
)
