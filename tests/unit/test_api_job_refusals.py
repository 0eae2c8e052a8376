"""Jobs that are refused, each with the path of what is wrong and the whole sentence."""

from __future__ import annotations

import pytest

from tests.job_bodies import ONE, refused, task

NAME_RULE = (
    "use 1 to 255 letters, digits, dots, dashes and underscores, no dot or dash first,"
    ' and neither "c-" nor "j-", with which ids begin'
)
ONE_OF_THE_TYPES = 'must be one of "batch", "system", "sysbatch", "elastic"'
WHAT_IDS_ARE = "name a container (c-...), a job (j-...) or a task of a job (j-.../NAME)"


@pytest.mark.parametrize(
    ("job", "path", "message"),
    [
        ([], "", "must be an object, not a list"),
        ({}, "tasks", "is missing: add it"),
        (
            {"tasks": ONE},
            "tasks",
            (
                "must be a list, not an object; for example tasks: [{name: prepare, command:"
                " [./prepare]}, {name: train, command: [./a]}]"
            ),
        ),
        ({"tasks": [ONE], "schedule": "x"}, "schedule", "is not known: here it is called periodic"),
        (
            {"tasks": [ONE], "kind": "batch"},
            "kind",
            "is not known: here it is called type",
        ),
        (
            {"tasks": [ONE], "timeout": 60},
            "timeout",
            "is not known: say time_limit_s in a task",
        ),
        ({"tasks": [ONE], "cpus": 4}, "cpus", "is not known: say cpus in a task"),
        (
            {"tasks": [ONE], "namespace": "x"},
            "namespace",
            "is not known: here it is called project",
        ),
        (
            {"tasks": [ONE], "runtime": 3},
            "runtime",
            (
                "is not known: here it is called runtime_s of an elastic job,"
                " else time_limit_s in a task"
            ),
        ),
        (
            {"tasks": [ONE], "max_fails": 3},
            "max_fails",
            (
                "is not known: Longshore has nothing like it; what does not wait for others goes on"
                " when they fail, until 'longshore cancel ID'"
            ),
        ),
        (
            {"tasks": [ONE], "periodic": {"cron": "@daily", "timeZone": "UTC"}},
            "periodic.timeZone",
            "is not known: here it is called time_zone",
        ),
        (
            {"tasks": [ONE], "periodic": {"cron": "@daily", "suspend": True}},
            "periodic.suspend",
            "is not known: Longshore has nothing like it; 'longshore hold ID' does that",
        ),
        (
            {"tasks": [ONE], "parameterized": {"meta_optional": {}}},
            "parameterized.meta_optional",
            "is not known: here it is called optional",
        ),
        (
            {"tasks": [ONE], "type": "system", "update": {"maxUnavailable": 1}},
            "update.maxUnavailable",
            "is not known: here it is called max_parallel",
        ),
        (
            {"tasks": [{**ONE, "type": "system"}]},
            "tasks[0].type",
            "is the whole job's: say it beside tasks, once",
        ),
        (
            {"tasks": [{**ONE, "qos": "high"}]},
            "tasks[0].qos",
            "is not known: say priority beside tasks, once",
        ),
        (
            {"tasks": [{**ONE, "parallelism": 3}]},
            "tasks[0].parallelism",
            "is not known: here it is called array: {size: N, max_running: M}",
        ),
        (
            {"tasks": [{**ONE, "array": {"size": 3, "parallelism": 1}}]},
            "tasks[0].array.parallelism",
            "is not known: here it is called max_running",
        ),
        (
            {"tasks": [{**ONE, "volumes": []}]},
            "tasks[0].volumes",
            (
                "is not known: Longshore has nothing like it; engine.arguments of the server's"
                " configuration mounts for all that have an image"
            ),
        ),
        (
            {"tasks": []},
            "tasks",
            "has 0 entries: a job has 1 to 10000 tasks; many that are alike are one, with an array",
        ),
        ({"tasks": [ONE], "nmae": "x"}, "nmae", 'is not known: did you mean "name"?'),
        ({"task": [], "tasks": [ONE]}, "task", 'is not known: did you mean "tasks"?'),
        ({"tasks": [ONE], "type": "bacth"}, "type", f'{ONE_OF_THE_TYPES}, not "bacth"'),
        ({"tasks": [ONE], "type": []}, "type", f"{ONE_OF_THE_TYPES}, not a list"),
        ({"tasks": [ONE], "type": None}, "type", f"{ONE_OF_THE_TYPES}, not null"),
        (
            {"tasks": [ONE], "priority": 1001},
            "priority",
            "must be at least 0 and at most 1000, not 1001",
        ),
        (
            {"tasks": [ONE], "project": "-"},
            "project",
            "is not a name: use 1 to 63 letters, digits, dots, dashes, underscores or slashes",
        ),
        (
            {"tasks": [ONE], "name": "a\nb"},
            "name",
            "contains the control character U+000A: use one line of plain text",
        ),
        ({"tasks": [ONE], "name": "a" * 201}, "name", "must have at most 200 characters, not 201"),
        (
            {"tasks": [ONE], "labels": {"/": "x"}},
            'labels["/"]',
            "is not a name: use 1 to 63 letters, digits, dots, dashes, underscores or slashes",
        ),
        (
            {"tasks": [ONE], "labels": {f"l{n}": "" for n in range(65)}},
            "labels",
            "has over 64 entries: use fewer",
        ),
        ({"tasks": ["true"]}, "tasks[0]", "must be an object, not text"),
        (
            {"tasks": [{}]},
            "tasks[0].command",
            "must name a program: give at least one entry that is not empty, or an image",
        ),
        ({"tasks": [{**ONE, "arry": 3}]}, "tasks[0].arry", 'is not known: did you mean "array"?'),
        (
            {"tasks": [{**ONE, "priority": 3}]},
            "tasks[0].priority",
            "is the whole job's: say it beside tasks, once",
        ),
        (
            {"tasks": [{**ONE, "project": "x"}]},
            "tasks[0].project",
            "is the whole job's: say it beside tasks, once",
        ),
        (
            {"tasks": [{**ONE, "inputs": []}]},
            "tasks[0].inputs",
            "is not supported by this server yet: leave it out",
        ),
        (
            {"tasks": [{**ONE, "constraints": {"instance_types": ["smal"]}}]},
            "tasks[0].constraints.instance_types[0]",
            '"smal" is not an instance type here: did you mean "small"?',
        ),
        (
            {"tasks": [{**ONE, "env": {"LONGSHORE_TASK": "x"}}]},
            "tasks[0].env.LONGSHORE_TASK",
            "is reserved: LONGSHORE_* is set by the server",
        ),
        (
            {"tasks": [{**ONE, "not_before": "2024-11-15T22:13:21Z"}]},
            "tasks[0].not_before",
            '"2024-11-15T22:13:21Z" is over a year ahead: submit it later, or hold it (priority 0)',
        ),
        (
            {"tasks": [{**ONE, "array": 0}]},
            "tasks[0].array",
            "must be at least 1 and at most 100000 or an object, not 0",
        ),
        (
            {"tasks": [{**ONE, "array": 100_001}]},
            "tasks[0].array",
            "must be at least 1 and at most 100000 or an object, not 100001",
        ),
        (
            {"tasks": [{**ONE, "array": "10"}]},
            "tasks[0].array",
            (
                "must be a whole number or an object, not text; for example array: 100, whose"
                " elements have the indices 0 to 99, or array: {size: 100, max_running: 10}"
            ),
        ),
        (
            {"tasks": [{**ONE, "array": {"size": 3, "max_running": 0}}]},
            "tasks[0].array.max_running",
            "must be at least 1 and at most 100000, not 0",
        ),
        ({"tasks": [{**ONE, "array": {}}]}, "tasks[0].array.size", "is missing: add it"),
        (
            {"tasks": [task("a", array=60_000), task("b", array=40_000), task("c")]},
            "tasks",
            "are 100001 containers in all: a job has at most 100000, submit several",
        ),
        (
            {"tasks": [task("a"), ONE]},
            "tasks[1].name",
            "is missing: each task has one where a job has several",
        ),
        (
            {"tasks": [task("c-1")]},
            "tasks[0].name",
            f'"c-1" is not a task\'s name: {NAME_RULE}',
        ),
        (
            {"tasks": [task("a/b")]},
            "tasks[0].name",
            f'"a/b" is not a task\'s name: {NAME_RULE}',
        ),
        (
            {"tasks": [task(".a")]},
            "tasks[0].name",
            f'".a" is not a task\'s name: {NAME_RULE}',
        ),
        (
            {"tasks": [task("a"), task("b"), task("a")]},
            "tasks[2].name",
            '"a" is that of tasks[0] too: change one',
        ),
        (
            {"tasks": [task("align"), task("b", "algin")]},
            "tasks[1].after[0]",
            'there is no task "algin" in this job: did you mean "align"?',
        ),
        (
            {"tasks": [task("a"), task("b"), task("c", "a", {"of": "xyz"})]},
            "tasks[2].after[1].of",
            'there is no task "xyz" in this job: known are "a", "b", "c"',
        ),
        (
            {"tasks": [{**ONE, "after": ["a"]}]},
            "tasks[0].after[0]",
            'there is no task "a" in this job: there is none to choose from',
        ),
        (
            {"tasks": [task("a"), task("b", {"of": "a"}, "a")]},
            "tasks[1].after[1]",
            '"a" is named in after[0] already: keep one of them',
        ),
        (
            {"tasks": [task("a", "j-1/x y")]},
            "tasks[0].after[0]",
            f'"j-1/x y" is not an id: {WHAT_IDS_ARE}',
        ),
        (
            {"tasks": [task("a", {"of": "c-", "on": "end"})]},
            "tasks[0].after[0].of",
            f'"c-" is not an id: {WHAT_IDS_ARE}',
        ),
        (
            {"tasks": [task("a", array=3), task("b", {"of": "a", "each": True})]},
            "tasks[1].after[0].each",
            "is for the elements of an array: leave it out here",
        ),
        (
            {"tasks": [task("a"), task("b", {"of": "a", "each": True}, array=3)]},
            "tasks[1].after[0].each",
            '"a" is no array, and this one of 3: element by element both have one size',
        ),
        (
            {"tasks": [task("a", array=4), task("b", {"of": "a", "each": True}, array=3)]},
            "tasks[1].after[0].each",
            '"a" is an array of 4, and this one of 3: element by element both have one size',
        ),
        (
            {"tasks": [task("a", {"of": "c-1", "each": True}, array=3)]},
            "tasks[0].after[0].each",
            "is for arrays, and a container is none: leave it out",
        ),
        (
            {"tasks": [task("a", {"of": "j-1/b", "each": True})]},
            "tasks[0].after[0].each",
            "is for the elements of an array: leave it out here",
        ),
        (
            {"tasks": [task("a", "a")]},
            "tasks[0].after[0]",
            "closes a circle of tasks that wait for each other: a -> a; break it",
        ),
        (
            {"tasks": [task("a", "b"), task("b", "c-1", {"of": "a"})]},
            "tasks[1].after[1].of",
            "closes a circle of tasks that wait for each other: a -> b -> a; break it",
        ),
        (
            {"tasks": [task("z", "a"), task("a", "b"), task("b", "c"), task("c", "a")]},
            "tasks[3].after[0]",
            "closes a circle of tasks that wait for each other: a -> b -> c -> a; break it",
        ),
    ],
)
def test_what_is_wrong_is_told_with_its_place_and_a_remedy(
    job: object, path: str, message: str
) -> None:
    assert refused(job) == [(path, message)]
