"""Sending to webhooks: over real connections, only to where it may, until it is taken."""

from __future__ import annotations

import asyncio
import ssl
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import trustme

from longshore.dispatcher.config.model import NotificationsConfig, WebhookConfig
from longshore.dispatcher.domain.deliveries import Delivery, Notification
from longshore.dispatcher.notifications import webhooks
from longshore.dispatcher.notifications.delivery import Pace, deliveries_of, headers_of
from longshore.dispatcher.notifications.webhooks import (
    NotAllowed,
    WebhookSender,
    WebhookTarget,
    check_addresses,
    system_lookup,
    targets_of,
)
from tests.webhook_receiver import KeptDeliveries, WebhookReceiver, until, webhook_receiver

KEY = bytes(range(32))
QUICK = Pace(first_s=0.01, most_s=0.02, given_up_after_s=60)


def notice(number: int = 1) -> Notification:
    return Notification(id=f"n-{number}", body=b'{"type":"budget.step","number":%d}' % number)


def queued(number: int = 1, *, name: str = "finance", at: float = 0.0) -> Delivery:
    [found] = deliveries_of(notice(number), [name], at or time.time())
    return found


class Lookup:
    """Tells addresses as a test wants them, and how often it was asked."""

    def __init__(self, *answers: Sequence[str]) -> None:
        self.answers = answers
        self.asked: list[tuple[str, int]] = []

    async def __call__(self, host: str, port: int) -> Sequence[str]:
        self.asked.append((host, port))
        return self.answers[min(len(self.asked), len(self.answers)) - 1]


@asynccontextmanager
async def sending(
    url: str,
    kept: KeptDeliveries,
    *,
    hosts: Sequence[str] = ("localhost", "127.0.0.1"),
    lookup: Lookup | None = None,
    tls: ssl.SSLContext | None = None,
    pace: Pace = QUICK,
    timeout_s: float = 10.0,
    others: Sequence[WebhookTarget] = (),
) -> AsyncIterator[WebhookSender]:
    """Send what is kept to `url` for the length of a `with`."""
    sender = WebhookSender(
        [WebhookTarget(name="finance", url=url, key=KEY), *others],
        hosts,
        kept=kept,
        now=time.time,
        chance=lambda: 0.5,
        lookup=lookup or Lookup(["127.0.0.1"]),
        tls=tls,
        pace=pace,
        timeout_s=timeout_s,
    )
    await sender.start()
    try:
        yield sender
    finally:
        await sender.close()


@pytest.fixture
async def receiver() -> AsyncIterator[WebhookReceiver]:
    async with webhook_receiver() as found:
        yield found


async def test_what_is_kept_is_sent_signed_and_forgotten(receiver: WebhookReceiver) -> None:
    kept = KeptDeliveries([queued()])
    async with sending(f"http://localhost:{receiver.port}/in?x=1", kept) as sender:
        await until(lambda: not kept.kept)
        assert sender.problem() == ""
        await kept.save(queued(2))
        await sender.add([queued(2)])
        await until(lambda: not kept.kept)
    first, second = receiver.received
    assert (first.path, first.body, second.body) == ("/in", notice().body, notice(2).body)
    at = float(first.headers["webhook-timestamp"])
    assert abs(at - time.time()) < 60
    expected = headers_of(notice(), KEY, at)
    assert {name.lower(): value for name, value in expected.items()}.items() <= (
        first.headers.items()
    )


async def test_it_is_tried_again_with_the_same_id_until_it_is_taken(
    receiver: WebhookReceiver,
) -> None:
    receiver.statuses = [503, 400]
    kept = KeptDeliveries([queued()])
    async with sending(f"http://localhost:{receiver.port}/", kept) as sender:
        await until(lambda: sender.problem() != "")
        assert "finance (it answers" in sender.problem()
        await until(lambda: not kept.kept)
        assert sender.problem() == ""
    assert [each.headers["webhook-id"] for each in receiver.received] == ["n-1"] * 3
    assert [each.tries for each in kept.saved] == [1, 2]


def _tries(kept: KeptDeliveries) -> int:
    return max((each.tries for each in kept.kept.values()), default=0)


