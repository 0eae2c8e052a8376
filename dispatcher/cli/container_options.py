"""From the options of `submit` to the JSON of one container, or of a job that is an array."""

from __future__ import annotations

import re
from typing import Any

import click

from longshore.dispatcher.cli.client import Json
from longshore.dispatcher.cli.durations import MomentParam, Span
from longshore.dispatcher.cli.failure import USAGE, CommandFailure
from longshore.dispatcher.cli.options import Number, WholeNumber
from longshore.dispatcher.cli.secret_values import secret_uses, secret_variables
from longshore.dispatcher.cli.submission import amounts, gpus, pairs
from longshore.dispatcher.input.quantities import PRIORITY_MAX

CONTAINER_OPTIONS = (
    click.option(
        "--image", metavar="IMAGE", help="The container image; none with the process engine."
    ),
    click.option(
        "--entrypoint",
        multiple=True,
        metavar="WORD",
        help="Replace the image's ENTRYPOINT and CMD; repeat for each word, '' for none.",
    ),
    click.option(
        "--no-init",
        is_flag=True,
        default=None,
        help="With an image: run the program as process 1, without the engine's init.",
    ),
    click.option(
        "--cpus", type=Number(least=0), metavar="N", help="Number of cpus; fractions are allowed."
    ),
    click.option(
        "--memory", metavar="SIZE", help="Memory, for example 4GiB, or a number of bytes."
    ),
    click.option("--disk", metavar="SIZE", help="Scratch disk, for example 20GiB."),
    click.option(
        "--gpus",
        metavar="N[,model=MODEL][,memory=SIZE]",
        help="Number of GPUs, and of what kind, for example 2,model=a100,memory=40GiB.",
    ),
    click.option(
        "--resource",
        multiple=True,
        metavar="NAME=N",
        help="An amount of a resource of your own, for example licence=1; repeat for several.",
    ),
    click.option(
        "--priority",
        type=WholeNumber(0, PRIORITY_MAX),
        metavar="N",
        help=f"From 0 (held back) to {PRIORITY_MAX} (first in line).",
    ),
    click.option(
        "--env",
        "-e",
        multiple=True,
        metavar="NAME[=VALUE]",
        help="A variable; NAME alone takes its value from here. Repeat for several.",
    ),
    click.option(
        "--secret",
        multiple=True,
        metavar="NAME",
        help="A variable whose value is kept secret: taken from here, or from standard input.",
    ),
    click.option(
        "--use-secret",
        multiple=True,
        metavar="NAME:env=VARIABLE",
        help="Give it a secret of its project; also NAME:file=FILE, NAME:registry=HOST.",
    ),
    click.option(
        "--label", "-l", multiple=True, metavar="KEY=VALUE", help="A label; repeat for several."
    ),
    click.option(
        "--retries",
        type=WholeNumber(0),
        metavar="N",
        help="Retry up to N times when the program fails: at once the first time, then at "
        "least 15 s "
        "from one restart to the next.",
    ),
    click.option(
        "--array",
        metavar="N[%M]",
        help="Submit a job of N such containers, at most M of them at once; each knows its index.",
    ),
    click.option(
        "--after",
        multiple=True,
        metavar="ID[:success|end]",
        help="Start after a container, a job or a task of one (j-ID/TASK) has succeeded, or with "
        ":end has ended at all; with :each, each element of an array waits for its own alone. "
        "Repeat for several.",
    ),
    click.option(
        "--not-before",
        type=MomentParam(),
        metavar="WHEN",
        help="Start no earlier than this: +30m, or a time such as 2026-01-31T12:00:00Z.",
    ),
    click.option(
        "--time-limit",
        type=Span(),
        metavar="TIME",
        help="End an attempt that runs longer than this, for example 90s, 10m or 2h.",
    ),
    click.option(
        "--grace-period",
        type=Span(),
        metavar="TIME",
        help="The time between TERM and KILL, for example 30s.",
    ),
    click.option(
        "--supervisor",
        is_flag=True,
        default=None,
        help="It submits other containers: keep such ones from taking all places.",
    ),
    click.option(
        "--api",
        is_flag=True,
        default=None,
        help="Let it submit and steer containers of its own, by the server's API inside.",
    ),
    click.option("--name", metavar="NAME", help="A name, for people to read."),
    click.option("--project", metavar="PROJECT", help="The project that pays."),
    click.option(
        "--instance-type",
        multiple=True,
        metavar="TYPE",
        help="Run only on this instance type; repeat for several.",
    ),
    click.option(
        "--constraint-label",
        multiple=True,
        metavar="KEY=VALUE",
        help="Run only on instances with this label; repeat for several.",
    ),
    click.option(
        "--preemptible",
        type=click.Choice(["allowed", "required", "forbidden"]),
        help="Whether to run on preemptible (spot) instances, which the cloud can take back.",
    ),
    click.option(
        "--max-price",
        type=Number(above=0),
        metavar="USD",
        help="The most that an instance may cost, in US dollars per hour.",
    ),
)

