"""The table of the routes of jobs."""

from __future__ import annotations

from longshore.dispatcher.api import job_wire, wire
from longshore.dispatcher.api.job_plans import PlanAnswer
from longshore.dispatcher.api.jobs import JOB_LIST_PARAMETERS, JobRoutes
from longshore.dispatcher.api.openapi import Route


def job_routes(jobs: JobRoutes) -> list[Route]:
    """Return the routes of jobs."""
    return [*_of_all(jobs), *_of_one(jobs, "/v1/jobs/{id}")]


def _of_all(jobs: JobRoutes) -> list[Route]:
    return [
        Route(
            method="POST",
            path="/v1/jobs",
            handler=jobs.submit,
            summary="Submit a job: containers, arrays of them, and what waits for what",
            request=(job_wire.JobRequest,),
            answer=(job_wire.JobAnswer,),
            status=201,
            headers=("Idempotency-Key",),
        ),
        Route(
            method="GET",
            path="/v1/jobs",
            handler=jobs.list,
            summary="List jobs, newest first, without their tasks",
            answer=(job_wire.JobList,),
            parameters=JOB_LIST_PARAMETERS,
        ),
        Route(
            method="POST",
            path="/v1/jobs/plan",
            handler=jobs.plan,
            summary="Tell what a job would come to, or with `job` its update, and change nothing",
            request=(job_wire.JobRequest,),
            answer=(PlanAnswer,),
            parameters=("job",),
        ),
    ]


def _of_one(jobs: JobRoutes, job: str) -> list[Route]:
    return [
        Route(
            method="GET",
            path=job,
            handler=jobs.show,
            summary="Show one job with its tasks",
            answer=(job_wire.JobAnswer,),
        ),
        Route(
            method="PATCH",
            path=job,
            handler=jobs.change,
            summary="Change a job's priority, hold it, or release it",
            request=(job_wire.JobChangeRequest,),
            answer=(job_wire.JobAnswer,),
        ),
        Route(
            method="PUT",
            path=job,
            handler=jobs.revise,
            summary="Update a system or sysbatch job: make it what the body says",
            request=(job_wire.JobRequest,),
            answer=(job_wire.JobAnswer,),
        ),
        Route(
            method="POST",
            path=f"{job}/dispatch",
            handler=jobs.dispatch,
            summary="Run a parameterized job with these parameters",
            request=(job_wire.DispatchRequest,),
            answer=(job_wire.JobAnswer,),
            status=201,
            headers=("Idempotency-Key",),
        ),
        Route(
            method="POST",
            path=f"{job}/cancel",
            handler=jobs.cancel,
            summary="Ask for all of a job to be cancelled",
            request=(wire.CancelRequest,),
            answer=(job_wire.JobAnswer,),
            status=202,
        ),
    ]
