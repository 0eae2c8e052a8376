"""The routes of jobs."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import msgspec
from aiohttp import web
from msgspec import structs

from longshore.dispatcher.api.render.jobs import (
    job_answer,
    job_bytes,
    job_costs_answer,
    plan_answer,
)
from longshore.dispatcher.api.render.values import how_many_fit, json_response
from longshore.dispatcher.api.routes.callers import caller_of
from longshore.dispatcher.api.routes.openapi import KEY_HEADER, TRACE_HEADER, Route
from longshore.dispatcher.api.schemas import containers
from longshore.dispatcher.api.schemas import jobs as job_wire
from longshore.dispatcher.api.schemas.containers import CancelRequest
from longshore.dispatcher.api.schemas.jobs import DispatchRequest, JobChangeRequest, JobList
from longshore.dispatcher.api.validate.bodies import (
    Bodies,
    QueryString,
    decode_one,
    idempotency_key,
    trace_header,
)
from longshore.dispatcher.api.validate.ids import path_id
from longshore.dispatcher.api.validate.jobs import JobDecoder, JobSubmission
from longshore.dispatcher.api.validate.limits import ApiLimits
from longshore.dispatcher.api.validate.parameters import (
    NAME,
    PAGE_PARAMETERS,
    PROJECT,
    USER,
    Choice,
    Choices,
    Switch,
    Text,
)
from longshore.dispatcher.api.validate.submissions import fingerprint
from longshore.dispatcher.domain.containers import Reason, WaitReason
from longshore.dispatcher.domain.jobs import Job, JobState
from longshore.dispatcher.domain.principals import Principal
from longshore.dispatcher.domain.queries import JobFilter, JobPage
from longshore.dispatcher.service.estimates import EstimateService
from longshore.dispatcher.service.jobs import JobService
from longshore.dispatcher.service.spent import JobSpent, SpentService
from longshore.drivers.errors import InvalidRequest

_MANY_TASKS = 200
_STATES = {state.value: state for state in JobState}

_STATE = Choices(name="state", description="Only those in these states.", words=tuple(_STATES))
_PARENT = Text(
    name="parent", description="Only the runs of this job, or what this container submitted."
)
_OWN = Switch(name="own", description="Only what users submitted: no runs.")
_ON_EACH_INSTANCE: Mapping[str, Any] = {
    "name": "node-exporter",
    "type": "system",
    "tasks": [{"command": ["node_exporter"], "cpus": 0.1, "memory": "64MiB"}],
}
_JOBS: Mapping[str, Any] = {
    "an array, and what waits for it": {
        "name": "render",
        "tasks": [
            {"name": "frame", "command": ["./frame"], "array": {"size": 100, "max_running": 10}},
            {"name": "join", "command": ["./join"], "after": ["frame"]},
        ],
    },
    "on each instance": _ON_EACH_INSTANCE,
    "every night": {
        "periodic": {"cron": "30 2 * * *", "overlap": "forbid"},
        "tasks": [{"command": ["./clean"]}],
    },
    "with parameters": {
        "parameterized": {"required": ["input"], "optional": {"width": "640"}},
        "tasks": [{"command": ["./resize"]}],
    },
}
JOB_LIST_PARAMETERS = (_STATE, USER, PROJECT, NAME, _PARENT, _OWN, *PAGE_PARAMETERS)
_COSTS = Choice(
    name="costs",
    description="Also what it has cost, by task or also by `index` of its arrays.",
    words=("none", "task", "index"),
    default="none",
)
JOB_SHOW_PARAMETERS = (_COSTS,)
_UPDATED = Text(
    name="job", description="The id of the job whose update the body is; without it, a new job."
)


class JobRoutes:
    """Answers for `/v1/jobs` and below."""

    def __init__(
        self,
        jobs: JobService,
        estimates: EstimateService,
        spent: SpentService,
        *,
        bodies: Bodies,
        decoder: JobDecoder,
        limits: ApiLimits,
        now: Callable[[], float | None],
    ) -> None:
        self._jobs = jobs
        self._estimates = estimates
        self._spent = spent
        self._bodies = bodies
        self._decoder = decoder
        self._limits = limits
        self._now = now

    async def submit(self, request: web.Request) -> web.Response:
        """Take a job with all of its containers, or nothing of it."""
        key, caller = idempotency_key(request), caller_of(request)
        submission = await self._bodies.decoded(request, self._new(caller))
        made = await self._jobs.submit(
            submission.job.within_trace(trace_header(request)),
            caller=caller,
            idempotency_key=key,
            fingerprint=submission.fingerprint,
        )
        location = {"Location": f"/v1/jobs/{made.id}"}
        return await _answer(made, status=201, headers=location, now=self._now())

    async def list(self, request: web.Request) -> web.Response:
        """Answer a page of jobs, newest first, without their tasks; `own` ones are no runs."""
        query = QueryString(request, JOB_LIST_PARAMETERS)
        parent, own = query.text(_PARENT), query.switch(_OWN)
        if parent and own:
            raise InvalidRequest(
                [("own", "leaves out the runs that parent asks for: give only one of the two")]
            )
        which = JobFilter(
            states=tuple(_STATES[word] for word in query.choices(_STATE)),
            user=query.text(USER),
            project=query.text(PROJECT),
            name=query.text(NAME),
            parent=parent,
            own=own,
        )
        caller, (cursor, limit) = caller_of(request), query.page()
        page = await self._page(which, caller, cursor=cursor, limit=limit)

        # Not in a thread: it is the engine that knows.
        told = [(one, self._jobs.trouble(one)) for one in page.items]

        def build() -> web.Response:
            items = [job_answer(one, with_tasks=False, trouble=trouble) for one, trouble in told]
            return json_response(JobList(items=items, next_cursor=page.next_cursor))

        many = sum(len(one.tallies) for one in page.items) > _MANY_TASKS
        return await asyncio.to_thread(build) if many else build()

    async def show(self, request: web.Request) -> web.Response:
        """Answer one job with its tasks."""
        told = QueryString(request, JOB_SHOW_PARAMETERS).choice(_COSTS)
        job = await self._jobs.job(path_id(request, "job"), caller=caller_of(request))
        waits, trouble = self._jobs.why_waiting(job), self._jobs.trouble(job)
        # Who waits for a job asks for it again and again, and it may have many containers.
        costs = None if told == "none" else await self._spent.job(job, by_index=told == "index")
        return await _answer(job, now=self._now(), waits=waits, trouble=trouble, costs=costs)

    async def change(self, request: web.Request) -> web.Response:
        """Change a job's priority, hold it, or release it."""
        job_id = path_id(request, "job")
        wanted = await self._bodies.decoded(request, partial(decode_one, JobChangeRequest))
        changed, caller = None, caller_of(request)
        if wanted.priority is not None:
            await self._jobs.expect_priority(job_id, wanted.priority, caller=caller)
        # Nothing may start in between that shall not: held first, or released last.
        if wanted.held:
            changed = await self._jobs.hold(job_id, held=True, caller=caller)
        if wanted.priority is not None:
            changed = await self._jobs.set_priority(job_id, wanted.priority, caller=caller)
        if wanted.held is False:
            changed = await self._jobs.hold(job_id, held=False, caller=caller)
        if changed is None:
            raise InvalidRequest([("", "changes nothing: give priority, held, or both")])
        return await _answer(changed)

    async def revise(self, request: web.Request) -> web.Response:
        """Make a system or sysbatch job what the body says: its next revision."""
        job_id, caller = path_id(request, "job"), caller_of(request)
        submission = await self._revision(request, job_id)
        return await _answer(await self._jobs.revise(job_id, submission.job, caller=caller))

    async def plan(self, request: web.Request) -> web.Response:
        """Answer what a job would come to, or its update, and change nothing."""
        job_id, caller = QueryString(request, (_UPDATED,)).text(_UPDATED), caller_of(request)
        if job_id:
            submission = await self._revision(request, job_id)
        else:
            submission = await self._bodies.decoded(request, self._new(caller))
        plan = await self._jobs.plan(submission.job, job_id=job_id, caller=caller)
        cost = await self._estimates.job(submission.job, caller=caller)
        schedule = submission.job.terms.schedule
        return json_response(plan_answer(plan, schedule, self._now(), cost))

    async def _revision(self, request: web.Request, job_id: str) -> JobSubmission:
        """Return the job of a body that names no other project than the job's own."""
        # Nobody need read a body for a job that there is not.
        project = (await self._jobs.job(job_id, caller=caller_of(request))).project
        return await self._bodies.decoded(request, partial(self._decoder.decode, project=project))

    def _new(self, caller: Principal) -> Callable[[bytes], JobSubmission]:
        """Return what decodes a job of a caller's."""
        return partial(self._decoder.decode, project=caller.default_project)

    async def dispatch(self, request: web.Request) -> web.Response:
        """Run a parameterised job with the parameters of the body."""
        job_id, key = path_id(request, "job"), idempotency_key(request)
        wanted = await self._bodies.decoded(request, partial(decode_one, DispatchRequest))
        made = await self._jobs.dispatch(
            job_id,
            wanted.parameters,
            caller=caller_of(request),
            idempotency_key=key,
            fingerprint=fingerprint(["dispatch", job_id, wanted.parameters]),
        )
        location = {"Location": f"/v1/jobs/{made.id}"}
        return await _answer(made, status=201, headers=location, now=self._now())

    async def cancel(self, request: web.Request) -> web.Response:
        """Ask for all of a job to be cancelled."""
        job_id = path_id(request, "job")
        await self._bodies.decoded(request, partial(decode_one, CancelRequest))
        caller = caller_of(request)
        return await _answer(await self._jobs.cancel(job_id, caller=caller), status=202)

    async def _page(
        self, which: JobFilter, caller: Principal, *, cursor: str, limit: int
    ) -> JobPage:
        listed = partial(self._jobs.jobs, which, caller=caller, cursor=cursor)
        page = await listed(limit=limit)
        fitting = how_many_fit(map(job_bytes, page.items), self._limits.page_bytes)
        if fitting < len(page.items):
            page = await listed(limit=fitting)
        return page


