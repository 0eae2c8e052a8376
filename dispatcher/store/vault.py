"""The secrets of all projects in memory, encrypted, and the box that opens them.

One process has the store open, so what it read at its start and has written since is what there is:
a start of an attempt looks secrets up here, without waiting for the disk. Reading is safe from any
thread, since every part is replaced and none changed; changing belongs to the loop's thread.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import structlog
from cryptography.fernet import Fernet

from longshore.dispatcher.domain.messages import SaveSecrets
from longshore.dispatcher.domain.secrets import KnownSecrets, StoredSecret, data_key_of
from longshore.dispatcher.store.secret_box import (
    KeyFile,
    SecretBox,
    SecretDamaged,
    SecretLocked,
    place_in_env,
    place_of_secret,
)
from longshore.dispatcher.store.store import Store
from longshore.drivers.errors import ConfigError
from longshore.pool.model import SecretKind, SecretOrder, SecretUse, SecretValues
from longshore.pool.remote.secret_source import SecretsUnusable, SecretsWithheld

log = structlog.get_logger(__name__)

_OPEN_TIMEOUT_S = 60.0


class Vault:
    """What there is of secrets; implements `SecretSource`."""

    def __init__(
        self,
        store: Store,
        key_file: KeyFile,
        box: SecretBox,
        secrets: Mapping[tuple[str, str], StoredSecret],
    ) -> None:
        """Use `open_vault`."""
        self.store = store
        self.key_file = key_file
        self.box = box
        self.secrets = secrets

    def known(self) -> KnownSecrets:
        """Return which secrets could be opened now."""
        keys = self.box.key_ids
        readable = {at for at, each in self.secrets.items() if data_key_of(each.ciphertext) in keys}
        return KnownSecrets(
            readable=frozenset(readable),
            locked=frozenset(self.secrets.keys() - readable),
            keys=keys,
        )

    def key_file_problem(self) -> str:
        """Return why a start could not open what can be opened now, "" where it could.

        Reads the key file, and so blocks; from any thread.
        """
        box, path = self.box, self.key_file.path
        try:
            keys = self.key_file.read()
        except ConfigError as error:
            why = "; ".join(told for _, told in error.problems)
        else:
            why = f"{path} has other keys" if keys else f"{path} is gone, or empty"
            if box.is_opened_by(keys):
                return ""
        # A rotation that went on meanwhile has made the keys others.
        return why if self.box is box else ""

    def put(self, secret: StoredSecret) -> None:
        """Take in a secret that is committed."""
        self.secrets = {**self.secrets, (secret.project, secret.name): secret}

    def drop(self, project: str, name: str) -> None:
        """Forget a secret whose removal is committed."""
        self.secrets = {at: each for at, each in self.secrets.items() if at != (project, name)}

    def seal_variable(self, name: str, value: str) -> str:
        """Return the value of a variable encrypted; raises `SecretLocked` where nothing can be."""
        return self.box.seal(value, place=place_in_env(name))

    def values(self, order: SecretOrder) -> SecretValues:
        """Return the values for a start; see `SecretSource`."""
        found: dict[SecretKind, list[tuple[str, str]]] = {kind: [] for kind in SecretKind}
        for name, sealed in order.sealed_env:
            value = self._opened(sealed, place_in_env(name), f"the secret value of {name}")
            found[SecretKind.ENV].append((name, value))
        for use in order.uses:
            found[use.kind].append((use.target, self._used(order.project, use)))
        return SecretValues(
            env=tuple(sorted(found[SecretKind.ENV])),
            files=tuple(sorted(found[SecretKind.FILE])),
            registries=tuple(sorted(found[SecretKind.REGISTRY])),
        )

    def _used(self, project: str, use: SecretUse) -> str:
        stored = self.secrets.get((project, use.secret))
        what = f"the secret {use.secret!r} of project {project}"
        if stored is None:
            raise SecretsWithheld(f"{what} is not there any more")
        value = self._opened(stored.ciphertext, place_of_secret(project, use.secret), what)
        if use.kind is SecretKind.REGISTRY and not all(value.partition(":")[::2]):
            raise SecretsUnusable(f"{what} is no login: set it to USER:PASSWORD")
        if use.kind is SecretKind.ENV and "\0" in value:
            raise SecretsUnusable(f"{what} has a zero byte, as no variable can: use it as a file")
        return value

    def _opened(self, ciphertext: str, place: str, what: str) -> str:
        try:
            return self.box.open(ciphertext, place=place)
        except SecretLocked:
            raise SecretsWithheld(f"the key to {what} is missing") from None
        except SecretDamaged as error:
            raise SecretsUnusable(f"{what} cannot be decrypted: {error}") from None


def open_vault(store: Store, path: Path, now: Callable[[], float]) -> Vault:
    """Return what there is of secrets in a store, with the keys in the file at `path`; blocks.

    A store without any secret gets its first keys. Where the file is gone, or has other keys, what
    needs them stays closed, and the log says so. `now` gives seconds since the epoch. Raises
    `ConfigError` for a key file that cannot be used, `StoreBusy`.
    """
    key_file = KeyFile(path)
    kept = store.secrets()
    data_keys = kept.data_keys
    keys = key_file.read()
    if not data_keys:
        if not keys:
            keys = (Fernet.generate_key(),)
            key_file.write(keys)
        first = SecretBox(keys, ()).new_data_key(now())
        store.write((SaveSecrets(data_keys=(first,)),)).result(_OPEN_TIMEOUT_S)
        data_keys = (first,)
    secrets = {(each.project, each.name): each for each in kept.secrets}
    vault = Vault(store, key_file, SecretBox(keys, data_keys), secrets)
    if missing := len(data_keys) - len(vault.box.key_ids):
        log.warning(
            "secrets cannot be decrypted: put back the key file",
            key_file=str(path),
            keys_missing=missing,
            secrets=len(vault.known().locked),
        )
    return vault
