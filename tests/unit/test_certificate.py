"""The certificate of a server that runs: every change of its files is read, whatever is between."""

from __future__ import annotations

import asyncio
import ssl
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import trustme

from longshore.dispatcher.config.model import TlsConfig
from longshore.dispatcher.server.certificate import Certificate
from tests.unit.test_wiring import server

LOOK_EACH_S = 0.01


def written(directory: Path, authority: trustme.CA) -> TlsConfig:
    """Write a certificate of an authority and its key; return where they are."""
    tls = TlsConfig(
        certificate=str(directory / "server.pem"), private_key=str(directory / "server.key")
    )
    issued = authority.issue_cert("127.0.0.1")
    Path(tls.private_key).write_bytes(issued.private_key_pem.bytes())
    Path(tls.certificate).write_bytes(b"".join(each.bytes() for each in issued.cert_chain_pems))
    return tls


def is_trusted(context: ssl.SSLContext, authority: trustme.CA) -> bool:
    """Return whether a client of an authority takes what a new connection shows."""
    trusting = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    authority.configure_trust(trusting)
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = trusting.wrap_bio(to_client, to_server, server_hostname="127.0.0.1")
    answering = context.wrap_bio(to_server, to_client, server_side=True)
    for end in (client, answering, client):
        try:
            end.do_handshake()
        except ssl.SSLWantReadError:
            continue
        except ssl.SSLCertVerificationError:
            return False
    return True


async def until_trusted(context: ssl.SSLContext, authority: trustme.CA) -> None:
    async with asyncio.timeout(10):
        while not is_trusted(context, authority):  # noqa: ASYNC110 - only a connection can tell
            await asyncio.sleep(LOOK_EACH_S)


@asynccontextmanager
async def kept_current(certificate: Certificate) -> AsyncIterator[asyncio.Task[None]]:
    task = asyncio.create_task(certificate.keep_current(look_each_s=LOOK_EACH_S))
    yield task
    assert not task.done()
    task.cancel()
    await asyncio.wait([task])


async def test_a_change_between_the_reading_and_the_first_look_is_read(tmp_path: Path) -> None:
    first, second = trustme.CA(), trustme.CA()
    tls = written(tmp_path, first)
    certificate = Certificate(tls, now=time.time)
    context = certificate.context
    assert (is_trusted(context, first), is_trusted(context, second)) == (True, False)
    written(tmp_path, second)
    async with kept_current(certificate):
        await until_trusted(context, second)


async def test_files_that_are_gone_at_the_first_look_are_read_once_they_are_back(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    first, second = trustme.CA(), trustme.CA()
    tls = written(tmp_path, first)
    certificate = Certificate(tls, now=time.time)
    (tmp_path / "server.pem").unlink()
    told = ""
    async with kept_current(certificate):
        async with asyncio.timeout(10):
            while "cannot be read" not in told:
                await asyncio.sleep(LOOK_EACH_S)
                told += capsys.readouterr().out
        assert is_trusted(certificate.context, first)
        assert "cannot be used" in certificate.problem()
        written(tmp_path, second)
        await until_trusted(certificate.context, second)
        async with asyncio.timeout(10):
            while certificate.problem():  # noqa: ASYNC110 - it is what is looked at
                await asyncio.sleep(LOOK_EACH_S)


async def test_a_server_whose_certificate_is_looked_at_no_more_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def broken(*_: object, **__: object) -> None:
        raise MemoryError

    monkeypatch.setattr(Certificate, "keep_current", broken)
    tls = written(tmp_path, trustme.CA())
    files = {"certificate": tls.certificate, "private_key": tls.private_key}
    made = server(tmp_path, listen="127.0.0.1:0", tls=files)
    await made.start()
    try:
        async with asyncio.timeout(10):
            with pytest.raises(MemoryError):
                await made.wait_failed()
    finally:
        await made.stop()
