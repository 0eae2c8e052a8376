"""`longshore submit`: queue containers, and stay with them if asked to."""

from __future__ import annotations

import uuid
from typing import Any

import click

from dispatcher.cli import output
from dispatcher.cli.client import Client, Json
from dispatcher.cli.failure import Failure
from dispatcher.cli.logs import BOTH_STREAMS, copy_logs, look, shortage
from dispatcher.cli.options import PRIORITY_MAX, Number, WholeNumber, json_option, server_command
from dispatcher.cli.progress import LineProgress, outcomes
from dispatcher.cli.submission import amounts, gpus, pairs, read_files
from dispatcher.cli.views import ContainerView, view
from dispatcher.cli.waiting import await_containers, goes_on, named, status_of

CONTAINER_OPTIONS = (
    click.option("--image", metavar="IMAGE", help="The image; none for the process engine."),
    click.option("--cpus", type=Number(least=0), metavar="N", help="Cpus, fractions allowed."),
    click.option("--memory", metavar="SIZE", help="Memory, like 4GiB or a number of bytes."),
    click.option("--disk", metavar="SIZE", help="Scratch disk, like 20GiB."),
    click.option(
        "--gpus",
        metavar="N[,model=MODEL][,memory=SIZE]",
        help="Number of GPUs, and what each of them is, like 2,model=a100,memory=40GiB.",
    ),
    click.option(
        "--resource",
        multiple=True,
        metavar="NAME=N",
        help="An amount of a resource of your own, like licence=1, repeated.",
    ),
    click.option(
        "--priority",
        type=WholeNumber(0, PRIORITY_MAX),
        metavar="N",
        help=f"From 0 (held back) to {PRIORITY_MAX} (goes first).",
    ),
    click.option(
        "--env", "-e", multiple=True, metavar="NAME[=VALUE]", help="A variable (or ours), repeated."
    ),
    click.option("--label", "-l", multiple=True, metavar="KEY=VALUE", help="A label, repeated."),
    click.option(
        "--retries",
        type=WholeNumber(0),
        metavar="N",
        help="Try again up to N times when the program fails.",
    ),
    click.option(
        "--supervisor",
        is_flag=True,
        default=None,
        help="It submits others: keep it from taking all places.",
    ),
    click.option("--name", metavar="NAME", help="A name for people."),
    click.option("--project", metavar="PROJECT", help="The project that pays."),
    click.option(
        "--instance-type", multiple=True, metavar="TYPE", help="Run on this type only, repeated."
    ),
    click.option(
        "--constraint-label",
        multiple=True,
        metavar="KEY=VALUE",
        help="Run on instances with this label, repeated.",
    ),
    click.option(
        "--preemptible",
        type=click.Choice(["allowed", "required", "forbidden"]),
        help="Whether on instances that the cloud can take back.",
    ),
    click.option(
        "--max-price",
        type=Number(above=0),
        metavar="USD",
        help="The dearest instance that is accepted, in dollars per hour.",
    ),
)


def container_options(function: Any) -> Any:
    """Add all options that describe one container, in the order of the table."""
    for option in reversed(CONTAINER_OPTIONS):
        function = option(function)
    return function


