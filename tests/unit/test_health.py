"""What the health page says of the cloud: what is wrong, and why."""

from __future__ import annotations

import re

from longshore.dispatcher.domain.containers import Constraints
from longshore.dispatcher.domain.timefmt import moment
from longshore.dispatcher.domain.views import ProblemKind
from longshore.dispatcher.explain.health import advice_of, failed_last
from longshore.drivers.errors import (
    CapacityError,
    CloudAuthError,
    CloudError,
    QuotaError,
    RateLimitError,
)
from longshore.pool.messages import (
    DestroyFailed,
    DestroyInstance,
    ListingFailed,
    ListInstances,
    Probe,
    ProbeSucceeded,
)
from longshore.pool.model import PoolSettings, ProbeReport
from longshore.pool.troubles import CreateTroubles, TroubleKind
from tests.exposition import samples, value
from tests.health import kinds, told
from tests.rigs.engine import Rig, last_commands
from tests.samples import make_container, make_type

REFUSED = (
    "the cloud refuses our credentials, mend their rights, or give the server others and start it"
    " again: expired"
)


def fail_listing(rig: Rig, error: CloudError) -> None:
    listing = [command for command in rig.sent if isinstance(command, ListInstances)][-1]
    rig.send(ListingFailed(op_id=listing.op_id, error=error))


def test_a_first_listing_that_fails_says_why_and_so_do_those_who_wait() -> None:
    rig = Rig(make_type(1), listed=False)
    rig.submit(make_container(1))
    first = "the cloud's first complete listing is not in yet"
    assert told(rig) == [first]
    fail_listing(rig, CloudAuthError("expired"))
    assert told(rig) == [f"{first}: {REFUSED}"]
    reason = rig.engine.why_waiting("c-1")
    assert reason is not None
    assert reason.message.endswith(f"listing is in; the last try failed: {REFUSED}")
    rig.silent.discard(ListInstances)
    rig.advance(10)
    assert (told(rig), rig.engine.pool.listing_problem) == ([], "")


def test_later_listings_that_fail_say_how_many_and_why() -> None:
    rig = Rig(make_type(1))
    rig.silent.add(ListInstances)
    rig.advance(120)
    fail_listing(rig, CloudError("no route to host"))
    assert told(rig) == ["the last listing of the cloud failed: no route to host"]


def test_who_may_list_but_not_create_is_told_until_a_create_succeeds() -> None:
    rig = Rig(make_type(1))
    rig.create_error = lambda _command: CloudAuthError("expired")
    rig.submit(make_container(1))
    assert told(rig) == [f"the last create failed: {REFUSED}"]
    rig.cancel("c-1")
    rig.advance(100)
    assert told(rig) == [f"the last create failed: {REFUSED}"]
    rig.submit(make_container(2))
    rig.create_error = lambda _command: None
    rig.advance(120)
    assert told(rig) == []


def test_one_other_error_of_a_create_is_no_problem_yet() -> None:
    rig = Rig(make_type(1))
    rig.create_error = lambda _command: CloudError("busy")
    rig.submit(*(make_container(number) for number in range(1, 5)))
    assert told(rig) == [], "what was under way together is one"


def test_creates_that_go_on_failing_are_told_without_a_gap_until_one_succeeds() -> None:
    """It was 200 while every create failed: `InvalidAMIID.NotFound` is no error of credentials."""
    rig = Rig(make_type(1))
    rig.create_error = lambda _command: CloudError("InvalidAMIID.NotFound")
    rig.submit(make_container(1))
    rig.advance(5)
    since = kinds(rig)[ProblemKind.CREATES]
    for _ in range(3600):
        rig.advance(1)
        assert told(rig) == ["no create succeeds: InvalidAMIID.NotFound"]
        assert kinds(rig) == {ProblemKind.CREATES: since}
    rig.cancel("c-1")
    rig.advance(500)
    assert kinds(rig) == {ProblemKind.CREATES: since}, "somebody may try again"
    rig.create_error = lambda _command: None
    rig.submit(make_container(2))
    rig.advance(1)
    assert told(rig) == []


def test_creates_that_fail_and_that_nobody_asks_for_are_advice_until_one_succeeds() -> None:
    rig = Rig(make_type(1), make_type(2))
    rig.create_error = lambda command: (
        CloudError("not here") if command.launch.type_name == "t1" else None
    )
    rig.submit(make_container(1, constraints=Constraints(instance_types=("t1",))))
    rig.advance(300)
    since = kinds(rig)[ProblemKind.CREATES]
    latest_at = rig.engine.pool.troubles.told()[0].latest_at
    assert failed_last(rig.view.pool, rig.now) == []
    rig.cancel("c-1")
    rig.advance(latest_at + 599 - rig.now)
    assert (kinds(rig), failed_last(rig.view.pool, rig.now)) == (
        {ProblemKind.CREATES: since},
        [],
    )
    rig.advance(3600)
    assert kinds(rig) == {}
    (advice,) = failed_last(rig.view.pool, rig.now)
    assert advice == (
        f"creates failed from {moment(since)} until they were last tried, at {moment(latest_at)},"
        " and nobody has waited for one since: not here"
    )
    rig.submit(make_container(2, constraints=Constraints(instance_types=("t1",))))
    rig.advance(2)
    assert kinds(rig) == {ProblemKind.CREATES: since}, "it is in somebody's way again"
    rig.create_error = lambda _command: None
    rig.advance(120)
    assert (kinds(rig), failed_last(rig.view.pool, rig.now)) == ({}, [])


def test_who_waits_for_a_create_that_is_held_is_a_problem_however_long_that_takes() -> None:
    rig = Rig(make_type(1))
    rig.create_error = lambda _command: CloudError("not here")
    rig.submit(make_container(1))
    rig.advance(300)
    assert told(rig) == ["no create succeeds: not here"]
    rig.create_error = lambda _command: RateLimitError("slowly")
    for _ in range(60):
        rig.advance(60)
        assert told(rig) == ["no create succeeds: not here"]


