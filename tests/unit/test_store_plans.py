"""How SQLite answers the store's questions: from indexes, so that finished containers are free."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

from sqlalchemy import event

from dispatcher.messages import RequestCancel, SaveAttempt, SaveInstance
from dispatcher.model import ContainerState
from dispatcher.queries import ContainerFilter
from dispatcher.store import sqlite
from dispatcher.store.reader import Reader
from dispatcher.store.store import Store
from tests.store_values import attempt, container, insert, instance, url_in

FILTERS = [
    ContainerFilter(),
    ContainerFilter(user="ann"),
    ContainerFilter(project="apollo", user="ann"),
    ContainerFilter(name="demo", states=(ContainerState.FAILED,)),
    ContainerFilter(states=(ContainerState.FAILED, ContainerState.SUCCEEDED)),
    ContainerFilter(instance_id="i-1"),
    ContainerFilter(instance_id="i-1", user="ann", states=(ContainerState.FAILED,)),
]


def test_no_question_scans_or_sorts_finished_containers(tmp_path: Path) -> None:
    store = Store.open(url_in(tmp_path))
    insert(store, *(container(n) for n in range(1, 4)))
    tried = [SaveAttempt(attempt=attempt(container(n))) for n in range(1, 4)]
    store.write([*tried, SaveInstance(instance=instance())]).result(30)
    store.write([RequestCancel(container_id=container(1).id)]).result(30)
    store.close()

    asked: list[tuple[str, Any]] = []
    engine = sqlite.reading_engine(tmp_path / "longshore.db")

    def note(_connection: object, _cursor: object, statement: str, values: Any, *_: object) -> None:
        asked.append((statement, values))

    event.listen(engine, "before_cursor_execute", note)
    reader = Reader(engine)
    for which in FILTERS:
        cursor = reader.containers(which, cursor="", limit=1).next_cursor or ""
        reader.containers(which, cursor=cursor, limit=1)
    reader.recover()
    reader.container("c-1")
    reader.instance("i-1")
    reader.last_sequence()
    engine.dispose()

    database = sqlite3.connect(tmp_path / "longshore.db")
    bad = []
    for statement, values in asked:
        if not statement.startswith("SELECT"):
            continue
        for *_, step in database.execute(f"EXPLAIN QUERY PLAN {statement}", values):
            if is_costly(step, statement):
                bad.append(f"{step}: {statement}")
    database.close()
    assert len(asked) > 30
    assert bad == []


def is_costly(step: str, statement: str) -> bool:
    """Return whether a step's cost grows with the containers that have ended.

    A scan of an index is a walk in its order, which `LIMIT` ends unless something sorts after it.
    The other sorts are of what is unfinished, or of one page.
    """
    if step.startswith("SCAN"):
        return "INDEX" not in step
    return "B-TREE" in step and "LIMIT" in statement
