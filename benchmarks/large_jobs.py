"""How long a large array and a workflow take from end to end, and whether they ran as they must.

A real `longshore serve` runs them as processes of this machine: an array, of which some are under
way at once, and a workflow as one job, by default of 1,000 tasks in layers; or the tasks of a
recorded run (WfFormat 1.5 of WfCommons, .json or .json.gz), each of which does nothing. Looks at
every container: all succeeded, nobody started before all that it waits for had ended, never more at
once than allowed. Exits with 1 where that is not so.

    python benchmarks/large_jobs.py [--array 10000] [--workflow PATH]
"""

from __future__ import annotations

import argparse
import gzip
import json
import sys
import tempfile
import time
from itertools import accumulate
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from tests.dispatcher_process import DispatcherProcess

CONFIG: dict[str, Any] = {
    "driver": {"name": "loopback"},
    "instance_types": {
        "here": {"provider_type": "this", "cpus": 64, "memory": "256GiB", "price_per_hour": 0}
    },
    "engine": {"name": "process"},
}
AT_ONCE = 32
PATIENCE_S = 3600.0
SMALL = {"command": ["true"], "cpus": 1, "memory": "64MiB"}
LAYERS, WIDTH = 10, 100


def layered() -> list[dict[str, Any]]:
    """Return the tasks of a workflow of ten layers of a hundred, each after three of the last."""
    tasks = []
    for layer in range(LAYERS):
        for place in range(WIDTH):
            before = (f"t-{layer - 1}-{(place + step) % WIDTH}" for step in (0, 1, 7))
            after = list(before) if layer else []
            tasks.append({**SMALL, "name": f"t-{layer}-{place}", "after": after})
    return tasks


def recorded(path: Path) -> list[dict[str, Any]]:
    """Return the tasks of a recorded run."""
    text = path.read_bytes()
    text = gzip.decompress(text) if path.suffix == ".gz" else text
    listed = json.loads(text)["workflow"]["specification"]["tasks"]
    return [{**SMALL, "name": each["id"], "after": each["parents"]} for each in listed]


def run(server: DispatcherProcess, name: str, tasks: list[dict[str, Any]]) -> dict[str, Any]:
    """Run one job to its end and return it, with `took_s`."""
    begin = time.perf_counter()
    job: dict[str, Any] = server.call("POST", "/v1/jobs", {"name": name, "tasks": tasks})
    accepted_s = time.perf_counter() - begin
    while job["state"] not in ("succeeded", "failed", "cancelled"):
        if time.perf_counter() - begin > PATIENCE_S:
            sys.exit(f"{name} is {job['state']} after {PATIENCE_S:g} s: {job['counts']}")
        time.sleep(0.25)
        job = server.call("GET", f"/v1/jobs/{job['id']}")
    return {**job, "accepted_s": accepted_s, "took_s": time.perf_counter() - begin}


def containers(server: DispatcherProcess, job_id: str) -> list[dict[str, Any]]:
    """Return all containers of a job."""
    found: list[dict[str, Any]] = []
    cursor = ""
    while True:
        page = server.call("GET", f"/v1/containers?job={job_id}&limit=1000&cursor={cursor}")
        found += page["items"]
        if page["next_cursor"] is None:
            return found
        cursor = page["next_cursor"]


def wrong_in_array(ran: list[dict[str, Any]]) -> list[str]:
    """Return what was not as it must be of an array."""
    steps = [(each["started_at"], 1) for each in ran] + [(each["finished_at"], -1) for each in ran]
    most = max(accumulate(step for _, step in sorted(steps)))
    wrong = [f"{most} were under way at once"] if most > AT_ONCE else []
    if sorted(each["array_index"] for each in ran) != list(range(len(ran))):
        wrong.append("not each element ran once")
    return wrong


def wrong_in_workflow(ran: list[dict[str, Any]], tasks: list[dict[str, Any]]) -> list[str]:
    """Return who started before what it waits for had ended."""
    of_task = {each["task"]: each for each in ran}
    return [
        f"{task['name']} did not wait for {name}"
        for task in tasks
        for name in task.get("after", ())
        if of_task[name]["finished_at"] > of_task[task["name"]]["started_at"]
    ]


def show(job: dict[str, Any], wrong: list[str]) -> bool:
    """Print one line, and what is wrong; return whether nothing is."""
    counts = job["counts"]
    if counts["succeeded"] != counts["total"]:
        wrong = [f"{job['state']}: {counts}", *wrong]
    rate = counts["total"] / job["took_s"]
    print(
        f"{job['name']:>10}  {counts['total']:>7} containers  accepted {job['accepted_s']:6.2f} s"
        f"  took {job['took_s']:7.1f} s  {rate:6.1f} a second"
    )
    for each in wrong[:20]:
        print(f"  WRONG: {each}")
    return not wrong


def main() -> int:
    """Run both and print; exit 1 when something is not as it must be."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--array", type=int, default=10_000, help="how many elements")
    parser.add_argument("--workflow", type=Path, help="a recorded run instead of layers")
    options = parser.parse_args()
    tasks = layered() if options.workflow is None else recorded(options.workflow)
    with (
        tempfile.TemporaryDirectory(prefix="longshore-bench-") as directory,
        DispatcherProcess(Path(directory), CONFIG, is_measured=True) as server,
    ):
        array = {**SMALL, "array": {"size": options.array, "max_running": AT_ONCE}}
        first = run(server, "array", [array])
        fine = show(first, wrong_in_array(containers(server, first["id"])))
        second = run(server, "workflow", tasks)
        ran = containers(server, second["id"])
        return 0 if show(second, wrong_in_workflow(ran, tasks)) and fine else 1


if __name__ == "__main__":
    sys.exit(main())
