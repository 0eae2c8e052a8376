"""Moments are written as a calendar has them."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from longshore.dispatcher.domain.timefmt import moment


@pytest.mark.parametrize(
    "at",
    [
        0.0,
        951_782_399.9,
        951_782_400.0,
        951_868_800.0,
        1_709_164_800.0,
        1_735_689_599.0,
        1_735_689_600.0,
        4_107_542_400.0,
        253_402_300_799.0,
    ],
)
def test_a_moment_is_the_one_of_the_standard_library(at: float) -> None:
    assert moment(at) == datetime.fromtimestamp(int(at), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def test_each_day_of_four_centuries_is_right() -> None:
    for day in range(146_097):
        assert moment(day * 86_400).startswith(str(datetime.fromtimestamp(day * 86_400, UTC))[:10])
