"""The runner tells of each attempt which store's dispatcher has started it, also to a new one."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.runner_harness import Runner


@pytest.fixture
def runner() -> Iterator[Runner]:
    with Runner() as each:
        yield each


def stores(reports: list[dict[str, Any]]) -> dict[str, str]:
    """Return the store of each attempt, "" where it is not said."""
    return {each["attempt_id"]: each.get("store", "") for each in reports}


def test_what_a_store_has_started_stays_its_own(runner: Runner) -> None:
    session, _ = runner.attach(store="first")
    session.start("a", "sleep", "600")
    session.close()
    assert stores(runner.listing()["attempts"]) == {"a": "first"}, "before anybody says hello"

    session, hello = runner.attach(store="second")
    assert stores(hello["attempts"]) == {"a": "first"}
    session.start("b", "sleep", "600")
    assert stores(session.request("list")["attempts"]) == {"a": "first", "b": "second"}
    session.close()

    session, hello = runner.attach(store="second")
    assert stores(hello["attempts"]) == {"a": "first", "b": "second"}, "and in the next session"
    session.close()
    session, hello = runner.attach(store="third")
    assert stores(hello["attempts"]) == {"a": "first", "b": "second"}
    session.close()


def test_what_was_started_before_anybody_said_is_nobodys(runner: Runner) -> None:
    session, _ = runner.attach()
    session.start("a", "sleep", "600")
    session.close()
    session, hello = runner.attach(store="first")
    assert stores(hello["attempts"]) == {"a": ""}
    session.start("b", "sleep", "600")
    session.close()
    # An older dispatcher, for once: nothing changes by that.
    session, hello = runner.attach()
    assert stores(hello["attempts"]) == {"a": "", "b": "first"}
    session.close()


@pytest.mark.parametrize("store", [5, "x" * 129, None])
def test_a_store_that_is_none_is_refused(runner: Runner, store: object) -> None:
    _, refused = runner.attach(store=store)
    assert (refused["type"], refused["code"]) == ("refused", "invalid")
