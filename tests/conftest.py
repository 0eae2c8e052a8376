"""What every test gets: real parts or a clear word about them, and a guard against leaks.

The guard holds one promise of the house for all tests: every thread and process that is started
is ended and joined. A test (with its function-scoped fixtures) that leaves one behind fails, by
name. What wider fixtures own is in the picture taken before the test, so it is not held against
the test; it is held against the whole run, by the same check around the session.
"""

from __future__ import annotations

import gc
import os
import select
import shutil
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

import pytest
from hypothesis import settings

from tests.fast_loop import left_out

LEAK_GRACE_S = float(os.environ.get("LONGSHORE_LEAK_GRACE_S", "5"))
"""How long a thread or process that is on its way out may take after its test; usually 0."""

BARE_NAMES = frozenset({"dispatcher", "drivers", "pool"})

MARK_NAME, MARK_VALUE = "LONGSHORE_TEST_SESSION", f"{os.getpid()}-{time.time_ns()}"
"""In the environment of everything that this run starts, so that also a process whose parent has
ended (and which therefore is no child of ours any more) is recognised as ours, and only ours."""

os.environ[MARK_NAME] = MARK_VALUE

# A test of a property may take as long as it needs: deadlines measure the machine, which is shared.
# In CI the examples are derived from the test itself, so that a red run is red again on the same
# commit and never blames a change for another's fault. At a desk they are random and remembered,
# so that each run searches a new place. `HYPOTHESIS_PROFILE=thorough` searches far.
settings.register_profile("desk", deadline=None, print_blob=True)
settings.register_profile("ci", deadline=None, print_blob=True, derandomize=True)
settings.register_profile("thorough", deadline=None, print_blob=True, max_examples=5000)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci" if "CI" in os.environ else "desk"))

FIRST = (
    *("tests/edges/", "tests/sim/test_chaos.py", "tests/e2e/test_dashboard"),
    *("tests/e2e/test_cost_pages.py", "tests/e2e/test_live_prices.py"),
)
"""What has the longest tests: planted defects, each with a run of its own, bad days, browsers."""

RequireTool = Callable[[str, str], str]


def pytest_configure() -> None:
    """Let Ctrl-C reach what tests start: a run in the background may have begun with it ignored."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave the slow tests out of the fast loop; let those begin first that take minutes.

    Whatever begins last is run while the other workers have nothing to do any more.
    """
    out = left_out(each.nodeid for each in items)
    if out:
        config.hook.pytest_deselected(items=[each for each in items if each.nodeid in out])
        items[:] = [each for each in items if each.nodeid not in out]
    items.sort(key=lambda each: not each.nodeid.startswith(FIRST))


def pytest_collection_finish() -> None:
    """Let no collection of garbage go through thousands of tests and modules, which all stay."""
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="session")
def require_tool() -> RequireTool:
    """Return `require_tool(name, package)`, which returns the path of a program.

    Without the program the test fails in CI, where a missing real part would be a test that never
    ran; elsewhere it is skipped, with a line that names the Debian package to install.
    """
    return find_tool


def find_tool(name: str, package: str) -> str:
    """Return the path of program `name`, or fail (in CI) or skip the test that asks for it."""
    path = shutil.which(name, path=os.environ.get("PATH", "") + ":/usr/local/sbin:/usr/sbin:/sbin")
    if path is None:
        not_tested(f"{name} is missing; apt-get install {package} (or run make test as root)")
    return path


def not_tested(why: str) -> NoReturn:
    """Fail in CI, where a part that is missing is a test that never ran; else skip with a word."""
    message = f"NOT TESTED: {why}"
    if os.environ.get("CI"):
        pytest.fail(message)
    pytest.skip(message)


@pytest.fixture(autouse=True)
def _no_leaks() -> Iterator[None]:
    """Fail a test that leaves threads or processes behind.

    Autouse fixtures are set up before and torn down after all others of their scope, so this one
    looks once the event loop and every fixture of the test are closed.
    """
    before = Picture.take()
    yield
    before.fail_if_more_is_left("this test")


@pytest.fixture(scope="session", autouse=True)
def _no_leaks_of_wider_fixtures() -> Iterator[None]:
    before = Picture.take()
    yield
    before.fail_if_more_is_left("a module's or the session's fixture")


