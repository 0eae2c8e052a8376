"""How an instance proves its host key with the secret that its create call put there; pure.

The host answers HMAC(secret, its key) for each of its own keys. It reads them from its own disk
and is never told a key: a relay could otherwise have the true host sign the relay's key. So the
answer of the true host, passed on by a relay, proves the true host's key and not the relay's.
"""

from __future__ import annotations

import hashlib
import hmac
import shlex
from enum import Enum
from typing import Final, assert_never

from longshore.drivers.errors import BugError

ANSWER_LIMIT_BYTES: Final = 4096

_DOMAIN: Final = b"longshore-host-key-1\0"
_SECRET_DOMAIN: Final = b"longshore-secret-1\0"
_MAX_KEYS: Final = 16
CONTACT_MARK: Final = "contact"
"""File in the runner's directory that a proof leaves, and who keeps the first lease takes away."""

_SECRET_FILE: Final = "instance-secret"  # noqa: S105 - the name of a file, not a password

RUNNER_DIRECTORY: Final = (
    'd="${LONGSHORE_RUNNER_DIR:-}"; '
    'if [ -z "$d" ]; then if [ "$(id -u)" = 0 ]; then d=/var/lib/longshore; '
    'else d="$HOME/.longshore"; fi; fi; '
)
"""Shell that sets `d` to the runner's directory, for the user who runs it."""

_NO_SECRET: Final = 81
_NO_KEYS: Final = 82
_NO_PROGRAM: Final = 127

# No single quotes, since the shell's stand around it; -I keeps the user's Python settings out.
_PROOF_PROGRAM: Final = r"""
import glob, hmac, os, sys
home = "/var/lib/longshore" if os.geteuid() == 0 else os.path.expanduser("~/.longshore")
directory = os.environ.get("LONGSHORE_RUNNER_DIR") or home
try:
    with open(os.path.join(directory, "instance-secret"), "rb") as file:
        secret = file.read(4096).strip()
except OSError as error:
    sys.stderr.write("%s\n" % error)
    sys.exit(81)
if not secret:
    sys.stderr.write("it is empty\n")
    sys.exit(81)
try:
    open(os.path.join(directory, "contact"), "wb").close()
except OSError as error:
    print("no mark of this contact: %s" % error, file=sys.stderr)
pattern = os.environ.get("LONGSHORE_HOST_KEYS") or "/etc/ssh/ssh_host_*_key.pub"
paths = sorted(glob.glob(pattern))[:16]
if not paths:
    sys.stderr.write("%s\n" % pattern)
    sys.exit(82)
print(hmac.new(secret, b"longshore-secret-1\0", "sha256").hexdigest())
for path in paths:
    with open(path, "rb") as file:
        key = b" ".join(file.read(65536).split()[:2])
    print(hmac.new(secret, b"longshore-host-key-1\0" + key, "sha256").hexdigest())
"""


def users_directory(user: str) -> str:
    """Return shell that sets `d` to the directory of the runner of `user`, for them or for root."""
    name = shlex.quote(user)
    return (
        f"{RUNNER_DIRECTORY}\n"
        f'if [ "$(id -u)" = 0 ] && [ {name} != root ] && [ -z "${{LONGSHORE_RUNNER_DIR:-}}" ]; '
        f'then d="$(getent passwd {name} | cut -d: -f6)/.longshore"; fi'
    )


def init_fragment(secret: str, *, user: str = "root") -> str:
    """Return POSIX shell that puts `secret` on an instance, readable by the user we log in as.

    It belongs before the operator's own init command and does not end the script when it fails.
    Run as root for another `user`, it writes to that user's home. Raises `BugError` for an empty
    secret, which would prove nothing.
    """
    if not secret:
        raise BugError("an instance was to be created with an empty secret")
    name = shlex.quote(user)
    return (
        "( umask 077\n"
        f"{users_directory(user)}\n"
        f'mkdir -p "$d" && printf %s {shlex.quote(secret)} > "$d/{_SECRET_FILE}.new" '
        f'&& mv -f "$d/{_SECRET_FILE}.new" "$d/{_SECRET_FILE}"\n'
        f'if [ "$(id -u)" = 0 ] && [ {name} != root ]; '
        f'then chown {name} "$d" "$d/{_SECRET_FILE}"; fi )\n'
    )


