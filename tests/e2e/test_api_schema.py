"""Must show: requests made from the OpenAPI document get no 5xx, and no answer that it tells not.

A short run of some paths, others at each commit; `python -m tests.schema.run`, which `make proofs`
begins with, tries more of all of them.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from tests.dispatcher_process import DispatcherProcess
from tests.rotation import commit, some_of
from tests.schema.run import CONFIG, document_of, tried

AT_A_COMMIT = 10
FEWEST_CASES = 100
SHOW = "/v1/containers/{id}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Path:
    """One of the document."""

    name: str


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DispatcherProcess]:
    with DispatcherProcess(tmp_path_factory.mktemp("schema"), CONFIG) as process:
        yield process


def test_no_request_gets_an_answer_that_the_document_does_not_tell(
    server: DispatcherProcess,
) -> None:
    document = document_of(server.url)
    paths = [Path(name=each) for each in document["paths"]]
    chosen = {each.name for each in some_of(paths, AT_A_COMMIT, commit())}
    outcome = tried(server.url, document, examples=3, seed=1, chains=False, paths=sorted(chosen))
    assert outcome.wrong == {}, outcome.told()
    assert outcome.cases.total() >= FEWEST_CASES, outcome.told()
    operations = {
        f"{method.upper()} {path}" for path in chosen for method in document["paths"][path]
    }
    assert set(outcome.cases) == operations - {"GET /v1/events"}
    assert {200, 400, 405} <= outcome.statuses.keys(), outcome.told()
    log = server.error_path.read_text(encoding="utf-8")
    assert "request_failed" not in log
    assert "connection_failed" not in log


def _of_show(document: dict[str, Any]) -> dict[str, Any]:
    document["paths"] = {SHOW: document["paths"][SHOW]}
    return dict(document["paths"][SHOW]["get"])


def test_a_status_that_is_not_told_is_found(server: DispatcherProcess) -> None:
    document = copy.deepcopy(document_of(server.url))
    del _of_show(document)["responses"]["404"]
    outcome = tried(server.url, document, examples=3, seed=1, chains=False)
    assert {key.split()[2] for key in outcome.wrong} == {"status_code_conformance"}


def test_an_answer_of_another_shape_is_found(server: DispatcherProcess) -> None:
    document = copy.deepcopy(document_of(server.url))
    _of_show(document)
    document["components"]["schemas"]["ProblemDetails"]["required"].append("remedy")
    outcome = tried(server.url, document, examples=3, seed=1, chains=False)
    assert {key.split()[2] for key in outcome.wrong} == {"response_schema_conformance"}
