"""`longshore explain j-…`: what a job's waiting containers wait for, by reason."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from msgspec import to_builtins

from longshore.dispatcher.api.schemas.containers import ContainerAnswer
from longshore.dispatcher.api.schemas.jobs import JobAnswer
from longshore.dispatcher.cli import job_words, output, times
from longshore.dispatcher.cli.answers import is_final, read
from longshore.dispatcher.cli.client import CommandClient, Json
from longshore.dispatcher.cli.ids import job_path
from longshore.dispatcher.cli.render.job_render import progress_line
from longshore.dispatcher.cli.render.job_runs import print_runs

EXAMINED_MOST = 5_000
INSTANCES_SHOWN = 10
NOT_PLANNED = "not_planned"
"""The code of those that nobody has looked at yet."""
NOT_LOOKED = "nobody has looked for a place for it yet"


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitingGroup:
    """How many containers wait for one reason, and one of them with what is said of it."""

    code: str
    behind_code: str
    limit: str
    count: int
    example: str
    message: str
    for_instance: str = ""


def explain_job(client: CommandClient, job_id: str, *, as_json: bool) -> None:
    """Write what keeps a job from going on; of very many that wait the newest are looked at."""
    raw = client.get(job_path(job_id))
    job = read(raw, JobAnswer)
    query = [("job", job_id), ("state", "queued")]
    queued: list[ContainerAnswer] = []
    if not is_final(job):
        pages = client.pages("/v1/containers", query, EXAMINED_MOST)
        queued = [read(each, ContainerAnswer) for each in pages]
    groups = grouped(queued)
    if as_json:
        output.print_json(document(job, groups, len(queued)))
        return
    for line in explanation(job, groups, len(queued)):
        output.print_wrapped(line)
    if job_words.is_per_instance(job):
        # Each waits for its own instance, and so for its own reason.
        output.print_block("where they wait, and what for", by_instance(queued))
        return
    output.print_block(
        "what they wait for",
        [(str(each.count), f"like {each.example}: {each.message}") for each in groups],
    )
    if job_words.is_template(job):
        print_runs(client, job.id)


def by_instance(waiting: Sequence[ContainerAnswer]) -> list[tuple[str, str]]:
    """Return of the oldest containers that wait for their instances where, and why."""
    oldest = list(reversed(waiting))
    shown = oldest[:INSTANCES_SHOWN]
    rows = [(each.for_instance or "", each.waiting or NOT_LOOKED) for each in shown]
    left_out = len(oldest) - len(rows)
    return [*rows, ("...", f"and {left_out} more")] if left_out else rows


def grouped(waiting: Iterable[ContainerAnswer]) -> list[WaitingGroup]:
    """Return containers by why they wait, the largest group first.

    Of each group, which is told newest first, the example is the oldest: it is next.
    """
    groups: dict[tuple[str, str, str], list[ContainerAnswer]] = {}
    for each in waiting:
        groups.setdefault(_kind(each), []).append(each)
    found = [
        WaitingGroup(
            code=code,
            behind_code=behind_code,
            limit=limit,
            count=len(members),
            example=members[-1].id,
            message=members[-1].waiting or NOT_LOOKED,
            for_instance=members[-1].for_instance or "",
        )
        for (code, behind_code, limit), members in groups.items()
    ]
    return sorted(found, key=lambda group: (-group.count, group.code, group.behind_code))


def _kind(seen: ContainerAnswer) -> tuple[str, str, str]:
    wait = seen.waiting_for
    if wait is None or not wait.code:
        return NOT_PLANNED, "", ""
    return wait.code, wait.behind_code or "", wait.limit or ""


def explanation(job: JobAnswer, groups: list[WaitingGroup], examined: int) -> list[str]:
    """Return what is to be said of a job, in sentences."""
    if is_final(job):
        reason = job.reason.message if job.reason is not None else ""
        why = f": {reason}" if reason not in ("", job.state) else ""
        return [f"{job_words.title(job)} has ended: {job.state}, {job_words.progress(job)}{why}"]
    state = f"{job.state} and {ends}" if (ends := job_words.cancelling(job)) else job.state
    lines = [f"{progress_line(job)}; it is {state}"]
    if job.held:
        lines.append(f"It is held and starts nothing new: 'longshore release {job.id}' ends that.")
    if job.next_launch and job_words.is_template(job) and job.waiting_for:
        lines.append(
            f"Nothing is launched now: {job.waiting_for.message}. The next time of its schedule is "
            f"{times.moment(job.next_launch)}."
        )
    elif job.next_launch:
        lines.append(f"Its next launch is at {times.moment(job.next_launch)}.")
    if job.trouble:
        lines.append(f"It is in trouble: {job.trouble.message}.")
    if job.counts.locked:
        lines.append(
            f"{job.counts.locked} have a place, or are next in line, and have not started yet."
        )
    if job_words.is_per_instance(job) and job.waiting_for:
        lines.append(f"It is on no instance: {job.waiting_for.message}.")
    elif not groups and not job_words.is_template(job):
        lines.append("None of its containers waits in the queue.")
    elif examined < job.counts.queued and examined >= EXAMINED_MOST:
        lines.append(f"{job.counts.queued} wait; these are the newest {examined}.")
    return lines


def document(job: JobAnswer, groups: list[WaitingGroup], examined: int) -> Json:
    """Return the same as one JSON document."""
    return {
        "id": job.id,
        "state": job.state,
        "held": job.held,
        "sentence": explanation(job, groups, examined)[0],
        **({"next_launch": times.moment(job.next_launch)} if job.next_launch else {}),
        **({"trouble": to_builtins(job.trouble)} if job.trouble else {}),
        "queued": job.counts.queued,
        "locked": job.counts.locked,
        "examined": examined,
        "waiting": [
            {
                "code": each.code,
                "behind_code": each.behind_code or None,
                "limit": each.limit or None,
                "count": each.count,
                "example": each.example,
                "message": each.message,
                **({"for_instance": each.for_instance} if each.for_instance else {}),
            }
            for each in groups
        ],
    }
