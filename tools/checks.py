"""Runs the checks of `make check`, `test`, `proofs`, `sim` or `bench`; says how they went.

Every step runs, also after one has failed, so that one run tells all that is wrong. Output passes
through as it comes; the summary repeats what each test run said of itself.
"""

from __future__ import annotations

import argparse
import math
import os
import re
import selectors
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO

ROOT = Path(__file__).resolve().parent.parent
BIN = Path(sys.executable).parent
FOLDERS = ("longshore", "tests", "tools", "benchmarks")
TIME_LIMIT_S = {
    "check": 400.0,
    "test": 2700.0,
    "proofs": 3600.0,
    "sim": 86400.0,
    "bench": 1800.0,
}
SIMULATED_SEEDS = 2000
EDGES_S = 800.0
CHAOS_SEEDS = 1000
WHOLE_S = 600.0
SCHEMA_S = 90.0
QUICK_SEEDS = 10
"""How many seeds the fast loop simulates; `make test` and `make proofs` have more: `sized`."""

NOT_IN_THE_FAST_LOOP = ("tests/sim/test_chaos.py", "tests/sim/test_mutants.py")
GRACE_S = 15.0
TAIL_BYTES = 65536

NO_TESTS_COLLECTED = 5
TESTS_FAILED = 1
MOST_TRIED_AGAIN = 5
CLOSING_LINE = re.compile(r"^=+ (.*\bin [\d.]+s.*?) =+$")
COUNTS = re.compile(r"\b(\d+) (?:failed|errors?)\b")
ESCAPES = re.compile(r"\x1b\[[0-9;]*m")


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One program to run; `may_be_empty` is for a test run that need not find a test.

    `again` runs what failed in it once more, () where that is not to be. `needs_s` is how long it
    takes on a quiet machine: with less time left it is not begun.
    """

    name: str
    command: tuple[str, ...]
    may_be_empty: bool = False
    again: tuple[str, ...] = ()
    needs_s: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """How a step ended; `remark` is a test run's closing line, or why the step was ended.

    `code` is its exit status, None when it was ended; an `unsteady` one passed the second time, one
    that was `left_out` did not begin.
    """

    step: Step
    passed: bool
    took_s: float
    remark: str
    code: int | None = None
    unsteady: bool = False
    left_out: bool = False

    @property
    def failures(self) -> int:
        """Return how many tests failed, as the closing line says."""
        return sum(int(number) for number in COUNTS.findall(self.remark))


def python_folders() -> list[str]:
    """Return the folders that hold Python here: a new checkout may lack some."""
    return [name for name in FOLDERS if any(ROOT.joinpath(name).rglob("*.py"))]


def static_steps() -> list[Step]:
    """Return the steps that read the code without running it."""
    ruff, folders = str(BIN / "ruff"), python_folders()
    return [
        Step(name="ruff check", command=(ruff, "check", ".")),
        Step(name="ruff format", command=(ruff, "format", "--check", ".")),
        Step(name="mypy", command=(str(BIN / "mypy"), *folders)),
        Step(name="import layers", command=(str(BIN / "lint-imports"),)),
        Step(name="dashboard", command=(sys.executable, "tools/web_bundle.py", "--types")),
    ]


def pytest_command(*arguments: str) -> tuple[str, ...]:
    """Return a command that runs pytest, coloured when a person is watching."""
    color = "--color=yes" if sys.stdout.isatty() else "--color=no"
    return (sys.executable, "-m", "pytest", color, *arguments)


def steps_of_sim(seeds: int, jobs: int) -> list[Step]:
    """Return the steps of `make sim`: random faults, then the chaos scenario."""
    simulation = (sys.executable, "-m", "tests.sim.run", f"--seeds={seeds}", f"--jobs={jobs}")
    chaos = pytest_command(f"-n{jobs}", "tests/sim/test_chaos.py")
    return [
        Step(name="simulation", command=simulation),
        Step(name="chaos", command=("env", f"LONGSHORE_CHAOS_SEEDS={CHAOS_SEEDS}", *chaos)),
    ]


def steps_of_proofs() -> list[Step]:
    """Return the steps of `make proofs`: what is too long for `make test`."""
    edges = (sys.executable, "-m", "tests.edges.run")
    whole = (
        "env",
        "LONGSHORE_WHOLE=1",
        *pytest_command("-n2", *files_with("tests.sizes import sized")),
    )
    schema = (sys.executable, "-m", "tests.schema.run")
    return [
        Step(name="requests made from the OpenAPI document", command=schema, needs_s=SCHEMA_S),
        Step(name="planted defects in the core, and whole", command=whole, needs_s=WHOLE_S),
        Step(name="planted defects at the edges", command=edges, needs_s=EDGES_S),
    ]


def steps_of(kind: str) -> list[Step]:
    """Return the steps of `make KIND`, but for `make sim`."""
    if kind == "proofs":
        return steps_of_proofs()
    if kind == "bench":
        scripts = sorted(ROOT.joinpath("benchmarks").glob("[!_]*.py"))
        return [Step(name=each.stem, command=(sys.executable, str(each))) for each in scripts]
    if kind == "check":
        left_out = [f"--ignore={each}" for each in NOT_IN_THE_FAST_LOOP]
        fast = ("env", "LONGSHORE_FAST_LOOP=1", f"LONGSHORE_SIM_SEEDS={QUICK_SEEDS}")
        quick = pytest_command("-n2", "-m", "not alone", "tests/unit", "tests/property")
        simulated = (*fast, *pytest_command("-n2", *left_out, "tests/sim"))
        return [
            *static_steps(),
            Step(name="unit and property tests", command=(*fast, *quick)),
            Step(name="simulation", command=simulated),
        ]
    alone = files_with("pytest.mark.alone")
    return [
        *static_steps(),
        step_of_tests("tests that run alone", "-m", "alone", *alone, may_be_empty=True),
        # Many of these wait for processes, sessions and timeouts: two cpus serve six of them.
        # Who has run out of tests takes some of the others': without that one is left with the
        # slow ones at the end.
        step_of_tests("all other tests", "-n6", "--dist=worksteal", "-m", "not alone", "tests"),
    ]


def files_with(text: str) -> list[str]:
    """Return the files of tests that have this text: it takes long to collect all of them."""
    files = sorted(ROOT.joinpath("tests").rglob("test_*.py"))
    with_it = [each for each in files if text in each.read_text("utf-8")]
    return [str(each.relative_to(ROOT)) for each in with_it]


def step_of_tests(name: str, *arguments: str, may_be_empty: bool = False) -> Step:
    """Return a run of tests of which a few may be tried again; it remembers its own failures."""
    memory = f"cache_dir=.pytest_cache/{name.replace(' ', '-')}"
    return Step(
        name=name,
        command=pytest_command("-o", memory, "--cache-clear", *arguments),
        may_be_empty=may_be_empty,
        again=pytest_command("-o", memory, "--last-failed", "tests"),
    )


def environment() -> dict[str, str]:
    """Return ours, but for what keeps Python from remembering what it has compiled.

    Images of containers often have that set. The tests start thousands of processes: they would
    spend a third of their time on compiling the same files again.
    """
    return {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}


def run(step: Step, deadline: float) -> Result:
    """Run one step in a process group of its own, to its end or to `deadline`."""
    print(f"\n--- {step.name}: {shlex.join(step.command)}", flush=True)
    began = time.monotonic()
    with subprocess.Popen(
        step.command,
        cwd=ROOT,
        env=environment(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    ) as process:
        assert process.stdout is not None  # noqa: S101 - tells mypy what PIPE means
        try:
            tail, in_time = pass_through(process.stdout, deadline)
        except KeyboardInterrupt:
            end_group(process)
            raise
        if not in_time:
            end_group(process)
        code = process.wait()
    return Result(
        step=step,
        passed=in_time and (code == 0 or (step.may_be_empty and code == NO_TESTS_COLLECTED)),
        took_s=time.monotonic() - began,
        remark=closing_line(tail) if in_time else "ended: the time limit was reached",
        code=code if in_time else None,
    )


def run_twice(step: Step, deadline: float) -> Result:
    """Run one step if there is time, and once more what failed in it, if that is little."""
    left_s = deadline - time.monotonic()
    if step.needs_s > left_s:
        remark = f"left out: it takes {step.needs_s:.0f} s, and {max(0.0, left_s):.0f} s are left"
        return Result(step=step, passed=True, took_s=0.0, remark=remark, left_out=True)
    first = run(step, deadline)
    little = 1 <= first.failures <= MOST_TRIED_AGAIN
    if not step.again or first.code != TESTS_FAILED or not little:
        return first
    second = run(Step(name=f"what failed of: {step.name}", command=step.again), deadline)
    if not second.passed:
        return first
    remark = f"{first.remark}; alone: {second.remark}"
    return replace(first, passed=True, unsteady=True, remark=remark)


def pass_through(output: IO[bytes], deadline: float) -> tuple[str, bool]:
    """Copy `output` to ours until its end; return the last of it, and False at `deadline`."""
    tail = b""
    with selectors.DefaultSelector() as selector:
        selector.register(output, selectors.EVENT_READ)
        while selector.select(max(0.0, deadline - time.monotonic())):
            data = os.read(output.fileno(), 65536)
            if not data:
                return tail.decode(errors="replace"), True
            sys.stdout.buffer.write(data)
            sys.stdout.buffer.flush()
            tail = (tail + data)[-TAIL_BYTES:]
    return tail.decode(errors="replace"), False


def end_group(process: subprocess.Popen[bytes]) -> None:
    """Interrupt a step as Ctrl-C would, and kill its group when that does not help in time."""
    os.killpg(process.pid, signal.SIGINT)
    try:
        process.wait(GRACE_S)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)


def closing_line(output: str) -> str:
    """Return what pytest said last of its run ("12 passed in 0.30s"), or ""."""
    for line in reversed(ESCAPES.sub("", output).splitlines()):
        match = CLOSING_LINE.match(line.strip())
        if match:
            return match[1]
    return ""


def print_summary(kind: str, results: Sequence[Result]) -> None:
    """Print one line a step and one verdict."""
    print(f"\n=== make {kind} ===")
    width = max(len(result.step.name) for result in results)
    for result in results:
        word, took_s = word_for(result), result.took_s
        print(f"{word:<8}  {result.step.name:<{width}}  {took_s:7.1f} s  {result.remark}")
    failed = [result.step for result in results if not result.passed]
    total_s = sum(result.took_s for result in results)
    if failed:
        print(f"\n{len(failed)} of {len(results)} steps FAILED after {total_s:.0f} s; again alone:")
        for step in failed:
            print(f"  {shlex.join(step.command)}")
        return
    left_out = [result.step.name for result in results if result.left_out]
    if left_out:
        print(f"\nFor want of time this was LEFT OUT: {', '.join(left_out)}")
    ran = len(results) - len(left_out)
    print(f"\nAll {ran} steps that ran passed in {total_s:.0f} s.")


def word_for(result: Result) -> str:
    """Return how a step ended, in a word."""
    if result.left_out:
        return "left out"
    return "unsteady" if result.unsteady else "ok" if result.passed else "FAILED"


def at_least_one(text: str) -> int:
    """Return a whole number from 1; raises `ValueError` for any other text."""
    if (number := int(text)) < 1:
        raise ValueError(text)
    return number


def main(arguments: Sequence[str]) -> int:
    """Run the steps of one kind; return 0 when all passed, 1 when not, 130 when interrupted."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("kind", choices=sorted(TIME_LIMIT_S))
    of_sim = parser.add_argument_group("sim")
    of_sim.add_argument("--seeds", type=at_least_one, default=SIMULATED_SEEDS)
    of_sim.add_argument("--jobs", type=at_least_one, default=os.cpu_count() or 1)
    parser.add_argument("--within-s", type=float, default=math.inf, help="leave out what is longer")
    given = parser.parse_args(arguments)
    kind = given.kind
    steps = steps_of_sim(given.seeds, given.jobs) if kind == "sim" else steps_of(kind)
    deadline = time.monotonic() + min(given.within_s, TIME_LIMIT_S[kind])
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # so that a step never outlives us
    results: list[Result] = []
    try:
        for step in steps:
            results.append(run_twice(step, deadline))  # noqa: PERF401 - an interruption keeps the rest
    except KeyboardInterrupt:
        print("\ninterrupted")
        return 130
    if not results:
        print(f"make {kind}: there is nothing to run")
        return 1
    print_summary(kind, results)
    return 0 if all(result.passed for result in results) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
