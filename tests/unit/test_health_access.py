"""What is wrong with secrets, the certificate and the issuer: told until it is over."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

import pytest
import trustme
from aiohttp import web
from cryptography.fernet import Fernet
from structlog.testing import capture_logs

from longshore.dispatcher.access.issuer import Issuer
from longshore.dispatcher.access.issuer_keys import FRESH_S, RETRY_S
from longshore.dispatcher.config.model import IssuerConfig, TlsConfig
from longshore.dispatcher.config.tls import server_context
from longshore.dispatcher.domain.views import Problem, ProblemKind
from longshore.dispatcher.server.certificate import EXPIRES_SOON_S, Certificate
from longshore.dispatcher.service.health import HealthService, Watched, missing_key
from longshore.dispatcher.store.secret_box import KeyFile, SecretBox
from tests.api_server import connected
from tests.rigs.engine import Rig
from tests.rigs.services import runtime_over, services_with, store_in
from tests.samples import make_type
from tests.token_issuer import AUDIENCE, RSA, signed, token_issuer

NOW = 1_700_000_000.0
END = NOW + 100 * 86_400
DAY_S = 86_400.0
SECRETS = "/v1/projects/default/secrets"


async def until(what: Callable[[], bool]) -> None:
    """Return once it is so."""
    async with asyncio.timeout(10):
        while not what():  # noqa: ASYNC110 - what is waited for tells nobody
            await asyncio.sleep(0.005)


@asynccontextmanager
async def going_on(what: asyncio.Task[None]) -> AsyncIterator[None]:
    """Let a task run, and end it."""
    try:
        yield
    finally:
        what.cancel()
        with suppress(asyncio.CancelledError):
            await what


def of_secrets(health: HealthService) -> str:
    """Return what is said of secrets, "" for nothing; the server serves all the same."""
    found = health.health()
    assert found.ready
    return "".join(each.message for each in found.problems if each.kind is ProblemKind.SECRETS)


# ---- secrets -------------------------------------------------------------------------------------


async def test_a_missing_key_is_told_with_what_needs_it_until_nothing_does() -> None:
    async with connected() as client:
        health, vault = client.rig.services.health, client.rig.vault
        assert (await client.call("PUT", f"{SECRETS}/db", json={"value": "x"}))[0] == 201
        uses = [{"name": "db", "env": "DB"}]
        _, made = await client.post("/v1/containers", {"command": ["true"], "secrets": uses})
        assert of_secrets(health) == ""
        # As after a start without the key file.
        await asyncio.to_thread(Path(vault.key_file.path).unlink)
        vault.box = SecretBox((), vault.box.data_keys)
        said = of_secrets(health)
        assert said.startswith("the key to the secret (db of project default) is missing")
        assert f"put back the key file {vault.key_file.path}; if it is lost" in said
        _, told = await client.call("GET", "/v1/health")
        assert [each["kind"] for each in told["problems"]] == ["secrets"]
        assert (told["ready"], told["degraded"]) == (True, True)
        assert (
            'longshore_problem{kind="secrets"} 1.0'
            in client.rig.services.measuring.exposition().decode()
        )
        # It is lost for good: a new key alone brings nothing back.
        assert (await client.post("/v1/secret-keys/rotate", {}))[0] == 200
        await client.rig.settled()
        assert f"1 container waits for it ({made['id']})" in of_secrets(health)
        assert (await client.call("PUT", f"{SECRETS}/db", json={"value": "x"}))[0] == 200
        await client.rig.settled()
        assert of_secrets(health) == ""


def test_what_is_said_of_a_missing_key() -> None:
    names = frozenset(("p", f"s{number}") for number in range(5))
    waiting = [f"c-{number}" for number in range(4)]
    assert missing_key("/k", names, waiting).startswith(
        "the key to the 5 secrets (s0 of project p, s1 of project p, s2 of project p and 2 more) is"
        " missing, and 4 containers wait for it (c-0, c-1, c-2 and 1 more): put back the key file"
        " /k; if it is lost"
    )
    only_values = missing_key("/k", frozenset(), ["c-0"])
    assert only_values.startswith("the key to secret values of containers is missing, and 1 cont")
    assert missing_key("/k", frozenset(), []).startswith("no secret can be set, since their key")


async def test_a_key_file_that_the_next_start_could_not_use_is_told(tmp_path: Path) -> None:
    with store_in(tmp_path) as store:
        rig = Rig(make_type(1))
        health = services_with(runtime_over(rig, store), rig, store, tmp_path).health
        file = KeyFile(tmp_path / "secret_keys")
        kept = file.read()

        async def said() -> str:
            await health.look()
            return of_secrets(health)

        assert await said() == ""
        file.path.unlink()
        assert f"could decrypt no secret: {file.path} is gone, or empty" in await said()
        assert "longshore secret rotate-keys" in await said()
        file.write([Fernet.generate_key()])
        assert f"{file.path} has other keys" in await said()
        file.write(kept)
        file.path.chmod(0o644)
        assert "others may read it; chmod 600 it" in await said()
        file.path.chmod(0o600)
        assert await said() == ""
        # As in the midst of a rotation.
        file.write([Fernet.generate_key(), *kept])
        assert await said() == ""


# ---- the certificate -----------------------------------------------------------------------------


class Files:
    """A certificate and its key, as they are renewed."""

    def __init__(self, directory: Path) -> None:
        self.tls = TlsConfig(
            certificate=str(directory / "server.pem"), private_key=str(directory / "server.key")
        )
        self.authority = trustme.CA()
        self.renew(END)

    def renew(self, expires_at: float) -> None:
        issued = self.authority.issue_cert(
            "127.0.0.1",
            not_before=datetime.fromtimestamp(NOW - DAY_S, UTC),
            not_after=datetime.fromtimestamp(expires_at, UTC),
        )
        chain = b"".join(each.bytes() for each in issued.cert_chain_pems)
        Path(self.tls.private_key).write_bytes(issued.private_key_pem.bytes())
        Path(self.tls.certificate).write_bytes(chain + self.authority.cert_pem.bytes())


@pytest.mark.parametrize(
    ("now", "told"),
    [
        (END - EXPIRES_SOON_S - 1, ""),
        (END - EXPIRES_SOON_S, "expires soon, at 2024-02-22T22:13:20Z: put a renewed one and"),
        (END - 1, "expires soon, at 2024-02-22T22:13:20Z: put a renewed one and its key in"),
        (END, "has expired, at 2024-02-22T22:13:20Z, so that clients refuse to connect: put"),
    ],
)
def test_a_certificate_that_ends_is_told_two_weeks_before(
    tmp_path: Path, now: float, told: str
) -> None:
    files = Files(tmp_path)
    with capture_logs() as logs:
        problem = Certificate(files.tls, now=lambda: now).problem()
    assert told in problem
    warned = [each["why"] for each in logs if each["log_level"] == "warning"]
    assert warned == ([problem] if told else [])
    assert bool(problem) is bool(told)


async def test_a_renewed_certificate_ends_it_and_files_that_are_no_good_are_told(
    tmp_path: Path,
) -> None:
    files, now = Files(tmp_path), END
    certificate = Certificate(files.tls, now=lambda: now)
    looking = asyncio.create_task(certificate.keep_current(look_each_s=0.01))
    async with going_on(looking):
        assert "has expired" in certificate.problem()
        files.renew(END + 30 * DAY_S)
        await until(lambda: certificate.problem() == "")
        key = Path(files.tls.private_key)
        kept = key.rename(tmp_path / "kept")  # noqa: ASYNC240 - a local file, in a test
        await until(lambda: "No such file" in certificate.problem())
        assert "clients still get the one before" in certificate.problem()
        assert "mend them, and the server reads them by itself" in certificate.problem()
        kept.rename(key)
        await until(lambda: certificate.problem() == "")
        key.write_text("no key")  # noqa: ASYNC240 - as above
        await until(lambda: "does not go with" in certificate.problem())
        now = END + 30 * DAY_S
        assert "has expired" in certificate.problem()
        assert "does not go with" in certificate.problem()
        files.renew(END + 60 * DAY_S)
        await until(lambda: certificate.problem() == "")


def test_a_certificate_whose_end_nobody_can_read_is_used(tmp_path: Path) -> None:
    files = Files(tmp_path)
    path = Path(files.tls.certificate)
    text = path.read_text(encoding="ascii").partition("-----END CERTIFICATE-----")[0]
    path.write_text(
        text.replace("CERTIFICATE", "TRUSTED CERTIFICATE") + "-----END TRUSTED CERTIFICATE-----\n",
        encoding="ascii",
    )
    assert server_context(files.tls)[1] is None
    assert Certificate(files.tls, now=lambda: END).problem() == ""


# ---- the issuer ----------------------------------------------------------------------------------


async def test_an_issuer_that_is_away_is_told_until_it_answers_though_nobody_comes() -> None:
    clock_s = 100.0
    async with token_issuer() as there:
        there.instead["/keys"] = web.Response(status=503)
        config = IssuerConfig(url=there.url, audience=AUDIENCE)
        issuer = Issuer(config, now=lambda: NOW, clock=lambda: clock_s)
        asking = asyncio.create_task(issuer.keep_fresh(look_each_s=0.01))
        async with going_on(asking):
            await until(lambda: issuer.problem() != "")
            said = issuer.problem()
            assert f"the issuer {there.url} gives no keys, so that nobody comes in by it" in said
            assert "answers 503; see that it runs, that this machine reaches it" in said
            there.instead.clear()
            clock_s += RETRY_S
            await until(lambda: issuer.problem() == "")
            there.instead["/keys"] = web.Response(body=b"no JSON")
            clock_s += FRESH_S
            await until(lambda: "a key that is known still comes in" in issuer.problem())
            there.instead.clear()
            clock_s += RETRY_S
            await until(lambda: issuer.problem() == "")
            # A token with a key that is not known asks too, and may find it away with fresh keys.
            there.instead["/keys"] = web.Response(status=500)
            clock_s += RETRY_S
            await issuer.holder(signed(RSA, there.claims(NOW), kid="unknown"))
            assert "answers 500" in issuer.problem()
            there.instead.clear()
            clock_s += RETRY_S
            await until(lambda: issuer.problem() == "")
        await issuer.close()


async def test_what_is_watched_is_told_with_since_when(tmp_path: Path) -> None:
    wrong = {ProblemKind.ISSUER: "", ProblemKind.CERTIFICATE: "it ends"}
    watched = [Watched(kind=kind, problem=partial(wrong.__getitem__, kind)) for kind in wrong]
    with store_in(tmp_path) as store:
        rig = Rig(make_type(1))
        began = rig.now
        health = services_with(
            runtime_over(rig, store), rig, store, tmp_path, watched=watched
        ).health
        await health.look()
        rig.advance(10)
        wrong[ProblemKind.ISSUER] = "it is away"
        found = health.health()
        assert (found.ready, set(found.problems)) == (
            True,
            {
                Problem(kind=ProblemKind.CERTIFICATE, since=began, message="it ends"),
                Problem(kind=ProblemKind.ISSUER, since=began + 10, message="it is away"),
            },
        )
