"""The watch for the cloud's notice through the whole link: real sshd, the real runner."""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from longshore.pool.remote.deploy import build_runner
from longshore.pool.remote.link import WorkerLink
from longshore.pool.remote.ssh_keys import load_or_create_private_key, public_key_text
from longshore.pool.runner.spool import places
from tests.rigs.link import Recorder, link_settings, make_link, unknown
from tests.runner_harness import environments
from tests.sshd_host import SshdHost, wait_until

pytestmark = pytest.mark.real

CLUSTER = "c1"
AT = "2031-02-03T04:05:06Z"


class Far:
    """An instance, where its cloud puts the notice, and the links to it."""

    def __init__(self, directory: Path) -> None:
        self.key = load_or_create_private_key(directory / "id")
        self.host = SshdHost(directory / "i-1", authorized_key=public_key_text(self.key))
        self.notice = directory / "notice"
        self.pids = directory / "pids"
        self.listener = Recorder()
        self.links: list[WorkerLink] = []

    @property
    def spool(self) -> Path:
        """Return the spool of the instance's runner, beside those of all others on this machine."""
        variables = {"LONGSHORE_RUNNER_DIR": str(self.host.runner_directory)}
        return Path(places(CLUSTER, variables).spool)

    @property
    def watch(self) -> str:
        """Return a watch that notes its process and the one that it starts, and waits."""
        wait = f"while [ ! -e {self.notice} ]; do sleep 0.1; done"
        return f"sleep 900 & echo $$ $! >>{self.pids}; {wait}; cat {self.notice}"

    def attach(self) -> WorkerLink:
        """Return a new link with a session."""
        settings = link_settings(
            self.key,
            cluster=CLUSTER,
            bundle=build_runner(),
            engine_json='{"name":"process"}',
            interruption_watch=self.watch,
        )
        self.links.append(make_link(settings, self.listener))
        self.links[-1].probe(
            address=self.host.address,
            host_key=self.host.host_key,
            secret="",
            boot=False,
            verify=unknown,
        )
        return self.links[-1]

    def give_notice(self) -> None:
        """Have the cloud say that it takes the instance back."""
        staged = self.notice.with_suffix(".new")
        staged.write_text(f"{AT}\n")
        staged.rename(self.notice)

    def started(self, count: int) -> list[int]:
        """Return the processes of the watches so far, once there were `count` watches."""
        wait_until(lambda: self._lines() >= count, f"watch number {count}")
        return [int(each) for each in self.pids.read_text().split()]

    def hears(self, count: int) -> None:
        wait_until(lambda: len(self.listener.interruptions) >= count, "the notice")
        assert self.listener.interruptions == [AT] * count

    def close(self) -> None:
        for link in self.links:
            link.close()
        self.host.stop()
        mark = f"LONGSHORE_RUNNER_DIR={self.host.runner_directory}"
        for pid in [pid for pid, environment in environments() if mark in environment]:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        shutil.rmtree(self.spool, ignore_errors=True)

    def _lines(self) -> int:
        return self.pids.read_text().count("\n") if self.pids.exists() else 0


@pytest.fixture
def far(tmp_path: Path) -> Iterator[Far]:
    made = Far(tmp_path)
    yield made
    made.close()


def gone(pids: list[int]) -> None:
    """Wait until processes have ended; their parent may not have waited for them yet."""
    wait_until(lambda: not any(map(_runs, pids)), f"{pids} to end")


def _runs(pid: int) -> bool:
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False
    return stat.rpartition(")")[2].split()[0] not in "ZX"


def test_the_notice_is_heard_once_and_by_each_later_session_again(far: Far) -> None:
    first = far.attach()
    processes = far.started(1)
    assert far.listener.interruptions == []
    far.give_notice()
    far.hears(1)
    gone(processes)
    first.close()
    far.attach()
    far.hears(2)
    gone(far.started(2))


def test_a_session_that_ends_leaves_no_watch_whoever_ends_it(far: Far) -> None:
    link = far.attach()
    processes = far.started(1)
    assert all(map(_runs, processes))
    link.close()
    gone(processes)
    far.attach()
    processes = far.started(2)
    far.host.kill_sessions()
    gone(processes)
    assert far.listener.interruptions == []


def test_a_session_that_is_taken_over_from_leaves_its_watch_to_the_next(far: Far) -> None:
    far.attach()
    before = far.started(1)
    far.attach()
    after = far.started(2)[len(before) :]
    gone(before)
    assert all(map(_runs, after))
    far.give_notice()
    far.hears(1)


def test_clearing_up_takes_the_spools_of_others_not_along(tmp_path: Path) -> None:
    made = Far(tmp_path)
    other = made.spool.with_name(f"{made.spool.name}-of-another")
    try:
        made.attach()
        made.started(1)
        assert made.spool.is_dir()
        other.mkdir()
        made.close()
        assert (made.spool.exists(), other.is_dir()) == (False, True)
    finally:
        made.close()
        shutil.rmtree(other, ignore_errors=True)
