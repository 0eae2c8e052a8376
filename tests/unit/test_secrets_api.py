"""Secrets over HTTP and in the service: who may do what, what is refused, what is never said."""

from __future__ import annotations

import asyncio
import json
import sqlite3
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, closing
from pathlib import Path
from typing import Any

import pytest
from cryptography.fernet import Fernet

from longshore.dispatcher.domain.principals import Door, Principal, Role
from longshore.dispatcher.domain.secrets import (
    SECRETS_PER_CONTAINER_MOST,
    StoredSecret,
    data_key_of,
)
from longshore.dispatcher.service.contracts import Conflict, Forbidden, NotFound, Unavailable
from longshore.dispatcher.service.secrets import SecretService
from longshore.dispatcher.service.tokens import NewToken
from longshore.dispatcher.store.secret_box import SecretBox, place_of_secret
from longshore.dispatcher.store.store import Store
from longshore.pool.model import SecretKind, SecretOrder, SecretUse
from tests.api_server import Client, connected
from tests.rigs.services import services_over, store_in, waiting_rig
from tests.store_values import url_in

SECRETS = "/v1/projects/default/secrets"
VALUE = "hunter2-or-so"


async def put(client: Client, name: str, value: str = VALUE) -> tuple[int, Any]:
    return await client.call("PUT", f"{SECRETS}/{name}", json={"value": value})


async def submit(client: Client, **fields: object) -> tuple[int, Any]:
    return await client.post("/v1/containers", {"command": ["true"], **fields})


def problems(answer: Any) -> dict[str, str]:
    return {each["path"]: each["message"] for each in answer["errors"]}


def listed(secrets: SecretService, caller: Principal) -> Sequence[StoredSecret]:
    found, following = secrets.secrets("p", caller=caller, cursor="", limit=100)
    assert following is None
    return found


async def test_a_secret_is_set_listed_and_removed_and_never_shown() -> None:
    async with connected() as client:
        assert (await put(client, "db"))[0] == 201
        status, again = await put(client, "db", VALUE)
        assert (status, again["name"], again["readable"]) == (200, "db", True)
        await put(client, "api")
        _, listed = await client.call("GET", SECRETS)
        assert [each["name"] for each in listed["items"]] == ["api", "db"]
        assert listed["items"][1] == again
        assert listed["items"][0]["updated_by"] == "anonymous"
        status, removed = await client.call("DELETE", f"{SECRETS}/db", json={})
        assert (status, removed["name"]) == (200, "db")
        assert (await client.call("DELETE", f"{SECRETS}/db", json={}))[0] == 404
        told = json.dumps([again, listed, removed])
        assert VALUE not in told
        assert client.rig.vault.secrets["default", "api"].ciphertext not in told


async def test_a_project_with_a_slash_has_secrets_of_its_own() -> None:
    async with connected() as client:
        path = "/v1/projects/lab%2Fone/secrets"
        status, answer = await client.call("PUT", f"{path}/db", json={"value": "x"})
        assert (status, answer.get("project")) == (201, "lab/one")
        assert len((await client.call("GET", path))[1]["items"]) == 1
        assert (await client.call("GET", SECRETS))[1]["items"] == []


@pytest.mark.parametrize(
    ("path", "body", "wrong"),
    [
        (f"{SECRETS}/a%20b", {"value": "x"}, "name"),
        (f"{SECRETS}/{'a' * 64}", {"value": "x"}, "name"),
        ("/v1/projects/-/secrets/db", {"value": "x"}, "project"),
        (f"{SECRETS}/db", {"value": ""}, "value"),
        (f"{SECRETS}/db", {"value": "ä" * 16_385}, "value"),
        (f"{SECRETS}/db", {}, "value"),
        (f"{SECRETS}/db", {"value": [VALUE]}, "value"),
        (f"{SECRETS}/db", {"value": {"is": VALUE}}, "value"),
        (f"{SECRETS}/db", {"value": "x", "valeu": VALUE}, "valeu"),
    ],
)
async def test_what_cannot_be_a_secret_is_refused_without_its_value(
    path: str, body: object, wrong: str
) -> None:
    async with connected() as client:
        status, answer = await client.call("PUT", path, json=body)
        assert status == 400
        assert list(problems(answer)) == [wrong]
        assert VALUE not in json.dumps(answer)


