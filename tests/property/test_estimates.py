"""An estimate is never 0, and its median never above its 90th percentile."""

from __future__ import annotations

from decimal import Decimal

from hypothesis import given
from hypothesis import strategies as st

from longshore.dispatcher.cost.estimate import (
    ENOUGH_RUNS,
    AtMost,
    Ceiling,
    FromRuns,
    NoCeiling,
    PastRuns,
    Unknown,
    Work,
    basis,
    estimate,
)

COSTS = st.integers(1, 10**16).map(lambda steps: Decimal(steps).scaleb(-12))
PASTS = st.one_of(
    st.just(PastRuns()),
    st.lists(COSTS, min_size=ENOUGH_RUNS - 1, max_size=ENOUGH_RUNS + 3).map(
        lambda costs: PastRuns(costs_usd=tuple(costs), since=1.0)
    ),
)
BOUNDS = st.one_of(
    st.just(NoCeiling(why="set time_limit_s")),
    st.builds(
        Ceiling,
        time_limit_s=st.floats(0.001, 1e8),
        attempts=st.integers(1, 100),
        usd_per_hour=COSTS,
    ),
)
PARTS = st.lists(
    st.builds(Work, name=st.just("a"), number=st.integers(0, 10**5), past=PASTS, bound=BOUNDS),
    max_size=4,
)


@given(PARTS)
def test_an_estimate_is_never_0(parts: list[Work]) -> None:
    found = estimate(parts, 100.0)
    match found:
        case FromRuns():
            assert 0 < found.p50_usd <= found.p90_usd
        case AtMost():
            assert found.usd > 0
        case Unknown():
            assert found.why
    assert basis(found)
