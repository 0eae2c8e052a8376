"""Each command ends in exactly one event, whatever a driver raises."""

from __future__ import annotations

import math
import socket
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from longshore.drivers.billing import NOTHING_BILLED, Billed, BillingRule
from longshore.drivers.errors import AmbiguousResult, CapacityError, CloudError, InstanceNotFound
from longshore.drivers.interface import Condition, Existence, Found, Power
from longshore.pool.messages import (
    AskBills,
    BillsFailed,
    BillsTold,
    Created,
    CreateFailed,
    CreateInstance,
    Destroyed,
    DestroyFailed,
    DestroyInstance,
    FindFailed,
    FindInstance,
    InstanceFound,
    Listed,
    ListingFailed,
    ListInstances,
    PoolEvent,
    Probe,
    ProbeFailed,
    ProbeSucceeded,
    SessionLost,
    SetLease,
    SetTags,
    StartAttempt,
    StartUnknown,
    TagsFailed,
    TagsSet,
)
from longshore.pool.model import AttemptOrder, Launch, ProbeReport
from longshore.pool.remote.bills import OLDEST_S, BillWords
from longshore.pool.remote.cloud_calls import with_port
from longshore.pool.remote.link_model import ProbeStageError
from longshore.pool.remote.worker_reports import WorkerReports
from tests.rigs.link import unknown
from tests.rigs.performer import NoLogs, Rig, Vm, performing
from tests.samples import make_type


@pytest.fixture
def rig(tmp_path: Path) -> Iterator[Rig]:
    with performing(tmp_path) as made:
        yield made


@dataclass
class Stopped(Vm):
    """An instance whose driver tells that it has stopped."""

    reason: str = ""

    @property
    def condition(self) -> Condition:
        return Condition(power=Power.STOPPED, reason=self.reason)


def create(token: str = "t") -> CreateInstance:  # noqa: S107 - a launch token, not a password
    launch = Launch(token=token, type_name="t1", secret="s3cret", created_at=1.0)
    return CreateInstance(op_id=7, launch=launch, instance_type=make_type(1), tags=(("a", "b"),))


def test_a_create_carries_the_secret_and_the_operators_script(rig: Rig) -> None:
    rig.performer.perform(create())
    event = rig.outcome()
    assert isinstance(event, Created)
    assert (event.op_id, event.token, event.instance.id) == (7, "t", "i-0")
    (made,) = rig.cloud.created
    assert made["init"] == "put s3cret"
    assert made["token"] == "t"  # noqa: S105 - a launch token, not a password


@pytest.mark.parametrize(
    ("raised", "expected"),
    [
        (CapacityError("none"), CapacityError),
        (CloudError("?"), CloudError),
        (AmbiguousResult("?"), AmbiguousResult),
        (KeyError("a plug-in's own bug"), AmbiguousResult),
        (TimeoutError(), AmbiguousResult),
    ],
)
def test_a_create_that_raises_is_never_read_as_more_than_is_known(
    rig: Rig, raised: Exception, expected: type[CloudError]
) -> None:
    rig.cloud.error = raised
    rig.performer.perform(create())
    event = rig.outcome()
    assert isinstance(event, CreateFailed)
    assert type(event.error) is expected


def test_listings_tell_what_there_is_or_fail_as_a_whole(rig: Rig) -> None:
    rig.cloud.vms = [Vm("i-1"), Vm("i-2")]
    rig.performer.perform(ListInstances(op_id=1))
    event = rig.outcome()
    assert isinstance(event, Listed)
    assert [seen.id for seen in event.instances] == ["i-1", "i-2"]
    rig.cloud.error = ValueError("half a page")
    rig.performer.perform(ListInstances(op_id=2))
    failed = rig.outcome()
    assert isinstance(failed, ListingFailed)
    assert "half a page" in str(failed.error)


def test_listings_tell_how_instances_stand_where_their_driver_does(rig: Rig) -> None:
    rig.cloud.vms = [Vm("i-0"), Stopped("i-1", reason=" no\nroom" + "!" * 1000)]
    rig.performer.perform(ListInstances(op_id=1))
    listed = rig.outcome()
    assert isinstance(listed, Listed)
    silent, stopped = listed.instances
    assert (silent.power, silent.reason) == (Power.ON, "")
    assert stopped.power is Power.STOPPED
    assert stopped.reason.startswith("no room!")
    assert len(stopped.reason) == 500


@dataclass
class Priced(Vm):
    """An instance whose driver tells of its billing."""

    billed: Billed = NOTHING_BILLED