async def test_all_that_is_wrong_with_references_is_told_at_once() -> None:
    async with connected() as client:
        await put(client, "db")
        status, answer = await submit(
            client,
            env={"TAKEN": "x", "EMPTY": {"secret": ""}, "LONG": {"secret": "x" * 32_769}},
            secrets=[
                {"name": "db"},
                {"name": "db", "env": "A", "file": "a"},
                {"name": "db", "env": "1A"},
                {"name": "db", "env": "LONGSHORE_ID"},
                {"name": "db", "env": "TAKEN"},
                {"name": "db", "file": "../a"},
                {"name": "db", "file": ".."},
                {"name": "db", "registry": "ghcr.io"},
                {"name": "db", "registry": "https://ghcr.io"},
                {"name": "../db", "env": "B"},
                {"name": "db", "file": "a"},
                {"name": "db", "file": "a"},
            ],
        )
        assert status == 400
        assert {path: told.partition(":")[0] for path, told in problems(answer).items()} == {
            "env.EMPTY.secret": "is empty",
            "env.LONG.secret": "is 32769 bytes, and 32768 are the most",
            "secrets[0]": "says none of them",
            "secrets[1]": "says env and file",
            "secrets[2].env": "is not a variable's name",
            "secrets[3].env": "is reserved",
            "secrets[4].env": '"TAKEN" is that of env.TAKEN too',
            "secrets[5].file": "is not a file's name",
            "secrets[6].file": "is not a file's name",
            "secrets[7].registry": "is for fetching an image, and none is named",
            "secrets[8].registry": "is for fetching an image, and none is named",
            "secrets[9].name": "is not a secret's name",
            "secrets[11].file": '"a" is that of secrets[10].file too',
        }


async def test_a_container_may_have_only_so_many() -> None:
    async with connected() as client:
        await put(client, "db")
        most = [{"name": "db", "file": f"{n}"} for n in range(SECRETS_PER_CONTAINER_MOST)]
        assert (await submit(client, secrets=most))[0] == 201
        status, answer = await submit(client, secrets=most, env={"A": {"secret": "x"}})
        assert (status, list(problems(answer))) == (400, ["secrets"])


async def test_what_is_not_there_is_refused_where_it_is_named() -> None:
    async with connected() as client:
        await put(client, "database")
        wanted = [{"name": "database", "env": "A"}, {"name": "databse", "env": "B"}]
        status, answer = await submit(client, secrets=wanted)
        assert (status, list(problems(answer))) == (400, ["secrets[1].name"])
        assert 'did you mean "database"' in problems(answer)["secrets[1].name"]
        status, answer = await submit(client, secrets=wanted[:1], project="another")
        assert (status, list(problems(answer))) == (400, ["secrets[0].name"])
        job = {"tasks": [{"command": ["true"], "secrets": wanted}]}
        for path in ("/v1/jobs", "/v1/jobs/plan"):
            status, answer = await client.post(path, job)
            assert (status, list(problems(answer))) == (400, ["tasks[0].secrets[1].name"])


@pytest.mark.parametrize("kind", ["system", "sysbatch", "elastic"])
async def test_jobs_with_a_scheduler_of_their_own_have_none(kind: str) -> None:
    async with connected() as client:
        await put(client, "db")
        task = {
            "command": ["true"],
            "secrets": [{"name": "db", "env": "A"}],
            "env": {"B": {"secret": VALUE}},
        }
        status, answer = await client.post("/v1/jobs", {"type": kind, "tasks": [task]})
        assert (status, sorted(problems(answer))) == (400, ["tasks[0].env", "tasks[0].secrets"])


async def test_secret_values_are_sealed_before_they_are_stored_and_shown_as_a_mark() -> None:
    async with connected() as client:
        await put(client, "db")
        uses = [
            {"name": "db", "env": "A"},
            {"name": "db", "file": "f"},
            {"name": "db", "registry": "ghcr.io:443"},
        ]
        env = {"PLAIN": "p", "B": {"secret": VALUE}}
        status, made = await submit(client, image="busybox", secrets=uses, env=env)
        assert status == 201
        assert made["env"] == {"PLAIN": "p", "B": {"secret": True}}
        assert made["secrets"] == uses
        spec = client.rig.containers()[0].spec
        assert client.rig.vault.box.open(spec.sealed_env[0][1], place="env B") == VALUE
        assert VALUE not in repr(spec)
        job = {"tasks": [{"command": ["true"], "env": env, "array": 2}]}
        status, answer = await client.post("/v1/jobs", job)
        assert (status, VALUE in json.dumps(answer)) == (201, False)
        assert all(each.spec.sealed_env for each in client.rig.containers())
        for path in ("/v1/containers", f"/v1/containers/{made['id']}/explain", "/v1/jobs"):
            assert VALUE not in json.dumps((await client.call("GET", path))[1])
        files = [path for path in client.rig.directory.rglob("*") if path.is_file()]
        content = b"".join(path.read_bytes() for path in files)
        assert b"busybox" in content, "what was submitted is among what was looked at"
        assert VALUE.encode() not in content


