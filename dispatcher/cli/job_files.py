"""The one job that a command takes from a file."""

from __future__ import annotations

import click

from longshore.dispatcher.cli.failure import USAGE, CommandFailure
from longshore.dispatcher.cli.file_lines import Source
from longshore.dispatcher.cli.ids import is_job
from longshore.dispatcher.cli.submission import content, is_job_body, read_sources

job_file_option = click.option(
    "-f",
    "--file",
    "file",
    required=True,
    metavar="FILE",
    help="The job, as YAML or JSON; - is stdin.",
)


def job_in(file: str) -> tuple[object, list[Source]]:
    """Return the job that a file describes, with the file; else raises `CommandFailure`."""
    sources = read_sources([file])
    body = content(sources)
    if not is_job_body(body):
        raise CommandFailure(
            f"{sources[0].name} describes no job",
            remedy="Write containers into the tasks of one object",
            exit_code=USAGE,
        )
    return body, sources


def expect_job_id(identifier: str, done: str) -> None:
    """Raise `CommandFailure` unless it is a job's id; `done` says what is done to jobs alone."""
    if not is_job(identifier):
        raise CommandFailure(
            f"{identifier} is not a job's id, and only jobs are {done}",
            remedy="See 'longshore jobs' for the ids of jobs",
            exit_code=USAGE,
        )
