"""Carrying out what is decided of elastic jobs: containers started, ended, and let go of."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace

from longshore.dispatcher.domain.containers import (
    AttemptOutcome,
    Container,
    ContainerState,
    Reason,
    StopReason,
)
from longshore.dispatcher.domain.feasibility import need
from longshore.dispatcher.domain.jobs import ElasticMode
from longshore.dispatcher.scheduler.elastic.capacity import CapacityView
from longshore.dispatcher.scheduler.elastic.lifecycle import may_start
from longshore.dispatcher.scheduler.elastic.model import Component, Member, MemberState
from longshore.dispatcher.scheduler.elastic.runtime_state import ElasticState, Key, without_place
from longshore.dispatcher.scheduler.placement import decisions
from longshore.dispatcher.scheduler.placement.container_port import ContainerPort
from longshore.dispatcher.scheduler.placement.fleet import PackingPolicy, SlotKind
from longshore.dispatcher.scheduler.placement.fleet_sync import slot_of
from longshore.dispatcher.scheduler.placement.start import AttemptStarter
from longshore.dispatcher.state.attempt_end import Decision, EndAttempt, Finish
from longshore.drivers.interface import InstanceType, Resources
from longshore.pool.charging import charge
from longshore.pool.model import Worker
from longshore.pool.port import PoolPort

# ---- what the members of an elastic job are told of each other -----------------------------------

MEMBERS_MOST = 1000
"""How many containers an elastic job may have: each is told of the hosts of all."""

HOSTS_MOST_BYTES = 384 * 2**10
"""How long that may be as JSON: so many addresses, and as many names of components."""

_NOT_IN_NAMES = re.compile(r"[^A-Z0-9]")


def hosts_of(live: ElasticState, address_of: Callable[[str], str]) -> tuple[tuple[str, str], ...]:
    """Return where the members of a job are, as all of them find it in their environment.

    The hosts of each component are in the order of its members; one that has no place has "".
    `address_of` returns where an instance is reached ("host:port"), "" where nobody knows.
    """
    members = live.members()
    here = {m.instance_id for m in members.values() if m.instance_id}
    names = {instance_id: host_of(address_of(instance_id)) for instance_id in sorted(here)}
    found = []
    for component in live.job.components:
        known = (members.get((component.name, index)) for index in range(component.count))
        hosts = [names.get(each.instance_id, "") if each is not None else "" for each in known]
        found.append((hosts_variable(component.name), ",".join(hosts)))
    return tuple(found)


def own_environment(component: Component, index: int) -> tuple[tuple[str, str], ...]:
    """Return what a member finds in its environment of itself."""
    return (
        ("LONGSHORE_COMPONENT", component.name),
        ("LONGSHORE_COMPONENT_INDEX", str(index)),
        ("LONGSHORE_COMPONENT_COUNT", str(component.count)),
    )


def variable(component: str) -> str:
    """Return a component's name as it stands in names of variables."""
    return _NOT_IN_NAMES.sub("_", component.upper())


def hosts_variable(component: str) -> str:
    """Return the variable in which the hosts of a component are."""
    return f"LONGSHORE_{variable(component)}_HOSTS"


def host_of(address: str) -> str:
    """Return the host of "host:port"; an IPv6 address comes without its brackets."""
    host, _, port = address.rpartition(":")
    if not port.isdecimal() or (":" in host and not host.startswith("[")):
        host = address
    return host.removeprefix("[").removesuffix("]")


# ---- carrying out what is decided of elastic jobs: containers started, ended, and let go of ------

OVER_BUDGET_WAIT_S = 30.0
"""For how long a job, or an elastic member, gives its place up that may not be paid."""