async def test_a_restart_goes_on_with_its_tries(receiver: WebhookReceiver) -> None:
    receiver.statuses = [503]
    kept = KeptDeliveries([queued()])
    url = f"http://localhost:{receiver.port}/"
    slow = Pace(first_s=3600)
    async with sending(url, kept, pace=slow):
        await until(lambda: _tries(kept) == 1)
    [waiting] = kept.kept.values()
    assert waiting.next_try_at == pytest.approx(time.time() + 3600 * 1.125, abs=60)
    async with sending(url, kept, pace=slow) as sender:
        await sender.add([])
        await kept.save(queued(2))
        await sender.add([queued(2)])
        await until(lambda: len(receiver.received) == 2 and len(kept.kept) == 1)
    # What is not due waits, and delays nothing.
    assert [each.headers["webhook-id"] for each in receiver.received] == ["n-1", "n-2"]
    assert list(kept.kept.values()) == [waiting]


async def test_what_is_too_old_or_gone_is_given_up(receiver: WebhookReceiver) -> None:
    # The older one is sent first.
    receiver.statuses = [503, 410]
    kept = KeptDeliveries([queued(at=time.time() - 50), queued(2, at=time.time() - 61)])
    async with sending(f"http://localhost:{receiver.port}/", kept):
        await until(lambda: not kept.kept)
    assert len(receiver.received) == 2


