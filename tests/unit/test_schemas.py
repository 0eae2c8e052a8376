"""The JSON of the API as clients read it: what is absent, and the words that the server knows."""

from __future__ import annotations

from enum import Enum
from typing import Any, get_args, get_type_hints

import msgspec
import pytest

from longshore.dispatcher.api.schemas.containers import (
    ConstraintsRequest,
    ContainerAnswer,
    DependencyRequest,
    RetriesAnswer,
)
from longshore.dispatcher.api.schemas.health import HealthAnswer, ProblemWord
from longshore.dispatcher.api.schemas.instances import IdleBehaviorRequest, LeakList
from longshore.dispatcher.api.schemas.jobs import (
    JobAnswer,
    JobRequest,
    PeriodicRequest,
    TaskRequest,
)
from longshore.dispatcher.api.schemas.reading import read_answer
from longshore.dispatcher.domain.containers import DependencyOn, Preemptible
from longshore.dispatcher.domain.jobs import ElasticMode, JobType, Overlap, TaskRole
from longshore.dispatcher.domain.views import ProblemKind
from longshore.pool.model import IdleBehavior


@pytest.mark.parametrize(
    ("request_", "field", "words"),
    [
        (ConstraintsRequest, "preemptible", Preemptible),
        (DependencyRequest, "on", DependencyOn),
        (JobRequest, "type", JobType),
        (JobRequest, "mode", ElasticMode),
        (PeriodicRequest, "overlap", Overlap),
        (TaskRequest, "role", TaskRole),
        (IdleBehaviorRequest, "idle_behavior", IdleBehavior),
    ],
)
def test_the_words_of_a_request_are_those_of_the_server(
    request_: type[msgspec.Struct], field: str, words: type[Enum]
) -> None:
    literal, meta = get_args(get_type_hints(request_, include_extras=True)[field])
    known = tuple(each.value for each in words)
    assert get_args(literal) == known
    assert meta.extra == {"choices": known}


def test_the_document_tells_every_kind_of_problem() -> None:
    told: Any = get_args(ProblemWord)[1].extra_json_schema
    assert told["enum"] == [each.value for each in ProblemKind]


def test_what_an_older_server_does_not_say_reads_as_nothing() -> None:
    said = {"id": "c-1", "state": "running", "attempts": [{"number": 1}]}
    seen = read_answer(said, ContainerAnswer)
    assert (seen.name, seen.memory, seen.after, seen.labels) == ("", 0, (), {})
    assert (seen.reason, seen.created_at, seen.for_instance) == (None, None, msgspec.UNSET)
    assert (seen.init, seen.constraints.preemptible, seen.retries.delay_s) == (
        True,
        "allowed",
        15.0,
    )
    assert (seen.attempts[0].log_complete, seen.attempts[0].instance) == (True, "")
    job = read_answer({"id": "j-1", "state": "running", "tasks": [{"name": "a"}]}, JobAnswer)
    assert job.counts.total == 0
    assert job.tasks
    assert (job.tasks[0].size, job.tasks[0].counts.total) == (1, 0)


def test_what_a_newer_server_says_is_left_alone() -> None:
    told = {"id": "c-1", "state": "later", "retries": {"max": 1, "new": [1]}, "new": {"a": 1}}
    seen = read_answer(told, ContainerAnswer)
    assert (seen.state, seen.retries.max) == ("later", 1)
    assert isinstance(seen.retries, RetriesAnswer)


@pytest.mark.parametrize(
    ("kind", "told"),
    [
        (ContainerAnswer, {}),
        (ContainerAnswer, {"id": "c-1"}),
        (ContainerAnswer, {"id": "c-1", "state": "queued", "attempts": [7]}),
        (JobAnswer, {"state": "running"}),
        (HealthAnswer, {"degraded": False}),
        (LeakList, {"items": []}),
        (LeakList, {"complete": True, "items": [{"instance": "i-1"}]}),
    ],
)
def test_what_is_no_answer_is_none(kind: type[msgspec.Struct], told: dict[str, object]) -> None:
    with pytest.raises(msgspec.ValidationError):
        read_answer(told, kind)
