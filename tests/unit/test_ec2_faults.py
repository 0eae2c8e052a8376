"""What EC2's errors mean: each code of the table as a server really sends it, and every silence."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import (
    ClientError,
    ConnectionClosedError,
    ConnectTimeoutError,
    NoCredentialsError,
    PartialCredentialsError,
    ReadTimeoutError,
    SSLError,
    TokenRetrievalError,
)

from longshore.drivers.ec2.client import ec2_client
from longshore.drivers.ec2.faults import FAILURES, TABLE, Judgement, Meaning, judged
from longshore.drivers.ec2.parameters import Ec2Parameters
from longshore.drivers.errors import (
    AmbiguousResult,
    CapacityError,
    CloudAuthError,
    CloudError,
    ErrorScope,
    InstanceNotFound,
    QuotaError,
    RateLimitError,
)
from tests.ec2_answers import HUNG_UP, Answer, refusal, speaking

TYPES = {
    Meaning.RATE_LIMIT: RateLimitError,
    Meaning.QUOTA: QuotaError,
    Meaning.CAPACITY: CapacityError,
    Meaning.AUTH: CloudAuthError,
    Meaning.NOT_FOUND: InstanceNotFound,
    Meaning.DOUBT: AmbiguousResult,
    Meaning.OTHER: CloudError,
}


Told = Callable[..., Judgement]


@pytest.fixture(scope="module")
def told() -> Iterator[Told]:
    """Return what says what a call means that is answered so; one client, as it takes its time."""
    with speaking(lambda *_: HUNG_UP) as words, words.client() as client:

        def tell(answer: Answer, *, changes: bool = True) -> Judgement:
            words.respond = lambda *_: answer
            words.requests.clear()
            judgement = judgement_of(client.run_instances, changes=changes)
            assert len(words.requests) == 1, "nothing is tried again behind our back"
            return judgement

        yield tell


def judgement_of(run_instances: Callable[..., Any], *, changes: bool = True) -> Judgement:
    with pytest.raises(FAILURES) as caught:
        run_instances(ImageId="ami-1", MinCount=1, MaxCount=1, UserData=b"the secret")
    judgement = judged(caught.value, call="RunInstances", changes=changes)
    assert "the secret" not in str(judgement.error)
    assert str(judgement.error).startswith("RunInstances: ")
    return judgement


@pytest.mark.parametrize("code", sorted(TABLE))
def test_each_code_of_the_table_is_its_error(told: Told, code: str) -> None:
    fault = TABLE[code]
    judgement = told(refusal(code, "the cloud's own words"))
    assert type(judgement.error) is TYPES[fault.meaning]
    assert (judgement.code, judgement.elsewhere) == (code, fault.elsewhere)
    assert f"{code}: the cloud's own words" in str(judgement.error)
    assert fault.remedy in str(judgement.error)
    if isinstance(judgement.error, QuotaError | CapacityError):
        assert judgement.error.scope is fault.scope


def test_the_request_that_ec2_repeats_when_a_signature_is_wrong_is_in_no_message(
    told: Told,
) -> None:
    canonical = "'POST\n/\n\nhost:ec2.example\nx-amz-security-token:IQoJb3JpZ2lu\n'"
    words = f"It does not match.\n\nThe Canonical String should have been\n{canonical}"
    said = str(told(refusal("SignatureDoesNotMatch", words)).error)
    assert said.startswith("RunInstances: SignatureDoesNotMatch: It does not match.; check the")
    assert "IQoJb3JpZ2lu" not in said


@pytest.mark.parametrize(
    ("code", "error", "scope", "elsewhere"),
    [
        ("RequestLimitExceeded", RateLimitError, None, False),
        ("Throttling", RateLimitError, None, False),
        ("EC2ThrottledException", RateLimitError, None, False),
        ("InsufficientInstanceCapacity", CapacityError, ErrorScope.TYPE, True),
        ("InsufficientHostCapacity", CapacityError, ErrorScope.TYPE, True),
        ("Unsupported", CapacityError, ErrorScope.TYPE, True),
        ("SpotMaxPriceTooLow", CapacityError, ErrorScope.TYPE, True),
        ("UnfulfillableCapacity", CapacityError, ErrorScope.TYPE, True),
        ("VolumeTypeNotAvailableInZone", CapacityError, ErrorScope.TYPE, True),
        ("InsufficientFreeAddressesInSubnet", QuotaError, ErrorScope.ALL, True),
        ("InstanceLimitExceeded", QuotaError, ErrorScope.TYPE, False),
        ("VcpuLimitExceeded", QuotaError, ErrorScope.GROUP, False),
        ("MaxSpotInstanceCountExceeded", QuotaError, ErrorScope.GROUP, False),
        ("VolumeLimitExceeded", QuotaError, ErrorScope.ALL, False),
        ("AuthFailure", CloudAuthError, None, False),
        ("UnauthorizedOperation", CloudAuthError, None, False),
        ("ExpiredToken", CloudAuthError, None, False),
        ("OptInRequired", CloudAuthError, None, False),
        ("InvalidInstanceID.NotFound", InstanceNotFound, None, False),
        ("IdempotentParameterMismatch", AmbiguousResult, None, False),
        ("IdempotentInstanceTerminated", CloudError, None, False),
    ],
)
def test_the_codes_that_the_design_names(
    told: Told, code: str, error: type[CloudError], scope: ErrorScope | None, *, elsewhere: bool
) -> None:
    judgement = told(refusal(code))
    assert type(judgement.error) is error
    assert getattr(judgement.error, "scope", None) is scope
    assert judgement.elsewhere is elsewhere


@pytest.mark.parametrize("code", ["InsufficientInstanceCapacity", "RequestLimitExceeded"])
def test_a_code_counts_for_more_than_the_status_that_it_comes_with(told: Told, code: str) -> None:
    assert type(told(refusal(code, status=503)).error) is TYPES[TABLE[code].meaning]


@pytest.mark.parametrize(
    ("header", "expected"),
    [("7", 7.0), ("2.5", 2.5), ("", None), ("-1", None), ("inf", None), ("soon", None)],
)
def test_the_time_after_which_to_come_again_is_passed_on(
    told: Told, header: str, expected: float | None
) -> None:
    throttled = refusal("RequestLimitExceeded", status=503)
    answer = Answer(body=throttled.body, status=503, headers=(("Retry-After", header),))
    error = told(answer).error
    assert isinstance(error, RateLimitError)
    assert error.retry_after_s == expected


@pytest.mark.parametrize(
    "answer",
    [
        refusal("InternalError", status=500),
        refusal("InternalFailure", status=500),
        refusal("Unavailable", status=503),
        refusal("ServiceUnavailable", status=503),
        refusal("SomethingNew", status=500),
        Answer(body="<html><body>Bad gateway</body></html>", status=502),
        Answer(body="", status=504),
        Answer(body="this is no XML"),
        HUNG_UP,
    ],
    ids=lambda answer: f"{answer.status} {(answer.body or 'hung up')[:60]}",
)
def test_what_may_have_been_done_is_in_doubt_and_what_only_asked_is_not(
    told: Told, answer: Answer
) -> None:
    assert type(told(answer).error) is AmbiguousResult
    assert type(told(answer, changes=False).error) is CloudError


def test_a_refusal_of_an_unknown_kind_tells_code_and_words_and_leaves_no_doubt(told: Told) -> None:
    error = told(refusal("InvalidParameterCombination", "no such thing")).error
    assert type(error) is CloudError
    assert str(error) == "RunInstances: InvalidParameterCombination: no such thing"


def test_a_long_message_is_cut_but_its_remedy_is_not(told: Told) -> None:
    error = told(refusal("UnauthorizedOperation", "x" * 5000)).error
    assert len(str(error)) < 600
    assert str(error).endswith("allow the action in the IAM policy of these credentials")


# ---- no answer at all ---------------------------------------------------------------------------


def test_a_server_that_is_not_there_has_done_nothing() -> None:
    with socket.socket() as taken:
        # Bound and not listening: nobody else gets the port, and nobody answers there.
        taken.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{taken.getsockname()[1]}"
        client = ec2_client(
            Ec2Parameters(
                region="eu-test-1", endpoint_url=url, access_key_id="a", secret_access_key="b"
            )
        )
        try:
            assert type(judgement_of(client.run_instances).error) is CloudError
        finally:
            client.close()


def test_an_answer_that_does_not_come_in_time_leaves_doubt() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        client = ec2_client(
            Ec2Parameters(
                region="eu-test-1",
                endpoint_url=f"http://127.0.0.1:{silent.getsockname()[1]}",
                access_key_id="a",
                secret_access_key="b",
                read_timeout_s=1.0,
            )
        )
        try:
            assert type(judgement_of(client.run_instances).error) is AmbiguousResult
        finally:
            client.close()


def test_without_credentials_an_operator_is_told_what_to_set(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    for name in ("AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE"):
        monkeypatch.setenv(name, str(tmp_path / "none"))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    client = ec2_client(Ec2Parameters(region="eu-test-1", endpoint_url="http://127.0.0.1:9"))
    try:
        error = judgement_of(client.run_instances).error
    finally:
        client.close()
    assert type(error) is CloudAuthError
    assert "driver.parameters" in str(error)


@pytest.mark.parametrize(
    ("failure", "error"),
    [
        (NoCredentialsError(), CloudAuthError),
        (PartialCredentialsError(provider="env", cred_var="x"), CloudAuthError),
        (TokenRetrievalError(provider="sso", error_msg="expired"), CloudAuthError),
        (ConnectTimeoutError(endpoint_url="u", error="e"), CloudError),
        (ReadTimeoutError(endpoint_url="u", error="e"), AmbiguousResult),
        (ConnectionClosedError(endpoint_url="u"), AmbiguousResult),
        (SSLError(endpoint_url="u", error=ssl.SSLCertVerificationError("self-signed")), CloudError),
        (SSLError(endpoint_url="u", error=ssl.SSLEOFError("eof")), AmbiguousResult),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Exception) else "",
)
def test_silences_that_this_machine_cannot_cause_at_will(
    failure: Any, error: type[CloudError]
) -> None:
    assert type(judged(failure, call="RunInstances", changes=True).error) is error
    asked = type(judged(failure, call="DescribeInstances", changes=False).error)
    assert asked is (CloudAuthError if error is CloudAuthError else CloudError)


@pytest.mark.parametrize("code", ["AuthFailure", "SignatureDoesNotMatch", "RequestExpired"])
def test_what_a_wrong_clock_brings_about_mentions_the_clock(code: str) -> None:
    """EC2 answers `AuthFailure` to good credentials whose signature is of another hour."""
    answer = {"Error": {"Code": code, "Message": "not able to validate"}, "ResponseMetadata": {}}
    failure = ClientError(answer, "DescribeInstances")
    assert "this machine's clock" in str(judged(failure, call="x", changes=False).error)
