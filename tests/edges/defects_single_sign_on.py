"""Planted defects of single sign-on: issuer and trusted proxy; what they are is in `defect`."""

from __future__ import annotations

from typing import Final

from tests.edges.defect import EdgeDefect

SINGLE_SIGN_ON: Final[tuple[EdgeDefect, ...]] = (
    EdgeDefect(
        name="a_jwt_need_not_be_signed",
        guard="A JWT without a signature is worthless",
        file="dispatcher/access/json_web_tokens.py",
        old='        if header.get("alg") not in ALGORITHMS:',
        new='        if header.get("alg") == "HS256":',
        test="tests/unit/test_json_web_tokens.py::test_a_token_is_judged[alg none]",
    ),
    EdgeDefect(
        name="a_public_key_is_taken_for_a_secret",
        guard="Keys that everybody can fetch sign nothing",
        file="dispatcher/access/json_web_tokens.py",
        old='        if header.get("alg") not in ALGORITHMS:',
        new='        if header.get("alg") in {None, "none"}:',
        test=(
            "tests/unit/test_json_web_tokens.py::test_a_token_is_judged[HS256 with the public key]"
        ),
    ),
    EdgeDefect(
        name="what_a_jwt_says_is_critical_is_ignored",
        guard="A header that says it is critical and is not known is refused",
        file="dispatcher/access/json_web_tokens.py",
        old=("        REGISTRY.check_header(header)\n"),
        new="",
        test="tests/unit/test_json_web_tokens.py::test_a_token_is_judged[critical]",
    ),
    EdgeDefect(
        name="a_jwt_for_logging_out_lets_in",
        guard="Tokens of other kinds let nobody in",
        file="dispatcher/access/json_web_tokens.py",
        old="    if kind not in _TYPES:",
        new="    if not kind:",
        test="tests/unit/test_json_web_tokens.py::test_a_token_is_judged[for logging out]",
    ),
    EdgeDefect(
        name="any_issuer_will_do",
        guard="The issuer is the one that is configured",
        file="dispatcher/access/json_web_tokens.py",
        old='        iss={"essential": True, "value": terms.issuer},',
        new='        iss={"essential": True},',
        test="tests/unit/test_json_web_tokens.py::test_a_token_is_judged[other issuer]",
    ),
    EdgeDefect(
        name="a_jwt_for_another_program_lets_in",
        guard="The audience is this server",
        file="dispatcher/access/json_web_tokens.py",
        old='        aud={"essential": True, "value": terms.audience},',
        new='        aud={"essential": True},',
        test="tests/unit/test_json_web_tokens.py::test_a_token_is_judged[other audience]",
    ),
    EdgeDefect(
        name="a_jwt_of_no_audience_lets_in",
        guard="A JWT says for whom it is",
        file="dispatcher/access/json_web_tokens.py",
        old='        aud={"essential": True, "value": terms.audience},',
        new='        aud={"value": terms.audience},',
        test="tests/unit/test_json_web_tokens.py::test_a_token_is_judged[no audience]",
    ),
    EdgeDefect(
        name="a_jwt_need_not_expire",
        guard="A JWT says until when it is good",
        file="dispatcher/access/json_web_tokens.py",
        old='        exp={"essential": True},',
        new="        exp={},",
        test="tests/unit/test_json_web_tokens.py::test_a_token_is_judged[never expires]",
    ),
    EdgeDefect(
        name="clocks_may_differ_by_an_hour",
        guard="The leeway for clocks is small",
        file="dispatcher/access/json_web_tokens.py",
        old="LEEWAY_S = 30",
        new="LEEWAY_S = 3600",
        test="tests/unit/test_issuer.py::test_the_leeway_is_small",
    ),
    EdgeDefect(
        name="several_keys_need_no_name",
        guard="Among several keys a JWT names its own",
        file="dispatcher/access/json_web_tokens.py",
        old="    return len(keys.keys) == 1",
        new="    return True",
        test=(
            "tests/unit/test_json_web_tokens.py::test_a_token_is_judged[no kid among several keys]"
        ),
    ),
    EdgeDefect(
        name="an_end_that_no_clock_has",
        guard="Until when a JWT is good is a number that a clock has",
        file="dispatcher/access/json_web_tokens.py",
        old='float(min(claims["exp"] + LEEWAY_S, _LATEST))',
        new='float(claims["exp"] + LEEWAY_S)',
        test=(
            "tests/unit/test_json_web_tokens.py"
            "::test_how_long_it_may_ask_has_an_end_that_a_clock_has"
        ),
    ),
    EdgeDefect(
        name="made_up_keys_make_fetches",
        guard="Keys are fetched twice a minute at most",
        file="dispatcher/access/issuer_keys.py",
        old="            if self._tried_at is not None and now - self._tried_at < RETRY_S:",
        new="            if self._tried_at is not None and now - self._tried_at < 0:",
        test="tests/unit/test_issuer.py::test_made_up_keys_make_a_few_fetches",
    ),
    EdgeDefect(
        name="who_comes_at_once_fetches_too",
        guard="One at a time fetches the keys",
        file="dispatcher/access/issuer_keys.py",
        old=("        if self._fetch is None:\n            now"),
        new=(
            "        if self._fetch is None or not self._fetch.done():\n"
            "            self._tried_at = None\n"
            "            now"
        ),
        test="tests/unit/test_issuer.py::test_who_comes_at_once_waits_for_one_fetch",
    ),
    EdgeDefect(
        name="who_goes_away_ends_the_fetch",
        guard="Who goes away ends the fetch for nobody else",
        file="dispatcher/access/issuer_keys.py",
        old="await asyncio.shield(self._fetch)",
        new="await self._fetch",
        test="tests/unit/test_issuer.py::test_who_comes_at_once_waits_for_one_fetch",
    ),
    EdgeDefect(
        name="keys_are_fetched_once_and_for_all",
        guard="A key that was taken back does not count for ever",
        file="dispatcher/access/issuer_keys.py",
        old="self._clock() - self._read_at >= FRESH_S:",
        new="self._read_at < 0:",
        test="tests/unit/test_issuer.py::test_a_key_that_was_taken_back_does_not_count_for_ever",
    ),
    EdgeDefect(
        name="an_issuer_that_is_away_takes_its_keys_along",
        guard="Keys are kept while the issuer is away",
        file="dispatcher/access/issuer_keys.py",
        old=("            self.last = IssuerAnswer.AWAY\n"),
        new=("            self.last, self.known = IssuerAnswer.AWAY, KeySet([])\n"),
        test="tests/unit/test_issuer.py::test_keys_are_kept_while_the_issuer_is_away",
    ),
    EdgeDefect(
        name="an_issuer_that_says_nothing_is_waited_for",
        guard="An issuer has a bounded time to answer",
        file="dispatcher/access/issuer_calls.py",
        old="aiohttp.ClientTimeout(total=FETCH_TIMEOUT_S)",
        new="aiohttp.ClientTimeout(total=None)",
        test="tests/unit/test_issuer.py::test_an_issuer_that_says_nothing_is_not_waited_for_long",
    ),
    EdgeDefect(
        name="an_issuer_answers_at_any_length",
        guard="An issuer's answer has a limit",
        file="dispatcher/access/issuer_calls.py",
        old="            if len(content) > ANSWER_BYTES_MOST:",
        new="            if len(content) < 0:",
        test="tests/unit/test_issuer.py::test_what_is_no_answer_of_the_issuer_is_none[_padded]",
    ),
    EdgeDefect(
        name="keys_are_fetched_elsewhere",
        guard="Nobody is sent elsewhere for keys",
        file="dispatcher/access/issuer_calls.py",
        old="allow_redirects=False",
        new="allow_redirects=True",
        test=(
            "tests/unit/test_issuer.py::test_what_is_no_answer_of_the_issuer_is_none[_elsewhere]"
        ),
    ),
    EdgeDefect(
        name="the_document_of_any_issuer_will_do",
        guard="The discovery document is that of the issuer",
        file="dispatcher/access/issuer_keys.py",
        old="        if found.issuer != self._url:",
        new="        if not found.issuer:",
        test="tests/unit/test_issuer.py::test_what_is_no_answer_of_the_issuer_is_none[_another]",
    ),
    EdgeDefect(
        name="keys_come_in_the_open",
        guard="Keys come by https, or on this machine",
        file="dispatcher/access/issuer_keys.py",
        old='        if why := url_problem(found.jwks_uri.partition("?")[0]):',
        new='        if why := "" and url_problem(found.jwks_uri):',
        test="tests/unit/test_issuer.py::test_keys_are_asked_for_in_no_way_that_can_be_changed",
    ),
    EdgeDefect(
        name="short_keys_count",
        guard="A key that can be broken signs nothing",
        file="dispatcher/access/issuer_keys.py",
        old="_RSA_BITS_LEAST = 2048",
        new="_RSA_BITS_LEAST = 512",
        test="tests/unit/test_issuer.py::test_keys_that_cannot_be_used_do_not_spoil_the_others",
    ),
    EdgeDefect(
        name="keys_for_other_uses_count",
        guard="A key that is for other uses signs nothing",
        file="dispatcher/access/issuer_keys.py",
        old=' or data.get("use", "sig") != "sig":',
        new=":",
        test="tests/unit/test_issuer.py::test_keys_for_other_uses_sign_nothing",
    ),
    EdgeDefect(
        name="one_bad_key_spoils_all",
        guard="A key that cannot be read does not spoil the others",
        file="dispatcher/access/issuer_keys.py",
        old="(JoseError, ValueError, TypeError, KeyError, UnsupportedAlgorithm)",
        new="JoseError",
        test="tests/unit/test_issuer.py::test_keys_that_cannot_be_used_do_not_spoil_the_others",
    ),
    EdgeDefect(
        name="the_least_role_counts",
        guard="Of several roles the greatest counts",
        file="dispatcher/access/issuer.py",
        old="_BY_GREATNESS = (Role.ADMIN, Role.LEAD, Role.USER, Role.METRICS)",
        new="_BY_GREATNESS = (Role.METRICS, Role.USER, Role.LEAD, Role.ADMIN)",
        test="tests/unit/test_issuer.py::test_the_greatest_role_counts[roles4-Role.ADMIN]",
    ),
    EdgeDefect(
        name="who_has_no_role_is_a_user",
        guard="Whom the issuer gives no role comes in by default_role only",
        file="dispatcher/access/issuer.py",
        old="if each in given), config.default_role)",
        new="if each in given), Role.USER)",
        test="tests/unit/test_issuer.py::test_the_greatest_role_counts[admin-None]",
    ),
    EdgeDefect(
        name="groups_of_others_are_projects",
        guard="What has no prefix names no project",
        file="dispatcher/access/issuer.py",
        old=("        if each.startswith(prefix)\n"),
        new="",
        test=(
            "tests/unit/test_issuer.py"
            "::test_projects_are_what_the_claim_names[groups3-/-expected3-a]"
        ),
    ),
    EdgeDefect(
        name="an_issuer_that_is_away_is_a_verdict",
        guard="That the issuer is away says nothing of a JWT",
        file="dispatcher/access/issuer.py",
        old="Denial(kind=DenialKind.UNDECIDED, sentence=said)",
        new="Denial(kind=DenialKind.WORTHLESS, sentence=said)",
        test="tests/unit/test_issuer.py::test_an_issuer_that_is_away_is_no_verdict",
    ),
    EdgeDefect(
        name="any_number_of_projects",
        guard="A caller has a bounded number of projects",
        file="dispatcher/access/claimed.py",
        old="    if len(projects) > PROJECTS_MOST:",
        new="    if len(projects) < 0:",
        test=(
            "tests/unit/test_issuer.py"
            "::test_what_is_no_name_is_refused[claims3-101 projects, and one caller may have "
            "100]"
        ),
    ),
    EdgeDefect(
        name="a_project_of_any_name",
        guard="What is no name is no project",
        file="dispatcher/access/claimed.py",
        old="        if why := name_problem(project):",
        new='        if why := "" and name_problem(project):',
        test=(
            "tests/unit/test_issuer.py"
            "::test_what_is_no_name_is_refused[claims0-One of the projects that you come with"
            " is not a name: use 1 to 63]"
        ),
    ),
    EdgeDefect(
        name="a_user_that_no_store_takes",
        guard="A user's name is text that can be shown",
        file="dispatcher/access/claimed.py",
        old="    if not user.isprintable():",
        new="    if text_problem(user):",
        test=(
            "tests/unit/test_issuer.py"
            "::test_what_is_no_name_is_refused[claims11-that cannot be shown]"
        ),
    ),
    EdgeDefect(
        name="a_user_without_a_name",
        guard="A user has a name",
        file="dispatcher/access/claimed.py",
        old="    if not user.strip():",
        new="    if user is None:",
        test="tests/unit/test_issuer.py::test_what_is_no_name_is_refused[claims7-has no name]",
    ),
    EdgeDefect(
        name="anybody_is_the_proxy",
        guard="Headers count from the proxy's address only",
        file="dispatcher/access/proxy.py",
        old=("        if not self.is_at(peer):\n            return None\n"),
        new="",
        test=(
            "tests/unit/test_trusted_proxy.py"
            "::test_headers_count_from_the_proxy_only[127.0.0.1-False]"
        ),
    ),
    EdgeDefect(
        name="the_first_of_two_headers_counts",
        guard="Two headers of a kind are refused",
        file="dispatcher/access/proxy.py",
        old="            if len(values) > 1:",
        new="            if len(values) > 2:",
        test=(
            "tests/unit/test_trusted_proxy.py"
            "::test_what_can_be_read_in_two_ways_is_refused[headers2-DenialKind.MALFORMED-X-R"
            "ole is given twice: the proxy must replace what it is sent]"
        ),
    ),
    EdgeDefect(
        name="a_role_of_nobody_is_passed_over",
        guard="A role without a user is refused",
        file="dispatcher/access/proxy.py",
        old="        if projects or role:",
        new="        if projects and role:",
        test=(
            "tests/unit/test_trusted_proxy.py"
            "::test_what_can_be_read_in_two_ways_is_refused[headers4-DenialKind.MALFORMED-and"
            " no user in X-User]"
        ),
    ),
    EdgeDefect(
        name="an_unknown_role_is_a_user",
        guard="A role that is none is refused",
        file="dispatcher/access/proxy.py",
        old="_ROLES.get(role or Role.USER.value)",
        new="_ROLES.get(role or Role.USER.value, Role.USER)",
        test=(
            "tests/unit/test_trusted_proxy.py"
            "::test_what_can_be_read_in_two_ways_is_refused[headers6-DenialKind.NO_RIGHT-a ro"
            "le that is none]"
        ),
    ),
    EdgeDefect(
        name="anybody_says_where_they_are",
        guard="Where a request comes from only the proxy may say",
        file="dispatcher/access/proxy.py",
        old=("        if not self.is_at(peer):\n            return peer\n"),
        new="",
        test=(
            "tests/unit/test_trusted_proxy.py"
            "::test_where_a_request_comes_from[192.0.2.8-forwarded_for13-192.0.2.8]"
        ),
    ),
    EdgeDefect(
        name="what_a_caller_wrote_is_its_address",
        guard="Where a request comes from is what the proxy saw",
        file="dispatcher/access/proxy.py",
        old=("            if not self.is_at(origin):\n                break\n"),
        new="",
        test=(
            "tests/unit/test_trusted_proxy.py"
            "::test_where_a_request_comes_from[10.0.0.5-forwarded_for1-192.0.2.7]"
        ),
    ),
    EdgeDefect(
        name="ipv4_in_the_dress_of_ipv6_is_another",
        guard="An address is the same by whichever socket",
        file="dispatcher/config/hosts.py",
        old=(
            "    if isinstance(found, ipaddress.IPv6Address) and found.ipv4_mapped is not None:\n"
            "        return found.ipv4_mapped\n"
        ),
        new="",
        test=(
            "tests/unit/test_trusted_proxy.py"
            "::test_headers_count_from_the_proxy_only[::ffff:10.0.0.5-True]"
        ),
    ),
    EdgeDefect(
        name="tokens_of_ours_go_to_the_issuer",
        guard="A token of ours is never shown to the issuer",
        file="dispatcher/api/doors.py",
        old=("        if looks_like_jwt(text):\n            if"),
        new=("        if looks_like_jwt(text) or self._issuer is not None:\n            if"),
        test=(
            "tests/unit/test_access_table.py"
            "::test_a_jwt_that_nobody_can_judge_is_503_and_tokens_of_ours_are_not"
        ),
    ),
    EdgeDefect(
        name="what_is_public_waits_for_the_issuer",
        guard="What is public is answered whoever asks",
        file="dispatcher/api/entrance.py",
        old="(Unauthorized, TooManyRequests, Forbidden, InvalidRequest, Unavailable)",
        new="(Unauthorized, TooManyRequests, Forbidden, InvalidRequest)",
        test=(
            "tests/unit/test_access_table.py"
            "::test_a_jwt_that_nobody_can_judge_is_503_and_tokens_of_ours_are_not"
        ),
    ),
    EdgeDefect(
        name="a_proxy_hears_what_callers_write",
        guard="The audit log has whom the proxy names",
        file="dispatcher/api/doors.py",
        old='        return self._proxy.origin(request.remote or "unknown", forwarded_for)',
        new='        return request.remote or "".join(forwarded_for)',
        test="tests/unit/test_access_table.py::test_the_log_of_changes_says_whom_the_proxy_names",
    ),
    EdgeDefect(
        name="an_issuer_in_the_open",
        guard="An issuer is asked by https, or on this machine",
        file="dispatcher/config/single_sign_on.py",
        old='    return parts.scheme == "https" or (parts.scheme == "http" and is_loopback(host))',
        new='    return parts.scheme in {"https", "http"}',
        test=(
            "tests/unit/test_config_single_sign_on.py"
            "::test_a_wrong_issuer_is_refused[changed0-url-must begin with https://]"
        ),
    ),
    EdgeDefect(
        name="an_issuer_for_everybody",
        guard="An issuer needs an audience",
        file="dispatcher/config/single_sign_on.py",
        old="    if not issuer.audience:",
        new="    if issuer.audience is None:",
        test=(
            "tests/unit/test_config_single_sign_on.py"
            "::test_a_wrong_issuer_is_refused[changed9-audience-those for every other program"
            " would do here]"
        ),
    ),
    EdgeDefect(
        name="everybody_may_be_the_proxy",
        guard="The proxy is not everybody",
        file="dispatcher/config/single_sign_on.py",
        old="    if network.prefixlen == 0:",
        new="    if network.prefixlen < 0:",
        test=(
            "tests/unit/test_config_single_sign_on.py"
            "::test_a_wrong_proxy_is_refused[changed3-addresses[0]-anybody could say who they"
            " are]"
        ),
    ),
    EdgeDefect(
        name="open_doors_with_a_proxy",
        guard="Neither goes with open doors",
        file="dispatcher/config/single_sign_on.py",
        old="    if mode is AuthMode.OPEN:",
        new="    if mode is None:",
        test=(
            "tests/unit/test_config_single_sign_on.py"
            "::test_neither_goes_with_open_doors_and_all_is_told_at_once"
        ),
    ),
    EdgeDefect(
        name="one_header_says_two_things",
        guard="Each header says one thing",
        file="dispatcher/config/single_sign_on.py",
        old="elif other := seen.get(header.lower()):",
        new="elif other := seen.get(header):",
        test=(
            "tests/unit/test_config_single_sign_on.py"
            "::test_a_wrong_proxy_is_refused[changed9-role_header-is user_header too]"
        ),
    ),
    EdgeDefect(
        name="authorization_names_the_user",
        guard="A header that means something else names nobody",
        file="dispatcher/config/single_sign_on.py",
        old="        elif header.lower() in _OURS:",
        new="        elif header in _OURS:",
        test=(
            "tests/unit/test_config_single_sign_on.py"
            "::test_a_wrong_proxy_is_refused[changed7-user_header-has a meaning of its own]"
        ),
    ),
    EdgeDefect(
        name="an_answer_is_inflated",
        guard="An issuer's answer is not inflated",
        file="dispatcher/access/issuer_calls.py",
        old=", auto_decompress=False",
        new="",
        test=(
            "tests/unit/test_issuer.py::test_what_is_no_answer_of_the_issuer_is_none[_inflatable]"
        ),
    ),
    EdgeDefect(
        name="an_issuer_is_asked_only_by_who_comes",
        guard="An issuer that is away is asked again though nobody comes",
        file="dispatcher/access/issuer_keys.py",
        old="            if self.last is IssuerAnswer.AWAY:\n                await self.fetch()\n",
        new="",
        test=(
            "tests/unit/test_health_access.py"
            "::test_an_issuer_that_is_away_is_told_until_it_answers_though_nobody_comes"
        ),
    ),
    EdgeDefect(
        name="an_issuer_stays_away",
        guard="An issuer that answers again is no problem",
        file="dispatcher/access/issuer_keys.py",
        old='            self.why_away = ""\n            _log.info(',
        new="            _log.info(",
        test=(
            "tests/unit/test_health_access.py"
            "::test_an_issuer_that_is_away_is_told_until_it_answers_though_nobody_comes"
        ),
    ),
)
