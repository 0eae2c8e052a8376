"""What the runner refuses of a request, and what of a hello: one table, a line each."""

from __future__ import annotations

import errno
import json
from pathlib import Path
from typing import Any

import pytest

from longshore.pool.runner import lease
from longshore.pool.runner.interruption import parse_watch
from longshore.pool.runner.lease import Lease, PowerOff, Terms, parse_terms
from longshore.pool.runner.spool import SpoolPaths
from longshore.pool.runner.wire import (
    MAX_CPU_MILLIS,
    Refusal,
    count_field,
    cpus_field,
    parse_order,
)

ORDER: dict[str, Any] = {"attempt_id": "a", "container_id": "c", "image": "", "command": ["true"]}


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"image": "--privileged"}, "must not begin with a dash"),
        ({"image": "x" * 4097}, "longer than 4096"),
        ({"command": ["a\0b"]}, "command holds a zero byte"),
        ({"command": ["\ud800"]}, "command holds half a surrogate pair"),
        ({"command": "true"}, "command must be a list"),
        ({"command": [1]}, "command must hold text only"),
        ({"env": {"": "1"}}, "is empty or holds an equals sign"),
        ({"env": {"A=B": "1"}}, "is empty or holds an equals sign"),
        ({"env": {"A": "\0"}}, "env holds a zero byte"),
        ({"memory_bytes": -1}, "memory_bytes must be a whole number, not negative"),
        ({"memory_bytes": True}, "memory_bytes must be a whole number"),
        ({"memory_bytes": 1 << 62}, "memory_bytes must be a whole number"),
        ({"cpu_millis": MAX_CPU_MILLIS + 1}, "cpu_millis must not be more than"),
        ({"attempt_id": "../a"}, "must be letters, digits, dots, dashes"),
        ({"resident": 1}, "resident must be true or false"),
    ],
)
def test_an_order_that_cannot_be_carried_out_is_refused(change: dict[str, Any], why: str) -> None:
    assert parse_order(ORDER).command == (b"true",)
    with pytest.raises(Refusal, match=why) as refused:
        parse_order({**ORDER, **change})
    assert refused.value.code == "invalid"


def test_the_largest_that_is_allowed_is_taken() -> None:
    assert cpus_field({"cpu_millis": MAX_CPU_MILLIS}) == MAX_CPU_MILLIS
    assert count_field({"offset": (1 << 62) - 1}, "offset") == (1 << 62) - 1
    assert count_field({}, "offset") == 0


TERMS = {"orphan_timeout_s": 60, "power_off": "poweroff", "suspended": False}


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"orphan_timeout_s": 0}, "above 0"),
        ({"orphan_timeout_s": float("nan")}, "above 0"),
        ({"orphan_timeout_s": 1e12}, "ten years at most"),
        ({"orphan_timeout_s": True}, "must be a number"),
        ({"power_off": ""}, "must be text of 1 to"),
        ({"power_off": "x" * 16_385}, "must be text of 1 to"),
        ({"power_off": "a\0b"}, "without a zero byte"),
        ({"power_off": "ä"}, "must be ASCII"),
        ({"suspended": "no"}, "must be true or false"),
    ],
)
def test_a_lease_that_makes_no_sense_is_refused(change: dict[str, Any], why: str) -> None:
    assert parse_terms(TERMS) == Terms(60.0, "poweroff", False)
    with pytest.raises(Refusal, match=why):
        parse_terms({**TERMS, **change})


@pytest.mark.parametrize("watch", ["", 1, "a\0b", "ä", "x" * 16_385])
def test_a_watch_that_no_shell_can_be_given_is_refused(watch: object) -> None:
    assert parse_watch("sleep 1") == "sleep 1"
    with pytest.raises(Refusal, match="interruption_watch must be"):
        parse_watch(watch)


# ---- the terms of a lease on a disk ----


def kept_in(directory: Path) -> Lease:
    base = str(directory)
    where = SpoolPaths(base, base, base, base, "longshore-0-0123456789abcdef", base)
    return Lease(where, PowerOff(where, {}), lambda: 0.0)


def test_a_full_spool_keeps_no_dispatcher_from_coming(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    terms, number = Terms(60.0, "poweroff", False), errno.ENOSPC

    def fail(_path: str, _content: bytes) -> None:
        raise OSError(number, "it cannot be written")

    monkeypatch.setattr(lease, "write_whole", fail)
    kept = kept_in(tmp_path)
    kept.agree(terms)
    assert kept.in_force
    number = errno.EROFS
    with pytest.raises(OSError, match="cannot be written"):
        kept_in(tmp_path).agree(terms)


def test_terms_that_a_loss_of_power_tore_are_none(tmp_path: Path) -> None:
    kept_in(tmp_path).agree(Terms(60.0, "poweroff", False))
    whole = (tmp_path / "lease").read_text()
    assert kept_in(tmp_path).in_force
    for torn in (whole[:-1], whole[:5], json.dumps([1]), "\0" * len(whole)):
        (tmp_path / "lease").write_text(torn)
        assert not kept_in(tmp_path).in_force
