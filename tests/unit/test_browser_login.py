"""Logging in at the issuer, as a browser does it and as somebody does who means harm (RFC 9700)."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import AsyncIterator
from http.cookies import SimpleCookie
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import aiohttp
import pytest
import pytest_asyncio
from aiohttp import web
from joserfc.jwk import RSAKey

from longshore.dispatcher.access.browser_cookies import ATTEMPT_S, LONGEST_SESSION_S
from longshore.dispatcher.access.claimed import Denial, DenialKind
from longshore.dispatcher.access.issuer_calls import ANSWER_BYTES_MOST
from longshore.dispatcher.access.issuer_login import (
    ALL_BURST,
    PER_ADDRESS_BURST,
    PER_ADDRESS_EACH_S,
)
from longshore.dispatcher.access.login_attempt import (
    LoginAttempt,
    code_returned,
    new_attempt,
    read_attempt,
)
from longshore.dispatcher.domain.audit import AuditFilter
from tests.api_server import NOW
from tests.code_issuer import LoginSite, login_site
from tests.token_issuer import signed

ISSUER = "https://login.example.org"
ATTEMPT = LoginAttempt(state="s" * 43, nonce="n" * 43, verifier="v" * 43)
OTHER_KEY = RSAKey.generate_key(2048, {"kid": "rsa"})


@pytest_asyncio.fixture
async def site() -> AsyncIterator[LoginSite]:
    async with login_site() as found:
        yield found


def cookies_of(answer: aiohttp.ClientResponse) -> dict[str, dict[str, Any]]:
    """Return the cookies that an answer sets, each with its value and what it says of it."""
    found: dict[str, dict[str, Any]] = {}
    for text in answer.headers.getall("Set-Cookie", []):
        [(name, made)] = SimpleCookie(text).items()
        found[name] = {"value": made.value, **{k: v for k, v in made.items() if v}}
    return found


def port_of(site: LoginSite) -> str:
    return site.url.rpartition(":")[2]


async def refused(site: LoginSite, url: str, status: int, said: str) -> None:
    """Expect that nobody is let in by what a browser comes back with, and that it is told why."""
    answer = await site.get(url)
    text = await answer.text()
    assert (answer.status, said in text) == (status, True), text
    assert f"longshore-{port_of(site)}" not in cookies_of(answer)
    assert await site.who() == ""


async def test_who_logs_in_at_the_issuer_is_let_in(site: LoginSite) -> None:
    location = await site.begun()
    asked = parse_qs(urlsplit(location).query)
    assert location.startswith(f"{site.issuer.url}/authorize?")
    assert asked["response_type"] == ["code"]
    assert asked["scope"] == ["openid profile"]
    assert asked["redirect_uri"] == [f"{site.url}/login/callback"]
    assert asked["code_challenge_method"] == ["S256"]
    answer = await site.get(site.issuer.log_in(location))
    assert (answer.status, answer.content_type) == (200, "text/html")
    assert await site.who() == "ann"
    [(form, authorization)] = site.issuer.forms
    digest = hashlib.sha256(form["code_verifier"].encode()).digest()
    assert asked["code_challenge"] == [base64.urlsafe_b64encode(digest).rstrip(b"=").decode()]
    assert (form["client_id"], authorization) == ("longshore", "")
    words = {*asked["state"], *asked["nonce"], form["code_verifier"]}
    assert len(words) == 3


async def test_it_goes_on_from_a_page_of_our_own_that_runs_nothing(site: LoginSite) -> None:
    answer = await site.get(site.issuer.log_in(await site.begun()))
    text = await answer.text()
    assert '<meta http-equiv="refresh" content="0; url=../">' in text
    assert "<script" not in text
    assert answer.headers["Content-Security-Policy"].startswith("default-src 'none';")
    # The code is in the address of this page.
    assert answer.headers["Referrer-Policy"] == "no-referrer"
    assert answer.headers["Cache-Control"] == "no-store"


async def test_what_a_browser_takes_along_is_for_no_script_and_ten_minutes(
    site: LoginSite,
) -> None:
    answer = await site.get("/login/start")
    name = f"longshore-{port_of(site)}-login"
    made = cookies_of(answer)[name]
    value = made.pop("value")
    assert read_attempt(value) is not None
    about = {"path": "/", "max-age": str(ATTEMPT_S), "httponly": True, "samesite": "Lax"}
    assert made == about
    assert answer.headers["Referrer-Policy"] == "no-referrer"


async def test_who_is_let_in_has_the_cookie_that_no_other_site_sends(site: LoginSite) -> None:
    site.issuer.claims_more = {"exp": NOW + 600}
    answer = await site.get(site.issuer.log_in(await site.begun()))
    made = cookies_of(answer)[f"longshore-{port_of(site)}"]
    assert (made["samesite"], made["httponly"]) == ("Strict", True)
    assert int(made["max-age"]) < LONGEST_SESSION_S
    assert made["max-age"] == "630"


@pytest.mark.parametrize(
    "how", [{"is_behind_tls": True}, {"redirect_url": "https://farm.example/x/login/callback"}]
)
async def test_behind_tls_both_cookies_are_for_tls_alone(how: dict[str, Any]) -> None:
    async with login_site(**how) as site:
        begun = await site.get("/login/start")
        [(name, made)] = cookies_of(begun).items()
        assert (name, made["secure"]) == ("__Host-longshore-login", True)
        back_to = parse_qs(urlsplit(begun.headers["Location"]).query)["redirect_uri"]
        assert back_to == [
            how.get("redirect_url") or f"https://127.0.0.1:{port_of(site)}/login/callback"
        ]
        back = site.issuer.log_in(begun.headers["Location"])
        path = f"/login/callback?{urlsplit(back).query}"
        # This client speaks no TLS, so that it keeps no such cookie by itself.
        shown = {"Cookie": f"{name}={made['value']}"}
        answer = await site.get(path, headers=shown)
        assert answer.status == 200, await answer.text()
        assert cookies_of(answer)["__Host-longshore"]["secure"] is True


async def test_csrf_who_has_not_begun_is_not_let_in(site: LoginSite) -> None:
    back = site.issuer.log_in(await site.begun())
    site.session.cookie_jar.clear()
    await refused(site, back, 400, "has not begun to log in")
    assert site.issuer.forms == []


async def test_csrf_another_logins_state_lets_nobody_in(site: LoginSite) -> None:
    of_eve = site.issuer.log_in(await site.begun())
    site.session.cookie_jar.clear()
    await site.begun()
    await refused(site, of_eve, 400, "belongs to another login")
    assert site.issuer.forms == []


async def test_a_stolen_code_is_of_no_use_in_another_browser(site: LoginSite) -> None:
    """It has neither the verifier of its login nor, were it exchanged, the nonce."""
    stolen = parse_qs(urlsplit(site.issuer.log_in(await site.begun())).query)["code"][0]
    own = site.issuer.log_in(await site.begun(), code=stolen)
    await refused(site, own, 401, "takes the code of this login for nothing")


async def test_a_code_is_good_once(site: LoginSite) -> None:
    back = site.issuer.log_in(await site.begun())
    kept = {"Cookie": f"longshore-{port_of(site)}-login={attempt_of(site)}"}
    assert (await site.get(back)).status == 200
    site.session.cookie_jar.clear()
    answer = await site.get(back, headers=kept)
    assert answer.status == 401
    assert await site.who() == ""


def attempt_of(site: LoginSite) -> str:
    """Return what the browser takes along."""
    found = {each.key: each.value for each in site.session.cookie_jar}
    return found[f"longshore-{port_of(site)}-login"]


async def test_who_comes_back_twice_is_told_and_stays_logged_in(site: LoginSite) -> None:
    """As by the back button, or when the page is loaded again."""
    back = site.issuer.log_in(await site.begun())
    assert (await site.get(back)).status == 200
    again = await site.get(back)
    text = await again.text()
    assert again.status == 400
    assert "has been back already" in text
    assert '<a href="../">Go to the dashboard</a>' in text
    assert len(site.issuer.forms) == 1
    assert await site.who() == "ann"


@pytest.mark.parametrize("back", [{}, {"error": "access_denied"}, {"state": "other"}, {"code": ""}])
async def test_what_a_browser_took_along_is_forgotten_in_any_case(
    site: LoginSite, back: dict[str, str]
) -> None:
    answer = await site.get(site.issuer.log_in(await site.begun(), **back))
    forgotten = cookies_of(answer)
    for name in ("__Host-longshore-login", f"longshore-{port_of(site)}-login"):
        assert (forgotten[name]["value"], forgotten[name]["max-age"]) == ("", "0")
    assert forgotten["__Host-longshore-login"]["secure"] is True


@pytest.mark.parametrize("claims", [{"nonce": "another"}, {"nonce": None}, {"nonce": 1}])
async def test_a_token_of_another_login_lets_nobody_in(
    site: LoginSite, claims: dict[str, Any]
) -> None:
    site.issuer.claims_more = claims
    await refused(site, site.issuer.log_in(await site.begun()), 401, "for another login")


@pytest.mark.parametrize(
    ("claims", "status", "said"),
    [
        ({"iss": "https://evil.example"}, 401, "iss is missing or another"),
        ({"aud": "other"}, 401, "aud is missing or another"),
        ({"azp": "other"}, 401, "for another program"),
        ({"exp": NOW - 60}, 401, "has expired"),
        ({"sub": None}, 403, "no text as sub"),
    ],
)
async def test_a_token_is_judged_as_any_other(
    site: LoginSite, claims: dict[str, Any], status: int, said: str
) -> None:
    site.issuer.claims_more = claims
    await refused(site, site.issuer.log_in(await site.begun()), status, said)


async def test_a_token_that_nobody_signed_lets_nobody_in(site: LoginSite) -> None:
    site.issuer.gives = "eyJhbGciOiJub25lIn0.e30."
    await refused(site, site.issuer.log_in(await site.begun()), 401, "not signed in a way")
    site.issuer.gives = signed(OTHER_KEY, site.issuer.claims(NOW))
    await refused(site, site.issuer.log_in(await site.begun()), 401, "is not the issuer")


async def test_mix_up_who_the_issuer_says_it_is_must_be_who_was_asked(site: LoginSite) -> None:
    location = await site.begun()
    evil = site.issuer.log_in(location, iss="https://evil.example")
    await refused(site, evil, 400, "not from the issuer")
    assert site.issuer.forms == []
    good = site.issuer.log_in(await site.begun(), iss=site.issuer.url)
    assert (await site.get(good)).status == 200


async def test_mix_up_an_issuer_that_always_says_who_it_is_must_do_so(site: LoginSite) -> None:
    site.issuer.said["authorization_response_iss_parameter_supported"] = True
    await refused(site, site.issuer.log_in(await site.begun()), 400, "not from the issuer")


async def test_no_parameter_leads_elsewhere(site: LoginSite) -> None:
    evil = {"next": "https://evil.example", "redirect_uri": "https://evil.example"}
    begun = await site.get("/login/start", params={**evil, "return_to": "//evil.example"})
    assert begun.headers["Location"].startswith(f"{site.issuer.url}/authorize?")
    assert "evil" not in begun.headers["Location"]
    answer = await site.get(site.issuer.log_in(begun.headers["Location"], **evil))
    assert answer.status == 200
    assert "evil" not in await answer.text()


async def test_what_the_issuer_refuses_is_told_and_never_run(site: LoginSite) -> None:
    back = {"error": "access_denied", "error_description": "<script>x()</script>"}
    url = site.issuer.log_in(await site.begun(), **back)
    await refused(site, url, 403, "&lt;script&gt;x()&lt;/script&gt;")
    # Whoever only makes an address puts no words into this server's mouth.
    answer = await site.get("/login/callback?error=x&error_description=call+this+number&state=x")
    assert "call this number" not in await answer.text()


async def test_an_address_can_be_read_in_one_way(site: LoginSite) -> None:
    url = site.issuer.log_in(await site.begun()) + "&code=other"
    await refused(site, url, 400, "in several ways")


@pytest.mark.parametrize(
    "answer",
    [
        web.Response(status=503),
        web.Response(status=302, headers={"Location": "/elsewhere"}),
        web.Response(text="<p>no JSON"),
        web.json_response({"access_token": "x"}),
        web.json_response({"id_token": 1}),
        web.Response(body=b"x" * (ANSWER_BYTES_MOST + 1)),
    ],
    ids=["503", "redirect", "no JSON", "no ID token", "number", "large"],
)
async def test_an_issuer_that_answers_something_else_lets_nobody_in(
    site: LoginSite, answer: web.Response
) -> None:
    site.issuer.instead["/token"] = answer
    await refused(site, site.issuer.log_in(await site.begun()), 503, "try again later")
    assert "/elsewhere" not in site.issuer.asked


@pytest.mark.parametrize(
    "said",
    [
        {"authorization_endpoint": ""},
        {"authorization_endpoint": "javascript:alert(1)"},
        {"authorization_endpoint": "http://evil.example/authorize"},
        {"token_endpoint": "http://evil.example/token"},
        {"token_endpoint": None},
    ],
)
async def test_endpoints_in_the_open_are_none_and_spoil_no_keys(
    site: LoginSite, said: dict[str, Any]
) -> None:
    site.issuer.said |= said
    answer = await site.get("/login/start")
    assert (answer.status, "Location" in answer.headers) == (503, False)
    shown = {"Authorization": f"Bearer {site.issuer.token(NOW)}"}
    assert (await site.get("/v1/whoami", headers=shown)).status == 200


async def test_codes_are_exchanged_so_often_and_no_more(site: LoginSite) -> None:
    for number in range(PER_ADDRESS_BURST):
        answer = await site.get(site.issuer.log_in(await site.begun()))
        assert answer.status == 200, number
    answer = await site.get(site.issuer.log_in(await site.begun()))
    assert answer.status == 429
    assert answer.headers["Retry-After"] == str(int(PER_ADDRESS_EACH_S))
    assert len(site.issuer.forms) == PER_ADDRESS_BURST
    # What makes nobody ask the issuer is not counted.
    assert (await site.get("/login/callback?code=x&state=x")).status == 400
    site.clock_s[0] += PER_ADDRESS_EACH_S
    assert (await site.get(site.issuer.log_in(await site.begun()))).status == 200


async def test_many_addresses_make_no_more_than_so_many(site: LoginSite) -> None:
    taken = [site.flow.wait_s(f"10.0.0.{number}") for number in range(ALL_BURST + 1)]
    assert taken[:-1] == [0.0] * ALL_BURST
    assert taken[-1] > 0


async def test_a_token_that_no_browser_keeps_is_told_with_the_remedy(site: LoginSite) -> None:
    site.issuer.claims_more = {"groups": [f"group-{number}" for number in range(500)]}
    url = site.issuer.log_in(await site.begun())
    await refused(site, url, 403, "Have the issuer put less into the ID token")


@pytest.mark.parametrize(
    ("ways", "in_form", "in_header"),
    [
        (None, False, True),
        (["client_secret_post", "client_secret_basic"], False, True),
        (["client_secret_post"], True, False),
    ],
)
async def test_a_secret_is_shown_as_the_issuer_takes_it(
    tmp_path: Path, ways: list[str] | None, in_form: bool, in_header: bool
) -> None:
    file = tmp_path / "client.secret"
    file.write_text("p ss:1\n")
    file.chmod(0o600)
    async with login_site(client_secret_file=str(file)) as site:
        if ways is not None:
            site.issuer.said["token_endpoint_auth_methods_supported"] = ways
        answer = await site.get(site.issuer.log_in(await site.begun()))
        assert answer.status == 200
        [(form, authorization)] = site.issuer.forms
        assert form.get("client_secret") == ("p ss:1" if in_form else None)
        expected = base64.b64encode(b"longshore:p+ss%3A1").decode()
        assert authorization == (f"Basic {expected}" if in_header else "")


async def test_who_logged_in_is_in_the_audit_log(site: LoginSite) -> None:
    await site.get(site.issuer.log_in(await site.begun()))
    page = await site.services.audit.entries(AuditFilter(), cursor="", limit=10)
    [entry] = page.items
    assert (entry.user, entry.door, entry.action) == ("ann", "issuer", "GET /login/callback")
    assert (entry.status, entry.detail) == (200, "logged in")


async def test_who_logs_out_is_told_where_the_issuer_does(site: LoginSite) -> None:
    await site.get(site.issuer.log_in(await site.begun()))
    async with site.session.post(
        f"{site.url}/logout", json={}, headers={"Origin": site.url}
    ) as answer:
        told = (await answer.json())["issuer_logout"]
    assert told.startswith(f"{site.issuer.url}/logout?kind=all&")
    # The token is not in it: it would stand in the browser's history.
    assert parse_qs(urlsplit(told).query) == {
        "kind": ["all"],
        "client_id": ["longshore"],
        "post_logout_redirect_uri": [f"{site.url}/"],
    }
    assert await site.who() == ""
    async with site.session.post(
        f"{site.url}/logout", json={}, headers={"Origin": site.url}
    ) as answer:
        assert (await answer.json())["issuer_logout"] is None


async def test_a_browser_is_told_by_what_it_can_log_in(site: LoginSite) -> None:
    answer = await site.get("/login/methods")
    assert await answer.json() == {"issuer": "127.0.0.1"}


async def test_a_page_of_another_origin_begins_no_login(site: LoginSite) -> None:
    told = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Dest": "document"}
    answer = await site.get("/login/start", headers=told)
    assert (answer.status, "Set-Cookie" in answer.headers) == (403, False)


@pytest.mark.parametrize(
    ("dest", "status"), [("document", 200), ("iframe", 403), ("image", 403), ("empty", 403)]
)
async def test_a_browser_comes_back_from_another_site_as_a_page_alone(
    site: LoginSite, dest: str, status: int
) -> None:
    back = site.issuer.log_in(await site.begun())
    told = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": dest}
    assert (await site.get(back, headers=told)).status == status


@pytest.mark.parametrize(
    ("path", "dest", "status"),
    [
        ("/", "document", 200),
        ("/", "iframe", 403),
        ("/", "empty", 403),
        ("/v1/whoami", "document", 403),
        ("/docs", "document", 403),
    ],
)
async def test_a_link_of_another_site_leads_to_the_dashboard_alone(
    site: LoginSite, path: str, dest: str, status: int
) -> None:
    told = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": dest}
    assert (await site.get(path, headers=told)).status == status


def returned(**told: str | list[str]) -> str:
    """Return the code of what came back, or why there is none."""
    lists = {name: [each] if isinstance(each, str) else each for name, each in told.items()}
    found = code_returned(lambda name: lists.get(name, []), ATTEMPT, issuer=ISSUER, says_who=False)
    if isinstance(found, Denial):
        assert found.kind in {DenialKind.MALFORMED, DenialKind.NO_RIGHT}
        return found.sentence
    return found


def test_what_comes_back_is_read() -> None:
    state = ATTEMPT.state
    assert returned(code="c", state=state) == "c"
    assert returned(code="c", state=state, iss=ISSUER) == "c"
    for told, said in (
        ({"code": "c"}, "belongs to another login"),
        ({"code": "c", "state": ""}, "belongs to another login"),
        ({"code": "c", "state": state[:-1]}, "belongs to another login"),
        ({"code": "c", "state": state + "\udcff"}, "belongs to another login"),
        ({"code": "c", "state": state, "iss": ISSUER + "/"}, "not from the issuer"),
        ({"code": "c", "state": [state, state]}, "in several ways"),
        ({"state": state}, "neither a code nor an error"),
        ({"state": state, "code": "c" * 10_000}, "neither a code nor an error"),
        ({"state": state, "error": "access_denied"}, "did not let you log in"),
        ({"state": state, "error": "x\n", "error_description": "y" * 500}, "calls it x : yyy"),
    ):
        assert said in returned(**told), told
        assert len(returned(**told)) < 400


def test_only_what_was_given_is_taken_along() -> None:
    made = new_attempt(lambda count: bytes(range(count)))
    assert read_attempt(made.text) == made
    for text in ("", "..", "a.b.c", f"{'s' * 43}.{'n' * 43}", f"{made.text}.x", "x" * 131):
        assert read_attempt(text) is None, text


def test_the_challenge_is_that_of_the_standard() -> None:
    """RFC 7636, appendix B."""
    made = LoginAttempt(state="", nonce="", verifier="dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk")
    assert made.challenge == "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM"
