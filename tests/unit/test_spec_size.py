"""How much memory what waits is taken to need."""

from __future__ import annotations

from dispatcher.model import Dependency
from dispatcher.spec_size import QueuedMemory, own_bytes, spec_bytes
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
