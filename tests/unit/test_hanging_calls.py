"""Driver calls that hang: each command has its one outcome, and what can go on goes on."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import pytest

from longshore.drivers.errors import AmbiguousResult, CloudError
from longshore.drivers.interface import HostKeyVerdict, Instance
from longshore.pool.messages import (
    CreateFailed,
    CreateInstance,
    Destroyed,
    DestroyFailed,
    DestroyInstance,
    Listed,
    ListingFailed,
    ListInstances,
    PoolEvent,
    SetTags,
    TagsSet,
)
from longshore.pool.model import Launch
from longshore.pool.remote.cloud_calls import CloudCalls, Launching
from tests.rigs.performer import CALL_TIMEOUT_S, Cloud, Vm
from tests.samples import make_type

THREADS = 2


@dataclass
class KeyVm(Vm):
    """An instance that is slow to say something on its key."""

    asked: int = 0

    def verify_host_key(self, public_key: str) -> HostKeyVerdict:
        self.asked += 1
        assert self.gate is not None
        self.gate.wait(60)
        return super().verify_host_key(public_key)


class SlowCloud(Cloud):
    """A cloud whose listings and creates hang while their gates are closed."""

    def __init__(self) -> None:
        super().__init__()
        self.listings = 0
        self.listing_gate = threading.Event()
        self.listing_gate.set()

    def instances(self, tags: Mapping[str, str]) -> Sequence[Instance]:
        self.listings += 1
        seen = list(super().instances(tags))
        self.listing_gate.wait(60)
        return seen


class Site:
    """Calls to such a cloud, and what they post."""

    def __init__(self) -> None:
        self.cloud = SlowCloud()
        self.gate = threading.Event()
        self.posted: queue.Queue[PoolEvent] = queue.Queue()
        self.calls = CloudCalls(
            self.cloud,
            cluster="x",
            launching=Launching(image="an-image", init_command=str, public_key=""),
            post=self.posted.put,
            now=lambda: 5.0,
            threads=THREADS,
            call_timeout_s=CALL_TIMEOUT_S,
            default_port=22,
        )

    def outcome(
        self, command: ListInstances | CreateInstance | DestroyInstance | SetTags
    ) -> object:
        """Carry a command out and return what came of it."""
        self.calls.begin(command)
        return self.posted.get(timeout=60)

    def know(self, *vms: Vm) -> None:
        """Have a listing show these instances."""
        self.cloud.vms = list(vms)
        assert isinstance(self.outcome(ListInstances(op_id=1000)), Listed)

    @contextmanager
    def other_listings_answered(self) -> Iterator[None]:
        """Let listings that begin in this block be answered, while those before hang on."""
        closed, self.cloud.listing_gate = self.cloud.listing_gate, threading.Event()
        self.cloud.listing_gate.set()
        yield
        self.cloud.listing_gate = closed

    def idle(self) -> bool:
        """Return whether no call is under way."""
        return not any(lane.taken for lane in self.calls._lanes.values())

    def release(self) -> None:
        """Let everything that hangs go on."""
        for gate in (self.gate, self.cloud.gate, self.cloud.listing_gate):
            gate.set()


@pytest.fixture
def site() -> Iterator[Site]:
    made = Site()
    yield made
    made.release()
    assert made.calls.close(60)
    assert made.posted.empty(), "an outcome came twice"


def create(op_id: int) -> CreateInstance:
    launch = Launch(token=f"t-{op_id}", type_name="t1", secret="", created_at=1.0)
    type_ = make_type(1)
    return CreateInstance(op_id=op_id, launch=launch, instance_type=type_, tags=(("a", "b"),))


def until(condition: Callable[[], bool]) -> None:
    deadline, gate = time.monotonic() + 60, threading.Event()
    while not condition():
        assert time.monotonic() < deadline, "it never became true"
        gate.wait(0.01)


def never_begun(error: CloudError) -> bool:
    """Return whether an error says that there is no doubt that nothing was done."""
    return type(error) is CloudError and "never begun" in str(error)


def test_a_listing_is_answered_although_the_one_before_hangs(site: Site) -> None:
    site.cloud.listing_gate.clear()
    hung = site.outcome(ListInstances(op_id=1))
    assert isinstance(hung, ListingFailed)
    with site.other_listings_answered():
        site.know(Vm("i-1"))


def test_a_listing_that_is_too_late_takes_nothing_back(site: Site) -> None:
    known, new = Vm("i-known"), Vm("i-new")
    site.know(known)
    site.cloud.vms = []
    site.cloud.listing_gate.clear()
    assert isinstance(site.outcome(ListInstances(op_id=1)), ListingFailed)
    with site.other_listings_answered():
        site.know(known, new)
    site.release()
    until(site.idle)
    for vm in (known, new):
        assert site.outcome(DestroyInstance(op_id=2, instance_id=vm.id)) == Destroyed(
            op_id=2, instance_id=vm.id
        )
        assert vm.destroys == 1


def test_listings_that_hang_are_so_many_at_most_and_the_next_is_answered_for(site: Site) -> None:
    site.cloud.listing_gate.clear()
    for op_id in range(1, 5):
        failed = site.outcome(ListInstances(op_id=op_id))
        assert isinstance(failed, ListingFailed)
        assert isinstance(failed.error, AmbiguousResult)
    failed = site.outcome(ListInstances(op_id=5))
    assert isinstance(failed, ListingFailed)
    assert failed.op_id == 5
    assert never_begun(failed.error)
    site.release()
    assert isinstance(site.outcome(ListInstances(op_id=6)), Listed)
    assert site.cloud.listings == 5, "the one that was answered for is not begun later"


def test_a_create_that_waits_behind_those_that_hang_is_never_begun(site: Site) -> None:
    site.know(vm := Vm("i-1"))
    site.cloud.gate.clear()
    for op_id in range(1, THREADS + 1):
        hung = site.outcome(create(op_id))
        assert isinstance(hung, CreateFailed)
        assert isinstance(hung.error, AmbiguousResult)
    waiting = site.outcome(create(9))
    assert isinstance(waiting, CreateFailed)
    assert waiting.token == "t-9"  # noqa: S105 - a launch token, not a password
    assert never_begun(waiting.error)
    assert site.outcome(SetTags(op_id=10, instance_id="i-1", tags=())) == TagsSet(
        op_id=10, instance_id="i-1"
    )
    assert site.outcome(DestroyInstance(op_id=11, instance_id="i-1")) == Destroyed(
        op_id=11, instance_id="i-1"
    )
    assert vm.destroys == 1
    site.release()
    until(site.idle)
    assert sorted(str(made["token"]) for made in site.cloud.created) == ["t-1", "t-2"]


def test_a_destroy_that_was_never_begun_can_be_asked_for_again(site: Site) -> None:
    hung = [Vm(f"i-{n}", gate=site.gate) for n in range(THREADS)]
    site.know(last := Vm("i-last"), *hung)
    for vm in hung:
        failed = site.outcome(DestroyInstance(op_id=1, instance_id=vm.id))
        assert isinstance(failed, DestroyFailed)
    failed = site.outcome(DestroyInstance(op_id=2, instance_id="i-last"))
    assert isinstance(failed, DestroyFailed)
    assert never_begun(failed.error)
    site.release()
    assert site.outcome(DestroyInstance(op_id=3, instance_id="i-last")) == Destroyed(
        op_id=3, instance_id="i-last"
    )
    assert last.destroys == 1


def test_a_question_about_a_key_that_nobody_waits_for_any_more_is_not_asked(site: Site) -> None:
    vms = [KeyVm(f"i-{n}", gate=site.gate) for n in range(THREADS + 1)]
    site.know(*vms)
    for vm in vms:
        with pytest.raises(CloudError, match="no word of the driver"):
            site.calls.verify_host_key(vm.id, "k")
    site.release()
    assert site.calls.verify_host_key("i-0", "k") is HostKeyVerdict.UNKNOWN
    assert [vm.asked for vm in vms] == [2, 1, 0]


def test_what_waits_for_a_thread_at_the_end_is_not_begun(site: Site) -> None:
    vms = [Vm(f"i-{n}", gate=site.gate) for n in range(THREADS + 1)]
    site.know(*vms)
    for vm in vms:
        site.calls.begin(DestroyInstance(op_id=1, instance_id=vm.id))
    until(lambda: [vm.destroys for vm in vms] == [1, 1, 0])
    assert not site.calls.close(0.0)
    site.release()
    until(site.idle)
    assert [vm.destroys for vm in vms] == [1, 1, 0]
    while not site.posted.empty():
        site.posted.get()
