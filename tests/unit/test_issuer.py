"""The issuer: its keys as they come and go, and what its claims give; against a real server."""

from __future__ import annotations

import asyncio
import base64
import gzip
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio
from aiohttp import web
from cryptography.hazmat.primitives.asymmetric.padding import PKCS1v15
from cryptography.hazmat.primitives.asymmetric.rsa import generate_private_key
from cryptography.hazmat.primitives.hashes import SHA256
from joserfc.jwk import OctKey, RSAKey

from longshore.dispatcher.access.claimed import Denial, DenialKind
from longshore.dispatcher.access.issuer import Issuer, caller_in, claim_at
from longshore.dispatcher.access.issuer_calls import ANSWER_BYTES_MOST, FETCH_TIMEOUT_S
from longshore.dispatcher.access.issuer_keys import FRESH_S, RETRY_S
from longshore.dispatcher.access.json_web_tokens import LEEWAY_S, Signed
from longshore.dispatcher.config.model import IssuerClaimsConfig, IssuerConfig
from longshore.dispatcher.domain.principals import Door, Principal, Role
from tests.token_issuer import AUDIENCE, RSA, TokenIssuer, signed, token_issuer

NOW = 1_700_000_000.0
OTHER = RSAKey.generate_key(2048, {"kid": "other"})
CLAIMS = IssuerClaimsConfig(role="realm_access.roles", projects="groups")
CONFIG = IssuerConfig(
    claims=CLAIMS,
    roles={"ops": Role.ADMIN, "heads": Role.LEAD, "staff": Role.USER, "graphs": Role.METRICS},
)


RSA_PUBLISHED = {"keys": [RSA.as_dict(private=False)]}


class Bench:
    """An issuer and the server's end of it, at a time that the test sets."""

    def __init__(self, issuer: TokenIssuer) -> None:
        self.issuer = issuer
        self.clock_s = 100.0
        config = IssuerConfig(url=issuer.url, audience=AUDIENCE, default_role=Role.USER)
        self.end = Issuer(config, now=lambda: NOW, clock=lambda: self.clock_s)

    async def told(self, text: str | None = None) -> str:
        """Return who is let in with a token (None: a good one), or the kind of the denial."""
        found = await self.end.holder(self.issuer.token(NOW) if text is None else text)
        return found.kind.value if isinstance(found, Denial) else found.user

    def made_up(self, number: int) -> str:
        return signed(RSA, self.issuer.claims(NOW), kid=f"made-up-{number}")


@pytest_asyncio.fixture
async def bench() -> AsyncIterator[Bench]:
    async with token_issuer() as issuer:
        made = Bench(issuer)
        yield made
        issuer.may_answer.set()
        await made.end.close()


async def test_keys_are_fetched_once(bench: Bench) -> None:
    assert bench.issuer.asked == []
    assert [await bench.told() for _ in range(3)] == ["ann"] * 3
    assert bench.issuer.asked == ["/.well-known/openid-configuration", "/keys"]


async def test_a_new_key_is_fetched_when_somebody_comes_with_it(bench: Bench) -> None:
    await bench.told()
    bench.issuer.keys = [OTHER]
    text = signed(OTHER, bench.issuer.claims(NOW))
    assert await bench.told(text) == "worthless"
    bench.clock_s += RETRY_S
    assert await bench.told(text) == "ann"
    # The old one is gone with the fetch.
    assert await bench.told() == "worthless"


async def test_a_single_key_without_a_name_may_change_too(bench: Bench) -> None:
    one, two = RSAKey.generate_key(2048), RSAKey.generate_key(2048)
    texts = [signed(each, bench.issuer.claims(NOW)) for each in (one, two)]
    bench.issuer.keys = [one]
    assert await bench.told(texts[0]) == "ann"
    bench.issuer.keys = [two]
    bench.clock_s += RETRY_S
    assert await bench.told(texts[1]) == "ann"
    assert await bench.told(texts[0]) == "worthless"