@pytest.fixture(scope="session", autouse=True)
def _nothing_was_imported_by_a_bare_name() -> Iterator[None]:
    """Hold that our folders are imported as `longshore.…` alone: twice imported is twice there."""
    yield
    bare = {name for name in sys.modules if name.partition(".")[0] in BARE_NAMES}
    assert not bare, f"imported without longshore: {sorted(bare)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Picture:
    """The threads and processes that there were at one moment."""

    threads: frozenset[threading.Thread]
    processes: frozenset[int]

    @classmethod
    def take(cls) -> Picture:
        """Return a picture of now; all processes of the machine are in it, whoever owns them."""
        return cls(threads=frozenset(threading.enumerate()), processes=frozenset(_all_processes()))

    def fail_if_more_is_left(self, culprit: str) -> None:
        """Fail the current test when more is there than in this picture; end what is left.

        What is ending gets `LEAK_GRACE_S` in all. Processes are killed after they are named, so
        that one bad test does not litter the machine; a thread cannot be.
        """
        deadline = time.monotonic() + LEAK_GRACE_S
        left = [_describe_thread(thread) for thread in self._threads_left(deadline)]
        for pid in self._processes_left(deadline):
            left.append(_describe_process(pid))
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        if left:
            pytest.fail(f"{culprit} left behind: {'; '.join(left)}", pytrace=False)

    def _threads_left(self, deadline: float) -> list[threading.Thread]:
        new = [thread for thread in threading.enumerate() if thread not in self.threads]
        for thread in new:
            thread.join(max(0.0, deadline - time.monotonic()))
        return sorted((thread for thread in new if thread.is_alive()), key=lambda each: each.name)

    def _processes_left(self, deadline: float) -> list[int]:
        new = [pid for pid in _all_processes() if pid not in self.processes and _is_ours(pid)]
        for pid in new:
            _wait_for_end(pid, deadline)
        return [pid for pid in new if _is_ours(pid)]


def _all_processes() -> list[int]:
    return sorted(int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdecimal())


def _is_ours(pid: int) -> bool:
    """Return whether this run started `pid` and it still runs, or has ended and is not reaped.

    A zombie has no environment to read, but as long as it is our child, reaping it is our duty;
    unless we are process 1 (of a container), which is the parent of everybody's orphans.
    """
    process = Path("/proc", str(pid))
    try:
        parent = process.joinpath("stat").read_text().rpartition(")")[2].split()[1]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return int(parent) == os.getpid() != 1 or _is_marked(process)


def _is_marked(process: Path) -> bool:
    try:
        environment = process.joinpath("environ").read_bytes().split(b"\0")
    except (FileNotFoundError, ProcessLookupError, PermissionError):
        return False
    return f"{MARK_NAME}={MARK_VALUE}".encode() in environment


def _wait_for_end(pid: int, deadline: float) -> None:
    """Wait until `pid` has ended (it may then be a zombie), at most until `deadline`."""
    try:
        descriptor = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    try:
        poll = select.poll()
        poll.register(descriptor, select.POLLIN)
        poll.poll(max(0.0, deadline - time.monotonic()) * 1000)
    finally:
        os.close(descriptor)


def _describe_thread(thread: threading.Thread) -> str:
    """Return its name, its class and what it is doing: names alone are often "Thread-7"."""
    kind = f"{type(thread).__module__}.{type(thread).__qualname__}"
    frame = sys._current_frames().get(thread.ident or 0)
    stack = traceback.extract_stack(frame)[-3:] if frame is not None else []
    where = " < ".join(
        f"{each.name} at {Path(each.filename).name}:{each.lineno}" for each in reversed(stack)
    )
    return f"thread {thread.name!r} ({kind}, in {where or 'nothing any more'})"


def _describe_process(pid: int) -> str:
    process = Path("/proc", str(pid))
    try:
        command = (
            process.joinpath("cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
        )
        name = process.joinpath("comm").read_text().strip()
    except (FileNotFoundError, ProcessLookupError):
        return f"process {pid}"
    if not command:
        return f"process {pid} ({name}, which has ended and nobody waited for it)"
    return f"process {pid} ({command.strip()[:200]})"


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say once more, loudly, what was not tested: a skip among hundreds of dots is not seen."""
    skipped = terminalreporter.stats.get("skipped", [])
    reasons = {report.longrepr[2] for report in skipped if isinstance(report.longrepr, tuple)}
    for reason in sorted(reasons):
        terminalreporter.write_line(f"!!! {reason}", yellow=True, bold=True)
