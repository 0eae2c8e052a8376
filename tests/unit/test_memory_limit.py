"""How much memory what waits is taken to need."""

from __future__ import annotations

import gc
import tracemalloc
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import msgspec
import pytest

from longshore.dispatcher.domain.containers import Dependency
from longshore.dispatcher.state.job_registry import JobRegistry
from longshore.dispatcher.state.memory_limit import QueuedMemory, own_bytes, spec_bytes
from tests.rigs.engine import Rig
from tests.rigs.periodic import DAY, HOURLY, make_template
from tests.samples import make_container


def test_the_elements_of_an_array_share_one_specification() -> None:
    spec = make_container(1, after=(Dependency(of="c-1"),) * 10).spec
    memory = QueuedMemory()
    for _ in range(1000):
        memory.add(spec)
    assert memory.total_bytes == 1000 * own_bytes(spec) + spec_bytes(spec)
    for _ in range(999):
        memory.remove(spec)
    assert memory.total_bytes == own_bytes(spec) + spec_bytes(spec)
    memory.remove(spec)
    assert memory.total_bytes == 0


def test_equal_specifications_of_several_requests_count_each() -> None:
    memory = QueuedMemory()
    specs = [make_container(1).spec, make_container(1).spec]
    for spec in specs:
        memory.add(spec)
    assert memory.total_bytes == 2 * (own_bytes(specs[0]) + spec_bytes(specs[0]))


def test_what_is_waited_for_counts() -> None:
    plain, waiting = make_container(1).spec, make_container(1, after=(Dependency(of="c-1"),)).spec
    assert spec_bytes(waiting) > spec_bytes(plain)
    assert own_bytes(waiting) > own_bytes(plain), "each waits on its own"


def fresh(value: Any) -> Any:
    """Return a value as the API gets it: each string of it is one of its own."""
    return msgspec.json.decode(msgspec.json.encode(value))


def pairs(number: int) -> tuple[tuple[str, str], ...]:
    return tuple((name, value) for name, value in fresh([[f"A{i}", "x"] for i in range(number)]))


SHAPES: dict[str, Callable[[], dict[str, Any]]] = {
    "plain": dict,
    "short arguments": lambda: {"command": tuple(fresh(["a"] * 2000))},
    "letters of four bytes": lambda: {"command": tuple(fresh(["\U0001f600" * 3000]))},
    "letters of two bytes": lambda: {"command": tuple(fresh(["\u0416" * 3000]))},
    "one long argument": lambda: {"command": tuple(fresh(["x" * 50_000]))},
    "environment": lambda: {"env": pairs(1000)},
    "labels": lambda: {"labels": pairs(64)},
    "dependencies": lambda: {"after": tuple(Dependency(of=f"c-{i}x") for i in range(50))},
}


def admitted(rig: Rig, fields: dict[str, Any], number: int) -> int:
    """Let a container wait, and return what is counted for it."""
    container = make_container(number)
    spec = replace(container.spec, **fields)
    rig.engine.table.admit(replace(container, spec=spec))
    return own_bytes(spec) + spec_bytes(spec)


@pytest.mark.parametrize("shape", SHAPES)
def test_what_is_counted_is_what_it_takes(shape: str) -> None:
    rig, number = Rig(), 300
    gc.collect()
    tracemalloc.start()
    before, _ = tracemalloc.get_traced_memory()
    counted = sum(admitted(rig, SHAPES[shape](), index) for index in range(1, number + 1))
    gc.collect()
    taken = tracemalloc.get_traced_memory()[0] - before
    tracemalloc.stop()
    assert taken <= counted <= 4 * taken, f"{shape}: {taken / number:.0f} bytes each"


def test_the_specifications_of_templates_count_as_long_as_these_are_there() -> None:
    template = make_template(1, HOURLY, created=f"{DAY} 09:30")
    (task,) = template.tasks
    registry = JobRegistry()
    registry.admit(template)
    assert registry.templates_bytes == spec_bytes(task.spec)
    longer = replace(task, spec=replace(task.spec, command=("x" * 5000,)))
    registry.revise(replace(template, tasks=(longer,)))
    assert registry.templates_bytes == spec_bytes(longer.spec)
    registry.cancel(template.id)
    registry.drain_changes(template.created_at + 1)
    assert template.id not in registry
    assert registry.templates_bytes == 0
