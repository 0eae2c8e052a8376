"""The dead-man's lease through the whole link: real sshd, the real runner, a harmless command."""

from __future__ import annotations

import os
import shutil
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from longshore.pool.lease import ATTACHED_MARK
from longshore.pool.remote.deploy import build_runner
from longshore.pool.remote.link import WorkerLink
from longshore.pool.remote.ssh_keys import load_or_create_private_key, public_key_text
from longshore.pool.runner.spool import places
from tests.rigs.link import Recorder, link_settings, make_link, unknown
from tests.runner_harness import environments
from tests.sshd_host import SshdHost, wait_until

pytestmark = pytest.mark.real

CLUSTER = "c1"
ORPHAN_TIMEOUT_S = 2.0
QUIET_S = 3.5


class Far:
    """An instance, the link to it, and what its power-off command writes."""

    def __init__(self, directory: Path) -> None:
        self.key = load_or_create_private_key(directory / "id")
        self.host = SshdHost(directory / "i-1", authorized_key=public_key_text(self.key))
        self.record = directory / "powered-off"
        self.links: list[WorkerLink] = []

    @property
    def lease(self) -> Path:
        """Return the file in which the runner keeps the terms."""
        variables = {"LONGSHORE_RUNNER_DIR": str(self.host.runner_directory)}
        return Path(places(CLUSTER, variables).spool, "lease")

    def link(self, **changes: Any) -> WorkerLink:
        values = {
            "cluster": CLUSTER,
            "bundle": build_runner(),
            "engine_json": '{"name":"process"}',
            "orphan_timeout_s": ORPHAN_TIMEOUT_S,
            "power_off_command": f"echo off >>{self.record}",
            **changes,
        }
        self.links.append(make_link(link_settings(self.key, **values), Recorder()))
        return self.links[-1]

    def probe(self, link: WorkerLink, *, suspend_lease: bool = False, boot: bool = False) -> None:
        link.set_lease(suspended=suspend_lease)
        link.probe(
            address=self.host.address,
            host_key=self.host.host_key,
            secret="",
            boot=boot,
            verify=unknown,
        )

    def powers_off(self) -> None:
        wait_until(self.record.exists, "the power-off command")

    def stays_on(self, meanwhile: Callable[[], None] = lambda: None) -> None:
        end = time.monotonic() + QUIET_S
        while time.monotonic() < end:
            meanwhile()
            assert not self.record.exists()
            time.sleep(0.05)

    def close(self) -> None:
        for link in self.links:
            link.close()
        self.host.stop()
        mark = f"LONGSHORE_RUNNER_DIR={self.host.runner_directory}"
        while left := [pid for pid, environment in environments() if mark in environment]:
            for pid in left:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
        shutil.rmtree(self.lease.parent, ignore_errors=True)


@pytest.fixture
def far(tmp_path: Path) -> Iterator[Far]:
    made = Far(tmp_path)
    yield made
    made.close()


def test_a_link_renews_the_lease_and_its_end_is_the_last_contact(far: Far) -> None:
    link = far.link()
    far.probe(link)
    assert (far.host.runner_directory / ATTACHED_MARK).exists()
    far.stays_on()
    link.close()
    far.powers_off()


def test_a_link_suspends_the_lease_with_a_probe(far: Far) -> None:
    link = far.link()
    far.probe(link, suspend_lease=True)
    link.close()
    far.stays_on()


def test_a_link_suspends_and_resumes_the_lease_at_any_time(far: Far) -> None:
    # Nothing is due to be renewed during the test: what is told is told at once.
    link = far.link(orphan_timeout_s=600.0)
    link.set_lease(suspended=True)
    far.probe(link)
    link.set_lease(suspended=True)
    wait_until(lambda: "true" in far.lease.read_text(), "the suspension")
    link.set_lease(suspended=False)
    wait_until(lambda: "false" in far.lease.read_text(), "the end of the suspension")
    far.probe(link, suspend_lease=True)
    wait_until(
        lambda: "true" in far.lease.read_text(), "the suspension by a probe of a live session"
    )


def test_a_driver_without_a_command_leaves_the_instance_alone(far: Far) -> None:
    link = far.link(power_off_command="")
    far.probe(link, boot=True)
    link.set_lease(suspended=True)
    assert not far.lease.exists()
    assert not (far.host.runner_directory / "contact").exists()


def test_a_boot_probe_is_a_contact(far: Far) -> None:
    link = far.link()
    far.host.runner_directory.mkdir()
    far.probe(link, boot=True)
    assert (far.host.runner_directory / "contact").exists()


def test_a_network_that_is_cut_in_silence_leaves_a_session_that_keeps_the_lease(far: Far) -> None:
    link = far.link()
    far.probe(link)
    # A frozen sshd takes nothing from the wire, and its runner hears of no end.
    frozen = far.host.session_pids()
    for pid in frozen:
        os.kill(pid, signal.SIGSTOP)
    try:
        far.powers_off()
    finally:
        for pid in frozen:
            os.kill(pid, signal.SIGCONT)
