"""Secrets as they are kept: encrypted, by project and name; and who has to wait for one.

No value is here, and none in any other value of the core: specifications have references and
ciphertext, which only the box in `store/secret_box.py` can open, at the moment of a start. What the
engine is told is which of them could be opened now (`KnownSecrets`), so that nothing is bought or
begun for a container whose secrets are gone.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from longshore.dispatcher.domain.containers import Container, WaitReason

SECRETS_PER_CONTAINER_MOST = 16
SECRET_MOST_BYTES = 32 * 1024
SECRETS_PER_PROJECT_MOST = 500
SECRETS_MOST = 5_000
"""How many there may be in all: the server has them in memory, encrypted."""

KEY_MISSING = "locked"
"""The topic of the reason of who waits for the key to a secret that is there."""

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
    gone = [name for _, name in wanted if (project, name) not in known.locked]
    locked = [name for _, name in wanted if (project, name) in known.locked]
    sealed = [name for name, sealed in spec.sealed_env if data_key_of(sealed) not in known.keys]
    told = [
        *([_gone(gone, project)] if gone else []),
        *([_locked(locked, sealed, project)] if locked or sealed else []),
    ]
    if not told:
        return None
    topic = "gone" if gone else KEY_MISSING
    return WaitReason(code="secrets", message="; besides, ".join(told), topic=topic)


def _gone(names: Sequence[str], project: str) -> str:
    """Return what is said of secrets that are not there, with what mends it."""
    there, it = ("is no secret", "it") if len(names) == 1 else ("are no secrets", "them")
    return (
        f"there {there} {_listed(names)} in project {project} any more: set {it} again"
        f" ({_command(names, project)}), or cancel this container"
    )


def _locked(names: Sequence[str], variables: Sequence[str], project: str) -> str:
    """Return what is said of values that cannot be decrypted, with what mends it.

    `variables` are those of its environment that have a secret value.
    """
    values, again = [], []
    if names:
        secrets, it = ("secret", "it") if len(names) == 1 else ("secrets", "them")
        values.append(f"{secrets} {_listed(names)} of project {project}")
        again.append(f"set {it} again ({_command(names, project)})")
    if variables:
        values.append(f"the secret value of {_listed(variables)} in its env")
        again.append("submit this container again")
    return (
        f"the key to {' and '.join(values)} is missing: an admin has to put back the key file"
        " (secret_keys in the data directory, or secrets.key_file); if that file is lost,"
        " make a new key (longshore secret rotate-keys), and then"
        f" {' and '.join(again)}"
    )


def _command(names: Sequence[str], project: str) -> str:
    """Return the command that sets a secret; of several, the one for each of them."""
    which = names[0] if len(names) == 1 else "NAME"
    return f"longshore secret set {which} --project {shlex.quote(project)}"


def _listed(names: Iterable[str]) -> str:
    every = list(names)
    more = f" and {len(every) - _TOLD} more" if len(every) > _TOLD else ""
    return f"{', '.join(repr(name) for name in every[:_TOLD])}{more}"
