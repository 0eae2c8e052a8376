"""Submissions that are refused, each with the path of what is wrong."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from difflib import get_close_matches
from typing import Any

import aiohttp
import pytest

from longshore.dispatcher.api.validate.limits import ApiLimits
from longshore.drivers.interface import Resources
from tests.api_server import FULL, MINIMAL, Client, connected, serving
from tests.rigs.api import TYPES, ApiRig


@pytest.fixture
async def client() -> AsyncIterator[Client]:
    async with connected() as client:
        yield client


LATER = ("inputs", "outputs")
FAR = "2024-11-15T22:13:21Z"


@pytest.mark.parametrize(
    ("change", "path", "said"),
    [
        *[({name: 1}, name, "not supported by this server yet") for name in LATER],
        ({"imag": "x"}, "imag", 'did you mean "image"?'),
        ({"command": []}, "command", "must name a program"),
        ({"command": [""]}, "command", "must name a program"),
        ({"command": [""], "image": "a/b"}, "command", "must name a program"),
        ({"command": [], "image": "a/b", "entrypoint": []}, "command", "the image names none"),
        ({"entrypoint": ["a"]}, "entrypoint", "is for an image"),
        ({"image": "a/b", "entrypoint": [""]}, "entrypoint", "must name a program"),
        ({"image": "a/b", "entrypoint": "a"}, "entrypoint", "must be a list, not text"),
        ({"image": "a/b", "entrypoint": ["a", "b\0"]}, "entrypoint[1]", "NUL"),
        ({"image": "a/b", "entrypoint": ["a"] * 10_001}, "entrypoint", "over 10000 entries"),
        ({"command": "true"}, "command", "must be a list, not text"),
        ({"command": ["a", 1]}, "command[1]", "must be text, not 1"),
        ({"command": ["a\0"]}, "command[0]", "NUL"),
        ({"command": ["a" * 2**17]}, "command[0]", "more than Linux"),
        ({"command": ["é" * 2**16]}, "command[0]", "more than Linux"),
        ({"command": ["a" * 1000] * 1000}, "command", "bytes in all"),
        ({"command": ["a"] * 10_001}, "command", "over 10000 entries"),
        ({"env": {"": "x"}}, 'env[""]', "not a variable's name"),
        ({"env": {"1A": "x"}}, "env.1A", "not a variable's name"),
        ({"env": {"A=B": "x"}}, 'env["A=B"]', "not a variable's name"),
        ({"env": {"LONGSHORE_ID": "x"}}, "env.LONGSHORE_ID", "reserved"),
        ({"env": {"A": "x\0"}}, "env.A", "NUL"),
        ({"env": {"A": 1}}, "env.A", "must be text"),
        ({"env": {"A": "x" * 2**17}}, "env.A", "more than Linux"),
        ({"env": {f"A{n}": "x" * 2**17 for n in range(16)}}, "env", "at most 1048576"),
        ({"env": {f"A{n}": "x" * 10**5 for n in range(20)}}, "env", "at most 1048576"),
        ({"env": {f"A{n}": "\x01" * 50_000 for n in range(6)}}, "env", "as JSON"),
        ({"env": {f"A{n}": "" for n in range(10_001)}}, "env", "over 10000 variables"),
        ({"priority": -1}, "priority", "at least 0"),
        ({"priority": 1001}, "priority", "at most 1000"),
        ({"priority": True}, "priority", "must be a whole number"),
        ({"cpus": -0.5}, "cpus", "from 0 to 10000"),
        ({"cpus": 10_001}, "cpus", "from 0 to 10000"),
        ({"cpus": 0.0005}, "cpus", "three decimals"),
        ({"cpus": "1"}, "cpus", "must be a number of cpus"),
        ({"memory": "4G"}, "memory", "ambiguous"),
        ({"memory": -1}, "memory", "must not be negative"),
        ({"memory": 2**61}, "memory", "larger than any machine"),
        ({"disk": 1.5}, "disk", "must be a size"),
        ({"gpus": -1}, "gpus", "at least 0"),
        ({"gpus": 10**30}, "gpus", "at most 1024"),
        ({"gpus": "2"}, "gpus", "must be a whole number or an object, not text"),
        ({"gpus": {"modle": "a100"}}, "gpus.modle", 'did you mean "model"?'),
        ({"gpus": {"model": "a 100"}}, "gpus.model", "not a name"),
        ({"gpus": {"count": 0, "model": "a100"}}, "gpus.count", "ask for at least 1"),
        ({"gpus": {"count": 0, "memory": 1}}, "gpus.count", "ask for at least 1"),
        ({"gpus": {"count": 1025}}, "gpus.count", "at most 1024"),
        ({"gpus": {"memory": "40G"}}, "gpus.memory", "ambiguous"),
        ({"resources": {"cpus": 1}}, "resources.cpus", "has a field of its own"),
        ({"resources": {"a": 0.5}}, "resources.a", "must be a whole number"),
        ({"resources": {"a b": 1}}, 'resources["a b"]', "not a name"),
        ({"resources": {"a": -1}}, "resources.a", "at least 0"),
        ({"resources": {f"r{n}": 1 for n in range(65)}}, "resources", "over 64 entries"),
        ({"labels": {"": "x"}}, 'labels[""]', "not a name"),
        ({"labels": {"a": "x" * 256}}, "labels.a", "at most 255"),
        ({"labels": {"a": "x\n"}}, "labels.a", "control character"),
        ({"labels": {f"l{n}": "" for n in range(65)}}, "labels", "over 64 entries"),
        ({"name": "a\0"}, "name", "control character"),
        ({"name": "a" * 201}, "name", "at most 200"),
        ({"image": "a" * 513}, "image", "at most 512"),
        ({"image": "a\nb"}, "image", "not a reference"),
        ({"project": ""}, "project", "not a name"),
        ({"project": "-x"}, "project", "not a name"),
        (
            {"constraints": {"instance_types": ["smal"]}},
            "constraints.instance_types[0]",
            'did you mean "small"?',
        ),
        ({"constraints": {"labels": {"/": ""}}}, 'constraints.labels["/"]', "not a name"),
        ({"constraints": {"preemptible": "maybe"}}, "constraints.preemptible", "one of"),
        (
            {"constraints": {"max_price_per_hour": -1}},
            "constraints.max_price_per_hour",
            "US dollars",
        ),
        ({"retries": {"lost": "no"}}, "retries.lost", "true or false"),
        ({"retries": {"max": 101}}, "retries.max", "at most 100"),
        ({"retries": {"max": -1}}, "retries.max", "at least 0"),
        ({"retries": {"on": ["oom"]}}, "retries.on[0]", "must be one of"),
        ({"retries": {"on": []}}, "retries.on", "must not be empty"),
        ({"retries": {"on": "failed"}}, "retries.on", "must be a list, not text"),
        ({"retries": {"exit_codes": [0]}}, "retries.exit_codes[0]", "at least 1"),
        ({"retries": {"exit_codes": [1, 256]}}, "retries.exit_codes[1]", "at most 255"),
        ({"retries": {"delay_s": -1}}, "retries.delay_s", "at least 0"),
        ({"retries": {"first_delay_s": -1}}, "retries.first_delay_s", "at least 0"),
        ({"retries": {"delay_s": 86_401}}, "retries.delay_s", "at most 86400"),
        ({"retries": {"tries": 1}}, "retries.tries", "is not known: here it is called max"),
        ({"supervisor": 1}, "supervisor", "true or false"),
        ({"time_limit_s": 0.5}, "time_limit_s", "at least 1 and at most 315360000, not 0.5"),
        ({"time_limit_s": 10**9}, "time_limit_s", "at most 315360000"),
        ({"time_limit_s": "1h"}, "time_limit_s", "time_limit_s: 3600, which is an hour"),
        ({"grace_period_s": -1}, "grace_period_s", "at least 0 and at most 86400, not -1"),
        ({"grace_period_s": 86_401}, "grace_period_s", "at most 86400"),
        ({"not_before": 1e9}, "not_before", "must be text"),
        ({"not_before": "tomorrow"}, "not_before", '"tomorrow" is not a moment: write it like'),
        ({"not_before": "2024-01-01"}, "not_before", "is not a moment"),
        ({"not_before": "2024-W01-1T00:00:00Z"}, "not_before", "is not a moment"),
        ({"not_before": "2024-01-01T18:00:00"}, "not_before", "no time zone: add Z for UTC"),
        ({"not_before": "2024-02-30T18:00:00Z"}, "not_before", "not in the calendar"),
        ({"not_before": "2024-01-01T18:00:00+25:00"}, "not_before", "not in the calendar"),
        ({"not_before": FAR}, "not_before", f'"{FAR}" is over a year ahead: submit it later'),
        ({"after": "c-1"}, "after", "must be a list, not text"),
        ({"after": [7]}, "after[0]", "must be text or an object, not 7"),
        ({"after": [{"on": "end"}]}, "after[0].of", "is missing"),
        ({"after": [{"of": "c-1", "on": "ends"}]}, "after[0].on", '"success", "end", not "ends"'),
        ({"after": [{"of": "c-1", "eech": 1}]}, "after[0].eech", 'did you mean "each"?'),
        ({"after": ["align"]}, "after[0]", '"align" is not an id: name a container (c-...)'),
        ({"after": ["c-1", {"of": "c-/x"}]}, "after[1].of", '"c-/x" is not an id'),
        ({"after": ["c-1/x"]}, "after[0]", '"c-1/x" is not an id'),
        ({"after": ["j-1/"]}, "after[0]", '"j-1/" is not an id'),
        ({"after": ["j-1/a b"]}, "after[0]", '"j-1/a b" is not an id'),
        ({"after": ["c-1", "c-2", "c-1"]}, "after[2]", "is named in after[0] already: keep one"),
        ({"after": [{"of": "j-1/a", "each": True}]}, "after[0].each", "a container is none"),
        ({"after": [f"c-{n}" for n in range(10_001)]}, "after", "10001 entries: wait for at most"),
        ({"id": "c-1"}, "id", "is not known"),
        ({"array": 4}, "array", "is not known: say array in a task of a job"),
        ({"schedule": "@daily"}, "schedule", "say periodic in a job, beside its tasks"),
        ({"nice": 3}, "nice", "here it is called priority"),
        ({"mem_per_cpu": 3}, "mem_per_cpu", "here it is called memory, for all of its cpus"),
        ({"spec": {}}, "spec", "this is how another system has it, docs/jobs.md tells"),
        ({"after": [{"job": "j-1"}]}, "after[0].job", "here it is called of"),
        ({"constraints": {"zone": "a"}}, "constraints.zone", "here it is called labels"),
        ({"gpus": {"type": "a100"}}, "gpus.type", "here it is called model"),
        (
            {"retries": {"attempts": 3}},
            "retries.attempts",
            "here it is called max, one less than there are attempts",
        ),
    ],
)
async def test_a_wrong_field_is_named(
    client: Client, change: dict[str, Any], path: str, said: str
) -> None:
    status, answer = await client.post("/v1/containers", {**MINIMAL, **change})
    assert status == 400
    found = {error["path"]: error["message"] for error in answer["errors"]}
    assert said in found[path]
    assert client.rig.containers() == []


async def test_of_many_unknown_names_so_many_are_compared_with_what_is_known_as_help(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Found by an attacker's reading: one query held the event loop up for a second and more."""
    compared: list[str] = []

    def noted(word: str, names: list[str], n: int, cutoff: float) -> list[str]:
        compared.append(word)
        return get_close_matches(word, names, n, cutoff)

    monkeypatch.setattr("difflib.get_close_matches", noted)
    names = [f"stat{number}" for number in range(300)]
    status, answer = await client.call("GET", f"/v1/containers?{'&'.join(names)}")
    assert (status, len(answer["errors"]), compared) == (400, 10, names[:10])
    compared.clear()
    constraints = {"instance_types": [f"smal{number}" for number in range(300)]}
    status, answer = await client.post("/v1/containers", {**MINIMAL, "constraints": constraints})
    assert (status, len(answer["errors"]), len(compared)) == (400, 101, 20)
    assert answer["errors"][19]["message"].endswith('did you mean "small"?')
    assert "known are" in answer["errors"][20]["message"]


