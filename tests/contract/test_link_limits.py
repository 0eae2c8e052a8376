"""New limits from a worker's link, over a real sshd and the real runner, to a real container."""

from __future__ import annotations

import json
import os
import secrets
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from longshore.pool.remote.deploy import build_runner
from longshore.pool.remote.link import WorkerLink
from longshore.pool.remote.link_model import StartVerdict
from longshore.pool.remote.ssh_keys import load_or_create_private_key, public_key_text
from longshore.pool.runner import cgroups
from longshore.pool.runner.spool import places
from tests.busybox_image import ENGINE, IMAGE, import_image
from tests.conftest import RequireTool, not_tested
from tests.rigs.link import Recorder, link_settings, make_link, order, start, unknown
from tests.sshd_host import SshdHost, wait_until

pytestmark = pytest.mark.real

# Names of containers are the machine's: another run of these tests may be under way on it.
A = f"a-{os.getpid()}-{secrets.token_hex(4)}"


class Site:
    """An instance with Podman and a link to it; `group` is that of A."""

    def __init__(self, directory: Path) -> None:
        key = load_or_create_private_key(directory / "keys" / "id")
        self.host = SshdHost(directory / "i-1", authorized_key=public_key_text(key))
        variables = {"LONGSHORE_RUNNER_DIR": str(self.host.runner_directory)}
        self.places = places("c1", variables)
        self.group = f"{self.places.name}/{A}"
        self.recorder = Recorder()
        settings = link_settings(key, bundle=build_runner(), engine_json=json.dumps(ENGINE))
        self.link: WorkerLink = make_link(settings, self.recorder)

    def probe(self) -> tuple[str, ...]:
        """Probe, and return the ids of the attempts that the runner knows."""
        ready = self.link.probe(
            address=self.host.address,
            host_key=self.host.host_key,
            secret="",
            boot=False,
            verify=unknown,
        )
        return tuple(report.attempt_id for report in ready.report.attempts)

    def quota(self) -> str:
        """Return how much of cpus the kernel lets A have in a tenth of a second."""
        root = Path(cgroups.ROOT)
        if cgroups.unified():
            return root.joinpath(self.group, "cpu.max").read_text().split()[0]
        return root.joinpath("cpu", self.group, "cpu.cfs_quota_us").read_text().strip()

    def gone(self) -> bool:
        """Return whether nothing is left of A."""
        return not any(Path(each).exists() for each in cgroups.directories(self.group))


@pytest.fixture
def site(tmp_path: Path, require_tool: RequireTool) -> Iterator[Site]:
    podman = require_tool("podman", "podman")
    require_tool("runc", "runc")
    busybox = require_tool("busybox", "busybox-static")
    if cgroups.problem():
        not_tested(f"{cgroups.problem()}")
    import_image(podman, busybox)
    made = Site(tmp_path)
    with made.host:
        made.probe()
        yield made
        made.probe()
        made.link.signal(A, "KILL", grace_s=0.0)
        wait_until(lambda: A in made.recorder.exits, "the exit")
        made.link.release(A)
        wait_until(made.gone, "the end of its group")
        made.link.close()
    for each in map(Path, cgroups.directories(made.places.name)):
        if each.exists():
            each.rmdir()
    shutil.rmtree(made.places.spool)


def test_new_limits_arrive_behind_their_start_and_stay_until_the_next(site: Site) -> None:
    started = start(site.link, replace(order(A, "sleep", "600", image=IMAGE), cpu_millis=500))
    assert started.verdict is StartVerdict.STARTED
    assert site.quota() == "50000"
    for cpu_millis in (600, 1750):
        site.link.update_limits(A, cpu_millis=cpu_millis)
    wait_until(lambda: site.quota() == "175000", "the latest limits")
    site.host.kill_sessions()
    wait_until(lambda: len(site.recorder.losses) == 1, "the loss")
    site.link.update_limits(A, cpu_millis=100)
    assert site.probe() == (A,)
    assert site.quota() == "175000", "without a session nothing is sent, then or later"
    site.link.update_limits("nobody", cpu_millis=100)
    site.link.update_limits(A, cpu_millis=250)
    wait_until(lambda: site.quota() == "25000", "limits for what was started before")
    assert len(site.recorder.losses) == 1
