"""Writes down what the ledger is reckoned from, while it happens; pure.

At the end of each event, before its changes are committed, the recorder looks at the workers that
have changed. What one is now is compared with what was written last: where it differs, the open
interval is closed and the next opened at the same instant, so that there is neither gap nor
overlap. The closed and the opened ones are in the same commit as what caused them. An open interval
is in the store from its beginning: a process that starts again goes on with it, and the time in
which none ran belongs to what was true when it ended.

So that what ends while none runs is not taken for there, nor for gone since it was new, it is
written when the latest complete listing began. What that shows, or what was heard of since, was
there then; of what was not, the bill says when it was last known to be.

Nothing is reckoned here: prices, hours and shares of the whole are `dispatcher.cost`'s concern.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from decimal import Decimal
from fractions import Fraction
from typing import Final, assert_never

from longshore.dispatcher.cost.money import in_dollars, nusd_of
from longshore.dispatcher.cost.shares import dominant_share
from longshore.dispatcher.domain.containers import Attempt, AttemptOutcome, Container, Placement
from longshore.dispatcher.domain.ledger import (
    CLUSTER,
    OF_INSTANCE,
    Account,
    BilledState,
    CostOutcome,
    InstanceBill,
    Interval,
    ms_of,
)
from longshore.dispatcher.domain.messages import Change, NoteListing, SaveBill, SaveInterval
from longshore.dispatcher.domain.queries import LATEST_BILLS
from longshore.dispatcher.state.containers import ContainerTable
from longshore.dispatcher.state.launch_recorder import LaunchRecorder, account_of_payer
from longshore.dispatcher.state.spend_limits import placement_of
from longshore.drivers.billing import AS_USED, Billed, BillingRule
from longshore.drivers.errors import BugError
from longshore.pool.core import PoolCore
from longshore.pool.model import READY, IdleBehavior, Worker, WorkerState
from longshore.pool.tags import is_stand_in

DAEMON: Final = "daemon"
LEAK: Final = "leak"
NOTE_EACH_MS: Final = 5_000
"""How often it is written what listings show: while instances end they come in quick succession."""
MOST_ENDED: Final = LATEST_BILLS
"""How many instances that are gone and whose bill is final are remembered, should one come back."""

_OUTCOMES = {
    AttemptOutcome.SUCCEEDED: CostOutcome.USEFUL,
    AttemptOutcome.FAILED: CostOutcome.LOST_FAILED,
    AttemptOutcome.LOST: CostOutcome.LOST_LOST,
    AttemptOutcome.PREEMPTED: CostOutcome.LOST_PREEMPTED,
    AttemptOutcome.CANCELLED: CostOutcome.LOST_CANCELLED,
}

_MAY_BE_GONE = frozenset({BilledState.UNREACHABLE, BilledState.UNWANTED})


@dataclass(slots=True, kw_only=True)
class _Book:
    """What is written of one instance that is there."""

    bill: InstanceBill
    state: Interval
    attempts: dict[str, Interval] = field(default_factory=dict)
    #: The meter: a second clock, as of `metered_ms`, which is slower the more the shares exceed 1
    #: (see `cost.tiling`), where it stood when each attempt joined, and the sum of their shares.
    clock_ms: float = 0.0
    metered_ms: int = 0
    shares: float = 0.0
    joined_ms: dict[str, float] = field(default_factory=dict)
    #: When it certainly was there, by what an earlier process wrote of it.
    there_ms: int = 0
    #: What the cloud had told of its billing when the bill was looked at last, and which launch it
    #: was known to be of then, "" for none.
    heard: Billed | None = None
    token: str = ""

    def join(self, interval: Interval, at_ms: int) -> None:
        """Let an attempt take part from its beginning on; it is `at_ms` now."""
        self.run_until(at_ms)
        self.attempts[interval.holder] = interval
        self.shares += float(interval.share)
        missed_ms = (at_ms - interval.from_ms) / max(1.0, self.shares)
        self.joined_ms[interval.holder] = self.clock_ms - missed_ms

    def leave(self, attempt_id: str, at_ms: int) -> Interval:
        """Let an attempt take part no more."""
        self.run_until(at_ms)
        interval = self.attempts.pop(attempt_id)
        self.shares = max(0.0, self.shares - float(interval.share)) if self.attempts else 0.0
        del self.joined_ms[attempt_id]
        return interval

    def run_until(self, at_ms: int) -> None:
        """Let the meter run."""
        self.clock_ms += max(0, at_ms - self.metered_ms) / max(1.0, self.shares)
        self.metered_ms = max(self.metered_ms, at_ms)

    def used_ms(self, attempt_id: str, at_ms: int) -> int:
        """Return which instance time an attempt has had by a time, to the millisecond."""
        since_ms = (at_ms - self.metered_ms) / max(1.0, self.shares)
        moved_ms = max(0.0, self.clock_ms + since_ms - self.joined_ms[attempt_id])
        return round(float(self.attempts[attempt_id].share) * moved_ms)

    @property
    def latest_ms(self) -> int:
        """Return when something was written last: nothing is written of before that."""
        return max(self.state.from_ms, *(each.from_ms for each in self.attempts.values()), 0)


class CostRecorder:
    """The open intervals of all instances, and what changes of them."""

    def __init__(
        self,
        pool: PoolCore,
        table: ContainerTable,
        placement: Placement,
        rule: BillingRule | None,
    ) -> None:
        """Let the table know what attempts cost, too.

        `placement` is how batch work shares instances, `rule` how the cloud bills, None where it
        does not tell.
        """
        self._pool, self._table = pool, table
        self._placement = placement
        #: How the cloud bills.
        self.rule = AS_USED if rule is None else rule
        table.cost_usd = self.cost_usd
        self._feed = pool.follow()
        self._launches = LaunchRecorder(pool, self.rule)
        self._books: dict[str, _Book] = {}
        #: Of those that are gone: whose cloud may tell more, which the pool asks for an hour at
        #: most, and the latest of the others, the oldest first.
        self._unbilled: dict[str, InstanceBill] = {}
        self._ended: dict[str, InstanceBill] = {}
        self._unsettled: dict[str, Interval] = {}
        #: When the latest complete listing began that was looked at, and that is written.
        self._looked_ms = self._listed_ms = 0

    def restore(
        self, bills: Iterable[InstanceBill], intervals: Iterable[Interval], *, listed_ms: int
    ) -> None:
        """Go on with what an earlier process has written: open intervals, and bills.

        Of those that are settled, the latest: an instance that was gone may be listed again.
        `listed_ms` is as `Recovered` has it.
        """
        self._listed_ms = listed_ms
        by_instance: dict[str, list[Interval]] = {}
        for interval in intervals:
            by_instance.setdefault(interval.instance_id, []).append(interval)
        for bill in bills:
            if bill.is_launch:
                self._launches.restore(bill)
                continue
            open_ = by_instance.get(bill.instance_id, [])
            states = [each for each in open_ if each.holder == OF_INSTANCE]
            if bill.gone_ms is not None or not states:
                self._remember(bill)
                if not bill.final:
                    self._pool.bills.handed_in[bill.instance_id] = bill.billed
                continue
            book = self._books[bill.instance_id] = _Book(bill=bill, state=states[0])
            book.there_ms = _there_ms(bill, open_, listed_ms)
            attempts = sorted((e.from_ms, e.holder, e) for e in open_ if e.holder != OF_INSTANCE)
            for from_ms, _, interval in attempts:
                book.join(interval, from_ms)

    def record(self, now: float) -> list[Change]:
        """Return what is to be written of the workers that have changed, in order."""
        changes = self._launches.record()
        for worker_id in sorted(self._feed.drain()):
            worker = self._pool.workers.get(worker_id)
            if worker is not None:
                self._update(worker, ms_of(now), changes)
        self._note_listing(changes)
        for attempt_id, interval in sorted(self._unsettled.items()):
            if attempt_id in self._table.ended_as:
                settled = replace(interval, outcome=_outcome(self._table.ended_as, attempt_id))
                changes.append(SaveInterval(interval=settled, late=True))
                del self._unsettled[attempt_id]
        self._table.ended_as.clear()
        return changes

    def gone(self, worker_id: str, *, seen_at: float | None, now: float) -> list[Change]:
        """Return what is to be written of a worker that is gone.

        It was last heard of at `seen_at`, None for before this process began: then what that wrote
        of it when it was there is the last that is known.
        """
        book = self._books.pop(worker_id, None)
        if book is None:
            return []
        at_ms = max(ms_of(now), book.latest_ms)
        changes: list[Change] = [self._closed(each, at_ms) for each in _by_holder(book.attempts)]
        changes.append(SaveInterval(interval=replace(book.state, until_ms=at_ms)))
        seen_ms = min(at_ms, book.there_ms if seen_at is None else ms_of(seen_at))
        bill = replace(book.bill, seen_ms=seen_ms, gone_ms=at_ms)
        bill = _told(bill, bill.billed)
        self._remember(bill)
        changes.append(SaveBill(bill=bill))
        return changes

    def billed(self, instance_id: str, billed: Billed, *, final: bool) -> list[Change]:
        """Return what is to be written once a cloud has told how an instance was billed.

        `final` says that it will tell no more of it.
        """
        bill = self._ended_bill(instance_id)
        if bill is None:
            return []
        bill = replace(_told(bill, billed), final=final)
        self._remember(bill)
        return [SaveBill(bill=bill)]

    def cost_usd(self, attempt: Attempt, ended_at: float) -> Decimal:
        """Return what an attempt costs that ended at a time: of one that had no place, nothing.

        It is what the ledger will book, to a millisecond of the price: the booking sets it right,
        and what the cloud says late (see `service.costs`).
        """
        book = self._books.get(attempt.instance_id)
        if book is None or attempt.id not in book.attempts:
            return Decimal(0)
        used_ms = book.used_ms(attempt.id, max(ms_of(ended_at), book.attempts[attempt.id].from_ms))
        return in_dollars(used_ms * book.bill.nusd_per_hour)

    def bill_of(self, instance_id: str) -> InstanceBill | None:
        """Return what is kept of an instance to reckon its bill by, or of a launch in doubt.

        None where that is not known (any more): of those that are gone, the latest are.
        """
        book = self._books.get(instance_id)
        if book is not None:
            return book.bill
        return self._ended_bill(instance_id) or self._launches.bill_of(instance_id)

    def going_on(self) -> list[tuple[InstanceBill, Interval, tuple[Interval, ...]]]:
        """Return the bill of each instance that is there, with what it is, and its attempts."""
        books = (book for _, book in sorted(self._books.items()))
        return [(book.bill, book.state, tuple(book.attempts.values())) for book in books]

    def check(self) -> None:
        """Raise `BugError` when what is written last of a worker is not what it is."""
        self._launches.check()
        for worker in self._pool.workers.values():
            book = self._books.get(worker.id)
            if book is None:
                raise BugError(f"{worker.id}: nothing is written of it")
            now_is = _state_of(worker, book.bill)
            if book.state.state is not now_is:
                was = book.state.state.value
                raise BugError(f"{worker.id}: it is written as {was}, and is {now_is.value}")
            if book.attempts.keys() != worker.load.attempts.keys():
                raise BugError(f"{worker.id}: the attempts that are written are not those there")

    # ---- those that are gone -------------------------------------------------------------------

    def _remember(self, bill: InstanceBill) -> None:
        """Remember an instance that is gone; of those of which no more is told, only the latest."""
        self._forget(bill.instance_id)
        if not bill.final:
            self._unbilled[bill.instance_id] = bill
            return
        self._ended[bill.instance_id] = bill
        while len(self._ended) > MOST_ENDED:
            del self._ended[next(iter(self._ended))]

    def _forget(self, instance_id: str) -> InstanceBill | None:
        """Take out an instance that is gone; None where it is not known (any more)."""
        bill = self._ended_bill(instance_id)
        self._unbilled.pop(instance_id, None)
        self._ended.pop(instance_id, None)
        return bill

    def _ended_bill(self, instance_id: str) -> InstanceBill | None:
        return self._unbilled.get(instance_id) or self._ended.get(instance_id)

    def _note_listing(self, changes: list[Change]) -> None:
        """Write what a complete listing says that has come since: who was there when it began."""
        listed_at = self._pool.listed_at
        if ms_of(listed_at) == self._looked_ms:
            return
        self._looked_ms = ms_of(listed_at)
        for worker_id, book in sorted(self._books.items()):
            worker = self._pool.workers.get(worker_id)
            if worker is None:
                continue
            heard_at = max(worker.link.last_contact, worker.cloud.listed_at)
            seen_ms = None
            if heard_at < listed_at:
                seen_ms = ms_of(heard_at) if heard_at else book.there_ms
            if seen_ms != book.bill.seen_ms:
                book.bill = replace(book.bill, seen_ms=seen_ms)
                changes.append(SaveBill(bill=book.bill))
        if self._books and abs(self._looked_ms - self._listed_ms) >= NOTE_EACH_MS:
            self._listed_ms = self._looked_ms
            changes.append(NoteListing(at_ms=self._listed_ms))

    # ---- one worker ----------------------------------------------------------------------------

    def _update(self, worker: Worker, now_ms: int, changes: list[Change]) -> None:
        book = self._books.get(worker.id)
        if book is None:
            book = self._open(worker, now_ms, changes)
        state = _state_of(worker, book.bill)
        at_ms = max(now_ms, book.latest_ms)
        if worker.load.attempts.keys() != book.attempts.keys():
            self._update_attempts(worker, book, at_ms, changes)
        account = _held_by(worker) if state is BilledState.HELD else CLUSTER
        if (state, account) != (book.state.state, book.state.account):
            changes.append(SaveInterval(interval=replace(book.state, until_ms=at_ms)))
            book.state = _of_instance(worker.id, at_ms, state, account)
            changes.append(SaveInterval(interval=book.state))
        bill = self._bill_now(worker, book, state, at_ms)
        if bill != book.bill:
            book.bill = bill
            changes.append(SaveBill(bill=bill))

    def _open(self, worker: Worker, now_ms: int, changes: list[Change]) -> _Book:
        """Begin the book of a worker that is new, or has come back."""
        known = self._forget(worker.id)
        bill = known or InstanceBill(
            instance_id=worker.id,
            type_name=worker.type.name,
            provider_type=worker.type.provider_type,
            preemptible=worker.type.preemptible,
            nusd_per_hour=nusd_of(worker.type.price_usd_per_hour),
            payer=CLUSTER,
            created_ms=now_ms,
            rule=self.rule,
        )
        # One that has come back was there all the time.
        from_ms = now_ms if bill.gone_ms is None else min(now_ms, bill.gone_ms)
        bill = replace(bill, seen_ms=None, gone_ms=None, final=False)
        bill = self._of_launch(worker, bill)
        interval = _of_instance(worker.id, from_ms, _state_of(worker, bill), CLUSTER)
        changes += [SaveBill(bill=bill), SaveInterval(interval=interval)]
        book = self._books[worker.id] = _Book(bill=bill, state=interval, token=worker.token)
        return book

    def _of_launch(self, worker: Worker, bill: InstanceBill) -> InstanceBill:
        """Return the bill of a worker with what its launch tells, where that is known.

        The time since the create call is the instance's, and who pays is whom it was bought for.
        """
        pending = self._pool.launches.get(worker.token)
        if pending is None:
            return bill
        created_ms = min(bill.created_ms, ms_of(pending.launch.created_at))
        return replace(bill, created_ms=created_ms, payer=account_of_payer(pending.launch.payer))

    def _update_attempts(
        self, worker: Worker, book: _Book, at_ms: int, changes: list[Change]
    ) -> None:
        there = worker.load.attempts
        left = sorted(book.attempts.keys() - there.keys())
        changes += [self._closed(book.leave(attempt_id, at_ms), at_ms) for attempt_id in left]
        for attempt_id in sorted(there.keys() - book.attempts.keys()):
            interval = self._of_attempt(worker, attempt_id, at_ms)
            book.join(interval, at_ms)
            changes.append(SaveInterval(interval=interval))

    def _closed(self, interval: Interval, at_ms: int) -> SaveInterval:
        """Return the end of an attempt's interval; its outcome may only be known later."""
        ended_as = self._table.ended_as
        closed = replace(interval, until_ms=max(at_ms, interval.from_ms))
        if interval.holder in ended_as:
            closed = replace(closed, outcome=_outcome(ended_as, interval.holder))
        elif interval.holder in self._table.open_attempts:
            self._unsettled[interval.holder] = closed
        return SaveInterval(interval=closed)

    def _of_attempt(self, worker: Worker, attempt_id: str, at_ms: int) -> Interval:
        found = self._table.of_attempt(attempt_id)
        share, account, cause = Fraction(0), CLUSTER, LEAK
        if found is not None:
            container, _ = found
            share = self._share(worker, container, attempt_id)
            account = self.account_of(container)
            cause = DAEMON if container.pinned_to else ""
        return Interval(
            instance_id=worker.id,
            holder=attempt_id,
            from_ms=at_ms,
            state=BilledState.WORK,
            share=share,
            account=account,
            cause=cause,
        )

    def _share(self, worker: Worker, container: Container, attempt_id: str) -> Fraction:
        if placement_of(container, self._placement) is Placement.EXCLUSIVE:
            return Fraction(1)
        return dominant_share(worker.load.attempts[attempt_id], worker.type.allocatable)

    def account_of(self, container: Container) -> Account:
        """Return whom a container's time is booked to."""
        job = self._table.jobs.job(container.job_id) if container.job_id else None
        return Account(
            project=container.project,
            user=container.user,
            job_name=container.spec.name if job is None else job.name,
            job_id=container.job_id,
            task=container.task,
            array_index=container.array_index,
            container_id=container.id,
            labels=container.spec.labels,
        )

    def _bill_now(
        self, worker: Worker, book: _Book, state: BilledState, at_ms: int
    ) -> InstanceBill:
        """Return the bill of a worker with what has come to be known of it."""
        bill, unwanted = book.bill, state is BilledState.UNWANTED
        nothing_new = worker.cloud.billed is book.heard and worker.token == book.token
        if bill.used_ms and bill.ready_ms and not unwanted and nothing_new:
            return bill  # by far most changes are of attempts
        if worker.token != book.token:
            bill = self._of_launch(worker, bill)
        book.heard, book.token = worker.cloud.billed, worker.token
        if is_stand_in(bill.type_name) and not is_stand_in(worker.type.name):
            bill = replace(
                bill,
                type_name=worker.type.name,
                provider_type=worker.type.provider_type,
                preemptible=worker.type.preemptible,
                nusd_per_hour=nusd_of(worker.type.price_usd_per_hour),
            )
        ready = worker.state in READY
        return replace(
            _told(bill, worker.cloud.billed),
            running_ms=_first(bill.running_ms, at_ms, state is not BilledState.PENDING),
            ready_ms=_first(bill.ready_ms, at_ms, ready),
            used_ms=_first(bill.used_ms, at_ms, bool(book.attempts)),
            unwanted_ms=_first(bill.unwanted_ms, at_ms, unwanted),
        )


