"""The check of who makes way for which elastic job."""

from __future__ import annotations

from collections.abc import Iterable

from longshore.dispatcher.domain.containers import Attempt, Container, Placement, QueuePolicy
from longshore.dispatcher.domain.feasibility import need
from longshore.dispatcher.domain.jobs import ElasticMode, Job, JobType
from longshore.dispatcher.scheduler.elastic.controller import ElasticScheduler
from longshore.drivers.interface import Resources
from longshore.pool.charging import charge, shares_a_cpu
from longshore.pool.model import Worker
from tests.sim.elastic_account import is_essential
from tests.sim.machines import room_on
from tests.sim.process import DispatcherProcess
from tests.sim.truth import expect


class Ways:
    """Looks at one process: who had a place after the pass before, and was not started."""

    def __init__(self, process: DispatcherProcess) -> None:
        self._process = process
        self._engine = process.engine
        self._table = process.engine.table
        self._awaited: frozenset[str] = frozenset()
        self._waited: set[str] = set()

    @property
    def _elastic(self) -> ElasticScheduler:
        elastic = self._engine.workloads.elastic
        assert isinstance(elastic, ElasticScheduler)
        return elastic

    def note_pass(self) -> None:
        """Note after a pass who has a place and waits there."""
        self._awaited = self._awaited_now()
        self._waited = {each.id for each in self._unstarted()}

    def expect_needed(self, job: Job, attempt: Attempt, by: Job, told: frozenset[str]) -> None:
        """Expect that another job than its own needs the room of who makes way for it.

        `told` are all attempts that have just been told to end for that one.
        """
        containers = map(self._table.containers.get, self._table.jobs.containers_of(by.id))
        needed = [each for each in containers if each is not None and self._is_needed(each)]
        waits = any(not each.has_open_attempt and self.is_kept(each) for each in needed)
        takes = waits or self._took_room(by, needed, attempt.instance_id, told)
        takes = takes or self._took_places(needed, told)
        right = by.id != job.id and takes
        expect(right, "members make way only for what another job needs", attempt, by.id)

    def expect_missed(self, attempt: Attempt) -> None:
        """Expect that who makes way could not have stayed beside all who have a place by now.

        Where room is kept on its instance for jobs that wait it says nothing: nobody is told how
        much that is for each.
        """
        elastic, worker = self._elastic, self._engine.pool.workers.get(attempt.instance_id)
        if worker is None or elastic.reserved_on.get(worker.id, 0) != len(
            self._unstarted(worker.id)
        ):
            return
        is_needed = (
            not self.leaves_places(going=sum(map(self._is_going, self._table.open_attempts)))
            or self._is_full(worker)
            or not self._has_room_for(worker, attempt.id)
        )
        expect(is_needed, "nobody makes way who could stay", attempt, worker)

    def leaves_places(self, *, going: int) -> bool:
        """Return whether one more may have a place once so many of those that have one are gone."""
        most = self._process.limit()
        return most is None or self._table.placed + self._elastic.reserved_count - going < most

    def _is_full(self, worker: Worker) -> bool:
        settings = self._engine.settings
        one = settings.placement is Placement.EXCLUSIVE
        most = 1 if one else settings.max_containers_per_instance
        going = sum(map(self._is_going, worker.load.attempts))
        return worker.load.busy_with + len(self._unstarted(worker.id)) - going >= most

    def _has_room_for(self, worker: Worker, attempt_id: str) -> bool:
        stays = [
            given
            for id_, given in sorted(worker.load.attempts.items())
            if id_ == attempt_id or not self._is_going(id_)
        ]
        comes = (
            need(worker.type, c.spec.resources, c.spec.unnamed) for c in self._unstarted(worker.id)
        )
        return _fit([*stays, *comes], self._left_by_residents(worker))

    def _left_by_residents(self, worker: Worker) -> Resources:
        kept = self._engine.workloads.per_instance.reservations.get(worker.id)
        return room_on(worker.type, worker.load.machine).minus(kept or Resources())

    def beginning(self, job: Job) -> list[Container]:
        """Return the members that a job needs, and that have a place but were not seen to run."""
        containers = map(self._table.containers.get, self._table.jobs.containers_of(job.id))
        needed = [each for each in containers if each is not None and self._is_needed(each)]
        return [
            each
            for each in needed
            if (
                each.attempts[-1].started_at is None
                if each.has_open_attempt
                else self.has_place(each)
            )
        ]

    def is_kept(self, member: Container) -> bool:
        """Return whether room on some instance is kept for a member that is not started.

        Of one that is behind a process of an earlier attempt only that is told.
        """
        return self._table.gates.reason(member) is not None or self.has_place(member)

    def has_place(self, member: Container) -> bool:
        """Return whether a member that is not started is told that it has a place."""
        reason = self._engine.workloads.reason(member)
        return reason is not None and reason.code == "has_place"

    def _took_room(
        self, by: Job, needed: list[Container], instance_id: str, told: frozenset[str]
    ) -> bool:
        """Return whether one begins at once on an instance, in room that others wait for there.

        Who makes way there leaves his room to these. They waited before, or are given a place
        before the job has its turn, which they leave too little room.
        """
        latest = [c.attempts[-1] for c in needed if c.has_open_attempt]
        starting = [a.id for a in latest if a.instance_id == instance_id and a.started_at is None]
        worker = self._engine.pool.workers.get(instance_id)
        if not starting or worker is None:
            return False
        here = self._unstarted(instance_id)
        if instance_id in self._awaited & self._awaited_now() and not self._newcomers(here):
            return True
        first = [each for each in here if each.id in self._waited or self._is_needed(each)]
        if any(self._comes_after(each, by) for each in self._newcomers(first)):
            return False
        # An earlier plan of the same pass may have placed some of these; nobody tells how many.
        others = [each for each in here if each not in first and each.job_id != by.id]
        grown = [each for each in others if not self._comes_after(each, by)]
        return any(
            self._lacks_room(worker, [*first, *grown[:number]], starting, told)
            for number in range(len(grown) + 1)
        )

    def _took_places(self, needed: list[Container], told: frozenset[str]) -> bool:
        """Return whether some begin at once, wherever, though no more may have a place than have.

        Who makes way still has one, and so have those that wait for their instance. No more make
        way than places are lacking, but for those on whose instance somebody begins.
        """
        most = self._process.limit()
        latest = [c.attempts[-1] for c in needed if c.has_open_attempt]
        begins_on = {a.instance_id for a in latest if a.started_at is None}
        known = (self._table.containers[self._table.open_attempts[id_]] for id_ in told)
        elsewhere = [c for c in known if c.attempts[-1].instance_id not in begins_on]
        lacking = self._table.placed + len(self._unstarted()) - (most or 0)
        return bool(begins_on) and most is not None and 0 < lacking >= len(elsewhere)

    def _newcomers(self, members: Iterable[Container]) -> list[Container]:
        return [each for each in members if each.id not in self._waited]

    def _comes_after(self, member: Container, by: Job) -> bool:
        """Return whether a member's job surely has its turn after another."""
        settings = self._engine.settings.elastic
        job = self._table.jobs.job(member.job_id)
        in_turn = settings.policy is QueuePolicy.FIFO and not settings.backfill
        return in_turn and job is not None and job.sequence > by.sequence

    def _lacks_room(
        self, worker: Worker, first: list[Container], starting: list[str], told: frozenset[str]
    ) -> bool:
        """Return whether those who come first fit beside who is `told` to end, and no more."""
        room = self._left_by_residents(worker)
        stays = [
            given
            for id_, given in worker.load.attempts.items()
            if id_ not in starting and (id_ in told or not self._is_going(id_))
        ]
        others = [need(worker.type, c.spec.resources, c.spec.unnamed) for c in first]
        begins = [worker.load.attempts[id_] for id_ in starting if id_ in worker.load.attempts]
        return _fit([*stays, *others], room) and not _fit([*stays, *others, *begins], room)

    def _is_going(self, attempt_id: str) -> bool:
        container_id = self._table.open_attempts.get(attempt_id)
        if container_id is None or not self._is_elastic(self._table.containers[container_id]):
            return False
        container = self._table.containers[container_id]
        return container.cancel_requested or container.attempts[-1].intended_outcome is not None

    def _is_needed(self, member: Container) -> bool:
        """Return whether a job needs a member; a rigid one that begins needs all."""
        job = self._table.jobs.job(member.job_id)
        if job is None:
            return False
        rigid = job.terms.elastic is not None and job.terms.elastic.mode is ElasticMode.RIGID
        return rigid or is_essential(job, member)

    def _is_elastic(self, container: Container) -> bool:
        return self._table.jobs.type_of(container.job_id) is JobType.ELASTIC

    def _awaited_now(self) -> frozenset[str]:
        return self._elastic.claimed_workers

    def _unstarted(self, instance_id: str = "") -> list[Container]:
        """Return the members that have a place, on one instance or on any, and are not started."""
        waiting = [
            (container, self._engine.workloads.reason(container))
            for container in self._table.containers.values()
            if self._is_elastic(container) and not container.has_open_attempt
        ]
        return [
            container
            for container, reason in waiting
            if reason is not None
            and reason.code == "has_place"
            and f"on {instance_id}" in reason.message
        ]


def _fit(needs: Iterable[Resources], room: Resources) -> bool:
    """Return whether all fit in the room of one instance."""
    on_shared_cpu = 0
    for each in needs:
        room = room.minus(charge(each, on_shared_cpu=on_shared_cpu))
        on_shared_cpu += shares_a_cpu(each)
    return Resources().fits_in(room) and all(amount >= 0 for _, amount in room.custom)
