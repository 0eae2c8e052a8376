"""Checks of what an instance is once it runs: reached over SSH, and able to end itself."""

from __future__ import annotations

import re
import shlex

from longshore.dispatcher.conformance.harness import Bench
from longshore.dispatcher.conformance.model import Nonconformity, Notices, NotShown, RemoteShell
from longshore.drivers.errors import RemoteError
from longshore.drivers.interface import HostKeyVerdict, WarnsOfInterruption

_GREETING = "longshore conformance"
_STATUS = 7
_NOTICE = "2031-02-03T04:05:06Z"
_MOMENT = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ")
_OUTPUT_SHOWN = 2000


def check_boot(bench: Bench) -> None:
    """A new instance has an address, and lets in the key of its create call."""
    bench.first_login()


def check_init_first(bench: Bench) -> None:
    """The init command has run to its end before anybody can log in."""
    early = bench.first_login().early
    if early:
        raise Nonconformity(
            f"the first login came before the init command had ended: {early}",
            "let the key of the create call in at the end of the boot script",
        )


def check_secret(bench: Bench) -> None:
    """The instance proves its host key by the secret of its init command."""
    bench.first_shell()


def check_verdicts(bench: Bench) -> None:
    """The driver knows the instance's host key from another."""
    genuine, strange = _verdicts(bench)
    if genuine is not HostKeyVerdict.GENUINE:
        raise Nonconformity(
            f"it says {genuine.value} of the key that the instance has proven to be its own",
            "compare the type and the base64 text, without the comment",
        )
    if strange is not HostKeyVerdict.WRONG:
        raise Nonconformity(
            f"it says {strange.value} of a key that is not the instance's",
            "say wrong when the cloud tells other keys",
        )


def check_no_verdicts(bench: Bench) -> None:
    """The driver says that it cannot tell host keys."""
    for verdict in _verdicts(bench):
        if verdict is not HostKeyVerdict.UNKNOWN:
            raise Nonconformity(
                f"it says {verdict.value} of a host key, and does not claim host-keys",
                "claim it, or say unknown: nobody may vouch for a key without the cloud's word",
            )


def check_command(bench: Bench) -> None:
    """A command runs, and its output and exit status come back."""
    status, output = _run(bench, bench.first_shell(), f"echo {_GREETING}; exit {_STATUS}")
    if (status, output.strip()) != (_STATUS, _GREETING):
        raise Nonconformity(
            f"a command that says {_GREETING!r} and exits with {_STATUS} ended with {status}, "
            f"having said {output[:_OUTPUT_SHOWN]!r}",
            "let the login user have a POSIX shell that says nothing of its own",
        )


def check_boot_probe(bench: Bench) -> None:
    """The dispatcher's boot probe passes: the runner can be deployed there, and answers."""
    subject = bench.first()
    bench.first_shell()
    listed = bench.first_listed()
    try:
        bench.shell.boot_probe(
            listed.address, secret=subject.wish.secret, verify=listed.verify_host_key
        )
    except RemoteError as error:
        raise Nonconformity(
            f"the boot probe of {subject.id} fails: {error}",
            "take an image with Python 3.8 or later, and a user who may write to his home",
        ) from error


def check_stranger(bench: Bench) -> None:
    """Somebody with another key cannot log in."""
    bench.first_shell()
    address = bench.first_listed().address
    if bench.shell.admits_strangers(address):
        raise Nonconformity(
            f"{address} lets in a key that was never put there",
            "let in the key of the create call only, and no passwords",
        )


def check_own_command(bench: Bench) -> str:
    """The command that was asked for runs, and exits with 0."""
    command = bench.trial.command
    if not command:
        raise NotShown("no command was given")
    status, output = _run(bench, bench.first_shell(), command)
    told = output[-_OUTPUT_SHOWN:].strip()
    if status:
        raise Nonconformity(f"{command!r} exits with {status}: {told}", "look at what it says")
    return told


def check_power_off(bench: Bench) -> None:
    """The power-off command, run on an instance, ends it and takes it out of the listing."""
    command = bench.power_off
    if not command:
        raise NotShown("there is no power-off command, see capabilities")
    bench.make_room()
    subject = bench.create()
    try:
        shell = bench.logged_in(subject)
        _run(bench, shell, f"setsid /bin/sh -c {shlex.quote(command)} </dev/null >/dev/null 2>&1 &")
        bench.until(
            lambda: True if bench.listed(subject.id) is None else None,
            bench.patience.gone_timeout_s,
            f"{subject.id} has run its power-off command and is still listed",
            "have the cloud end what powers itself off, and let the login user run the command",
        )
    finally:
        bench.destroy_now(subject.instance)


def check_watch(bench: Bench) -> str:
    """The interruption watch waits while there is no notice, and tells one when there is."""
    watch = bench.set.interruption_watch() if isinstance(bench.set, WarnsOfInterruption) else ""
    if not watch:
        raise NotShown("there is no interruption watch, see capabilities")
    shell = bench.first_shell()
    status, output = _run(bench, shell, f"timeout {bench.patience.watch_s:g} {_in_shell(watch)}")
    if status != 124:
        raise Nonconformity(
            f"without a notice the watch ends with {status}, having said {output!r}",
            "wait for the notice, however long that takes",
        )
    bed: object = bench.trial.bed
    if not isinstance(bed, Notices):
        return "that it tells a notice is not shown: the cloud gives none on demand"
    bed.give_notice(bench.first().id, _NOTICE)
    limit_s = bench.patience.command_timeout_s
    status, output = _run(bench, shell, f"timeout {limit_s:g} {_in_shell(watch)}")
    if status or output.strip() != _NOTICE or not _MOMENT.fullmatch(output.strip()):
        raise Nonconformity(
            f"of a notice for {_NOTICE} the watch says {output!r}, and exits with {status}",
            "print the moment as YYYY-MM-DDTHH:MM:SSZ on one line, and exit",
        )
    return ""


def _in_shell(command: str) -> str:
    return f"/bin/sh -c {shlex.quote(command)}"


def _verdicts(bench: Bench) -> tuple[HostKeyVerdict, HostKeyVerdict]:
    key = bench.first_shell().host_key
    listed = bench.first_listed()
    return listed.verify_host_key(key), listed.verify_host_key(bench.shell.strange_key)


def _run(bench: Bench, shell: RemoteShell, command: str) -> tuple[int, str]:
    try:
        return shell.run(command, timeout_s=2 * bench.patience.command_timeout_s)
    except RemoteError as error:
        raise Nonconformity(
            f"{command!r} cannot be run: {error}", "keep the instance reachable until it is ended"
        ) from error
