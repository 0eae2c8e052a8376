"""Circles among those who wait for each other, against a look at every path there is."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from longshore.dispatcher.api.validate.cycles import find_cycles

GRAPHS = st.integers(1, 8).flatmap(
    lambda size: st.lists(
        st.lists(st.integers(0, size - 1), max_size=4, unique=True), min_size=size, max_size=size
    )
)


def reachable(graph: list[list[int]], start: int) -> set[int]:
    found: set[int] = set()
    fresh = [start]
    while fresh:
        for each in graph[fresh.pop()]:
            if each not in found:
                found.add(each)
                fresh.append(each)
    return found


@settings(max_examples=400)
@given(graph=GRAPHS)
def test_circles_are_true_and_none_is_overlooked(graph: list[list[int]]) -> None:
    cycles = list(find_cycles(graph))
    for cycle in cycles:
        assert len(set(cycle)) == len(cycle)
        for one, other in zip(cycle, (*cycle[1:], cycle[0]), strict=True):
            assert other in graph[one]
    can_reach = [reachable(graph, number) for number in range(len(graph))]
    told = {number for cycle in cycles for number in cycle}
    for number in range(len(graph)):
        if number in can_reach[number]:
            # All that reach each other make one knot, of which something is told.
            knot = {each for each in can_reach[number] if number in can_reach[each]}
            assert knot & told
    assert not told - {number for number in range(len(graph)) if number in can_reach[number]}


@settings(max_examples=200)
@given(graph=GRAPHS)
def test_no_circle_is_told_twice(graph: list[list[int]]) -> None:
    cycles = list(find_cycles(graph))
    closing = [(cycle[-1], cycle[0]) for cycle in cycles]
    assert len(set(closing)) == len(closing)
    assert len(cycles) <= len(graph)