def proof_command() -> str:
    """Return the one script that may be sent to a host whose key is not proven: constant text."""
    return f"python3 -I -c '{_PROOF_PROGRAM}'"


def void_command() -> str:
    """Return shell that deletes the secret on the host, once its key is pinned; twice is fine."""
    return f'{RUNNER_DIRECTORY}rm -f "$d/{_SECRET_FILE}"'


def is_proof(secret: str, host_key: str, answer: bytes) -> bool:
    """Return whether `answer` proves that `host_key` ("TYPE BASE64") is the instance's own.

    One line in it must be the right one, since a host has several keys. Nothing is proven by an
    empty secret, nor by an answer longer than `ANSWER_LIMIT_BYTES`; a malformed one is just wrong.
    """
    if not secret or not host_key or len(answer) > ANSWER_LIMIT_BYTES:
        return False
    digest = hmac.new(secret.encode(), _DOMAIN + host_key.encode(), hashlib.sha256).hexdigest()
    expected = digest.encode()
    proven = False
    for line in answer.split(b"\n")[: _MAX_KEYS + 1]:
        # Every line is compared, so that the time taken does not tell which one was close.
        proven |= hmac.compare_digest(line.strip(), expected)
    return proven


class UnprovenCause(Enum):
    """Why an instance did not prove its host key, as far as what it said tells."""

    NO_PYTHON = "no python3"
    SECRET_MISSING = "it is missing"  # noqa: S105 - a cause, no password
    SECRET_WRONG = "it is another"  # noqa: S105 - a cause, no password
    NO_KEYS = "no keys"
    OTHER_KEY = "another key"
    UNKNOWN = "unknown"


def unproven_cause(secret: str, *, exit_status: int, answer: bytes) -> UnprovenCause:
    """Return why the proof command's answer, which proves nothing, does not."""
    match exit_status:
        case 0:
            first = answer.split(b"\n", 1)[0].strip()
            known = hmac.new(secret.encode(), _SECRET_DOMAIN, hashlib.sha256).hexdigest()
            if secret and hmac.compare_digest(first, known.encode()):
                return UnprovenCause.OTHER_KEY
            return UnprovenCause.SECRET_WRONG
        case _ if exit_status == _NO_PROGRAM:
            return UnprovenCause.NO_PYTHON
        case _ if exit_status == _NO_SECRET:
            return UnprovenCause.SECRET_MISSING
        case _ if exit_status == _NO_KEYS:
            return UnprovenCause.NO_KEYS
        case _:
            return UnprovenCause.UNKNOWN


def say_unproven(cause: UnprovenCause) -> str:
    """Return in words why an instance did not prove its host key, and what would do."""
    match cause:
        case UnprovenCause.NO_PYTHON:
            return (
                "there is no python3 that the SSH user finds: the image needs Python 3.8 or later"
            )
        case UnprovenCause.SECRET_MISSING:
            return (
                "the secret that its init script puts there is not there: the script has not run"
                " (yet), or not as root or the SSH user"
            )
        case UnprovenCause.SECRET_WRONG:
            return "the secret that lies there is not the one of its create call"
        case UnprovenCause.NO_KEYS:
            return (
                "no public host keys lie where they are looked for: the image must have them there,"
                " or say by LONGSHORE_HOST_KEYS in the SSH user's environment where they are"
            )
        case UnprovenCause.OTHER_KEY:
            return (
                "it knows its secret, and the key that its SSH server shows is none of those in"
                " /etc/ssh/ssh_host_*_key.pub (or what LONGSHORE_HOST_KEYS says): they belong"
                " together, unless somebody sits in between"
            )
        case UnprovenCause.UNKNOWN:
            return "what it answers is no proof"
        case _:
            assert_never(cause)
