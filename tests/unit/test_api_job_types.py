"""What jobs of each type may say: what is refused, with the sentence, and what is made of it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from longshore.dispatcher.domain.jobs import (
    ElasticMode,
    ElasticTerms,
    JobType,
    JobTypeSpec,
    Overlap,
    Parameters,
    PerInstanceTerms,
    Schedule,
    TaskRole,
    UpdateStrategy,
)
from longshore.dispatcher.scheduler.elastic import apply as elastic_hosts
from tests.job_bodies import ONE, decoder, refused, task


def job(kind: str, **more: Any) -> dict[str, Any]:
    return {"type": kind, "tasks": [ONE], **more}


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
    assert made.terms == JobTypeSpec(per_instance=PerInstanceTerms())


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
                "is not for elastic jobs, whose components run side by side: leave it out, or say"
                " by startup_order which start first"
            ),
        ),
        (
            "elastic",
            {"not_before": "2023-11-14T22:13:20Z"},
            "tasks[0].not_before",
            (
                "is not for elastic jobs, whose components start together: leave it out, or hold"
                " the job and release it then"
            ),
        ),
        (
            "elastic",
            {"retries": {"max": 1}},
            "tasks[0].retries",
            (
                "is not for elastic jobs, which an essential component ends that fails, and where"
                " an elastic one is placed again: leave it out"
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
    assert made.terms == JobTypeSpec(
        per_instance=PerInstanceTerms(
            update=UpdateStrategy(max_parallel=5, stagger_s=0.5),
            late_joiners=False,
            on_paused=True,
            ignore_system=True,
        )
    )


def test_what_is_left_out_gets_the_defaults_of_its_type() -> None:
    assert decoder().job(job("batch")).terms == JobTypeSpec()
    assert decoder().job(job("sysbatch")).terms == JobTypeSpec(per_instance=PerInstanceTerms())
    assert decoder().job(job("elastic")).terms == JobTypeSpec(elastic=ElasticTerms())
    [only] = decoder().job(job("elastic")).tasks
    assert (only.size, only.role, only.startup_order) == (1, TaskRole.ESSENTIAL, 0)


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
    assert made.terms == JobTypeSpec(
        elastic=ElasticTerms(mode=ElasticMode.RIGID, size=2.5, runtime_s=60.0, scale_up=True)
    )
    assert [(one.name, one.role, one.startup_order, one.size) for one in made.tasks] == [
        ("main", TaskRole.ESSENTIAL, 1, 1),
        ("more", TaskRole.ELASTIC, 0, 4),
    ]


def test_a_periodic_job_knows_how_large_its_runs_are() -> None:
    made = decoder().job(
        {
            "periodic": {"cron": ["0 6 * * *", "0 0 1 1 *"], "overlap": "forbid"},
            "tasks": [{**ONE, "array": 7}],
        }
    )
    assert made.terms == JobTypeSpec(
        schedule=Schedule(cron=("0 6 * * *", "0 0 1 1 *"), overlap=Overlap.FORBID)
    )
    assert made.tasks[0].size == 7


def test_parameters_are_stored_in_one_order() -> None:
    made = decoder().job(
        job("sysbatch", parameterized={"required": ["b", "a"], "optional": {"d": "1", "c": ""}})
    )
    assert made.terms == JobTypeSpec(
        per_instance=PerInstanceTerms(),
        parameters=Parameters(required=("a", "b"), optional=(("c", ""), ("d", "1"))),
    )


def test_a_project_that_is_not_named_is_the_one_that_is_given() -> None:
    assert decoder().job(job("system"), project="vision").project == "vision"
    assert decoder().job(job("system", project="web"), project="vision").project == "web"


# ---- what components are told of each other ------------------------------------------------------


def components(*tasks: dict[str, Any]) -> dict[str, Any]:
    return {"type": "elastic", "tasks": list(tasks)}


def test_components_that_would_share_a_variable_are_refused() -> None:
    wrong = components(task("a.b"), task("c"), task("A-b"), task("a_B"))
    sentence = "would be LONGSHORE_A_B_HOSTS, as that of tasks[0] is: change one"
    assert refused(wrong) == [
        ("tasks[2].name", f'"A-b" {sentence}'),
        ("tasks[3].name", f'"a_B" {sentence}'),
    ]
    # In jobs of other types nobody is told of any.
    assert decoder().job({"tasks": [task("a.b"), task("A-b")]}).tasks[1].name == "A-b"


def test_an_elastic_job_has_no_more_members_than_each_can_be_told_of() -> None:
    most = components(task("a", array=999), task("b"))
    assert sum(each.size for each in decoder().job(most).tasks) == 1000
    sentence = (
        "are 1001 containers in all: an elastic job has at most 1000, which know each other's"
        " hosts; submit several"
    )
    assert refused(components(task("a", array=1000), task("b"))) == [("tasks", sentence)]


def test_a_component_leaves_room_in_its_order_for_the_hosts_of_all() -> None:
    large = {f"V{number}": "x" * 100_000 for number in range(7)}
    assert decoder().job({"tasks": [{**ONE, "env": large}]}).tasks[0].spec.env
    (problem,) = refused(components({**ONE, "env": large}))
    assert problem[0] == "tasks[0].env"
    # A thousand components with the longest of names and of addresses.
    named = [(f"LONGSHORE_{'A' * 255}_HOSTS", "f" * 45)] * elastic_hosts.MEMBERS_MOST
    assert len(json.dumps(named)) <= elastic_hosts.HOSTS_MOST_BYTES
