"""What a planted defect of an edge is: a guard taken out, and the test that must fail for it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class EdgeDefect:
    """One guard that is missing.

    In `file`, relative to the root of the repository, `old` stands exactly once, and `new` takes
    its place. `test` is the node id of the nearest test that fails then.
    """

    name: str
    guard: str
    file: str
    old: str
    new: str
    test: str
