"""Sends notifications to webhooks, and to nowhere else.

Whoever can change where notifications go could have this server, which stands inside of a network,
knock at doors that nobody outside reaches. So a try is made only to a host that is named in the
configuration; all addresses that its name has now must be of the internet; and the connection goes
to one of these very addresses, so that a name that is another thing a moment later changes nothing.
A host named as this machine (localhost, 127.0.0.1) has only addresses of this machine. Nobody is
followed elsewhere, no proxy is asked, nothing of the answer is read but its status, and each try
ends in time.

Each webhook has a task of its own, which sends what is queued for it, the most urgent first: one
that hangs delays no other. What is queued is in the store before it is here, and is forgotten there
when it was taken or given up: a crash in between sends it twice, with the same id.
"""

from __future__ import annotations

import asyncio
import ipaddress
import socket
import ssl
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final, Protocol
from urllib.parse import urlsplit

import aiohttp
import structlog
from aiohttp.abc import AbstractResolver, ResolveResult

from longshore.dispatcher.config.hosts import address, is_loopback, is_public
from longshore.dispatcher.config.model import NotificationsConfig
from longshore.dispatcher.config.notifications import webhook_key
from longshore.dispatcher.domain.deliveries import Delivery
from longshore.dispatcher.input.problems import member
from longshore.dispatcher.notifications.delivery import (
    Pace,
    TryOutcome,
    after_try,
    headers_of,
    outcome_of,
)

TRY_TIMEOUT_S: Final = 15.0
MOST_QUEUED: Final = 1000
"""For one webhook: when more come, the oldest go."""

#: Returns the addresses that a host has now; raises `OSError`.
AddressLookup = Callable[[str, int], Awaitable[Sequence[str]]]

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class WebhookTarget:
    """A webhook that was checked, with its key."""

    name: str
    url: str = field(repr=False)
    key: bytes = field(repr=False)


class Notifications(Protocol):
    """Where deliveries are kept, so that a restart goes on with them.

    Nothing of it raises: what cannot be written now is for who keeps them to write later.
    """

    async def load(self) -> Sequence[Delivery]:
        """Return all that are kept."""
        ...

    async def save(self, delivery: Delivery) -> None:
        """Keep a delivery in place of what is kept with its key."""
        ...

    async def forget(self, delivery: Delivery) -> None:
        """Keep it no more, if it is kept."""
        ...


class NotAllowed(Exception):  # noqa: N818 - a reason, which becomes a line of the log
    """Nothing may be sent there; the message says why."""


def targets_of(told: NotificationsConfig) -> tuple[WebhookTarget, ...]:
    """Return the webhooks of a configuration, whose keys are read now; raises `ConfigError`."""
    return tuple(
        WebhookTarget(
            name=name,
            url=each.url,
            key=webhook_key(member("notifications.webhooks", name), each),
        )
        for name, each in sorted(told.webhooks.items())
    )


async def system_lookup(host: str, port: int) -> Sequence[str]:
    """Return the addresses that this machine's resolver tells of a host; raises `OSError`."""
    found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return [str(sockaddr[0]) for *_, sockaddr in found]


