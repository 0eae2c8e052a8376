"""What the health page says of the cloud: what is wrong, and why."""

from __future__ import annotations

from dispatcher.explaining.health import advice_of, cloud_problems
from drivers.errors import CloudAuthError, CloudError
from pool.messages import ListingFailed, ListInstances, Probe, ProbeSucceeded
from pool.model import ProbeReport
from tests.engine_rig import Rig, last_commands
from tests.samples import make_container, make_type

REFUSED = (
    "the cloud refuses our credentials, mend their rights, or give the server others and start it"
    " again: expired"
)


def problems(rig: Rig) -> list[str]:
    return cloud_problems(rig.engine.pool, rig.now)


def fail_listing(rig: Rig, error: CloudError) -> None:
    listing = [command for command in rig.sent if isinstance(command, ListInstances)][-1]
    rig.send(ListingFailed(op_id=listing.op_id, error=error))


def test_a_first_listing_that_fails_says_why_and_so_do_those_who_wait() -> None:
    rig = Rig(make_type(1), listed=False)
    rig.submit(make_container(1))
    first = "the cloud's first complete listing is not in yet"
    assert problems(rig) == [first]
    fail_listing(rig, CloudAuthError("expired"))
    assert problems(rig) == [f"{first}: {REFUSED}"]
    reason = rig.engine.why_waiting("c-1")
    assert reason is not None
    assert reason.message.endswith(f"listing is in; the last try failed: {REFUSED}")
    rig.silent.discard(ListInstances)
    rig.advance(10)
    assert (problems(rig), rig.engine.pool.listing_problem) == ([], "")


def test_later_listings_that_fail_say_how_many_and_why() -> None:
    rig = Rig(make_type(1))
    rig.silent.add(ListInstances)
    rig.advance(120)
    fail_listing(rig, CloudError("no route to host"))
    assert problems(rig) == ["the last 1 listings of the cloud failed: no route to host"]


def test_who_may_list_but_not_create_is_told_until_a_create_succeeds() -> None:
    rig = Rig(make_type(1))
    rig.create_error = lambda _command: CloudAuthError("expired")
    rig.submit(make_container(1))
    assert problems(rig) == [f"the last create failed: {REFUSED}"]
    rig.cancel("c-1")
    rig.advance(100)
    assert problems(rig) == [f"the last create failed: {REFUSED}"]
    rig.submit(make_container(2))
    rig.create_error = lambda _command: None
    rig.advance(120)
    assert problems(rig) == []


def test_another_error_of_a_create_is_no_problem_of_the_health_page() -> None:
    rig = Rig(make_type(1))
    rig.create_error = lambda _command: CloudError("busy")
    rig.submit(make_container(1))
    assert problems(rig) == []


def test_what_would_make_instances_better_is_said_once_with_who_says_it() -> None:
    rig = Rig(make_type(1))
    rig.silent.add(Probe)
    rig.submit(make_container(1), make_container(2))
    advice = "podman has no init: install the package catatonit"
    for probe in last_commands(rig, Probe):
        report = ProbeReport(attempts=(), boot_id="b", advice=advice)
        rig.send(
            ProbeSucceeded(
                op_id=probe.op_id,
                worker_id=probe.worker_id,
                revision=probe.revision,
                began_at=rig.now,
                host_key="k",
                report=report,
            )
        )
    assert advice_of(rig.engine.pool) == [f"i-001 and 1 more: {advice}"]
    assert problems(rig) == []
    assert sorted(rig.worker_states().values()) == ["running", "running"]
    assert {worker.advice for worker in rig.engine.pool.workers.values()} == {advice}