async def test_the_moment_a_year_ahead_is_near_enough(client: Client) -> None:
    value = {**MINIMAL, "not_before": "2024-11-14T22:13:20Z"}
    assert (await client.post("/v1/containers", value))[0] == 201


async def test_what_a_list_waits_for_is_bounded_in_all() -> None:
    async with connected(limits=ApiLimits(after_entries_in_all=5)) as client:
        await client.post("/v1/containers", [MINIMAL] * 3)
        ids = [each.id for each in client.rig.containers()]
        three, two = ({**MINIMAL, "after": ids[:count]} for count in (3, 2))
        assert (await client.post("/v1/containers", [three, two]))[0] == 201
        status, answer = await client.post("/v1/containers", [three, three])
    assert (status, answer["errors"]) == (
        400,
        [
            {
                "path": "",
                "message": "waits for 6 things in all: at most 5 are allowed, submit fewer",
            }
        ],
    )


async def test_problems_of_shape_and_meaning_come_together(client: Client) -> None:
    wrong = {"command": [], "priority": 2000, "env": {"LONGSHORE_X": "y"}, "nam": 1, "cpus": "x"}
    _, answer = await client.post("/v1/containers", wrong)
    assert sorted(error["path"] for error in answer["errors"]) == [
        "command",
        "cpus",
        "env.LONGSHORE_X",
        "nam",
        "priority",
    ]