PLAIN_FIELDS = {
    "name": "name",
    "image": "image",
    "memory": "memory",
    "disk": "disk",
    "priority": "priority",
    "project": "project",
    "supervisor": "supervisor",
    "api": "api",
    "not_before": "not_before",
    "time_limit": "time_limit_s",
    "grace_period": "grace_period_s",
}
"""What goes from an option into a field as it is."""

JOB_FIELDS = ("name", "priority", "project")
"""What is said once for a job, not of its task."""

_ARRAY = re.compile("([0-9]{1,9})(?:%([0-9]{1,9}))?")
_DEPENDENCY = re.compile("(?P<of>[cj]-[^:]+)(?::(?P<on>success|end))?(?P<each>:each)?")


def container_options(function: Any) -> Any:
    """Add all options that describe one container, in the order of the table."""
    for option in reversed(CONTAINER_OPTIONS):
        function = option(function)
    return function


def described_body(command: tuple[str, ...], described: dict[str, Any]) -> Json:
    """Return what the options ask for: one container, or a job of one task with `--array`."""
    body = described_container(command, described)
    if described["array"] is None:
        return body
    job: Json = {field: body.pop(field) for field in JOB_FIELDS if field in body}
    if "labels" in body:
        # Both are looked at: the job in its listing, its containers in theirs.
        job["labels"] = body["labels"]
    return {**job, "tasks": [{**body, "array": array(described["array"])}]}


def array(text: str) -> object:
    """Return what "N" or "N%M" asks for, as JSON; raises `CommandFailure` for anything else."""
    found = _ARRAY.fullmatch(text)
    if found is None:
        raise CommandFailure(
            f"--array {text!r} is neither N nor N%M",
            remedy="Write for example --array 100, or --array 100%10 for 10 at once",
            exit_code=USAGE,
        )
    size, max_running = found.groups()
    if max_running is None:
        return int(size)
    return {"size": int(size), "max_running": int(max_running)}


def dependency(text: str) -> object:
    """Return what "ID[:success|end]" asks for, as JSON; raises `CommandFailure` for anything else.

    With ":each" at its end an element of an array waits for the element with its own index.
    """
    found = _DEPENDENCY.fullmatch(text)
    if found is None:
        raise CommandFailure(
            f"--after {text!r} is not the id of a container or a job with :success or :end",
            remedy="Write for example --after c-1, --after j-1:end or --after j-1/TASK",
            exit_code=USAGE,
        )
    of, on, each = found.groups()
    if on in (None, "success") and not each:
        return of
    wanted: Json = {"of": of, "on": on or "success"}
    return {**wanted, "each": True} if each else wanted


def described_container(command: tuple[str, ...], described: dict[str, Any]) -> Json:
    """Return one container as JSON, with nothing in it that was not asked for."""
    body: Json = {"command": list(command)} if command else {}
    body |= described_resources(described)
    for option, field in PLAIN_FIELDS.items():
        if described[option] is not None:
            body[field] = described[option]
    if described["no_init"]:
        body["init"] = False
    if described["entrypoint"]:
        body["entrypoint"] = [] if described["entrypoint"] == ("",) else [*described["entrypoint"]]
    if described["retries"] is not None:
        body["retries"] = {"max": described["retries"]}
    body |= described_environment(described)
    if described["label"]:
        body["labels"] = pairs("--label", described["label"])
    if described["after"]:
        body["after"] = [dependency(each) for each in described["after"]]
    if constraints := described_constraints(described):
        body["constraints"] = constraints
    return body


def described_environment(described: dict[str, Any]) -> Json:
    """Return the variables and the secrets that the options ask for."""
    wanted: Json = {}
    if described["env"]:
        wanted["env"] = pairs("--env", described["env"], from_environment=True)
    if described["secret"]:
        wanted["env"] = {**wanted.get("env", {}), **secret_variables(described["secret"])}
    if described["use_secret"]:
        wanted["secrets"] = secret_uses(described["use_secret"])
    return wanted


def described_resources(described: dict[str, Any]) -> Json:
    """Return what the options ask for of an instance's room."""
    wanted: Json = {}
    if described["cpus"] is not None:
        cpus = described["cpus"]
        wanted["cpus"] = int(cpus) if cpus == int(cpus) else cpus
    if described["gpus"] is not None:
        wanted["gpus"] = gpus(described["gpus"])
    if described["resource"]:
        wanted["resources"] = amounts("--resource", described["resource"])
    return wanted


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