@pytest.mark.parametrize(
    "value",
    [{"secret": [VALUE]}, {"secret": {"a": VALUE}}, {"secert": VALUE}, {"secret": 1, "x": VALUE}],
)
async def test_a_value_in_the_wrong_shape_is_not_quoted(value: object) -> None:
    async with connected() as client:
        status, answer = await submit(client, env={"A": value})
        assert status == 400
        assert VALUE not in json.dumps(answer)


async def test_a_repeated_request_is_known_by_all_but_its_secret_values() -> None:
    async with connected() as client:

        def body(value: str, plain: str) -> dict[str, Any]:
            return {"command": ["true"], "env": {"A": {"secret": value}, "B": plain}}

        key = {"Idempotency-Key": "k"}
        _, first = await client.post("/v1/containers", body("one", "p"), **key)
        _, again = await client.post("/v1/containers", body("two", "p"), **key)
        assert first["id"] == again["id"]
        assert (await client.post("/v1/containers", body("one", "q"), **key))[0] == 422


@pytest.mark.parametrize("project", ["default", "vision"])
@pytest.mark.parametrize("shape", ["one", "list", "job"])
async def test_no_hash_of_a_secret_value_is_kept_whatever_it_is_in(
    project: str, shape: str
) -> None:
    def body(value: str) -> Any:
        one = {"command": ["true"], "env": {"A": {"secret": value}, "B": "plain"}}
        return {"one": one, "list": [one, one], "job": {"tasks": [one]}}[shape]

    path = "/v1/jobs" if shape == "job" else "/v1/containers"
    async with connected() as client:
        wanted = NewToken(
            name="",
            user="u",
            role=Role.USER,
            projects=(project,),
            default_project=project,
            expires_at=None,
        )
        _, text = await client.rig.services.tokens.create(wanted, caller=who(Role.ADMIN))
        headers = {"Idempotency-Key": "k", "Authorization": f"Bearer {text}"}
        made = []
        for value in ("one", "two"):
            status, answer = await client.post(path, body(value), **headers)
            assert status == 201, answer
            made.append([each["id"] for each in answer.get("items", [answer])])
        assert made[0] == made[1]


async def test_what_lacks_its_secret_says_so_and_is_let_go() -> None:
    async with connected() as client:
        await put(client, "db")
        _, made = await submit(client, secrets=[{"name": "db", "env": "A"}])
        await client.call("DELETE", f"{SECRETS}/db", json={})
        await client.rig.settled()
        _, shown = await client.call("GET", f"/v1/containers/{made['id']}")
        assert shown["waiting"].startswith("there is no secret 'db' in project default any more")
        assert shown["waiting_for"]["code"] == "secrets"
        await put(client, "db")
        await client.rig.settled()
        _, shown = await client.call("GET", f"/v1/containers/{made['id']}")
        assert shown["waiting_for"]["code"] != "secrets"


async def test_keys_are_rotated_and_all_is_still_given() -> None:
    async with connected() as client:
        rig = client.rig
        await put(client, "db")
        await submit(client, env={"B": {"secret": VALUE}})
        before = rig.vault.key_file.read()
        assert await client.post("/v1/secret-keys/rotate", {}) == (200, {"secrets": 1})
        after = rig.vault.key_file.read()
        assert (len(before), len(after)) == (1, 1)
        assert before != after
        order = SecretOrder(
            project="default",
            uses=(SecretUse(secret="db", kind=SecretKind.FILE, target="f"),),
            sealed_env=rig.containers()[0].spec.sealed_env,
        )
        values = rig.vault.values(order)
        assert (values.env, values.files) == ((("B", VALUE),), (("f", VALUE),))


def opened_again(client: Client) -> dict[str, str]:
    """Return what of its secrets a server can read that starts now."""
    vault, kept = client.rig.vault, client.rig.store.secrets()
    box = SecretBox(vault.key_file.read(), kept.data_keys)
    return {
        each.name: box.open(each.ciphertext, place=place_of_secret(each.project, each.name))
        for each in kept.secrets
        if data_key_of(each.ciphertext) in box.key_ids
    }


