"""The command line against servers that break, lie or are something else: always one sentence."""

from __future__ import annotations

import contextlib
import io
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler

import pytest

from longshore.dispatcher.cli.client import CommandClient
from longshore.dispatcher.cli.commands.main import main
from longshore.dispatcher.cli.failure import CommandFailure
from tests.stranger_server import Behaviour, Stranger, answering, stranger_server


def hanging_up(handler: BaseHTTPRequestHandler) -> None:
    handler.close_connection = True
    handler.connection.close()


def half_an_answer(handler: BaseHTTPRequestHandler) -> None:
    handler.send_response(200)
    handler.send_header("Content-Length", "1000")
    handler.end_headers()
    handler.wfile.write(b'{"items": [')
    handler.close_connection = True


@pytest.fixture
def stranger(monkeypatch: pytest.MonkeyPatch) -> Iterator[type[Stranger]]:
    with stranger_server() as (url, server):
        monkeypatch.setenv("LONGSHORE_URL", url)
        yield server


@pytest.mark.parametrize(
    ("behaviour", "code", "sentence"),
    [
        (answering(200, b"<html>", "text/html"), 1, "is not a Longshore server"),
        (answering(200, b"[]"), 1, "is not a Longshore server"),
        (answering(404, b"<html>", "text/html"), 1, "is not a Longshore server"),
        (answering(302, b""), 1, "is not a Longshore server"),
        (answering(502, b"Bad Gateway", "text/plain"), 1, "(status 502)"),
        (answering(200, b'{"id": 5, "state": "queued"}'), 1, "cannot read what the server says"),
        (answering(401, b'{"title": "Unauthorized", "status": 401}'), 1, "Set LONGSHORE_TOKEN"),
        (answering(503, b'{"title": "x", "detail": "Inbox full."}'), 1, "full. Try again later"),
        (hanging_up, 3, "broke"),
        (half_an_answer, 3, "broke"),
    ],
)
def test_whatever_answers_becomes_one_sentence(
    stranger: type[Stranger],
    behaviour: Behaviour,
    code: int,
    sentence: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    stranger.behaviours.append(behaviour)
    assert main(["show", "c-1"]) == code
    captured = capsys.readouterr()
    assert captured.out == ""
    assert sentence in captured.err
    assert len(captured.err.splitlines()) == 1


def test_problem_details_are_printed_field_by_field(
    stranger: type[Stranger], capsys: pytest.CaptureFixture[str]
) -> None:
    problem = {
        "title": "Bad Request",
        "detail": "The request has 2 problems.",
        "errors": [
            {"path": "cpus", "message": "must be at least 0"},
            {"path": "", "message": "name a command"},
        ],
    }
    stranger.behaviours.append(answering(400, json.dumps(problem).encode()))
    assert main(["submit", "--", "true"]) == 2
    assert capsys.readouterr().err.splitlines() == [
        "longshore: The request has 2 problems.",
        "  cpus: must be at least 0",
        "  name a command",
    ]


def test_a_submission_whose_answer_was_lost_is_sent_again_under_the_same_key(
    stranger: type[Stranger], capsys: pytest.CaptureFixture[str]
) -> None:
    created = answering(201, b'{"id": "c-1", "state": "queued"}')
    stranger.behaviours += [hanging_up, half_an_answer, created]
    assert main(["submit", "--", "true"]) == 0
    assert capsys.readouterr().out == "c-1\n"
    keys = {headers["Idempotency-Key"] for _, _, headers, _ in stranger.seen}
    assert len(stranger.seen) == 3
    assert len(keys) == 1


def test_a_token_whose_answer_was_lost_is_asked_for_again_under_the_same_key(
    stranger: type[Stranger], capsys: pytest.CaptureFixture[str]
) -> None:
    before = {"title": "Conflict", "detail": "this request made token t-0a before: revoke that one"}
    stranger.behaviours += [hanging_up, answering(409, json.dumps(before).encode())]
    assert main(["token", "create", "--user", "ann", "--project", "p"]) == 1
    assert "longshore token revoke t-0a" in capsys.readouterr().err
    assert len(stranger.seen) == 2
    assert len({headers["Idempotency-Key"] for _, _, headers, _ in stranger.seen}) == 1


IN_DOUBT = answering(
    503,
    json.dumps(
        {
            "type": "urn:longshore:problem:outcome-unknown",
            "title": "Outcome Unknown",
            "status": 503,
            "detail": "The store takes too long: this may be done or not.",
        }
    ).encode(),
)


@pytest.mark.parametrize(
    "arguments", [["submit", "--", "true"], ["dispatch", "j-1", "--param", "a=b"]]
)
def test_what_may_be_done_or_not_is_sent_again_under_the_same_key(
    stranger: type[Stranger], capsys: pytest.CaptureFixture[str], arguments: list[str]
) -> None:
    created = answering(201, b'{"id": "j-1", "state": "queued"}')
    stranger.behaviours += [IN_DOUBT, hanging_up, created]
    assert main(arguments) == 0
    assert capsys.readouterr().out == "j-1\n"
    assert len(stranger.seen) == 3
    assert len({headers["Idempotency-Key"] for _, _, headers, _ in stranger.seen}) == 1


@pytest.mark.parametrize(("behaviour", "code"), [(IN_DOUBT, 1), (hanging_up, 3)])
def test_who_cannot_be_told_what_came_of_it_is_told_the_key(
    stranger: type[Stranger], capsys: pytest.CaptureFixture[str], behaviour: Behaviour, code: int
) -> None:
    stranger.behaviours.append(behaviour)
    assert main(["submit", "--", "true"]) == code
    (key,) = {headers["Idempotency-Key"] for _, _, headers, _ in stranger.seen}
    assert f"repeat the command with --idempotency-key {key}" in capsys.readouterr().err
    stranger.seen.clear()
    stranger.behaviours[:] = [answering(201, b'{"id": "c-1", "state": "queued"}')]
    assert main(["submit", "--idempotency-key", key, "--", "true"]) == 0
    assert stranger.seen[0][2]["Idempotency-Key"] == key


def test_what_was_not_taken_in_is_not_sent_again(stranger: type[Stranger]) -> None:
    stranger.behaviours.append(answering(503, b'{"title": "x", "detail": "The queue is full."}'))
    assert main(["submit", "--", "true"]) == 1
    assert main(["submit", "--idempotency-key", "a b", "--", "true"]) == 2
    assert len(stranger.seen) == 1


class Heard(io.StringIO):
    """An stderr that tells when something was written to it."""

    def __init__(self) -> None:
        super().__init__()
        self.something = threading.Event()

    def write(self, text: str) -> int:
        written = super().write(text)
        self.something.set()
        return written


@pytest.mark.parametrize(
    "arguments", [["submit", "--", "x"], ["priority", "c-1", "5"], ["cancel", "c-1", "c-2"]]
)
def test_a_server_that_takes_its_time_is_told_of_once(
    stranger: type[Stranger], monkeypatch: pytest.MonkeyPatch, arguments: list[str]
) -> None:
    monkeypatch.setattr("longshore.dispatcher.cli.client.LATE_S", 0.05)
    errors = Heard()
    answer = answering(200, b'{"id": "c-1", "state": "queued"}')
    late = threading.Event()

    def answering_late(handler: BaseHTTPRequestHandler) -> None:
        assert errors.something.wait(60)
        # The second time everything was said: only time shows that nothing more is.
        late.wait(0.2)
        answer(handler)

    stranger.behaviours.append(answering_late)
    with contextlib.redirect_stderr(errors):
        assert main(arguments) == 0
    (line,) = errors.getvalue().splitlines()
    assert line.startswith("longshore: no answer yet from http://127.0.0.1:")


def test_a_quick_answer_is_not_called_late(
    stranger: type[Stranger], capsys: pytest.CaptureFixture[str]
) -> None:
    stranger.behaviours.append(answering(200, b'{"id": "c-1", "state": "queued"}'))
    assert main(["priority", "c-1", "5"]) == 0
    assert capsys.readouterr().err == ""


def test_a_rate_limit_is_waited_for_and_passes(
    stranger: type[Stranger], capsys: pytest.CaptureFixture[str]
) -> None:
    body = b'{"title": "x", "detail": "Too many."}'

    def limited(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(429)
        handler.send_header("Retry-After", "0")
        handler.send_header("Content-Length", str(len(body)))
        handler.end_headers()
        handler.wfile.write(body)

    stranger.behaviours += [limited, answering(200, b'{"id": "c-1", "state": "queued"}')]
    assert main(["priority", "c-1", "5"]) == 0
    assert len(stranger.seen) == 2
    stranger.behaviours[:] = [answering(429, body)]
    assert main(["priority", "c-1", "5"]) == 1
    assert "Too many. Send fewer requests" in capsys.readouterr().err
    assert CommandFailure("x", status=429).passing


def test_what_may_not_be_repeated_is_not(
    stranger: type[Stranger], capsys: pytest.CaptureFixture[str]
) -> None:
    stranger.behaviours.append(hanging_up)
    assert main(["priority", "c-1", "5"]) == 3
    assert len(stranger.seen) == 1
    assert "broke" in capsys.readouterr().err


def test_the_token_is_sent_as_bearer_and_ids_are_quoted(
    stranger: type[Stranger], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LONGSHORE_TOKEN", "s3cret")
    stranger.behaviours.append(answering(200, b'{"id": "c-1", "state": "queued"}'))
    assert main(["show", "../../x?y"]) == 0
    _, path, headers, _ = stranger.seen[0]
    assert headers["Authorization"] == "Bearer s3cret"
    assert path == "/v1/containers/..%2F..%2Fx%3Fy?tree=true&costs=true"


def test_a_redirect_never_carries_the_token_elsewhere(
    stranger: type[Stranger], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LONGSHORE_TOKEN", "s3cret")
    stranger.behaviours.append(answering(302, b""))
    assert main(["ps"]) == 1
    assert len(stranger.seen) == 1


def test_a_path_in_the_url_is_kept(
    stranger: type[Stranger], monkeypatch: pytest.MonkeyPatch
) -> None:
    import os

    monkeypatch.setenv("LONGSHORE_URL", os.environ["LONGSHORE_URL"] + "/longshore/")
    stranger.behaviours.append(answering(200, b'{"items": []}'))
    assert main(["ps"]) == 0
    assert stranger.seen[0][1].startswith("/longshore/v1/containers?")


def test_pages_are_fetched_until_the_limit(stranger: type[Stranger]) -> None:
    import os

    pages = [
        {"items": [{"id": "c-3"}, {"id": "c-2"}], "next_cursor": "two"},
        {"items": [{"id": "c-1"}], "next_cursor": None},
    ]
    stranger.behaviours += [answering(200, json.dumps(page).encode()) for page in pages]
    with CommandClient(os.environ["LONGSHORE_URL"], "") as client:
        found = [item["id"] for item in client.pages("/v1/containers", [], 10)]
    assert found == ["c-3", "c-2", "c-1"]
    assert [path for _, path, _, _ in stranger.seen] == [
        "/v1/containers?limit=10",
        "/v1/containers?limit=8&cursor=two",
    ]
