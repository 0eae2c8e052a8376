"""`longshore driver test`: runs the conformance kit on the configured driver and its account."""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from longshore.dispatcher.cli import output
from longshore.dispatcher.cli.commands.configuration import config_failure, load
from longshore.dispatcher.cli.failure import FAILED, INTERRUPTED, USAGE, CommandFailure
from longshore.dispatcher.cli.options import config_option, json_option
from longshore.drivers.errors import ConfigError, LongshoreError

if TYPE_CHECKING:
    from longshore.dispatcher.config.loading import Config
    from longshore.dispatcher.conformance.kit import Check, Report, Result, Trial
    from longshore.drivers.interface import InstanceType

_OUTCOMES = {"passed": "green", "failed": "red", "not shown": None}


@click.command()
@config_option
@click.option(
    "--only", metavar="CHECK", multiple=True, help="Run only this check; repeat for several."
)
@click.option(
    "--instance-type", metavar="NAME", help="The instance type to create; by default the cheapest."
)
@click.option("--image", metavar="IMAGE", help="The image to boot; by default pool.image.")
@click.option("--command", metavar="CMD", default="", help="One more command to run there.")
@click.option("--pause", is_flag=True, help="Wait for Enter before the instance is destroyed.")
@click.option(
    "--destroy-existing",
    is_flag=True,
    help="First destroy all instances of the configured cluster, and those of earlier tests.",
)
@click.option("--yes", is_flag=True, help="Do not ask before --destroy-existing.")
@json_option
def test(
    *,
    config_path: str | None,
    only: Sequence[str],
    instance_type: str | None,
    image: str | None,
    command: str,
    pause: bool,
    destroy_existing: bool,
    yes: bool,
    as_json: bool,
) -> int:
    """Try the configured driver on its account, check by check.

    It creates instances, which may cost money, and destroys them again, also after Ctrl-C. All of
    them carry a cluster tag of this run alone, and nothing else is touched. Exits with 0 when the
    driver conforms, and with 1 when it does not or something is left.
    """
    from longshore.dispatcher.conformance.kit import CHECKS, check_named  # noqa: PLC0415 - most commands need none

    if pause and not sys.stdin.isatty():
        raise CommandFailure(
            "--pause waits for Enter", remedy="Run it in a terminal", exit_code=USAGE
        )
    config = load(config_path)
    try:
        checks = [check_named(name) for name in only] or list(CHECKS)
        trial = _trial(config, instance_type, image)
        trial = replace(trial, command=command, pause=_pause if pause else None)
        if destroy_existing:
            _destroy_existing(trial, config.cluster, agreed=yes)
        with _log_to_stderr(), _signals_interrupt():
            return _run(trial, checks, as_json=as_json)
    except ConfigError as error:
        raise config_failure(error) from error
    except LongshoreError as error:
        what = f"the driver cannot be tried: {type(error).__name__}: {error}"
        raise CommandFailure(what, exit_code=FAILED) from error


def _run(trial: Trial, checks: Sequence[Check], *, as_json: bool) -> int:
    from longshore.dispatcher.conformance.kit import Conformance  # noqa: PLC0415 - most commands need none

    conformance = Conformance(trial)
    results: list[Result] = []
    interrupted = False
    _tell(
        f"driver {trial.info.name}: all that is made carries longshore-cluster="
        f"{conformance.cluster}",
        as_json,
    )
    try:
        with conformance:
            try:
                for check in checks:
                    results.append(conformance.show(check))
                    _tell_result(results[-1], as_json)
                conformance.clear_up()
            except KeyboardInterrupt:
                interrupted = True
                output.say("interrupted: destroying what was made; once more leaves it there")
    except KeyboardInterrupt:
        output.say(f"left at once: destroy what carries longshore-cluster={conformance.cluster}")
        return INTERRUPTED
    report = conformance.report(results)
    _tell(_summary(report), as_json)
    for line in report.left:
        output.say(f"left behind: {line}")
    if as_json:
        output.print_json(_document(report, checks))
    if interrupted:
        return INTERRUPTED
    return 0 if report.conforms else FAILED


