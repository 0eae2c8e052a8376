"""Instances whose type is not known at first: tags that come late, and types configured again."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal

from longshore.drivers.interface import IDLE_BEHAVIOR_TAG, TOKEN_TAG, TYPE_TAG
from longshore.pool.messages import Created, CreateInstance, Probe, SetTags
from tests.rigs.engine import last_commands
from tests.rigs.semantics import WorkerRig, rig_of, running
from tests.samples import make_container, make_type


def retag(rig: WorkerRig, worker_id: str, **changes: str | None) -> None:
    """Let listings show other tags of an instance; None takes one away."""
    names = {"type": TYPE_TAG, "token": TOKEN_TAG}
    tags = dict(rig.cloud[worker_id].tags)
    for name, value in changes.items():
        tags.pop(names[name], None)
        if value is not None:
            tags[names[name]] = value
    rig.cloud[worker_id] = replace(rig.cloud[worker_id], tags=tuple(sorted(tags.items())))


def price_on_record(rig: WorkerRig, worker_id: str) -> tuple[str, Decimal]:
    record = rig.instances[worker_id]
    return record.type_name, record.price_usd_per_hour


# ---- what the store keeps ------------------------------------------------------------------------


def test_a_type_that_is_configured_again_gives_its_price_to_what_was_seen_without_it() -> None:
    rig = rig_of()
    made = rig.boot("t-new", longshore_idle_behavior="hold")
    rig.advance(3)
    assert price_on_record(rig, made) == ("t-new (not configured)", Decimal(0))
    rig.types["t-new"] = make_type(2, name="t-new")
    rig.crash()
    rig.advance(3)
    assert price_on_record(rig, made) == ("t-new", make_type(2).price_usd_per_hour)


def test_what_was_bought_as_a_type_keeps_its_price_when_that_is_configured_no_more() -> None:
    rig = rig_of(1, 2)
    made = rig.boot("t2", longshore_idle_behavior="hold")
    rig.advance(3)
    bought = price_on_record(rig, made)
    assert bought == ("t2", make_type(2).price_usd_per_hour)
    del rig.types["t2"]
    rig.crash()
    rig.advance(3)
    assert rig.worker(made).type.name == "t2 (not configured)"
    assert price_on_record(rig, made) == bought
    rig.types["t2"] = replace(make_type(2), price_usd_per_hour=Decimal(7))
    rig.crash()
    rig.advance(3)
    assert price_on_record(rig, made) == bought


# ---- listings that lack the tag ------------------------------------------------------------------


def test_a_type_tag_that_a_later_listing_shows_is_taken() -> None:
    rig = running(cpus=4)
    bought = price_on_record(rig, "i-001")
    retag(rig, "i-001", type=None, token=None)
    rig.crash()
    worker = rig.worker("i-001")
    assert (worker.type.name, list(worker.load.attempts)) == (" (not configured)", ["c-1-1"])
    assert rig.count(SetTags) == 0, "what listings do not show yet is not overwritten"
    rig.submit(make_container(2))
    retag(rig, "i-001", type="t4")
    rig.advance(2)
    assert worker.type == make_type(4)
    assert rig.started_on()["c-2"] == "i-001"
    used = make_container(1).spec.resources.plus(make_container(2).spec.resources)
    assert worker.load.free == worker.type.allocatable.minus(used)
    assert price_on_record(rig, "i-001") == bought


def test_a_listing_that_lacks_a_tag_again_takes_no_type_away() -> None:
    rig = rig_of(1)
    known = rig.boot("t1", longshore_idle_behavior="hold")
    other = rig.boot("t-old", longshore_idle_behavior="hold")
    rig.advance(3)
    retag(rig, known, type="t-old")
    retag(rig, other, type=None)
    rig.advance(60)
    assert rig.worker(known).type == make_type(1)
    assert rig.worker(other).type.name == "t-old (not configured)"
    tags = {dict(command.tags)[TYPE_TAG] for command in last_commands(rig, SetTags)}
    assert tags == {"t1", "t-old"}


def test_an_answer_tells_the_type_of_what_was_seen_without_tags() -> None:
    rig = rig_of(instances=4)
    rig.silent |= {CreateInstance, Probe}
    rig.submit(make_container(1))
    create = rig.last(CreateInstance)
    made = rig.boot("t1")
    retag(rig, made, type=None)
    rig.advance(2)
    rig.send(Created(op_id=create.op_id, token=create.launch.token, instance=rig.cloud[made]))
    assert rig.worker(made).type == make_type(1)
    assert rig.state(made) == "booting", "one that is not configured would be shut down"


def test_a_token_tells_the_type_of_what_was_seen_without_tags() -> None:
    rig = rig_of(instances=4)
    rig.silent |= {CreateInstance, Probe}
    rig.submit(make_container(1))
    made = rig.boot("t1", longshore_token=rig.last(CreateInstance).launch.token)
    retag(rig, made, type=None)
    rig.advance(2)
    assert rig.worker(made).type == make_type(1)
    assert dict(rig.last(SetTags).tags)[TYPE_TAG] == "t1"
    assert dict(rig.last(SetTags).tags)[IDLE_BEHAVIOR_TAG] == "run"