def _told(bill: InstanceBill, billed: Billed) -> InstanceBill:
    """Return a bill with what the cloud has told of it.

    It was there for all of the time that the cloud bills, also before we saw it and after we missed
    it: by when it was there the store finds whose lines an hour has.
    """
    known = bill.billed.once_told(billed)
    created_ms, gone_ms = bill.created_ms, bill.gone_ms
    if known.billed_from is not None:
        created_ms = min(created_ms, ms_of(known.billed_from))
    if known.billed_until is not None and gone_ms is not None:
        gone_ms = max(gone_ms, ms_of(known.billed_until))
    return replace(bill, billed=known, created_ms=created_ms, gone_ms=gone_ms)


def _there_ms(bill: InstanceBill, open_: Iterable[Interval], listed_ms: int) -> int:
    """Return when an instance certainly was there last, by what is written of it.

    That is the beginning of the latest listing, unless that lacks it. Who became unreachable may
    not have been there, nor who was to end: it may have been missing by then.
    """
    shown_ms = listed_ms if bill.seen_ms is None else bill.seen_ms
    begun = (e.from_ms for e in open_ if e.state not in _MAY_BE_GONE)
    known = (bill.running_ms or 0, bill.ready_ms or 0, bill.used_ms or 0)
    return max(bill.created_ms, shown_ms, *known, *begun)


