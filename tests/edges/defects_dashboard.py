"""Planted defects of the dashboard's doors; what they are is in `defect`."""

from __future__ import annotations

from typing import Final

from tests.edges.defect import EdgeDefect

_TESTS = "tests/unit/test_dashboard.py::"
_COOKIES = "dispatcher/access/browser_cookies.py"
_DOORS = "dispatcher/api/doors.py"
_PAGES = "dispatcher/api/dashboard.py"

DASHBOARD: Final[tuple[EdgeDefect, ...]] = (
    EdgeDefect(
        name="a_script_reads_the_cookie",
        guard="No script reads a browser's cookie",
        file=_COOKIES,
        old='    made["httponly"], made["samesite"] = True, same_site',
        new='    made["samesite"] = same_site',
        test=f"{_TESTS}test_a_cookie_is_for_no_script_and_no_other_site",
    ),
    EdgeDefect(
        name="a_cookie_outlives_its_token",
        guard="A browser keeps a cookie for no longer than its token is good",
        file=_COOKIES,
        old="LONGEST_SESSION_S if lasts_s is None else min(LONGEST_SESSION_S, int(lasts_s))",
        new="LONGEST_SESSION_S",
        test=f"{_TESTS}test_a_cookie_is_kept_no_longer_than_its_token_is_good",
    ),
    EdgeDefect(
        name="a_cookie_without_an_origin_changes_things",
        guard="With a browser's cookie, a change says where it comes from",
        file=_DOORS,
        old="        if text and request.method not in _SAFE_METHODS and not told:",
        new="        if text and request.method not in _SAFE_METHODS and False:",
        test=f"{_TESTS}test_with_a_cookie_a_change_says_where_it_comes_from[AuthMode.REQUIRED]",
    ),
    EdgeDefect(
        name="a_cookie_is_looked_at_in_open_mode",
        guard="In open mode no cookie is looked at: it is another server's",
        file=_DOORS,
        old='text = "" if self.is_open else token_in_cookies(request.cookies, request.host)',
        new="text = token_in_cookies(request.cookies, request.host)",
        test=f"{_TESTS}test_in_open_mode_no_cookie_is_looked_at[AuthMode.OPEN]",
    ),
    EdgeDefect(
        name="a_cookie_over_tls_is_sent_without_it",
        guard="Behind a proxy with TLS, a cookie is for TLS alone",
        file=_PAGES,
        old='    return request.secure or request.headers.get("Origin", "").lower().startswith("https://")',
        new="    return request.secure",
        test=f"{_TESTS}test_behind_a_proxy_with_tls_the_cookie_is_for_tls_alone[AuthMode.REQUIRED]",
    ),
    EdgeDefect(
        name="the_page_says_nothing_when_it_was_not_built",
        guard="Where the dashboard was not built, the page says what to do",
        file=_PAGES,
        old="        self._page = _NOT_BUILT\n",
        new='        self._page = ""\n',
        test=f"{_TESTS}test_without_its_files_the_page_says_what_to_do",
    ),
    EdgeDefect(
        name="the_page_has_no_policy",
        guard="The dashboard's page may run nothing but its own",
        file=_PAGES,
        old='headers = {"Content-Security-Policy": POLICY, "Referrer-Policy": "no-referrer"}',
        new='headers = {"Referrer-Policy": "no-referrer"}',
        test=(
            f"{_TESTS}test_the_page_is_anybodys_and_may_run_nothing_but_its_own[AuthMode.REQUIRED]"
        ),
    ),
)