async def test_largest_values_that_are_allowed_are_taken() -> None:
    resources = Resources(cpu_millis=10_000_000, memory_bytes=2**60)
    huge = ApiRig(replace(TYPES[0], resources=resources))
    env = {f"A{n}": "x" * 100_000 for n in range(10)}
    full = {
        "command": ["a" * (2**17 - 1)],
        "env": {"A": "x" * (2**17 - 1 - 3)},
        "cpus": 10_000,
        "memory": 2**60,
    }
    async with connected(huge) as client:
        for value in ({**MINIMAL, "env": env}, full, {**MINIMAL, "cpus": 0, "memory": 0}):
            status, _ = await client.post("/v1/containers", value)
            assert status == 201


async def test_an_environment_of_2_mib_is_refused_by_name(client: Client) -> None:
    status, answer = await client.post("/v1/containers", {**MINIMAL, "env": {"A": "x" * 2**21}})
    assert status == 400
    assert {error["path"] for error in answer["errors"]} == {"env", "env.A"}


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (b"", "not JSON"),
        (b"{", "not JSON"),
        (b"\xff{}", "not UTF-8"),
        (b'{"command": ["a"], "command": ["b"]}', "appears twice"),
        (b"[" * 100_000, "nested too deeply"),
        (b"[" * 1_000_000, "lists and objects"),
        (b'{"command": ["a"], "cpus": NaN}', "NaN"),
        (b'{"command": ["a"], "cpus": 1e999}', "too large"),
        (b'{"command": ["a"], "gpus": ' + b"1" * 10_000 + b"}", "over 40 digits"),
        (b'{"command": ["\\ud800"]}', "surrogate"),
        (b"[]", "send 1 to 10000"),
        (b"[" + b"{}," * 10_000 + b"{}]", "send 1 to 10000"),
        (b"3", "must be an object, not 3"),
        (b"null", "must be an object, not null"),
    ],
)
async def test_a_body_that_is_no_request_is_refused(client: Client, body: bytes, said: str) -> None:
    headers = {"Content-Type": "application/json"}
    status, answer = await client.call("POST", "/v1/containers", data=body, headers=headers)
    assert status == 400
    assert said in answer["errors"][0]["message"]