def _trial(config: Config, type_name: str | None, image: str | None) -> Trial:
    from longshore.dispatcher.config.loading import driver_parameters, instance_types  # noqa: PLC0415 - as above
    from longshore.dispatcher.conformance.kit import Patience  # noqa: PLC0415 - as above
    from longshore.dispatcher.conformance.trial import make_trial  # noqa: PLC0415 - as above
    from longshore.drivers.registry import driver  # noqa: PLC0415 - as above
    from longshore.pool.remote.ssh_keys import load_or_create_private_key  # noqa: PLC0415 - as above

    types = sorted(instance_types(config), key=lambda each: (each.price_usd_per_hour, each.name))
    chosen = _chosen(types, type_name)
    preemptible = [each for each in types if each.preemptible]
    Path(config.data_dir).mkdir(mode=0o700, parents=True, exist_ok=True)
    info = driver(config.driver.name)
    return make_trial(
        info,
        driver_parameters(config),
        instance_type=chosen,
        preemptible_type=preemptible[0] if preemptible else None,
        other_types=tuple(each for each in types if each is not chosen and not each.preemptible),
        # Not that of a server, which may be running.
        state_dir=Path(config.data_dir) / "conformance" / info.name.replace(":", "-"),
        private_key=load_or_create_private_key(Path(config.ssh.private_key)),
        ssh_user=config.ssh.user,
        ssh_port=config.ssh.port,
        image=config.pool.image if image is None else image,
        boot_probe_command=config.pool.boot_probe_command,
        connect_timeout_s=config.ssh.connect_timeout_s,
        patience=Patience(
            boot_timeout_s=config.pool.boot_timeout_s,
            command_timeout_s=config.ssh.command_timeout_s,
        ),
    )


def _chosen(types: Sequence[InstanceType], name: str | None) -> InstanceType:
    """Return the type of that name, or the cheapest that stays."""
    for each in types:
        if each.name == name or (name is None and not each.preemptible):
            return each
    if name is None:
        what, remedy = "every configured instance type is preemptible", "Name one"
    else:
        what = f"there is no instance type {name!r}"
        remedy = f"Use one of {', '.join(sorted(each.name for each in types))}"
    raise CommandFailure(what, remedy=f"{remedy} with --instance-type", exit_code=USAGE)


def _destroy_existing(trial: Trial, cluster: str, *, agreed: bool) -> None:
    """Destroy what carries the tag of `cluster` or of an earlier run, having said what that is."""
    from longshore.dispatcher.conformance.cleanup import CreateRecords, existing, sweep  # noqa: PLC0415 - as above

    context = replace(trial.context, cluster=cluster)
    with closing(trial.info.make(trial.parameters, context)) as instance_set:
        found = existing(instance_set, cluster)
        if not found:
            output.say("there is nothing to destroy")
            return
        for instance_id, of in found:
            output.say(f"to be destroyed: {instance_id} of cluster {of}")
        if not agreed:
            if not sys.stdin.isatty():
                what = "nobody is there to agree to that"
                raise CommandFailure(what, remedy="Say --yes to destroy them", exit_code=USAGE)
            click.confirm(f"Destroy these {len(found)} instances?", abort=True, err=True)
        clusters = tuple(sorted({of for _, of in found}))
        table = CreateRecords(clusters=clusters, clock=trial.context.clock)
        left = sweep(instance_set, table, trial.patience, trial.wait)
    if left:
        raise CommandFailure("not all could be destroyed", problems=[("", line) for line in left])


def _pause(instance_id: str, address: str) -> None:
    output.say(f"{instance_id} is at {address}; press Enter to have it destroyed")
    sys.stdin.readline()


@contextmanager
def _log_to_stderr() -> Iterator[None]:
    """Keep what the pool logs out of the document on stdout."""
    import structlog  # noqa: PLC0415 - most commands need none

    before = structlog.get_config()
    structlog.configure(
        wrapper_class=structlog.make_filtering_bound_logger("warning"),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
    )
    try:
        yield
    finally:
        structlog.configure(**before)


@contextmanager
def _signals_interrupt() -> Iterator[None]:
    """Have what ends a process end the checks, so that what was made is destroyed."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = {number: signal.signal(number, signal.default_int_handler) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _tell(line: str, as_json: bool) -> None:
    click.echo(output.safe(line), err=as_json)


def _tell_result(result: Result, as_json: bool) -> None:
    outcome = result.outcome.value
    told = "; ".join(part for part in (result.why, result.remedy) if part) or result.note
    line = f"{outcome:9}  {result.took_s:6.1f}s  {result.name}" + (f": {told}" if told else "")
    click.secho(output.safe(line), fg=_OUTCOMES[outcome], err=as_json)


def _summary(report: Report) -> str:
    counts = [
        f"{sum(each.outcome.value == outcome for each in report.results)} {outcome}"
        for outcome in _OUTCOMES
    ]
    took = output.duration(sum(each.took_s for each in report.results))
    end = f"{len(report.left)} may be left" if report.left else "nothing is left"
    return f"{', '.join(counts)} in {took}; {end}"


def _document(report: Report, checks: Sequence[Check]) -> dict[str, object]:
    sentences = {each.name: each.sentence for each in checks}
    return {
        "driver": report.driver,
        "cluster": report.cluster,
        "conforms": report.conforms,
        "checks": [
            asdict(each) | {"outcome": each.outcome.value, "sentence": sentences[each.name]}
            for each in report.results
        ],
        "left": list(report.left),
    }