class WebhookSender:
    """Sends what is queued until `close`; used on the loop's thread.

    `now` gives seconds since the epoch, `chance` a number from 0 to 1, new each time. `tls` is None
    for the authorities that this machine trusts.
    """

    def __init__(
        self,
        targets: Iterable[WebhookTarget],
        hosts: Iterable[str],
        *,
        kept: Notifications,
        now: Callable[[], float],
        chance: Callable[[], float],
        lookup: AddressLookup = system_lookup,
        tls: ssl.SSLContext | None = None,
        pace: Pace | None = None,
        timeout_s: float = TRY_TIMEOUT_S,
    ) -> None:
        self._queues = {each.name: _Queue(target=each) for each in targets}
        self._hosts = frozenset(hosts)
        self._kept = kept
        self._now = now
        self._chance = chance
        self._lookup = lookup
        self._tls = tls or ssl.create_default_context()
        self._pace = pace or Pace()
        self._timeout_s = timeout_s
        self._tasks: list[asyncio.Task[None]] = []

    @property
    def webhooks(self) -> tuple[str, ...]:
        """Return the names of those that are told."""
        return tuple(self._queues)

    async def start(self) -> None:
        """Go on with what is kept, and begin to send."""
        await self.add(await self._kept.load())
        self._tasks = [
            asyncio.create_task(self._serve(queue), name=f"webhook {name}")
            for name, queue in self._queues.items()
        ]

    async def close(self) -> None:
        """End what goes on; what was not taken stays kept."""
        for each in self._tasks:
            each.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)
        self._tasks = []

    async def add(self, deliveries: Iterable[Delivery]) -> None:
        """Send these too, which are kept already; what is for no webhook of ours is forgotten."""
        for each in sorted(deliveries, key=lambda each: (each.queued_at, each.key)):
            queue = self._queues.get(each.webhook)
            if queue is None:
                await self._kept.forget(each)
                continue
            queue.waiting[each.key] = each
            queue.changed.set()
            if len(queue.waiting) > MOST_QUEUED:
                oldest = min(queue.waiting.values(), key=lambda each: (each.queued_at, each.key))
                await self._give_up(queue, oldest, f"more than {MOST_QUEUED} wait for it")

    def problem(self) -> str:
        """Return which webhooks fail, why, and what to do about it; "" for none."""
        failing = [f"{name} ({q.why})" for name, q in sorted(self._queues.items()) if q.why]
        if not failing:
            return ""
        return (
            f"notifications do not arrive at {', '.join(failing)}; see that"
            " notifications.webhooks has the right address and that it answers (each is tried"
            " again for a day)"
        )

    async def _serve(self, queue: _Queue) -> None:
        while True:
            queue.changed.clear()
            following = min(queue.waiting.values(), key=_urgency, default=None)
            wait_s = None if following is None else following.next_try_at - self._now()
            if following is not None and wait_s is not None and wait_s <= 0:
                await self._try(queue, following)
                continue
            with suppress(TimeoutError):  # the time of the next one has come
                await asyncio.wait_for(queue.changed.wait(), wait_s)

    async def _try(self, queue: _Queue, delivery: Delivery) -> None:
        outcome = await self._sent(queue, delivery)
        if delivery.key not in queue.waiting:
            return
        again = after_try(delivery, outcome, self._now(), chance=self._chance(), pace=self._pace)
        if again is not None:
            queue.waiting[delivery.key] = again
            await self._kept.save(again)
        elif outcome is TryOutcome.TAKEN:
            del queue.waiting[delivery.key]
            await self._kept.forget(delivery)
        else:
            await self._give_up(queue, delivery, queue.why)

    async def _give_up(self, queue: _Queue, delivery: Delivery, why: str) -> None:
        del queue.waiting[delivery.key]
        name, tries = queue.target.name, delivery.tries
        notification = delivery.notification.id
        _log.error(
            "notification_lost", webhook=name, notification=notification, tries=tries, why=why
        )
        await self._kept.forget(delivery)

    async def _sent(self, queue: _Queue, delivery: Delivery) -> TryOutcome:
        """Make one try; notes why it failed, "" where it did not."""
        try:
            async with asyncio.timeout(self._timeout_s):
                status = await self._post(queue.target, delivery)
        except TimeoutError:
            queue.why = f"no answer within {self._timeout_s:g} s"
            outcome = TryOutcome.FAILED
        except Exception as error:  # noqa: BLE001 - whatever a receiver does, the next try is made
            # The address of a webhook is a secret, and errors of its form quote it.
            is_of_url = isinstance(error, aiohttp.InvalidURL)
            queue.why = type(error).__name__ if is_of_url else str(error) or type(error).__name__
            outcome = TryOutcome.FAILED
        else:
            outcome = outcome_of(status)
            queue.why = "" if outcome is TryOutcome.TAKEN else f"it answers {status}"
        if queue.why:
            _log.warning("webhook_failed", webhook=queue.target.name, why=queue.why)
        return outcome

    async def _post(self, target: WebhookTarget, delivery: Delivery) -> int:
        parts = urlsplit(target.url)
        host = parts.hostname or ""
        port = parts.port or (443 if parts.scheme == "https" else 80)
        if host not in self._hosts:
            raise NotAllowed(f"notifications.hosts does not name {host}")
        if parts.scheme != "https" and not is_loopback(host):
            raise NotAllowed("it is not https")
        found = [host] if address(host) else await self._lookup(host, port)
        check_addresses(host, found)
        connector = aiohttp.TCPConnector(
            resolver=_Pinned(found), use_dns_cache=False, force_close=True, ssl=self._tls
        )
        headers = headers_of(delivery.notification, target.key, self._now())
        async with (
            aiohttp.ClientSession(
                connector=connector,
                cookie_jar=aiohttp.DummyCookieJar(),
                auto_decompress=False,
                trust_env=False,
            ) as session,
            session.post(
                target.url,
                data=delivery.notification.body,
                headers=headers,
                allow_redirects=False,
            ) as answer,
        ):
            answer.close()
            return answer.status


def check_addresses(host: str, found: Sequence[str]) -> None:
    """Raise `NotAllowed` unless all addresses of a host are such that something may be sent there.

    They must be of the internet; those of a host that is this machine, of this machine.
    """
    addresses = [address(each.partition("%")[0]) for each in found]
    if not addresses:
        raise NotAllowed(f"{host} has no address")
    for text, each in zip(found, addresses, strict=True):
        if is_loopback(host):
            is_fine = each is not None and each.is_loopback
        else:
            is_fine = each is not None and is_public(each)
        if not is_fine:
            raise NotAllowed(f"{host} has the address {text}, to which nothing is sent")


@dataclass(slots=True, kw_only=True)
class _Queue:
    target: WebhookTarget
    waiting: dict[tuple[str, str], Delivery] = field(default_factory=dict)
    #: Set when something came.
    changed: asyncio.Event = field(default_factory=asyncio.Event)
    #: Why the last try failed, "" where it did not.
    why: str = ""


def _urgency(delivery: Delivery) -> tuple[float, float, str]:
    return delivery.next_try_at, delivery.queued_at, delivery.notification.id


class _Pinned(AbstractResolver):
    """Knows the addresses that were checked, and asks nobody."""

    def __init__(self, addresses: Sequence[str]) -> None:
        self._addresses = addresses

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_UNSPEC
    ) -> list[ResolveResult]:
        del family
        return [
            ResolveResult(
                hostname=host,
                host=each,
                port=port,
                family=_family(each),
                proto=socket.IPPROTO_TCP,
                flags=socket.AI_NUMERICHOST | socket.AI_NUMERICSERV,
            )
            for each in self._addresses
        ]

    async def close(self) -> None:
        """There is nothing to end."""


def _family(text: str) -> socket.AddressFamily:
    return socket.AF_INET if ipaddress.ip_address(text).version == 4 else socket.AF_INET6