async def test_made_up_keys_make_a_few_fetches(bench: Bench) -> None:
    for number in range(600):
        assert await bench.told(bench.made_up(number)) == "worthless"
        bench.clock_s += 0.1
    assert bench.issuer.asked.count("/keys") == 60 / RETRY_S
    assert await bench.told() == "ann"


async def test_what_no_key_could_make_good_makes_no_fetch(bench: Bench) -> None:
    assert await bench.told("eyJhbGciOiJub25lIn0.e30.") == "worthless"
    assert bench.issuer.asked == []


async def test_who_comes_at_once_waits_for_one_fetch(bench: Bench) -> None:
    bench.issuer.may_answer.clear()
    waiting = [asyncio.create_task(bench.told()) for _ in range(20)]
    gone = asyncio.create_task(bench.told())
    await bench.issuer.was_asked.wait()
    # One that goes away ends it for none of the others.
    gone.cancel()
    await asyncio.wait([gone])
    bench.issuer.may_answer.set()
    assert await asyncio.gather(*waiting) == ["ann"] * 20
    assert bench.issuer.asked.count("/keys") == 1


async def test_an_issuer_that_is_away_is_no_verdict(bench: Bench) -> None:
    bench.issuer.instead["/keys"] = web.Response(status=503)
    assert await bench.told() == "undecided"
    # It is back, and is not asked before its time.
    bench.issuer.instead.clear()
    assert await bench.told() == "undecided"
    bench.clock_s += RETRY_S
    assert await bench.told() == "ann"


async def test_keys_are_kept_while_the_issuer_is_away(bench: Bench) -> None:
    assert await bench.told() == "ann"
    bench.issuer.instead["/keys"] = web.Response(status=503)
    bench.clock_s += 10 * FRESH_S
    assert await bench.told() == "ann"
    assert bench.issuer.asked.count("/keys") == 2
    # Another key could be a new one: nobody knows.
    assert await bench.told(bench.made_up(1)) == "undecided"


async def test_a_key_that_was_taken_back_does_not_count_for_ever(bench: Bench) -> None:
    assert await bench.told() == "ann"
    bench.issuer.keys = [OTHER]
    bench.clock_s += FRESH_S - 1
    assert await bench.told() == "ann"
    bench.clock_s += 1
    assert await bench.told() == "worthless"


async def test_an_issuer_that_says_nothing_is_not_waited_for_long(bench: Bench) -> None:
    bench.issuer.may_answer.clear()
    async with asyncio.timeout(4 * FETCH_TIMEOUT_S):
        assert await bench.told() == "undecided"


def _elsewhere(issuer: TokenIssuer) -> None:
    issuer.instead["/keys"] = web.Response(status=302, headers={"Location": f"{issuer.url}/other"})


def _padded(issuer: TokenIssuer) -> None:
    body = json.dumps(RSA_PUBLISHED).encode() + b" " * ANSWER_BYTES_MOST
    issuer.instead["/keys"] = web.Response(body=body)


def _inflatable(issuer: TokenIssuer) -> None:
    headers = {"Content-Encoding": "gzip"}
    body = gzip.compress(json.dumps(RSA_PUBLISHED).encode())
    issuer.instead["/keys"] = web.Response(body=body, headers=headers)


def _nested(issuer: TokenIssuer) -> None:
    issuer.instead["/keys"] = web.Response(body=b'{"keys": ' + b"[" * 100_000)


def _another(issuer: TokenIssuer) -> None:
    issuer.said["issuer"] = issuer.url + "/"


def _in_the_open(issuer: TokenIssuer) -> None:
    issuer.said["jwks_uri"] = "http://login.example.org/keys"


def _of_files(issuer: TokenIssuer) -> None:
    issuer.said["jwks_uri"] = "file:///etc/passwd"


def _no_address(issuer: TokenIssuer) -> None:
    issuer.said["jwks_uri"] = 7


