"""Limits of cpu that change while an attempt runs, where plain files take a kernel's place."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from longshore.pool.runner import cgroups
from longshore.pool.runner.engines import ContainerEngine
from longshore.pool.runner.launch import Launcher
from longshore.pool.runner.spool import Spool, SpoolPaths, attempt_of
from tests.runner_harness import Runner


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory that looks like a machine with version 1 (plain files take what is written)."""
    made = tmp_path / "cgroup"
    for controller in ("cpu", "memory"):
        made.joinpath(controller).mkdir(parents=True)
    monkeypatch.setattr(cgroups, "ROOT", str(made))
    return made


@pytest.fixture
def unified(root: Path) -> Path:
    """A directory that looks like a machine with version 2."""
    root.joinpath("cgroup.controllers").write_text("cpu memory pids")
    return root


@pytest.fixture
def launcher(tmp_path: Path) -> Launcher:
    base = str(tmp_path)
    places = SpoolPaths(base, f"{base}/spool", f"{base}/logs", f"{base}/work", "p", f"{base}/apart")
    return Launcher(Spool(places), ContainerEngine("podman"), dict(os.environ))


QUOTAS = [(1500, "150000"), (1, "1000"), (11, "1100"), (1_000_000_000, "100000000000")]


@pytest.mark.parametrize(("cpu_millis", "quota_us"), [*QUOTAS, (0, "-1")])
def test_a_limit_of_version_1_is_replaced(root: Path, cpu_millis: int, quota_us: str) -> None:
    cgroups.create("p/a", memory_bytes=0, cpu_millis=500)
    group = root / "cpu" / "p" / "a"
    assert group.joinpath("cpu.cfs_quota_us").read_text() == "50000"
    cgroups.limit_cpus("p/a", cpu_millis)
    assert group.joinpath("cpu.cfs_quota_us").read_text() == quota_us
    assert group.joinpath("cpu.cfs_period_us").read_text() == "100000"


def test_the_period_of_version_1_is_ours_also_where_none_was_set_at_the_start(root: Path) -> None:
    cgroups.create("p/a", memory_bytes=0, cpu_millis=0)
    group = root / "cpu" / "p" / "a"
    group.joinpath("cpu.cfs_period_us").write_text("50000")
    cgroups.limit_cpus("p/a", 2000)
    assert group.joinpath("cpu.cfs_period_us").read_text() == "100000"
    assert group.joinpath("cpu.cfs_quota_us").read_text() == "200000"


@pytest.mark.parametrize(("cpu_millis", "quota_us"), [*QUOTAS, (0, "max")])
def test_a_limit_of_version_2_is_replaced(unified: Path, cpu_millis: int, quota_us: str) -> None:
    cgroups.create("p/a", memory_bytes=0, cpu_millis=500)
    file = unified / "p" / "a" / "cpu.max"
    assert file.read_text() == "50000 100000"
    cgroups.limit_cpus("p/a", cpu_millis)
    assert file.read_text() == f"{quota_us} 100000"


@pytest.mark.parametrize("machine", ["root", "unified"])
def test_only_what_runs_in_a_container_has_limits(
    launcher: Launcher, machine: str, request: pytest.FixtureRequest
) -> None:
    root = request.getfixturevalue(machine)
    cgroups.create("p/a", memory_bytes=0, cpu_millis=500)
    group = root / ("p/a" if machine == "unified" else "cpu/p/a")
    assert launcher.limit_cpus(attempt_of("a", "c", "podman", "b", "p/a"), 2500)
    file = group / ("cpu.max" if machine == "unified" else "cpu.cfs_quota_us")
    assert file.read_text().split()[0] == "250000"
    assert not launcher.limit_cpus(attempt_of("a", "c", "process", "b", str(group)), 100)
    assert not launcher.limit_cpus(attempt_of("a", "c", "process", "b", ""), 100)
    assert file.read_text().split()[0] == "250000"


@pytest.mark.parametrize("machine", ["root", "unified"])
def test_a_group_that_cannot_be_written_is_an_error_of_the_system(
    launcher: Launcher, machine: str, request: pytest.FixtureRequest
) -> None:
    request.getfixturevalue(machine)
    with pytest.raises(FileNotFoundError):
        launcher.limit_cpus(attempt_of("a", "c", "podman", "b", "p/a"), 2500)


@pytest.fixture
def runner() -> Iterator[Runner]:
    with Runner() as each:
        yield each


def test_who_is_not_known_or_has_ended_or_has_no_container_gets_no_limit(runner: Runner) -> None:
    session, _ = runner.attach()
    for attempt_id, command in (("ended", "true"), ("runs", "sleep 60")):
        session.start(attempt_id, "sh", "-c", command, cpu_millis=500)
    session.exit_of("ended")
    for attempt_id in ("nobody", "ended", "runs"):
        reply = session.request("update-limits", attempt_id=attempt_id, cpu_millis=100)
        assert (reply["ok"], reply["limited"]) == (True, False)
    assert session.request("update-limits", attempt_id="runs", cpu_millis=0)["ok"]