async def test_a_rotation_uses_a_key_file_that_was_put_back() -> None:
    async with connected() as client:
        await put(client, "db")
        vault = client.rig.vault
        before = vault.key_file.read()
        vault.box = SecretBox((), vault.box.data_keys)  # as after a start without the file
        assert await client.post("/v1/secret-keys/rotate", {}) == (200, {"secrets": 1})
        assert len(vault.key_file.read()) == 1
        assert vault.key_file.read() != before
        assert not vault.box.has_closed
        assert opened_again(client) == {"db": VALUE}


async def test_a_rotation_drops_no_key_while_anything_stays_closed() -> None:
    async with connected() as client:
        await put(client, "db")
        vault = client.rig.vault
        lost, another = vault.key_file.read(), Fernet.generate_key()
        vault.key_file.write((another,))
        vault.box = SecretBox((another,), vault.box.data_keys)
        assert await client.post("/v1/secret-keys/rotate", {}) == (200, {"secrets": 0})
        new, *old = vault.key_file.read()
        assert old == [another]
        await put(client, "cert")
        vault.key_file.write((new, *lost))
        assert opened_again(client) == {"db": VALUE, "cert": VALUE}
        assert await client.post("/v1/secret-keys/rotate", {}) == (200, {"secrets": 2})
        assert len(vault.key_file.read()) == 1, "all was opened, so that none is needed any more"


async def test_a_rotation_that_fails_keeps_the_keys_in_use_though_their_file_was_lost() -> None:
    async with connected() as client:
        await put(client, "db")
        client.rig.vault.key_file.path.unlink()
        client.rig.store.close()
        with pytest.raises(Unavailable):
            await client.rig.services.secrets.rotate(caller=who(Role.ADMIN))
        client.rig.store = Store.open(url_in(client.rig.directory))
        assert opened_again(client) == {"db": VALUE}


async def test_a_rotation_whose_caller_gave_up_is_seen_by_the_next() -> None:
    async with connected() as client:
        await put(client, "db")
        rig, admin = client.rig, who(Role.ADMIN)
        with closing(sqlite3.connect(url_in(rig.directory).removeprefix("sqlite:///"))) as other:
            other.execute("BEGIN IMMEDIATE")  # so that nothing is committed
            given_up = asyncio.create_task(rig.services.secrets.rotate(caller=admin))
            async with asyncio.timeout(10):
                while not rig.store.pending:  # noqa: ASYNC110 - it is its thread that tells
                    await asyncio.sleep(0.01)
            given_up.cancel()
            await asyncio.wait([given_up])
            again = asyncio.create_task(rig.services.secrets.rotate(caller=admin))
            await asyncio.sleep(0)  # by then it waits for the turn of the first
            other.rollback()
        assert await again == 1
        assert len(rig.vault.key_file.read()) == 1
        assert opened_again(client) == {"db": VALUE}


async def test_rotations_at_the_same_time_leave_the_key_that_is_in_use() -> None:
    async with connected() as client:
        await put(client, "db")
        asked = [client.post("/v1/secret-keys/rotate", {}) for _ in range(4)]
        changed = [put(client, f"s{number}") for number in range(8)]
        done = await asyncio.gather(*asked, *changed)
        assert {status for status, _ in done} <= {200, 201}
        vault = client.rig.vault
        assert len(vault.secrets) == 9
        kept = client.rig.store.secrets()
        box = type(vault.box)(vault.key_file.read(), kept.data_keys)
        opened = {
            box.open(each.ciphertext, place=place_of_secret(each.project, each.name))
            for each in kept.secrets
        }
        assert opened == {VALUE}


@asynccontextmanager
async def following(client: Client) -> AsyncIterator[None]:
    """Have the server look for its key file."""
    secrets = client.rig.services.secrets
    task = asyncio.create_task(secrets.follow_key_file(look_each_s=0.01))
    yield
    assert not task.done()
    task.cancel()
    await asyncio.wait([task])


