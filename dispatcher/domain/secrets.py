"""Secrets as they are kept: encrypted, by project and name; and who has to wait for one.

No value is here, and none in any other value of the core: specifications have references and
ciphertext, which only the box in `store/secret_box.py` can open, at the moment of a start. What the
engine is told is which of them could be opened now (`KnownSecrets`), so that nothing is bought or
begun for a container whose secrets are gone.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from longshore.dispatcher.domain.containers import Container, WaitReason

SECRETS_PER_CONTAINER_MOST = 16
SECRET_MOST_BYTES = 32 * 1024
SECRETS_PER_PROJECT_MOST = 500
SECRETS_MOST = 5_000
"""How many there may be in all: the server has them in memory, encrypted."""

_TOLD = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredSecret:
    """A secret as the store has it."""

    project: str
    name: str
    ciphertext: str = field(repr=False)
    #: In seconds since the epoch.
    updated_at: float
    #: The user who set it last.
    updated_by: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DataKey:
    """A key that values are encrypted with, itself encrypted with those of the key file."""

    id: str
    ciphertext: str = field(repr=False)
    #: In seconds since the epoch.
    created_at: float


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownSecrets:
    """Which secrets could be opened now, by project and name, and with which data keys."""

    readable: frozenset[tuple[str, str]] = frozenset()
    #: Those that are there, and whose key is not.
    locked: frozenset[tuple[str, str]] = frozenset()
    #: The ids of the data keys that can be opened.
    keys: frozenset[str] = frozenset()


NO_SECRETS_KNOWN = KnownSecrets()


def data_key_of(ciphertext: str) -> str:
    """Return the id of the data key that something was encrypted with."""
    return ciphertext.partition(".")[0]


def has_secrets(container: Container) -> bool:
    """Return whether a container is given any secret, named or in its environment."""
    return bool(container.spec.secrets or container.spec.sealed_env)


def why_withheld(container: Container, known: KnownSecrets) -> WaitReason | None:
    """Return why a container has to wait for its secrets, None when all could be opened now."""
    spec, project = container.spec, container.project
    wanted = sorted({(project, each.secret) for each in spec.secrets} - known.readable)
    gone = [
        name
        for project_and_name in wanted
        if project_and_name not in known.locked
        for name in project_and_name[1:]
    ]
    if gone:
        named = _listed(gone)
        message = (
            f"there is no secret {named} in project {project} any more: set it again"
            f" (longshore secret set {gone[0]} --project {project}), or cancel this container"
        )
        return WaitReason(code="secrets", message=message, topic="gone")
    locked = [name for _, name in wanted]
    locked += [name for name, sealed in spec.sealed_env if data_key_of(sealed) not in known.keys]
    if not locked:
        return None
    message = (
        f"the key to {_listed(locked)} is missing, so that it cannot be decrypted: an admin has to"
        " put back the key file (secrets.key_file)"
    )
    return WaitReason(code="secrets", message=message, topic="locked")


def _listed(names: Iterable[str]) -> str:
    every = list(names)
    more = f" and {len(every) - _TOLD} more" if len(every) > _TOLD else ""
    return f"{', '.join(repr(name) for name in every[:_TOLD])}{more}"
