"""How what users ask for gets in: checked against limits, committed, then told to the engine."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass

from longshore.dispatcher.config.model import EngineName, LimitsConfig
from longshore.dispatcher.domain.containers import Container, ContainerSpec, Dependency
from longshore.dispatcher.domain.feasibility import impossible
from longshore.dispatcher.domain.jobs import Job, JobType
from longshore.dispatcher.domain.messages import (
    AdminEvent,
    Change,
    CompletionsUnwatched,
    CompletionsWatched,
    Event,
    InsertContainers,
    InsertJob,
)
from longshore.dispatcher.domain.policies import NO_POLICIES, Policies
from longshore.dispatcher.domain.queries import Awaited
from longshore.dispatcher.engine.runtime import InboxFull, Runtime, Unconfirmed
from longshore.dispatcher.input.problems import did_you_mean, element, quoted
from longshore.dispatcher.service.contracts import Conflict, InDoubt, NotFound, Unavailable
from longshore.dispatcher.state.dependencies import roots_of
from longshore.dispatcher.state.queue import ClassKey
from longshore.dispatcher.store.errors import (
    AlreadyFinal,
    LeftInDoubt,
    NoSuchContainer,
    NoSuchJob,
    StoreBusy,
    StoreClosed,
    Withdrawn,
)
from longshore.dispatcher.store.vault import Vault
from longshore.drivers.errors import InvalidRequest
from longshore.drivers.interface import InstanceType

_WRITE_PATIENCE_S = 5.0
_PATIENCE_EACH_S = 0.0005
"""How much longer a container more may take: a hundred thousand take seconds to write."""

_COMMIT_PATIENCE_S = 30.0
"""How much longer a commit may take that is under way: whoever is told that it may be done or not
has to find out. Less than most clients wait for an answer."""

_PROBLEMS_TOLD = 100

LASTING_JOBS_MOST = 10_000
"""How many jobs there may be that have no containers of their own; memory counts only those."""

PER_INSTANCE_JOBS_MOST = 200
"""How many of them may run on each instance: passes look at each of them on each instance."""

ELASTIC_CONTAINERS_MOST = 10_000
"""How many containers all elastic jobs may have: passes look at each of them."""

PathAndSpec = tuple[str, ContainerSpec]
"""Where in the request a specification stands, and the specification."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DependencyRef:
    """Something to wait for: where the request says it, whose project may, as which array.

    `size` is how many elements the array has that waits, None when it is none.
    """

    path: str
    dependency: Dependency
    project: str
    size: int | None = None


