"""Sentences that are right for one, too, and that say what is true of what has ended."""

from __future__ import annotations

import click
import pytest

from longshore.dispatcher.cli.submission import is_job_body, sources_of
from longshore.dispatcher.domain.containers import ContainerState
from longshore.dispatcher.domain.jobs import JobState
from longshore.dispatcher.scheduler.placement.feasibility_report import CAUSES, said_of
from longshore.dispatcher.store.errors import AlreadyFinal


def test_of_one_instance_nothing_is_said_as_of_several() -> None:
    for cause, (one, several) in CAUSES.items():
        assert said_of(cause, 1) == one
        assert said_of(cause, 2) == several
        assert one.split()[0] in {"is", "has", "lacks", "reports", "runs"}
        assert several.split()[0] in {"are", "have", "lack", "report", "run"}
        assert len(one.split()) == len(several.split()) or "it" in one


@pytest.mark.parametrize(
    ("state", "told"),
    [
        (ContainerState.CANCELLED, "c-1 has been cancelled already"),
        (JobState.CANCELLED, "c-1 has been cancelled already"),
        (ContainerState.SUCCEEDED, "c-1 has succeeded already"),
        (JobState.FAILED, "c-1 has failed already"),
    ],
)
def test_what_has_ended_is_said_in_its_own_form(
    state: ContainerState | JobState, told: str
) -> None:
    assert str(AlreadyFinal("c-1", state)) == told


def test_a_file_and_options_are_two_words() -> None:
    with pytest.raises(click.UsageError, match="-f and --cpus cannot be combined"):
        sources_of(("job.yml",), (), {"cpus": 1, "image": None})


@pytest.mark.parametrize(
    ("body", "is_job"),
    [
        ({"taks": []}, True),
        ({"task": []}, True),
        ({"tasks": []}, True),
        ({"command": ["true"], "labels": {}}, False),
        ({1: 2}, False),
        ([], False),
    ],
)
def test_who_misspells_tasks_means_a_job(body: object, is_job: bool) -> None:
    assert is_job_body(body) is is_job
