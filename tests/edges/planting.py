"""Plants a defect in a copy of the sources and runs there the one test that must catch it.

A copy, and not a patched module, since what is tested here are edges: the runner's zipapp is built
from the files of `pool/runner`, and servers, runners and keepers are processes of their own. All
of them find the copy, as it is the directory that they start in and the first on `PYTHONPATH`.
Files that are not changed are hard links, so that a copy costs milliseconds; what Python compiled
where it was copied from is linked, too, and a copy without a defect is where the others get that.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from tests.edges.defect import EdgeDefect

ROOT = Path(__file__).resolve().parents[2]
TIME_LIMIT_S = 120.0
TEST_TIME_LIMIT_S = 20
"""What a defect makes wait is caught by this; sound, hardly a test takes a quarter of it."""
SOUND_TIME_LIMIT_S = 60
LEAK_GRACE_S = 1.5
"""What a failed test leaves behind is waited for so long, not the 5 s of a run that is to pass."""
TAIL_CHARS = 2000

# What no test reads, or what belongs to one run of this tree and not to another.
_LEFT_OUT = shutil.ignore_patterns(
    ".git", ".venv", ".*_cache", ".hypothesis", "build", "dist", "worktrees"
)


class Fate(Enum):
    """What became of a defect."""

    CAUGHT = "caught"
    MISSED = "MISSED"
    NOT_TRIED = "NOT TRIED"
    """The test could not be collected, found or ended: that says nothing about the guard."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """How the test of a defect went; `said` is the end of what pytest printed."""

    defect: EdgeDefect
    fate: Fate
    took_s: float
    said: str


class NotPlantableError(Exception):
    """The text of a defect does not stand exactly once in its file."""


def changed_source(defect: EdgeDefect, root: Path = ROOT) -> str:
    """Return the source of the defect's file with the defect in it."""
    source = (root / defect.file).read_text("utf-8")
    found = source.count(defect.old)
    if found != 1:
        raise NotPlantableError(f"{defect.name}: its text stands {found} times in {defect.file}")
    return source.replace(defect.old, defect.new)


@contextmanager
def copied_tree(defect: EdgeDefect | None, *, of: Path = ROOT) -> Iterator[Path]:
    """Make a copy of a tree, with a defect in it if one is given, for as long as it is used."""
    with tempfile.TemporaryDirectory(prefix="longshore-edge-") as parent:
        tree = Path(parent) / "tree"
        shutil.copytree(of, tree, symlinks=True, ignore=_LEFT_OUT, copy_function=_link)
        if defect is not None:
            # Read before it is unlinked: the original must never be written through its link.
            source = changed_source(defect)
            target = tree / defect.file
            target.unlink()
            target.write_text(source, "utf-8")
        yield tree


def try_defect(defect: EdgeDefect, *, of: Path = ROOT) -> Verdict:
    """Return whether the test of `defect` fails when it is planted in a copy of a tree."""
    began = time.monotonic()
    with copied_tree(defect, of=of) as tree:
        grace = {"LONGSHORE_LEAK_GRACE_S": f"{LEAK_GRACE_S:g}"}
        code, said = run_tests(tree, [defect.test], limit_s=TEST_TIME_LIMIT_S, variables=grace)
    match code:
        case 1:
            fate = Fate.CAUGHT
        case 0:
            fate = Fate.MISSED
        case _:
            fate = Fate.NOT_TRIED
    return Verdict(defect=defect, fate=fate, took_s=time.monotonic() - began, said=said)


def try_all(defects: Sequence[EdgeDefect], *, at_once: int, of: Path = ROOT) -> Iterator[Verdict]:
    """Yield a verdict for each of `defects`, in their order."""
    with ThreadPoolExecutor(at_once) as executor:
        yield from executor.map(lambda each: try_defect(each, of=of), defects)


def run_tests(
    tree: Path, tests: Sequence[str], *, limit_s: int, variables: Mapping[str, str] | None = None
) -> tuple[int | None, str]:
    """Run tests in a tree; return pytest's exit code, None out of time, and what it said last.

    Each may take `limit_s`; `variables` come into its environment, None for no more than there are.
    """
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-x",
        "-q",
        "-p",
        "no:cacheprovider",
        "-p",
        "no:xdist",
    ]
    command += [f"--timeout={limit_s}", "--color=no", *tests]
    return run_in(tree, command, TIME_LIMIT_S * len(tests), variables)


def run_in(
    tree: Path, command: Sequence[str], limit_s: float, variables: Mapping[str, str] | None = None
) -> tuple[int | None, str]:
    """Run a command in a tree; return its exit code, None out of time, and what it said last."""
    with subprocess.Popen(
        command,
        cwd=tree,
        env=_environment(tree) | dict(variables or {}),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    ) as process:
        try:
            output, _ = process.communicate(timeout=limit_s)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            output, _ = process.communicate()
            return None, output.decode(errors="replace")[-TAIL_CHARS:]
        except BaseException:
            os.killpg(process.pid, signal.SIGKILL)
            raise
    return process.returncode, output.decode(errors="replace")[-TAIL_CHARS:]


def _environment(tree: Path) -> dict[str, str]:
    """Return ours without what pytest and the suite around us say of themselves."""
    ours = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("PYTEST_", "LONGSHORE_", "COV_", "PYTHONDONTWRITE"))
    }
    return ours | {"PYTHONPATH": str(tree)}


def _link(source: str, target: str) -> None:
    """Link a file, or copy it to another file system."""
    try:
        os.link(source, target, follow_symlinks=False)
    except OSError:
        shutil.copy2(source, target, follow_symlinks=False)
