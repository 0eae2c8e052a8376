"""Who a proxy says that a request is from, and when that counts: as tables."""

from __future__ import annotations

import pytest
from multidict import CIMultiDict

from longshore.dispatcher.access.claimed import Denial, DenialKind
from longshore.dispatcher.access.proxy import TrustedProxy
from longshore.dispatcher.config.model import ProxyConfig
from longshore.dispatcher.domain.principals import Door, Principal, Role

HERE = "10.0.0.5"
PROXY = TrustedProxy(
    ProxyConfig(
        addresses=("10.0.0.0/30", HERE, "fd00::/64"),
        user_header="X-User",
        projects_header="X-Projects",
        role_header="X-Role",
    )
)
BARE = TrustedProxy(ProxyConfig(addresses=(HERE,), user_header="X-User"))


def told(
    *headers: tuple[str, str], peer: str = HERE, proxy: TrustedProxy = PROXY
) -> Principal | Denial | None:
    given = CIMultiDict(headers)
    return proxy.holder(peer, lambda name: given.getall(name, []))


def principal(role: Role = Role.USER, projects: tuple[str, ...] = ()) -> Principal:
    default = projects[0] if projects else "default"
    return Principal(
        user="ann", role=role, door=Door.PROXY, projects=projects, default_project=default
    )


@pytest.mark.parametrize(
    ("peer", "counts"),
    [
        (HERE, True),
        ("10.0.0.3", True),
        ("::ffff:10.0.0.5", True),
        ("fd00::1", True),
        ("10.0.0.4", False),
        ("10.0.0.6", False),
        ("fd01::1", False),
        ("127.0.0.1", False),
        ("local", False),
        ("", False),
    ],
)
def test_headers_count_from_the_proxy_only(peer: str, counts: bool) -> None:
    found = told(("X-User", "ann"), ("X-Role", "admin"), peer=peer)
    assert found == (principal(Role.ADMIN) if counts else None)
    # From elsewhere not even two are one too many.
    twice = told(("X-User", "ann"), ("X-User", "bob"), peer=peer)
    assert isinstance(twice, Denial) is counts
    assert TrustedProxy(ProxyConfig()).holder(peer, lambda _: ["ann"]) is None


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ([], None),
        ([("X-User", "")], None),
        ([("X-User", " ")], None),
        ([("X-User", "ann")], principal()),
        ([("x-user", " ann ")], principal()),
        ([("X-User", "ann"), ("X-Projects", "")], principal()),
        ([("X-User", "ann"), ("X-Projects", "b, a,,b")], principal(projects=("a", "b"))),
        ([("X-User", "ann"), ("X-Role", "user")], principal()),
        (
            [("X-User", "ann"), ("X-Role", "lead"), ("X-Projects", "a")],
            principal(Role.LEAD, ("a",)),
        ),
        ([("X-User", "ann"), ("X-Role", "admin"), ("X-Projects", "a")], principal(Role.ADMIN)),
        ([("X-User", "ann"), ("X-Role", "metrics")], principal(Role.METRICS)),
    ],
)
def test_the_proxy_says_who_asks(
    headers: list[tuple[str, str]], expected: Principal | None
) -> None:
    assert told(*headers) == expected


@pytest.mark.parametrize(
    ("headers", "kind", "sentence"),
    [
        ([("X-User", "ann"), ("X-User", "ann")], DenialKind.MALFORMED, "X-User is given twice"),
        ([("X-User", "ann"), ("x-user", "")], DenialKind.MALFORMED, "X-User is given twice"),
        (
            [("X-User", "ann"), ("X-Role", "user"), ("X-Role", "admin")],
            DenialKind.MALFORMED,
            "X-Role is given twice: the proxy must replace what it is sent",
        ),
        (
            [("X-User", "ann"), ("X-Projects", "a"), ("X-Projects", "b")],
            DenialKind.MALFORMED,
            "X-Projects is given twice",
        ),
        ([("X-Role", "admin")], DenialKind.MALFORMED, "and no user in X-User"),
        ([("X-Projects", "a")], DenialKind.MALFORMED, "and no user in X-User"),
        ([("X-User", "ann"), ("X-Role", "root")], DenialKind.NO_RIGHT, "a role that is none"),
        ([("X-User", "ann"), ("X-Role", "Admin")], DenialKind.NO_RIGHT, "a role that is none"),
        ([("X-User", "a\udcffb")], DenialKind.NO_RIGHT, "that cannot be shown"),
        ([("X-User", "a" * 201)], DenialKind.NO_RIGHT, "201 characters"),
        ([("X-User", "ann"), ("X-Projects", "a b")], DenialKind.NO_RIGHT, "is not a name"),
        (
            [("X-User", "ann"), ("X-Projects", ",".join(f"p{n}" for n in range(101)))],
            DenialKind.NO_RIGHT,
            "101 projects",
        ),
    ],
)
def test_what_can_be_read_in_two_ways_is_refused(
    headers: list[tuple[str, str]], kind: DenialKind, sentence: str
) -> None:
    found = told(*headers)
    assert isinstance(found, Denial)
    assert found.kind is kind
    assert sentence in found.sentence


def test_a_header_that_is_not_configured_says_nothing() -> None:
    found = told(("X-User", "ann"), ("X-Role", "admin"), ("X-Projects", "a"), proxy=BARE)
    assert found == principal()


@pytest.mark.parametrize(
    ("peer", "forwarded_for", "origin"),
    [
        (HERE, ["192.0.2.7"], "192.0.2.7"),
        (HERE, ["203.0.113.9, 192.0.2.7"], "192.0.2.7"),
        (HERE, ["203.0.113.9", "192.0.2.7"], "192.0.2.7"),
        (HERE, ["192.0.2.7, 10.0.0.2, 10.0.0.1"], "192.0.2.7"),
        (HERE, ["10.0.0.2"], "10.0.0.2"),
        (HERE, ["2001:DB8::1"], "2001:db8::1"),
        (HERE, ["::ffff:192.0.2.7"], "192.0.2.7"),
        (HERE, ["192.0.2.7, unknown"], HERE),
        (HERE, ["192.0.2.7, x, 10.0.0.2"], "10.0.0.2"),
        (HERE, ["192.0.2.7:80"], HERE),
        (HERE, [""], HERE),
        (HERE, [], HERE),
        (HERE, ["192.0.2.7," + "10.0.0.1," * 30 + "10.0.0.2"], "10.0.0.1"),
        ("192.0.2.8", ["192.0.2.7"], "192.0.2.8"),
        ("unknown", ["192.0.2.7"], "unknown"),
    ],
)
def test_where_a_request_comes_from(peer: str, forwarded_for: list[str], origin: str) -> None:
    assert PROXY.origin(peer, forwarded_for) == origin
