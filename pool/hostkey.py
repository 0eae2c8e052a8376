"""How an instance proves its host key with the secret that its create call put there; pure.

The host answers HMAC(secret, its key) for each of its own keys. It reads them from its own disk
and is never told a key: a relay could otherwise have the true host sign the relay's key. So the
answer of the true host, passed on by a relay, proves the true host's key and not the relay's.
"""

from __future__ import annotations

import hashlib
import hmac
import shlex
from typing import Final

from drivers.errors import BugError

ANSWER_LIMIT_BYTES: Final = 4096

_DOMAIN: Final = b"longshore-host-key-1\0"
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

# No single quotes, since the shell's stand around it; -I keeps the user's Python settings out.
_PROOF_PROGRAM: Final = r"""
import glob, hmac, os, sys
home = "/var/lib/longshore" if os.geteuid() == 0 else os.path.expanduser("~/.longshore")
directory = os.environ.get("LONGSHORE_RUNNER_DIR") or home
try:
    with open(os.path.join(directory, "instance-secret"), "rb") as file:
        secret = file.read(4096).strip()
except OSError as error:
    sys.exit("no instance secret: %s" % error)
if not secret:
    sys.exit("the instance secret is empty")
try:
    open(os.path.join(directory, "contact"), "wb").close()
except OSError as error:
    print("no mark of this contact: %s" % error, file=sys.stderr)
pattern = os.environ.get("LONGSHORE_HOST_KEYS") or "/etc/ssh/ssh_host_*_key.pub"
for path in sorted(glob.glob(pattern))[:16]:
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
    """Return the one command that may be sent to a host whose key is not proven: constant text."""
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
    for line in answer.split(b"\n")[:_MAX_KEYS]:
        # Every line is compared, so that the time taken does not tell which one was close.
        proven |= hmac.compare_digest(line.strip(), expected)
    return proven
