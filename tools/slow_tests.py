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

from tools import checks  # noqa: E402 - found there

SLOW = ROOT / "tests" / "slow.txt"
SLOW_S = 0.3
NEVER_SLOW = "tests/sim/test_seeds.py"
"""The simulation itself, of which the fast loop runs few seeds."""
SHOWN_S = 0.05
"""What pytest tells of: shorter parts are not counted."""
TIMED = re.compile(r"\s*([\d.]+)s (?:call|setup|teardown)\s+(\S+)")


def slow_in(report: Iterable[str]) -> list[str]:
    """Return the functions of a report of pytest's durations that take longer than `SLOW_S`."""
    took_s: defaultdict[str, float] = defaultdict(float)
    for line in report:
        if (found := TIMED.match(line)) is not None:
            took_s[found.group(2).partition("[")[0]] += float(found.group(1))
    slow = {name for name, seconds in took_s.items() if seconds > SLOW_S}
    return sorted(name for name in slow if not name.startswith(NEVER_SLOW))


def main() -> int:
    """Run the tests, and write the list if none fails; return pytest's exit status."""
    timed = ("--durations=0", f"--durations-min={SHOWN_S}", "--color=no", "-q", "-n2")
    command = (sys.executable, "-m", "pytest", *timed, "-m", "not alone")
    left_out = [f"--ignore={each}" for each in checks.NOT_IN_THE_FAST_LOOP]
    done = subprocess.run(
        (*command, *left_out, "tests/unit", "tests/property", "tests/sim"),
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
