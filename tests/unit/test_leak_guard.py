"""The guard of tests/conftest.py catches what it is there for: run it on tests that leak."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

CONFTEST = Path(__file__).resolve().parents[1] / "conftest.py"

SETTINGS = """
[pytest]
asyncio_mode = auto
asyncio_default_fixture_loop_scope = function
filterwarnings = error
"""

PRELUDE = """
import asyncio, subprocess, sys, threading
import pytest

SLEEPER = [sys.executable, "-c", "import time; time.sleep(300)"]
"""


def run_pytest(
    directory: Path, test: str, environment: dict[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Run one test module under the real conftest, with a short grace, in a process of its own."""
    conftest = CONFTEST.read_text().replace('LEAK_GRACE_S", "5")', 'LEAK_GRACE_S", "0.3")')
    directory.joinpath("conftest.py").write_text(conftest)
    directory.joinpath("pytest.ini").write_text(SETTINGS)
    directory.joinpath("test_it.py").write_text(PRELUDE + textwrap.dedent(test))
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-rs", "test_it.py"],
        cwd=directory,
        env={key: value for key, value in os.environ.items() if key != "CI"} | (environment or {}),
        capture_output=True,
        text=True,
        timeout=150,
        check=False,
    )


def test_a_thread_left_running_fails_the_test_by_name(tmp_path: Path) -> None:
    result = run_pytest(
        tmp_path,
        """
        def test_leaks():
            threading.Thread(target=threading.Event().wait, name="forgotten", daemon=True).start()

        def test_next_one_is_not_blamed():
            pass
        """,
    )
    assert "this test left behind: thread 'forgotten' (threading.Thread, in wait" in result.stdout
    assert "2 passed, 2 errors" in result.stdout  # the second error is the session's own check
    assert result.returncode == 1


def test_a_child_left_running_fails_the_test_and_is_ended(tmp_path: Path) -> None:
    result = run_pytest(
        tmp_path,
        """
        kept = []

        def test_leaks():
            kept.append(subprocess.Popen(SLEEPER))
            print(f"PID {kept[0].pid}")

        def test_it_was_ended():
            assert kept[0].wait(timeout=60) == -9
        """,
    )
    assert "this test left behind: process" in result.stdout
    assert "time.sleep(300)" in result.stdout
    assert "2 passed, 1 error" in result.stdout


def test_an_orphan_is_found_too(tmp_path: Path) -> None:
    result = run_pytest(
        tmp_path,
        """
        def test_leaks():
            subprocess.run(["sh", "-c", "setsid sleep 300 >/dev/null 2>&1 &"], check=True)
        """,
    )
    assert "(sleep 300" in result.stdout
    assert "1 passed, 1 error" in result.stdout


def test_a_child_that_nobody_waited_for_fails_the_test(tmp_path: Path) -> None:
    result = run_pytest(
        tmp_path,
        """
        kept = []

        def test_leaks():
            kept.append(subprocess.Popen(["true"]))

        def test_end():
            kept[0].wait()
        """,
    )
    assert "has ended and nobody waited for it" in result.stdout
    assert "2 passed, 1 error" in result.stdout


def test_what_is_ended_or_belongs_to_a_wider_fixture_is_no_leak(tmp_path: Path) -> None:
    result = run_pytest(
        tmp_path,
        """
        @pytest.fixture(scope="module")
        def server():
            with subprocess.Popen(SLEEPER) as process:
                yield process
                process.kill()

        def test_uses_the_server(server):
            assert server.poll() is None

        async def test_event_loop_with_threads_and_processes(server):
            assert await asyncio.to_thread(lambda: 1) == 1
            process = await asyncio.create_subprocess_exec("true")
            assert await process.wait() == 0

        def test_thread_that_is_just_ending():
            threading.Thread(target=threading.Event().wait, args=(0.05,)).start()
        """,
    )
    assert "3 passed" in result.stdout
    assert result.returncode == 0


@pytest.mark.parametrize(
    ("environment", "closing", "code"),
    [({}, "1 skipped", 0), ({"CI": "true"}, "1 failed", 1)],
    ids=["desk", "ci"],
)
def test_a_missing_real_part_is_loud_and_in_ci_an_error(
    tmp_path: Path, environment: dict[str, str], closing: str, code: int
) -> None:
    assert shutil.which("no-such-tool") is None
    result = run_pytest(
        tmp_path,
        """
        def test_real(require_tool):
            assert require_tool("sh", "dash").endswith("/sh")
            require_tool("no-such-tool", "no-such-package")
        """,
        environment,
    )
    assert "NOT TESTED: no-such-tool is missing; apt-get install no-such-package" in result.stdout
    assert closing in result.stdout.splitlines()[-1]
    assert result.returncode == code


def test_an_exception_in_a_thread_fails_the_test(tmp_path: Path) -> None:
    result = run_pytest(
        tmp_path,
        """
        def test_thread_raises():
            thread = threading.Thread(target=lambda: 1 / 0)
            thread.start()
            thread.join()
        """,
    )
    assert "ZeroDivisionError" in result.stdout
    assert "1 failed" in result.stdout