def test_creates_of_one_type_that_fail_are_told_beside_those_of_others_that_succeed() -> None:
    rig = Rig(make_type(1), make_type(2))
    rig.create_error = lambda command: (
        CloudError("not here") if command.launch.type_name == "t1" else None
    )
    seen = set()
    for number in range(1, 9):
        rig.submit(make_container(number, cpus=1 if number % 2 else 2))
        for _ in range(60):
            rig.advance(1)
            seen.add(tuple(told(rig)))
            if number > 6:
                assert told(rig) == ["no create of type t1 succeeds: not here"]
    rig.create_error = lambda _command: None
    rig.submit(*(make_container(number) for number in range(20, 40)))
    rig.advance(120)
    assert told(rig) == []


def test_a_fault_of_all_types_that_is_over_leaves_none_of_one_type_behind() -> None:
    troubles = CreateTroubles()
    for at in range(4):
        for name in ("t1", "t2"):
            troubles.failed(name, CloudError("down"), began_at=at, now=at + 0.5)
    assert [(each.type_name, each.since) for each in troubles.told()] == [("", 0.5)]
    troubles.succeeded("t1", began_at=5)
    assert troubles.told() == []
    for at in range(10, 13):
        troubles.failed("t2", CloudError("down"), began_at=at, now=at + 0.5)
        troubles.succeeded("t1", began_at=at)
    assert [each.type_name for each in troubles.told()] == ["t2"]
    troubles.succeeded("t2", began_at=20)
    assert troubles.told() == []


def test_a_success_that_began_before_the_first_failure_ends_nothing() -> None:
    troubles = CreateTroubles()
    troubles.failed("t1", CloudAuthError("no"), began_at=5, now=6)
    troubles.succeeded("t1", began_at=4)
    assert len(troubles.told()) == 1
    troubles.succeeded("t1", began_at=5)
    assert troubles.told() == []


def test_who_is_told_of_a_limit_was_let_in() -> None:
    troubles = CreateTroubles()
    troubles.failed("t1", CloudAuthError("no"), began_at=1, now=2)
    troubles.failed("t2", RateLimitError("slowly"), began_at=3, now=4)
    assert [each.kind for each in troubles.told()] == [TroubleKind.REFUSED]
    troubles.failed("t2", CapacityError("none left"), began_at=3, now=4)
    assert troubles.told() == []
    for at in range(10):
        troubles.failed("t2", QuotaError("full"), began_at=at, now=at)
    assert troubles.told() == [], "those who wait are told, and nothing is wrong"


def test_boots_that_fail_are_told_between_the_trials_too() -> None:
    """It flapped: 503 while creates were held, 200 while one instance was tried."""
    rig = Rig(make_type(1), pool=PoolSettings(boot_timeout_s=30))
    rig.unreachable.update(f"i-{number:03}" for number in range(1, 200))
    rig.submit(make_container(1))
    rig.advance(200)
    first = kinds(rig)[ProblemKind.BOOTS]
    for _ in range(3600):
        rig.advance(1)
        assert kinds(rig) == {ProblemKind.BOOTS: first}
    [message] = told(rig)
    assert re.match(r"creating is slowed down: the last \d+ instances were of no use: ", message)
    rig.unreachable.clear()
    rig.advance(1000)
    assert (told(rig), rig.states()) == ([], {"c-1": "running"})


def test_listings_that_are_refused_are_a_matter_of_credentials() -> None:
    rig = Rig(make_type(1))
    rig.silent.add(ListInstances)
    rig.advance(120)
    fail_listing(rig, CloudAuthError("expired"))
    since = rig.now
    rig.advance(5)
    fail_listing(rig, CloudAuthError("expired"))
    assert kinds(rig) == {ProblemKind.CREDENTIALS: since}
    assert told(rig) == [f"the last 2 listings of the cloud failed: {REFUSED}"]


def test_instances_that_cannot_be_ended_are_told_until_one_call_succeeds() -> None:
    rig = Rig(make_type(1))
    rig.silent.add(DestroyInstance)
    rig.submit(make_container(1))
    rig.advance(1)
    rig.exit("c-1-1")
    rig.advance(61)
    since = rig.now

    def refuse() -> None:
        call = [command for command in rig.sent if isinstance(command, DestroyInstance)][-1]
        error = CloudAuthError("you may not")
        rig.send(DestroyFailed(op_id=call.op_id, instance_id=call.instance_id, error=error))
        rig.advance(11)

    refuse()
    assert told(rig) == []
    refuse()
    assert abs(kinds(rig)[ProblemKind.DESTROYS] - since) < 2
    [message] = told(rig)
    assert message.startswith("i-001 cannot be destroyed, and is still billed: ")
    assert message.endswith("you may not")
    rig.silent.clear()
    rig.advance(60)
    assert told(rig) == []


def test_each_kind_is_a_series_of_the_metric() -> None:
    rig = Rig(make_type(1))
    assert value(rig, "longshore_problem", kind="credentials") == 0
    rig.create_error = lambda _command: CloudAuthError("expired")
    rig.submit(make_container(1))
    assert value(rig, "longshore_problem", kind="credentials") == 1
    series = [key for key in samples(rig) if key[0] == "longshore_problem"]
    assert len(series) == len(ProblemKind)


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
    assert advice_of(rig.view.pool) == [f"i-001 and 1 more: {advice}"]
    assert told(rig) == []
    assert sorted(rig.worker_states().values()) == ["running", "running"]
    assert {worker.health.advice for worker in rig.engine.pool.workers.values()} == {advice}