async def test_bodies_over_the_limit_are_refused() -> None:
    limits = ApiLimits(request_bytes=10_000)
    async with (
        serving(ApiRig(), limits=limits) as (url, _),
        aiohttp.ClientSession() as session,
    ):
        client = Client(session, url, ApiRig())
        status, answer = await client.post("/v1/containers", {**MINIMAL, "name": "x" * 20_000})
        assert (status, answer["title"]) == (413, "Request Entity Too Large")


async def test_large_bodies_are_few_at_a_time() -> None:
    limits = ApiLimits(concurrent_large_bodies=0)
    async with (
        serving(ApiRig(), limits=limits) as (url, _),
        aiohttp.ClientSession() as session,
    ):
        client = Client(session, url, ApiRig())
        status, answer = await client.post("/v1/containers", [MINIMAL] * 9000 + [{**FULL}] * 1000)
        assert status == 503
        assert "large requests" in answer["detail"]


async def test_a_body_that_stalls_is_given_up() -> None:
    limits = ApiLimits(body_timeout_s=0.2)
    async with serving(ApiRig(), limits=limits) as (url, _):
        head = b"POST /v1/containers HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
        head += b"Content-Type: application/json\r\nContent-Length: 100\r\n\r\n{"
        reader, writer = await asyncio.open_connection("127.0.0.1", int(url.rsplit(":", 1)[1]))
        writer.write(head)
        async with asyncio.timeout(60):
            line = await reader.readline()
        assert line.startswith(b"HTTP/1.1 408")
        writer.close()
        await writer.wait_closed()


async def test_a_large_body_that_is_done_makes_room_for_the_next() -> None:
    limits = ApiLimits(large_body_bytes=10, concurrent_large_bodies=1)
    async with connected(limits=limits) as client:
        for _ in range(3):
            assert (await client.post("/v1/containers", MINIMAL))[0] == 201
