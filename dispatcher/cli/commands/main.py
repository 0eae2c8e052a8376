"""The console script: finds the command, runs it, and turns every failure into one sentence."""

from __future__ import annotations

import importlib
import os
import sys
import traceback
from collections.abc import Sequence

import click

from longshore.dispatcher.cli.failure import FAILED, INTERRUPTED, USAGE, CommandFailure
from longshore.dispatcher.cli.options import PlainGroup
from longshore.dispatcher.cli.output import safe, say

COMMANDS = {
    "serve": "longshore.dispatcher.cli.commands.server:serve",
    "demo": "longshore.dispatcher.cli.demo.command:demo",
    "submit": "longshore.dispatcher.cli.commands.submit:submit",
    "plan": "longshore.dispatcher.cli.commands.plan:plan",
    "update": "longshore.dispatcher.cli.commands.update:update",
    "dispatch": "longshore.dispatcher.cli.commands.dispatch:dispatch",
    "overview": "longshore.dispatcher.cli.commands.overview:overview",
    "decisions": "longshore.dispatcher.cli.commands.decisions:decisions",
    "holds": "longshore.dispatcher.cli.commands.holds:holds",
    "ps": "longshore.dispatcher.cli.commands.containers:ps",
    "jobs": "longshore.dispatcher.cli.commands.jobs:jobs",
    "show": "longshore.dispatcher.cli.commands.containers:show",
    "efficiency": "longshore.dispatcher.cli.commands.efficiency:efficiency",
    "explain": "longshore.dispatcher.cli.commands.explain:explain",
    "logs": "longshore.dispatcher.cli.commands.logs:logs",
    "wait": "longshore.dispatcher.cli.commands.lifecycle:wait",
    "cancel": "longshore.dispatcher.cli.commands.lifecycle:cancel",
    "priority": "longshore.dispatcher.cli.commands.lifecycle:priority",
    "hold": "longshore.dispatcher.cli.commands.lifecycle:hold",
    "release": "longshore.dispatcher.cli.commands.lifecycle:release",
    "instances": "longshore.dispatcher.cli.commands.instances:instances",
    "instance": "longshore.dispatcher.cli.commands.instances:instance",
    "cost": "longshore.dispatcher.cli.commands.cost:cost",
    "budgets": "longshore.dispatcher.cli.commands.budgets:budgets",
    "health": "longshore.dispatcher.cli.commands.health:health",
    "leaks": "longshore.dispatcher.cli.commands.leaks:leaks",
    "strays": "longshore.dispatcher.cli.commands.strays:strays",
    "token": "longshore.dispatcher.cli.commands.tokens:token",
    "whoami": "longshore.dispatcher.cli.commands.tokens:whoami",
    "audit": "longshore.dispatcher.cli.commands.audit:audit",
    "secret": "longshore.dispatcher.cli.commands.secrets:secret",
    "backup": "longshore.dispatcher.cli.commands.backup:backup",
    "config": "longshore.dispatcher.cli.commands.configuration:config",
    "driver": "longshore.dispatcher.cli.commands.drivers:driver",
    "version": "longshore.dispatcher.cli.commands.server:version",
}


class LazyGroup(PlainGroup):
    """A group that imports a command's module when the command is asked for."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names in the order in which they are explained."""
        del ctx
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return a command by its name, None when there is none."""
        del ctx
        if cmd_name not in COMMANDS:
            return None
        module, _, attribute = COMMANDS[cmd_name].partition(":")
        command: click.Command = getattr(importlib.import_module(module), attribute)
        return command


def _print_version(ctx: click.Context, _param: click.Parameter, wanted: bool) -> None:
    if wanted and not ctx.resilient_parsing:
        from longshore.dispatcher.cli.commands.server import version_line  # noqa: PLC0415 - most commands need none

        click.echo(version_line())
        ctx.exit()


@click.group(
    cls=LazyGroup,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="Exit codes: 0 done, 1 the thing failed, 2 usage or configuration, 3 no server. "
    "Try 'longshore demo' first.",
)
@click.option(
    "--version",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_print_version,
    help="Print the version.",
)
def cli() -> None:
    """Longshore runs queued containers on cloud instances that it creates and shuts down.

    LONGSHORE_URL (default http://127.0.0.1:8420) names the server, LONGSHORE_TOKEN holds the token.
    """


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line (None: `sys.argv`) and return its exit code; nothing escapes."""
    try:
        _check_encoding(sys.argv[1:] if arguments is None else arguments)
        outcome = cli.main(
            args=None if arguments is None else list(arguments),
            prog_name="longshore",
            standalone_mode=False,
        )
    except SystemExit as ended:
        return ended.code if isinstance(ended.code, int) else FAILED
    except Exception as error:  # noqa: BLE001 - the last line of defence: a user never sees a traceback
        return _explained(error)
    return outcome if isinstance(outcome, int) else 0


def _check_encoding(arguments: Sequence[str]) -> None:
    """Raise `CommandFailure` for an argument that cannot be sent: JSON is UTF-8."""
    for number, argument in enumerate(arguments, 1):
        try:
            argument.encode()
        except UnicodeEncodeError:
            raise CommandFailure(
                f"argument {number} is not UTF-8: {os.fsencode(argument)!r}",
                remedy="Put such names into a file on the instance, or into a script",
                exit_code=USAGE,
            ) from None


def _explained(error: Exception) -> int:
    match error:
        case CommandFailure():
            for line in error.lines():
                click.echo(line, err=True)
            return error.exit_code
        case click.ClickException():
            # Of several lines when it is a help text.
            for line in f"longshore: {usage_sentence(error)}".splitlines():
                click.echo(safe(line), err=True)
            return error.exit_code
        case click.Abort():
            return INTERRUPTED
        case OSError():
            cause = error.strerror or str(error)
            where = f"{error.filename}: " if error.filename else ""
            say(f"cannot write: {cause}" if _gave_up_stdout() else f"{where}{cause}")
            return FAILED
        case _:
            return _bug(error)


def _gave_up_stdout() -> bool:
    """Return whether stdout takes nothing; then what is left of it goes nowhere."""
    try:
        sys.stdout.flush()
    except OSError:
        # The interpreter writes it once more at exit, and complains when it cannot.
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)
        return True
    return False


def usage_sentence(error: click.ClickException) -> str:
    """Return what was typed wrongly, and where to look it up."""
    sentence = error.format_message().rstrip(".")
    context = getattr(error, "ctx", None)
    path = context.command_path if isinstance(context, click.Context) else "longshore"
    return f"{sentence}. See '{path} --help'"


def _bug(error: Exception) -> int:
    say(
        f"this is a bug in longshore ({type(error).__name__}: {error}). "
        "Set LONGSHORE_DEBUG=1 to see where, and please report it."
    )
    if os.environ.get("LONGSHORE_DEBUG"):
        for line in "".join(traceback.format_exception(error)).splitlines():
            click.echo(safe(line), err=True)
    return FAILED


if __name__ == "__main__":
    sys.exit(main())
