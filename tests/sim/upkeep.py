"""The checks of when instances are ended and looked at: not too early, and not too late."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf

from longshore.dispatcher.domain.messages import BehaviorRequested, Event
from longshore.dispatcher.engine.outbox import STALLED_AFTER_S
from longshore.dispatcher.state.queue import ClassKey, Order, RequestClass
from longshore.drivers.interface import IDLE_BEHAVIOR_TAG
from longshore.pool import probing, shutdown_decision, signals
from longshore.pool.messages import (
    AttemptExited,
    Created,
    DestroyInstance,
    Listed,
    ListingFailed,
    ListInstances,
    PoolCommand,
    Probe,
    ProbeSucceeded,
    SessionLost,
    SetTags,
    StartAttempt,
    StartRefused,
)
from longshore.pool.model import IdleBehavior, Worker, WorkerState
from longshore.pool.transitions import Trigger
from tests.sim.hosts import Host
from tests.sim.process import DispatcherProcess
from tests.sim.timeline import Timeline
from tests.sim.truth import Truth, expect

SLACK = 1e-6
PATIENCE_OF_CREATES_S = 2.0
"""How long creates may have waited when a listing is asked for that goes before them."""

PASS_WITHIN_S = 10.0
"""How long it may take until a pass comes once one is wanted."""

PATIENCE_S = 60.0
"""How long a call may wait for its turn, holds aside."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Claim:
    """For whom a class has its last claim on something."""

    key: ClassKey
    order: Order
    container_id: str


