"""What a histogram counts, and which bounds it takes."""

from __future__ import annotations

import pytest

from longshore.drivers.errors import BugError
from longshore.pool.histogram import Histogram


def test_a_histogram_counts_each_value_in_every_bucket_that_it_fits() -> None:
    histogram = Histogram((1.0, 5.0))
    for value in (0.5, 1.0, 1.5, 5.0, 6.0, -0.5):
        histogram.observe(value)
    assert histogram.cumulative() == [3, 5, 6]
    assert (histogram.count, histogram.sum) == (6, 14.0)


@pytest.mark.parametrize("bounds", [(), (1.0, 1.0), (2.0, 1.0)])
def test_bounds_that_do_not_ascend_are_refused(bounds: tuple[float, ...]) -> None:
    with pytest.raises(BugError, match="must ascend"):
        Histogram(bounds)