def wanted_by(
    spec: ContainerSpec, path: str, *, project: str, size: int | None = None, own_job: str = ""
) -> Iterator[DependencyRef]:
    """Yield what a specification, which stands at `path`, waits for that is no part of its job."""
    for place, dependency in enumerate(spec.after):
        if not own_job or dependency.of.partition("/")[0] != own_job:
            yield DependencyRef(
                path=f"{path}.after[{place}].of", dependency=dependency, project=project, size=size
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class IdempotencyKey:
    """What makes a repeated request harmless: whose `key` it is, "" for none, and what it meant."""

    user: str
    key: str = ""
    fingerprint: str = ""


class AdmissionController:
    """The way into the store and the engine; used on the loop's thread.

    `engine` is what instances are to run containers with.
    What is not committed within `write_patience_s` is taken back; a commit that is under way by
    then is waited for by `commit_patience_s` longer.
    """

    def __init__(
        self,
        *,
        runtime: Runtime,
        vault: Vault,
        types: Sequence[InstanceType],
        engine: EngineName,
        limits: LimitsConfig,
        policies: Policies = NO_POLICIES,
        write_patience_s: float = _WRITE_PATIENCE_S,
        commit_patience_s: float = _COMMIT_PATIENCE_S,
    ) -> None:
        #: What callers may ask for.
        self.policies = policies
        self._write_patience_s = write_patience_s
        self._commit_patience_s = commit_patience_s
        self._runtime = runtime
        self._view = runtime.view
        self._store, self._vault = vault.store, vault
        self._types = tuple(types)
        self._engine = engine
        self._limits = limits
        self._arriving: Counter[ClassKey] = Counter()
        self._arriving_of_kind: Counter[JobType] = Counter()

    async def made_before(
        self, key: IdempotencyKey, now: float, *, is_job: bool = False
    ) -> Sequence[str]:
        """Return the ids of what the same request made before, () if that is not known.

        Who was taken in is answered so, whatever there is room for, or what is allowed, by now.
        `now` is in seconds since the epoch.
        """
        if not key.key:
            return ()
        try:
            return await asyncio.to_thread(
                self._store.made_by,
                user=key.user,
                key=key.key,
                fingerprint=key.fingerprint,
                now=now,
                is_job=is_job,
            )
        except StoreBusy:
            return ()  # then the refusal stands, and the client asks again

    # ---- what may come in ---------------------------------------------------------------------

    def expect_room(self, *, containers: int, size_bytes: int) -> None:
        """Raise `Unavailable` when so many containers of this size in all are too many.

        What would be too much for an empty queue raises `InvalidRequest`: no wait makes it fit.
        """
        view, limits = self._view, self._limits
        self.expect_fitting(containers=containers, size_bytes=size_bytes)
        if len(view.containers) + containers > limits.queued_containers:
            raise Unavailable(f"the queue is full ({limits.queued_containers} containers)")
        if view.memory_bytes + size_bytes > limits.queued_bytes:
            raise Unavailable(f"the queue is full ({limits.queued_bytes} bytes)")

    def expect_fitting(self, *, containers: int, size_bytes: int) -> None:
        """Raise `InvalidRequest` when so many containers would never fit into the queue."""
        limits = self._limits
        for number, what, most, name in (
            (containers, "containers", limits.queued_containers, "queued_containers"),
            (size_bytes, "bytes", int(limits.queued_bytes), "queued_bytes"),
        ):
            if number > most:
                raise InvalidRequest([("", _never_fits(f"{number} {what}", most, name))])

    def expect_room_for_lasting_job(self) -> None:
        """Raise `Unavailable` when too many jobs are there that do not end by themselves."""
        if self._view.lasting_jobs >= LASTING_JOBS_MOST:
            raise Unavailable(
                f"there are {LASTING_JOBS_MOST} system, sysbatch, periodic and parameterized jobs"
                " already: cancel some that nobody needs any more"
            )

    @contextmanager
    def reserve_job(self, job: Job, containers: int) -> Iterator[None]:
        """Let a job come with so many containers; raises `Unavailable` where passes took too long.

        What is being committed counts too, as with kinds.
        """
        if job.is_template or not job.type.has_own_scheduler:
            yield
            return
        number = 1 if job.type.is_per_instance else containers
        # System and sysbatch jobs are counted as one.
        kind = JobType.SYSTEM if job.type.is_per_instance else job.type
        self._expect_pass_capacity(kind, number)
        self._arriving_of_kind[kind] += number
        try:
            yield
        finally:
            self._arriving_of_kind[kind] -= number

    def _expect_pass_capacity(self, kind: JobType, number: int) -> None:
        view, arriving = self._view, self._arriving_of_kind[kind]
        if kind is JobType.SYSTEM and view.per_instance_jobs + arriving >= PER_INSTANCE_JOBS_MOST:
            raise Unavailable(
                f"there are {PER_INSTANCE_JOBS_MOST} system and sysbatch jobs already: cancel some"
                " that nobody needs any more, or let one do the work of several"
            )
        there = view.elastic_containers + arriving
        if kind is JobType.ELASTIC and number > ELASTIC_CONTAINERS_MOST:
            why = f"has {number} containers, and elastic jobs may have {ELASTIC_CONTAINERS_MOST}"
            raise InvalidRequest([("tasks", f"{why} in all: submit fewer, or a batch job")])
        if kind is JobType.ELASTIC and there + number > ELASTIC_CONTAINERS_MOST:
            raise Unavailable(
                f"elastic jobs have {there} containers, and {ELASTIC_CONTAINERS_MOST} are the"
                " most: try again when some have ended, or submit a batch job"
            )

    def refuse_impossible(self, specs: Iterable[PathAndSpec]) -> None:
        """Raise `InvalidRequest` with all that can never run on any configured type, or engine."""
        problems = []
        # A list is often thousands of one kind.
        known: dict[ClassKey, str] = {}
        for path, spec in specs:
            key = ClassKey(
                resources=spec.resources, constraints=spec.constraints, unnamed=spec.unnamed
            )
            if key not in known:
                known[key] = impossible(self._types, spec.resources, spec.constraints, spec.unnamed)
            if sentence := known[key]:
                problems.append((f"{path}.resources", sentence))
            if sentence := _without_engine(self._engine, spec.image):
                problems.append((f"{path}.image", sentence))
        if problems:
            raise InvalidRequest(problems)

    def refuse_unknown_secrets(self, specs: Iterable[tuple[str, str, ContainerSpec]]) -> None:
        """Raise `InvalidRequest` with every secret that is not there, of (path, project, spec)."""
        known, problems = self._vault.secrets, []
        for path, project, spec in specs:
            for number, use in enumerate(spec.secrets):
                if (project, use.secret) in known:
                    continue
                names = sorted(name for of, name in known if of == project)
                hint = f" ({did_you_mean(use.secret, names)})" if names else ""
                sentence = (
                    f"there is no secret {quoted(use.secret)} in project {project}{hint}: a lead"
                    f" sets it with 'longshore secret set {use.secret} --project {project}'"
                )
                problems.append((f"{element(f'{path}.secrets', number)}.name", sentence))
        if problems:
            raise InvalidRequest(problems[:_PROBLEMS_TOLD])

    def expect_kinds(self, specs: Iterable[ContainerSpec]) -> None:
        """Raise `InvalidRequest` where there are more kinds among some than may ever wait."""
        kinds = {(spec.resources, spec.constraints, spec.unnamed) for spec in specs}
        most = self._limits.queued_classes
        if len(kinds) > most:
            why = _never_fits(f"{len(kinds)} kinds of requests", most, "queued_classes")
            remedy = "let more tasks ask for the same resources and constraints"
            raise InvalidRequest([("", f"{why}; or {remedy}")])

    @contextmanager
    def reserve_classes(self, containers: Iterable[Container]) -> Iterator[None]:
        """Let containers come to wait; raises `Unavailable` when there would be too many kinds.

        What is being committed counts too, or many requests at once would each find room.
        """
        # The elements of an array share what makes their kind.
        one_each = {(id(c.spec), c.user, c.project): c for c in containers}.values()
        keys = Counter({self._view.key_of(each): 1 for each in one_each})
        most = self._limits.queued_classes
        if keys and self._view.kinds_with(keys.keys() | self._arriving.keys()) > most:
            raise Unavailable(
                f"the queue is full ({most} kinds of requests);"
                " ask for the same resources and constraints as others do, or try again"
            )
        self._arriving += keys
        try:
            yield
        finally:
            self._arriving -= keys

    def held_back(self, container_ids: Iterable[str]) -> list[Container]:
        """Return those that neither run nor wait for room, and would wait in the queue for it."""
        view = self._view
        known = (view.containers[each] for each in container_ids if each in view.containers)
        found = [e for e in known if not view.place_in_queue(e.id) and not e.has_open_attempt]
        types = {each.job_id: view.job_type(each.job_id) for each in found}
        placed = {job_id for job_id, type_ in types.items() if type_ and type_.has_own_scheduler}
        return [each for each in found if each.job_id not in placed]

    # ---- what others are to wait for ------------------------------------------------------------

    async def _watch(
        self, containers: Iterable[Container], wanted: Sequence[DependencyRef]
    ) -> Callable[[], None]:
        """Let the engine remember from now on which of what containers wait for ends.

        Returns what lets it forget, for who does not submit them. What it has decided by then is
        committed. Raises `Unavailable` when that takes too long: it remembers nothing then.
        """
        if not wanted:
            return lambda: None
        self._expect_store()
        roots = tuple(roots_of(containers))

        def forget() -> None:
            self._runtime.post_committed(CompletionsUnwatched(roots=roots))

        try:
            async with asyncio.timeout(self._write_patience_s):
                await self._runtime.ask(CompletionsWatched(roots=roots))
        except (InboxFull, Unconfirmed) as error:
            raise Unavailable(str(error)) from error
        except TimeoutError as error:
            forget()
            raise Unavailable("the store takes too long; nothing was accepted") from error
        except asyncio.CancelledError:
            forget()
            raise
        return forget

    async def _look_up(self, wanted: Sequence[DependencyRef]) -> Mapping[str, bool]:
        """Return, of what new containers wait for, what has ended; by node, and how.

        Raises `InvalidRequest` for what there is not in the project, or is no array of the same
        size. What is waited for is watched before, so that nothing is missed after.
        """
        if not wanted:
            return {}
        try:
            of = [each.dependency for each in wanted]
            found = await asyncio.to_thread(self._store.dependency_status, of)
        except (StoreBusy, StoreClosed) as error:
            raise Unavailable(str(error)) from error
        problems = []
        ended: dict[str, bool] = {}
        for each in wanted:
            known = found.get(each.dependency.of)
            sentence = _unfit(each, known)
            if sentence:
                problems.append((each.path, sentence))
            elif known is not None:
                ended.update(known.ended)
        if problems:
            raise InvalidRequest(problems)
        return ended

    @asynccontextmanager
    async def ended_before(
        self, containers: Iterable[Container], wanted: Sequence[DependencyRef]
    ) -> AsyncIterator[Mapping[str, bool]]:
        """Tell what has ended, as `admit` does, for containers that do not come to stay.

        Until they have gone again nothing is missed that ends meanwhile. Raises as `admit` does.
        """
        forget = await self._watch(containers, wanted)
        try:
            yield await self._look_up(wanted)
        finally:
            forget()

    # ---- committing -----------------------------------------------------------------------------

    async def admit(
        self,
        containers: Sequence[Container],
        wanted: Sequence[DependencyRef],
        change: Change,
        event: Callable[[Mapping[str, bool]], Event],
        *,
        queued: bool = True,
    ) -> None:
        """Commit new containers and tell the engine by `event`, which gets what has ended before.

        Those that are not `queued` never wait in the queue.
        Raises `InvalidRequest` for what cannot be waited for, else as `write` does. Nothing that
        ends meanwhile is missed.
        """
        with self.reserve_classes(containers if queued else ()):
            forget = await self._watch(containers, wanted)
            try:
                ended = await self._look_up(wanted)
            except BaseException:
                forget()
                raise
            await self.write(
                change,
                event(ended),
                on_refused=forget,
                more_s=_PATIENCE_EACH_S * len(containers),
            )

    async def write(
        self,
        change: Change,
        event: Event | None,
        *,
        on_committed: Callable[[], None] = lambda: None,
        on_refused: Callable[[], None] = lambda: None,
        more_s: float = 0.0,
    ) -> None:
        """Commit one change of the API's and tell the engine, or say why it cannot be.

        `event` None tells the engine nothing; `on_committed` is called, once, when it is committed.

        The engine hears of it before the client does, and also when the client has hung up.
        What is not committed in time is taken back, so that a client that tries again does not get
        it twice; it gets `more_s` than others. Once its commit is under way it cannot be taken
        back: it is waited for longer, and then `InDoubt` says that nobody knows; a client that
        tries again with the same idempotency key does not get it twice then either. `on_refused`
        is called, once, when the engine is not told and never will be.
        """
        try:
            future = self._queue(change)
        except Unavailable:
            on_refused()
            raise
        written = asyncio.wrap_future(future)
        written.add_done_callback(
            lambda done: self._tell_engine(done, event, on_committed, on_refused)
        )
        try:
            # Shielded: a client that hangs up does not take back what it asked for.
            async with asyncio.timeout(self._write_patience_s + more_s):
                await asyncio.shield(written)
        except TimeoutError:
            if self._store.withdraw(future):
                why = self._store.problem or "the store takes too long"
                raise Unavailable(f"{why}; nothing was accepted") from None
            await self._committed(change, written)
        except (StoreClosed, Withdrawn) as error:
            raise Unavailable(str(error)) from error
        except LeftInDoubt as error:
            raise _in_doubt(change, str(error)) from error

    async def _committed(self, change: Change, written: asyncio.Future[None]) -> None:
        """Wait for a commit that is under way; raises what the change is refused with."""
        try:
            async with asyncio.timeout(self._commit_patience_s):
                await asyncio.shield(written)
        except TimeoutError:
            raise _in_doubt(change, self._store.problem or "the store takes too long") from None
        except LeftInDoubt as error:
            raise _in_doubt(change, str(error)) from error

    def _expect_store(self) -> None:
        if self._store.problem:
            raise Unavailable(self._store.problem)

    def _queue(self, change: Change) -> Future[None]:
        self._expect_store()
        try:
            self._runtime.check_room()
            return self._store.write((change,))
        except (StoreBusy, StoreClosed, InboxFull) as error:
            raise Unavailable(str(error)) from error

    def _tell_engine(
        self,
        written: asyncio.Future[None],
        event: Event | None,
        on_committed: Callable[[], None],
        on_refused: Callable[[], None],
    ) -> None:
        if not written.cancelled() and written.exception() is None:
            on_committed()
            if event is not None:
                self._runtime.post_committed(event)
        else:
            on_refused()

    async def control_instance(self, event: AdminEvent) -> None:
        """Tell the engine to steer an instance, and wait until a restart would know of it.

        Raises `Unavailable` when nothing is taken in, since what follows would wait for the store,
        or when that is not committed in time: it may be all the same.
        """
        self._expect_store()
        if self._view.pool.stalled:
            raise Unavailable(
                "the store takes too long; this was not accepted, and what was asked for before "
                "is done once that is written"
            )
        try:
            async with asyncio.timeout(self._write_patience_s):
                await self._runtime.ask(event)
        except InboxFull as error:
            raise Unavailable(str(error)) from error
        except Unconfirmed as error:
            raise Unavailable(
                f"{error}: this may be done or not; ask again once it is back"
            ) from error
        except TimeoutError as error:
            why = self._store.problem or "the store takes too long"
            raise Unavailable(
                f"{why}: this was accepted. It takes effect once it is written, and is "
                "forgotten if the server ends before; ask again once the store works"
            ) from error

    async def request(self, change: Change, event: Event) -> None:
        """Commit a change of what there is; raises `NotFound`, `Conflict`, `Unavailable`."""
        try:
            await self.write(change, event)
        except (NoSuchContainer, NoSuchJob) as error:
            raise NotFound(str(error)) from error
        except AlreadyFinal as error:
            raise Conflict(str(error)) from error


def _in_doubt(change: Change, why: str) -> InDoubt:
    """Return what is said of a change of which nobody knows whether it will be done."""
    match change:
        case InsertContainers() | InsertJob() if change.idempotency_key:
            remedy = "send it again with the same Idempotency-Key, which makes it once"
        case InsertContainers() | InsertJob():
            remedy = "it had no Idempotency-Key, so look for it before you send it again"
        case _:
            remedy = "ask again, or look; asking twice does no harm"
    return InDoubt(f"{why}: this was being written, and may be done or not; {remedy}")


def _without_engine(engine: EngineName, image: str) -> str:
    """Return why the engine of the configuration can run no such request, "" where it can."""
    if engine is EngineName.AUTO or bool(image) is (engine is not EngineName.PROCESS):
        return ""
    what = f"cannot be run: engine.name of the configuration is {engine.value}"
    if image:
        remedy = "leave the image out, or have engine.name set to podman, docker or auto"
        return f"{what}, which runs no images; {remedy}"
    remedy = "name an image, or have engine.name set to auto"
    return f"{what}, which runs nothing without an image; {remedy}"


def _never_fits(what: str, most: int, limit: str) -> str:
    """Return what is wrong with so much of something that an empty queue would not hold it."""
    return (
        f"has {what}, and {most} may be in the queue at once (limits.{limit}), so that it never"
        " fits: send it in parts, or have an admin raise the limit"
    )


def _unfit(wanted: DependencyRef, known: Awaited | None) -> str:
    """Return what is wrong with what somebody is to wait for, "" for nothing."""
    dependency = wanted.dependency
    if known is None or known.project != wanted.project:
        return f"there is no {dependency.of} in the project {wanted.project!r}"
    if dependency.each and (wanted.size is None or known.size != wanted.size):
        theirs = "no array" if known.size is None else f"an array of {known.size}"
        which = "" if "/" in dependency.of else f" (a task of a job is {dependency.of}/NAME)"
        return f"{dependency.of} is {theirs}{which}; element by element both are arrays of one size"
    return ""