async def _answer(
    job: Job,
    *,
    status: int = 200,
    headers: dict[str, str] | None = None,
    now: float | None = None,
    waits: WaitReason | msgspec.UnsetType | None = msgspec.UNSET,
    trouble: Reason | msgspec.UnsetType | None = msgspec.UNSET,
    costs: JobSpent | None = None,
) -> web.Response:
    def build() -> web.Response:
        answer = job_answer(job, with_tasks=True, now=now, waits=waits, trouble=trouble)
        if costs is not None:
            answer = structs.replace(answer, costs=job_costs_answer(costs))
        return json_response(answer, status=status, headers=headers)

    return build() if len(job.tasks) <= _MANY_TASKS else await asyncio.to_thread(build)


# ---- the table of the routes of jobs -------------------------------------------------------------


def job_routes(jobs: JobRoutes) -> list[Route]:
    """Return the routes of jobs."""
    job = "/v1/jobs/{id}"
    return [*_of_all(jobs), *_of_one(jobs, job), *_acts_on_one(jobs, job)]


def _of_all(jobs: JobRoutes) -> list[Route]:
    return [
        Route(
            method="POST",
            path="/v1/jobs",
            handler=jobs.submit,
            operation_id="submit_job",
            refusals=(409,),
            summary="Submit a job: containers, arrays of them, and what waits for what",
            description="All of it is taken or nothing. Tasks wait for tasks of the same job by "
            "name, and for other jobs and containers by id.",
            examples=_JOBS,
            answer_headers=("Location",),
            request=(job_wire.JobRequest,),
            answer=(job_wire.JobAnswer,),
            status=201,
            headers=(KEY_HEADER, TRACE_HEADER),
        ),
        Route(
            method="GET",
            path="/v1/jobs",
            handler=jobs.list,
            operation_id="list_jobs",
            refusals=(404,),
            summary="List jobs, newest first, without their tasks",
            description="Filters that are given together must all hold.",
            answer=(job_wire.JobList,),
            parameters=JOB_LIST_PARAMETERS,
        ),
        Route(
            method="POST",
            path="/v1/jobs/plan",
            handler=jobs.plan,
            operation_id="plan_job",
            summary="Tell what a job would come to, or with `job` its update, and change nothing",
            description="How many containers it has, where they would start now, which instances "
            "would be created and at what price; and what it may come to.",
            examples=_JOBS,
            refusals=(404, 409),
            request=(job_wire.JobRequest,),
            answer=(job_wire.PlanAnswer,),
            parameters=(_UPDATED,),
            only_asks=True,
        ),
    ]


