"""Encrypts and decrypts secrets; what it keeps is useless without the key file.

There are two levels of keys. The *key file* (`DATA_DIR/secret_keys`) has the keys of the operator,
a line each, the newest first (`MultiFernet`): they are never in the store nor in a backup of it.
With them the *data keys* are encrypted, which the store has, and with the newest of these every
value. A ciphertext says in front which data key it needs: `ID.TOKEN`. What it is for (the project
and name of a secret, or a variable's) is encrypted with the value, so that the ciphertext of one
thing, copied to the row of another, opens nothing.

A rotation makes a new key and a new data key, and encrypts all data keys, and all named secrets,
anew. Specifications of containers keep their ciphertext: its data key is encrypted with the new key
then. So no copy of a specification, in memory or on its way to the store, can be forgotten. It goes
in three steps, each of which leaves all that is readable readable, whatever ends the process:

1. The key file gets the new key, in front of those in use and those that it has: it may have been
   lost, or put back, since the start.
2. One transaction of the store has everything that is encrypted anew, with any of these.
3. The key file loses the old ones, if they opened every data key. If one stayed closed, nobody
   knows what is still needed, and the file loses nothing.

Doubt: an old key with an old copy of the store still opens what that copy had, and the values of
containers that were submitted before the rotation. Who has stolen both has read these already, or
may: named secrets are to be set to new values then.

A key that is missing makes no error at a start: what needs it stays closed (`SecretLocked`) until
the key file is put back, which is looked for while anything is closed.
"""

from __future__ import annotations

import os
import secrets
import stat
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from cryptography.fernet import Fernet, InvalidToken, MultiFernet

from longshore.dispatcher.domain.secrets import DataKey, StoredSecret, data_key_of
from longshore.drivers.errors import ConfigError, LongshoreError

_KEYS_MOST = 100
_ID_BYTES = 8


class SecretLocked(LongshoreError):  # noqa: N818 - reads as the state that it tells of
    """The key that something was encrypted with is not there: put the key file back."""


class SecretDamaged(LongshoreError):  # noqa: N818 - reads as the state that it tells of
    """A ciphertext is not what was written for this place: the secret has to be set anew."""


# ---- the key file --------------------------------------------------------------------------------


