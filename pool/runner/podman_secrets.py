"""Values of an environment that no line of a file can hold, as secrets of Podman's.

Podman reads each from a file of the attempt's in the spool, called as the secret is, so neither its
command line nor its own environment holds anything of it. Such a secret lasts as long as the record
of its attempt, as the container does; one of an attempt that the spool forgot is removed as its
container is.
"""

from __future__ import annotations

import hashlib
import os

from longshore.pool.runner.spool import Spool

MAX_SECRETS = 32  # each is a client of Podman's that runs before the container can


def secret_name(spool: Spool, attempt_id: str, index: int) -> str:
    """Return the name of an attempt's secret: it is the machine's, and has 64 characters."""
    digest = hashlib.sha256(attempt_id.encode()).hexdigest()[:16]
    return f"{spool.places.name}-{digest}-{index}"


def secrets_of(spool: Spool, directory: str) -> list[str]:
    """Return the names of the secrets of the attempt in a directory, made already or not."""
    try:
        names = os.listdir(directory)
    except FileNotFoundError:
        return []
    return sorted(name for name in names if name.startswith(_prefix(spool)))


def left_behind(spool: Spool, names: list[str]) -> list[str]:
    """Return those of these secrets that are this spool's, and of no attempt that it knows."""
    directories = [spool.path(each.attempt_id) for each in spool.attempts()]
    known = {name for directory in directories for name in secrets_of(spool, directory)}
    return [name for name in names if name.startswith(_prefix(spool)) and name not in known]


def _prefix(spool: Spool) -> str:
    return f"{spool.places.name}-"
