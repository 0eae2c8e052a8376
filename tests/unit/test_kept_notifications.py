"""Notifications that are on their way, in a real store."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from longshore.dispatcher.domain.deliveries import Delivery, Notification
from longshore.dispatcher.notifications.kept import StoredDeliveries
from longshore.dispatcher.store.store import Store
from tests.store_values import url_in

DELIVERY = Delivery(
    notification=Notification(id="n-1", body=b"{}"), webhook="finance", queued_at=1.0
)


async def test_what_is_taken_is_sent_by_no_later_process(tmp_path: Path) -> None:
    store = Store.open(url_in(tmp_path))
    kept = StoredDeliveries(store)
    failed = replace(DELIVERY, tries=1, next_try_at=11.0)
    await kept.save(DELIVERY)
    await kept.save(failed)
    await kept.save(replace(DELIVERY, webhook="ops"))
    await kept.forget(replace(DELIVERY, webhook="ops"))
    store.close()
    again = Store.open(url_in(tmp_path))
    found = await StoredDeliveries(again).load()
    again.close()
    assert found == [failed]


async def test_what_cannot_be_written_now_is_written_with_what_comes_next(tmp_path: Path) -> None:
    full, store = Store.open(url_in(tmp_path), max_pending=0), None
    kept = StoredDeliveries(full)
    await kept.save(DELIVERY)
    assert full.ledger.deliveries() == []
    full.close()
    store = Store.open(url_in(tmp_path))
    kept._store = store  # it is one store, which has room again
    await kept.save(replace(DELIVERY, webhook="ops"))
    store.close()
    again = Store.open(url_in(tmp_path))
    found = again.ledger.deliveries()
    again.close()
    assert [each.webhook for each in found] == ["finance", "ops"]
