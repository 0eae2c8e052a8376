"""What is asked of containers: taking them in, looking at them, steering them."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Sequence
from dataclasses import replace
from decimal import Decimal

from longshore.dispatcher.domain.containers import Container
from longshore.dispatcher.domain.messages import (
    CancelRequested,
    InsertContainers,
    JobCancelRequested,
    PriorityRequested,
    RequestCancel,
    RequestJobCancel,
    RequestPriority,
    Submitted,
)
from longshore.dispatcher.domain.principals import Principal
from longshore.dispatcher.domain.queries import ContainerFilter, Page
from longshore.dispatcher.engine.view import EngineView
from longshore.dispatcher.explain.explanation import Explanation, WaitStatus, explain, wait_status
from longshore.dispatcher.service.admission import AdmissionController, IdempotencyKey, wanted_by
from longshore.dispatcher.service.contracts import (
    Conflict,
    Forbidden,
    KeyReused,
    NewContainer,
    Unavailable,
)
from longshore.dispatcher.service.governing import expect_allowed_priority, govern_containers
from longshore.dispatcher.service.kinship import Kinship
from longshore.dispatcher.service.queue_order import expect_of_queue, queue_page
from longshore.dispatcher.service.stored import stored_containers
from longshore.dispatcher.service.visibility import (
    expect_projects,
    seen_projects,
    shown_explanation,
    shown_reason,
)
from longshore.dispatcher.state.memory_limit import own_bytes, spec_bytes
from longshore.dispatcher.store.errors import (
    IdempotencyConflict,
    IdempotentRepeat,
    ParentClosed,
    StoreBusy,
)
from longshore.dispatcher.store.kinship import is_container
from longshore.dispatcher.store.store import Store
from longshore.drivers.errors import InvalidRequest

_CANCELLED_AT_ONCE = 100
"""How many of a tree are cancelled together: one commit has them."""


class ContainerService:
    """Containers as users see and steer them; used on the loop's thread.

    `new_id` gives the random part of ids; `unreached` why nothing comes from an instance, "" for
    nothing.
    """

    def __init__(
        self,
        *,
        view: EngineView,
        admission: AdmissionController,
        store: Store,
        now: Callable[[], float],
        new_id: Callable[[], str],
        unreached: Callable[[str], str],
    ) -> None:
        self._policies = admission.policies
        self._view = view
        self._admission = admission
        self._store = store
        self._now = now
        self._new_id = new_id
        self._unreached = unreached
        self._kinship = Kinship(store)
        self._stored = stored_containers(
            store, kinship=self._kinship, admission=admission, view=view, now=now
        )

    async def submit(
        self,
        items: Sequence[NewContainer],
        *,
        caller: Principal,
        idempotency_key: str,
        fingerprint: str,
    ) -> Sequence[Container]:
        """Commit new containers, all or none, then tell the engine.

        Returns the earlier ones on a repeat. Raises `InvalidRequest` when one can never run, is
        for a project that the caller does not see, or waits for what there is not or what is
        another project's (paths begin with its "[index]"), `KeyReused` when the key was used for
        something else, `Unavailable` when nothing can be taken now.
        """
        expect_projects(((f"[{n}].project", item.project) for n, item in enumerate(items)), caller)
        key = IdempotencyKey(user=caller.key_scope, key=idempotency_key, fingerprint=fingerprint)
        try:
            made = await self._submit(items, caller, key)
        except (Unavailable, InvalidRequest) as refusal:
            made = await self._stored.made_before(key, refusal)
        return [self._stored.shown(each, caller) for each in made]

    async def _submit(
        self, items: Sequence[NewContainer], caller: Principal, key: IdempotencyKey
    ) -> Sequence[Container]:
        await self._kinship.expect_room_below(caller)
        items = govern_containers(self._policies, items, caller)
        self._admission.refuse_impossible((f"[{n}]", item.spec) for n, item in enumerate(items))
        self._admission.refuse_unknown_secrets(
            (f"[{n}]", item.project, item.spec) for n, item in enumerate(items)
        )
        size_bytes = sum(own_bytes(item.spec) + spec_bytes(item.spec) for item in items)
        self._admission.expect_room(containers=len(items), size_bytes=size_bytes)
        self._admission.expect_kinds(item.spec for item in items)
        sequences = self._store.next_sequences(len(items))
        now = self._now()
        containers = tuple(
            Container(
                id=f"c-{self._new_id()}",
                sequence=sequence,
                spec=item.spec,
                user=caller.user,
                project=item.project,
                priority=item.priority,
                created_at=now,
                parent=caller.container_id,
            )
            for item, sequence in zip(items, sequences, strict=True)
        )
        change = InsertContainers(
            containers=containers,
            user=key.user,
            idempotency_key=key.key,
            fingerprint=key.fingerprint,
        )
        waits_for = [
            wanted
            for number, each in enumerate(containers)
            for wanted in wanted_by(each.spec, f"[{number}]", project=each.project)
        ]
        await self._kinship.expect_waits_for_own(waits_for, caller)
        try:
            await self._admission.admit(
                containers,
                waits_for,
                change,
                lambda ended: Submitted(containers=containers, ended=ended),
            )
        except IdempotentRepeat as repeat:
            return await self._stored.several(repeat.container_ids)
        except IdempotencyConflict as conflict:
            raise KeyReused(str(conflict)) from conflict
        except ParentClosed as closed:
            raise Conflict(str(closed)) from closed
        return containers

    async def containers(
        self, which: ContainerFilter, *, caller: Principal, cursor: str, limit: int
    ) -> Page:
        """Return one page of what a caller sees, newest first, of each the last few attempts.

        Inside a container these are its children, or with a parent or a job those of one that is
        below it. Raises `InvalidRequest` for a cursor that is not ours.
        """
        which = await self._kinship.seen_containers(which, caller)
        seen = replace(which, projects=seen_projects(caller))
        try:
            page = await asyncio.to_thread(self._store.containers, seen, cursor=cursor, limit=limit)
        except StoreBusy as error:
            raise Unavailable(str(error)) from error
        return replace(page, items=tuple(self._stored.shown(each, caller) for each in page.items))

    async def queue(
        self, which: ContainerFilter, *, caller: Principal, cursor: str, limit: int
    ) -> Page:
        """Return one page of what waits and a caller sees, the next in line first.

        Raises `InvalidRequest` for a cursor that is not ours, and for a filter of what does not
        wait; `Forbidden` inside a container, which is told of its own children alone.
        """
        if caller.container_id:
            raise Forbidden("Inside a container the queue is not told: list without `order`.")
        expect_of_queue(which)
        seen = replace(which, projects=seen_projects(caller))
        found = queue_page(self._view, seen, cursor=cursor, limit=limit)
        try:
            items = await asyncio.to_thread(self._store.containers_of, found.ids)
        except StoreBusy as error:
            raise Unavailable(str(error)) from error
        shown = tuple(self._stored.shown(each, caller) for each in items)
        return Page(items=shown, next_cursor=found.next_cursor)

    async def container(self, container_id: str, *, caller: Principal) -> Container:
        """Return one container with all attempts, as it is committed.

        Raises `NotFound`, also for one that the caller does not see.
        """
        return await self._stored.visible(container_id, caller)

    def project_of(self, thing_id: str) -> str:
        """Return the project of a container or job that has not ended, "" of any other."""
        return self._stored.project_of(thing_id)

    def wait_status(self, container: Container, *, caller: Principal) -> WaitStatus:
        """Return why a container waits, with its position, or what nobody knows of it."""
        found = wait_status(self._view, container)
        found = replace(found, reason=shown_reason(found.reason, caller, self.project_of))
        if found.doubt or not container.has_open_attempt:
            return found
        unheard = self._unreached(container.attempts[-1].instance_id)
        told = f"{unheard}; until it is, nobody knows how it goes there" if unheard else ""
        return replace(found, doubt=told)

    async def explain(self, container_id: str, *, caller: Principal) -> Explanation:
        """Return why a container, as it is committed, is where it is; raises `NotFound`."""
        container = await self.container(container_id, caller=caller)
        found = explain(self._view, container, self._now())
        return shown_explanation(found, caller, self.project_of)

    async def cancel(self, container_id: str, *, caller: Principal) -> Container:
        """Commit a cancellation, then tell the engine.

        Raises `NotFound`, `Forbidden` where it is another's, `Conflict` when it has ended.
        """
        if not caller.is_admin:
            await self._stored.own(container_id, caller)
        change = RequestCancel(container_id=container_id)
        await self._admission.request(change, CancelRequested(container_id=container_id))
        return await self._stored.changed(container_id, caller)

    async def cancel_tree(self, container_id: str, *, caller: Principal) -> Container:
        """Commit the cancellation of a container and of all below it, then tell the engine.

        Also of what is being submitted meanwhile: what is cancelled takes no more children. One
        that has ended may have left children, and is no error. Raises `NotFound`, `Forbidden`,
        `Unavailable`: then some may be cancelled and others not, and asking again does the rest.
        """
        await self._stored.own(container_id, caller)
        with contextlib.suppress(Conflict):
            await self.cancel(container_id, caller=caller)
        asked: set[str] = set()
        while True:
            below = await self._kinship.open_below(container_id)
            left = [each for each in (*below.jobs, *below.containers) if each not in asked]
            if not left:
                return await self._stored.changed(container_id, caller)
            for first in range(0, len(left), _CANCELLED_AT_ONCE):
                some = left[first : first + _CANCELLED_AT_ONCE]
                await asyncio.gather(*map(self._cancel_below, some))
            asked.update(left)

    async def _cancel_below(self, thing_id: str) -> None:
        """Commit the cancellation of one that is below another, if it has not ended meanwhile."""
        change: RequestCancel | RequestJobCancel
        event: CancelRequested | JobCancelRequested
        if is_container(thing_id):
            change = RequestCancel(container_id=thing_id)
            event = CancelRequested(container_id=thing_id)
        else:
            change = RequestJobCancel(job_id=thing_id)
            event = JobCancelRequested(job_id=thing_id)
        with contextlib.suppress(Conflict):
            await self._admission.request(change, event)

    async def cost_of_tree_usd(self, container: Container) -> Decimal | None:
        """Return what a container and all below it cost so far, None where nothing is below it."""
        below = await self._kinship.cost_below_usd(container.id)
        return None if below is None else container.cost_usd + below

    async def set_priority(
        self, container_id: str, priority: int, *, caller: Principal
    ) -> Container:
        """Commit a priority, then tell the engine.

        Raises as `cancel` does, and `InvalidRequest` for more than a policy allows.
        """
        if not caller.is_admin or self._policies.rules:
            own = await self._stored.own(container_id, caller)
            expect_allowed_priority(self._policies, own, priority, caller)
        change = RequestPriority(container_id=container_id, priority=priority)
        event = PriorityRequested(container_id=container_id, priority=priority)
        with self._admission.reserve_classes(
            self._admission.held_back([container_id]) if priority > 0 else []
        ):
            await self._admission.request(change, event)
        return await self._stored.changed(container_id, caller)
