"""Whether a call is sent again, and when: tables of how a try ended, without any network."""

from __future__ import annotations

import json
import pickle

import pytest

from longshore.dispatcher.client.calls import ENDPOINTS, api_call
from longshore.dispatcher.client.errors import (
    IN_DOUBT_TYPE,
    ClientError,
    ConflictError,
    ForbiddenError,
    InvalidRequestError,
    LostAnswerError,
    NotFoundError,
    OutcomeUnknownError,
    RateLimitedError,
    RefusedError,
    UnauthorizedError,
    UnavailableError,
    UnexpectedAnswerError,
    UnreachableError,
)
from longshore.dispatcher.client.exchange import (
    Answered,
    AnswerLost,
    ApiCall,
    GaveUp,
    NotReached,
    Received,
    Repeatable,
    RepeatPolicy,
    SendAgain,
    Step,
    TryOutcome,
    next_step,
)

URL = "http://host:1"
POLICY = RepeatPolicy(
    repeats=3, repeats_unreached=2, first_pause_s=1.0, longest_pause_s=10.0, jitter=0.5
)
SAFE = ApiCall(method="GET", path="/v1/jobs", repeatable=Repeatable.SAFE)
KEYED = ApiCall(method="POST", path="/v1/jobs", repeatable=Repeatable.KEYED, idempotency_key="k")
ONCE = ApiCall(method="PATCH", path="/v1/jobs/j-1", repeatable=Repeatable.ONCE)
LOST, LATE = AnswerLost(late=False), AnswerLost(late=True)
REFUSED_CONNECTION = NotReached(cause="connection refused")


def refused(status: int, *, retry_after: str = "", kind: str = "", body: bytes = b"") -> Received:
    problem = {"title": "No", "status": status, "detail": "It is so.", "type": kind}
    headers = {"retry-after": retry_after} if retry_after else {}
    return Received(status=status, headers=headers, body=body or json.dumps(problem).encode())


IN_DOUBT = refused(503, kind=IN_DOUBT_TYPE)
GATEWAY = refused(502, body=b"Bad Gateway")


def step(
    call: ApiCall, outcome: TryOutcome, *, repeated: int = 0, dice: float = 0.0, url: str = URL
) -> Step:
    return next_step(call, outcome, url=url, repeated=repeated, policy=POLICY, dice=dice)


def error_of(outcome: TryOutcome, call: ApiCall = ONCE) -> ClientError:
    """Return what is raised for an outcome after which nothing is repeated any more."""
    found = step(call, outcome, repeated=99)
    assert isinstance(found, GaveUp)
    return found.error


@pytest.mark.parametrize(
    ("outcome", "safe", "keyed", "once"),
    [
        (LOST, 3, 3, 0),
        (LATE, 3, 3, 0),
        (IN_DOUBT, 3, 3, 0),
        (GATEWAY, 3, 3, 0),
        (refused(504, body=b"x"), 3, 3, 0),
        (REFUSED_CONNECTION, 2, 2, 2),
        (refused(429, retry_after="1"), 3, 3, 3),
        (refused(503, retry_after="1"), 3, 3, 3),
        (refused(503, retry_after="1", kind=IN_DOUBT_TYPE), 3, 3, 0),
        (refused(429), 0, 0, 0),
        (refused(503), 0, 0, 0),
        (refused(503, retry_after="1", body=b"<html>"), 0, 0, 0),
        (refused(400), 0, 0, 0),
        (refused(401), 0, 0, 0),
        (refused(404), 0, 0, 0),
        (refused(409, retry_after="1"), 0, 0, 0),
        (refused(422), 0, 0, 0),
        (refused(500), 0, 0, 0),
        (refused(302, body=b""), 0, 0, 0),
    ],
)
def test_how_often_a_call_is_repeated(
    outcome: TryOutcome, safe: int, keyed: int, once: int
) -> None:
    for call, most in ((SAFE, safe), (KEYED, keyed), (ONCE, once)):
        steps = [step(call, outcome, repeated=n) for n in range(5)]
        assert [isinstance(each, SendAgain) for each in steps] == [n < most for n in range(5)]
        assert all(isinstance(each, GaveUp) for each in steps[most:])


@pytest.mark.parametrize("status", [200, 201, 202, 204])
def test_an_answer_is_one(status: int) -> None:
    received = Received(status=status, headers={}, body=b"{}")
    assert step(ONCE, received) == Answered(received=received)


def test_a_status_that_a_call_takes_for_an_answer_is_one() -> None:
    received = refused(503, retry_after="1")
    assert step(api_call("ready"), received) == Answered(received=received)


@pytest.mark.parametrize(
    ("repeated", "retry_after", "dice", "pause_s"),
    [
        # Ours doubles, and is capped.
        (0, "", 0.0, 1.0),
        (1, "", 0.0, 2.0),
        (2, "", 0.0, 4.0),
        # Jitter is only ever added.
        (0, "", 1.0, 1.5),
        (1, "", 0.5, 2.5),
        # Retry-After is a least, and is capped too.
        (0, "7", 0.0, 7.0),
        (2, "3", 0.0, 4.0),
        (0, "7", 1.0, 10.5),
        (0, "86400", 0.0, 10.0),
        (0, "86400", 1.0, 15.0),
        # What is no number of seconds says nothing of when.
        (0, "0", 0.0, 1.0),
    ],
)
def test_how_long_the_pause_is(
    repeated: int, retry_after: str, dice: float, pause_s: float
) -> None:
    outcome = refused(503, retry_after=retry_after) if retry_after else LOST
    assert step(SAFE, outcome, repeated=repeated, dice=dice) == SendAgain(after_s=pause_s)


