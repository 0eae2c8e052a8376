"""For what attempts are told to end: in words, as a reason, in the store, and of an older one."""

from __future__ import annotations

from pathlib import Path

import pytest
from alembic import command

from longshore.dispatcher.domain.containers import (
    NO_STOP,
    AttemptOutcome,
    Reason,
    StopCause,
    StopReason,
)
from longshore.dispatcher.domain.messages import SaveAttempt
from longshore.dispatcher.scheduler.system.apply import stop_reason_of
from longshore.dispatcher.scheduler.system.model import RemovalCause, Stop
from longshore.dispatcher.state.attempt_end import in_words, is_eviction, reason_of
from longshore.dispatcher.store import schema, sqlite
from longshore.dispatcher.store.errors import StoreUnusable
from longshore.dispatcher.store.store import Store
from tests.store_values import attempt, container, insert, url_in

HELD = "its job changed, and nothing is updated on a held instance"
AGAIN = "the next start of its job, which lost essential"
TOLD = [
    ("c-7", StopCause.FOR_CONTAINER, "c-7", "", "preempted"),
    ("j-3", StopCause.FOR_JOB, "j-3", "", "preempted"),
    ("revision 12 of its job", StopCause.REVISED, "12", "", "updated"),
    (f"{AGAIN} w", StopCause.JOB_BEGINS_ANEW, "w", "", "preempted"),
    (
        f"{AGAIN} w: gone: no",
        StopCause.JOB_BEGINS_ANEW,
        "w",
        "gone: no",
        "preempted",
    ),
    ("its job succeeded", StopCause.JOB_ENDED, "succeeded", "", "stopped"),
    ("its job cancelled", StopCause.JOB_ENDED, "cancelled", "", "stopped"),
    ("its job failed: w failed: no", StopCause.JOB_ENDED, "failed", "w failed: no", "stopped"),
    ("its job was stopped", StopCause.JOB_STOPPED, "", "", "stopped"),
    ("its job is no longer there", StopCause.JOB_GONE, "", "", "stopped"),
    ("its instance no longer matches: foo", StopCause.NO_MATCH, "", "foo", "stopped"),
    ("node draining", StopCause.NODE_DRAINING, "", "", "stopped"),
    (HELD, StopCause.REVISED_WHILE_HELD, "", "", "stopped"),
    ("another one runs there", StopCause.SUPERFLUOUS, "", "", "stopped"),
    ("its instance is shut down", StopCause.INSTANCE_SHUT_DOWN, "", "", "instance_gone"),
]
"""What is said, also by the seventh schema, of which value, and the code that it comes to."""

VALUES = [StopReason(cause=cause, of=of, detail=detail) for _, cause, of, detail, _ in TOLD]


def test_every_cause_but_none_is_told_of() -> None:
    assert {each.cause for each in VALUES} == set(StopCause) - {StopCause.NOTHING}


@pytest.mark.parametrize(("said", "cause", "of", "detail", "code"), TOLD)
def test_people_are_told_why_an_attempt_ends(
    said: str, cause: StopCause, of: str, detail: str, code: str
) -> None:
    value = StopReason(cause=cause, of=of, detail=detail)
    assert in_words(value) == said
    message = said if code in ("stopped", "instance_gone") else f"it made way for {said}"
    assert reason_of(value) == Reason(code=code, message=message)


def test_of_what_nobody_but_a_user_ended_there_is_no_reason() -> None:
    assert reason_of(NO_STOP) is None


def test_only_who_makes_way_for_others_has_less_time_to_end() -> None:
    short = {each.cause for each in (*VALUES, NO_STOP) if is_eviction(each)}
    assert short == {StopCause.FOR_CONTAINER, StopCause.FOR_JOB}


@pytest.mark.parametrize("cause", RemovalCause)
def test_what_a_plan_stops_ends_for_the_cause_of_that_name(cause: RemovalCause) -> None:
    stop = Stop(job_id="j-1", instance_id="i-1", attempt_id="a-1", cause=cause, mismatch="foo")
    told = stop_reason_of(stop)
    assert told.cause.value == cause.value
    assert (told.of, told.detail) == ("", "foo" if cause is RemovalCause.NO_MATCH else "")


# ---- in the store --------------------------------------------------------------------------------


@pytest.mark.parametrize("value", [*VALUES, NO_STOP], ids=lambda value: value.cause.value)
def test_the_store_gives_back_what_it_was_given(tmp_path: Path, value: StopReason) -> None:
    store = Store.open(url_in(tmp_path))
    one = container(1)
    insert(store, one)
    tried = attempt(one, intended_outcome=AttemptOutcome.PREEMPTED, stop_reason=value)
    store.write([SaveAttempt(attempt=tried)]).result(30)
    found = store.container(one.id)
    assert found is not None
    assert found.attempts == (tried,)
    store.close()


def old_store(directory: Path, *said: str) -> None:
    """Make a store of the seventh schema with a container, one attempt of which says each."""
    spec = (
        b'{"name":"old","image":"busybox","command":["true"],"env":[],"resources":'
        b'{"cpu_millis":1000,"memory_bytes":1},"constraints":{}}'
    )
    engine = sqlite.writing_engine(directory / "longshore.db")
    with engine.begin() as connection:
        command.upgrade(schema.config_for(connection), "0007")
        connection.exec_driver_sql(
            "INSERT INTO containers VALUES ('c-1', 1, 'old', 'ann', 'apollo', 500, 1.5, 'queued',"
            " 2.5, NULL, NULL, NULL, NULL, 0, '0', ?, '', '', NULL, '')",
            (spec,),
        )
        for number, each in enumerate(said, 1):
            connection.exec_driver_sql(
                "INSERT INTO attempts VALUES (?, 'c-1', 1, ?, 'i-1', 'small', '0.1', 2.5, 2.5,"
                " NULL, 'preempted', NULL, NULL, NULL, 0, 0, 0, 'preempted', NULL, ?, 0)",
                (f"c-1-{number}", number, each),
            )
    engine.dispose()


def test_what_the_seventh_schema_said_in_words_is_understood(tmp_path: Path) -> None:
    old_store(tmp_path, "", *(said for said, *_ in TOLD))
    store = Store.open(url_in(tmp_path))
    (known,) = store.recover().containers
    assert [each.stop_reason for each in known.attempts] == [NO_STOP, *VALUES]
    store.close()


@pytest.mark.parametrize(
    "said",
    ["revision x of its job", "revision 3", "its job rests", "node", "its instance is shut down."],
)
def test_a_store_that_says_what_nobody_ever_said_is_not_guessed_at(
    tmp_path: Path, said: str
) -> None:
    old_store(tmp_path, said)
    with pytest.raises(StoreUnusable, match="attempt c-1-1 ended for"):
        Store.open(url_in(tmp_path))