def test_listings_tell_of_billing_where_their_driver_does_and_only_what_can_be(rig: Rig) -> None:
    sane = Billed(billed_from=5.0, from_slack_s=1.0, billed_until=9.0, zone="z1")
    mad = Billed(
        billed_from=math.nan,
        from_slack_s=-1.0,
        billed_until=math.inf,
        until_slack_s=math.nan,
        zone="z" * 1000,
    )
    turned = Billed(billed_from=9.0, billed_until=5.0)
    rig.cloud.vms = [Vm("i-0"), Priced("i-1", billed=sane), Priced("i-2", billed=mad)]
    rig.cloud.vms.append(Priced("i-3", billed=turned))
    rig.performer.perform(ListInstances(op_id=1))
    listed = rig.outcome()
    assert isinstance(listed, Listed)
    assert [seen.billed for seen in listed.instances] == [
        NOTHING_BILLED,
        sane,
        Billed(zone="z" * 64),
        Billed(billed_from=9.0, billed_until=9.0),
    ]


def test_a_word_that_an_instance_is_billed_since_ever_is_refused_and_logged_once() -> None:
    words = BillWords(lambda: 2 * OLDEST_S)
    ever = Billed(billed_from=1.0, from_slack_s=9.0, billed_until=OLDEST_S + 9.0, zone="z1")
    sane = Billed(billed_from=OLDEST_S + 1.0)
    with capture_logs() as logs:
        listed = [words.as_listed(Priced("i-1", billed=ever)) for _ in range(3)]
        assert words.as_listed(Priced("i-2", billed=sane)) == sane
    assert listed == [Billed(billed_until=OLDEST_S + 9.0, zone="z1")] * 3
    assert [each["instance"] for each in logs] == ["i-1"]


def test_bills_are_told_of_those_that_were_asked_of_and_nothing_by_who_cannot(rig: Rig) -> None:
    ask = AskBills(op_id=1, instance_ids=("i-1", "i-2", "i-3"))
    rig.performer.perform(ask)
    assert rig.outcome() == BillsTold(op_id=1, bills=())
    told = {"i-2": Billed(zone="z\n1"), "i-1": Billed(billed_from=3.0), "i-9": Billed()}
    rig.cloud.billing_rule = BillingRule  # type: ignore[attr-defined]  # some can
    rig.cloud.bills = lambda _: told  # type: ignore[attr-defined]  # as above
    rig.performer.perform(ask)
    bills = (("i-1", Billed(billed_from=3.0)), ("i-2", Billed(zone="z 1")))
    assert rig.outcome() == BillsTold(op_id=1, bills=bills)

    def fails(_: object) -> None:
        raise OSError("no way there")

    rig.cloud.bills = fails  # type: ignore[attr-defined]  # as above
    rig.performer.perform(ask)
    failed = rig.outcome()
    assert isinstance(failed, BillsFailed)
    assert failed.op_id == 1
    assert "no way there" in str(failed.error)


def test_destroy_and_tags(rig: Rig) -> None:
    rig.cloud.vms = [Vm("i-1"), Vm("i-2", error=OSError("down"))]
    rig.performer.perform(ListInstances(op_id=1))
    rig.outcome()
    rig.performer.perform(DestroyInstance(op_id=2, instance_id="i-1"))
    assert rig.outcome() == Destroyed(op_id=2, instance_id="i-1")
    rig.performer.perform(DestroyInstance(op_id=3, instance_id="i-unknown"))
    assert rig.outcome() == Destroyed(op_id=3, instance_id="i-unknown", known=False)
    rig.performer.perform(DestroyInstance(op_id=4, instance_id="i-2"))
    assert isinstance(rig.outcome(), DestroyFailed)
    rig.performer.perform(SetTags(op_id=5, instance_id="i-1", tags=(("k", "v"),)))
    assert rig.outcome() == TagsSet(op_id=5, instance_id="i-1")
    assert rig.cloud.vms[0].tags["k"] == "v"
    rig.performer.perform(SetTags(op_id=6, instance_id="i-unknown", tags=()))
    failed = rig.outcome()
    assert isinstance(failed, TagsFailed)
    assert isinstance(failed.error, InstanceNotFound)


def test_who_was_listed_once_can_be_destroyed_though_the_next_listing_lacks_it(rig: Rig) -> None:
    vm = Vm("i-1")
    rig.cloud.vms = [vm]
    rig.performer.perform(ListInstances(op_id=1))
    rig.outcome()
    rig.cloud.vms = []
    rig.performer.perform(ListInstances(op_id=2))
    rig.outcome()
    rig.performer.perform(DestroyInstance(op_id=3, instance_id="i-1"))
    assert rig.outcome() == Destroyed(op_id=3, instance_id="i-1")
    assert vm.destroys == 1


