"""Lengths of time, moments, arrays and dependencies as they are typed."""

from __future__ import annotations

import re
from datetime import UTC, datetime

import click
import pytest

from longshore.dispatcher.cli.commands.main import main
from longshore.dispatcher.cli.container_options import array, dependency
from longshore.dispatcher.cli.durations import MomentParam, moment_of, seconds_of
from longshore.dispatcher.cli.failure import CommandFailure

NOW = datetime(2026, 1, 31, 12, 0, 0, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("0", 0),
        ("90", 90),
        ("1.5", 1.5),
        ("90s", 90),
        ("10m", 600),
        ("2h", 7200),
        ("1d", 86_400),
        ("1h30m", 5400),
        ("1m05s", 65),
        ("1d02h", 93_600),
        ("1d2h3m4s", 93_784),
        ("36500d", 3_153_600_000),
    ],
)
def test_lengths_of_time(text: str, seconds: float) -> None:
    assert seconds_of(text) == seconds


@pytest.mark.parametrize(
    "text",
    [
        *("", "s", "-1", "-90s", "+5", "1.5h", "5x", "10 m", "m10", "1s1m", "1h1h", "inf", "nan"),
        *("1e3", "36501d", "99999999999", "9999999999999999999", "٣s"),
    ],
)
def test_what_is_no_length_of_time(text: str) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(text)}$"):
        seconds_of(text)


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("+30m", "2026-01-31T12:30:00+00:00"),
        ("+0", "2026-01-31T12:00:00+00:00"),
        ("+1d", "2026-02-01T12:00:00+00:00"),
        ("2026-01-31T12:00:00Z", "2026-01-31T12:00:00+00:00"),
        ("2026-01-31t12:00:00z", "2026-01-31T12:00:00+00:00"),
        ("2026-01-31 12:00:00.25+05:30", "2026-01-31T12:00:00.250000+05:30"),
    ],
)
def test_moments(text: str, moment: str) -> None:
    assert moment_of(text, NOW).isoformat() == moment


@pytest.mark.parametrize(
    "text",
    [
        *("", "+", "30m", "+soon", "2026-01-31", "2026-01-31T12:00:00", "2026-01-31T12:00Z"),
        *("2026-02-30T12:00:00Z", "2026-01-31T25:00:00Z", "20260131T120000Z", "now"),
    ],
)
def test_what_is_no_moment(text: str) -> None:
    with pytest.raises(click.BadParameter, match="must be a moment with its zone"):
        MomentParam().convert(text, None, None)


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("1", 1),
        ("100", 100),
        ("100%10", {"size": 100, "max_running": 10}),
        # Whether that can be is the server's to say.
        ("0%0", {"size": 0, "max_running": 0}),
    ],
)
def test_arrays_are_written_as_slurm_writes_them(text: str, wanted: object) -> None:
    assert array(text) == wanted


@pytest.mark.parametrize("text", ["", "%", "5%", "%5", "-1", "1-5", "1,2", "ten", "5 % 2", "5%2%1"])
def test_other_arrays_are_a_usage_error(text: str) -> None:
    with pytest.raises(CommandFailure, match="neither N nor N%M") as caught:
        array(text)
    assert caught.value.exit_code == 2


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("c-1", "c-1"),
        ("j-1:success", "j-1"),
        ("j-1:end", {"of": "j-1", "on": "end"}),
        ("j-1/align", "j-1/align"),
        ("j-1/align.v2:end", {"of": "j-1/align.v2", "on": "end"}),
        ("j-1/align:each", {"of": "j-1/align", "on": "success", "each": True}),
        ("j-1/align:end:each", {"of": "j-1/align", "on": "end", "each": True}),
    ],
)
def test_dependencies(text: str, wanted: object) -> None:
    assert dependency(text) == wanted


@pytest.mark.parametrize("text", ["", "align", "i-1", "c-", "j-1:", "j-1:ok", "j-1:end:end"])
def test_other_dependencies_are_a_usage_error(text: str) -> None:
    with pytest.raises(CommandFailure, match="--after") as caught:
        dependency(text)
    assert caught.value.exit_code == 2


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (
            ["--time-limit", "soon"],
            (
                "'--time-limit': must be a length of time like 90s, 10m, 2h, 1d or a number of "
                "seconds, and 'soon' is not"
            ),
        ),
        (["--grace-period", "-5s"], "'--grace-period': must be a length of time"),
        (
            ["--not-before", "2026-01-31T12:00:00"],
            (
                "'--not-before': must be a moment with its zone like 2026-01-31T12:00:00Z, or a "
                "length of time from now like +30m, and '2026-01-31T12:00:00' is neither"
            ),
        ),
        (["--array", "ten"], "--array 'ten' is neither N nor N%M. Write for example --array 100"),
        (["--after", "align"], "--after 'align' is not the id of a container or a job"),
    ],
)
def test_what_is_typed_wrongly_is_told_before_anything_is_sent(
    arguments: list[str], sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["submit", *arguments, "--url", "http://127.0.0.1:1", "--", "x"]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert sentence in captured.err
