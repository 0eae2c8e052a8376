"""What a JSON Web Token must be to be believed: each forgery by name, as a table."""

from __future__ import annotations

import base64
import hmac
import json
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.padding import PKCS1v15
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from hypothesis import given
from hypothesis import strategies as st
from joserfc.jwk import ECKey, KeySet, RSAKey

from longshore.dispatcher.access.claimed import Denial, DenialKind
from longshore.dispatcher.access.json_web_tokens import (
    LEEWAY_S,
    IssuerTerms,
    KeyWanted,
    Signed,
    header_problem,
    judge_token,
    looks_like_jwt,
)
from longshore.dispatcher.domain.tokens import text_of
from tests.token_issuer import EC, ED, RSA, signed

NOW = 1_700_000_000.0
ISSUER = "https://login.example.org/realms/main"
TERMS = IssuerTerms(issuer=ISSUER, audience="longshore")
KEYS = KeySet([RSA, EC, ED])
STRANGER = RSAKey.generate_key(2048, {"kid": "rsa"})
STRANGE_EC = ECKey.generate_key("P-256", {"kid": "ec"})
NAMELESS = RSAKey.generate_key(2048)
ANOTHER = RSAKey.generate_key(2048)


def claims(**changes: Any) -> dict[str, Any]:
    usual = {"iss": ISSUER, "aud": "longshore", "sub": "ann", "exp": NOW + 60}
    return {name: value for name, value in {**usual, **changes}.items() if value is not None}


def part(value: object) -> str:
    text = value if isinstance(value, str) else json.dumps(value)
    return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")


def unsigned(header: object, payload: object = None, signature: str = "") -> str:
    return f"{part(header)}.{part(claims() if payload is None else payload)}.{signature}"


def verdict(text: str, keys: KeySet = KEYS, now: float = NOW) -> str:
    """Return in a word what becomes of a token; "good", "wants key", or why it is worthless."""
    assert looks_like_jwt(text)
    if why := header_problem(text):
        return why
    match judge_token(text, keys, TERMS, now):
        case Signed():
            return "good"
        case KeyWanted():
            return "wants key"
        case Denial() as denial:
            assert denial.kind is DenialKind.WORTHLESS
            return denial.sentence


def raw(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


def as_secret(pem: bytes) -> str:
    """Return a token signed with a public key as if it were a shared secret."""
    head = f"{part({'alg': 'HS256', 'kid': 'rsa'})}.{part(claims())}"
    return f"{head}.{raw(hmac.digest(pem, head.encode(), 'sha256'))}"


def by_hand(header: object, payload: object) -> str:
    """Return a token with a good signature of the issuer's, whatever it says."""
    head = f"{part(header)}.{part(payload)}"
    assert RSA.private_key is not None
    return f"{head}.{raw(RSA.private_key.sign(head.encode(), PKCS1v15(), SHA256()))}"


PEM = RSA.public_key.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
GOOD = signed(RSA, claims())
TAMPERED = ".".join((GOOD.split(".")[0], part(claims(sub="root")), GOOD.split(".")[2]))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param(GOOD, "good", id="RS256"),
        pytest.param(signed(RSA, claims(), alg="PS256"), "good", id="PS256"),
        pytest.param(signed(EC, claims(), alg="ES256"), "good", id="ES256"),
        pytest.param(signed(ED, claims(), alg="Ed25519"), "good", id="Ed25519"),
        pytest.param(signed(ED, claims(), alg="EdDSA"), "good", id="EdDSA"),
        pytest.param(signed(RSA, claims(), typ="at+jwt"), "good", id="access token"),
        pytest.param(signed(RSA, claims(), typ="application/at+jwt"), "good", id="its media type"),
        pytest.param(signed(RSA, claims(), nonce="x"), "good", id="header that nobody knows"),
        pytest.param(signed(RSA, claims(aud=["other", "longshore"])), "good", id="one of several"),
        pytest.param(signed(RSA, claims(exp=NOW - LEEWAY_S + 1)), "good", id="within the leeway"),
        pytest.param(signed(RSA, claims(nbf=NOW + LEEWAY_S)), "good", id="begins in the leeway"),
        pytest.param(signed(RSA, claims(exp=10**300)), "good", id="expires in an age"),
        pytest.param(unsigned({"alg": "none"}), "not signed in a way", id="alg none"),
        pytest.param(unsigned({"alg": "None"}), "not signed in a way", id="alg None"),
        pytest.param(unsigned({}), "that can be read", id="no alg"),
        pytest.param(unsigned({"alg": ["RS256"]}), "not signed in a way", id="alg a list"),
        pytest.param(unsigned({"alg": "RS256", "kid": "rsa"}), "not the issuer's", id="unsigned"),
        pytest.param(as_secret(PEM), "not signed in a way", id="HS256 with the public key"),
        pytest.param(TAMPERED, "not the issuer's", id="claims exchanged"),
        pytest.param(signed(STRANGER, claims()), "not the issuer's", id="key of somebody else"),
        pytest.param(
            signed(STRANGE_EC, claims(), alg="ES256", jwk=STRANGE_EC.as_dict(private=False)),
            "not the issuer's",
            id="brings its own key",
        ),
        pytest.param(
            by_hand({"alg": "RS256", "kid": "ec"}, claims()), "does not go with", id="key of a kind"
        ),
        pytest.param(signed(RSA, claims(), kid="new"), "wants key", id="unknown key"),
        pytest.param(
            by_hand({"alg": "RS256", "kid": 7}, claims()), "that can be read", id="kid a number"
        ),
        pytest.param(
            by_hand({"alg": "RS256"}, claims()), "wants key", id="no kid among several keys"
        ),
        pytest.param(
            by_hand({"alg": "RS256", "kid": "rsa", "crit": ["x"], "x": 1}, claims()),
            "can be read",
            id="critical",
        ),
        pytest.param(signed(RSA, claims(), typ="logout+jwt"), "of a kind", id="for logging out"),
        pytest.param(signed(RSA, claims(iss=f"{ISSUER}/")), "iss is missing", id="other issuer"),
        pytest.param(signed(RSA, claims(iss=None)), "iss is missing", id="no issuer"),
        pytest.param(signed(RSA, claims(aud="other")), "aud is missing", id="other audience"),
        pytest.param(signed(RSA, claims(aud=None)), "aud is missing", id="no audience"),
        pytest.param(signed(RSA, claims(aud=[])), "aud is missing", id="empty audience"),
        pytest.param(signed(RSA, claims(exp=NOW - LEEWAY_S)), "has expired", id="expired"),
        pytest.param(signed(RSA, claims(exp=None)), "exp is missing", id="never expires"),
        pytest.param(signed(RSA, claims(exp="soon")), "exp is missing", id="exp a text"),
        pytest.param(signed(RSA, claims(exp=float("nan"))), "exp is missing", id="exp no number"),
        pytest.param(signed(RSA, claims(exp=True)), "exp is missing", id="exp true"),
        pytest.param(signed(RSA, claims(nbf=NOW + LEEWAY_S + 1)), "nbf is missing", id="not yet"),
        pytest.param(signed(RSA, claims(iat=NOW + LEEWAY_S + 1)), "iat is missing", id="of later"),
        pytest.param(
            unsigned({"alg": "RS256", "x": "y" * 600}), "that can be read", id="huge header"
        ),
        pytest.param(unsigned("[" * 300), "that can be read", id="nested header"),
        pytest.param("abc.def.ghi", "that can be read", id="no base64"),
        pytest.param(unsigned([]), "that can be read", id="header a list"),
    ],
)
def test_a_token_is_judged(text: str, expected: str) -> None:
    assert expected in verdict(text)