class ElasticApplier:
    """Starts and ends members of elastic jobs, and ends what waits of a job that is over."""

    def __init__(
        self,
        *,
        pool: PoolPort,
        table: ContainerPort,
        capacity: CapacityView,
        rules: PackingPolicy,
        most_placed: Callable[[float], int | None],
        is_paid: Callable[[Container, Worker, Resources], bool],
    ) -> None:
        """`most_placed` returns how many containers may have a place at once, None for any.

        `is_paid` returns whether whose container it is may spend what its room costs.
        """
        self._pool = pool
        self._table = table
        self._capacity = capacity
        self._rules = rules
        self._most_placed = most_placed
        self._is_paid = is_paid
        self._starter = AttemptStarter(pool, table)

    def container(self, live: ElasticState, key: Key) -> Container | None:
        """Return the container of a member, None where that has ended for good."""
        container_id = live.ids.get(key)
        return None if container_id is None else self._table.containers.get(container_id)

    def unstarted(self, live: ElasticState) -> Iterator[tuple[Component, Member]]:
        """Yield the members of a job that have a place and no attempt there yet."""
        placed = live.placed()
        components = live.roles() if placed else {}
        for member in placed:
            container = self.container(live, (member.component, member.index))
            if container is not None and not container.has_open_attempt:
                yield components[member.component], member

    def rejoin(self, live: ElasticState) -> None:
        """Let a job wait to begin again if it lacks an essential member; what runs of it goes on.

        A rigid job does so for any member, until one is started. Members that are not started lose
        their places, so that the job keeps no room from others, and begins again with all that it
        lacks.
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
        return None if most is None else most - self._table.placed

    # ---- ending ------------------------------------------------------------------------------

    def stops(
        self,
        live: ElasticState,
        members: Iterable[Member],
        outcome: AttemptOutcome,
        why: StopReason,
    ) -> list[Decision]:
        """Return the decisions that end `stopping` members; one that was not started has none.

        That one has no place any more at once.
        """
        never, decided = [], list[Decision]()
        for member in members:
            container = self.container(live, (member.component, member.index))
            if container is None or not container.has_open_attempt:
                never.append(without_place(member))
            elif container.attempts[-1].intended_outcome is None and not container.cancel_requested:
                decided.append(EndAttempt(container_id=container.id, outcome=outcome, by=why))
        live.put(never)
        return decided

    def finishes(self, live: ElasticState, why: Reason, but: str) -> list[Decision]:
        """Return the decisions that end the containers without an open attempt of a job that is
        over.

        `but` is one that is decided on elsewhere, "" for none.
        """
        decided = list[Decision]()
        for key, container_id in live.ids.items():
            container = self._table.containers.get(container_id)
            if container is None or container.has_open_attempt or container_id == but:
                continue
            if live.member(key).state is MemberState.FINISHED:
                code = container.attempts[-1].exit_code
                state, reason = ContainerState.SUCCEEDED, None
            else:
                code, state, reason = None, ContainerState.CANCELLED, why
            decided.append(
                Finish(container_id=container_id, state=state, reason=reason, exit_code=code)
            )
        return decided

    def carry_out(self, decided: Iterable[Decision], now: float) -> None:
        """Do what was decided in a pass."""
        decisions.carry_out(decided, self._table, self._pool, now)

    # ---- starting ----------------------------------------------------------------------------

    def start(self, live: ElasticState, now: float) -> None:
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
            if most is not None and self._table.placed >= most:
                return
            wanted = need_on(worker.type, components[member.component])
            if self._table.gates.reason(container) is not None:
                continue
            if not self._is_paid(container, worker, wanted):
                if self._leave_over_budget(live, member, now + OVER_BUDGET_WAIT_S):
                    return
            elif self._fits(worker, wanted):
                if hosts is None:
                    hosts = hosts_of(live, self._address_of)
                more = (*hosts, *own_environment(components[member.component], member.index))
                renewals = live.job.renewals
                self._starter.start(container.id, worker, wanted, now, revision=renewals, more=more)

    def _leave_over_budget(self, live: ElasticState, member: Member, not_before: float) -> bool:
        """Take its place from a member that may not be paid; return whether its whole job waits.

        The job waits if it needs the member and nothing of it runs. If something runs, essential
        members keep their places; an elastic one leaves its own to others for a while.
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
        base = self._capacity.bases.get(worker.id)
        if base is None or base.node.kind is not SlotKind.READY:
            return False
        free = worker.load.free.minus(self._capacity.kept_by_others(worker.id))
        fits = charge(wanted, on_shared_cpu=worker.load.on_shared_cpu).fits_in(free)
        return fits and not self._rules.is_full(slot_of(worker).count)

    def _address_of(self, instance_id: str) -> str:
        worker = self._pool.workers.get(instance_id)
        return "" if worker is None else worker.cloud.address


def need_on(type_: InstanceType, component: Component) -> Resources:
    """Return what a member of a component asks for on a type."""
    return need(type_, component.resources, component.unnamed)
