"""What is asked of jobs: taking them in, listing them with today's counts, steering them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from longshore.dispatcher.domain.containers import Container, Reason, WaitReason
from longshore.dispatcher.domain.jobs import Job, JobTask, Overlap, environment_of
from longshore.dispatcher.domain.messages import (
    InsertJob,
    JobCancelRequested,
    JobHoldRequested,
    JobLaunched,
    JobPriorityRequested,
    JobRevised,
    JobSubmitted,
    NoteJobLaunch,
    RequestJobCancel,
    RequestJobHold,
    RequestJobPriority,
    RequestJobRevision,
)
from longshore.dispatcher.domain.principals import Principal
from longshore.dispatcher.domain.queries import JobFilter, JobPage
from longshore.dispatcher.engine.fork import AFTER_ALL
from longshore.dispatcher.engine.runtime import Runtime
from longshore.dispatcher.service.admission import (
    AdmissionController,
    DependencyRef,
    IdempotencyKey,
    wanted_by,
)
from longshore.dispatcher.service.contracts import (
    Conflict,
    KeyReused,
    NewJob,
    Unavailable,
)
from longshore.dispatcher.service.dry_run import JOB_ID, planning
from longshore.dispatcher.service.dry_run_limiter import DryRunLimiter
from longshore.dispatcher.service.dry_run_model import JobPlan
from longshore.dispatcher.service.governing import (
    expect_allowed_priority,
    govern_job,
    govern_run,
)
from longshore.dispatcher.service.job_factory import (
    container_in,
    containers_in,
    misplaced_in_revision,
    new_job,
    next_revision,
    run_of,
    values_of_run,
    why_not_dispatched,
    why_not_revised,
)
from longshore.dispatcher.service.kinship import Kinship
from longshore.dispatcher.service.stored import stored_jobs
from longshore.dispatcher.service.visibility import expect_projects, seen_projects, shown_plan
from longshore.dispatcher.state.memory_limit import own_bytes, spec_bytes
from longshore.dispatcher.store.errors import (
    IdempotencyConflict,
    IdempotentRepeat,
    ParentClosed,
    RevisionConflict,
    StoreBusy,
)
from longshore.dispatcher.store.store import Store
from longshore.drivers.errors import InvalidRequest


class JobService:
    """Jobs as users see and steer them; used on the loop's thread.

    `new_id` gives the random part of ids.
    """

    def __init__(
        self,
        *,
        runtime: Runtime,
        admission: AdmissionController,
        store: Store,
        now: Callable[[], float],
        new_id: Callable[[], str],
    ) -> None:
        self._policies = admission.policies
        self._runtime = runtime
        self._view = runtime.view
        self._admission = admission
        self._store = store
        self._now = now
        self._new_id = new_id
        self._kinship = Kinship(store)
        self._stored = stored_jobs(
            self._read, kinship=self._kinship, admission=admission, view=self._view, now=now
        )
        self._dry_runs = DryRunLimiter()

    async def submit(
        self, new: NewJob, *, caller: Principal, idempotency_key: str, fingerprint: str
    ) -> Job:
        """Commit a new job with its containers, then tell the engine.

        Returns the earlier one on a repeat. Raises `InvalidRequest` when it is for a project that
        the caller does not see, when one of its tasks can never run, or waits for what there is
        not, or what is another project's (paths begin with "tasks[index]"); `KeyReused` when the
        key was used for something else, `Unavailable` when it cannot be taken now.
        """
        expect_projects([("project", new.project)], caller)
        key = IdempotencyKey(user=caller.key_scope, key=idempotency_key, fingerprint=fingerprint)
        try:
            await self._kinship.expect_room_below(caller)
            new = self._governed(new, caller)
            self._refuse_impossible(new.tasks)
            self._refuse_secrets(new)
            made = self._made(new, caller)
            await self._kinship.expect_waits_for_own(_wanted(made), caller)
            made = await self._take_in(made, key)
        except (Unavailable, InvalidRequest) as refusal:
            (made,) = await self._stored.made_before(key, refusal)
        return self._stored.shown(made, caller)

    async def run_of(
        self, template: Job, *, env: Mapping[str, str], idempotency_key: IdempotencyKey
    ) -> Job:
        """Commit a run of a periodic job for the server itself, then tell the engine.

        Its tasks get `env` beside their own. Raises as `submit` does, with paths into the job.
        """
        try:
            return await self._run_of(template, env, idempotency_key)
        except (Unavailable, InvalidRequest) as refusal:
            (run,) = await self._stored.made_before(idempotency_key, refusal)
            return run

    async def _run_of(self, template: Job, env: Mapping[str, str], key: IdempotencyKey) -> Job:
        self._refuse_impossible(template.tasks)
        return await self._take_in(self._made_run(template, env), key)

    async def note_launch(self, template: Job, at: float) -> None:
        """Commit that a periodic job has a run for a time of its schedule, then tell the engine.

        Raises `NotFound`; `Conflict` when it has ended; `Unavailable`.
        """
        await self._admission.request(
            NoteJobLaunch(job_id=template.id, launched_for=at),
            JobLaunched(job_id=template.id, launched_for=at),
        )

    async def dispatch(
        self,
        job_id: str,
        parameters: Mapping[str, str],
        *,
        caller: Principal,
        idempotency_key: str,
        fingerprint: str,
    ) -> Job:
        """Commit a run of a parameterised job with these parameters, then tell the engine.

        Returns the earlier one on a repeat. Raises `NotFound`; `Forbidden` for another's job;
        `Conflict` for one that is not parameterised, has ended or is held; `KeyReused` when the key
        was used for something else; `InvalidRequest` for parameters that are missing or unknown;
        else as `submit`.
        """
        key = IdempotencyKey(user=caller.key_scope, key=idempotency_key, fingerprint=fingerprint)
        template = await self._stored.own(job_id, caller)
        try:
            allowed = govern_run(self._policies, template, caller)
            run = await self._dispatch(allowed, parameters, key)
        except (Unavailable, InvalidRequest, Conflict) as refusal:
            (run,) = await self._stored.made_before(key, refusal)
        return self._stored.shown(run, caller)

    async def _dispatch(
        self, template: Job, parameters: Mapping[str, str], key: IdempotencyKey
    ) -> Job:
        if sentence := why_not_dispatched(template):
            raise Conflict(sentence)
        values = values_of_run(template, parameters)
        return await self._run_of(template, environment_of(values), key)

    async def plan(self, new: NewJob, *, job_id: str, caller: Principal) -> JobPlan:
        """Return what a job would come to, or with `job_id` that job's next revision.

        Changes nothing. Raises as `submit` or `revise` does.
        """
        found = await self._plan(new, job_id=job_id, caller=caller)
        return shown_plan(found, caller, self._stored.project_of)

    async def _plan(self, new: NewJob, *, job_id: str, caller: Principal) -> JobPlan:
        self._admission.expect_kinds(task.spec for task in new.tasks)
        if job_id:
            revised = self._revised(
                await self._stored.own(job_id, caller), self._governed(new, caller)
            )
            return await self._dry_runs.plan(
                lambda: planning(self._runtime.fork, revised, self._now(), ended={}, revises=True)
            )
        expect_projects([("project", new.project)], caller)
        new = self._governed(new, caller)
        self._refuse_impossible(new.tasks)
        self._refuse_secrets(new)
        # Neither an id nor a number is used up: nothing remains of a plan.
        job = new_job(new, job_id=JOB_ID, sequence=AFTER_ALL, user=caller.user, now=self._now())
        self._expect_room(job)
        one_each = tuple(
            container_in(job, task, 0, container_id=JOB_ID, sequence=AFTER_ALL)
            for task in job.tasks
            if task.size
        )
        queued = one_each if not job.type.has_own_scheduler else ()
        with (
            self._admission.reserve_job(job, containers_in(job)),
            self._admission.reserve_classes(queued),
        ):
            # As a submission would, this raises where there is too much already.
            pass
        await self._kinship.expect_waits_for_own(_wanted(job), caller)
        async with self._admission.ended_before(one_each, _wanted(job)) as ended:
            return await self._dry_runs.plan(
                lambda: planning(self._runtime.fork, job, self._now(), ended=ended, revises=False)
            )

    def _expect_room(self, job: Job) -> None:
        """Raise `Unavailable` where a new job with its containers would be too much."""
        if job.is_template or job.type.is_per_instance:
            self._admission.expect_room_for_lasting_job()
        # What a run of a template would have must fit, or none will ever be launched.
        containers = sum(task.size for task in job.tasks)
        self._admission.expect_fitting(containers=containers, size_bytes=0)
        self._admission.expect_room(containers=containers_in(job), size_bytes=_bytes_of(job))

    async def _take_in(self, job: Job, key: IdempotencyKey) -> Job:
        """Commit a new job with its containers, then tell the engine."""
        number = containers_in(job)
        self._expect_room(job)
        containers = self._containers(job) if number else ()
        change = InsertJob(
            job=job,
            containers=containers,
            user=key.user,
            idempotency_key=key.key,
            fingerprint=key.fingerprint,
        )
        try:
            with self._admission.reserve_job(job, number):
                await self._admission.admit(
                    containers,
                    _wanted(job),
                    change,
                    lambda ended: JobSubmitted(job=job, containers=containers, ended=ended),
                    queued=not job.type.has_own_scheduler,
                )
        except IdempotentRepeat as repeat:
            return await self._stored.get(repeat.container_ids[0])
        except IdempotencyConflict as conflict:
            raise KeyReused(str(conflict)) from conflict
        except ParentClosed as closed:
            raise Conflict(str(closed)) from closed
        return job

    def _refuse_impossible(self, tasks: Sequence[JobTask]) -> None:
        self._admission.refuse_impossible(
            (f"tasks[{number}]", task.spec) for number, task in enumerate(tasks)
        )

    def _refuse_secrets(self, new: NewJob) -> None:
        """Raise `InvalidRequest` for secrets that are not there, or in a job that can have none."""
        specs = [(f"tasks[{number}]", task.spec) for number, task in enumerate(new.tasks)]
        if new.type.has_own_scheduler:
            what = f"are for batch jobs, and this is a job of type {new.type.value}: leave them out"
            problems = [(f"{path}.secrets", what) for path, spec in specs if spec.secrets]
            problems += [
                (f"{path}.env", f"has secret values, which {what}")
                for path, spec in specs
                if spec.sealed_env
            ]
            if problems:
                raise InvalidRequest(problems)
        self._admission.refuse_unknown_secrets((path, new.project, spec) for path, spec in specs)

    def _made(self, new: NewJob, caller: Principal) -> Job:
        made = new_job(
            new,
            job_id=f"j-{self._new_id()}",
            sequence=self._store.next_job_sequence(),
            user=caller.user,
            now=self._now(),
        )
        return replace(made, parent=caller.container_id) if caller.container_id else made

    def _made_run(self, template: Job, env: Mapping[str, str]) -> Job:
        return run_of(
            template,
            job_id=f"j-{self._new_id()}",
            sequence=self._store.next_job_sequence(),
            now=self._now(),
            env=env,
        )

    def _containers(self, job: Job) -> tuple[Container, ...]:
        sequences = iter(self._store.next_sequences(containers_in(job)))
        return tuple(
            container_in(
                job, task, index, container_id=f"c-{self._new_id()}", sequence=next(sequences)
            )
            for task in job.tasks
            for index in range(task.size)
        )

    # ---- the next revision -----------------------------------------------------------------------

    async def revise(self, job_id: str, new: NewJob, *, caller: Principal) -> Job:
        """Commit the next revision of a system or sysbatch job, then tell the engine.

        Where nothing of it changes it stays at its revision. Raises `NotFound`, `Forbidden` for
        another's; `Conflict` for a
        job that has ended or is of another type, and when somebody else was first;
        `InvalidRequest` as `submit` does, and for what stays as it is; `Unavailable`.
        """
        job = await self._stored.own(job_id, caller)
        revised = self._revised(job, self._governed(new, caller))
        if revised is job:
            return self._stored.shown(job, caller)
        self._admission.expect_room(containers=0, size_bytes=_bytes_of(revised))
        try:
            await self._admission.request(RequestJobRevision(job=revised), JobRevised(job=revised))
        except RevisionConflict as conflict:
            raise Conflict(str(conflict)) from conflict
        return await self._stored.changed(job_id, caller)

    def _governed(self, new: NewJob, caller: Principal) -> NewJob:
        """Return a job as the policies have it; raises `InvalidRequest`."""
        return govern_job(self._policies, new, caller)

    def _revised(self, job: Job, new: NewJob) -> Job:
        """Return a job at its next revision; raises `Conflict` and `InvalidRequest`."""
        if sentence := why_not_revised(job, new):
            raise Conflict(sentence)
        if problems := misplaced_in_revision(job, new):
            raise InvalidRequest(problems)
        self._refuse_impossible(new.tasks)
        self._refuse_secrets(new)
        return next_revision(job, new, self._now())

    # ---- looking ---------------------------------------------------------------------------

    async def jobs(
        self, which: JobFilter, *, caller: Principal, cursor: str, limit: int
    ) -> JobPage:
        """Return one page of what a caller sees, newest first.

        Raises `InvalidRequest` for a cursor that is not ours.
        """
        which = await self._kinship.seen_jobs(which, caller)
        seen = replace(which, projects=seen_projects(caller))
        try:
            page = await asyncio.to_thread(self._store.jobs, seen, cursor=cursor, limit=limit)
            if any(map(self._has_ended_since, page.items)):
                page = await asyncio.to_thread(self._store.jobs, seen, cursor=cursor, limit=limit)
        except StoreBusy as error:
            raise Unavailable(str(error)) from error
        items = (self._stored.shown(self._as_of_today(job), caller) for job in page.items)
        return replace(page, items=tuple(items))

    async def job(self, job_id: str, *, caller: Principal) -> Job:
        """Return one job as it is committed, with today's counts.

        Raises `NotFound`, also for one that the caller does not see.
        """
        return await self._stored.visible(job_id, caller)

    async def _read(self, job_id: str) -> Job | None:
        found = await asyncio.to_thread(self._store.job, job_id)
        if found is not None and self._has_ended_since(found):
            found = await asyncio.to_thread(self._store.job, job_id)
        return None if found is None else self._as_of_today(found)

    def why_waiting(self, job: Job) -> WaitReason | None:
        """Return why nothing of a job can begin: no instance takes it, or a run must end first.

        None for all but per-instance and periodic jobs.
        """
        schedule = job.terms.schedule
        if schedule is None:
            return self._view.why_nowhere(job, self._now())
        runs = self._view.runs_of(job.id) if schedule.overlap is Overlap.FORBID else ()
        if not runs:
            return None
        return WaitReason(
            code="overlap",
            message=f"its run {runs[0]} has not ended, and it says overlap: forbid",
            behind=runs[0],
        )

    def trouble(self, job: Job) -> Reason | None:
        """Return what is wrong with a per-instance job that goes on, None for all else."""
        return self._view.job_trouble(job, self._now())

    def _has_ended_since(self, job: Job) -> bool:
        """Return whether the store knows more of a job than what was read of it.

        Nobody here knows it any more, so its end is committed. Counts are kept with the end only:
        what was read has those of the beginning.
        """
        return not job.state.final and self._live(job.id) is None

    def _as_of_today(self, job: Job) -> Job:
        live = None if job.state.final else self._live(job.id)
        return job if live is None else replace(job, tallies=live.tallies)

    def _live(self, job_id: str) -> Job | None:
        return self._view.job(job_id) or self._runtime.ending(job_id)

    # ---- steering ----------------------------------------------------------------------------

    async def cancel(self, job_id: str, *, caller: Principal) -> Job:
        """Commit a job's cancellation, then tell the engine.

        Raises `NotFound`, `Forbidden` for another's, `Conflict` when it has ended.
        """
        await self._stored.own(job_id, caller)
        change = RequestJobCancel(job_id=job_id)
        await self._admission.request(change, JobCancelRequested(job_id=job_id))
        return await self._stored.changed(job_id, caller)

    async def set_priority(self, job_id: str, priority: int, *, caller: Principal) -> Job:
        """Commit the priority of all of a job, then tell the engine.

        Raises as `cancel` does, and `InvalidRequest` for more than a policy allows.
        """
        await self.expect_priority(job_id, priority, caller=caller)
        change = RequestJobPriority(job_id=job_id, priority=priority)
        event = JobPriorityRequested(job_id=job_id, priority=priority)
        with self._admission.reserve_classes(self._held_back(job_id) if priority > 0 else []):
            await self._admission.request(change, event)
        return await self._stored.changed(job_id, caller)

    async def expect_priority(self, job_id: str, priority: int, *, caller: Principal) -> None:
        """Raise what `set_priority` would of a caller and its policies, and change nothing."""
        own = await self._stored.own(job_id, caller)
        expect_allowed_priority(self._policies, own, priority, caller)

    async def hold(self, job_id: str, *, held: bool, caller: Principal) -> Job:
        """Commit whether a job starts anything new, then tell the engine; raises as `cancel`."""
        await self._stored.own(job_id, caller)
        change = RequestJobHold(job_id=job_id, held=held)
        with self._admission.reserve_classes([] if held else self._held_back(job_id)):
            await self._admission.request(change, JobHoldRequested(job_id=job_id, held=held))
        return await self._stored.changed(job_id, caller)

    def _held_back(self, job_id: str) -> list[Container]:
        return self._admission.held_back(self._view.containers_of(job_id))


def _bytes_of(job: Job) -> int:
    """Return about how much memory a job takes with the containers that it is submitted with."""
    own = 0 if job.is_template else sum(task.size * own_bytes(task.spec) for task in job.tasks)
    return own + sum(spec_bytes(task.spec) for task in job.tasks)


def _wanted(job: Job) -> list[DependencyRef]:
    """Return what a job's tasks wait for that is no part of the job."""
    return [
        wanted
        for number, task in enumerate(job.tasks)
        for wanted in wanted_by(
            task.spec,
            f"tasks[{number}]",
            project=job.project,
            size=task.size if task.is_array else None,
            own_job=job.id,
        )
    ]
