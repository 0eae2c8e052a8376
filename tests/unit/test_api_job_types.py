"""What jobs of each type may say: what is refused, with the sentence, and what is made of it."""

from __future__ import annotations

from typing import Any

import pytest

from dispatcher.job_model import JobType
from dispatcher.job_terms import (
    ElasticTerms,
    Overlap,
    Parameters,
    PerInstanceTerms,
    Schedule,
    Terms,
)
from dispatcher.planner.elastic_model import ElasticMode, Role
from dispatcher.planner.per_instance_rounds import UpdateStrategy
from tests.job_bodies import ONE, decoder, refused, task

EXAMPLE = 'write it as "30 2 * * MON-FRI", which is half past two on each of these days'
FIELDS = "minute, hour, day of month, month, day of week; a sixth field in front is the second"
A_NAME = "use 1 to 64 letters, digits and underscores, no digit first"


def job(kind: str, **more: Any) -> dict[str, Any]:
    return {"type": kind, "tasks": [ONE], **more}


def periodic(**more: Any) -> dict[str, Any]:
    return job("batch", periodic={"cron": "0 0 * * *", **more})


def parameterized(**more: Any) -> dict[str, Any]:
    return job("batch", parameterized=more)


OF_ANOTHER_TYPE = [
    (
        "batch",
        "update",
        {},
        "system and sysbatch jobs: leave it out, or say type: system or sysbatch",
    ),
    *(
        (kind, key, value, f"{types} jobs: leave it out, or say type: {hint}")
        for kinds, types, hint, values in (
            (
                ("batch", "elastic"),
                "system and sysbatch",
                "system or sysbatch",
                {"late_joiners": True, "on_paused": 3, "ignore_system": False},
            ),
            (
                ("batch", "system", "sysbatch"),
                "elastic",
                "elastic",
                {"mode": "rigid", "size": 1, "runtime_s": [], "scale_up": False},
            ),
            (
                ("system", "elastic"),
                "batch and sysbatch",
                "batch or sysbatch",
                {"periodic": {"cron": "x"}, "parameterized": {}},
            ),
        )
        for kind in kinds
        for key, value in values.items()
    ),
]


@pytest.mark.parametrize(("kind", "key", "value", "message"), OF_ANOTHER_TYPE)
def test_what_is_for_jobs_of_another_type_is_told_once_with_a_remedy(
    kind: str, key: str, value: object, message: str
) -> None:
    assert refused(job(kind, **{key: value})) == [(key, f"is for {message}")]


@pytest.mark.parametrize("kind", ["batch", "system", "sysbatch"])
@pytest.mark.parametrize(("key", "value"), [("role", "essential"), ("startup_order", -1)])
def test_roles_and_orders_are_for_components(kind: str, key: str, value: object) -> None:
    assert refused({"type": kind, "tasks": [{**ONE, key: value}]}) == [
        (f"tasks[0].{key}", "is for elastic jobs: leave it out, or say type: elastic")
    ]


def test_a_task_may_say_that_there_is_nothing_of_what_is_not_for_it() -> None:
    assert decoder().job({"type": "system", "tasks": [{**ONE, "after": [], "array": None}]}).tasks
    assert decoder().job({"type": "elastic", "tasks": [{**ONE, "after": [], "retries": {}}]}).tasks


def test_null_says_nothing_whatever_the_type() -> None:
    made = decoder().job(job("system", size=None, runtime_s=None, periodic=None, project=None))
    assert made.terms == Terms(per_instance=PerInstanceTerms())


COME_WITH_INSTANCES = (
    "jobs, whose containers come with the instances and wait for nothing else: leave it out"
)


@pytest.mark.parametrize(
    ("kind", "said", "path", "message"),
    [
        *(
            (kind, said, path, message)
            for kind in ("system", "sysbatch")
            for said, path, message in (
                (
                    {"array": "x"},
                    "tasks[0].array",
                    (
                        f"is not for {kind} jobs, which have one container on each instance:"
                        " leave it out"
                    ),
                ),
                ({"after": ["a"]}, "tasks[0].after", f"is not for {kind} {COME_WITH_INSTANCES}"),
                (
                    {"not_before": "2023-11-14T22:13:20Z"},
                    "tasks[0].not_before",
                    f"is not for {kind} {COME_WITH_INSTANCES}, or hold the job and release it then",
                ),
            )
        ),
        (
            "system",
            {"time_limit_s": 5},
            "tasks[0].time_limit_s",
            "is not for system jobs, which run for ever: leave it out, or say type: sysbatch",
        ),
        (
            "elastic",
            {"after": ["c-1"]},
            "tasks[0].after",
            (
                "is not for elastic jobs, whose components run side by side: leave it out, or say by"
                " startup_order which start first"
            ),
        ),
        (
            "elastic",
            {"not_before": "2023-11-14T22:13:20Z"},
            "tasks[0].not_before",
            (
                "is not for elastic jobs, whose components start together: leave it out, or hold the"
                " job and release it then"
            ),
        ),
        (
            "elastic",
            {"retries": {"max": 1}},
            "tasks[0].retries",
            (
                "is not for elastic jobs, which an essential component ends that fails, and where an"
                " elastic one is placed again: leave it out"
            ),
        ),
        (
            "elastic",
            {"array": {"size": 3, "max_running": 2}},
            "tasks[0].array.max_running",
            "is not for elastic jobs, of which all runs that fits: leave it out",
        ),
        (
            "elastic",
            {"role": "elastic"},
            "tasks",
            "are all elastic: a job needs an essential one, say role: essential in one",
        ),
        (
            "elastic",
            {"role": "main"},
            "tasks[0].role",
            'must be one of "essential", "elastic", not "main"',
        ),
        (
            "elastic",
            {"startup_order": 1001},
            "tasks[0].startup_order",
            "must be at least 0 and at most 1000, not 1001",
        ),
    ],
)
def test_what_tasks_of_a_type_may_not_say_is_told_with_the_reason(
    kind: str, said: dict[str, Any], path: str, message: str
) -> None:
    assert refused({"type": kind, "tasks": [{**ONE, **said}]}) == [(path, message)]


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
        (job("system", update=None), "update", "must be an object, not null"),
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
            periodic(cron="@daily"),
            "periodic.cron",
            f"'@daily': wrong number of fields ({FIELDS}): {EXAMPLE}",
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


