"""The lines of the session between dispatcher and runner (docs/session-protocol.md), as types."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Final, Literal

import msgspec

from longshore.drivers.errors import LongshoreError
from longshore.pool.model import (
    MOST_NAME,
    MOST_WORDS,
    NO_SECRET_VALUES,
    AttemptExit,
    AttemptImage,
    AttemptOrder,
    AttemptReport,
    MachineSize,
    SecretValues,
)
from longshore.pool.usage import MOST_BYTES

PROTOCOL: Final = 1
MAX_LINE_BYTES: Final = 1024 * 1024

Offset = Annotated[int, msgspec.Meta(ge=0, le=MOST_BYTES)]
Words = Annotated[str, msgspec.Meta(max_length=MOST_WORDS)]
Name = Annotated[str, msgspec.Meta(max_length=MOST_NAME)]
Stream = Literal["stdout", "stderr"]


class MalformedMessageError(LongshoreError):
    """The far end sent what the protocol does not know; its session cannot go on."""


class Hello(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", tag="hello"):
    """The runner's first message: who it is, and every attempt that it knows.

    `machine` is None from a runner that does not say what its machine has.
    """

    protocol: int
    cluster: str
    epoch: int
    runner_sha256: str
    boot_id: Name
    engine: Name
    attempts: tuple[AttemptReport, ...]
    broken: Words = ""
    advice: Words = ""
    machine: MachineSize | None = None


class Refused(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", tag="refused"):
    """The runner's first and last message when it does not take the session."""

    code: Name
    message: Words


