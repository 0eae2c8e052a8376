"""Requests of all kinds for the API: valid, nearly valid, and of no sense at all."""

from __future__ import annotations

import json
from copy import deepcopy
from dataclasses import dataclass, replace
from typing import Any

from hypothesis import strategies as st

from tests.api_server import FULL, MINIMAL


@dataclass(frozen=True, slots=True, kw_only=True)
class Sent:
    method: str
    target: str
    headers: tuple[tuple[str, bytes], ...] = ()
    body: bytes = b""

    def encoded(self, port: int) -> bytes:
        given = {name.lower() for name, _ in self.headers}
        usual = [("Host", f"127.0.0.1:{port}".encode()), ("Content-Type", b"application/json")]
        lines = [f"{self.method} {self.target} HTTP/1.1".encode()]
        lines += [
            name.encode() + b": " + value
            for name, value in (*usual, *self.headers)
            if (name, value) not in usual or name.lower() not in given
        ]
        lines.append(f"Content-Length: {len(self.body)}".encode())
        return b"\r\n".join(lines) + b"\r\n\r\n" + self.body


ODD_TEXTS = (
    "",
    "\0",
    "x" * 300,
    "é\u202e",
    "\ud800",
    "4G",
    "-1",
    "NaN",
    "LONGSHORE_X",
    "a=b",
    "../..",
    "%00",
    "{}",
    "small",
    "true",
)
ODD_NUMBERS = (0, -1, 1, 1001, 2**31, 2**63, 2**64, 10**30, 0.5, 1e-9, -0.0, 1e308, 10**39)
SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.sampled_from(ODD_NUMBERS),
    st.sampled_from(ODD_TEXTS),
    st.integers(),
    st.floats(),
    st.text(max_size=8),
)
JUNK = st.one_of(
    SCALARS,
    st.lists(SCALARS, max_size=4),
    st.dictionaries(st.sampled_from(ODD_TEXTS) | st.text(max_size=5), SCALARS, max_size=4),
    st.recursive(
        SCALARS,
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner),
        max_leaves=6,
    ),
)
KEYS = st.sampled_from(
    (*FULL, "after", "array", "tasks", "size", "max", "lost", "user", "id", "nam", "A", *ODD_TEXTS)
)
BASES: tuple[Any, ...] = (
    *(MINIMAL, FULL, [MINIMAL], [FULL, MINIMAL, FULL]),
    *({"priority": 3}, {"reason": "x"}, {"priority": 5, "held": True}),
)
OF_A_TASK = {key: value for key, value in FULL.items() if key not in {"priority", "project"}}
JOB: dict[str, Any] = {
    "name": "pipeline",
    "type": "batch",
    "priority": 3,
    "project": "p",
    "labels": {"a": "b"},
    "tasks": [
        {**OF_A_TASK, "name": "a", "array": 3},
        {**MINIMAL, "name": "b", "array": {"size": 3, "max_running": 2}, "after": ["a"]},
        {**MINIMAL, "name": "c", "array": 3, "after": [{"of": "b", "on": "end", "each": True}]},
        {**MINIMAL, "name": "d", "after": ["a", {"of": "c"}]},
    ],
}
ON_EACH_INSTANCE = {
    key: value
    for key, value in OF_A_TASK.items()
    if key not in {"after", "not_before", "time_limit_s"}
}
PERIODIC = {"cron": ["0 6 * * MON-FRI", "30 12 1 * *"], "time_zone": "UTC", "overlap": "forbid"}
PARAMETERIZED = {"required": ["a", "B"], "optional": {"c": "x", "D_1": ""}}
SYSTEM: dict[str, Any] = {
    "type": "system",
    "tasks": [ON_EACH_INSTANCE],
    "update": {"max_parallel": 5, "stagger_s": 0.5},
    "late_joiners": False,
    "on_paused": True,
    "ignore_system": True,
}
ELASTIC: dict[str, Any] = {
    "type": "elastic",
    "tasks": [
        {**MINIMAL, "name": "a", "startup_order": 3},
        {**MINIMAL, "name": "b", "role": "elastic", "array": {"size": 3}},
    ],
    "mode": "rigid",
    "size": 2.5,
    "runtime_s": 60,
    "scale_up": True,
}
TEMPLATE: dict[str, Any] = {"tasks": [{**MINIMAL, "array": 2}], "parameterized": PARAMETERIZED}
JOBS: tuple[Any, ...] = (
    *(JOB, {"tasks": [MINIMAL]}, {"tasks": [{**OF_A_TASK, "array": 2}]}),
    *(SYSTEM, ELASTIC, TEMPLATE, {**SYSTEM, "type": "sysbatch", "periodic": PERIODIC}),
    {"type": "batch", "periodic": PERIODIC, "tasks": JOB["tasks"]},
)
DISPATCHES: tuple[Any, ...] = (
    {"parameters": {"a": "x", "B": "y z"}},
    {"parameters": {"a": "", "B": "\n", "c": "é", "D_1": "$(x)"}},
)
PATHS = (
    "/v1/containers",
    "/v1/containers/c-00000001",
    "/v1/containers/c-00000002",
    "/v1/containers/c-00000003",
    "/v1/containers/c-00000001/cancel",
    "/v1/containers/c-00000003/cancel",
    "/v1/containers/c-00000001/logs",
    "/v1/containers/c-00000002/logs",
    "/v1/jobs",
    "/v1/jobs/j-00000006",
    "/v1/jobs/j-00000004",
    "/v1/jobs/j-00000004/cancel",
    "/v1/jobs/j-00000005/dispatch",
    "/v1/jobs/plan",
    "/v1/jobs/plan?job=j-00000004",
    "/v1/instances",
    "/v1/instances/i-1",
    "/v1/instances/i-1/idle-behavior",
    "/v1/instances/i-1/kill",
    "/v1/leaks",
    "/v1/events",
    "/v1/health",
    "/health/live",
    "/health/ready",
    "/metrics",
    "/openapi.json",
    "/",
    "*",
)
METHODS = st.sampled_from(
    ("GET", "GET", "POST", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS", "TRACE", "MKCOL")
)
NAMES = (
    *("state", "user", "project", "name", "instance", "limit", "cursor", "stream", "offset"),
    *("job", "task", "array_index", "parent"),
)
QUERY_VALUES = (
    *("queued", "running,failed", "stdout", "stderr", "0", "-1", "1000", "true", "before-2"),
    *("before-", "%00", "%ff", "%ed%a0%80", "%", "+", "", "9" * 30, "a&b=c", ";", "%F0%9F%98%80"),
)
HEADER_VALUES = st.one_of(
    st.sampled_from(
        [b"", b"x" * 300, b"application/json; charset=x", b"http://localhost", b"null", b"gzip"]
    ),
    st.sampled_from(
        [b"bytes=0-1", b"identity", b"close", b"5-5", b"100-continue", b"\xff\xfe", b"W/"]
    ),
    st.binary(max_size=12).map(lambda raw: bytes(b for b in raw if b >= 32 and b != 127)),
)
HEADERS = st.sampled_from(
    (
        *("Host", "Origin", "Content-Type", "Content-Encoding", "Idempotency-Key", "Accept"),
        *("Last-Event-ID", "Connection", "Cookie", "Range", "If-None-Match", "X-Forwarded-Host"),
        *("Authorization", "Accept-Encoding", "Upgrade", "If-Modified-Since", "TE", "Referer"),
    )
)


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    found = [path]
    if isinstance(value, dict):
        for key, child in value.items():
            found += places(child, (*path, key))
    elif isinstance(value, list):
        for index, child in enumerate(value):
            found += places(child, (*path, index))
    return found


@st.composite
def mutated(draw: st.DrawFn, bases: tuple[Any, ...] = BASES) -> Any:
    """A valid body with none to three pieces replaced, removed or added."""
    value: Any = deepcopy(draw(st.sampled_from(bases)))
    for _ in range(draw(st.integers(0, 3))):
        path = draw(st.sampled_from(places(value)))
        new = draw(JUNK)
        if not path:
            if isinstance(value, dict):
                value[draw(KEYS)] = new
            elif isinstance(value, list):
                value.append(new)
            continue
        parent = value
        for step in path[:-1]:
            parent = parent[step]
        if draw(st.integers(0, 3)) == 0:
            del parent[path[-1]]
        else:
            parent[path[-1]] = new
    return value


def as_json(value: Any) -> bytes:
    return json.dumps(value).encode()


BODIES = st.one_of(
    mutated().map(as_json),
    mutated().map(as_json),
    JUNK.map(as_json),
    st.binary(max_size=40),
    st.builds(
        lambda value, at, raw: as_json(value)[:at] + raw + as_json(value)[at:],
        mutated(),
        st.integers(0, 400),
        st.binary(max_size=3),
    ),
    st.builds(
        lambda count, piece: piece * count, st.integers(1, 3000), st.sampled_from([b"[", b'{"a":'])
    ),
    st.builds(
        lambda size: as_json({**MINIMAL, "env": {"A": "x" * size}}),
        st.sampled_from((0, 20_000, 131_000, 140_000, 300_000)),
    ),
)
QUERIES = st.lists(
    st.tuples(st.sampled_from((*NAMES, "odd", "")), st.sampled_from(QUERY_VALUES)), max_size=3
).map(lambda pairs: "&".join(f"{name}={value}" for name, value in pairs))
SEGMENTS = st.sampled_from(
    ("v1", "containers", "c-00000001", "logs", "..", ".", "", "%2f", "%00", "%ff", "%", "x" * 300)
)
TARGETS = st.one_of(
    st.sampled_from(PATHS),
    st.builds(lambda path, query: f"{path}?{query}", st.sampled_from(PATHS), QUERIES),
    st.lists(SEGMENTS, max_size=5).map(lambda parts: "/" + "/".join(parts)),
)
SUBMISSIONS = st.builds(Sent, method=st.just("POST"), target=st.just("/v1/containers"), body=BODIES)
OF_JOBS = mutated(JOBS).map(as_json) | BODIES
JOB_SUBMISSIONS = st.one_of(
    st.builds(Sent, method=st.just("POST"), target=st.just("/v1/jobs"), body=OF_JOBS),
    st.builds(
        Sent,
        method=st.just("POST"),
        target=st.sampled_from(("/v1/jobs/plan", "/v1/jobs/plan?job=j-00000004")),
        body=OF_JOBS,
    ),
    st.builds(Sent, method=st.just("PUT"), target=st.just("/v1/jobs/j-00000004"), body=OF_JOBS),
    st.builds(
        Sent,
        method=st.just("POST"),
        target=st.just("/v1/jobs/j-00000005/dispatch"),
        body=mutated(DISPATCHES).map(as_json) | BODIES,
    ),
)
ODD_HEADERS = st.lists(st.tuples(HEADERS, HEADER_VALUES), max_size=3).map(tuple)
REQUESTS = st.one_of(
    SUBMISSIONS,
    JOB_SUBMISSIONS,
    st.builds(replace, SUBMISSIONS, headers=ODD_HEADERS),
    st.builds(Sent, method=METHODS, target=TARGETS),
    st.builds(Sent, method=METHODS, target=TARGETS, body=BODIES),
    st.builds(Sent, method=METHODS, target=TARGETS, headers=ODD_HEADERS, body=BODIES),
)

# What a run must reach to prove anything, whichever requests the strategy comes upon.
ONE_OF_EACH = {
    200: Sent(method="GET", target="/v1/containers"),
    201: Sent(method="POST", target="/v1/containers", body=as_json(MINIMAL)),
    202: Sent(method="POST", target="/v1/containers/c-00000003/cancel"),
    400: Sent(method="POST", target="/v1/containers", body=b"{"),
    403: Sent(method="GET", target="/v1/containers", headers=(("Host", b"example.org"),)),
    404: Sent(method="GET", target="/v1/nothing"),
    405: Sent(method="DELETE", target="/v1/containers"),
    415: Sent(
        method="POST",
        target="/v1/containers",
        headers=(("Content-Type", b"text/plain"),),
        body=as_json(MINIMAL),
    ),
}
