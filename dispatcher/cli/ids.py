"""What an id names, by its prefix, and where the server keeps it."""

from __future__ import annotations

from collections.abc import Sequence
from urllib.parse import quote


def is_job(identifier: str) -> bool:
    """Return whether an id names a job; all others are taken for containers'."""
    return identifier.startswith("j-")


def container_path(container_id: str, tail: str = "") -> str:
    """Return the path of a container, or of something of it."""
    return f"/v1/containers/{quote(container_id, safe='')}{tail}"


def job_path(job_id: str, tail: str = "") -> str:
    """Return the path of a job, or of something of it."""
    return f"/v1/jobs/{quote(job_id, safe='')}{tail}"


def instance_path(instance_id: str, tail: str = "") -> str:
    """Return the path of an instance, or of something of it."""
    return f"/v1/instances/{quote(instance_id, safe='')}{tail}"


def token_path(token_id: str, tail: str = "") -> str:
    """Return the path of a token, or of something of it."""
    return f"/v1/tokens/{quote(token_id, safe='')}{tail}"


def path_of(identifier: str, tail: str = "") -> str:
    """Return the path of a job or a container, or of something of it."""
    return job_path(identifier, tail) if is_job(identifier) else container_path(identifier, tail)


def what_goes_on(identifiers: Sequence[str]) -> str:
    """Return a phrase about those that nobody waits for any more: "the job goes on"."""
    jobs = [is_job(each) for each in identifiers]
    if len(identifiers) == 1:
        return "the job goes on" if jobs[0] else "the container goes on"
    if all(jobs):
        return "the jobs go on"
    return "all of them go on" if any(jobs) else "the containers go on"
