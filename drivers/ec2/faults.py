"""What a failed call of EC2's means: one table from its error codes to our errors."""

from __future__ import annotations

import math
import ssl
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from typing import TypeAlias, assert_never

from botocore.exceptions import (
    BotoCoreError,
    ClientError,
    ConnectTimeoutError,
    CredentialRetrievalError,
    EndpointConnectionError,
    InvalidEndpointConfigurationError,
    MetadataRetrievalError,
    NoAuthTokenError,
    NoCredentialsError,
    ParamValidationError,
    PartialCredentialsError,
    ProxyConnectionError,
    SSOError,
    TokenRetrievalError,
    UnauthorizedSSOTokenError,
    UnsupportedSignatureVersionError,
)
from botocore.parsers import ResponseParserError

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

Failure: TypeAlias = ClientError | BotoCoreError | ResponseParserError
FAILURES = (ClientError, BotoCoreError, ResponseParserError)
"""What a call through boto3 raises: EC2 said no, or nothing that can be understood."""

_MOST_CHARACTERS = 400


class Meaning(Enum):
    """What an error code says: which of our errors it is."""

    RATE_LIMIT = "rate_limit"
    QUOTA = "quota"
    CAPACITY = "capacity"
    AUTH = "auth"
    NOT_FOUND = "not_found"
    DOUBT = "doubt"
    OTHER = "other"


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiFault:
    """The meaning of an error code."""

    meaning: Meaning
    #: That of a shortage or a limit.
    scope: ErrorScope = ErrorScope.TYPE
    #: Whether another subnet or zone may do what this one refused.
    elsewhere: bool = False
    #: "" where the meaning says it all.
    remedy: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """What is to be raised for a failed call, its code, and whether another place may do it."""

    error: CloudError
    code: str
    elsewhere: bool = False


_THROTTLED = ApiFault(meaning=Meaning.RATE_LIMIT)
_SHORT = ApiFault(meaning=Meaning.CAPACITY, elsewhere=True)
_REFUSED = ApiFault(meaning=Meaning.AUTH, remedy="check the credentials of driver.parameters")
_UNSIGNED = ApiFault(
    meaning=Meaning.AUTH,
    remedy="check the credentials of driver.parameters, and this machine's clock: a signature is"
    " valid for five minutes",
)
_EXPIRED = ApiFault(
    meaning=Meaning.AUTH, remedy="renew the credentials, and check this machine's clock"
)
_FORBIDDEN = ApiFault(
    meaning=Meaning.AUTH, remedy="allow the action in the IAM policy of these credentials"
)
_ACCOUNT = ApiFault(meaning=Meaning.AUTH, remedy="settle it with AWS, on the account's own pages")
_TYPE_LIMIT = ApiFault(
    meaning=Meaning.QUOTA, scope=ErrorScope.TYPE, remedy="ask AWS for a higher limit of this type"
)
_GROUP_LIMIT = ApiFault(
    meaning=Meaning.QUOTA, scope=ErrorScope.GROUP, remedy="ask AWS for a higher quota of vCPUs"
)
_ACCOUNT_LIMIT = ApiFault(
    meaning=Meaning.QUOTA, scope=ErrorScope.ALL, remedy="ask AWS for a higher quota"
)
_NO_ADDRESS = ApiFault(
    meaning=Meaning.QUOTA,
    scope=ErrorScope.ALL,
    elsewhere=True,
    remedy="add a larger subnet to driver.parameters.subnets",
)
_NO_INSTANCE = ApiFault(meaning=Meaning.NOT_FOUND)
_DOUBT = ApiFault(meaning=Meaning.DOUBT)