def test_what_a_driver_says_of_an_id_is_told_and_unknown_of_one_that_cannot_be_asked(
    rig: Rig,
) -> None:
    rig.performer.perform(FindInstance(op_id=1, instance_id="i-1"))
    unknown = InstanceFound(op_id=1, instance_id="i-1", existence=Existence.UNKNOWN)
    assert rig.outcome() == unknown
    rig.cloud.find = lambda _: Existence.GONE  # type: ignore[attr-defined]  # some can
    rig.performer.perform(FindInstance(op_id=2, instance_id="i-1"))
    assert rig.outcome() == InstanceFound(op_id=2, instance_id="i-1", existence=Existence.GONE)

    because = Found(existence=Existence.GONE, reason="a key\n  that is\x20disabled")
    rig.cloud.find = lambda _: because  # type: ignore[attr-defined]  # as above
    rig.performer.perform(FindInstance(op_id=4, instance_id="i-1"))
    assert rig.outcome() == InstanceFound(
        op_id=4, instance_id="i-1", existence=Existence.GONE, reason="a key that is disabled"
    )

    def fails(instance_id: str) -> Existence:
        raise OSError(f"no way to {instance_id}")

    rig.cloud.find = fails  # type: ignore[attr-defined]  # as above
    rig.performer.perform(FindInstance(op_id=3, instance_id="i-1"))
    failed = rig.outcome()
    assert isinstance(failed, FindFailed)
    assert isinstance(failed.error, CloudError)


def test_a_create_that_hangs_keeps_no_listing_waiting_and_becomes_ambiguous(rig: Rig) -> None:
    rig.cloud.gate.clear()
    for number in range(4):
        rig.performer.perform(create(str(number)))
    rig.performer.perform(ListInstances(op_id=9))
    assert isinstance(rig.outcome(), Listed)
    outcomes = [rig.outcome() for _ in range(4)]
    assert {type(o.error) for o in outcomes if isinstance(o, CreateFailed)} == {AmbiguousResult}
    assert len({o.token for o in outcomes if isinstance(o, CreateFailed)}) == 4


def test_a_destroy_that_still_runs_is_not_begun_again(rig: Rig) -> None:
    gate = threading.Event()
    vm = Vm("i-1", gate=gate)
    rig.cloud.vms = [vm]
    rig.performer.perform(ListInstances(op_id=1))
    rig.outcome()
    rig.performer.perform(DestroyInstance(op_id=2, instance_id="i-1"))
    rig.performer.perform(DestroyInstance(op_id=3, instance_id="i-1"))
    second = rig.outcome()
    assert isinstance(second, DestroyFailed)
    assert second.op_id == 3
    gate.set()
    assert rig.outcome() == Destroyed(op_id=2, instance_id="i-1")
    assert vm.destroys == 1


def test_a_worker_that_cannot_be_reached_fails_its_probe_and_starts_there_are_unknown(
    rig: Rig,
) -> None:
    rig.performer.perform(
        Probe(
            op_id=3,
            worker_id="i-1",
            revision=4,
            address="127.0.0.1:1",
            host_key="",
            secret="s",
            boot=True,
        )
    )
    event = rig.outcome()
    assert isinstance(event, ProbeFailed)
    assert (event.op_id, event.revision, event.stage) == (3, 4, "connect")
    assert event.message.startswith("127.0.0.1:1: "), "the stage is told once, by itself"
    order = AttemptOrder(attempt_id="c-1-1", container_id="c-1", image="", command=("true",))
    for worker_id in ("i-1", "i-never-probed"):
        rig.performer.perform(StartAttempt(op_id=5, worker_id=worker_id, order=order, boot_id="b"))
        assert isinstance(rig.outcome(), StartUnknown)


def test_a_loss_during_a_probe_is_told_after_the_probes_outcome() -> None:
    posted: list[PoolEvent] = []
    reports = WorkerReports(posted.append, NoLogs())
    ready = ProbeSucceeded(
        op_id=1,
        worker_id="i-1",
        revision=0,
        began_at=1.0,
        host_key="k",
        report=ProbeReport(attempts=(), boot_id="b"),
    )
    reports.probe_begins()
    reports.lost("i-1", 2.0, "reset")
    assert posted == []
    reports.probe_ends(ready)
    lost = SessionLost(worker_id="i-1", last_contact=2.0, reason="reset")
    assert posted == [ready, lost]
    reports.lost("i-1", 3.0, "again")
    assert len(posted) == 3


