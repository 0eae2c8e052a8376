"""An issuer and a proxy in a configuration: what is wrong with them, all at once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from longshore.dispatcher.config.model import (
    AuthConfig,
    AuthMode,
    IssuerClaimsConfig,
    IssuerConfig,
    IssuerLoginConfig,
    ProxyConfig,
)
from longshore.dispatcher.config.single_sign_on import check_single_sign_on, login_secret
from longshore.dispatcher.domain.principals import Role
from longshore.dispatcher.input.problems import Problems

URL = "https://login.example.org/realms/main"


def problems(
    *, issuer: IssuerConfig | None = None, proxy: ProxyConfig | None = None, mode: AuthMode
) -> list[tuple[str, str]]:
    found = Problems()
    auth = AuthConfig(issuer=issuer or IssuerConfig(), proxy=proxy or ProxyConfig())
    check_single_sign_on(auth, mode, found)
    return found.listed()


def issuer(**changes: Any) -> IssuerConfig:
    usual = {"url": URL, "audience": "longshore", "default_role": Role.USER}
    return IssuerConfig(**{**usual, **changes})


def proxy(**changes: Any) -> ProxyConfig:
    return ProxyConfig(**{"addresses": ("10.0.0.5",), **changes})


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"issuer": issuer()},
        {"issuer": issuer(url="http://127.0.0.1:9400")},
        {"issuer": issuer(url="http://localhost:9400")},
        {"issuer": issuer(url="http://[::1]:9400/")},
        {
            "issuer": issuer(
                default_role=None,
                roles={"ops": Role.ADMIN},
                claims=IssuerClaimsConfig(role="realm_access.roles"),
            )
        },
        {"issuer": issuer(login=IssuerLoginConfig(client_id="longshore"))},
        {
            "issuer": issuer(
                login=IssuerLoginConfig(
                    client_id="longshore",
                    scopes=("openid", "groups"),
                    redirect_url="https://farm.example.org/x/login/callback",
                )
            )
        },
        {"proxy": proxy()},
        {"proxy": proxy(addresses=("127.0.0.1", "10.0.0.0/8", "::1", "fd00::/8"))},
        {"proxy": proxy(projects_header="X-Groups", role_header="X-Role")},
    ],
)
def test_what_makes_sense_is_taken(given: dict[str, Any]) -> None:
    assert problems(**given, mode=AuthMode.REQUIRED) == []


@pytest.mark.parametrize(
    ("changed", "path", "sentence"),
    [
        ({"url": "http://login.example.org"}, "url", "must begin with https://"),
        ({"url": "ftp://127.0.0.1"}, "url", "must begin with https://"),
        ({"url": "http://127.0.0.1.example.org"}, "url", "must begin with https://"),
        ({"url": "login.example.org"}, "url", "must be https://HOST/PATH"),
        ({"url": "https://a:b@login.example.org"}, "url", "without a user"),
        ({"url": "https://login.example.org?x=1"}, "url", "without a user, a query"),
        ({"url": "https://login.example.org:x"}, "url", "is not a URL"),
        ({"url": "https://[login"}, "url", "is not a URL"),
        ({"url": ""}, "url", "is missing"),
        ({"audience": ""}, "audience", "those for every other program would do here"),
        ({"claims": IssuerClaimsConfig(user="")}, "claims.user", "must name a claim"),
        ({"roles": {"ops": Role.ADMIN}}, "claims.role", "must name the claim"),
        ({"default_role": None}, "roles", "nobody would have a role"),
        (
            {"roles": {"": Role.ADMIN}, "claims": IssuerClaimsConfig(role="r")},
            'roles[""]',
            "must not be empty",
        ),
    ],
)
def test_a_wrong_issuer_is_refused(changed: dict[str, Any], path: str, sentence: str) -> None:
    [(where, said)] = problems(issuer=issuer(**changed), mode=AuthMode.REQUIRED)
    assert where == f"auth.issuer.{path}"
    assert sentence in said


@pytest.mark.parametrize(
    ("changed", "path", "sentence"),
    [
        ({"addresses": (), "user_header": "X-User"}, "addresses", "name those of the proxy"),
        ({"addresses": ("10.0.0.5", "nginx")}, "addresses[1]", "is no address and no network"),
        ({"addresses": ("10.0.0.5/8",)}, "addresses[0]", "whose last bits are 0"),
        ({"addresses": ("0.0.0.0/0",)}, "addresses[0]", "anybody could say who they are"),
        ({"addresses": ("::/0",)}, "addresses[0]", "anybody could say who they are"),
        ({"user_header": ""}, "user_header", "must name the header"),
        ({"user_header": "X User"}, "user_header", "is no name of a header"),
        ({"user_header": "Authorization"}, "user_header", "has a meaning of its own"),
        ({"role_header": "x-forwarded-for"}, "role_header", "has a meaning of its own"),
        ({"role_header": "X-FORWARDED-USER"}, "role_header", "is user_header too"),
        (
            {"role_header": "X-A", "projects_header": "x-a"},
            "role_header",
            "is projects_header too: name a header for each",
        ),
    ],
)
def test_a_wrong_proxy_is_refused(changed: dict[str, Any], path: str, sentence: str) -> None:
    [(where, said)] = problems(proxy=proxy(**changed), mode=AuthMode.REQUIRED)
    assert where == f"auth.proxy.{path}"
    assert sentence in said


def test_neither_goes_with_open_doors_and_all_is_told_at_once() -> None:
    wrong = issuer(url="http://login.example.org", audience="")
    found = problems(issuer=wrong, proxy=proxy(addresses=("x",)), mode=AuthMode.OPEN)
    assert [path for path, _ in found] == [
        "auth.issuer.url",
        "auth.issuer.audience",
        "auth.proxy.addresses[0]",
        "auth.issuer",
        "auth.proxy",
    ]
    assert all("set auth.mode: required" in said for _, said in found[3:])


def login_problems(**changes: Any) -> list[tuple[str, str]]:
    login = IssuerLoginConfig(**{"client_id": "longshore", **changes})
    found = problems(issuer=issuer(login=login), mode=AuthMode.REQUIRED)
    return [(path.removeprefix("auth.issuer.login."), said) for path, said in found]


@pytest.mark.parametrize(
    ("changed", "path", "sentence"),
    [
        ({"client_id": "other"}, "client_id", "must be auth.issuer.audience"),
        ({"client_id": "", "scopes": ("openid",)}, "client_id", "or leave login out"),
        ({"scopes": ("profile",)}, "scopes", "must have openid"),
        ({"scopes": ("openid", "a b")}, "scopes[1]", "is no scope"),
        ({"redirect_url": "http://farm.example.org/login/callback"}, "redirect_url", "https://"),
        ({"redirect_url": "https://farm.example.org/"}, "redirect_url", "must end in /login/cal"),
        ({"redirect_url": "farm.example.org"}, "redirect_url", "must be https://HOST/PATH"),
        ({"client_secret_file": "/none/at all"}, "client_secret_file", "cannot be read"),
    ],
)
def test_a_wrong_login_is_refused(changed: dict[str, Any], path: str, sentence: str) -> None:
    [(where, said)] = login_problems(**changed)
    assert (where, sentence in said) == (path, True), said


def test_all_that_is_wrong_with_a_login_is_told_at_once() -> None:
    found = login_problems(
        client_id="other", client_secret_file="/none", scopes=("a b",), redirect_url="x"
    )
    assert [path for path, _ in found] == [
        *("client_id", "client_secret_file", "scopes", "scopes[0]", "redirect_url")
    ]


@pytest.mark.parametrize(
    ("content", "mode", "sentence"),
    [
        ("secret\n", 0o600, ""),
        ("secret", 0o640, ""),
        ("secret", 0o644, "is open to others: chmod 600"),
        ("\n", 0o600, "holds no secret"),
        ("two\nlines", 0o600, "holds no secret"),
        ("geheimnis ü", 0o600, "holds no secret"),
        ("x" * 1001, 0o600, "holds no secret"),
    ],
)
def test_the_file_of_a_clients_secret_is_looked_at(
    tmp_path: Path, content: str, mode: int, sentence: str
) -> None:
    file = tmp_path / "client.secret"
    file.write_text(content)
    file.chmod(mode)
    found = login_problems(client_secret_file=str(file))
    assert [said for _, said in found if sentence not in said] == []
    assert len(found) == bool(sentence)
    if not sentence:
        assert login_secret(IssuerLoginConfig(client_secret_file=str(file))) == "secret"
