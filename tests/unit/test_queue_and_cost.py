"""The queue by request class, and what attempts cost."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal

from longshore.dispatcher.domain.containers import Placement
from longshore.dispatcher.state.queue import Queue
from longshore.dispatcher.state.spend_limits import share_of
from longshore.drivers.interface import Resources
from tests.samples import GIB, make_container, make_type


def empty_queue() -> Queue:
    return Queue(lambda _key: ())


def test_classes_group_equal_requests_and_come_by_their_first_container() -> None:
    queue = empty_queue()
    queue.add(make_container(1, cpus=1, priority=5))
    queue.add(make_container(2, cpus=1, priority=9))
    queue.add(make_container(3, cpus=2, priority=7))
    assert [len(c) for c in queue.classes()] == [2, 1]
    assert [c.at(0) for c in queue.classes()] == [((-9, 2), "c-2"), ((-7, 3), "c-3")]


def test_a_new_priority_moves_a_container_and_leaves_no_ghost() -> None:
    queue = empty_queue()
    for number in (1, 2, 3):
        queue.add(make_container(number))
    queue.add(replace(make_container(3), priority=900))
    (request_class,) = queue.classes()
    assert [container_id for _, container_id in request_class.span(0, 9)] == ["c-3", "c-1", "c-2"]
    assert request_class.at(3) is None


def test_what_comes_before_a_container_is_counted_in_its_class_and_in_all() -> None:
    queue = empty_queue()
    for number, priority in enumerate((5, 9, 5, 1), 1):
        queue.add(make_container(number, priority=priority))
    queue.add(make_container(9, cpus=2, priority=7))
    request_class = queue.class_of("c-3")
    assert request_class is not None
    assert request_class.before(request_class.order_of("c-3")) == 2
    assert queue.ahead_of("c-3") == 3
    assert queue.ahead_of("c-2") == 0


def test_an_empty_class_is_forgotten_and_discarding_twice_is_no_error() -> None:
    queue = empty_queue()
    queue.add(make_container(1))
    queue.discard("c-1")
    queue.discard("c-1")
    assert queue.classes() == []
    assert "c-1" not in queue


def test_ten_thousand_of_a_class_leave_in_order_whatever_order_they_left_the_middle() -> None:
    queue = empty_queue()
    for number in range(2000):
        queue.add(make_container(number, priority=1 + number % 3))
    for number in range(0, 2000, 2):
        queue.discard(f"c-{number}")
    (request_class,) = queue.classes()
    orders = [order for order, _ in request_class.span(0, 1000)]
    assert len(orders) == 1000
    assert orders == sorted(orders)


def test_an_attempt_occupies_its_largest_share() -> None:
    type_ = make_type(4, price="0.40")
    share = share_of(Resources(cpu_millis=1000, memory_bytes=2 * GIB), type_, Placement.PACKED)
    assert Decimal("0.45") < share < Decimal("0.46"), "memory is the larger share"
    half = share_of(Resources(cpu_millis=2000), type_, Placement.PACKED)
    assert half == Decimal("0.5")
    assert share_of(Resources(), type_, Placement.EXCLUSIVE) == 1
    least = share_of(Resources(), type_, Placement.PACKED)
    assert least == Decimal(1) / 256, "a place for a container is never free"
