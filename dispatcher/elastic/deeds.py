"""Carrying out what is decided of elastic jobs: containers started, ended, and let go of."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace

from longshore.dispatcher.elastic.hosts import hosts_of, own_environment
from longshore.dispatcher.elastic.jobs import Key, Live, without_place
from longshore.dispatcher.elastic.rooms import Rooms
from longshore.dispatcher.ledger.endings import is_eviction
from longshore.dispatcher.ledger.ledger import Ledger
from longshore.dispatcher.model import AttemptOutcome, Container, ContainerState, EndingFor, Reason
from longshore.dispatcher.planner.elastic_fates import may_start
from longshore.dispatcher.planner.elastic_model import Component, ElasticMode, Member, MemberState
from longshore.dispatcher.planner.fit import need
from longshore.dispatcher.planner.room import Rules, SlotKind
from longshore.dispatcher.scheduling.roster import slot_of
from longshore.dispatcher.scheduling.starter import Starter
from longshore.drivers.interface import InstanceType, Resources
from longshore.pool import attempts
from longshore.pool.core import PoolCore
from longshore.pool.model import Worker
from longshore.pool.room import charge

UNPAID_WAIT_S = 30.0
"""For how long a job, or an elastic member, gives its place up that may not be paid."""


class Deeds:
    """Starts and ends members of elastic jobs, and ends what waits of a job that is over."""

    def __init__(
        self,
        *,
        pool: PoolCore,
        ledger: Ledger,
        rooms: Rooms,
        rules: Rules,
        most_placed: Callable[[float], int | None],
        is_paid: Callable[[Container, Worker, Resources], bool],
    ) -> None:
        """`most_placed` returns how many containers may have a place at once, None for any.

        `is_paid` returns whether whose container it is may spend what its room costs.
        """
        self._pool = pool
        self._ledger = ledger
        self._rooms = rooms
        self._rules = rules
        self._most_placed = most_placed
        self._is_paid = is_paid
        self._starter = Starter(pool, ledger)

    def container(self, live: Live, key: Key) -> Container | None:
        """Return the container of a member, None where that has ended for good."""
        container_id = live.ids.get(key)
        return None if container_id is None else self._ledger.containers.get(container_id)

    def unstarted(self, live: Live) -> Iterator[tuple[Component, Member]]:
        """Yield the members of a job that have a place and no attempt there yet."""
        placed = live.placed()
        components = live.roles() if placed else {}
        for member in placed:
            container = self.container(live, (member.component, member.index))
            if container is not None and not container.has_open_attempt:
                yield components[member.component], member

    def rejoin(self, live: Live) -> None:
        """Let a job queue again that lacks an essential member; what runs of it goes on.

        A rigid job does so for any member, until one is started. Whoever is not started has no
        place any more: the job begins with all that it lacks, or starts nothing, and keeps no room
        from others meanwhile.
        """
        unstarted = [member for _, member in self.unstarted(live)]
        if live.lacks_essential() or live.lacks_of_rigid(unstarted):
            live.put(map(without_place, unstarted))
            live.job = replace(live.job, began_at=None)

    def places_left(self, now: float) -> int | None:
        """Return how many more containers may be started now, None for any number.

        That is less than 0 where there are more than may be by now.
        """
        most = self._most_placed(now)
        return None if most is None else most - self._ledger.placed

    # ---- ending ------------------------------------------------------------------------------

    def stop(
        self,
        live: Live,
        members: Iterable[Member],
        outcome: AttemptOutcome,
        why: EndingFor,
        now: float,
    ) -> None:
        """Tell members to end that are `stopping`; who was not started has no place at once."""
        never = []
        for member in members:
            container = self.container(live, (member.component, member.index))
            if container is None or not container.has_open_attempt:
                never.append(without_place(member))
            elif container.attempts[-1].ending is None and not container.cancel_requested:
                attempt_id = self._ledger.ending(container.id, outcome, by=why)
                if is_eviction(why):
                    attempts.shorten_grace(self._pool, attempt_id)
                attempts.kill(self._pool, attempt_id, now)
        live.put(never)

    def finish(self, live: Live, why: Reason, now: float) -> None:
        """End the containers of a job that is over which have no open attempt."""
        for key, container_id in live.ids.items():
            container = self._ledger.containers.get(container_id)
            if container is None or container.has_open_attempt:
                continue
            if live.member(key).state is MemberState.FINISHED:
                code = container.attempts[-1].exit_code
                self._ledger.finish(container, ContainerState.SUCCEEDED, None, now, exit_code=code)
            else:
                self._ledger.finish(container, ContainerState.CANCELLED, why, now)

    # ---- starting ----------------------------------------------------------------------------

    def start(self, live: Live, now: float) -> None:
        """Start the members of a job whose turn it is, and for which there is room by now."""
        if not live.placed():
            return
        most = self._most_placed(now)
        components = live.roles()
        hosts: tuple[tuple[str, str], ...] | None = None
        for member in may_start(live.job):
            key = (member.component, member.index)
            container = self.container(live, key)
            worker = self._pool.workers.get(member.instance_id)
            if container is None or container.has_open_attempt or worker is None:
                continue
            if most is not None and self._ledger.placed >= most:
                return
            wanted = need_on(worker.type, components[member.component])
            if self._ledger.holdbacks.reason(container) is not None:
                continue
            if not self._is_paid(container, worker, wanted):
                if self._leave_unpaid(live, member, now + UNPAID_WAIT_S):
                    return
            elif self._fits(worker, wanted):
                if hosts is None:
                    hosts = hosts_of(live, self._address_of)
                more = (*hosts, *own_environment(components[member.component], member.index))
                renewals = live.job.renewals
                self._starter.start(container.id, worker, wanted, now, revision=renewals, more=more)

    def _leave_unpaid(self, live: Live, member: Member, not_before: float) -> bool:
        """Give back what a member has that may not be paid; return whether its whole job waits.

        A job does that needs the member, and of which nothing runs. Once some of it does, the rest
        keep their places; one that is elastic leaves its own to others for a while.
        """
        essential = live.is_essential((member.component, member.index))
        containers = (self.container(live, key) for key in live.ids)
        runs = any(each is not None and each.has_open_attempt for each in containers)
        if not runs and (essential or live.job.mode is ElasticMode.RIGID):
            live.put([without_place(member)])
            self.rejoin(live)
            live.job = replace(live.job, not_before=max(live.job.not_before, not_before))
            return True
        if not essential:
            live.put([replace(without_place(member), not_before=not_before)])
        return False

    def _fits(self, worker: Worker, wanted: Resources) -> bool:
        """Return whether a member may be started on an instance now: others may not be gone yet."""
        base = self._rooms.bases.get(worker.id)
        if base is None or base.room.kind is not SlotKind.READY:
            return False
        free = worker.free.minus(self._rooms.kept_by_others(worker.id))
        fits = charge(wanted, sharers=worker.sharers).fits_in(free)
        return fits and not self._rules.is_full(slot_of(worker).count)

    def _address_of(self, instance_id: str) -> str:
        worker = self._pool.workers.get(instance_id)
        return "" if worker is None else worker.address


def need_on(type_: InstanceType, component: Component) -> Resources:
    """Return what a member of a component asks for on a type."""
    return need(type_, component.resources, component.unnamed)
