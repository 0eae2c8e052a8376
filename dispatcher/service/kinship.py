"""What a caller inside a container sees and may do: what it submitted itself, and what that did.

Such a caller has its user and its project, and of what is in there its own descendants alone. All
else is not there for it, in the same words as what never was: also its own container, the container
that submitted that, and what its user submitted from outside.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import replace
from decimal import Decimal

from longshore.dispatcher.domain.containers import Container
from longshore.dispatcher.domain.jobs import Job
from longshore.dispatcher.domain.principals import Principal
from longshore.dispatcher.domain.queries import ContainerFilter, JobFilter
from longshore.dispatcher.service.admission import DependencyRef
from longshore.dispatcher.service.contracts import Conflict, NotFound, Unavailable
from longshore.dispatcher.service.visibility import expect_own, expect_visible
from longshore.dispatcher.store.errors import StoreBusy
from longshore.dispatcher.store.kinship import GENERATIONS_MOST, OpenBelow, is_container
from longshore.dispatcher.store.store import Store
from longshore.drivers.errors import InvalidRequest


class Kinship:
    """Who submitted whom from inside, for the services; used on the loop's thread."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def expect_visible(self, found: Container | Job, caller: Principal) -> None:
        """Raise `NotFound` for what is not there for a caller, `Unavailable` as reads do."""
        expect_visible(found, caller)
        await self._expect_below(found, caller)

    async def expect_own(self, found: Container | Job, caller: Principal) -> None:
        """Raise `NotFound` as `expect_visible` does, `Forbidden` for what is another user's."""
        await self._expect_below(found, caller)
        expect_own(found, caller)

    async def _expect_below(self, found: Container | Job, caller: Principal) -> None:
        if not await self._is_below(found.id, caller):
            kind = "job" if isinstance(found, Job) else "container"
            raise NotFound(f"there is no {kind} {found.id}")

    async def _is_below(self, thing_id: str, caller: Principal) -> bool:
        if not caller.container_id:
            return True
        return caller.container_id in await self._ancestors(thing_id)

    async def expect_room_below(self, caller: Principal) -> None:
        """Raise `Conflict` where a caller's container is too deep in its tree to have children."""
        if not caller.container_id:
            return
        above = [each for each in await self._ancestors(caller.container_id) if is_container(each)]
        if len(above) + 1 >= GENERATIONS_MOST:
            raise Conflict(
                f"{caller.container_id} is the {GENERATIONS_MOST}th of containers that submitted"
                " each other, and none may follow: submit from further up"
            )

    async def expect_waits_for_own(
        self, wanted: Iterable[DependencyRef], caller: Principal
    ) -> None:
        """Raise `InvalidRequest` where a caller inside would wait for what is not its own."""
        if not caller.container_id:
            return
        problems = [
            (each.path, f"there is no {each.dependency.of} in the project {each.project!r}")
            for each in wanted
            if not await self._is_below(each.dependency.of.partition("/")[0], caller)
        ]
        if problems:
            raise InvalidRequest(problems)

    async def seen_containers(self, which: ContainerFilter, caller: Principal) -> ContainerFilter:
        """Return a filter for what a caller sees: inside, the children of one, else its own.

        Raises `NotFound` for a job or a parent that is not below the caller's container.
        """
        if not caller.container_id:
            return which
        if which.job_id:
            await self._expect_named("job", which.job_id, caller)
            return which
        return replace(which, parent=await self._seen_parent(which.parent, caller))

    async def seen_jobs(self, which: JobFilter, caller: Principal) -> JobFilter:
        """Return a filter for what a caller sees, as `seen_containers` does."""
        if not caller.container_id:
            return which
        return replace(which, parent=await self._seen_parent(which.parent, caller), own=False)

    async def _seen_parent(self, parent: str, caller: Principal) -> str:
        if parent not in ("", caller.container_id):
            kind = "container" if is_container(parent) else "job"
            await self._expect_named(kind, parent, caller)
        return parent or caller.container_id

    async def _expect_named(self, kind: str, thing_id: str, caller: Principal) -> None:
        if not await self._is_below(thing_id, caller):
            raise NotFound(f"there is no {kind} {thing_id}")

    async def open_below(self, container_id: str) -> OpenBelow:
        """Return what is below a container and has not ended; raises `Unavailable`."""
        try:
            return await asyncio.to_thread(self._store.open_below, container_id)
        except StoreBusy as error:
            raise Unavailable(str(error)) from error

    async def cost_below_usd(self, container_id: str) -> Decimal | None:
        """Return what all below a container cost, None for nothing there; raises `Unavailable`."""
        try:
            return await asyncio.to_thread(self._store.cost_below_usd, container_id)
        except StoreBusy as error:
            raise Unavailable(str(error)) from error

    async def _ancestors(self, thing_id: str) -> tuple[str, ...]:
        try:
            return await asyncio.to_thread(self._store.ancestors, thing_id)
        except StoreBusy as error:
            raise Unavailable(str(error)) from error
