"""The lines of the session: cutting them, reading them, and what a valid order is."""

from __future__ import annotations

import json
import os
import re
from typing import Any, NamedTuple

PROTOCOL = 1
MAX_LINE_BYTES = 1 << 20
MAX_CPU_MILLIS = (
    1_000_000_000  # no machine has so many; the kernel takes some hundred times as much
)
FILE_NAME = re.compile(r"(?!\.{1,2}\Z)[A-Za-z0-9._-]{1,63}")
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")


class ProtocolError(Exception):
    """The far side does not speak the protocol; the session ends with this message."""


class Refusal(Exception):  # noqa: N818 - it answers a request, it is no fault of the program
    """A request is answered with `ok: false`, this stable code and this message."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


class SecretsOrder(NamedTuple):
    """The values of an attempt's secrets, as (name, value) pairs; no message repeats any."""

    env: tuple[tuple[bytes, bytes], ...] = ()
    files: tuple[tuple[bytes, bytes], ...] = ()
    #: The value is "USER:PASSWORD".
    registries: tuple[tuple[bytes, bytes], ...] = ()


class StartOrder(NamedTuple):
    """One attempt to start."""

    attempt_id: str
    container_id: str
    image: str
    #: May be empty with an image, for its own.
    command: tuple[bytes, ...]
    #: (name, value) pairs.
    env: tuple[tuple[bytes, bytes], ...]
    #: Limits; 0 is none.
    cpu_millis: int
    memory_bytes: int
    #: Whether it lives as long as its instance does: no lease waits for it.
    resident: bool = False
    #: Takes the place of the image's, () for none.
    entrypoint: tuple[bytes, ...] | None = None
    #: Whether it has an init as process 1, if the engine has one.
    init: bool = True
    secrets: SecretsOrder = SecretsOrder()
    #: Whether it finds the dispatcher's API inside.
    api: bool = False


class LineBuffer:
    """Cuts a stream of bytes into lines of limited length."""

    def __init__(self) -> None:
        self._rest = bytearray()

    def feed(self, data: bytes) -> list[bytes]:
        """Take more bytes and return the lines that are complete now.

        Raises ProtocolError as soon as a line is longer than 1 MiB, complete or not.
        """
        searched = len(self._rest)
        self._rest += data
        if b"\n" not in data:
            self._check(len(self._rest))
            return []
        end = self._rest.rindex(b"\n", searched) + 1
        lines = bytes(self._rest[:end]).split(b"\n")[:-1]
        del self._rest[:end]
        self._check(max(map(len, lines)))
        self._check(len(self._rest))
        return lines

    def _check(self, length: int) -> None:
        if length > MAX_LINE_BYTES:
            raise ProtocolError(f"a line is longer than {MAX_LINE_BYTES} bytes")


def encode(message: dict[str, Any]) -> bytes:
    """Return a message as one line."""
    return json.dumps(message, separators=(",", ":")).encode() + b"\n"


def decode(line: bytes) -> dict[str, Any]:
    """Return the object on a line; ProtocolError when there is none."""
    try:
        message = json.loads(line.decode("utf-8"))
    except (ValueError, RecursionError) as error:
        raise ProtocolError(f"a line is not JSON: {type(error).__name__}") from error
    if not isinstance(message, dict):
        raise ProtocolError("a line is not a JSON object")
    return message


def text_field(message: dict[str, Any], field: str) -> str:
    """Return a text field of a request; Refusal when it is missing or of another type."""
    value = message.get(field)
    if not isinstance(value, str):
        raise Refusal("invalid", f"{field} must be text")
    return value


def count_field(message: dict[str, Any], field: str) -> int:
    """Return a whole, non-negative number (0 when missing); Refusal for anything else."""
    value = message.get(field, 0)
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < 1 << 62:
        raise Refusal("invalid", f"{field} must be a whole number, not negative")
    return value


