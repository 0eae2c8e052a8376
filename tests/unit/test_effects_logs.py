"""What the effects log of themselves: each failure once, until it changes."""

from __future__ import annotations

import queue
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import pytest
from structlog.testing import capture_logs

from longshore.drivers.errors import CloudError
from longshore.drivers.interface import HostKeyVerdict, Instance, InstanceType
from longshore.pool.messages import DestroyInstance, ListInstances, PoolEvent, SetTags
from longshore.pool.remote.cloud_calls import CloudCalls, Launching
from longshore.pool.remote.worker_reports import WorkerReports
from tests.rigs.performer import NoLogs


@dataclass
class Vm:
    """An instance whose calls raise what it is told to."""

    id: str
    error: Exception | None = None
    address: str = "127.0.0.1:1"
    tags: dict[str, str] = field(default_factory=dict)

    def destroy(self) -> None:
        if self.error is not None:
            raise self.error

    def set_tags(self, tags: Mapping[str, str]) -> None:
        del tags
        self.destroy()

    def verify_host_key(self, public_key: str) -> HostKeyVerdict:
        raise AssertionError(public_key)


class Cloud:
    """A driver with the given instances; its listings fail with `error`, if that is set."""

    def __init__(self, *vms: Vm) -> None:
        self.vms = list(vms)
        self.error: Exception | None = None

    def create(
        self,
        *,
        instance_type: InstanceType,
        image: str,
        tags: Mapping[str, str],
        init_command: str,
        public_key: str,
        token: str,
    ) -> Instance:
        raise AssertionError((instance_type, image, tags, init_command, public_key, token))

    def instances(self, tags: Mapping[str, str]) -> Sequence[Instance]:
        del tags
        if self.error is not None:
            raise self.error
        return self.vms

    def close(self) -> None:
        """Nothing is held."""


class Site:
    """A cloud, and calls to it that are waited for."""

    def __init__(self) -> None:
        self.now = 1.0
        self.vm = Vm("i-1")
        self.cloud = Cloud(self.vm)
        self.posted: queue.Queue[PoolEvent] = queue.Queue()
        self.calls = CloudCalls(
            self.cloud,
            cluster="x",
            launching=Launching(image="", init_command=str, public_key=""),
            post=self.posted.put,
            now=lambda: self.now,
            threads=1,
            call_timeout_s=20,
            default_port=22,
        )
        self.perform(ListInstances(op_id=1))

    def perform(self, command: ListInstances | DestroyInstance | SetTags) -> None:
        """Carry a call out and wait until it has ended, not only until it has been told of."""
        self.calls.begin(command)
        self.posted.get(timeout=60)


@pytest.fixture
def site() -> Iterator[Site]:
    made = Site()
    yield made
    assert made.calls.close(20)


DESTROY = DestroyInstance(op_id=2, instance_id="i-1")
TAGS = SetTags(op_id=3, instance_id="i-1", tags=())


def told(
    site: Site, command: ListInstances | DestroyInstance | SetTags
) -> list[tuple[object, ...]]:
    """Carry a call out; return what was logged: level, event, call, instance and error."""
    with capture_logs() as entries:
        site.perform(command)
    names = ("log_level", "event", "call", "instance", "error")
    return [tuple(entry.get(name) for name in names) for entry in entries]


@pytest.mark.parametrize(("command", "call"), [(DESTROY, "DestroyInstance"), (TAGS, "SetTags")])
def test_a_call_that_fails_is_logged_once_until_that_changes(
    site: Site, command: DestroyInstance | SetTags, call: str
) -> None:
    failed = ("warning", "a driver call failed", call, "i-1")
    site.vm.error = CloudError("no")
    assert told(site, command) == [(*failed, "CloudError: no")]
    assert told(site, command) == []
    site.vm.error = CloudError("never")
    assert told(site, command) == [(*failed, "CloudError: never")]
    site.vm.error = None
    assert told(site, command) == [("info", "a driver call succeeds again", call, "i-1", None)]
    assert told(site, command) == []
    site.vm.error = CloudError("no")
    assert len(told(site, command)) == 1


def test_listings_that_fail_are_logged_once_until_that_changes(site: Site) -> None:
    failed = ("warning", "a driver call failed", "ListInstances", None)
    site.cloud.error = CloudError("no")
    assert told(site, ListInstances(op_id=4)) == [(*failed, "CloudError: no")]
    assert told(site, ListInstances(op_id=5)) == []
    site.cloud.error = CloudError("never")
    assert told(site, ListInstances(op_id=6)) == [(*failed, "CloudError: never")]
    site.cloud.error = None
    again = ("info", "a driver call succeeds again", "ListInstances", None, None)
    assert told(site, ListInstances(op_id=7)) == [again]
    assert told(site, ListInstances(op_id=8)) == []


def test_nothing_is_kept_of_an_instance_that_is_gone(site: Site) -> None:
    site.vm.error = CloudError("no")
    told(site, DESTROY)
    told(site, TAGS)
    assert len(site.calls._failures) == 2
    site.cloud.vms.clear()
    site.perform(ListInstances(op_id=4))
    assert len(site.calls._failures) == 2, "a listing may lack what is there"
    site.now += 3600
    site.perform(ListInstances(op_id=5))
    assert site.calls._failures == {}
    assert len(told(site, TAGS)) == 1, "no listing has shown it"
    assert site.calls._failures == {}


def test_a_probe_that_fails_is_logged_once_until_that_changes() -> None:
    reports = WorkerReports(print, NoLogs())
    with capture_logs() as entries:
        for failure, boot in (
            ("", True),
            ("connect: refused", True),
            ("connect: refused", True),
            ("boot: exit status 1", True),
            ("", True),
            ("", False),
            ("connect: refused", False),
        ):
            reports.note_probe("i-1", failure, boot=boot)
    assert {entry["instance"] for entry in entries} == {"i-1"}
    assert [(entry["log_level"], entry["event"], entry.get("error")) for entry in entries] == [
        ("info", "a probe failed", "connect: refused"),
        ("info", "a probe failed", "boot: exit status 1"),
        ("info", "probes succeed again", None),
        ("warning", "a probe failed", "connect: refused"),
    ]
