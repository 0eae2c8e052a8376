"""Times the tests of `make check` on two cores, and lists in `tests/slow.txt` which take long.

Run it on a quiet machine: `python tools/slow_tests.py`. A test counts as its function, with all of
its parameters.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from tests.fast_loop import SLOW, function_of  # noqa: E402 - found there
from tools import checks  # noqa: E402 - found there

FOLDERS = ("tests/unit", "tests/property", "tests/sim")
SLOW_S = 0.3
RULES = (
    "tests/sim/test_reliability.py",
    "tests/unit/test_contributing.py",
    "tests/unit/test_docstrings.py",
    "tests/unit/test_documents.py",
    "tests/unit/test_edge_defects.py",
    "tests/unit/test_glossary.py",
    "tests/unit/test_tidy.py",
)
"""The rules of the house: whoever breaks one sees it at once."""
RULES_SLOW_S = 8.0
SIMULATION = "tests/sim/test_seeds.py"
"""Never slow: the fast loop runs few of its seeds."""
SHOWN_S = 0.05
"""What pytest tells of: shorter parts are not counted."""
TIMED = re.compile(r"\s*([\d.]+)s (?:call|setup|teardown)\s+(\S+)")


def slow_in(report: Iterable[str]) -> list[str]:
    """Return the functions of a report of pytest's durations that take too long."""
    took_s: defaultdict[str, float] = defaultdict(float)
    for line in report:
        if (found := TIMED.match(line)) is not None:
            took_s[function_of(found.group(2))] += float(found.group(1))
    return sorted(
        name
        for name, seconds in took_s.items()
        if seconds > (RULES_SLOW_S if name.startswith(RULES) else SLOW_S)
        and not name.startswith(SIMULATION)
    )


def main() -> int:
    """Run the tests, and write the list if none fails; return pytest's exit status."""
    timed = ("--durations=0", f"--durations-min={SHOWN_S}", "--color=no", "-q", "-n2")
    command = (sys.executable, "-m", "pytest", *timed, "-m", "not alone")
    left_out = [f"--ignore={each}" for each in checks.NOT_IN_THE_FAST_LOOP]
    done = subprocess.run(
        (*command, *left_out, *FOLDERS),
        check=False,
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "LONGSHORE_SIM_SEEDS": str(checks.QUICK_SEEDS)},
    )
    if done.returncode == 0:
        SLOW.write_text("".join(f"{each}\n" for each in slow_in(done.stdout.splitlines())))
    else:
        sys.stderr.write(done.stdout)
    return done.returncode


if __name__ == "__main__":
    sys.exit(main())