async def test_a_key_file_that_is_put_back_is_taken_in_while_the_server_runs() -> None:
    async with connected() as client:
        await put(client, "db")
        vault = client.rig.vault
        old = vault.key_file.read()
        vault.key_file.path.unlink()
        vault.box = SecretBox((), vault.box.data_keys)
        await client.post("/v1/secret-keys/rotate", {})
        new = vault.key_file.read()
        await put(client, "cert")
        _, made = await submit(client, secrets=[{"name": "db", "env": "A"}])
        await client.rig.settled()
        path = f"/v1/containers/{made['id']}"
        assert (await client.call("GET", path))[1]["waiting_for"]["code"] == "secrets"
        async with following(client):
            vault.key_file.write(old)
            async with asyncio.timeout(10):
                while vault.box.has_closed:  # noqa: ASYNC110 - it is a value
                    await asyncio.sleep(0.01)
        await client.rig.settled()
        assert (await client.call("GET", path))[1]["waiting_for"]["code"] != "secrets"
        assert vault.key_file.read() == (*new, *old)
        assert opened_again(client) == {"db": VALUE, "cert": VALUE}


async def test_a_key_file_that_cannot_be_used_ends_no_looking(
    capsys: pytest.CaptureFixture[str],
) -> None:
    async with connected() as client:
        vault = client.rig.vault
        vault.box = SecretBox((), vault.box.data_keys)
        vault.key_file.path.chmod(0o644)
        told = ""
        async with following(client), asyncio.timeout(10):
            while "chmod 600" not in told:
                await asyncio.sleep(0.01)
                told += capsys.readouterr().out
            vault.key_file.path.chmod(0o600)
            while vault.box.has_closed:  # noqa: ASYNC110 - it is a value
                await asyncio.sleep(0.01)


async def test_without_a_key_nothing_is_set_and_nothing_taken_in_the_clear() -> None:
    async with connected() as client:
        vault = client.rig.vault
        vault.box = type(vault.box)((), vault.box.data_keys)
        for status, answer in (
            await put(client, "db"),
            await submit(client, env={"B": {"secret": VALUE}}),
        ):
            assert status == 409
            assert "put back the key file" in answer["detail"]
        assert client.rig.containers() == []
        assert (await client.post("/v1/secret-keys/rotate", {}))[0] == 200
        assert (await put(client, "db"))[0] == 201


# ---- who may -------------------------------------------------------------------------------------


def who(role: Role, *projects: str) -> Principal:
    return Principal(user=role.value, role=role, door=Door.TOKEN, projects=projects)


async def test_members_list_leads_and_admins_change_and_others_see_nothing(tmp_path: Path) -> None:
    with store_in(tmp_path) as store:
        async with services_over(waiting_rig(), store, tmp_path) as services:
            secrets = services.secrets
            user, lead, admin = who(Role.USER, "p"), who(Role.LEAD, "p"), who(Role.ADMIN)
            await secrets.set("p", "db", "x", caller=lead)
            await secrets.set("p", "db2", "x", caller=admin)
            for each in (user, lead, admin):
                assert [s.name for s in listed(secrets, each)] == ["db", "db2"]
            assert [s.updated_by for s in listed(secrets, user)] == ["lead", "admin"]
            with pytest.raises(Forbidden, match="leads"):
                await secrets.set("p", "db", "y", caller=user)
            with pytest.raises(Forbidden, match="leads"):
                await secrets.remove("p", "db", caller=user)
            for each in (user, lead):
                with pytest.raises(Forbidden, match="admin"):
                    await secrets.rotate(caller=each)
            for each in (who(Role.USER, "q"), who(Role.LEAD, "q"), who(Role.LEAD)):
                with pytest.raises(NotFound):
                    listed(secrets, each)
                with pytest.raises(NotFound):
                    await secrets.set("p", "db", "y", caller=each)
                with pytest.raises(NotFound):
                    await secrets.remove("p", "db", caller=each)
            await secrets.remove("p", "db", caller=lead)
            assert [s.name for s in listed(secrets, admin)] == ["db2"]


async def test_there_are_only_so_many(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    module = "longshore.dispatcher.service.secrets"
    monkeypatch.setattr(f"{module}.SECRETS_PER_PROJECT_MOST", 2)
    monkeypatch.setattr(f"{module}.SECRETS_MOST", 3)
    admin = who(Role.ADMIN)
    with store_in(tmp_path) as store:
        async with services_over(waiting_rig(), store, tmp_path) as services:
            for project, name in (("p", "a"), ("p", "b"), ("q", "a")):
                await services.secrets.set(project, name, "x", caller=admin)
            for project in ("p", "q"):
                with pytest.raises(Conflict, match="which is the most"):
                    await services.secrets.set(project, "c", "x", caller=admin)
            _, is_new = await services.secrets.set("p", "a", "y", caller=admin)
            assert not is_new
