"""What a container asks for on each instance type, when it leaves that to the type."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import replace
from decimal import Decimal

import pytest

from longshore.dispatcher.api.render.containers import container_answer
from longshore.dispatcher.api.validate.limits import ApiLimits, Defaults
from longshore.dispatcher.api.validate.submissions import SubmissionDecoder
from longshore.dispatcher.domain.containers import Constraints, ContainerSpec, Placement
from longshore.dispatcher.domain.feasibility import (
    eligible_types,
    given_on,
    impossible,
    need,
    rejections,
)
from longshore.dispatcher.state.queue import Queue
from longshore.dispatcher.state.spend_limits import share_of
from longshore.drivers.interface import InstanceType, Resources
from tests.rigs.engine import Rig
from tests.samples import GIB, make_container, make_type

ASKED = Resources(cpu_millis=1000, memory_bytes=GIB)
GENEROUS = make_type(4, name="generous", defaults=(("cpus", 2000), ("licence", 1)))
LICENSED = replace(GENEROUS, resources=GENEROUS.resources.having([("licence", 3)]))
PLAIN = make_type(4, name="plain")


def spec_of(body: dict[str, object], dimensions: Iterable[str] = ()) -> ContainerSpec:
    """Return what the API makes of a submission where types have defaults in `dimensions`."""
    decoder = SubmissionDecoder(
        limits=ApiLimits(),
        defaults=Defaults(memory_bytes=GIB, type_dimensions=tuple(dimensions)),
        instance_type_names=(),
        seal="{} sealed: {}".format,
    )
    submission = decoder.decode(json.dumps({"command": ["true"], **body}).encode())
    return submission.items[0].spec


@pytest.mark.parametrize(
    ("body", "unnamed"),
    [
        ({}, ("cpus", "gpus", "licence")),
        ({"cpus": 1}, ("gpus", "licence")),
        ({"cpus": 0, "gpus": 0, "resources": {"licence": 0}}, ()),
        ({"gpus": {"model": "a100"}}, ("cpus", "licence")),
        ({"resources": {"other": 1}}, ("cpus", "gpus", "licence")),
    ],
)
def test_what_is_not_named_is_noted(body: dict[str, object], unnamed: tuple[str, ...]) -> None:
    assert spec_of(body, ("cpus", "gpus", "licence")).unnamed == unnamed


def test_nothing_is_noted_where_no_type_has_defaults() -> None:
    assert spec_of({}).unnamed == ()
    assert spec_of({}).resources == ASKED


def test_a_type_gives_its_defaults_for_what_is_not_named_and_nothing_else() -> None:
    assert need(LICENSED, ASKED, ("cpus", "licence", "memory")) == Resources(
        cpu_millis=2000, memory_bytes=GIB, custom=(("licence", 1),)
    )
    assert need(LICENSED, ASKED, ("licence",)).cpu_millis == 1000
    assert need(LICENSED, ASKED, ()) is ASKED
    assert need(PLAIN, ASKED, ("cpus", "licence")) is ASKED


@pytest.mark.parametrize("dimension", ["cpus", "memory", "disk", "gpus", "licence"])
def test_every_dimension_can_have_a_default(dimension: str) -> None:
    type_ = make_type(4, defaults=((dimension, 7),))
    given = need(type_, ASKED, (dimension,))
    assert given == ASKED.having([(dimension, 7)])
    assert given != ASKED


def test_a_default_of_none_is_no_amount() -> None:
    assert ASKED.having([("licence", 0)]) == ASKED
    licensed = ASKED.having([("licence", 2)])
    assert licensed.having([("licence", 0), ("cpus", 5)]) == replace(ASKED, cpu_millis=5)


def test_a_type_is_judged_by_what_it_would_give() -> None:
    unnamed = ("cpus", "licence")
    assert rejections(GENEROUS, ASKED, Constraints(), unnamed) == ["has no licence"]
    assert rejections(GENEROUS, ASKED, Constraints()) == []
    types = [GENEROUS, PLAIN]
    found = eligible_types(types, ASKED, Constraints(), unnamed, max_price_factor=9)
    assert [type_.name for type_ in found] == ["plain"]
    said = impossible([GENEROUS], ASKED, Constraints(), unnamed)
    assert "nearest is generous" in said
    assert "has no licence" in said


def test_the_queue_knows_what_a_class_asks_for_on_each_type() -> None:
    types = (LICENSED, PLAIN)
    queue = Queue(lambda _key: types)
    queue.add(make_container(1, unnamed=("cpus", "licence")))
    queue.add(make_container(2))
    queue.add(make_container(3, supervisor=True))
    assert [request_class.key.unnamed for request_class in queue.classes()] == [
        ("cpus", "licence"),
        (),
        (),
    ], "those who name all are of another class, and so are supervisors"
    first = queue.classes()[0]
    assert first.need(LICENSED).cpu_millis == 2000
    assert dict(first.need(LICENSED).custom) == {"licence": 1}
    assert first.need(PLAIN) == ASKED


def test_an_attempt_is_told_only_where_it_got_something_else() -> None:
    container = make_container(1, unnamed=("cpus",))
    assert given_on(PLAIN, container) is None
    assert given_on(GENEROUS, container) == ASKED.having([("cpus", 2000)])
    assert given_on(GENEROUS, make_container(1)) is None


def generous_rig(type_: InstanceType) -> Rig:
    rig = Rig(type_)
    rig.submit(make_container(1, unnamed=("cpus",)))
    rig.advance(30)
    assert rig.started_on() == {"c-1": "i-001"}
    return rig


def test_the_answer_tells_what_an_attempt_was_given_where_that_is_something_else() -> None:
    rig = generous_rig(GENEROUS)
    container = rig.engine.table.containers["c-1"]
    answer = container_answer(container)
    assert answer.cpus == 1
    (attempt,) = answer.attempts
    assert attempt.given is not None
    assert (attempt.given.cpus, attempt.given.memory) == (2, GIB)
    (plain,) = container_answer(generous_rig(PLAIN).engine.table.containers["c-1"]).attempts
    assert plain.given is None


def test_after_a_restart_an_attempt_holds_what_it_was_given() -> None:
    rig = generous_rig(GENEROUS)
    assert rig.attempts["c-1-1"].resources == ASKED.having([("cpus", 2000)])
    rig.crash()
    rig.advance(30)
    (worker,) = rig.engine.pool.workers.values()
    assert worker.load.free.cpu_millis == 2000
    # Whatever the configuration says by then.
    rig.types = {"generous": replace(GENEROUS, defaults=(("cpus", 3000),))}
    rig.crash()
    rig.advance(30)
    (worker,) = rig.engine.pool.workers.values()
    assert worker.load.free.cpu_millis == 2000


def test_an_attempt_of_an_older_store_holds_what_its_container_asks_for() -> None:
    rig = generous_rig(GENEROUS)
    rig.attempts["c-1-1"] = replace(rig.attempts["c-1-1"], resources=None)
    rig.crash()
    rig.advance(30)
    (worker,) = rig.engine.pool.workers.values()
    assert worker.load.free.cpu_millis == 3000


@pytest.mark.parametrize(
    ("given", "share"),
    [
        (Resources(cpu_millis=2000), "0.5"),
        (Resources(cpu_millis=1000, custom=(("licence", 3),)), "1"),
        (Resources(cpu_millis=1000, custom=(("licence", 1),)), "0.3333333333333333333333333333"),
        (Resources(cpu_millis=1000, custom=(("unknown", 1),)), "0.25"),
    ],
)
def test_the_share_of_the_price_is_that_of_what_was_given(given: Resources, share: str) -> None:
    assert share_of(given, LICENSED, Placement.PACKED) == Decimal(share)
