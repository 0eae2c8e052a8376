"""Secrets of attempts as files: in shared memory, for their own user, no longer than they run.

There are two places. What runs without a container reads its files where they lie, as a user who is
not let into the spool: `SPOOL-secrets/ATTEMPT`, in which nobody but that user finds anything, and
whose parent nobody can list. What runs in a container gets a directory of the spool mounted,
`SPOOL/secrets/ATTEMPT/files`, which no other user reaches by its path. Beside it is `auth`, the
login for the fetching of the image, which is removed as soon as that is done.

The supervisor removes all of it before it tells of the end; what it could not is removed with the
attempt, or when a session begins. Nothing of it is ever written to a disk: without shared memory an
attempt with files or logins is refused.
"""

from __future__ import annotations

import base64
import contextlib
import json
import os
import shutil
from typing import NamedTuple

from longshore.pool.runner.spool import Spool, own_directory
from longshore.pool.runner.wire import Refusal, SecretsOrder

VARIABLE = b"LONGSHORE_SECRETS_DIR"
MOUNTED_AT = "/run/longshore-secrets"
_DOCKER_HUB = "docker.io"
_DOCKER_HUB_KEY = "https://index.docker.io/v1/"


class SecretPlaces(NamedTuple):
    """Where the secrets of one attempt lie; "" for what it has none of."""

    #: All of it, to be removed at the end.
    top: str = ""
    files: str = ""
    auth: str = ""


def places(spool: Spool, attempt_id: str, secrets: SecretsOrder, *, bare: bool) -> SecretPlaces:
    """Return where an attempt's secrets are to lie; Refusal where there is no memory for them."""
    if not secrets.files and not secrets.registries:
        return SecretPlaces()
    if not spool.is_in_memory:
        raise Refusal("secrets", "there is no shared memory (/dev/shm, tmpfs) to keep secrets in")
    if bare:
        top = os.path.join(_apart(spool), attempt_id)
        return SecretPlaces(top, top)
    top = os.path.join(_within(spool), attempt_id)
    return SecretPlaces(
        top,
        os.path.join(top, "files") if secrets.files else "",
        os.path.join(top, "auth") if secrets.registries else "",
    )


class Readers(NamedTuple):
    """Who reads an attempt's files: the user, -1 for ours; `everybody` who reaches them."""

    uid: int = -1
    gid: int = -1
    everybody: bool = False


def write(spool: Spool, where: SecretPlaces, secrets: SecretsOrder, readers: Readers) -> None:
    """Write an attempt's secrets; OSError when that cannot be, and what was written is left."""
    if not where.top:
        return
    parent = os.path.dirname(where.top)
    own_directory(parent)
    if parent == _apart(spool):
        os.chmod(parent, 0o711)  # noqa: S103 - to pass through is neither to list nor to read
    os.mkdir(where.top, 0o700)
    if where.files:
        _write_files(os.fsencode(where.files), secrets, readers)
    if where.auth:
        os.mkdir(where.auth, 0o700)
        _write(os.fsencode(os.path.join(where.auth, "config.json")), _logins(secrets))


def _write_files(directory: bytes, secrets: SecretsOrder, readers: Readers) -> None:
    os.makedirs(directory, mode=0o700, exist_ok=True)
    paths = [os.path.join(directory, name) for name, _ in secrets.files]
    for path, (_, value) in zip(paths, secrets.files):
        _write(path, value)
    if readers.everybody:
        # Below a directory that is ours alone: it is the users of one container.
        for path in paths:
            os.chmod(path, 0o444)
        os.chmod(directory, 0o755)  # noqa: S103 - see above
    elif readers.uid >= 0:
        for path in (*paths, directory):
            os.chown(path, readers.uid, readers.gid)


def remove(spool: Spool, attempt_id: str) -> None:
    """Remove an attempt's secrets; having none is no error."""
    for parent in (_apart(spool), _within(spool)):
        if os.path.lexists(os.path.join(parent, attempt_id)):
            shutil.rmtree(os.path.join(parent, attempt_id))
    # The one that lies beside the spool goes with the last of them.
    with contextlib.suppress(OSError):
        os.rmdir(_apart(spool))


def sweep(spool: Spool) -> None:
    """Remove the secrets of attempts that are not known, as of a runner that died over a start."""
    for parent in (_apart(spool), _within(spool)):
        with contextlib.suppress(FileNotFoundError):  # nobody has had secrets yet
            for name in sorted(os.listdir(parent)):
                if spool.read(name) is None:
                    remove(spool, name)


def _apart(spool: Spool) -> str:
    return f"{spool.places.spool}-secrets"


def _within(spool: Spool) -> str:
    return os.path.join(spool.places.spool, "secrets")


def _write(path: bytes, value: bytes) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o400)
    try:
        rest = memoryview(value)
        while rest:
            rest = rest[os.write(descriptor, rest) :]
    finally:
        os.close(descriptor)


def _logins(secrets: SecretsOrder) -> bytes:
    """Return the file of logins as both engines read it."""
    auths = {}
    for registry, login in secrets.registries:
        told = {"auth": base64.b64encode(login).decode()}
        auths[registry.decode()] = told
        if registry.decode() == _DOCKER_HUB:
            auths[_DOCKER_HUB_KEY] = told
    return json.dumps({"auths": auths}).encode()
