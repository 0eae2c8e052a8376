"""An in-memory backend: real state behind the API, without store, engine or network.

All calls are made on the event loop; a test that runs elsewhere pushes with
`loop.call_soon_threadsafe(backend.push_log, ...)`.
"""

from __future__ import annotations

import asyncio
import itertools
from collections import defaultdict, deque
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import replace
from decimal import Decimal
from types import SimpleNamespace
from typing import Any, cast

from longshore.dispatcher.domain.containers import (
    Attempt,
    AttemptOutcome,
    Container,
    ContainerState,
    Reason,
    WaitReason,
)
from longshore.dispatcher.domain.cursors import slice_of
from longshore.dispatcher.domain.queries import ContainerFilter, Page
from longshore.dispatcher.domain.views import (
    Health,
    InstanceReport,
    InstanceView,
    LeakReport,
    Problem,
    ServerEvent,
    StrayPage,
    StrayView,
)
from longshore.dispatcher.domain.vitals import Vitals
from longshore.dispatcher.explain.explanation import Explanation, WaitStatus
from longshore.dispatcher.explain.instance_views import stray_page
from longshore.dispatcher.scheduler.system.dry_run_counts import Counts
from longshore.dispatcher.service.contracts import (
    Conflict,
    NewContainer,
    NotFound,
    Unavailable,
)
from longshore.dispatcher.service.dry_run_model import JobPlan
from longshore.dispatcher.service.events import Broker
from longshore.dispatcher.service.services import Services
from longshore.pool.model import BehaviorNote, IdleBehavior
from tests.fake_backend_jobs import FakeJobs, matches, number_before
from tests.samples import DISK

EPOCH = 1_700_000_000.0
EVENTS_KEPT = 10_000
NOTHING_PLANNED = JobPlan(
    counts=Counts(),
    creates=(),
    least_usd_per_hour=Decimal(0),
    most_usd_per_hour=Decimal(0),
    waiting=(),
    steps=(),
    steps_left_out=0,
)


