"""Planted defects of logging in at the issuer in a browser; what they are is in `defect`."""

from __future__ import annotations

from typing import Final

from tests.edges.defect import EdgeDefect

_TESTS = "tests/unit/test_browser_login.py::"
_ATTEMPT = "dispatcher/access/login_attempt.py"
_COOKIES = "dispatcher/access/browser_cookies.py"
_FLOW = "dispatcher/access/issuer_login.py"
_GUARDS = "dispatcher/api/guards.py"
_KEYS = "dispatcher/access/issuer_keys.py"
_PAGES = "dispatcher/api/browser_login.py"
_SETTINGS = "dispatcher/config/single_sign_on.py"
_SETTINGS_TESTS = "tests/unit/test_config_single_sign_on.py::"

BROWSER_LOGIN: Final[tuple[EdgeDefect, ...]] = (
    EdgeDefect(
        name="the_state_of_any_login_will_do",
        guard="What comes back from the issuer is of this browser's login",
        file=_ATTEMPT,
        old="    if not _same(back.state, attempt.state):",
        new="    if not back.state:",
        test=f"{_TESTS}test_csrf_another_logins_state_lets_nobody_in",
    ),
    EdgeDefect(
        name="any_issuer_sends_browsers_back",
        guard="A browser comes back from the issuer that it was sent to",
        file=_ATTEMPT,
        old="    if (back.iss or says_who) and back.iss != issuer:",
        new="    if says_who and not back.iss:",
        test=f"{_TESTS}test_mix_up_who_the_issuer_says_it_is_must_be_who_was_asked",
    ),
    EdgeDefect(
        name="an_issuer_need_not_say_who_it_is",
        guard="An issuer that always says who it is, does",
        file=_ATTEMPT,
        old="    if (back.iss or says_who) and back.iss != issuer:",
        new="    if back.iss and back.iss != issuer:",
        test=f"{_TESTS}test_mix_up_an_issuer_that_always_says_who_it_is_must_do_so",
    ),
    EdgeDefect(
        name="the_first_of_two_codes_counts",
        guard="What comes back from the issuer can be read in one way",
        file=_ATTEMPT,
        old="    if any(len(values) > 1 for values in told.values()):",
        new="    if any(len(values) > 9 for values in told.values()):",
        test=f"{_TESTS}test_an_address_can_be_read_in_one_way",
    ),
    EdgeDefect(
        name="the_token_of_any_login_will_do",
        guard="An ID token has the nonce of this browser's login",
        file=_ATTEMPT,
        old="    if not isinstance(nonce, str) or not _same(nonce, attempt.nonce):",
        new="    if not isinstance(nonce, str):",
        test=f"{_TESTS}test_a_token_of_another_login_lets_nobody_in[claims0]",
    ),
    EdgeDefect(
        name="a_token_without_a_nonce_will_do",
        guard="An ID token has a nonce",
        file=_ATTEMPT,
        old="    if not isinstance(nonce, str) or not _same(nonce, attempt.nonce):",
        new="    if isinstance(nonce, str) and not _same(nonce, attempt.nonce):",
        test=f"{_TESTS}test_a_token_of_another_login_lets_nobody_in[claims1]",
    ),
    EdgeDefect(
        name="a_token_of_another_program_will_do",
        guard="An ID token was made for this server",
        file=_ATTEMPT,
        old='    return _OTHER_CLIENT if claims.get("azp", client_id) != client_id else ""',
        new='    return ""',
        test=f"{_TESTS}test_a_token_is_judged_as_any_other[claims2-401-for another program]",
    ),
    EdgeDefect(
        name="the_challenge_is_the_verifier",
        guard="The issuer gets the hash of the verifier first",
        file=_ATTEMPT,
        old="        return _word(hashlib.sha256(self.verifier.encode()).digest())",
        new="        return self.verifier",
        test=f"{_TESTS}test_the_challenge_is_that_of_the_standard",
    ),
    EdgeDefect(
        name="a_code_is_exchanged_without_its_verifier",
        guard="A code that was taken on its way is of no use",
        file=_FLOW,
        old='            "code_verifier": attempt.verifier,\n',
        new="",
        test=f"{_TESTS}test_who_logs_in_at_the_issuer_is_let_in",
    ),
    EdgeDefect(
        name="codes_are_exchanged_as_often_as_one_likes",
        guard="One address has so many codes exchanged",
        file=_FLOW,
        old="        return self._by_address.take(address, now_s) or self._all.take",
        new="        return self._all.take",
        test=f"{_TESTS}test_codes_are_exchanged_so_often_and_no_more",
    ),
    EdgeDefect(
        name="many_addresses_have_any_number_of_codes_exchanged",
        guard="All addresses together have so many codes exchanged",
        file=_FLOW,
        old='        return self._by_address.take(address, now_s) or self._all.take("", now_s)',
        new="        return self._by_address.take(address, now_s)",
        test=f"{_TESTS}test_many_addresses_make_no_more_than_so_many",
    ),
    EdgeDefect(
        name="endpoints_are_in_the_open",
        guard="Browsers and codes go to https, or to this machine",
        file=_KEYS,
        old="        if url and why:",
        new="        if not url and why:",
        test=(f"{_TESTS}test_endpoints_in_the_open_are_none_and_spoil_no_keys[said1]"),
    ),
    EdgeDefect(
        name="what_is_wrong_with_endpoints_spoils_keys",
        guard="Whatever the discovery document says of logins, keys are read",
        file=_KEYS,
        old="        return IssuerEndpoints()\n    names",
        new="        raise\n    names",
        test=f"{_TESTS}test_endpoints_in_the_open_are_none_and_spoil_no_keys[said4]",
    ),
    EdgeDefect(
        name="what_a_browser_takes_along_stays",
        guard="What a browser takes to the issuer is for ten minutes",
        file=_COOKIES,
        old='value, secure=secure, lasts_s=ATTEMPT_S, same_site="Lax")',
        new='value, secure=secure, lasts_s=LONGEST_SESSION_S, same_site="Lax")',
        test=f"{_TESTS}test_what_a_browser_takes_along_is_for_no_script_and_ten_minutes",
    ),
    EdgeDefect(
        name="a_browser_keeps_what_it_took_along",
        guard="A browser that was back forgets what it took along",
        file=_PAGES,
        old="        for cookie in attempt_over_cookies(request.host):",
        new="        for cookie in ():",
        test=f"{_TESTS}test_what_a_browser_took_along_is_forgotten_in_any_case[back0]",
    ),
    EdgeDefect(
        name="what_the_issuer_says_is_run",
        guard="What an issuer says is shown as text",
        file=_PAGES,
        old="said=html.escape(said)",
        new="said=html.unescape(said)",
        test=f"{_TESTS}test_what_the_issuer_refuses_is_told_and_never_run",
    ),
    EdgeDefect(
        name="who_logs_in_is_nowhere",
        guard="Who logs in is in the audit log",
        file=_PAGES,
        old="            await self._noted(request, found)",
        new="            self._log.info(found.caller.user)",
        test=f"{_TESTS}test_who_logged_in_is_in_the_audit_log",
    ),
    EdgeDefect(
        name="behind_a_proxy_with_tls_a_login_is_for_all",
        guard="Behind a proxy with TLS, a login's cookies are for TLS alone",
        file=_FLOW,
        old="        return came_over_tls or self._is_behind_tls or",
        new="        return came_over_tls or",
        test=f"{_TESTS}test_behind_tls_both_cookies_are_for_tls_alone[how0]",
    ),
    EdgeDefect(
        name="a_frame_of_another_site_logs_in",
        guard="A browser comes back from another site as a page alone",
        file=_GUARDS,
        old='    return shown and request.method == "GET"',
        new='    return request.method == "GET"',
        test=f"{_TESTS}test_a_browser_comes_back_from_another_site_as_a_page_alone[iframe-403]",
    ),
    EdgeDefect(
        name="any_page_is_for_other_sites",
        guard="Pages of other sites lead to few of ours",
        file=_GUARDS,
        old=" and request.path in _LED_TO",
        new="",
        test=f"{_TESTS}test_a_page_of_another_origin_begins_no_login",
    ),
    EdgeDefect(
        name="any_client_logs_in",
        guard="A login needs a client that its tokens are for",
        file=_SETTINGS,
        old="    if audience and login.client_id != audience:",
        new="    if audience and not login.client_id:",
        test=f"{_SETTINGS_TESTS}test_all_that_is_wrong_with_a_login_is_told_at_once",
    ),
    EdgeDefect(
        name="everybody_reads_the_clients_secret",
        guard="A client's secret is not open to others",
        file=_SETTINGS,
        old="    if mode & 0o027:",
        new="    if mode & 0:",
        test=(
            f"{_SETTINGS_TESTS}test_the_file_of_a_clients_secret_is_looked_at"
            "[secret-420-is open to others: chmod 600]"
        ),
    ),
)