class Upkeep:
    """Looks at one process: when it began, what it heard of whom, and what it did about it."""

    def __init__(
        self, process: DispatcherProcess, timeline: Timeline, truth: Truth, hosts: dict[str, Host]
    ) -> None:
        self._process = process
        self._pool = process.engine.pool
        self._timeline = timeline
        self._truth = truth
        self._hosts = hosts
        self._busy_at: dict[str, float] = {}
        self._contact_at: dict[str, float] = {}
        self._destroy_at: dict[str, float] = {}
        self._tags_differ_at: dict[str, float] = {}
        self._to_ask: dict[str, float] = {}
        self._asked_late: dict[str, float] = {}
        self._listing_at = timeline.now
        self._listing = False
        self._overtaken: tuple[float | None, int] = (None, 0)
        self._kept: dict[str, list[_Claim]] = {}
        self._rested_until: dict[str, float] = {}
        self._created: set[str] = set()
        self._let_run_at: dict[str, tuple[int, float]] = {}

    # ---- not too early ----

    def decided(self, command: PoolCommand) -> None:
        """Look at a command as it was decided."""
        now = self._timeline.now
        match command:
            case ListInstances():
                expect(not self._listing, "one listing at a time", command)
                self._listing = True
                self._listing_at = now
                self._expect_not_overtaken()
            case StartAttempt():
                if not self._is_resident(command.order.attempt_id):
                    self._busy_at[command.worker_id] = now
            case Probe():
                self._to_ask[command.worker_id] = now
            case SetTags():
                self._tags_differ_at.pop(command.instance_id, None)
            case DestroyInstance():
                if command.instance_id not in self._destroy_at:
                    self._on_first_destroy(command.instance_id, now)
                self._destroy_at[command.instance_id] = now
            case _:
                pass

    def _expect_not_overtaken(self) -> None:
        """Expect that creates that wait are overtaken by the listing that waits, and no later."""
        since = self._pool.cloud_gate.creates_since
        if since is None or self._process.now() <= since + PATIENCE_OF_CREATES_S:
            return
        known, count = self._overtaken
        self._overtaken = (since, count + 1 if known == since else 1)
        expect(self._overtaken[1] <= 1, "creates have their turn", f"they wait since {since}")

    def begun(self, command: PoolCommand) -> None:
        """Look at a command that begins."""
        if isinstance(command, Probe):
            self._asked(command)
        elif isinstance(command, ListInstances):
            self._listing_at = self._timeline.now

    def _asked(self, command: Probe) -> None:
        """Look at a probe that begins: what it follows is committed by now."""
        now = self._timeline.now
        if now >= self._to_ask.pop(command.worker_id) + STALLED_AFTER_S:
            self._asked_late[command.worker_id] = now
        stored = self._truth.store.instances.get(command.worker_id)
        pinned = stored.host_key if stored is not None else ""
        what = f"{command.worker_id}: {command.host_key!r}, stored is {pinned!r}"
        expect(not pinned or command.host_key == pinned, "a proven key is kept", what)
        void = not (command.host_key and command.secret)
        expect(void, "a proven key makes the secret void", command.worker_id)

    def _on_first_destroy(self, worker_id: str, now: float) -> None:
        worker = self._pool.workers.get(worker_id)
        if worker is None:
            return
        settings = self._pool.settings
        ended_by = {t for t in Trigger if worker.shutdown.reason.startswith(t.value)}
        busy_at = self._busy_at.get(worker_id, 0.0)
        if Trigger.IDLE_TIMEOUT in ended_by:
            early = now < busy_at + settings.idle_timeout_s - SLACK
            expect(not early, "no instance is ended early", f"{worker_id} was busy at {busy_at}")
            rested_until = self._rested_until.get(worker_id, worker.health.overloaded_until)
            rested = worker.state_since < rested_until + settings.idle_timeout_s - SLACK
            expect(not rested, "no instance is ended early", f"{worker_id} rested")
            asked = self._unasked_since(worker_id) == inf
            expect(asked, "nobody waits for what is idled out", f"{worker_id}: no pass was asked")
            offline = probing.is_offline(self._pool, worker, self._process.now())
            # Who is at the limit of containers loses a claim for one that comes before.
            waiting = self._process.engine.scheduling.waiting.values()
            limited = any(reason.code == "max_containers" for reason in waiting)
            kept = self._is_claimed(worker_id) and not offline and not limited
            awaited = worker_id in self._pool.claimed_workers or kept
            expect(not awaited, "nobody waits for what is idled out", worker_id)
        if ended_by & {Trigger.IDLE_TIMEOUT, Trigger.UNWANTED, Trigger.DRAINED}:
            patient = now >= busy_at + settings.probe_timeout_s - SLACK
            missing = sorted(a for a in worker.load.unreleased if not self._is_resident(a))
            given_up = any(signals.unkillable(a) for a in self._pool.attempts_on(worker_id))
            right = not missing or patient or given_up
            expect(right, "logs are waited for", f"{worker_id}: {missing}")
        if Trigger.DRAINED in ended_by:
            known = worker_id in self._created or worker_id in self._contact_at
            expect(known, "drain waits for what runs", f"nobody saw what {worker_id} runs")
        if Trigger.BOOT_TIMEOUT in ended_by and worker_id in self._hosts:
            end_at = self._hosts[worker_id].machine.created_at + settings.boot_timeout_s
            expect(now >= end_at - SLACK, "no instance is ended early", f"{worker_id} may boot")
            self._expect_asked(worker_id, settings.boot_timeout_s)
        if Trigger.PROBE_TIMEOUT in ended_by:
            self._expect_silence(worker_id)
            self._expect_asked(worker_id, settings.probe_timeout_s)

    def _is_claimed(self, worker_id: str) -> bool:
        """Return whether somebody who waits has, or inherits, a claim on a worker.

        Not if one that comes before all of them waits for a quota: at once without an event, for a
        hold has ended, a restart is due, or who had the claim starts where a rest has ended.
        """
        claimants = self._claimants(worker_id)
        if not claimants:
            return False
        scheduling, queue = self._process.engine.scheduling, self._process.engine.table.queue
        next_in_line: list[Order] = []
        for request_class in queue.classes():
            reason = scheduling.waiting.get(request_class.key)
            if reason is not None and reason.code == "at_quota":
                next_in_line += self._first_without_claim(request_class)
        return not next_in_line or min(next_in_line) >= min(claimants)

    def _claimants(self, worker_id: str) -> list[Order]:
        """Return who had claims on a worker; of whom has started since, who is next of its class.

        Of each class it is the least important that had one.
        """
        engine, found = self._process.engine, []
        classes = {each.key: each for each in engine.table.queue.classes()}
        for claim in self._kept.get(worker_id, []):
            if claim.container_id in engine.table.queue:
                found.append(claim.order)
            elif claim.key in classes:
                found += self._first_without_claim(classes[claim.key])
        return found

    def _first_without_claim(self, request_class: RequestClass) -> list[Order]:
        """Return the first of a class for whom it has no claim, [] when it has one for all."""
        claims = self._process.engine.scheduling.fleet_sync.fleet.claims.get(request_class.key, {})
        head = request_class.at(sum(claims.values()))
        return [head[0]] if head is not None else []

    def _claims(self) -> dict[str, list[_Claim]]:
        """Return the least important that each class has a claim for, by the awaited worker."""
        engine = self._process.engine
        found: dict[str, list[_Claim]] = {}
        if not self._pool.claimed_workers:
            return found
        for request_class in engine.table.queue.classes():
            by_slot = engine.scheduling.fleet_sync.fleet.claims.get(request_class.key, {})
            last = request_class.at(sum(by_slot.values()) - 1) if by_slot else None
            if last is not None:
                claim = _Claim(key=request_class.key, order=last[0], container_id=last[1])
                for worker_id in self._pool.claimed_workers.intersection(by_slot):
                    found.setdefault(worker_id, []).append(claim)
        return found

    def _expect_silence(self, worker_id: str) -> None:
        link = self._process.links.links.get(worker_id)
        # A session that a probe has just made is known to the pool when the probe ends.
        made_by_probe = link is not None and link.probing and link.cut_probe is None
        silent = link is None or link.session is None or made_by_probe
        expect(silent, "no instance is ended early", f"{worker_id} has a session")
        end_at = self._contact_at.get(worker_id, 0.0) + self._pool.settings.probe_timeout_s
        early = self._process.now() < end_at - SLACK
        expect(not early, "no instance is ended early", f"{worker_id} was heard of")

    def _expect_asked(self, worker_id: str, patience_s: float) -> None:
        """Expect that an instance whose probe had to wait was asked, and had time to answer."""
        now = self._timeline.now
        waits = now >= self._to_ask.get(worker_id, now) + STALLED_AFTER_S
        expect(not waits, "no instance is ended early", f"{worker_id} was not even asked")
        early = now < self._asked_late.get(worker_id, -inf) + patience_s - SLACK
        expect(not early, "no instance is ended early", f"{worker_id} was asked late")

    # ---- what is heard ----

    def heard(self, event: Event) -> None:
        """Look at an event before the engine gets it."""
        now = self._timeline.now
        match event:
            case Listed():
                self._listing = False
                self._compare_tags(event, now)
            case ListingFailed():
                self._listing = False
            case Created():
                self._created.add(event.instance.id)
            case StartRefused():
                self._note_rest(event.worker_id)
            case BehaviorRequested():
                self._let_run(event.worker_id, event.behavior)
            case ProbeSucceeded():
                self._contact(event.worker_id, event.began_at)
                if not event.boot_error:
                    self._busy_at.setdefault(event.worker_id, now)
            case SessionLost():
                self._contact(event.worker_id, event.last_contact)
            case AttemptExited():
                self._note_exit(event, now)
            case _:
                pass

    def _note_exit(self, event: AttemptExited, now: float) -> None:
        attempt = self._pool.attempts.get(event.attempt_id)
        worker = self._pool.workers.get(event.worker_id)
        busy = worker is not None and event.attempt_id in worker.load.attempts
        if busy and attempt is not None and not self._is_resident(attempt.id):
            self._busy_at[event.worker_id] = now

    def _is_resident(self, attempt_id: str) -> bool:
        """Return whether an attempt is one that keeps no instance busy."""
        container_id = attempt_id.rpartition("-")[0]
        container = self._process.engine.table.containers.get(container_id)
        new = container is not None and bool(container.pinned_to)
        return new or self._truth.is_resident(attempt_id)

    def _let_run(self, worker_id: str, behavior: IdleBehavior) -> None:
        """Note before which pass a worker is let run again."""
        worker = self._pool.workers.get(worker_id)
        if worker is not None and behavior is IdleBehavior.RUN and worker.behavior is not behavior:
            self._let_run_at[worker_id] = (
                self._process.engine.scheduling.passes,
                self._process.now(),
            )

    def _unasked_since(self, worker_id: str) -> float:
        """Return since when a worker that is let run again waits for a pass, never for inf."""
        passes, since = self._let_run_at.get(worker_id, (-1, inf))
        return since if passes == self._process.engine.scheduling.passes else inf

    def _note_rest(self, worker_id: str) -> None:
        """Note until when a worker rested, if its end is decided: what it refuses now is no rest.

        Only its residents are waited for.
        """
        worker = self._pool.workers.get(worker_id)
        if worker is not None and worker.state is WorkerState.SHUTDOWN:
            self._rested_until.setdefault(worker_id, worker.health.overloaded_until)

    def _contact(self, worker_id: str, at: float) -> None:
        worker = self._pool.workers.get(worker_id)
        if worker is not None and worker.state is WorkerState.SHUTDOWN:
            # Its end was decided before; only the destroy waits for its turn.
            return
        self._contact_at[worker_id] = max(at, self._contact_at.get(worker_id, at))

    def _compare_tags(self, event: Listed, now: float) -> None:
        for seen in event.instances:
            worker = self._pool.workers.get(seen.id)
            # What the tags of one that is only remembered say is not known before.
            known = worker is not None and not worker.cloud.remembered
            if worker is None or not known or worker.state is WorkerState.SHUTDOWN:
                continue
            if dict(seen.tags).get(IDLE_BEHAVIOR_TAG) == worker.behavior.value:
                self._tags_differ_at.pop(seen.id, None)
            else:
                self._tags_differ_at.setdefault(seen.id, now)

    # ---- not too late ----

    def look(self, other_held_until: float, listing_held_until: float) -> None:
        """Look at what is overdue after an event; holds excuse calls of the cloud's."""
        now = self._timeline.now
        listing_due = self._listing_at + self._pool.settings.sync_interval_s
        late = not self._listing and now > max(listing_due, listing_held_until) + PATIENCE_S
        expect(not late, "the listing goes on", f"the last was at {self._listing_at}")
        waiting_at = self._pool.cloud_gate.creates_since
        starved = waiting_at is not None and self._process.now() > waiting_at + PATIENCE_S
        expect(not starved, "creates have their turn", f"they wait since {waiting_at}")
        for worker_id in sorted(self._pool.workers):
            worker = self._pool.workers[worker_id]
            if worker.state is WorkerState.SHUTDOWN:
                self._tags_differ_at.pop(worker_id, None)
                self._expect_repeated(worker, max(now - PATIENCE_S, 0.0), other_held_until)
            elif worker.behavior is not IdleBehavior.HOLD and not worker.cloud.remembered:
                self._expect_ended(worker)
        self._expect_no_return()
        # What a pass that is due will say of them is not known yet.
        due = self._process.due
        planned = due is None or due > self._process.now()
        self._kept = self._claims() if planned else {}
        for worker_id in sorted(self._tags_differ_at):
            if worker_id not in self._pool.workers:
                del self._tags_differ_at[worker_id]
                continue
            due = max(self._tags_differ_at[worker_id], other_held_until) + PATIENCE_S
            expect(now <= due, "tags are what is wanted", f"{worker_id}: {due}")

    def _expect_no_return(self) -> None:
        """Expect that what is destroyed does not live again, unless it was gone in between."""
        for worker_id in sorted(self._destroy_at):
            worker = self._pool.workers.get(worker_id)
            if worker is None:
                del self._destroy_at[worker_id]
                continue
            ending = worker.state is WorkerState.SHUTDOWN
            expect(ending, "what is destroyed stays so", f"{worker_id} is {worker.state.value}")

    def _expect_repeated(self, worker: Worker, latest: float, held_until: float) -> None:
        """Expect that a destroy is asked for again until the instance is gone."""
        shut_down_at = worker.state_since - self._process.now() + self._timeline.now
        recovered_at = self._pool.recovered_at - self._process.now() + self._timeline.now
        last = max(shut_down_at, recovered_at, self._destroy_at.get(worker.id, 0.0))
        due = max(last + self._pool.settings.shutdown_timeout_s, held_until)
        in_time = latest <= due or self._pool.stalled
        expect(in_time, "a destroy is repeated", f"{worker.id}: the last was at {last}")

    def _expect_ended(self, worker: Worker) -> None:
        """Expect that a worker would be shut down if it were overdue."""
        settings, now = self._pool.settings, self._process.now() - 1.0
        if self._pool.stalled:
            store = self._truth.store
            away = store.stalled_in_last(PATIENCE_S) or not store.caught_up
            expect(away, "no silent instance is kept", "nothing keeps the store from writing")
            return
        recovered_at = self._pool.recovered_at
        draining = shutdown_decision.is_draining(worker)
        ready = worker.state in (WorkerState.IDLE, WorkerState.RUNNING)
        if ready and not worker.link.session_up:
            due = max(worker.link.last_contact, recovered_at) + settings.probe_timeout_s
            expect(now <= due, "no silent instance is kept", f"{worker.id}")
        elif not ready and not draining:
            due = max(worker.link.boots_since, recovered_at) + settings.boot_timeout_s
            expect(now <= due, "no instance boots for ever", f"{worker.id}")
        if worker.state is not WorkerState.IDLE or worker.load.unreleased:
            return
        unasked = now > self._unasked_since(worker.id) + PASS_WITHIN_S
        kept = worker.id in self._pool.claimed_workers and not unasked
        due = max(worker.state_since, worker.health.overloaded_until) + settings.idle_timeout_s
        expect(kept or now <= due, "no idle instance is kept", f"{worker.id}")
        expect(not draining, "no drained instance is kept", f"{worker.id}")