def _many(issuer: TokenIssuer) -> None:
    issuer.others = [{}] * 101


def _none(issuer: TokenIssuer) -> None:
    issuer.keys = []


@pytest.mark.parametrize(
    "spoil",
    [
        *(_elsewhere, _padded, _inflatable, _nested, _another),
        *(_in_the_open, _of_files, _no_address, _many, _none),
    ],
    ids=lambda each: each.__name__,
)
async def test_what_is_no_answer_of_the_issuer_is_none(bench: Bench, spoil: Any) -> None:
    spoil(bench.issuer)
    assert await bench.told() == "undecided"
    assert "/other" not in bench.issuer.asked


async def test_keys_that_cannot_be_used_do_not_spoil_the_others(bench: Bench) -> None:
    short = generate_private_key(65537, 1024)  # noqa: S505 - that it is short is what it is for
    numbers = short.public_key().public_numbers().n
    modulus = base64.urlsafe_b64encode(numbers.to_bytes(128, "big")).decode().rstrip("=")
    secret = OctKey.generate_key(256, {"kid": "secret"})
    bench.issuer.keys = [RSA]
    bench.issuer.others = [
        {"kty": "RSA", "kid": "short", "n": modulus, "e": "AQAB"},
        secret.as_dict(private=True),
        {**OTHER.as_dict(private=False), "use": "enc"},
        {"kty": "RSA", "kid": "no numbers"},
        {"kty": "EC", "crv": "P-256", "x": "aa", "y": "bb"},
        {"kty": "EC", "crv": "P-0", "x": "aa", "y": "bb"},
        {"kty": "OKP", "crv": "Ed0", "x": "aa"},
        {"kty": "OKP", "crv": "X25519", "x": 7},
        {"kty": "RSA", "n": 7, "e": "AQAB"},
        {"kty": ["RSA"]},
        {"kty": "AKP", "alg": "ML-DSA-44"},
        {},
    ]
    assert await bench.told() == "ann"
    head = signed(RSA, bench.issuer.claims(NOW), kid="short").rpartition(".")[0]
    signature = base64.urlsafe_b64encode(short.sign(head.encode(), PKCS1v15(), SHA256()))
    assert await bench.told(f"{head}.{signature.decode().rstrip('=')}") == "worthless"
    assert await bench.told(signed(OTHER, bench.issuer.claims(NOW))) == "worthless"


async def test_keys_for_other_uses_sign_nothing(bench: Bench) -> None:
    bench.issuer.others = [{**OTHER.as_dict(private=False), "use": "enc"}]
    assert await bench.told() == "ann"
    assert len(bench.end._keys.known.keys) == len(bench.issuer.keys)


async def test_keys_are_asked_for_in_no_way_that_can_be_changed(
    bench: Bench, capsys: pytest.CaptureFixture[str]
) -> None:
    _in_the_open(bench.issuer)
    assert await bench.told() == "undecided"
    assert "the address of its keys must begin with https://" in capsys.readouterr().out


async def test_the_end_of_the_server_ends_a_fetch(bench: Bench) -> None:
    bench.issuer.may_answer.clear()
    waiting = asyncio.create_task(bench.told())
    await bench.issuer.was_asked.wait()
    await bench.end.close()
    await asyncio.wait([waiting])
    assert waiting.cancelled()


# ---- what claims give ---------------------------------------------------------------------------


def caller(claims: dict[str, Any], config: IssuerConfig = CONFIG) -> Principal | str:
    found = caller_in(Signed(claims={"sub": "ann", **claims}, until=NOW), config)
    if isinstance(found, Denial):
        assert found.kind is DenialKind.NO_RIGHT
        return found.sentence
    return found


