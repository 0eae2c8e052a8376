"""Containers or jobs as the store has them, for a service: whose they are, and what is shown.

A service has one of these for its resource. What it decides by is read with `get` and `own`; what
it answers comes from `visible`, `changed` and `shown`, which leave out what the caller does not
see: every method of a service that answers a caller with one ends in one of these.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Generic, TypeVar

from longshore.dispatcher.domain.containers import Container
from longshore.dispatcher.domain.jobs import Job
from longshore.dispatcher.domain.principals import Principal
from longshore.dispatcher.engine.view import EngineView
from longshore.dispatcher.service.admission import AdmissionController, IdempotencyKey
from longshore.dispatcher.service.contracts import NotFound, Unavailable
from longshore.dispatcher.service.kinship import Kinship
from longshore.dispatcher.service.visibility import ProjectOf, shown_container, shown_job
from longshore.dispatcher.store.errors import StoreBusy
from longshore.dispatcher.store.store import Store

T = TypeVar("T", bound=Container | Job)


class StoredThings(Generic[T]):
    """The containers, or the jobs, of a store; used on the loop's thread.

    `kind` is what one is called; `read` returns those of some ids that there are, in their order,
    and `shape` what a caller is shown of one.
    """

    def __init__(
        self,
        *,
        kind: str,
        read: Callable[[Sequence[str]], Awaitable[Sequence[T]]],
        shape: Callable[[T, Principal, ProjectOf], T],
        kinship: Kinship,
        admission: AdmissionController,
        view: EngineView,
        now: Callable[[], float],
    ) -> None:
        self._kind = kind
        self._read = read
        self._shape = shape
        self._kinship = kinship
        self._admission = admission
        self._view = view
        self._now = now

    async def several(self, ids: Sequence[str]) -> Sequence[T]:
        """Return those of some ids that there are, all of them at once; raises `Unavailable`."""
        try:
            return await self._read(ids)
        except StoreBusy as error:
            raise Unavailable(str(error)) from error

    async def get(self, thing_id: str) -> T:
        """Return one to decide by; raises `NotFound`, `Unavailable`."""
        found = await self.several([thing_id])
        if not found:
            raise NotFound(f"there is no {self._kind} {thing_id}")
        return found[0]

    async def own(self, thing_id: str, caller: Principal) -> T:
        """Return one to decide by that a caller may change; raises `NotFound`, `Forbidden`."""
        found = await self.get(thing_id)
        await self._kinship.expect_own(found, caller)
        return found

    async def made_before(self, key: IdempotencyKey, refusal: Exception) -> Sequence[T]:
        """Return what the same request made before; raises its refusal where that is unknown."""
        made = await self._admission.made_before(key, self._now(), is_job=self._kind == "job")
        if not made:
            raise refusal
        return await self.several(made)

    async def visible(self, thing_id: str, caller: Principal) -> T:
        """Return one as a caller is shown it; raises `NotFound`, also for what it does not see."""
        found = await self.get(thing_id)
        await self._kinship.expect_visible(found, caller)
        return self.shown(found, caller)

    async def changed(self, thing_id: str, caller: Principal) -> T:
        """Return one as a caller is shown it who has just changed it; raises `Unavailable`."""
        return self.shown(await self.get(thing_id), caller)

    def shown(self, found: T, caller: Principal) -> T:
        """Return one as a caller is shown it who may see it."""
        return self._shape(found, caller, self.project_of)

    def project_of(self, thing_id: str) -> str:
        """Return the project of a container or job that has not ended, "" of any other."""
        known = self._view.container(thing_id) or self._view.job(thing_id)
        return known.project if known is not None else ""


def stored_containers(
    store: Store,
    *,
    kinship: Kinship,
    admission: AdmissionController,
    view: EngineView,
    now: Callable[[], float],
) -> StoredThings[Container]:
    """Return the containers of a store; one alone has all of its attempts."""

    async def read(ids: Sequence[str]) -> Sequence[Container]:
        if len(ids) > 1:
            return await asyncio.to_thread(store.containers_of, ids)
        found = await asyncio.to_thread(store.container, ids[0])
        return [] if found is None else [found]

    return StoredThings(
        kind="container",
        read=read,
        shape=shown_container,
        kinship=kinship,
        admission=admission,
        view=view,
        now=now,
    )


def stored_jobs(
    read_one: Callable[[str], Awaitable[Job | None]],
    *,
    kinship: Kinship,
    admission: AdmissionController,
    view: EngineView,
    now: Callable[[], float],
) -> StoredThings[Job]:
    """Return the jobs that `read_one` returns by their ids."""

    async def read(ids: Sequence[str]) -> Sequence[Job]:
        found = [await read_one(each) for each in ids]
        return [each for each in found if each is not None]

    return StoredThings(
        kind="job",
        read=read,
        shape=shown_job,
        kinship=kinship,
        admission=admission,
        view=view,
        now=now,
    )
