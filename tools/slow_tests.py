"""Times the tests of `make check` on two cores, and lists in `tests/slow.txt` which take long.

Run it on a quiet machine: `python tools/slow_tests.py`. A test counts as its function, with all of
its parameters.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SLOW = ROOT / "tests" / "slow.txt"
SLOW_S = 0.5
SHOWN_S = 0.05
"""What pytest tells of: shorter parts are not counted."""
TIMED = re.compile(r"\s*([\d.]+)s (?:call|setup|teardown)\s+(\S+)")


def slow_in(report: Iterable[str]) -> list[str]:
    """Return the functions of a report of pytest's durations that take longer than `SLOW_S`."""
    took_s: defaultdict[str, float] = defaultdict(float)
    for line in report:
        if (found := TIMED.match(line)) is not None:
            took_s[found.group(2).partition("[")[0]] += float(found.group(1))
    return sorted(name for name, seconds in took_s.items() if seconds > SLOW_S)


def main() -> int:
    """Run the tests, and write the list if none fails; return pytest's exit status."""
    timed = ("--durations=0", f"--durations-min={SHOWN_S}", "--color=no", "-q", "-n2")
    command = (sys.executable, "-m", "pytest", *timed, "-m", "not alone")
    done = subprocess.run(
        (*command, "tests/unit", "tests/property"),
        check=False,
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
    )
    if done.returncode == 0:
        SLOW.write_text("".join(f"{each}\n" for each in slow_in(done.stdout.splitlines())))
    else:
        sys.stderr.write(done.stdout)
    return done.returncode


if __name__ == "__main__":
    sys.exit(main())