async def test_the_oldest_go_when_too_many_wait(
    receiver: WebhookReceiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(webhooks, "MOST_QUEUED", 2)
    receiver.hangs = True
    now = time.time()
    kept = KeptDeliveries([queued(number, at=now + number) for number in (1, 2, 3, 4)])
    async with sending(f"http://localhost:{receiver.port}/", kept):
        assert [key[1] for key in kept.kept] == ["n-3", "n-4"]


async def test_what_is_for_no_webhook_any_more_is_forgotten(receiver: WebhookReceiver) -> None:
    kept = KeptDeliveries([queued(name="removed")])
    async with sending(f"http://localhost:{receiver.port}/", kept) as sender:
        assert (kept.kept, sender.webhooks) == ({}, ("finance",))
    assert receiver.received == []


async def test_one_that_hangs_is_given_up_in_time_and_delays_no_other(
    receiver: WebhookReceiver,
) -> None:
    async with webhook_receiver() as hanging:
        hanging.hangs = True
        url = f"http://localhost:{hanging.port}/"
        other = WebhookTarget(name="ops", url=f"http://localhost:{receiver.port}/", key=KEY)
        kept = KeptDeliveries([queued(), queued(name="ops")])
        async with sending(url, kept, others=[other], timeout_s=0.2) as sender:
            await until(lambda: receiver.received != [], deadline_s=5)
            await until(lambda: len(hanging.received) > 1, deadline_s=5)
            assert "finance (no answer within 0.2 s)" in sender.problem()
            assert "ops" not in sender.problem()


async def test_an_answer_without_an_end_is_not_read(receiver: WebhookReceiver) -> None:
    receiver.babbles = True
    kept = KeptDeliveries([queued()])
    async with sending(f"http://localhost:{receiver.port}/", kept, timeout_s=5.0):
        await until(lambda: not kept.kept, deadline_s=8)
    assert len(receiver.received) == 1


async def test_nobody_is_followed_elsewhere(receiver: WebhookReceiver) -> None:
    receiver.statuses = [307]
    kept = KeptDeliveries([queued()])
    async with sending(f"http://localhost:{receiver.port}/", kept):
        await until(lambda: not kept.kept)
    assert [each.path for each in receiver.received] == ["/", "/"]


@pytest.mark.parametrize(
    ("url", "hosts", "addresses", "why"),
    [
        ("https://a.example.org:{port}/", ["b.example.org"], ["127.0.0.1"], "does not name a.exa"),
        ("https://a.example.org:{port}/", ["a.example.org"], ["127.0.0.1"], "the address 127.0.0"),
        ("https://a.example.org:{port}/", ["a.example.org"], ["1.1.1.1", "::1"], "address ::1"),
        ("https://a.example.org:{port}/", ["a.example.org"], [], "has no address"),
        ("http://a.example.org:{port}/", ["a.example.org"], ["127.0.0.1"], "it is not https"),
        ("https://10.0.0.1:{port}/", ["10.0.0.1"], ["1.1.1.1"], "the address 10.0.0.1, to which"),
        ("http://localhost:{port}/", ["localhost"], ["127.0.0.1", "1.1.1.1"], "address 1.1.1.1"),
        ("http://127.0.0.1:{port}/", ["localhost"], ["127.0.0.1"], "does not name 127.0.0.1"),
    ],
    ids=[
        *("not named", "this machine", "one of two", "none", "http", "a private address"),
        *("localhost elsewhere", "another name"),
    ],
)
async def test_nothing_is_sent_to_where_it_may_not(
    receiver: WebhookReceiver, url: str, hosts: list[str], addresses: list[str], why: str
) -> None:
    kept = KeptDeliveries([queued()])
    lookup = Lookup(addresses)
    where = url.format(port=receiver.port)
    async with sending(where, kept, hosts=hosts, lookup=lookup) as sender:
        await until(lambda: sender.problem() != "" or receiver.received != [])
        assert why in sender.problem()
    assert receiver.received == []


async def test_the_connection_goes_to_the_address_that_was_checked() -> None:
    async with webhook_receiver(host="127.0.0.2") as receiver:
        kept = KeptDeliveries([queued()])
        lookup = Lookup(["127.0.0.2"], ["127.0.0.1"])
        url = f"http://localhost:{receiver.port}/"
        async with sending(url, kept, lookup=lookup) as sender:
            await until(lambda: not kept.kept or sender.problem() != "")
        assert len(receiver.received) == 1
        assert lookup.asked == [("localhost", receiver.port)]


async def test_each_try_asks_for_the_addresses_anew(receiver: WebhookReceiver) -> None:
    receiver.statuses = [503]
    kept = KeptDeliveries([queued()])
    lookup = Lookup(["127.0.0.1"], ["10.0.0.1"])
    async with sending(f"http://localhost:{receiver.port}/", kept, lookup=lookup) as sender:
        await until(lambda: "10.0.0.1" in sender.problem() or not kept.kept)
    assert len(receiver.received) == 1


def trusting(authority: trustme.CA) -> ssl.SSLContext:
    """Return what trusts an authority alone."""
    context = ssl.create_default_context()
    authority.configure_trust(context)
    return context


async def test_who_receives_must_show_that_it_is_the_host() -> None:
    authority, other = trustme.CA(), trustme.CA()
    served = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("localhost").configure_cert(served)
    async with webhook_receiver(tls=served) as receiver:
        url = f"https://localhost:{receiver.port}/"
        kept = KeptDeliveries([queued()])
        async with sending(url, kept, tls=trusting(other)) as sender:
            await until(lambda: not kept.kept or sender.problem() != "")
            assert "certificate" in sender.problem()
        assert receiver.received == []
        async with sending(url, kept, tls=trusting(authority)):
            await until(lambda: not kept.kept)
        assert len(receiver.received) == 1


@pytest.mark.parametrize("kind", [OSError, UnicodeError, RuntimeError])
async def test_a_name_that_is_not_known_is_a_failed_try(kind: type[Exception]) -> None:
    async def lookup(host: str, port: int) -> Sequence[str]:
        raise kind(f"there is no {host} with a port {port}")

    kept = KeptDeliveries([queued()])
    sender = WebhookSender(
        [WebhookTarget(name="finance", url="https://gone.example.org/", key=KEY)],
        ["gone.example.org"],
        kept=kept,
        now=time.time,
        chance=lambda: 0.0,
        lookup=lookup,
    )
    await sender.start()
    try:
        await until(lambda: _tries(kept) == 1, deadline_s=5)
        assert "there is no gone.example.org" in sender.problem()
    finally:
        await sender.close()


async def test_the_address_and_the_key_of_a_webhook_are_in_no_text(tmp_path: Path) -> None:
    file = tmp_path / "key"
    file.write_text("whsec_" + "QUFB" * 8)
    file.chmod(0o600)
    hook = WebhookConfig(url="https://hooks.example.org/secret-part", secret_file=str(file))
    told = NotificationsConfig(hosts=("hooks.example.org",), webhooks={"finance": hook})
    [target] = targets_of(told)
    assert (target.name, target.url, target.key) == ("finance", hook.url, b"AAA" * 8)
    assert "secret-part" not in repr(target)
    assert "AAA" not in repr(target)


async def test_this_machine_tells_its_own_addresses() -> None:
    found = await system_lookup("localhost", 80)
    assert found
    check_addresses("localhost", found)
    with pytest.raises(NotAllowed):
        check_addresses("hooks.example.org", found)


async def test_closing_ends_a_try_and_keeps_what_it_was_of(receiver: WebhookReceiver) -> None:
    receiver.hangs = True
    kept = KeptDeliveries([queued()])
    async with sending(f"http://localhost:{receiver.port}/", kept):
        await until(lambda: receiver.received != [])
    assert len(kept.kept) == 1
    assert not [each for each in asyncio.all_tasks() if each.get_name().startswith("webhook")]
