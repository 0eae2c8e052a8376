"""`longshore submit`: queue containers, and stay with them if asked to."""

from __future__ import annotations

from typing import Any

import click

from longshore.dispatcher.api.schemas.jobs import JobAnswer
from longshore.dispatcher.cli import output
from longshore.dispatcher.cli.answers import Awaited, read_awaited
from longshore.dispatcher.cli.client import CommandClient, Json
from longshore.dispatcher.cli.commands.logs import (
    BOTH_STREAMS,
    LogTrouble,
    copy_logs,
    look,
    shortage,
)
from longshore.dispatcher.cli.commands.waiting import await_ended, goes_on, named, status_of
from longshore.dispatcher.cli.container_options import container_options, described_body
from longshore.dispatcher.cli.container_words import is_waiting
from longshore.dispatcher.cli.estimates import print_estimates
from longshore.dispatcher.cli.failure import CommandFailure
from longshore.dispatcher.cli.file_lines import Source, located
from longshore.dispatcher.cli.job_terms import next_run, refuse_endless
from longshore.dispatcher.cli.options import idempotency_option, json_option, server_command
from longshore.dispatcher.cli.render.progress import LineProgress, outcomes
from longshore.dispatcher.cli.select import only_container
from longshore.dispatcher.cli.submission import content, is_job_body, read_sources


@click.command()
@click.option(
    "-f",
    "--file",
    "files",
    multiple=True,
    metavar="FILE",
    help="A job, a container or a list of containers, as YAML or JSON; - is stdin. Repeat for "
    "several files of containers: all or nothing.",
)
@container_options
@click.option(
    "--wait", "-w", "wait", is_flag=True, help="Wait for the end, and exit with its exit code."
)
@click.option("--follow", is_flag=True, help="Show the output as it comes; implies --wait.")
@click.option(
    "--estimate", is_flag=True, help="Tell what it may come to in dollars, and submit nothing."
)
@idempotency_option
@json_option
@server_command
@click.argument("command", nargs=-1, metavar="[--] [CMD...]", type=click.UNPROCESSED)
def submit(
    *,
    client: CommandClient,
    files: tuple[str, ...],
    wait: bool,
    follow: bool,
    estimate: bool,
    idempotency_key: str,
    as_json: bool,
    command: tuple[str, ...],
    **described: Any,
) -> int:
    """Queue a container that runs CMD, or what files say.

    Prints the ids of the containers, or of the job that --array or a file with tasks makes.

    \b
    Examples:
      longshore submit --cpus 2 --memory 4GiB -- python3 train.py
      longshore submit --image docker.io/library/hello-world --wait
      longshore submit --array 100%10 -- sh -c 'process part-$LONGSHORE_ARRAY_INDEX'
      longshore submit -f job.yml --wait
    """
    if follow and as_json:
        raise click.UsageError("--follow writes the container's output, so --json cannot be used.")
    sources = sources_of(files, command, described)
    body = content(sources) if files else described_body(command, described)
    if estimate:
        print_estimates(client, body, sources, as_json=as_json)
        return 0
    if wait or follow:
        refuse_endless(body, "--follow" if follow else "--wait")
    if follow and isinstance(body, list) and len(body) != 1:
        raise click.UsageError("--follow takes one container: submit them, then use logs -f.")
    created, answers = send(client, body, sources, idempotency_key)
    if not as_json:
        _tell(answers, to_stderr=follow)
    if not answers or not (wait or follow):
        if as_json:
            print_created(created, body)
        return 0
    received = follow_output(client, answers[0]) if follow else {}
    ended, raw = await_ended(client, [each.id for each in answers], None)
    tell_shortage(ended[0], received)
    if as_json:
        print_created(raw, body)
    else:
        for line in outcomes(ended):
            click.echo(line, err=True)
    return status_of(ended)


def sources_of(
    files: tuple[str, ...], command: tuple[str, ...], described: dict[str, Any]
) -> list[Source]:
    """Return the files, read; raises `UsageError` unless there are files or options alone."""
    given = sorted(name for name, value in described.items() if value not in (None, (), ""))
    if files and (command or given):
        what = f"--{given[0].replace('_', '-')}" if given else "a command"
        raise click.UsageError(f"-f and {what} cannot be combined: write it into the file.")
    if not files and not command and not described["image"]:
        raise click.UsageError("Nothing to run: give '-- CMD...', '--image IMAGE' or '-f FILE'.")
    return read_sources(files)


def send(
    client: CommandClient, body: object, sources: list[Source], idempotency_key: str
) -> tuple[list[Json], list[Awaited]]:
    """Submit a job or containers; return what was created, as JSON and as answers."""
    path = "/v1/jobs" if is_job_body(body) else "/v1/containers"
    try:
        answer = client.send("POST", path, body, idempotency_key=idempotency_key)
    except CommandFailure as failure:
        raise located(failure, sources) from failure
    created = created_items(answer)
    return created, [read_awaited(str(each.get("id")), each) for each in created]


def _tell(created: list[Awaited], *, to_stderr: bool) -> None:
    """Write the ids of what was created, and when a periodic job runs first."""
    for each in created:
        click.echo(output.safe(each.id), err=to_stderr)
        if isinstance(each, JobAnswer) and (first := next_run(each)):
            output.say(first)


def created_items(answer: object) -> list[Json]:
    """Return what was created, however the server wraps them."""
    if isinstance(answer, dict):
        items = answer["items"] if isinstance(answer.get("items"), list) else [answer]
    else:
        items = answer if isinstance(answer, list) else []
    return [item for item in items if isinstance(item, dict)]


def print_created(items: list[Json], body: object) -> None:
    """Write what was created, as one object when one object was asked for."""
    output.print_json({"items": items} if isinstance(body, list) else items[0])


class FirstLooks:
    """Shows why a container waits, until it runs or has written something."""

    def __init__(self, client: CommandClient, container_id: str) -> None:
        self._client = client
        self._id = container_id
        self._progress = LineProgress()
        self._over = False

    def __call__(self, began: bool) -> None:
        """Look once more, unless that is over."""
        self._over = self._over or began
        if self._over:
            return
        try:
            seen = look(self._client, self._id)
        except CommandFailure as failure:
            if not failure.passing:
                raise
            # Whoever reads the log goes on as well, and says so when the server stays away.
            return
        self._progress.changed(seen)
        self._over = not is_waiting(seen)


def follow_output(client: CommandClient, created: Awaited) -> dict[str, int]:
    """Copy a container's output to ours until it has ended, saying meanwhile why it waits.

    Of a job that is its only container's; of one with several it says how to see one's. Returns
    how many bytes of each stream came, nothing when the log could not be read.
    """
    container_id = only_container(client, created) if isinstance(created, JobAnswer) else created.id
    if container_id is None:
        output.say(
            f"{created.id} has several containers; see the output of one with "
            f"'longshore logs -f {created.id} --index N', or --task NAME"
        )
        return {}
    looks, trouble = FirstLooks(client, container_id), LogTrouble(client, container_id)

    def quiet(began: bool) -> None:
        looks(began)
        trouble.look()

    try:
        return copy_logs(client, container_id, BOTH_STREAMS, follow=True, quiet=quiet)
    except KeyboardInterrupt:
        raise goes_on([created.id]) from None
    except CommandFailure as failure:
        output.say(f"{failure.sentence}; waiting for {named([created.id])}")
        return {}


def tell_shortage(ended: Awaited, received: dict[str, int]) -> None:
    """Say what is missing of a container's output."""
    if not isinstance(ended, JobAnswer) and (missing := shortage(ended, received)):
        output.say(missing)