def test_log_bytes_that_can_never_be_kept_are_dropped_and_end_nothing() -> None:
    class Sealed(NoLogs):
        """A log that is complete."""

        appended = 0

        def append(self, attempt_id: str, stream: str, offset: int, data: bytes) -> None:
            self.appended += 1
            raise ValueError(f"{attempt_id} {stream} is sealed: {offset} {data!r}")

    logs = Sealed()
    reports = WorkerReports(lambda _event: None, logs)
    reports.log("i-1", "c-1-1", "stdout", 0, b"a stranger's")
    assert logs.appended == 0
    reports.allow(["c-1-1"])
    reports.log("i-1", "c-1-1", "stdout", 0, b"more")
    reports.log("i-1", "c-1-1", "stdout", 4, b"more")
    assert logs.appended == 1


def test_the_last_word_on_the_lease_counts_though_a_probe_waits_for_its_turn(rig: Rig) -> None:
    def probe(*, suspended: bool) -> None:
        rig.performer.perform(
            Probe(
                op_id=1,
                worker_id="i-1",
                revision=0,
                address="127.0.0.1:1",
                host_key="",
                secret="s",
                boot=False,
                suspend_lease=suspended,
            )
        )

    def suspended() -> bool:
        terms = rig.performer._links["i-1"][0]._lease.terms()
        assert terms is not None
        return terms.suspended

    for wanted in (True, False):
        probe(suspended=wanted)
        assert isinstance(rig.outcome(), ProbeFailed)
        assert suspended() is wanted
    with rig.performer._links["i-1"][0]._probing:
        probe(suspended=False)
        rig.performer.perform(SetLease(worker_id="i-1", suspended=True))
    assert isinstance(rig.outcome(), ProbeFailed)
    assert suspended()
    rig.performer.perform(SetLease(worker_id="unknown", suspended=True))


@pytest.fixture
def silent_host() -> Iterator[socket.socket]:
    """Yield the socket of a host that lets everybody connect and never says a word."""
    with socket.create_server(("127.0.0.1", 0)) as made:
        made.settimeout(60)
        yield made


def address_of(host: socket.socket) -> str:
    return f"127.0.0.1:{host.getsockname()[1]}"


def connected_to(host: socket.socket) -> bool:
    """Return whether somebody more has connected."""
    host.setblocking(False)
    try:
        host.accept()[0].close()
    except BlockingIOError:
        return False
    return True


def test_probes_that_wait_for_a_thread_at_the_end_are_not_carried_out(
    tmp_path: Path, silent_host: socket.socket
) -> None:
    with performing(tmp_path, probe_threads=1) as rig:
        for number in range(3):
            rig.performer.perform(
                Probe(
                    op_id=number,
                    worker_id=f"i-{number}",
                    revision=0,
                    address=address_of(silent_host),
                    host_key="",
                    secret="s",
                    boot=False,
                )
            )
        with silent_host.accept()[0]:
            assert rig.performer.close()
        assert isinstance(rig.outcome(), ProbeFailed)
        assert not connected_to(silent_host)


def test_a_link_that_was_closed_reaches_for_no_host(rig: Rig, silent_host: socket.socket) -> None:
    link, _ = rig.performer._link("i-1")
    link.close()
    with pytest.raises(ProbeStageError, match="the link was closed"):
        link.probe(
            address=address_of(silent_host), host_key="", secret="s", boot=False, verify=unknown
        )
    assert not connected_to(silent_host)


@pytest.mark.parametrize(
    ("address", "expected"),
    [
        ("", ""),
        ("10.0.0.1", "10.0.0.1:22"),
        ("10.0.0.1:2200", "10.0.0.1:2200"),
        ("host.example", "host.example:22"),
        ("fe80::1", "[fe80::1]:22"),
        ("[fe80::1]", "[fe80::1]:22"),
        ("[fe80::1]:2200", "[fe80::1]:2200"),
    ],
)
def test_an_address_without_a_port_gets_the_configured_one(address: str, expected: str) -> None:
    assert with_port(address, 22) == expected


def test_listings_show_addresses_with_their_port(rig: Rig) -> None:
    rig.cloud.vms = [Vm("i-1", address="10.0.0.1")]
    rig.performer.perform(ListInstances(op_id=1))
    event = rig.outcome()
    assert isinstance(event, Listed)
    assert event.instances[0].address == "10.0.0.1:2222"