TABLE: dict[str, ApiFault] = {
    "BandwidthLimitExceeded": _THROTTLED,
    "EC2ThrottledException": _THROTTLED,
    "LimitExceededException": _THROTTLED,
    "PriorRequestNotComplete": _THROTTLED,
    "RequestLimitExceeded": _THROTTLED,
    "RequestResourceCountExceeded": _THROTTLED,
    "RequestThrottled": _THROTTLED,
    "RequestThrottledException": _THROTTLED,
    "SlowDown": _THROTTLED,
    "ThrottledException": _THROTTLED,
    "Throttling": _THROTTLED,
    "ThrottlingException": _THROTTLED,
    "TooManyRequestsException": _THROTTLED,
    "InsufficientCapacity": _SHORT,
    "InsufficientCapacityOnHost": _SHORT,
    "InsufficientHostCapacity": _SHORT,
    "InsufficientInstanceCapacity": _SHORT,
    "InsufficientReservedInstanceCapacity": _SHORT,
    "InsufficientVolumeCapacity": _SHORT,
    "ReservationCapacityExceeded": _SHORT,
    "SpotMaxPriceTooLow": _SHORT,
    "UnfulfillableCapacity": _SHORT,
    "VolumeTypeNotAvailableInZone": _SHORT,
    # Of a type in a zone; what is wrong with the request as such has other codes.
    "Unsupported": _SHORT,
    "InsufficientAddressCapacity": _NO_ADDRESS,
    "InsufficientFreeAddressesInSubnet": _NO_ADDRESS,
    "PrivateIpAddressLimitExceeded": _NO_ADDRESS,
    # The limits by number of instances that are left are those of single types.
    "InstanceLimitExceeded": _TYPE_LIMIT,
    "MaxSpotInstanceCountExceeded": _GROUP_LIMIT,
    "VcpuLimitExceeded": _GROUP_LIMIT,
    "InstanceQuotaExceeded": _ACCOUNT_LIMIT,
    "MaxIOPSLimitExceeded": _ACCOUNT_LIMIT,
    "NetworkInterfaceLimitExceeded": _ACCOUNT_LIMIT,
    "ResourceLimitExceeded": _ACCOUNT_LIMIT,
    "VolumeLimitExceeded": _ACCOUNT_LIMIT,
    "AuthFailure": _UNSIGNED,
    "IncompleteSignature": _UNSIGNED,
    "InvalidAccessKeyId": _REFUSED,
    "InvalidClientTokenId": _REFUSED,
    "MissingAuthenticationToken": _REFUSED,
    "SignatureDoesNotMatch": _UNSIGNED,
    "UnrecognizedClientException": _REFUSED,
    "ExpiredToken": _EXPIRED,
    "ExpiredTokenException": _EXPIRED,
    "RequestExpired": _EXPIRED,
    "AccessDenied": _FORBIDDEN,
    "AccessDeniedException": _FORBIDDEN,
    "UnauthorizedOperation": _FORBIDDEN,
    "AuthFailure.ServiceLinkedRoleCreationNotPermitted": ApiFault(
        meaning=Meaning.AUTH,
        remedy="make the role once: aws iam create-service-linked-role"
        " --aws-service-name spot.amazonaws.com",
    ),
    "Blocked": _ACCOUNT,
    "OptInRequired": _ACCOUNT,
    "PendingVerification": _ACCOUNT,
    "InvalidID": _NO_INSTANCE,
    "InvalidInstanceID": _NO_INSTANCE,
    "InvalidInstanceID.Malformed": _NO_INSTANCE,
    "InvalidInstanceID.NotFound": _NO_INSTANCE,
    # Its first use may have made an instance, with parameters that have changed since.
    "IdempotentParameterMismatch": _DOUBT,
    "IdempotentInstanceTerminated": ApiFault(
        meaning=Meaning.OTHER, remedy="the instance of this token has ended; take another token"
    ),
    "InvalidAMIID.Malformed": ApiFault(meaning=Meaning.OTHER, remedy="correct the image"),
    "InvalidAMIID.NotFound": ApiFault(meaning=Meaning.OTHER, remedy="correct the image"),
    "InvalidAMIID.Unavailable": ApiFault(meaning=Meaning.OTHER, remedy="correct the image"),
    "InvalidGroup.NotFound": ApiFault(
        meaning=Meaning.OTHER, remedy="correct driver.parameters.security_groups"
    ),
    "InvalidSubnetID.NotFound": ApiFault(
        meaning=Meaning.OTHER, remedy="correct driver.parameters.subnets"
    ),
    "VPCIdNotSpecified": ApiFault(
        meaning=Meaning.OTHER, remedy="the region has no default VPC: set driver.parameters.subnets"
    ),
}