def test_a_payload_that_is_nested_or_no_object_is_worthless() -> None:
    for payload in ("[" * 9000, "[]", "7", '{"exp": 1' + "0" * 5000 + "}"):
        text = by_hand({"alg": "RS256", "kid": "rsa"}, payload)
        assert "does not go with" in verdict(text), payload[:20]


def test_a_single_key_need_not_be_named() -> None:
    text = signed(NAMELESS, claims())
    # A set gives a name to what has none.
    only = KeySet([RSAKey.import_key(NAMELESS.as_dict(private=False))])
    assert verdict(text, only) == "good"
    # What it has not signed may be signed with the next one.
    assert verdict(signed(ANOTHER, claims()), only) == "wants key"
    assert verdict(GOOD, KeySet([])) == "wants key"


def test_how_long_it_may_ask_has_an_end_that_a_clock_has() -> None:
    for exp, until in ((NOW + 60, NOW + 60 + LEEWAY_S), (10**300, 253402300799.0)):
        found = judge_token(signed(RSA, claims(exp=exp)), KEYS, TERMS, NOW)
        assert isinstance(found, Signed)
        assert found.until == until


def test_a_token_of_ours_has_another_shape() -> None:
    assert not looks_like_jwt(text_of("t-0123456789", bytes(32)))
    for text in ("", "a", "a.b", "a.b.c.d", "a.b.c=", "a. .c", "é.b.c", ".b.c"):
        assert not looks_like_jwt(text)
    assert looks_like_jwt("a..")


SEGMENT = st.one_of(
    st.from_regex(r"[A-Za-z0-9_-]{1,40}", fullmatch=True),
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(max_size=10),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(st.sampled_from(["alg", "kid", "typ", "crit", "b64", "x"]), inner)
        ),
        max_leaves=6,
    ).map(part),
    st.dictionaries(
        st.sampled_from(["kid", "typ", "crit", "b64", "jwk", "x5c"]),
        st.none() | st.integers() | st.text(max_size=8) | st.lists(st.text(max_size=4)),
    ).map(lambda header: part({**header, "alg": "RS256"})),
)


@given(header=SEGMENT, payload=SEGMENT, signature=SEGMENT)
def test_no_text_is_good_and_none_is_a_fault(header: str, payload: str, signature: str) -> None:
    text = f"{header}.{payload}.{signature}"
    if looks_like_jwt(text):
        assert verdict(text) != "good"