class FakeBackend(FakeJobs):
    """What `Services` ask, in memory; the methods below `metrics` are for tests.

    `now` gives seconds since the epoch; without one, time moves a second with every change. Set
    `unavailable` to a sentence to have submissions refused, `problems` to what is wrong, `waiting`
    to what containers wait for, `explained` to how they are explained,
    `leaked` to what is billed and not wanted, `planned` to what any job would come to.
    """

    def __init__(self, *, now: Callable[[], float] | None = None) -> None:
        ticks = itertools.count()
        self._now = now or (lambda: EPOCH + next(ticks))
        self._jobs = {}
        self._containers = {}
        self._instances: dict[str, InstanceView] = {}
        self._logs: dict[tuple[str, str], bytearray] = defaultdict(bytearray)
        self._keys = {}
        self._events: deque[ServerEvent] = deque(maxlen=EVENTS_KEPT)
        self._log_expected: set[str] = set()
        self._last_event = 0
        self._changed = asyncio.Event()
        self._stopped = False
        self.planned = NOTHING_PLANNED
        self.plans_asked = []
        self.unavailable = ""
        self.problems: tuple[Problem, ...] = ()
        self.disk = DISK
        self.waiting: dict[str, str] = {}
        self.log_problems: dict[str, str] = {}
        self.doubts: dict[str, str] = {}
        self.nowhere: dict[str, WaitReason] = {}
        self.troubles: dict[str, Reason] = {}
        self.leaked = LeakReport(leaks=(), listed_at=EPOCH, complete=True)
        self.kept_strays: list[StrayView] = []
        self.explained: dict[str, Explanation] = {}
        self.submissions = 0

    # ---- the protocol ---------------------------------------------------------------------------

    async def submit(
        self, items: Sequence[NewContainer], *, user: str, idempotency_key: str, fingerprint: str
    ) -> Sequence[Container]:
        if self.unavailable:
            raise Unavailable(self.unavailable)
        if idempotency_key and (earlier := self._keys.get((user, idempotency_key))):
            if earlier[0] != fingerprint:
                raise Conflict(f"the Idempotency-Key {idempotency_key!r} was used for another body")
            return [self._containers[container_id] for container_id in earlier[1]]
        made = []
        for item in items:
            sequence = len(self._containers) + 1
            container = Container(
                id=f"c-{sequence:08d}",
                sequence=sequence,
                spec=item.spec,
                user=user,
                project=item.project,
                priority=item.priority,
                created_at=self._now(),
            )
            made.append(self._save(container))
        if idempotency_key:
            self._keys[user, idempotency_key] = (fingerprint, [one.id for one in made])
        self.submissions += 1
        return made

    async def containers(self, which: ContainerFilter, *, cursor: str, limit: int) -> Page:
        before = number_before(cursor, len(self._containers) + 1)
        found = [
            one
            for one in sorted(self._containers.values(), key=lambda one: -one.sequence)
            if one.sequence < before and matches(one, which)
        ]
        more = f"before-{found[limit - 1].sequence}" if len(found) > limit else None
        return Page(items=tuple(found[:limit]), next_cursor=more)

    async def container(self, container_id: str) -> Container:
        if container_id not in self._containers:
            raise NotFound(f"there is no container {container_id}")
        return self._containers[container_id]

    def standing(self, container: Container) -> WaitStatus:
        message = self.waiting.get(container.id, "")
        reason = WaitReason(code="waits", message=message) if message else None
        return WaitStatus(reason=reason, doubt=self.doubts.get(container.id, ""))

    async def explain(self, container_id: str) -> Explanation:
        container = await self.container(container_id)
        return self.explained.get(container_id) or Explanation(
            container=container,
            sentence=f"{container_id} is {container.state.value}",
            waiting=None,
            history=(),
            recorded_since=EPOCH,
        )

    async def cancel(self, container_id: str) -> Container:
        container = await self._unfinished(container_id)
        if container.state is ContainerState.RUNNING:
            return self._save(replace(container, cancel_requested=True))
        return self._save(
            replace(
                container,
                state=ContainerState.CANCELLED,
                cancel_requested=True,
                finished_at=self._now(),
                reason=Reason(code="cancelled", message="A user cancelled it."),
            )
        )

    async def set_priority(self, container_id: str, priority: int) -> Container:
        return self._save(replace(await self._unfinished(container_id), priority=priority))

    def instances(self, *, cursor: str, limit: int) -> InstanceReport:
        there = (one for one in self._instances.values() if not one.gone_at)
        return _page(sorted(there, key=lambda one: one.id), cursor, limit)

    async def gone_instances(self, *, cursor: str, limit: int) -> InstanceReport:
        gone = (one for one in self._instances.values() if one.gone_at)
        return _page(sorted(gone, key=lambda one: -one.gone_at), cursor, limit)

    async def instance(self, instance_id: str) -> InstanceView:
        return self._instance(instance_id)

    def _instance(self, instance_id: str) -> InstanceView:
        if instance_id not in self._instances:
            raise NotFound(f"there is no instance {instance_id}")
        return self._instances[instance_id]

    def leaks(self, *, cursor: str, limit: int) -> LeakReport:
        shown, following = slice_of(
            self.leaked.leaks,
            lambda each: each.instance_id or each.launch_token or each.resource_id,
            word="leaks",
            cursor=cursor,
            limit=limit,
        )
        return replace(self.leaked, leaks=tuple(shown), next_cursor=following)

    def strays(self, *, cursor: str, limit: int) -> StrayPage:
        return stray_page(self.kept_strays, cursor=cursor, limit=limit)

    async def decide_strays(
        self, instance_id: str, attempts: Sequence[str], *, adopt: bool
    ) -> Sequence[StrayView]:
        fate = "adopted" if adopt else "killed"
        meant = [
            each
            for each in self.kept_strays
            if each.instance == instance_id and (not attempts or each.attempt in attempts)
        ]
        if not meant:
            raise NotFound(f"no strays are kept on {instance_id}")
        decided = {each: replace(each, fate=fate) for each in meant}
        self.kept_strays = [decided.get(each, each) for each in self.kept_strays]
        return list(decided.values())

    async def set_idle_behavior(
        self,
        instance_id: str,
        behavior: IdleBehavior,
        *,
        reason: str = "",
        user: str = "",
        until: float | None = None,
    ) -> InstanceView:
        view = self._instance(instance_id)
        if view.state == "shutdown":
            raise Conflict(f"instance {instance_id} is being shut down")
        note = BehaviorNote(behavior=behavior, reason=reason, by=user, at=EPOCH, until=until)
        return self._save_instance(replace(view, idle_behavior=behavior.value, note=note))

    async def kill_instance(self, instance_id: str, reason: str) -> InstanceView:
        view = self._instance(instance_id)
        return self._save_instance(replace(view, state="shutdown", last_error=reason))

    async def read_log(
        self, container_id: str, *, stream: str, offset: int, limit: int
    ) -> tuple[bytes, bool]:
        container = await self.container(container_id)
        log = self._logs[container_id, stream]
        data = bytes(log[offset : offset + limit])
        if not container.state.final or offset + len(data) < len(log):
            return data, False
        return data, container_id not in self._log_expected or len(log) >= _promised(
            container, stream
        )

    def log_problem(self, container: Container) -> str:
        return self.log_problems.get(container.id, "")

    async def wait_log(self, container_id: str, *, timeout_s: float) -> None:
        await self.container(container_id)
        await self._wait(timeout_s)

    async def events(self, *, after: int | None) -> AsyncIterator[ServerEvent]:
        seen = self._last_event if after is None else after
        while not self._stopped:
            for event in [event for event in self._events if event.number > seen]:
                seen = event.number
                yield event
            if self._last_event <= seen:
                await self._changed.wait()

    def last_event_number(self) -> int:
        return self._last_event

    def health(self) -> Health:
        return Health(problems=self.problems)

    def vitals(self) -> Vitals:
        return self.disk

    def metrics(self) -> bytes:
        return (
            "# HELP longshore_containers Containers in memory.\n"
            "# TYPE longshore_containers gauge\n"
            f"longshore_containers {len(self._containers)}\n"
        ).encode()

    def services(self) -> Services:
        """Return the services of this backend, for `make_app`."""
        parts: dict[str, dict[str, Any]] = {
            "containers": {
                "submit": self.submit,
                "containers": self.containers,
                "container": self.container,
                "wait_status": self.standing,
                "explain": self.explain,
                "cancel": self.cancel,
                "set_priority": self.set_priority,
            },
            "jobs": {
                "submit": self.submit_job,
                "jobs": self.jobs,
                "job": self.job,
                "why_waiting": self.why_nowhere,
                "trouble": self.trouble,
                "cancel": self.cancel_job,
                "set_priority": self.set_job_priority,
                "hold": self.hold_job,
                "revise": self.revise_job,
                "plan": self.plan_job,
                "dispatch": self.dispatch_job,
            },
            "instances": {
                "instances": self.instances,
                "gone_instances": self.gone_instances,
                "instance": self.instance,
                "leaks": self.leaks,
                "strays": self.strays,
                "decide_strays": self.decide_strays,
                "set_idle_behavior": self.set_idle_behavior,
                "kill": self.kill_instance,
            },
            "logs": {"read": self.read_log, "problem": self.log_problem, "wait": self.wait_log},
            "health": {"health": self.health, "vitals": self.vitals},
        }
        made: dict[str, Any] = {name: SimpleNamespace(**part) for name, part in parts.items()}
        return Services(**made, events=cast(Broker, _Events(self)), metrics=self.metrics)

    # ---- for tests ------------------------------------------------------------------------------

    def add_instance(
        self, instance_id: str, *, instance_type: str = "small", state: str = "idle"
    ) -> InstanceView:
        """Add an instance."""
        now = self._now()
        return self._save_instance(
            InstanceView(
                id=instance_id,
                address="127.0.0.1:2222",
                state=state,
                idle_behavior="run",
                instance_type=instance_type,
                provider_type=f"cloud.{instance_type}",
                price_usd_per_hour=Decimal("0.34"),
                running=(),
                last_container="",
                created_at=now,
                last_busy_at=0.0,
                last_contact_at=now,
                broken="",
                last_error="",
            )
        )

    def lose_instance(self, instance_id: str, why: str) -> InstanceView:
        """Let an instance be gone."""
        view = self._instance(instance_id)
        gone = replace(view, state="gone", last_error=why, gone_at=self._now())
        return self._save_instance(gone)

    def start(self, container_id: str, instance_id: str) -> Container:
        """Let a container run on an instance, in a new attempt with empty logs."""
        container, view, now = (
            self._containers[container_id],
            self._instance(instance_id),
            self._now(),
        )
        number = len(container.attempts) + 1
        attempt = Attempt(
            id=f"{container_id}-{number}",
            container_id=container_id,
            number=number,
            instance_id=instance_id,
            instance_type=view.instance_type,
            price_usd_per_hour=view.price_usd_per_hour,
            created_at=now,
            started_at=now,
        )
        for stream in ("stdout", "stderr"):
            self._logs[container_id, stream].clear()
        running = tuple(sorted({*view.running, container_id}))
        self._save_instance(replace(view, state="running", running=running))
        return self._save(
            replace(
                container,
                state=ContainerState.RUNNING,
                started_at=now,
                attempts=(*container.attempts, attempt),
            )
        )

    def push_log(self, container_id: str, data: bytes, *, stream: str = "stdout") -> None:
        """Append to a stream of the last attempt."""
        self._logs[container_id, stream].extend(data)
        self._notify()

    def lose(self, container_id: str) -> Container:
        """End the running attempt as lost and queue the container again."""
        container = self._ended(container_id, AttemptOutcome.LOST, None)
        return self._save(replace(container, state=ContainerState.QUEUED))

    def finish(
        self, container_id: str, exit_code: int = 0, *, promised: tuple[int, int] | None = None
    ) -> Container:
        """End the running attempt with an exit code.

        `promised` are the bytes of stdout and stderr when some are still on their way: push them,
        or `give_up_log`.
        """
        good = exit_code == 0
        outcome = AttemptOutcome.SUCCEEDED if good else AttemptOutcome.FAILED
        container = self._ended(container_id, outcome, exit_code)
        if promised is not None:
            self._log_expected.add(container_id)
            *earlier, last = container.attempts
            last = replace(
                last, stdout_bytes=promised[0], stderr_bytes=promised[1], log_complete=False
            )
            container = replace(container, attempts=(*earlier, last))
        reason = None if good else Reason(code="exit_code", message=f"It exited with {exit_code}.")
        return self._save(
            replace(
                container,
                state=ContainerState.SUCCEEDED if good else ContainerState.FAILED,
                exit_code=exit_code,
                finished_at=self._now(),
                reason=reason,
                cost_usd=container.cost_usd + Decimal("0.0001"),
            )
        )

    def give_up_log(self, container_id: str) -> None:
        """Expect no more of a log, as when its instance is gone."""
        self._log_expected.discard(container_id)
        self._notify()

    def publish(self, kind: str, identifier: str, data: dict[str, object]) -> None:
        """Publish one event."""
        self._last_event += 1
        self._events.append(
            ServerEvent(number=self._last_event, kind=kind, id=identifier, data=data)
        )
        self._notify()

    def stop(self) -> None:
        """End all event iterators."""
        self._stopped = True
        self._notify()

    # ---- helpers --------------------------------------------------------------------------------

    def _save(self, container: Container) -> Container:
        self._containers[container.id] = container
        self.publish("container", container.id, {"state": container.state.value})
        return container

    def _save_instance(self, view: InstanceView) -> InstanceView:
        self._instances[view.id] = view
        self.publish("instance", view.id, {"state": view.state})
        return view

    def _ended(self, container_id: str, outcome: AttemptOutcome, code: int | None) -> Container:
        container, now = self._containers[container_id], self._now()
        *earlier, last = container.attempts
        sizes = {name: len(self._logs[container_id, name]) for name in ("stdout", "stderr")}
        ended = replace(
            last,
            outcome=outcome,
            exit_code=code,
            finished_at=now,
            stdout_bytes=sizes["stdout"],
            stderr_bytes=sizes["stderr"],
            log_complete=True,
        )
        view = self._instance(last.instance_id)
        running = tuple(one for one in view.running if one != container_id)
        self._save_instance(
            replace(
                view,
                running=running,
                state="running" if running else "idle",
                last_container=container_id,
                last_busy_at=now,
            )
        )
        return replace(container, attempts=(*earlier, ended))

    async def _unfinished(self, container_id: str) -> Container:
        container = await self.container(container_id)
        if container.state.final:
            raise Conflict(f"container {container_id} has ended: it is {container.state.value}")
        return container

    def _notify(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()

    async def _wait(self, timeout_s: float) -> None:
        try:
            async with asyncio.timeout(timeout_s):
                await self._changed.wait()
        except TimeoutError:
            return


class _Events:
    """A backend's events as the API takes them."""

    def __init__(self, backend: FakeBackend) -> None:
        self._backend = backend

    @property
    def last_number(self) -> int:
        return self._backend.last_event_number()

    def follow(self, after: int | None) -> AsyncIterator[ServerEvent]:
        return self._backend.events(after=after)


def _page(views: Sequence[InstanceView], cursor: str, limit: int) -> InstanceReport:
    first = number_before(cursor, 0)
    shown, following = tuple(views[first : first + limit]), first + limit
    more = f"before-{following}" if following < len(views) else None
    return InstanceReport(instances=shown, listed_at=EPOCH, complete=True, next_cursor=more)


def _promised(container: Container, stream: str) -> int:
    if not container.attempts:
        return 0
    last = container.attempts[-1]
    return last.stdout_bytes if stream == "stdout" else last.stderr_bytes
