"""The pool's state, and the few moves that all of its reactors share.

The reactors (`listing`, `launching`, `probing`, `attempts`, `shutdown`) are functions on a
`PoolCore`. They have no effects: what is to be done goes to `commands`, what the engine must know
to `notices`. What a `PoolCore` keeps, by group:

- *What it was made with*: settings, types and names, and where tokens, secrets and dice come from.
- *What is there*: `workers`, `launches` and `attempts`. An attempt is found by its instance too,
  and what it takes there is counted in its worker's `load`; `check`, below, says what must hold.
- *What outlives a worker*: its key, what admins asked for (`asked_...`), and how it left
  (`doubtful`, `ended`). An instance that one listing lacks may be in the next, so that this is
  forgotten an hour after the worker is: `forget_later` sets the time, `forget` does it.
- *What the cloud is to tell*: `bills`, of those that are gone.
- *What makes things wait*: `holds` of creates, `cloud_gate` and `probe_gate` for the rates of calls
  and probes, and the `timers`, which are all the deadlines that there are.
- *What listings tell*: when the last one was, how the next stands, and until the first complete one
  has come (`listed_once`) which instances are `unlisted`. Nothing is created or concluded before.
- *What fails*: `listing_trouble` and `troubles` for people; the row of `boot_failures`, which holds
  creates; and whether the store is stalled (`stalled`), so that silence says nothing.
- *What goes out*: `commands`, `notices`, the feeds of changes (`touch`), and `statistics`.

A worker changes its state by `move` alone. The same is how it leaves: its attempts are lost, its
deadlines and waiting calls are dropped, and its launch is kept unless its key was proven.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from decimal import Decimal

from longshore.drivers.errors import BugError
from longshore.drivers.interface import TOKEN_TAG, Existence, InstanceType
from longshore.pool.changes import ChangeFeed
from longshore.pool.charging import charge, found_as, room_left, shares_a_cpu
from longshore.pool.create_backoff import CreateBackoff
from longshore.pool.messages import (
    AskBills,
    CloseSession,
    CreateInstance,
    DestroyInstance,
    FindInstance,
    ListInstances,
    PoolCommand,
    SetTags,
)
from longshore.pool.model import (
    AttemptExit,
    BehaviorNote,
    CloudRecord,
    Doubtful,
    IdleBehavior,
    InstanceSeen,
    LinkRecord,
    LoadRecord,
    MachineSize,
    PendingLaunch,
    PoolAttempt,
    PoolSettings,
    ShutdownRecord,
    Worker,
    WorkerState,
    stray_id,
)
from longshore.pool.open_bills import OpenBills
from longshore.pool.pool_events import (
    AttemptEnd,
    EndKind,
    LaunchEnded,
    Notice,
    StrayGone,
    WorkerChanged,
    WorkerGone,
)
from longshore.pool.rate_limits import CloudGate, ProbeGate
from longshore.pool.statistics import Statistics
from longshore.pool.tags import behavior_from, is_unrecognised
from longshore.pool.timers import Lasts, TimerKind, Timers
from longshore.pool.transitions import Removed, Trigger, next_state
from longshore.pool.troubles import CreateTroubles, Trouble

_KEY_KEPT_S = 3600.0
MOST_NOTES_OF_GONE = 1000


class PoolCore:
    """All that the pool knows, with the outboxes of its reactors.

    Those fields whose names do not say it all, by the groups at the top of the module:

    - `launches` are by token, all else by id. `doubted_launches` are the tokens of those in doubt.
      `claimed_workers` are those that a claim waits for, and those let run again that no pass has
      looked at since.
    - By instance, and kept for an hour after its worker: `pinned_keys`; `asked_behaviors`, what
      admins asked for, until tags show it; `asked_notes`, what they said of it (notes of a hold are
      kept longer, at most `MOST_NOTES_OF_GONE` of them); `asked_kills`, why they ended it;
      `doubtful`, those that no listing ever showed until they were let go; `ended`, with the
      reason, those whose end we had asked for when they left.
    - `unlisted` are, until the first complete listing, the instances that an earlier process knew,
      as far as they are known; those that it lacks become workers that are `remembered`.
      `listed_at` is when the latest one began, `listing_op` the one under way, 0 for none;
      `listing_problem` is why the latest failed, "" if it did not, `listing_trouble` since when
      they do.
    - `zone_prices` is what an hour costs in zones, by type and zone, as far as it was told.
    - `machines` is what the machines of a type have, by its name, where that is clearly less than
      the type says (`pool.sizes`).
    - `boot_failures` is how many instances in a row were of no use, `boot_failure_reason` why the
      last was, `boot_failures_since` when the oldest was bought; what was bought before
      `boot_failures_until` adds nothing (`pool.boot_failures`). `troubles` are the creates that
      fail.
    - `stalled` says that the store is stalled, `recovered_at` when it recovered last.
    """

    def __init__(
        self,
        *,
        settings: PoolSettings,
        types: Mapping[str, InstanceType],
        cluster: str,
        new_token: Callable[[], str],
        new_secret: Callable[[], str],
        dice: Callable[[], float],
        quota_groups: Mapping[str, str],
        store: str = "",
        spares_unknown: bool = False,
        asks_bills: bool = False,
    ) -> None:
        """Make the state of a pool that knows no instance.

        `store` is the id of the store that knows what was placed, "" where stores have none;
        `spares_unknown` says that another store may have known instances that nobody can reach.
        `asks_bills` says that the driver can be asked how instances were billed (`Bills`).
        `dice` returns numbers from 0 to below 1; `quota_groups` names the cloud's limit that each
        type (by name) counts against, types that are not in it share one.
        """
        self.settings = settings
        self.types = dict(types)
        self.zone_prices: dict[tuple[str, str], Decimal] = {}
        self.cluster = cluster
        self.store = store
        self.spares_unknown = spares_unknown
        self.new_token = new_token
        self.new_secret = new_secret
        self.dice = dice
        self.quota_groups = dict(quota_groups)
        self.workers: dict[str, Worker] = {}
        self.launches: dict[str, PendingLaunch] = {}
        self.doubted_launches: set[str] = set()
        self.attempts: dict[str, PoolAttempt] = {}
        self.claimed_workers: frozenset[str] = frozenset()
        self._attempts_on: dict[str, dict[str, PoolAttempt]] = {}
        self.pinned_keys: dict[str, str] = {}
        self.asked_behaviors: dict[str, IdleBehavior] = {}
        self.asked_notes: dict[str, BehaviorNote] = {}
        self.asked_kills: dict[str, str] = {}
        self.bills = OpenBills(asks=asks_bills)
        self.holds = CreateBackoff(settings=settings, types=types, groups=quota_groups)
        self.cloud_gate = CloudGate(settings.max_cloud_ops_per_second)
        self.probe_gate = ProbeGate(settings.max_probes_per_second)
        self.timers = Timers()
        self.began_at = 0.0
        self.listed_once = False
        self.unlisted: dict[str, InstanceSeen] = {}
        self.machines: dict[str, MachineSize] = {}
        self.doubtful: dict[str, Doubtful] = {}
        self.ended: dict[str, str] = {}
        self.listed_at = 0.0
        self.listing_op = self.listing_failures = 0
        self.listing_problem = ""
        self.listing_trouble: Trouble | None = None
        self.troubles = CreateTroubles()
        self.boot_failures = 0
        self.boot_failure_reason = ""
        self.boot_failures_since = math.inf
        self.boot_failures_until = -math.inf
        self.stalled = False
        self.recovered_at = -math.inf
        self._feeds: list[ChangeFeed] = []
        self.commands: list[PoolCommand] = []
        self.notices: list[Notice] = []
        self.statistics = Statistics()
        self._last_op = 0

    def next_op(self) -> int:
        """Return a fresh operation id."""
        self._last_op += 1
        return self._last_op

    def ask_cloud(
        self,
        call: ListInstances | CreateInstance | DestroyInstance | SetTags | FindInstance | AskBills,
        now: float,
    ) -> None:
        """Send a call of the cloud's when its turn comes: at once, or later by a timer.

        A create is sent at once; `BugError` when the planner was not told that it may be.
        """
        if isinstance(call, CreateInstance):
            self.cloud_gate.take_for_create(now)
            self.commands.append(call)
            return
        self.cloud_gate.ask(call, now)
        self.release_cloud(now)

    def release_cloud(self, now: float) -> None:
        """Send the waiting calls whose turn it is, and arm the timer of the next."""
        for call in self.cloud_gate.release(now):
            self.commands.append(call)
            if isinstance(call, DestroyInstance):
                again_at = now + self.settings.shutdown_timeout_s
                self.timers.set(TimerKind.DESTROY, call.instance_id, again_at)
        self.timers.arm(TimerKind.CLOUD, self.cloud_gate.next_at(now))

    def jittered_s(self, delay_s: float) -> float:
        """Return a delay made longer or shorter by up to a tenth, so that probes spread."""
        return delay_s * (0.9 + 0.2 * self.dice())

    def add_worker(self, seen: InstanceSeen, type_: InstanceType, *, now: float) -> Worker:
        """Make the record of an instance that was not known; its state is `unknown`."""
        tags = dict(seen.tags)
        billed = self.bills.there(seen, self.unlisted.pop(seen.id, None))
        worker = Worker(
            id=seen.id,
            type=type_,
            token="",
            appeared_at=now,
            state=WorkerState.UNKNOWN,
            state_since=now,
            behavior=self.asked_behaviors.get(seen.id, behavior_from(tags)),
            untagged=seen.id in self.asked_behaviors,
            noted=self.asked_notes.get(seen.id),
            cloud=CloudRecord(address=seen.address, listed_at=now, billed=billed),
            link=LinkRecord(host_key=self.pinned_keys.get(seen.id, ""), boots_since=now),
            load=LoadRecord(expected=self.machines.get(type_.name)),
            shutdown=ShutdownRecord(killed=self.asked_kills.get(seen.id)),
        )
        worker.load.added_up(room_left(worker))
        if worker.noted is not None and worker.noted.until is not None:
            self.timers.set(TimerKind.RELEASE, worker.id, worker.noted.until)
        self.workers[seen.id] = worker
        self.price_in_zone(worker)
        self.doubtful.pop(seen.id, None)
        self.bind_launch(worker, tags.get(TOKEN_TAG, ""))
        for attempt in self.attempts_on(seen.id):
            self.hold_resources(worker, attempt)
            if attempt.is_finished:
                worker.load.awaits_log(attempt.id)
        self.note_changed(worker, "it is new to the pool")
        return worker

    def touch(self, worker_id: str) -> None:
        """Note that what the planner sees of a worker may have changed."""
        for feed in self._feeds:
            feed.note(worker_id)

    def follow(self) -> ChangeFeed:
        """Return a feed of the workers that change from now on, for one reader that drains it."""
        feed = ChangeFeed()
        self._feeds.append(feed)
        return feed

    def as_found(self, type_: InstanceType) -> InstanceType:
        """Return a type as its instances turned out to be, which is as it is for most."""
        return found_as(type_, self.machines.get(type_.name))

    def reprice(
        self, usd_per_hour: Mapping[str, Decimal], in_zones: Mapping[tuple[str, str], Decimal]
    ) -> None:
        """Let types, and the instances of them, cost what an hour does now; others stay.

        `in_zones` is by type and zone; 0 is no price.
        """
        self.zone_prices.update(in_zones)
        for name, price in sorted(usd_per_hour.items()):
            if name in self.types:
                self.types[name] = replace(self.types[name], price_usd_per_hour=price)
        for worker in self.workers.values():
            price = usd_per_hour.get(worker.type.name, worker.type.price_usd_per_hour)
            if price != worker.type.price_usd_per_hour:
                worker.type = replace(worker.type, price_usd_per_hour=price)
                self.touch(worker.id)
            self.price_in_zone(worker)

    def price_in_zone(self, worker: Worker) -> None:
        """Let a worker cost what is told of its zone, if anything is."""
        price = self.zone_prices.get((worker.type.name, worker.cloud.billed.zone)) or None
        if price != worker.cloud.zone_usd_per_hour:
            worker.cloud.zone_usd_per_hour = price
            self.touch(worker.id)

    def note_changed(self, worker: Worker, why: str, *, warns: bool = False) -> None:
        """Tell the engine that a worker is new or changed, and why; `warns` of what is wrong."""
        self.touch(worker.id)
        self.notices.append(
            WorkerChanged(worker_id=worker.id, state=worker.state.value, reason=why, warns=warns)
        )

    def attempts_on(self, worker_id: str) -> list[PoolAttempt]:
        """Return the attempts that are or may be on a worker, in the order of their ids."""
        found = self._attempts_on.get(worker_id, {})
        return [found[attempt_id] for attempt_id in sorted(found)]

    def bind_launch(self, worker: Worker, token: str) -> None:
        """Note which launch a worker came of; an unknown token says only that it has one.

        The launch brings no other instance then, its secret can prove the worker's key, and its
        type is the worker's.
        """
        worker.token = token
        self.touch(worker.id)
        pending = self.launches.get(token)
        if pending is None:
            return
        pending.instance_id = worker.id
        worker.launched_here = pending.op_id != 0
        pending.counted = False
        pending.seen_and_gone = False
        self.review_doubt(token)
        if not worker.link.host_key:
            worker.link.secret = pending.launch.secret
        type_ = self.types.get(pending.launch.type_name)
        if type_ is not None:
            self.learn_type(worker, type_)

    def learn_type(self, worker: Worker, type_: InstanceType) -> None:
        """Give a worker its type in place of a stand-in; one that has its type keeps it."""
        if not is_unrecognised(worker.type) or type_ == worker.type:
            return
        worker.type = type_
        worker.load.expect(self.machines.get(type_.name))
        worker.load.added_up(room_left(worker))
        self.note_changed(worker, f"its type is {type_.name}")

    def expected_launches(self) -> list[PendingLaunch]:
        """Return the launches, oldest first, that may still bring an instance not known here.

        An instance may be listed before its token is. So each worker without a token is taken for
        what came of one launch of its type that began before the worker was first seen.
        """
        expected = sorted(
            (p for p in self.launches.values() if p.counted and not p.instance_id),
            key=lambda p: (p.launch.created_at, p.launch.token),
        )
        if not expected:
            return []
        began: dict[str, list[float]] = {}
        for pending in expected:
            began.setdefault(pending.launch.type_name, []).append(pending.launch.created_at)
        untold = sorted(
            (worker.appeared_at, worker.type.name)
            for worker in self.workers.values()
            if worker.state is not WorkerState.SHUTDOWN
            and not worker.token
            and worker.type.name in began
        )
        standing: Counter[str] = Counter()
        for appeared_at, name in untold:
            if appeared_at >= min(began[name][standing[name] :], default=math.inf):
                standing[name] += 1
        left = []
        for pending in expected:
            if standing[pending.launch.type_name] > 0:
                standing[pending.launch.type_name] -= 1
            else:
                left.append(pending)
        return left

    def unlisted_tokens(self) -> dict[str, str]:
        """Return the token of the launch, "" for none, of each missing instance."""
        return {id_: dict(seen.tags).get(TOKEN_TAG, "") for id_, seen in self.unlisted.items()}

    def unlisted_beside(self, expected: Iterable[PendingLaunch]) -> list[str]:
        """Return the missing instances, in order, without those that launches of `expected` made.

        Whoever adds the two up counts each instance once.
        """
        tokens = {pending.launch.token for pending in expected}
        unlisted = self.unlisted_tokens()
        return sorted(id_ for id_, token in unlisted.items() if token not in tokens)

    def find_attempt(self, worker_id: str, remote_id: str) -> PoolAttempt | None:
        """Return what an instance means by an attempt's name: one of its own, or None.

        An instance has no say about attempts on others.
        """
        attempt = self.attempts.get(remote_id)
        if attempt is not None and attempt.worker_id == worker_id and not attempt.stray:
            return attempt
        return self.attempts.get(stray_id(worker_id, remote_id))

    def add_attempt(self, attempt: PoolAttempt) -> None:
        """Take an attempt into the records; its resources are not counted yet."""
        self.attempts[attempt.id] = attempt
        self._attempts_on.setdefault(attempt.worker_id, {})[attempt.id] = attempt

    def hold_resources(self, worker: Worker, attempt: PoolAttempt) -> None:
        """Count an attempt's resources as used on a worker; twice is once.

        What asks for no cpus shares one with its like: the first of them takes it.
        """
        if attempt.id not in worker.load.attempts and not attempt.is_finished:
            taken, load = attempt.resources, worker.load
            # Nobody knows what a stray takes, and it is being ended.
            shares = not attempt.stray and shares_a_cpu(taken)
            if shares:
                taken = charge(taken, on_shared_cpu=load.on_shared_cpu)
            load.hold(attempt.id, attempt.resources, taken=taken, shares=shares)
            unaccounted = bool(attempt.store)
            load.hold_apart(attempt.id, resident=attempt.resident, unaccounted=unaccounted)
            self.touch(worker.id)

    def free_resources(self, worker: Worker, attempt_id: str) -> None:
        """Give an attempt's resources back; none held is no error.

        The last of those that share a cpu gives that back too.
        """
        shared = attempt_id in worker.load.sharing
        held = worker.load.let_go(attempt_id)
        if held is None:
            return
        if shared:
            held = charge(held, on_shared_cpu=worker.load.on_shared_cpu)
        worker.load.give_back(held)
        self.touch(worker.id)

    def move(self, worker: Worker, trigger: Trigger, now: float) -> None:
        """Make one move of the transition table; an illegal one raises and changes nothing."""
        state = next_state(worker.state, trigger)
        self.statistics.moved(worker, state, trigger, now)
        if isinstance(state, Removed):
            self._remove(worker, trigger, now)
            return
        worker.invalidate_probe()
        if state is not worker.state:
            worker.state = state
            self.touch(worker.id)
            worker.state_since = now
            self.note_changed(worker, worker.shutdown.reason or trigger.value)

    def _let_go(self, worker: Worker, now: float) -> None:
        """Keep the journal of an instance that left before its key was proven: it may show again.

        A listing may lack an instance that is new (eventual consistency); without the secret it
        could not prove its key when it comes back. One that none ever showed, and that the cloud
        did not say is gone, is in doubt from now on.
        """
        told = worker.cloud.absence is not None and worker.cloud.absence.existence is Existence.GONE
        was_there = worker.cloud.listed or worker.shutdown.destroy_accepted or told
        if not was_there:
            self.doubtful[worker.id] = Doubtful(
                id=worker.id,
                token=worker.token,
                type=worker.type,
                appeared_at=worker.appeared_at,
                let_go_at=now,
            )
        pending = self.launches.get(worker.token)
        if pending is None:
            return
        if worker.link.host_key and not pending.in_flight:
            self.end_launch(worker.token)
            return
        pending.instance_id = ""
        pending.lost_answer_at = worker.appeared_at if was_there else now
        pending.seen_and_gone = True
        self.review_doubt(worker.token)

    def _remove(self, worker: Worker, trigger: Trigger, now: float) -> None:
        del self.workers[worker.id]
        self.touch(worker.id)
        self.forget_later(worker.id, now)
        self.timers.clear_all(worker.id, Lasts.UNTIL_SHUTDOWN, Lasts.UNTIL_GONE)
        self.cloud_gate.drop(worker.id)
        self.holds.instance_left(worker.type, now)
        self.commands.append(CloseSession(worker_id=worker.id))
        at = worker.health.interruption
        taken_back = f"the cloud took it back, as it had said that it would at {at}" if at else ""
        gone = worker.shutdown.reason or taken_back or trigger.value
        if worker.cloud.reason and not worker.shutdown.reason:
            gone = f"{gone}: {worker.cloud.reason}"
        for attempt in self.attempts_on(worker.id):
            why = f"its instance {worker.id} is gone ({gone})"
            self._lose_attempt(worker, attempt, why)
        self._let_go(worker, now)
        if worker.state is WorkerState.SHUTDOWN:
            self.ended[worker.id] = worker.shutdown.reason
        self.notices.append(
            WorkerGone(
                worker_id=worker.id,
                state=worker.state.value,
                reason=gone,
                seen_at=_heard_at(worker),
            )
        )
        self.bills.handed_in[worker.id] = worker.cloud.billed
        self.timers.soonest(TimerKind.BILLS, "", now)

    def forget_later(self, instance_id: str, now: float) -> None:
        """Let the key of an instance that is gone, and what admins asked, be forgotten in an hour.

        It may be missing from one listing and be back in the next.
        """
        self.timers.set(TimerKind.KEY, instance_id, now + _KEY_KEPT_S)

    def forget(self, instance_id: str) -> None:
        """Forget what was kept of an instance that is gone.

        A note of a hold or a drain stays, unless we ended the instance: should it come back after
        all, its tags still have that behavior, and the note says when it ends.
        """
        if instance_id in self.workers:
            return
        note = self.asked_notes.get(instance_id)
        if note is not None and (note.behavior is IdleBehavior.RUN or instance_id in self.ended):
            del self.asked_notes[instance_id]
        gone = [each for each in self.asked_notes if each not in self.workers]
        for each in gone[: max(0, len(gone) - MOST_NOTES_OF_GONE)]:
            del self.asked_notes[each]
        self.pinned_keys.pop(instance_id, None)
        self.asked_behaviors.pop(instance_id, None)
        self.asked_kills.pop(instance_id, None)
        self.doubtful.pop(instance_id, None)
        self.ended.pop(instance_id, None)

    def _lose_attempt(self, worker: Worker, attempt: PoolAttempt, why: str) -> None:
        """Give up an attempt whose instance is gone."""
        self.forget_attempt(attempt.id)
        if not attempt.stray and not attempt.is_finished:
            lost = AttemptEnd(
                attempt_id=attempt.id,
                kind=EndKind.INSTANCE_GONE,
                cause=why,
                seen_at=_seen_at(worker),
                interrupted=bool(worker.health.interruption),
            )
            self.notices.append(lost)

    def forget_attempt(self, attempt_id: str, how: AttemptExit | None = None) -> None:
        """Drop an attempt's record and its timers; unknown is no error.

        `how` is how a stray ended, None where nobody knows.
        """
        self.timers.clear(TimerKind.SIGNAL, attempt_id)
        self.timers.clear(TimerKind.PROOF, attempt_id)
        attempt = self.attempts.pop(attempt_id, None)
        if attempt is not None:
            others = self._attempts_on[attempt.worker_id]
            del others[attempt_id]
            if not others:
                del self._attempts_on[attempt.worker_id]
            if attempt.stray:
                self.notices.append(
                    StrayGone(
                        attempt_id=attempt.remote_id,
                        worker_id=attempt.worker_id,
                        container_id=attempt.container_id,
                        exit=how,
                    )
                )

    def end_launch(self, token: str) -> None:
        """Forget a launch: it needs no journal any more."""
        del self.launches[token]
        self.review_doubt(token)
        self.notices.append(LaunchEnded(token=token))

    def review_doubt(self, token: str) -> None:
        """Note whether a launch is in doubt, after whatever that follows from has changed."""
        pending = self.launches.get(token)
        if pending is not None and pending.is_in_doubt:
            self.doubted_launches.add(token)
        else:
            self.doubted_launches.discard(token)


def _heard_at(worker: Worker) -> float | None:
    """Return when a worker was heard of last, None where that was before a restart."""
    return max(worker.link.last_contact, worker.cloud.listed_at) or None


def _seen_at(worker: Worker) -> float:
    """Return when a worker was heard of last; of one from before a restart, when it was missed."""
    return _heard_at(worker) or worker.appeared_at


# ---- the invariants of the pool's state, which tests look at after every event -------------------


def check(core: PoolCore) -> None:
    """Raise `BugError` when an invariant of the pool does not hold."""
    residents: dict[str, set[str]] = {}
    for attempt in core.attempts.values():
        if attempt.resident:
            residents.setdefault(attempt.worker_id, set()).add(attempt.id)
    doubted = {token for token, pending in core.launches.items() if pending.is_in_doubt}
    if doubted != core.doubted_launches:
        raise BugError(f"launches {sorted(doubted ^ core.doubted_launches)}: in doubt or not")
    for worker in core.workers.values():
        _check_worker(core, worker, residents.get(worker.id, set()))
    for attempt in core.attempts.values():
        if attempt.worker_id not in core.workers and core.listed_once:
            raise BugError(f"{attempt.id}: on a worker that is not known")


def _check_worker(core: PoolCore, worker: Worker, residents: set[str]) -> None:
    if worker.load.free != room_left(worker):
        raise BugError(f"{worker.id}: free resources do not add up")
    if worker.state is WorkerState.IDLE and worker.load.busy_with:
        busy = sorted(worker.load.attempts.keys() - worker.load.resident)
        raise BugError(f"{worker.id}: idle with attempts {busy}")
    if worker.state is WorkerState.RUNNING and not worker.load.busy_with:
        raise BugError(f"{worker.id}: running without an attempt")
    if worker.load.resident != residents & worker.load.attempts.keys():
        raise BugError(f"{worker.id}: its residents do not add up")
    waits = worker.state is WorkerState.SHUTDOWN and worker.link.session_up
    if waits != (core.timers.due(TimerKind.DISMISSAL, worker.id) is not None):
        raise BugError(f"{worker.id}: it waits for its residents without end, or for none")
    if not worker.load.attempts.keys() <= core.attempts.keys():
        strangers = sorted(worker.load.attempts.keys() - core.attempts.keys())
        raise BugError(f"{worker.id}: holds room for unknown attempts {strangers}")
