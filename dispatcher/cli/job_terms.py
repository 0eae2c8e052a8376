"""What a job says beside its tasks, as people read it, and which jobs never end by themselves."""

from __future__ import annotations

from collections.abc import Mapping

from longshore.dispatcher.api.schemas.jobs import JobAnswer
from longshore.dispatcher.cli import output, times
from longshore.dispatcher.cli.failure import USAGE, CommandFailure

_GOES_ON = {
    "system": "a system job runs for ever",
    "sysbatch": "a sysbatch job goes on with each instance that joins later",
    "periodic": "a periodic job begins again and again",
    "parameterized": "a parameterized job can always be dispatched again",
}
_REMEDIES = {
    "system": "Leave {} out, and look at it with 'longshore ps --job ID'",
    "sysbatch": "Leave {} out, or say late_joiners: false in the file",
    "periodic": "Leave {} out: its runs are jobs that can be waited for, see 'longshore jobs "
    "--parent ID'",
    "parameterized": "Leave {} out, then run it with 'longshore dispatch ID --wait'",
}


def term_fields(seen: JobAnswer) -> list[tuple[str, str]]:
    """Return what `show` tells of a job because of its type, as names and values."""
    return [
        ("run of", seen.parent),
        *_per_instance_fields(seen),
        ("mode", seen.mode or ""),
        ("size", f"{seen.size:g}" if seen.size else ""),
        ("runtime", output.duration(seen.runtime_s or None)),
        ("scale up", "for elastic components too" if seen.scale_up else ""),
        *_schedule_fields(seen),
        *_parameter_fields(seen),
    ]


def _per_instance_fields(seen: JobAnswer) -> list[tuple[str, str]]:
    update = seen.update
    if not update:
        return []
    joiners = "" if seen.late_joiners is not False else "not on instances that join later"
    return [
        ("revision", str(seen.revision or "")),
        ("update", f"{update.max_parallel} at a time, {update.stagger_s:g} s apart"),
        ("late joiners", joiners),
        ("on paused", "on held and draining instances too" if seen.on_paused else ""),
        ("ignore system", "left alone where an instance drains" if seen.ignore_system else ""),
    ]


def _schedule_fields(seen: JobAnswer) -> list[tuple[str, str]]:
    schedule = seen.periodic
    if not schedule:
        return []
    return [
        ("cron", "; ".join(schedule.cron)),
        ("time zone", schedule.time_zone),
        ("overlap", schedule.overlap),
        ("last launch", times.moment(seen.launched_for)),
        ("next launch", times.moment(seen.next_launch)),
    ]


def _parameter_fields(seen: JobAnswer) -> list[tuple[str, str]]:
    parameters = seen.parameterized
    if not parameters:
        return []
    optional = sorted(parameters.optional.items())
    return [
        ("required", ", ".join(parameters.required)),
        ("optional", ", ".join(f"{name}={value}" for name, value in optional)),
    ]


def next_run(seen: JobAnswer) -> str:
    """Return when a periodic job runs next, as a sentence; "" for one that does not."""
    if not seen.next_launch:
        return ""
    cron = seen.periodic.cron if seen.periodic else ()
    # To some systems the sixth field is the year.
    six = any(len(each.split()) == 6 for each in cron)
    meaning = " (of six fields of a cron expression, the first is the second)" if six else ""
    return f"{seen.id} runs next at {times.moment(seen.next_launch)}{meaning}"


def why_endless(seen: JobAnswer) -> str:
    """Return why a job does not end by itself, as a sentence; "" for one that does."""
    kind = _endless(
        {
            "type": seen.type,
            "late_joiners": seen.late_joiners is not False,
            "periodic": seen.periodic or None,
            "parameterized": seen.parameterized or None,
        }
    )
    return _GOES_ON.get(kind, "")


def refuse_endless(body: object, option: str) -> None:
    """Raise `CommandFailure` if a job that is to be submitted is one that `option` would wait for
    for ever."""
    kind = _endless(body) if isinstance(body, Mapping) else ""
    if kind:
        raise CommandFailure(
            f"{option} would never end: {_GOES_ON[kind]}",
            remedy=_REMEDIES[kind].format(option),
            exit_code=USAGE,
        )


def _endless(job: Mapping[str, object]) -> str:
    """Return because of what a job does not end by itself, "" for one that does.

    What a server would refuse ends, so that it is refused with all that is wrong with it.
    """
    for kind in ("periodic", "parameterized"):
        if job.get(kind) is not None:
            return kind
    match job.get("type"):
        case "system":
            return "system"
        case "sysbatch" if job.get("late_joiners") in (None, True):
            return "sysbatch"
        case _:
            return ""