@pytest.mark.parametrize(
    ("roles", "expected"),
    [
        ("staff", Role.USER),
        (["staff"], Role.USER),
        (["heads", "staff"], Role.LEAD),
        (["graphs", "staff"], Role.USER),
        (["staff", "ops", "heads"], Role.ADMIN),
        (["graphs"], Role.METRICS),
        (["other", 7, None], None),
        ([], None),
        ({"ops": True}, None),
        ("admin", None),
        (None, None),
    ],
)
def test_the_greatest_role_counts(roles: Any, expected: Role | None) -> None:
    found = caller({"realm_access": {"roles": roles}, "groups": ["a"]})
    if expected is None:
        assert isinstance(found, str)
        assert "realm_access.roles gives you a role here: ask an admin" in found
        return
    projects = ("a",) if expected in (Role.USER, Role.LEAD) else ()
    default = "a" if projects else "default"
    assert found == Principal(
        user="ann",
        role=expected,
        door=Door.ISSUER,
        projects=projects,
        default_project=default,
        until=NOW,
    )


@pytest.mark.parametrize(
    ("groups", "prefix", "expected", "default"),
    [
        (["b", "a", "b"], "", ("a", "b"), "a"),
        (["b", "default"], "", ("b", "default"), "default"),
        ("a", "", ("a",), "a"),
        (["/a", "/b", "offline_access"], "/", ("a", "b"), "a"),
        (["a b", "ls-a"], "ls-", ("a",), "a"),
        ([], "", (), "default"),
        (None, "", (), "default"),
        ([1, None, {"a": 1}], "", (), "default"),
    ],
)
def test_projects_are_what_the_claim_names(
    groups: Any, prefix: str, expected: tuple[str, ...], default: str
) -> None:
    config = IssuerConfig(claims=CLAIMS, default_role=Role.USER, project_prefix=prefix)
    found = caller({"groups": groups}, config)
    assert isinstance(found, Principal)
    assert (found.projects, found.default_project) == (expected, default)


@pytest.mark.parametrize(
    ("claims", "sentence"),
    [
        ({"groups": ["a b"]}, "One of the projects that you come with is not a name: use 1 to 63"),
        ({"groups": ["ls-"]}, "is not a name"),
        ({"groups": ["\ud800"]}, "is not a name"),
        ({"groups": [f"p{n}" for n in range(101)]}, "101 projects, and one caller may have 100"),
        ({"sub": None}, "no text as sub"),
        ({"sub": ["ann"]}, "no text as sub"),
        ({"sub": ""}, "The user that you come as has no name"),
        ({"sub": " "}, "has no name"),
        ({"sub": "a" * 201}, "has a name of 201 characters"),
        ({"sub": "a\nb"}, "control character U+000A"),
        ({"sub": "a\u202eb"}, "control character U+202E"),
        ({"sub": "a\ud800"}, "that cannot be shown"),
    ],
)
def test_what_is_no_name_is_refused(claims: dict[str, Any], sentence: str) -> None:
    config = IssuerConfig(claims=CLAIMS, default_role=Role.LEAD)
    found = caller(claims, config)
    assert isinstance(found, str)
    assert sentence in found


def test_as_many_projects_as_there_may_be() -> None:
    config = IssuerConfig(claims=CLAIMS, default_role=Role.LEAD)
    found = caller({"groups": [f"p{n}" for n in range(100)]}, config)
    assert isinstance(found, Principal)
    assert len(found.projects) == 100


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("sub", "ann"),
        ("a.b", 1),
        ("https://example.org/roles", 2),
        ("x.example.org.roles", 3),
        ("a.c", None),
        ("sub.x", None),
        ("", None),
        (".", None),
    ],
)
def test_a_path_leads_into_claims(path: str, expected: Any) -> None:
    claims = {
        "sub": "ann",
        "a": {"b": 1},
        "https://example.org/roles": 2,
        "x": {"y": 0},
        "x.example.org": {"roles": 3},
    }
    assert claim_at(claims, path) == expected


def test_the_leeway_is_small() -> None:
    assert LEEWAY_S <= 60