class Reply(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", tag="reply"):
    """The answer to a request."""

    #: The request's.
    id: int
    ok: bool
    #: Why it is not `ok`: a code, and a sentence.
    code: Name = ""
    message: Words = ""


class Exited(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", tag="exited"):
    """An attempt has ended."""

    attempt_id: Name
    container_id: Name
    exit: AttemptExit


class ImageNews(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", tag="image"):
    """More is known of the image of an attempt."""

    attempt_id: Name
    container_id: Name
    image: AttemptImage


class LogChunk(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", tag="log"):
    """A piece of an attempt's log that begins at `offset` of its stream."""

    attempt_id: Name
    stream: Stream
    offset: Offset
    data: bytes


class Heartbeat(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", tag="heartbeat"):
    """A sign of life; `broken` is "" or the reason to give the instance no more work."""

    live: tuple[str, ...] = ()
    load: float = 0.0
    memory_free_bytes: Offset = 0
    disk_free_bytes: Offset = 0
    broken: Words = ""


class Interruption(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", tag="interruption"):
    """The cloud takes the instance back at `at` ("2026-01-31T23:59:59Z")."""

    at: Annotated[str, msgspec.Meta(pattern=r"\A[0-9]{4}(-[0-9]{2}){2}T([0-9]{2}:){2}[0-9]{2}Z\Z")]


ExchangeNumber = Annotated[int, msgspec.Meta(ge=1, le=MOST_BYTES)]


class ApiRequest(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", tag="api_request"):
    """A program inside of an attempt asks the API for something; its body follows, if any."""

    exchange: ExchangeNumber
    attempt_id: Name
    method: Literal["GET", "POST", "PUT", "PATCH", "DELETE"]
    path: Annotated[str, msgspec.Meta(max_length=8192, pattern=r"\A/[!-\"$-~]*\Z")]
    headers: dict[
        Literal["accept", "content-type", "idempotency-key"],
        Annotated[str, msgspec.Meta(max_length=16_384, pattern=r"\A[ -~]*\Z")],
    ]
    length: Annotated[int, msgspec.Meta(ge=0, le=16 * 1024 * 1024)]


class ApiBody(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", tag="api_body"):
    """The next piece of the body of an `ApiRequest`."""

    exchange: ExchangeNumber
    data: bytes


class ApiGone(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", tag="api_gone"):
    """Nobody waits for the answer to an `ApiRequest` any more."""

    exchange: ExchangeNumber


class Listing(msgspec.Struct, frozen=True, kw_only=True):
    """What `runner list` prints."""

    protocol: int
    cluster: str
    boot_id: Name
    engine: Name
    attempts: tuple[AttemptReport, ...]
    broken: Words = ""
    advice: Words = ""
    machine: MachineSize | None = None


class EngineTrial(msgspec.Struct, frozen=True, kw_only=True):
    """What `runner trial` prints; `problem` is why its engine does not work, "" when it does."""

    protocol: int
    cluster: str
    problem: Words


AttemptPush = Exited | ImageNews | LogChunk | Heartbeat | Interruption
"""What is told of attempts and of the instance."""
ApiPush = ApiRequest | ApiBody | ApiGone
"""What programs inside of attempts ask for."""
Push = AttemptPush | ApiPush
Message = Hello | Refused | Reply | Push

_MESSAGES: Final[msgspec.json.Decoder[Message]] = msgspec.json.Decoder(Message)
_LISTINGS: Final = msgspec.json.Decoder(Listing)
_TRIALS: Final = msgspec.json.Decoder(EngineTrial)


def decode_message(line: bytes) -> Message:
    """Return the message of one line; raises `MalformedMessageError` with what is wrong."""
    try:
        return _MESSAGES.decode(line)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise MalformedMessageError(f"a malformed message ({error}): {line[:200]!r}") from error


def decode_listing(output: bytes, cluster: str) -> Listing:
    """Return what `runner list` printed.

    Raises `MalformedMessageError` with what is wrong, also when it is not for `cluster`.
    """
    try:
        listing = _LISTINGS.decode(output)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise MalformedMessageError(f"a malformed listing ({error}): {output[:200]!r}") from error
    if listing.protocol != PROTOCOL:
        raise MalformedMessageError(
            f"a listing of protocol {listing.protocol} instead of {PROTOCOL}"
        )
    if listing.cluster != cluster:
        raise MalformedMessageError(
            f"a listing of cluster {listing.cluster!r} instead of {cluster!r}"
        )
    return listing


def decode_trial(output: bytes) -> EngineTrial:
    """Return what `runner trial` printed; raises `MalformedMessageError` with what is wrong."""
    try:
        return _TRIALS.decode(output)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise MalformedMessageError(f"a malformed trial ({error}): {output[:200]!r}") from error


def encode_line(fields: Mapping[str, object]) -> bytes:
    """Return one line; the caller minds its length."""
    return msgspec.json.encode(fields) + b"\n"


def order_fields(
    order: AttemptOrder, secrets: SecretValues = NO_SECRET_VALUES
) -> dict[str, object]:
    """Return the `attempt` of a start request, with the values of its secrets."""
    entrypoint = {} if order.entrypoint is None else {"entrypoint": order.entrypoint}
    return {
        "attempt_id": order.attempt_id,
        "container_id": order.container_id,
        "image": order.image,
        "command": order.command,
        **entrypoint,
        "init": order.init,
        "env": dict(order.env),
        "cpu_millis": order.cpu_millis,
        "memory_bytes": order.memory_bytes,
        "resident": order.resident,
        **_secret_fields(secrets),
        "api": order.api,
    }


def _secret_fields(secrets: SecretValues) -> dict[str, object]:
    if secrets == NO_SECRET_VALUES:
        return {}
    fields = {"env": secrets.env, "files": secrets.files, "registries": secrets.registries}
    return {"secrets": {name: dict(pairs) for name, pairs in fields.items()}}


class LineSplitter:
    """Cuts a stream of bytes into lines of bounded length."""

    def __init__(self) -> None:
        self._partial = bytearray()

    def feed(self, data: bytes) -> list[bytes]:
        """Return the lines that `data` completes, without their ends.

        Raises `MalformedMessageError` when a line gets longer than 1 MiB.
        """
        pieces = data.split(b"\n")
        if len(self._partial) + len(pieces[0]) > MAX_LINE_BYTES:
            raise MalformedMessageError(f"a line of more than {MAX_LINE_BYTES} bytes")
        self._partial += pieces[0]
        if len(pieces) == 1:
            return []
        lines = [bytes(self._partial), *pieces[1:-1]]
        if any(len(line) > MAX_LINE_BYTES for line in (*lines, pieces[-1])):
            raise MalformedMessageError(f"a line of more than {MAX_LINE_BYTES} bytes")
        self._partial = bytearray(pieces[-1])
        return lines