def test_problems_of_terms_and_tasks_come_together() -> None:
    wrong = {
        "type": "elastic",
        "update": {},
        "size": -1,
        "mode": "x",
        "periodic": 3,
        "tasks": [
            {"command": ["x"], "after": ["b"], "role": "elastic"},
            {**task("b", "c-1"), "retries": {"max": 0}, "role": "elastic", "startup_order": "1"},
        ],
    }
    assert [path for path, _ in refused(wrong)] == [
        "update",
        "periodic",
        "size",
        "mode",
        "tasks[0].after",
        "tasks[1].after",
        "tasks[1].retries",
        "tasks[1].startup_order",
        "tasks[0].name",
        "tasks",
    ]


def test_who_is_dispatched_has_room_for_parameters_in_its_environment() -> None:
    full = {"command": ["true"], "env": {f"V{n}": "x" * 100_000 for n in range(10)}}
    assert decoder().job({"tasks": [full]}).tasks
    [(path, message)] = refused({**parameterized(required=["a"]), "tasks": [full]})
    assert (path, message) == (
        "tasks[0].env",
        "is 1000040 bytes, at most 983040 are allowed: pass a file instead",
    )


# ---- what is made of it --------------------------------------------------------------------------


def test_a_system_job_has_no_containers_of_its_own_yet() -> None:
    made = decoder().job(
        job(
            "system",
            update={"max_parallel": 5, "stagger_s": 0.5},
            late_joiners=False,
            on_paused=True,
            ignore_system=True,
        )
    )
    assert (made.type, [each.size for each in made.tasks]) == (JobType.SYSTEM, [0])
    assert made.terms == Terms(
        per_instance=PerInstanceTerms(
            update=UpdateStrategy(max_parallel=5, stagger_s=0.5),
            late_joiners=False,
            on_paused=True,
            ignore_system=True,
        )
    )


def test_what_is_left_out_gets_the_defaults_of_its_type() -> None:
    assert decoder().job(job("batch")).terms == Terms()
    assert decoder().job(job("sysbatch")).terms == Terms(per_instance=PerInstanceTerms())
    assert decoder().job(job("elastic")).terms == Terms(elastic=ElasticTerms())
    [only] = decoder().job(job("elastic")).tasks
    assert (only.size, only.role, only.startup_order) == (1, Role.ESSENTIAL, 0)


def test_an_elastic_job_has_components() -> None:
    made = decoder().job(
        {
            "type": "elastic",
            "mode": "rigid",
            "size": 2.5,
            "runtime_s": 60,
            "scale_up": True,
            "tasks": [
                {"name": "main", "command": ["x"], "startup_order": 1},
                {"name": "more", "command": ["x"], "array": {"size": 4}, "role": "elastic"},
            ],
        }
    )
    assert made.terms == Terms(
        elastic=ElasticTerms(mode=ElasticMode.RIGID, size=2.5, runtime_s=60.0, scale_up=True)
    )
    assert [(one.name, one.role, one.startup_order, one.size) for one in made.tasks] == [
        ("main", Role.ESSENTIAL, 1, 1),
        ("more", Role.ELASTIC, 0, 4),
    ]


def test_a_periodic_job_knows_how_large_its_runs_are() -> None:
    made = decoder().job(
        {
            "periodic": {"cron": ["0 6 * * *", "0 0 1 1 *"], "overlap": "forbid"},
            "tasks": [{**ONE, "array": 7}],
        }
    )
    assert made.terms == Terms(
        schedule=Schedule(cron=("0 6 * * *", "0 0 1 1 *"), overlap=Overlap.FORBID)
    )
    assert made.tasks[0].size == 7


def test_parameters_are_stored_in_one_order() -> None:
    made = decoder().job(
        job("sysbatch", parameterized={"required": ["b", "a"], "optional": {"d": "1", "c": ""}})
    )
    assert made.terms == Terms(
        per_instance=PerInstanceTerms(),
        parameters=Parameters(required=("a", "b"), optional=(("c", ""), ("d", "1"))),
    )


def test_a_project_that_is_not_named_is_the_one_that_is_given() -> None:
    assert decoder().job(job("system"), project="vision").project == "vision"
    assert decoder().job(job("system", project="web"), project="vision").project == "web"
