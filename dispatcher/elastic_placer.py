"""Elastic jobs: their essential containers together, and of the others as many as fit.

What is to be started and given back is the planner's to say (`planner.elastic`), what becomes of a
job when one of its containers ends `planner.elastic_fates`. Here is known which container is which
member, and what was decided is carried out. A member that has a place, and waits there for its turn
or for somebody's end, has that room kept from everybody else.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import assert_never

from dispatcher import elastic_reasons as reasons
from dispatcher.elastic_deeds import Deeds, need_on
from dispatcher.elastic_ends import last_ruling, member_end, told
from dispatcher.elastic_jobs import (
    Live,
    as_planned,
    cancelled,
    conclusion,
    elastic_job,
    finished,
    key_of,
    without_place,
)
from dispatcher.elastic_rooms import Rooms, kept_of, with_seats
from dispatcher.holdbacks import Block
from dispatcher.job_book import Conclusion
from dispatcher.job_model import Job, JobState
from dispatcher.ledger import Ledger
from dispatcher.model import (
    AttemptOutcome,
    Container,
    ContainerState,
    Reason,
    SchedulerSettings,
    WaitReason,
)
from dispatcher.placers import NOTHING, AttemptEnd, Placers, Ruling
from dispatcher.planner import elastic_fates
from dispatcher.planner.elastic import plan_elastic
from dispatcher.planner.elastic_fates import Verdict
from dispatcher.planner.elastic_model import (
    Component,
    ElasticPlan,
    ElasticView,
    Member,
    MemberState,
    Place,
    Role,
)
from dispatcher.planner.elastic_order import progressed
from dispatcher.planner.elastic_settings import QueuePolicy
from dispatcher.planner.room import Rules
from drivers.errors import BugError
from drivers.interface import InstanceType, Resources
from pool.core import PoolCore

_IN_TIME = frozenset({QueuePolicy.DYNSIZE, QueuePolicy.HRRN})
"""The policies by which the order of jobs changes though nothing happens."""

_ORDER_AGAIN_S = 5.0


class ElasticPlacer:
    """Implements `dispatcher.placers.Placer` for elastic jobs."""

    def __init__(
        self,
        *,
        pool: PoolCore,
        ledger: Ledger,
        settings: SchedulerSettings,
        placers: Placers,
        rules: Rules,
        rooms: Rooms,
        deeds: Deeds,
    ) -> None:
        """Know of no job; of the `placers` the others keep room that is not to be had here."""
        self._pool = pool
        self._ledger = ledger
        self._settings = settings
        self._placers = placers
        self._rules = rules
        self._rooms = rooms
        self._deeds = deeds
        self._ids: dict[str, dict[tuple[str, int], str]] = {}
        self._live: dict[str, Live] = {}
        self._over: dict[str, Reason] = {}
        self._stirred: set[str] = set()
        self._kept: dict[str, Resources] = {}
        self._awaited: frozenset[str] = frozenset()
        self._waiting: Mapping[str, WaitReason] = {}
        self._wanted = False
        self._next_at: float | None = None

    # ---- what others ask ---------------------------------------------------------------------

    @property
    def kept(self) -> Mapping[str, Resources]:
        """Return the room that is kept for members that are not started, by slot; not a copy."""
        return self._kept

    @property
    def awaited(self) -> frozenset[str]:
        """Return the instances on which there is such room: they are not idle."""
        return self._awaited

    def taken_of(self, _type: InstanceType, /) -> Resources:
        """Return nothing: what elastic jobs take of a new instance they claim when it is bought."""
        return NOTHING

    def next_due(self) -> float | None:
        """Return when something is to be done that no event tells of, None for never."""
        return 0.0 if self._wanted else self._next_at

    def reason(self, container: Container) -> WaitReason | None:
        """Return why a container waits, None where no pass has looked at it."""
        live = self._live.get(container.job_id)
        if live is None:
            return None
        member = live.member(key_of(container))
        known = reasons.of_member(member, barred=self._barred_of(live))
        return known or self._waiting.get(container.job_id)

    def _barred_of(self, live: Live) -> str:
        """Return a container that keeps its job from beginning, "" for none."""
        if live.job.is_running:
            return ""
        found = (live.ids[key] for key in sorted(live.barred) if live.is_essential(key))
        return next(found, "")

    # ---- what is heard -----------------------------------------------------------------------

    def admit(self, job: Job) -> None:
        """Take in a job, new or restored; its containers come after it."""
        if not job.is_template:
            self._ids.setdefault(job.id, {})
            self.changed(job.id)

    def take_in(self, container: Container) -> None:
        """Take in a container, new or restored."""
        self._ids[container.job_id][key_of(container)] = container.id

    def changed(self, job_id: str, /) -> None:
        """Note that a job is to be looked at again: what somebody asked of it, or of part of it."""
        self._stirred.add(job_id)
        self._wanted = True

    def began(self, container: Container, now: float, /) -> None:
        """Note that a member runs, and that others may be started after it."""
        live = self._known(container.job_id, now)
        key = key_of(container)
        self._wanted = True
        live.job = elastic_fates.started(live.job, *key)

    def rule(self, end: AttemptEnd, now: float, /) -> Ruling:
        """Return what becomes of a container whose attempt has ended, and do what follows of it."""
        container = end.container
        live = self._known(container.job_id, now)
        key = key_of(container)
        self._wanted = True
        if self._ledger.jobs.is_concluded(container.job_id):
            live.put([without_place(live.member(key))])
            return last_ruling(end, self._over.get(container.job_id, reasons.JOB_CANCELLED))
        if container.cancel_requested:
            live.put([finished(live.member(key))])
            if live.is_essential(key):
                self._fail(live, cancelled(container.task), None, now)
            return Ruling(state=ContainerState.CANCELLED, reason=end.reason)
        most = self._settings.max_lost_attempts - 1
        fate = elastic_fates.ended(live.job, member_end(key, end), now, most_losses=most)
        live.job = fate.job
        match fate.verdict:
            case Verdict.GOES_ON:
                live.rejoin()
                return Ruling()
            case Verdict.QUEUED_AGAIN:
                why = reasons.next_start(end)
                self._deeds.stop(live, fate.stops, AttemptOutcome.PREEMPTED, why, now)
                return Ruling()
            case Verdict.SUCCEEDED:
                self._conclude(live, Conclusion(state=JobState.SUCCEEDED), now)
                return Ruling(state=ContainerState.SUCCEEDED)
            case Verdict.FAILED:
                why_failed = told(fate, end) or Reason(code="essential_failed", message="failed")
                self._fail(live, why_failed, end.attempt.exit_code, now)
                return Ruling(state=ContainerState.FAILED, reason=end.reason)
            case unknown:
                assert_never(unknown)

    def _known(self, job_id: str, now: float) -> Live:
        """Return a job, made from what the ledger has of it when it is first asked for."""
        live = self._live.get(job_id)
        if live is not None:
            return live
        job = self._ledger.jobs.job(job_id)
        ids = self._ids[job_id]
        containers = self._ledger.containers
        known = {key: containers[id_] for key, id_ in ids.items() if id_ in containers}
        if job is None:
            raise BugError(f"elastic job {job_id} is not known")
        live = self._live[job_id] = Live(job=elastic_job(job, known, now), ids=ids)
        live.progressed_at = now
        found = conclusion(job, live.job)
        if found is not None and not self._ledger.jobs.is_concluded(job_id):
            self._conclude(live, found, now)
        return live

    # ---- the end of a job ----------------------------------------------------------------------

    def _fail(self, live: Live, why: Reason, exit_code: int | None, now: float) -> None:
        failed = Conclusion(state=JobState.FAILED, reason=why, exit_code=exit_code)
        self._conclude(live, failed, now)

    def _conclude(self, live: Live, comes_to: Conclusion, now: float) -> None:
        """Let a job end: what runs of it is told to, what waits does at once."""
        self._ledger.jobs.conclude(live.job.id, comes_to)
        why = reasons.job_ended(comes_to)
        self._over[live.job.id] = why
        places = [m for _, m in live.job.all_members() if m.state.has_place]
        stopping = [replace(member, state=MemberState.STOPPING) for member in places]
        live.put(stopping)
        self._deeds.stop(live, stopping, AttemptOutcome.CANCELLED, why.message, now)
        self._deeds.finish(live, why, now)
        live.job = replace(live.job, claims=())

    # ---- a pass ------------------------------------------------------------------------------

    def place(self, now: float) -> None:
        """Decide anew if anything has changed, and start what can be started by now."""
        self._look_again(now)
        if not self._live:
            self._rest()
            return
        changed = self._rooms.update(now)
        self._give_up_lost_places()
        due = self._next_at is not None and self._next_at <= now
        if changed or self._wanted or due:
            self._decide(now)
        for live in self._in_order():
            self._deeds.start(live, now)
        self._keep()
        self._wanted = False

    def _rest(self) -> None:
        self._kept = {}
        self._awaited = frozenset()
        self._waiting = {}
        self._next_at = None
        self._wanted = False
        self._rooms.forget()

    def _in_order(self) -> list[Live]:
        """Return the jobs that are not over, as they came."""
        lives = (live for id_, live in self._live.items() if id_ not in self._over)
        return sorted(lives, key=lambda live: (live.job.sequence, live.job.id))

    # ---- what somebody asked of a job -----------------------------------------------------------

    def _look_again(self, now: float) -> None:
        """Take in what users asked for, and let go of jobs that have ended."""
        for job_id in sorted(self._stirred):
            if job_id in self._ledger.jobs and job_id in self._ids:
                self._look_at(self._known(job_id, now), now)
        self._stirred.clear()
        for job_id in [id_ for id_ in self._over if id_ not in self._ledger.jobs]:
            del self._over[job_id]
            self._live.pop(job_id, None)
            self._ids.pop(job_id, None)

    def _look_at(self, live: Live, now: float) -> None:
        job_id = live.job.id
        if self._ledger.jobs.is_concluded(job_id):
            self._over.setdefault(job_id, reasons.JOB_CANCELLED)
            live.job = replace(live.job, claims=())
            return
        barred = set()
        for key, container_id in live.ids.items():
            container = self._ledger.containers.get(container_id)
            if container is None:
                live.put([finished(live.member(key))])
                if live.is_essential(key):
                    self._fail(live, cancelled(key[0]), None, now)
                    return
            elif container.priority == 0 or self._is_held(container):
                barred.add(key)
        live.barred = frozenset(barred)
        live.put(
            [
                without_place(member)
                for _, member in self._deeds.unstarted(live)
                if (member.component, member.index) in live.barred
            ]
        )
        live.rejoin()

    def _is_held(self, container: Container) -> bool:
        return Block.JOB_HELD in self._ledger.holdbacks.blocks(container.id)

    # ---- deciding ------------------------------------------------------------------------------

    def _seats(self) -> dict[str, list[tuple[Live, Component, Member]]]:
        """Return the members that have a place and are not started yet, by instance."""
        seats: dict[str, list[tuple[Live, Component, Member]]] = {}
        for live in self._in_order():
            for component, member in self._deeds.unstarted(live):
                seats.setdefault(member.instance_id, []).append((live, component, member))
        return seats

    def _give_up_lost_places(self) -> None:
        """Let members wait again whose instance takes no work any more, or is taken by others."""
        for instance_id, seats in sorted(self._seats().items()):
            base = self._rooms.bases.get(instance_id)
            seated = [False] * len(seats)
            if base is not None:
                needs = [need_on(base.room.type, component) for _, component, _ in seats]
                seated = list(with_seats(base.room, needs)[1])
            for has_room, (live, _, member) in zip(seated, seats, strict=True):
                if not has_room:
                    live.put([without_place(member)])
                    live.rejoin()
                    self._wanted = True

    def _decide(self, now: float) -> None:
        for live in self._in_order():
            live.job = progressed(live.job, now - live.progressed_at)
            live.progressed_at = now
        self._rename_claims()
        plan = plan_elastic(self._view(), now)
        self._carry_out(plan, now)
        self._waiting = dict(plan.waiting)
        self._next_at = plan.next_at
        if self._settings.elastic.policy in _IN_TIME and plan.waiting:
            again_at = now + _ORDER_AGAIN_S
            self._next_at = again_at if plan.next_at is None else min(plan.next_at, again_at)

    def _rename_claims(self) -> None:
        """Keep what was claimed on a launch on the instance that came of it."""
        bases = self._rooms.bases
        claims = [c for live in self._live.values() for c in live.job.claims]
        if all(claim.instance_id in bases for claim in claims):
            return
        of_token = {w.token: w.id for w in self._pool.workers.values() if w.token}
        for live in self._live.values():
            renamed = tuple(
                replace(claim, instance_id=of_token.get(claim.instance_id, claim.instance_id))
                for claim in live.job.claims
            )
            if renamed != live.job.claims:
                live.job = replace(live.job, claims=renamed)

    def _view(self) -> ElasticView:
        seats = self._seats()
        rooms = []
        for instance_id, base in sorted(self._rooms.bases.items()):
            here = seats.get(instance_id, [])
            needs = [need_on(base.room.type, component) for _, component, _ in here]
            rooms.append(with_seats(base.room, needs)[0] if needs else base.room)
        seen = (as_planned(live) for live in self._in_order())
        types = [self._pool.types[name] for name in sorted(self._pool.types)]
        return ElasticView(
            jobs=tuple(job for job in seen if job is not None),
            rooms=tuple(rooms),
            types=tuple(self._placers.left_of(type_) for type_ in types),
            rules=self._rules,
            settings=self._settings.elastic,
            max_price_factor=self._settings.max_price_factor,
        )

    def _carry_out(self, plan: ElasticPlan, now: float) -> None:
        for job_id in plan.begun:
            live = self._live[job_id]
            live.job = replace(live.job, began_at=now)
        for stop in plan.stops:
            live = self._live[stop.job_id]
            member = replace(live.member((stop.component, stop.index)), state=MemberState.STOPPING)
            live.put([member])
            why = self._for_whom(stop, plan)
            self._deeds.stop(live, [member], AttemptOutcome.PREEMPTED, why, now)
        for start in plan.starts:
            live = self._live[start.job_id]
            member = live.member((start.component, start.index))
            placed = replace(member, state=MemberState.PLACED, instance_id=start.instance_id)
            live.put([placed])
        claims: dict[str, tuple[Place, ...]] = {}
        for claim in plan.claims:
            claims[claim.job_id] = (*claims.get(claim.job_id, ()), claim)
        for live in self._in_order():
            if live.job.claims != claims.get(live.job.id, ()):
                live.job = replace(live.job, claims=claims.get(live.job.id, ()))

    def _for_whom(self, stop: Place, plan: ElasticPlan) -> str:
        """Return the job that a member makes way for: one that gets its room, if that is known."""
        essential = [
            place
            for place in plan.starts
            if self._live[place.job_id].roles()[place.component].role is Role.ESSENTIAL
        ]
        here = [place for place in essential if place.instance_id == stop.instance_id]
        return next((place.job_id for place in (*here, *essential)), stop.job_id)

    def _keep(self) -> None:
        """Keep the room of those that have a place and are not started, and what is claimed."""
        needs: dict[str, list[Resources]] = {}
        for component, instance_id in self._wanting():
            base = self._rooms.bases.get(instance_id)
            if base is not None:
                needs.setdefault(instance_id, []).append(need_on(base.room.type, component))
        bases = self._rooms.bases
        self._kept = {id_: kept_of(bases[id_], wanted) for id_, wanted in sorted(needs.items())}
        self._awaited = frozenset(self._kept.keys() & self._pool.workers.keys())

    def _wanting(self) -> Iterator[tuple[Component, str]]:
        for live in self._in_order():
            for component, member in self._deeds.unstarted(live):
                yield component, member.instance_id
            components = live.roles()
            for claim in live.job.claims:
                yield components[claim.component], claim.instance_id
