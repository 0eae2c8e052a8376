"""How long the listings of a store with a million finished containers take, and what writing costs.

Two halves of the containers share no user, project, name or state, so that any two filters of
different halves find nothing, which is the hardest question: a walk of what one of them finds would
take as long as that is large. Each pair of filters is asked for; so are those of jobs. Then some
containers are inserted and go their way, which shows what the indexes cost. Exits with 1 where a
page takes longer than `--most-ms`.

    python benchmarks/store_listings.py [--containers 1000000] [--jobs 200000] [--store PATH]
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import combinations
from pathlib import Path
from typing import Any

from sqlalchemy import insert

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from longshore.dispatcher.domain.containers import ContainerState
from longshore.dispatcher.domain.jobs import JobState
from longshore.dispatcher.domain.messages import InsertContainers, SaveAttempt, SaveContainer
from longshore.dispatcher.domain.queries import ContainerFilter, JobFilter
from longshore.dispatcher.store import codec, job_codec, sqlite, tables
from longshore.dispatcher.store.store import Store
from tests.store_values import SPEC, attempt, container, job, task

AT_ONCE = 10_000
HALVES: tuple[dict[str, Any], ...] = (
    {"user": "ann", "project": "apollo", "name": "train", "state": "succeeded"},
    {"user": "bob", "project": "zeus", "name": "eval", "state": "failed"},
)


def filled(path: Path, containers: int, jobs: int) -> None:
    """Put finished containers and jobs into an empty store, half of them of each kind."""
    Store.open(f"sqlite:///{path}").close()
    engine = sqlite.writing_engine(path)
    for first in range(1, containers + 1, AT_ONCE):
        rows = [_container_row(n) for n in range(first, min(first + AT_ONCE, containers + 1))]
        with engine.begin() as connection:
            connection.execute(insert(tables.containers), rows)
    for first in range(1, jobs + 1, AT_ONCE):
        rows = [_job_row(n) for n in range(first, min(first + AT_ONCE, jobs + 1))]
        with engine.begin() as connection:
            connection.execute(insert(tables.jobs), rows)
    engine.dispose()


def _container_row(number: int) -> codec.Values:
    half = HALVES[number % 2]
    made = container(
        number,
        user=half["user"],
        project=half["project"],
        spec=replace(SPEC, name=half["name"]),
        state=ContainerState(half["state"]),
    )
    return codec.container_values(made)


def _job_row(number: int) -> codec.Values:
    half = HALVES[number % 2]
    made = job(
        number,
        task(),
        user=half["user"],
        project=half["project"],
        name=half["name"],
        state=JobState(half["state"]),
        # What is ann's are runs, and what is bob's are none.
        parent="j-1" if number % 2 == 0 else "",
    )
    return job_codec.job_values(made)


def pairs_that_do_not_meet() -> Iterator[dict[str, Any]]:
    """Yield two filters each, of different halves."""
    ann, bob = HALVES
    for one, other in combinations(ann, 2):
        yield {one: ann[one], other: bob[other]}


def asked_ms(ask: Callable[[], object]) -> float:
    """Return how many milliseconds the fastest of three takes."""
    taken = []
    for _ in range(3):
        began = time.perf_counter()
        ask()
        taken.append(1000 * (time.perf_counter() - began))
    return min(taken)


def listings(store: Store) -> dict[str, float]:
    """Return how many milliseconds each question takes."""
    found = {}

    def ask(told: str, question: Callable[..., object], which: ContainerFilter | JobFilter) -> None:
        found[told] = asked_ms(lambda: question(which, cursor="", limit=100))

    for pair in pairs_that_do_not_meet():
        told = " x ".join(f"{key}={value}" for key, value in pair.items())
        state = pair.pop("state", None)
        container_states = (ContainerState(state),) if state else ()
        job_states = (JobState(state),) if state else ()
        ask(
            f"containers {told}", store.containers, ContainerFilter(states=container_states, **pair)
        )
        ask(f"jobs {told}", store.jobs, JobFilter(states=job_states, **pair))
    for key in ("user", "project", "name"):
        run = JobFilter(parent="j-1", **{key: HALVES[1][key]})
        ask(f"jobs parent=j-1 x {key}", store.jobs, run)
        own = JobFilter(own=True, **{key: HALVES[0][key]})
        ask(f"jobs own x {key}", store.jobs, own)
    return found


def written_s(store: Store, first: int, number: int) -> float:
    """Return how many seconds it takes to write the lives of so many containers, one group each."""
    new = [container(n) for n in range(first, first + number)]
    tried = [attempt(each) for each in new]
    began = time.perf_counter()
    store.write([InsertContainers(containers=tuple(new), user="ann")]).result(600)
    for state in (ContainerState.LOCKED, ContainerState.RUNNING, ContainerState.SUCCEEDED):
        saved = [SaveContainer(container=replace(each, state=state)) for each in new]
        store.write([*saved, *(SaveAttempt(attempt=each) for each in tried)]).result(600)
    return time.perf_counter() - began


def main() -> int:
    """Measure, print, and return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--containers", type=int, default=1_000_000)
    parser.add_argument("--jobs", type=int, default=200_000)
    parser.add_argument("--store", type=Path, help="keep it here, or take what is here already")
    parser.add_argument("--lives", type=int, default=10_000)
    parser.add_argument("--most-ms", type=float, default=20.0)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        path = given.store or Path(directory) / "longshore.db"
        if not path.exists():
            began = time.perf_counter()
            filled(path, given.containers, given.jobs)
            print(f"filled in {time.perf_counter() - began:.1f} s")
        print(f"{path.stat().st_size / 1e6:.0f} MB")
        began = time.perf_counter()
        store = Store.open(f"sqlite:///{path}")
        print(f"opened in {time.perf_counter() - began:.2f} s")
        try:
            found = listings(store)
            for told, took_ms in found.items():
                print(f"{took_ms:10.2f} ms  {told}")
            first = store.next_sequences(given.lives)[0]
            taken_s = written_s(store, first, given.lives)
            print(f"{1e6 * taken_s / given.lives:.0f} µs to write a container's life")
        finally:
            store.close()
    return int(max(found.values()) > given.most_ms)


if __name__ == "__main__":
    sys.exit(main())