@pytest.mark.parametrize(
    "text", ["soon", "Wed, 21 Oct 2026 07:28:00 GMT", "-1", "1.5", "²", "9" * 400]
)
def test_a_retry_after_that_is_no_number_of_seconds_is_none(text: str) -> None:
    assert refused(503, retry_after=text).retry_after_s is None


@pytest.mark.parametrize(
    ("outcome", "kind", "in_doubt", "passing"),
    [
        (refused(400), InvalidRequestError, False, False),
        (refused(413), InvalidRequestError, False, False),
        (refused(415), InvalidRequestError, False, False),
        (refused(422), InvalidRequestError, False, False),
        (refused(401), UnauthorizedError, False, False),
        (refused(403), ForbiddenError, False, False),
        (refused(404), NotFoundError, False, False),
        (refused(409), ConflictError, False, False),
        (refused(418), RefusedError, False, False),
        (refused(429), RateLimitedError, False, True),
        (refused(500), RefusedError, False, True),
        (refused(503), UnavailableError, False, True),
        (IN_DOUBT, OutcomeUnknownError, True, True),
        (GATEWAY, UnexpectedAnswerError, True, True),
        (refused(404, body=b"<html>"), UnexpectedAnswerError, False, False),
        (refused(404, body=b"[]"), UnexpectedAnswerError, False, False),
        (LOST, LostAnswerError, True, True),
        (LATE, LostAnswerError, True, True),
        (REFUSED_CONNECTION, UnreachableError, False, True),
    ],
)
def test_what_is_raised(
    outcome: TryOutcome, kind: type[ClientError], in_doubt: bool, passing: bool
) -> None:
    error = error_of(outcome)
    assert type(error) is kind
    assert (error.in_doubt, error.passing) == (in_doubt, passing)
    assert isinstance(error, ClientError)
    status = outcome.status if isinstance(outcome, Received) else 0
    assert error.status == status


def test_an_error_says_all_that_is_wrong_with_its_remedy() -> None:
    problem = {
        "title": "Bad Request",
        "type": "urn:longshore:problem:bad-request",
        "detail": "The request has 2 problems.",
        "errors": [{"path": "cpus", "message": "must be at least 0"}, {"message": "no"}, "odd"],
    }
    error = error_of(refused(400, body=json.dumps(problem).encode()))
    assert error.problem_type == "urn:longshore:problem:bad-request"
    assert [(each.path, each.message) for each in error.errors] == [
        ("cpus", "must be at least 0"),
        ("", "no"),
    ]
    assert str(error) == "The request has 2 problems.\n  cpus: must be at least 0\n  no"
    assert str(error_of(refused(503))) == "It is so. Try again later"
    assert str(error_of(LATE)) == f"no answer from {URL} in time. Try again"
    assert str(error_of(LOST)) == f"the connection to {URL} broke. Try again"
    unreached = str(error_of(REFUSED_CONNECTION))
    assert unreached.startswith(f"cannot reach the server at {URL}: connection refused. Start it")
    told = str(error_of(NotReached(cause="TLS failed", remedy="Check the certificate")))
    assert told == f"cannot reach the server at {URL}: TLS failed. Check the certificate"


def test_a_create_that_is_in_doubt_names_its_key() -> None:
    assert error_of(LOST, KEYED).idempotency_key == "k"
    assert error_of(IN_DOUBT, KEYED).idempotency_key == "k"
    assert error_of(LOST, SAFE).idempotency_key == ""


def test_an_error_survives_another_process() -> None:
    before = error_of(refused(429, retry_after="4"))
    after = pickle.loads(pickle.dumps(before))  # noqa: S301 - it is our own
    assert type(after) is RateLimitedError
    assert (after.status, after.retry_after_s, str(after)) == (429, 4.0, str(before))


def test_what_is_sent_says_who_asks_and_under_which_key() -> None:
    assert SAFE.headers("") == {"Accept": "application/json", "Accept-Encoding": "identity"}
    call = api_call("dispatch_job", "j/1", query=[("a", "b c")], body={"é": 1}, key="k")
    assert call.target == "/v1/jobs/j%2F1/dispatch?a=b+c"
    assert call.body == '{"é": 1}'.encode()
    assert call.headers("t") == {
        "Accept": "application/json",
        "Accept-Encoding": "identity",
        "Authorization": "Bearer t",
        "Content-Type": "application/json",
        "Idempotency-Key": "k",
    }


def test_only_what_reads_or_plans_may_be_repeated_without_a_key() -> None:
    safe = {name for name, each in ENDPOINTS.items() if each.repeatable is Repeatable.SAFE}
    assert all(ENDPOINTS[name].method == "GET" for name in safe - {"plan_job"})
    assert all(name in safe for name, each in ENDPOINTS.items() if each.method == "GET")
    keyed = {name for name, each in ENDPOINTS.items() if each.repeatable is Repeatable.KEYED}
    assert {ENDPOINTS[name].method for name in keyed} == {"POST"}
    assert keyed == {"submit", "submit_job", "dispatch_job", "create_token"}
