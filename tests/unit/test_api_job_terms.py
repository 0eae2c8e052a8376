"""What is wrong with what only jobs of some types say: updates, sizes, schedules, parameters."""

from __future__ import annotations

from typing import Any

import pytest

from tests.job_bodies import ONE, decoder, refused, task

EXAMPLE = 'write it as "30 2 * * MON-FRI", which is half past two on each of these days'
FIELDS = "minute, hour, day of month, month, day of week; of six fields the first is the second"
A_NAME = "use 1 to 64 letters, digits and underscores, no digit first"


def job(kind: str, **more: Any) -> dict[str, Any]:
    return {"type": kind, "tasks": [ONE], **more}


def periodic(**more: Any) -> dict[str, Any]:
    return job("batch", periodic={"cron": "0 0 * * *", **more})


def parameterized(**more: Any) -> dict[str, Any]:
    return job("batch", parameterized=more)


@pytest.mark.parametrize(
    ("said", "path", "message"),
    [
        (
            {"type": "system", "tasks": [task("a"), task("b")]},
            "tasks",
            "has 2 entries: a system job has one task, so submit several jobs",
        ),
        (
            job("system", update={"max_parallel": 0}),
            "update.max_parallel",
            "must be at least 1 and at most 10000, not 0",
        ),
        (
            job("system", update={"stagger_s": 86_401}),
            "update.stagger_s",
            "must be at least 0 and at most 86400, not 86401",
        ),
        (
            job("sysbatch", update={"stager_s": 1}),
            "update.stager_s",
            'is not known: did you mean "stagger_s"?',
        ),
        (
            job("system", update=None),
            "update",
            "must be an object, not null; for example update: {max_parallel: 2}",
        ),
        (job("system", on_paused=1), "on_paused", "must be true or false, not 1"),
        (
            job("elastic", mode="stiff"),
            "mode",
            'must be one of "rigid", "malleable", "flexible", not "stiff"',
        ),
        (
            job("elastic", size=0),
            "size",
            "must be more than 0 and at most 1000000000000000000, not 0",
        ),
        (
            job("elastic", runtime_s=0),
            "runtime_s",
            "must be at least 0.001 and at most 315360000, not 0",
        ),
        (periodic(cron=[]), "periodic.cron", "has 0 entries: give 1 to 20"),
        (
            periodic(cron=["0 0 * * *"] * 21),
            "periodic.cron",
            "has 21 entries: give 1 to 20",
        ),
        (periodic(cron=3), "periodic.cron", "must be text or a list, not 3"),
        (job("batch", periodic={}), "periodic.cron", "is missing: add it"),
        (
            periodic(cron=["0 0 * * *", "0 24 * * *"]),
            "periodic.cron[1]",
            f"'0 24 * * *': bad hour ({FIELDS}): {EXAMPLE}",
        ),
        (
            periodic(cron="daily"),
            "periodic.cron",
            f"'daily': wrong number of fields ({FIELDS}): {EXAMPLE}",
        ),
        (
            periodic(cron="0 0 30 2 *"),
            "periodic.cron",
            f"'0 0 30 2 *': bad day-of-month ({FIELDS}): {EXAMPLE}",
        ),
        (
            periodic(cron="0 0 LW 2 */7"),
            "periodic.cron",
            f"'0 0 LW 2 */7' never comes: {EXAMPLE}",
        ),
        (
            periodic(cron="9" * 5000),
            "periodic.cron",
            f"a cron expression has at most 200 characters: {EXAMPLE}",
        ),
        (
            periodic(cron="* * * * \x1b[2J"),
            "periodic.cron",
            f"'* * * * \\x1b[2J': bad day-of-week ({FIELDS}): {EXAMPLE}",
        ),
        (
            periodic(time_zone="../../etc/passwd"),
            "periodic.time_zone",
            "there is no time zone '../../etc/passwd'; name one as in \"Europe/Berlin\"",
        ),
        (
            periodic(time_zone="\0" * 100),
            "periodic.time_zone",
            "there is no time zone '" + "\\x00" * 60 + '\'; name one as in "Europe/Berlin"',
        ),
        (
            periodic(overlap="never"),
            "periodic.overlap",
            'must be one of "allow", "forbid", not "never"',
        ),
        (
            {**periodic(), "parameterized": {"required": ["a"]}},
            "parameterized",
            "is not for periodic jobs, to whose runs nobody gives a value: leave out one of them",
        ),
        (
            parameterized(),
            "parameterized",
            "names no parameter: give required ones, optional ones, or both",
        ),
        (
            parameterized(required=["a b"]),
            "parameterized.required[0]",
            f'"a b" is not a parameter\'s name: {A_NAME}',
        ),
        (
            parameterized(required=["x" * 65]),
            "parameterized.required[0]",
            f'"{"x" * 57}..." is not a parameter\'s name: {A_NAME}',
        ),
        (
            parameterized(optional={"1": ""}),
            "parameterized.optional.1",
            f'"1" is not a parameter\'s name: {A_NAME}',
        ),
        (
            parameterized(required=["a\n"]),
            "parameterized.required[0]",
            f'"a\\n" is not a parameter\'s name: {A_NAME}',
        ),
        (
            parameterized(required=["a", "b"], optional={"A": "x"}),
            "parameterized.optional.A",
            (
                '"A" would be LONGSHORE_PARAMETER_A, as parameterized.required[0] is: leave one of'
                " them out"
            ),
        ),
        (
            parameterized(required=[f"a{n}" for n in range(101)]),
            "parameterized",
            "has 101 parameters: give at most 100",
        ),
        (
            parameterized(optional={"a": "x\0"}),
            "parameterized.optional.a",
            "contains a NUL byte: no program can get one",
        ),
        (
            parameterized(optional={"a": "x" * 65_536}),
            "parameterized.optional",
            "are 65565 bytes as JSON, at most 65536 are allowed: pass a file instead",
        ),
        (
            parameterized(optional={"a": 1}),
            "parameterized.optional.a",
            "must be text, not 1: put it in quotes",
        ),
    ],
)
def test_what_is_wrong_with_what_only_some_jobs_say(
    said: dict[str, Any], path: str, message: str
) -> None:
    assert refused(said) == [(path, message)]


def test_who_is_dispatched_has_room_for_parameters_in_its_environment() -> None:
    full = {"command": ["true"], "env": {f"V{n}": "x" * 100_000 for n in range(10)}}
    assert decoder().job({"tasks": [full]}).tasks
    [(path, message)] = refused({**parameterized(required=["a"]), "tasks": [full]})
    assert (path, message) == (
        "tasks[0].env",
        "is 1000040 bytes, at most 983040 are allowed: pass a file instead",
    )
