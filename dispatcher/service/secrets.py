"""Secrets of projects: set, listed and removed, never read; and new keys for all of them.

Whoever sees a project may use and list its secrets, inside of a container use them only; leads and
admins set and remove them, since what others run depends on them; new keys are an admin's.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

import structlog
from cryptography.fernet import Fernet

from longshore.dispatcher.domain.cursors import slice_of
from longshore.dispatcher.domain.messages import Change, RemoveSecret, SaveSecrets, SecretsChanged
from longshore.dispatcher.domain.principals import Principal, Role
from longshore.dispatcher.domain.secrets import (
    SECRETS_MOST,
    SECRETS_PER_PROJECT_MOST,
    StoredSecret,
    data_key_of,
)
from longshore.dispatcher.engine.runtime import Runtime
from longshore.dispatcher.service.admission import AdmissionController
from longshore.dispatcher.service.contracts import Conflict, Forbidden, NotFound, Unavailable
from longshore.dispatcher.store.secret_box import SecretLocked, place_of_secret
from longshore.dispatcher.store.vault import Vault
from longshore.drivers.errors import ConfigError

LOOK_EACH_S = 2.0
"""How often a key file that is missed is looked for."""

log = structlog.get_logger(__name__)

_TURN_PATIENCE_S = 5.0
_AFTER = "secrets"


T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Made(Generic[T]):
    """A change that was made of what there is: what it comes to once it is committed."""

    change: Change
    take_over: Callable[[], None]
    result: T


class SecretService:
    """Secrets as users see and change them; used on the loop's thread, but for `seal`."""

    def __init__(
        self,
        *,
        runtime: Runtime,
        admission: AdmissionController,
        vault: Vault,
        now: Callable[[], float],
    ) -> None:
        self._runtime = runtime
        self._admission = admission
        self._vault = vault
        self._now = now
        # Held from before a change is made until what becomes of it is known, so that none is
        # made from what another is about to replace.
        self._turn = asyncio.Lock()
        # Held until the old keys are dropped: two rotations would drop each other's new key.
        self._rotating = asyncio.Lock()

    def secrets(
        self, project: str, *, caller: Principal, cursor: str, limit: int
    ) -> tuple[Sequence[StoredSecret], str | None]:
        """Return a page of the secrets of a project, by name, and the next page's cursor.

        Raises `NotFound` for a project that is not seen, `InvalidRequest` for a cursor that is not
        ours, `Forbidden` inside of a container.
        """
        if caller.container_id:
            raise Forbidden(
                "The secrets of a project are not listed inside of a container: name those that a"
                " child is to have, or list them from outside."
            )
        _expect_project(project, caller)
        found = [each for (of, _), each in self._vault.secrets.items() if of == project]
        return slice_of(found, lambda each: each.name, word=_AFTER, cursor=cursor, limit=limit)

    async def set(
        self, project: str, name: str, value: str, *, caller: Principal
    ) -> tuple[StoredSecret, bool]:
        """Commit a secret's value, then tell the engine; return it, and whether it is a new one.

        Raises `NotFound` for a project that the caller does not see, `Forbidden` for users,
        `Conflict` where there are too many or no key to encrypt with, `Unavailable`.
        """
        _expect_keeper(project, caller)

        async def make() -> _Made[tuple[StoredSecret, bool]]:
            is_new = (project, name) not in self._vault.secrets
            if is_new:
                _expect_room(project, self._vault.secrets)
            secret = StoredSecret(
                project=project,
                name=name,
                ciphertext=self._sealed(value, place_of_secret(project, name)),
                updated_at=self._now(),
                updated_by=caller.user,
            )
            return _Made(
                change=SaveSecrets(secrets=(secret,)),
                take_over=lambda: self._vault.put(secret),
                result=(secret, is_new),
            )

        return await self._in_turn(make)

    async def remove(self, project: str, name: str, *, caller: Principal) -> StoredSecret:
        """Commit a removal, then tell the engine; return what was removed.

        What still refers to the secret has to wait until it is set again. Raises `NotFound` for
        what the caller does not see, `Forbidden` for users, `Unavailable`.
        """
        _expect_keeper(project, caller)

        async def make() -> _Made[StoredSecret]:
            secret = self._vault.secrets.get((project, name))
            if secret is None:
                raise NotFound(f"there is no secret {name} in project {project}")
            return _Made(
                change=RemoveSecret(project=project, name=name),
                take_over=lambda: self._vault.drop(project, name),
                result=secret,
            )

        return await self._in_turn(make)

    async def rotate(self, *, caller: Principal) -> int:
        """Encrypt all anew with a new key, and forget the old ones; return how many secrets.

        What the key file has is used as well as what is in use, since it may have been put back.
        Interrupted at any step it leaves all readable; called again it does what is left. What
        cannot be opened stays as it is, and then no old key is forgotten. Raises `Forbidden` for
        who is no admin, `Conflict` for a key file that cannot be written, `Unavailable`.
        """
        if not caller.is_admin:
            raise Forbidden("New keys are an admin's to make: ask one.")
        async with self._rotating:
            return await self._rotate(Fernet.generate_key())

    async def _rotate(self, new_key: bytes) -> int:
        vault = self._vault

        async def make() -> _Made[tuple[int, bool]]:
            # In the turn, since a rotation whose caller gave up may have been committed meanwhile.
            try:
                whole = vault.box.with_keys(await asyncio.to_thread(vault.key_file.read))
                await asyncio.to_thread(vault.key_file.write, (new_key, *whole.keys))
            except ConfigError as error:
                raise Conflict(f"no new key was made: {error}") from error
            stored, now = vault.secrets, self._now()
            box, anew = await asyncio.to_thread(whole.rotated, new_key, stored.values(), now)

            def take_over() -> None:
                vault.box = box
                for each in anew.secrets:
                    vault.put(each)

            change = SaveSecrets(secrets=anew.secrets, data_keys=anew.data_keys)
            result = (len(anew.secrets), whole.has_closed)
            return _Made(change=change, take_over=take_over, result=result)

        number, some_stayed_closed = await self._in_turn(make)
        if some_stayed_closed:
            return number
        try:
            await asyncio.to_thread(vault.key_file.write, (new_key,))
        except ConfigError as error:
            raise Conflict(
                f"the new key is in use, and the old ones are still in the file: {error}; do it"
                " again"
            ) from error
        return number

    async def follow_key_file(self, *, look_each_s: float = LOOK_EACH_S) -> None:
        """Take in the keys of a file that was put back, until it is cancelled.

        A file that cannot be used changes nothing, and the log says so, once for each reason.
        """
        told = ""
        while True:
            await asyncio.sleep(look_each_s)
            try:
                await self._look_for_keys()
            except ConfigError as error:
                if told != str(error):
                    log.warning("secrets stay closed", why=str(error))
                told = str(error)
            else:
                told = ""

    async def _look_for_keys(self) -> None:
        """Open what the key file opens now and no key in use does, and tell the engine.

        The file gets the keys in use that it lacks: it is an old copy where there was a rotation
        without it. Raises `ConfigError` for a file that cannot be used.
        """
        vault = self._vault
        if not vault.box.has_closed:
            return
        async with self._rotating, self._turn:
            found = await asyncio.to_thread(vault.key_file.read)
            box = vault.box.with_keys(found)
            if box.key_ids == vault.box.key_ids:
                return
            if not set(box.keys) <= set(found):
                await asyncio.to_thread(vault.key_file.write, box.keys)
            vault.box = box
            known = vault.known()
            self._runtime.post_committed(SecretsChanged(known=known))
        log.info("the key file was put back", secrets_closed=len(known.locked))

    def is_readable(self, secret: StoredSecret) -> bool:
        """Return whether a secret can be decrypted: its key is there."""
        return data_key_of(secret.ciphertext) in self._vault.box.key_ids

    def seal(self, name: str, value: str) -> str:
        """Return the value of a variable encrypted; from any thread.

        Raises `Conflict` where there is no key to encrypt with.
        """
        try:
            return self._vault.seal_variable(name, value)
        except SecretLocked:
            raise Conflict(_NO_KEY) from None

    def _sealed(self, value: str, place: str) -> str:
        try:
            return self._vault.box.seal(value, place=place)
        except SecretLocked:
            raise Conflict(_NO_KEY) from None

    async def _in_turn(self, make: Callable[[], Awaitable[_Made[T]]]) -> T:
        """Commit the change that `make` makes of what there is in its turn; return its result.

        The turn ends when it is known what became of the change, however long that takes: then it
        is taken over, and the engine told what can be opened now.
        """
        try:
            async with asyncio.timeout(_TURN_PATIENCE_S):
                await self._turn.acquire()
        except TimeoutError:
            raise Unavailable("another change of secrets is being written; try again") from None
        try:
            made = await make()
        except BaseException:
            self._turn.release()
            raise

        def committed() -> None:
            made.take_over()
            self._runtime.post_committed(SecretsChanged(known=self._vault.known()))
            self._turn.release()

        await self._admission.write(
            made.change, None, on_committed=committed, on_refused=self._turn.release
        )
        return made.result


_NO_KEY = (
    "no key to encrypt secrets with can be opened: an admin has to put back the key file"
    " (secrets.key_file); if it is lost for good,"
    " 'longshore secret rotate-keys' makes a new one, and every secret is to be set again"
)


def _expect_project(project: str, caller: Principal) -> None:
    if not caller.sees(project):
        raise NotFound(f"there is no project {project}")


def _expect_keeper(project: str, caller: Principal) -> None:
    _expect_project(project, caller)
    if caller.role not in (Role.LEAD, Role.ADMIN):
        raise Forbidden(
            f"Secrets of project {project} are set and removed by its leads and by admins."
        )


def _expect_room(project: str, known: Iterable[tuple[str, str]]) -> None:
    places = list(known)
    if sum(of == project for of, _ in places) >= SECRETS_PER_PROJECT_MOST:
        raise Conflict(
            f"project {project} has {SECRETS_PER_PROJECT_MOST} secrets, which is the most: remove"
            " some that nobody needs"
        )
    if len(places) >= SECRETS_MOST:
        raise Conflict(
            f"there are {SECRETS_MOST} secrets, which is the most: remove some that nobody needs"
        )
