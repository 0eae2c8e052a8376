"""What stays of instances that are gone: when it is looked for, what is kept, what is told."""

from __future__ import annotations

import queue
import threading
from collections.abc import Mapping, Sequence
from decimal import Decimal

from prometheus_client.parser import text_string_to_metric_families
from structlog.testing import capture_logs

from longshore.dispatcher.explain.instance_views import leak_report
from longshore.dispatcher.metrics.exposition import Metrics
from longshore.drivers.errors import CloudAuthError, CloudError
from longshore.drivers.interface import CLUSTER_TAG, Leftover
from longshore.pool.leaks import LeakKind
from longshore.pool.messages import Listed, ListingFailed, ListInstances, PoolEvent
from longshore.pool.remote.cloud_calls import CloudCalls, Launching
from longshore.pool.remote.leftovers import LOOK_INTERVAL_S, LeftoverWatch
from tests.rigs.engine import Rig
from tests.samples import make_type
from tests.sshd_host import wait_until
from tests.unit.test_effects_logs import Cloud

VOLUME = Leftover(kind="volume", id="vol-1", detail="15 GiB gp3")
INTERFACE = Leftover(kind="network interface", id="eni-1")
NEVER = CloudAuthError("DescribeVolumes: UnauthorizedOperation: no")


class Leaving(Cloud):
    """A cloud in which something stays of instances that are gone."""

    def __init__(self, *left: Leftover) -> None:
        super().__init__()
        self.left = list(left)
        self.refusal: Exception | None = None
        self.asked: list[Mapping[str, str]] = []
        self.gate = threading.Event()
        self.gate.set()

    def leftovers(self, tags: Mapping[str, str]) -> Sequence[Leftover]:
        self.asked.append(tags)
        self.gate.wait(60)
        if self.refusal is not None:
            raise self.refusal
        return self.left


class Site:
    """What looks at such a cloud, by a clock that a test sets."""

    def __init__(self, cloud: Cloud) -> None:
        self.time = 1_000.0
        self.watch = LeftoverWatch(cloud, cluster="x", now=lambda: self.time)

    def look(self) -> bool:
        """Look if a look is due, and return whether one was; the clock goes on to the next."""
        due = self.watch.begin()
        if due:
            self.watch.look()
        self.time += LOOK_INTERVAL_S
        return due

    def told(self) -> list[tuple[str, float]]:
        return [(each.leftover.id, each.since) for each in self.watch.told().items]


def test_what_two_looks_in_a_row_have_shown_is_told_since_the_first() -> None:
    cloud = Leaving(VOLUME)
    site = Site(cloud)
    site.look()
    assert site.told() == [], "it may be on its way"
    cloud.left = [VOLUME, INTERFACE]
    site.look()
    assert site.told() == [("vol-1", 1_000.0)]
    site.look()
    assert site.told() == [("eni-1", 1_300.0), ("vol-1", 1_000.0)]
    cloud.left = [INTERFACE]
    site.look()
    assert site.told() == [("eni-1", 1_300.0)]
    assert cloud.asked == [{CLUSTER_TAG: "x"}] * 4


def test_what_is_gone_between_two_looks_begins_anew() -> None:
    cloud = Leaving(VOLUME)
    site = Site(cloud)
    for left in ([VOLUME], [], [VOLUME]):
        cloud.left = left
        site.look()
        assert site.told() == []


def test_a_driver_that_cannot_tell_is_not_asked() -> None:
    site = Site(Cloud())
    assert not site.look()
    assert (site.told(), site.watch.told().problem) == ([], "")


def test_it_is_looked_for_one_at_a_time_and_once_in_a_while() -> None:
    site = Site(Leaving())
    assert site.watch.begin()
    site.time += 10 * LOOK_INTERVAL_S
    assert not site.watch.begin(), "one is under way"
    assert site.watch.told().problem == "the driver has not answered for 3000 s"
    site.watch.look()
    assert site.watch.begin()
    site.watch.look()
    site.time += LOOK_INTERVAL_S - 1
    assert not site.watch.begin()
    site.time -= 5 * LOOK_INTERVAL_S
    assert site.watch.begin(), "a clock that was set back holds up nothing"


def test_a_look_that_fails_keeps_what_is_known_and_is_said_once() -> None:
    cloud = Leaving(VOLUME)
    site = Site(cloud)
    site.look()
    site.look()
    with capture_logs() as entries:
        for refusal in (NEVER, NEVER, NEVER, CloudError("garbage"), ValueError("a bug"), None):
            cloud.refusal = refusal
            site.look()
            problem = site.watch.told().problem
            assert bool(problem) == (refusal is not None)
            assert site.told() == [("vol-1", 1_000.0)]
    assert [(each["log_level"], each.get("error")) for each in entries] == [
        ("warning", f"the credentials may not look: {NEVER}"),
        ("warning", "garbage"),
        ("warning", "ValueError: a bug"),
        ("info", None),
    ]


def test_a_look_follows_a_listing_and_holds_up_no_other() -> None:
    cloud = Leaving(VOLUME)
    site = Site(cloud)
    posted: queue.Queue[PoolEvent] = queue.Queue()
    calls = CloudCalls(
        cloud,
        cluster="x",
        launching=Launching(image="", init_command=str, public_key=""),
        post=posted.put,
        now=lambda: site.time,
        threads=1,
        call_timeout_s=60,
        default_port=22,
    )
    cloud.error = CloudError("no route")
    calls.begin(ListInstances(op_id=1))
    assert isinstance(posted.get(timeout=60), ListingFailed)
    cloud.error = None
    cloud.gate.clear()
    for op_id in range(2, 8):
        calls.begin(ListInstances(op_id=op_id))
        assert isinstance(posted.get(timeout=60), Listed)
        site.time += LOOK_INTERVAL_S
    wait_until(lambda: len(cloud.asked) == 1, "a look")
    assert not calls.close(0.05), "it is under way"
    cloud.gate.set()
    assert calls.close(60)
    assert len(cloud.asked) == 1


def test_what_is_left_is_a_leak_of_unknown_price_after_all_others() -> None:
    rig = Rig(make_type(1))
    site = Site(Leaving(VOLUME))
    site.look()
    site.look()
    (leak,) = leak_report(rig.view, rig.now, leftovers=site.watch.told()).leaks
    assert (leak.kind, leak.resource_id, leak.since) == (LeakKind.LEFT_BEHIND, "vol-1", 1_000.0)
    assert (leak.instance_id, leak.launch_token, leak.price_usd_per_hour) == ("", "", Decimal(0))
    assert "this volume (15 GiB gp3) has the tag of this cluster" in leak.why
    assert "delete vol-1 in the cloud's console" in leak.remedy
    metrics = Metrics(rig.view, heard_at=lambda _: 0.0, leftovers=site.watch.told)
    samples = {
        (sample.name, sample.labels.get("kind")): sample.value
        for family in text_string_to_metric_families(metrics.exposition(rig.now).decode())
        for sample in family.samples
    }
    assert samples["longshore_leaked_instances", "left_behind"] == 1.0
