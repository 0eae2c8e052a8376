"""The lease of an instance that nobody has reached yet: the shell in its init script."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from longshore.pool.hostkey import CONTACT_MARK, init_fragment, proof_command
from longshore.pool.lease import ATTACHED_MARK, contact_command, first_contact_fragment
from longshore.pool.runner import lease as runner_lease
from tests.runner_harness import environments, eventually

WAIT_S = 2
QUIET_S = 4.5


class Machine:
    """A directory as a new instance; whatever its init script leaves behind ends with it."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory / "runner"
        self.record = directory / "powered-off"
        self.command = f"echo $$ >>{self.record}; echo said; exit 3"
        self.environment = {
            "PATH": os.environ["PATH"],
            "HOME": str(directory),
            "LONGSHORE_RUNNER_DIR": str(self.directory),
        }

    def run(self, script: str) -> subprocess.CompletedProcess[bytes]:
        """Run a script as an init script is, and return when it has ended."""
        return subprocess.run(
            ["/bin/sh", "-c", script],
            env=self.environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=False,
            timeout=60,
        )

    def boot(self, behind: str = "") -> subprocess.CompletedProcess[bytes]:
        fragment = first_contact_fragment(WAIT_S, self.command)
        return self.run(f"{init_fragment('a secret')}\n{fragment}\n{behind}")

    def tries(self) -> int:
        return self.record.read_text().count("\n") if self.record.exists() else 0

    def processes(self) -> list[int]:
        mark = f"LONGSHORE_RUNNER_DIR={self.directory}"
        return [pid for pid, environment in environments() if mark in environment]

    def end(self) -> None:
        while left := self.processes():
            for pid in left:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Machine]:
    made = Machine(tmp_path)
    yield made
    made.end()


def test_an_instance_that_nobody_ever_reaches_powers_off(machine: Machine) -> None:
    began = time.monotonic()
    done = machine.boot("echo through; wait")
    assert (done.returncode, done.stdout, done.stderr) == (0, b"through\n", b"")
    assert machine.tries() == 0
    eventually(lambda: machine.tries() == 1)
    assert time.monotonic() - began >= WAIT_S
    log = machine.directory / "power-off.log"
    eventually(lambda: "exit status 3\n" in log.read_text())
    assert "\nsaid\n" in log.read_text()
    assert log.stat().st_mode & 0o077 == 0


def test_it_is_tried_again_with_growing_delays_until_there_is_a_contact(machine: Machine) -> None:
    machine.command = f"date +%s.%N >>{machine.record}"
    machine.boot()
    eventually(lambda: machine.tries() >= 3)
    at = [float(line) for line in machine.record.read_text().split()]
    assert at[2] - at[1] > 1.25 * (at[1] - at[0]), at
    (machine.directory / ATTACHED_MARK).touch()
    eventually(lambda: not machine.processes())
    assert machine.tries() == 3


def test_with_a_session_it_is_the_runners_affair(machine: Machine) -> None:
    machine.boot()
    (machine.directory / ATTACHED_MARK).touch()
    eventually(lambda: not machine.processes())
    assert machine.tries() == 0


@pytest.mark.parametrize("how", [proof_command(), contact_command()], ids=["proof", "boot probe"])
def test_a_contact_before_the_session_renews_it(machine: Machine, how: str) -> None:
    machine.boot()
    end = time.monotonic() + QUIET_S
    while time.monotonic() < end:
        assert machine.run(how).returncode == 0
        assert machine.tries() == 0
        time.sleep(0.1)
    eventually(lambda: machine.tries() == 1)
    assert not (machine.directory / CONTACT_MARK).exists()


def test_a_contact_on_a_machine_without_our_directory_leaves_nothing(machine: Machine) -> None:
    assert machine.run(contact_command()).returncode == 0
    assert not machine.directory.exists()


def test_a_command_that_hangs_does_not_keep_the_next_try_from_coming(machine: Machine) -> None:
    machine.command = f"echo $$ >>{machine.record}; exec sleep 1000"
    machine.boot()
    eventually(lambda: machine.tries() >= 2)


def test_it_powers_off_also_where_nothing_can_be_written(machine: Machine) -> None:
    machine.directory.write_text("a file in the way")
    assert machine.boot("echo through").stdout == b"through\n"
    eventually(lambda: machine.tries() == 1)


def test_the_command_is_nobody_elses_to_read(machine: Machine) -> None:
    machine.command = "curl -H token-of-this-instance https://cloud"
    machine.boot()
    # What is between fork and exec has no environment to be seen for a moment.
    eventually(lambda: bool(machine.processes()))
    for pid in machine.processes():
        assert b"token-of-this" not in Path(f"/proc/{pid}/cmdline").read_bytes()


def test_both_ends_know_the_mark_by_the_same_name() -> None:
    assert ATTACHED_MARK == runner_lease.ATTACHED_MARK
    assert f'"{CONTACT_MARK}"' in proof_command()
