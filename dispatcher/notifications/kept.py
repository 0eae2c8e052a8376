"""Keeps in the store which notifications are on their way.

Stands alone: it knows the store, of which who sends knows nothing.

What cannot be written now is written with what comes next: until then a restart would send again
what was taken, with the same id.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import structlog

from longshore.dispatcher.domain.deliveries import Delivery
from longshore.dispatcher.domain.messages import Change, ForgetDelivery, SaveDelivery
from longshore.dispatcher.store.errors import StoreBusy, StoreClosed
from longshore.dispatcher.store.store import Store

_log = structlog.get_logger(__name__)


class StoredDeliveries:
    """Implements `Notifications` on a store; used on the loop's thread."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._unwritten: dict[tuple[str, str], Change] = {}

    async def load(self) -> Sequence[Delivery]:
        """Return all that are kept; none where the store cannot be read, which the log says."""
        try:
            return await asyncio.to_thread(self._store.ledger.deliveries)
        except StoreBusy as error:
            _log.error("notifications wait for the next start", why=str(error))
            return ()

    async def save(self, delivery: Delivery) -> None:
        """Keep a delivery in place of what is kept with its key."""
        self._write(delivery, SaveDelivery(delivery=delivery))

    async def forget(self, delivery: Delivery) -> None:
        """Keep it no more, if it is kept."""
        webhook, id_ = delivery.key
        self._write(delivery, ForgetDelivery(webhook=webhook, notification_id=id_))

    def _write(self, delivery: Delivery, change: Change) -> None:
        self._unwritten[delivery.key] = change
        try:
            self._store.write_behind(list(self._unwritten.values()))
        except (StoreBusy, StoreClosed) as error:
            _log.warning("what became of notifications is written later", why=str(error))
        else:
            self._unwritten.clear()