FORBIDDEN = frozenset({"AccessDenied", "AccessDeniedException", "UnauthorizedOperation"})
"""The codes of what the IAM policy does not allow."""

_LACKING_CREDENTIALS = (
    CredentialRetrievalError,
    MetadataRetrievalError,
    NoAuthTokenError,
    NoCredentialsError,
    PartialCredentialsError,
    SSOError,
    TokenRetrievalError,
    UnauthorizedSSOTokenError,
)
_NEVER_SENT = (
    ConnectTimeoutError,
    EndpointConnectionError,
    InvalidEndpointConfigurationError,
    ParamValidationError,
    ProxyConnectionError,
    UnsupportedSignatureVersionError,
)


def judged(failure: Failure, *, call: str, changes: bool) -> Judgement:
    """Return what a failed call means; `changes` says that the call may have done something.

    The error's message names the call and what EC2 said of it; a request is never in it.
    """
    if isinstance(failure, ClientError):
        return _of_answer(failure, call, changes)
    return Judgement(error=_of_silence(failure, call, changes), code="")


def _of_answer(failure: ClientError, call: str, changes: bool) -> Judgement:
    told = failure.response.get("Error", {})
    code, status = str(told.get("Code", "")), _status(failure)
    # Only the first line: where a signature is wrong, the request follows, and the session token
    # is in that.
    message = next(iter(str(told.get("Message", "")).splitlines()), "")
    said = f"{call}: {code}: {message}"[:_MOST_CHARACTERS]
    fault = TABLE.get(code)
    if fault is None:
        # A server that broke down in the middle of it may have done it.
        in_doubt = changes and (status >= 500 or not code)
        fault = _DOUBT if in_doubt else ApiFault(meaning=Meaning.OTHER)
    error = _error(fault, f"{said}; {fault.remedy}" if fault.remedy else said, failure)
    return Judgement(error=error, code=code, elsewhere=fault.elsewhere)


def _error(fault: ApiFault, said: str, failure: ClientError) -> CloudError:
    error: CloudError
    match fault.meaning:
        case Meaning.RATE_LIMIT:
            error = RateLimitError(said, retry_after_s=_retry_after_s(failure))
        case Meaning.QUOTA:
            error = QuotaError(said, scope=fault.scope)
        case Meaning.CAPACITY:
            error = CapacityError(said, scope=fault.scope)
        case Meaning.AUTH:
            error = CloudAuthError(said)
        case Meaning.NOT_FOUND:
            error = InstanceNotFound(said)
        case Meaning.DOUBT:
            error = AmbiguousResult(said)
        case Meaning.OTHER:
            error = CloudError(said)
        case _:
            assert_never(fault.meaning)
    return error


def _of_silence(
    failure: BotoCoreError | ResponseParserError, call: str, changes: bool
) -> CloudError:
    """Return what it means that there was no answer, or none that could be read."""
    said = f"{call}: {failure}"[:_MOST_CHARACTERS]
    if isinstance(failure, _LACKING_CREDENTIALS):
        return CloudAuthError(f"{said}; set access_key_id or profile in driver.parameters")
    if any(isinstance(each, ssl.SSLCertVerificationError) for each in _causes(failure)):
        return CloudError(f"{said}; check driver.parameters.endpoint_url, or trust its authority")
    if changes and not isinstance(failure, _NEVER_SENT):
        return AmbiguousResult(said)
    return CloudError(said)


def _causes(failure: BotoCoreError | ResponseParserError) -> Iterator[object]:
    """Yield what an error was raised for, and what that was raised for, and so on."""
    cause: object = getattr(failure, "kwargs", {}).get("error", failure.__cause__)
    for _ in range(8):
        yield cause
        reason = getattr(cause, "reason", None)
        cause = reason if isinstance(reason, BaseException) else getattr(cause, "__cause__", None)


def _status(failure: ClientError) -> int:
    return int(failure.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0))


def _retry_after_s(failure: ClientError) -> float | None:
    """Return in how many seconds EC2 says that it may answer, None when it does not say."""
    headers = failure.response.get("ResponseMetadata", {}).get("HTTPHeaders", {})
    try:
        told_s = float(headers.get("retry-after", ""))
    except ValueError:
        return None
    return told_s if math.isfinite(told_s) and told_s >= 0 else None