class KeyFile:
    """The operator's keys, the newest first, in a file that only its owner may read."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def read(self) -> tuple[bytes, ...]:
        """Return the keys, () where there is no file.

        Raises `ConfigError` for a file that others may read, or that holds something else.
        """
        try:
            descriptor = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            return ()
        except OSError as error:
            raise self._problem(f"cannot be read: {error.strerror}") from error
        with os.fdopen(descriptor, "rb") as file:
            mode = stat.S_IMODE(os.fstat(descriptor).st_mode)
            if mode & 0o077:
                raise self._problem(f"has mode {mode:04o}: others may read it; chmod 600 it")
            lines = file.read(128 * _KEYS_MOST).split()
        for number, line in enumerate(lines, 1):
            try:
                Fernet(line)
            except ValueError:
                raise self._problem(f"has no key in line {number}: put back a copy") from None
        return tuple(lines)

    def write(self, keys: Sequence[bytes]) -> None:
        """Replace the keys, at once and durably.

        Raises `ConfigError` where that cannot be, and for more keys than `read` takes: the operator
        has to remove the oldest lines then.
        """
        if len(keys) > _KEYS_MOST:
            raise self._problem(
                f"would have {len(keys)} keys, and {_KEYS_MOST} are the most: keep a copy of it,"
                " and remove the last lines"
            )
        staged = self.path.with_name(f".{self.path.name}.{os.getpid()}.new")
        try:
            descriptor = os.open(
                staged, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600
            )
            with os.fdopen(descriptor, "wb") as file:
                os.fchmod(descriptor, 0o600)
                file.write(b"".join(key + b"\n" for key in keys))
                file.flush()
                os.fsync(descriptor)
            staged.rename(self.path)
            directory = os.open(self.path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            try:
                os.fsync(directory)
            finally:
                os.close(directory)
        except OSError as error:
            raise self._problem(f"cannot be written: {error.strerror}") from error

    def _problem(self, what: str) -> ConfigError:
        return ConfigError([("secrets.key_file", f"{self.path} {what}")])


# ---- the box -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Rewrapped:
    """What a rotation writes to the store in its one transaction."""

    data_keys: tuple[DataKey, ...]
    secrets: tuple[StoredSecret, ...]


class SecretBox:
    """Opens and closes secrets with the data keys that the operator's keys open; never changes."""

    def __init__(self, keys: Sequence[bytes], data_keys: Iterable[DataKey]) -> None:
        """Take the operator's `keys`, the newest first, and every data key of the store."""
        #: The operator's keys, the newest first.
        self.keys = tuple(keys)
        self._outer = MultiFernet([Fernet(key) for key in keys]) if keys else None
        #: Every data key, the oldest first.
        self.data_keys = tuple(sorted(data_keys, key=lambda each: (each.created_at, each.id)))
        opened = {each.id: self._opened(each) for each in self.data_keys}
        self._inner: Mapping[str, Fernet] = {
            name: Fernet(key) for name, key in opened.items() if key is not None
        }

    @property
    def key_ids(self) -> frozenset[str]:
        """Return the ids of the data keys that can be opened."""
        return frozenset(self._inner)

    def is_opened_by(self, keys: Sequence[bytes]) -> bool:
        """Return whether all that can be opened now could be opened with these keys too."""
        return self.key_ids <= SecretBox(keys, self.data_keys).key_ids

    @property
    def has_closed(self) -> bool:
        """Return whether the key to a data key is missing."""
        return len(self._inner) < len(self.data_keys)

    def _opened(self, data_key: DataKey) -> bytes | None:
        if self._outer is None:
            return None
        try:
            return self._outer.decrypt(data_key.ciphertext.encode())
        except InvalidToken:
            return None

    def new_data_key(self, now: float) -> DataKey:
        """Return a new data key, encrypted with the newest key; raises `SecretLocked` without."""
        if self._outer is None:
            raise SecretLocked("there is no key")
        wrapped = self._outer.encrypt(Fernet.generate_key()).decode()
        return DataKey(id=secrets.token_hex(_ID_BYTES), ciphertext=wrapped, created_at=now)

    def with_data_key(self, data_key: DataKey) -> SecretBox:
        """Return a box that has one more data key."""
        return SecretBox(self.keys, (*self.data_keys, data_key))

    def with_keys(self, keys: Iterable[bytes]) -> SecretBox:
        """Return a box that has more of the operator's keys, older than those that it has."""
        return SecretBox(tuple(dict.fromkeys((*self.keys, *keys))), self.data_keys)

    def seal(self, value: str, *, place: str) -> str:
        """Return a value encrypted for a place, with the newest data key that can be opened.

        Raises `SecretLocked` where there is none.
        """
        for data_key in reversed(self.data_keys):
            inner = self._inner.get(data_key.id)
            if inner is not None:
                token = inner.encrypt(f"{place}\0{value}".encode()).decode()
                return f"{data_key.id}.{token}"
        raise SecretLocked("no key to encrypt with can be opened")

    def open(self, ciphertext: str, *, place: str) -> str:
        """Return the value that was sealed for a place.

        Raises `SecretLocked` where its key is missing, `SecretDamaged` for anything else.
        """
        inner = self._inner.get(data_key_of(ciphertext))
        if inner is None:
            raise SecretLocked("its key is missing")
        try:
            opened = inner.decrypt(ciphertext.partition(".")[2].encode()).decode()
        except InvalidToken:
            raise SecretDamaged("its ciphertext is damaged") from None
        found, _, value = opened.partition("\0")
        if found != place:
            raise SecretDamaged("its ciphertext is that of something else")
        return value

    def rotated(
        self, new_key: bytes, stored: Iterable[StoredSecret], now: float
    ) -> tuple[SecretBox, Rewrapped]:
        """Return the box that needs the new key alone, and what the store has to take in for it.

        What cannot be opened stays as it is.
        """
        outer = Fernet(new_key)
        rewrapped = []
        for each in self.data_keys:
            opened = self._opened(each)
            if opened is not None:
                rewrapped.append(replace(each, ciphertext=outer.encrypt(opened).decode()))
            else:
                rewrapped.append(each)
        box = SecretBox((new_key,), rewrapped)
        box = box.with_data_key(box.new_data_key(now))
        anew = []
        for secret in stored:
            if data_key_of(secret.ciphertext) in self._inner:
                place = place_of_secret(secret.project, secret.name)
                value = self.open(secret.ciphertext, place=place)
                anew.append(replace(secret, ciphertext=box.seal(value, place=place)))
        return box, Rewrapped(data_keys=box.data_keys, secrets=tuple(anew))


def place_of_secret(project: str, name: str) -> str:
    """Return the place of a named secret; no other project and name have the same."""
    return f"secret {project} {name}"


def place_in_env(name: str) -> str:
    """Return the place of a variable's secret value."""
    return f"env {name}"