def _first(known_ms: int | None, at_ms: int, is_so: bool) -> int | None:
    """Return when something was first so."""
    return at_ms if known_ms is None and is_so else known_ms


def _by_holder(attempts: Mapping[str, Interval]) -> list[Interval]:
    return [attempts[holder] for holder in sorted(attempts)]


def _outcome(ended_as: Mapping[str, AttemptOutcome], attempt_id: str) -> CostOutcome:
    return _OUTCOMES[ended_as[attempt_id]]


def _of_instance(worker_id: str, at_ms: int, state: BilledState, account: Account) -> Interval:
    return Interval(
        instance_id=worker_id, holder=OF_INSTANCE, from_ms=at_ms, state=state, account=account
    )


def _held_by(worker: Worker) -> Account:
    """Return who holds an instance, as far as that is known."""
    return Account(user="" if worker.note is None else worker.note.by)


def _state_of(worker: Worker, bill: InstanceBill) -> BilledState:
    """Return what a worker is beside the work of attempts."""
    match worker.state:
        case WorkerState.SHUTDOWN:
            asked = worker.shutdown.destroyed_at
            return BilledState.UNWANTED if asked else BilledState.DRAINING
        case WorkerState.UNKNOWN | WorkerState.BOOTING:
            if bill.ready_ms is not None:
                return _ready_state(worker)
            return BilledState.BOOTING if worker.cloud.address else BilledState.PENDING
        case WorkerState.IDLE | WorkerState.RUNNING:
            return _ready_state(worker)
        case unknown:
            assert_never(unknown)


def _ready_state(worker: Worker) -> BilledState:
    """Return what a worker is that was ready once and is not on its way to its end."""
    if worker.load.busy_with:
        return BilledState.ROOM
    if not worker.link.session_up:
        return BilledState.UNREACHABLE
    match worker.behavior:
        case IdleBehavior.HOLD:
            return BilledState.HELD
        case IdleBehavior.DRAIN:
            return BilledState.DRAINING
        case IdleBehavior.RUN:
            return BilledState.EMPTY
        case unknown:
            assert_never(unknown)