def seconds_field(message: dict[str, Any], field: str, *, missing: float) -> float:
    """Return a length of time, `missing` when it is missing; Refusal for anything else."""
    value = message.get(field, missing)
    # Not a number, and without end, fail the comparison too.
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value <= 1e9:
        raise Refusal("invalid", f"{field} must be seconds, not negative")
    return float(value)


def flag_field(message: dict[str, Any], field: str, *, missing: bool | None = None) -> bool:
    """Return true or false, `missing` when it is missing; Refusal for anything else."""
    value = message.get(field, missing)
    if not isinstance(value, bool):
        raise Refusal("invalid", f"{field} must be true or false")
    return value


def cpus_field(message: dict[str, Any]) -> int:
    """Return `cpu_millis` (0 when missing); Refusal for what no kernel would take."""
    cpu_millis = count_field(message, "cpu_millis")
    if cpu_millis > MAX_CPU_MILLIS:
        raise Refusal("invalid", f"cpu_millis must not be more than {MAX_CPU_MILLIS}")
    return cpu_millis


def name_field(message: dict[str, Any], field: str) -> str:
    """Return an id that may be part of a file name; Refusal for anything else."""
    value = text_field(message, field)
    if not NAME.fullmatch(value):
        raise Refusal("invalid", f"{field} must be letters, digits, dots, dashes, at most 128")
    return value


def parse_order(value: object) -> StartOrder:
    """Return the order in a start request; Refusal "invalid" says what is wrong with it."""
    if not isinstance(value, dict):
        raise Refusal("invalid", "attempt must be an object")
    image = text_field(value, "image")
    if image.startswith("-") or len(image) > 4096:
        raise Refusal("invalid", "image must not begin with a dash nor be longer than 4096")
    _raw("image", image)
    entrypoint = value.get("entrypoint")
    return StartOrder(
        attempt_id=name_field(value, "attempt_id"),
        container_id=text_field(value, "container_id"),
        image=image,
        command=_parse_words("command", value.get("command", [])),
        env=_parse_env(value.get("env", {})),
        cpu_millis=cpus_field(value),
        memory_bytes=count_field(value, "memory_bytes"),
        resident=flag_field(value, "resident", missing=False),
        init=flag_field(value, "init", missing=True),
        api=flag_field(value, "api", missing=False),
        entrypoint=None if entrypoint is None else _parse_words("entrypoint", entrypoint),
        secrets=_parse_secrets(value.get("secrets", {})),
    )


def _parse_secrets(value: object) -> SecretsOrder:
    if not isinstance(value, dict) or not set(value) <= set(SecretsOrder._fields):
        raise Refusal("invalid", "secrets must be an object of env, files and registries")
    found = {name: _parse_env(value.get(name, {}), name) for name in SecretsOrder._fields}
    if any(not FILE_NAME.fullmatch(os.fsdecode(name)) for name, _ in found["files"]):
        raise Refusal("invalid", "a file of secrets is not called as one can be")
    return SecretsOrder(**found)


def _parse_words(field: str, value: object) -> tuple[bytes, ...]:
    if not isinstance(value, list):
        raise Refusal("invalid", f"{field} must be a list")
    return tuple(_raw(field, word) for word in value)


def _parse_env(value: object, field: str = "env") -> tuple[tuple[bytes, bytes], ...]:
    if not isinstance(value, dict):
        raise Refusal("invalid", f"{field} must be an object")
    if any(not name or "=" in name for name in value):
        raise Refusal("invalid", f"a name in {field} is empty or holds an equals sign")
    return tuple((_raw(field, name), _raw(field, value[name])) for name in sorted(value))


def _raw(field: str, value: object) -> bytes:
    if not isinstance(value, str):
        raise Refusal("invalid", f"{field} must hold text only")
    try:
        raw = value.encode("utf-8")
    except UnicodeEncodeError as error:
        raise Refusal("invalid", f"{field} holds half a surrogate pair") from error
    if b"\0" in raw:
        raise Refusal("invalid", f"{field} holds a zero byte, which no program can be given")
    return raw