def _of_one(jobs: JobRoutes, job: str) -> list[Route]:
    return [
        Route(
            method="GET",
            path=job,
            handler=jobs.show,
            operation_id="show_job",
            summary="Show one job with its tasks",
            description="With how many containers of each task are in which state, and why it "
            "waits.",
            answer=(job_wire.JobAnswer,),
            parameters=JOB_SHOW_PARAMETERS,
        ),
        Route(
            method="PATCH",
            path=job,
            handler=jobs.change,
            operation_id="change_job",
            summary="Change a job's priority, hold it, or release it",
            description="A job that is held starts nothing new. What is left out stays as it is; to"
            " say nothing at all is refused.",
            examples={"held": {"held": True}, "more urgent": {"priority": 800}},
            refusals=(409,),
            request=(job_wire.JobChangeRequest,),
            answer=(job_wire.JobAnswer,),
        ),
        Route(
            method="PUT",
            path=job,
            handler=jobs.revise,
            operation_id="update_job",
            summary="Update a system or sysbatch job: make it what the body says",
            description="What runs is replaced by the next revision, as its `update` says; a body "
            "that changes nothing changes nothing.",
            examples={"another command": _ON_EACH_INSTANCE},
            refusals=(409,),
            request=(job_wire.JobRequest,),
            answer=(job_wire.JobAnswer,),
        ),
    ]


def _acts_on_one(jobs: JobRoutes, job: str) -> list[Route]:
    return [
        Route(
            method="POST",
            path=f"{job}/dispatch",
            handler=jobs.dispatch,
            operation_id="dispatch_job",
            summary="Run a parameterized job with these parameters",
            description="The answer is the run, a job of its own whose `parent` is this one.",
            examples={"two parameters": {"parameters": {"input": "a.png", "width": "320"}}},
            refusals=(409,),
            answer_headers=("Location",),
            request=(job_wire.DispatchRequest,),
            answer=(job_wire.JobAnswer,),
            status=201,
            headers=(KEY_HEADER,),
        ),
        Route(
            method="POST",
            path=f"{job}/cancel",
            handler=jobs.cancel,
            operation_id="cancel_job",
            summary="Ask for all of a job to be cancelled",
            description="All of its containers are cancelled, and nothing of it begins any more. "
            "Runs of it go on.",
            examples={"all there is to say": {}},
            refusals=(409,),
            request=(containers.CancelRequest,),
            answer=(job_wire.JobAnswer,),
            status=202,
        ),
    ]