@click.command()
@click.option(
    "-f",
    "--file",
    "files",
    multiple=True,
    metavar="FILE",
    help="One container or a list, as YAML or JSON; - is stdin; repeated: all or nothing.",
)
@container_options
@click.option("--wait", "-w", "wait", is_flag=True, help="Wait, and exit with the code.")
@click.option("--follow", is_flag=True, help="Write its output as it comes; implies --wait.")
@json_option
@server_command
@click.argument("command", nargs=-1, metavar="[--] [CMD...]", type=click.UNPROCESSED)
def submit(
    *,
    client: Client,
    files: tuple[str, ...],
    wait: bool,
    follow: bool,
    as_json: bool,
    command: tuple[str, ...],
    **described: Any,
) -> int:
    """Queue a container that runs CMD, or the containers of files, and print their ids.

    \b
    Examples:
      longshore submit --cpus 2 --memory 4GiB -- python3 train.py
      longshore submit -f containers.yml --wait
    """
    if follow and as_json:
        raise click.UsageError("--follow writes the container's output, so --json cannot be used.")
    body = body_of(files, command, described)
    if follow and isinstance(body, list) and len(body) != 1:
        raise click.UsageError("--follow takes one container: submit them, then use logs -f.")
    answer = client.send("POST", "/v1/containers", body, idempotency_key=uuid.uuid4().hex)
    created = created_items(answer)
    views = [view(each, ContainerView) for each in created]
    if not as_json:
        for each in views:
            click.echo(output.safe(each.id), err=follow)
    if not views or not (wait or follow):
        if as_json:
            print_created(created, body)
        return 0
    ids = [each.id for each in views]
    received = follow_output(client, ids[0]) if follow else {}
    ended, raw = await_containers(client, ids, None)
    if missing := shortage(ended[0], received):
        output.say(missing)
    if as_json:
        print_created(raw, body)
    else:
        for line in outcomes(ended):
            click.echo(line, err=True)
    return status_of(ended)


def body_of(files: tuple[str, ...], command: tuple[str, ...], described: dict[str, Any]) -> object:
    """Return what is sent; raises `UsageError` unless it comes from files or from options alone."""
    given = sorted(name for name, value in described.items() if value not in (None, (), ""))
    if files:
        if command or given:
            what = f"--{given[0].replace('_', '-')}" if given else "a command"
            raise click.UsageError(f"-f and {what} exclude each other: write it into the file.")
        return read_files(files)
    if not command:
        raise click.UsageError("Nothing to run: give '-- CMD...' or '-f FILE'.")
    return described_container(command, described)


def described_container(command: tuple[str, ...], described: dict[str, Any]) -> Json:
    """Return one container as JSON, with nothing in it that was not asked for."""
    body: Json = {"command": list(command)}
    for field in ("name", "image", "memory", "disk", "priority", "project", "supervisor"):
        if described[field] is not None:
            body[field] = described[field]
    if described["cpus"] is not None:
        cpus = described["cpus"]
        body["cpus"] = int(cpus) if cpus == int(cpus) else cpus
    if described["gpus"] is not None:
        body["gpus"] = gpus(described["gpus"])
    if described["resource"]:
        body["resources"] = amounts("--resource", described["resource"])
    if described["retries"] is not None:
        body["retries"] = {"max": described["retries"]}
    if described["env"]:
        body["env"] = pairs("--env", described["env"], from_environment=True)
    if described["label"]:
        body["labels"] = pairs("--label", described["label"])
    if constraints := described_constraints(described):
        body["constraints"] = constraints
    return body


def described_constraints(described: dict[str, Any]) -> Json:
    """Return what the options demand of the instance."""
    constraints: Json = {}
    if described["constraint_label"]:
        constraints["labels"] = pairs("--constraint-label", described["constraint_label"])
    if described["instance_type"]:
        constraints["instance_types"] = list(described["instance_type"])
    if described["preemptible"] is not None:
        constraints["preemptible"] = described["preemptible"]
    if described["max_price"] is not None:
        constraints["max_price_per_hour"] = described["max_price"]
    return constraints


def created_items(answer: object) -> list[Json]:
    """Return the created containers, however the server wraps them."""
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

    def __init__(self, client: Client, container_id: str) -> None:
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
        except Failure as failure:
            if not failure.passing:
                raise
            # Whoever reads the log goes on as well, and says so when the server stays away.
            return
        self._progress.changed(seen)
        self._over = not seen.waits


def follow_output(client: Client, container_id: str) -> dict[str, int]:
    """Copy the container's output to ours until it has ended, saying meanwhile why it waits.

    Returns how many bytes of each stream came, nothing when the log could not be read.
    """
    looks = FirstLooks(client, container_id)
    try:
        return copy_logs(client, container_id, BOTH_STREAMS, follow=True, quiet=looks)
    except KeyboardInterrupt:
        raise goes_on([container_id]) from None
    except Failure as failure:
        output.say(f"{failure.sentence}; waiting for {named([container_id])}")
        return {}
