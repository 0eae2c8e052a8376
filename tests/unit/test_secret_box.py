"""Secrets are encrypted with keys that the store does not have, and a rotation loses none."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from cryptography.fernet import Fernet

from longshore.dispatcher.domain.messages import SaveSecrets
from longshore.dispatcher.domain.secrets import StoredSecret
from longshore.dispatcher.store.secret_box import (
    KeyFile,
    SecretBox,
    SecretDamaged,
    SecretLocked,
    place_in_env,
    place_of_secret,
)
from longshore.dispatcher.store.store import Store
from longshore.dispatcher.store.vault import Vault, open_vault
from longshore.drivers.errors import ConfigError
from longshore.pool.model import SecretKind, SecretOrder, SecretUse
from longshore.pool.remote.secret_source import NoSecrets, SecretsUnusable, SecretsWithheld
from tests.store_values import new_store, url_in

DB = place_of_secret("p", "db")


def a_box() -> SecretBox:
    keys = (Fernet.generate_key(),)
    return SecretBox(keys, (SecretBox(keys, ()).new_data_key(1.0),))


def stored(box: SecretBox, name: str, value: str) -> StoredSecret:
    return StoredSecret(
        project="p",
        name=name,
        ciphertext=box.seal(value, place=place_of_secret("p", name)),
        updated_at=1.0,
        updated_by="u",
    )


# ---- the key file --------------------------------------------------------------------------------


def test_keys_are_written_for_their_owner_alone_whatever_the_umask(tmp_path: Path) -> None:
    file = KeyFile(tmp_path / "keys")
    assert file.read() == ()
    keys = (Fernet.generate_key(), Fernet.generate_key())
    before = os.umask(0)
    try:
        file.write(keys)
    finally:
        os.umask(before)
    assert file.read() == keys
    assert (tmp_path / "keys").stat().st_mode & 0o777 == 0o600
    assert [each.name for each in tmp_path.iterdir()] == ["keys"]


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o620])
def test_a_key_file_that_others_may_open_is_refused(tmp_path: Path, mode: int) -> None:
    file = KeyFile(tmp_path / "keys")
    file.write((Fernet.generate_key(),))
    file.path.chmod(mode)
    with pytest.raises(ConfigError, match="chmod 600"):
        file.read()


def test_a_line_that_is_no_key_is_told_without_it(tmp_path: Path) -> None:
    file = KeyFile(tmp_path / "keys")
    file.write((Fernet.generate_key(), b"almost-a-key"))
    with pytest.raises(ConfigError, match="no key in line 2") as caught:
        file.read()
    assert "almost" not in str(caught.value)


def test_no_more_keys_are_written_than_are_read(tmp_path: Path) -> None:
    file, keys = KeyFile(tmp_path / "keys"), [Fernet.generate_key() for _ in range(101)]
    file.write(keys[:100])
    with pytest.raises(ConfigError, match="remove the last lines"):
        file.write(keys)
    assert file.read() == tuple(keys[:100])


def test_a_directory_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be written"):
        KeyFile(tmp_path / "none" / "keys").write((Fernet.generate_key(),))


# ---- the box -------------------------------------------------------------------------------------


def test_what_is_sealed_is_opened_and_not_seen() -> None:
    box = a_box()
    sealed = box.seal("hunter2\0äöü", place=DB)
    assert "hunter2" not in sealed
    assert box.open(sealed, place=DB) == "hunter2\0äöü"
    assert box.seal("hunter2", place=DB) != box.seal("hunter2", place=DB)


@pytest.mark.parametrize(
    "place", [place_of_secret("q", "db"), place_of_secret("p", "other"), place_in_env("db")]
)
def test_a_ciphertext_opens_nothing_elsewhere(place: str) -> None:
    box = a_box()
    with pytest.raises(SecretDamaged):
        box.open(box.seal("hunter2", place=DB), place=place)


def test_a_damaged_ciphertext_is_told_from_a_missing_key() -> None:
    box = a_box()
    sealed = box.seal("hunter2", place=DB)
    with pytest.raises(SecretDamaged):
        box.open(sealed[:-8], place=DB)
    with pytest.raises(SecretLocked):
        SecretBox((), box.data_keys).open(sealed, place=DB)
    with pytest.raises(SecretLocked):
        SecretBox((Fernet.generate_key(),), box.data_keys).seal("x", place=DB)
    with pytest.raises(SecretLocked):
        SecretBox((), ()).new_data_key(1.0)


def test_after_a_rotation_the_old_key_opens_nothing_and_the_new_one_all() -> None:
    old_key, new_key = Fernet.generate_key(), Fernet.generate_key()
    box = SecretBox((old_key,), (SecretBox((old_key,), ()).new_data_key(1.0),))
    variable = box.seal("of a container", place=place_in_env("A"))
    secrets = [stored(box, "db", "hunter2"), stored(box, "cert", "c3rt")]
    _, anew = box.rotated(new_key, secrets, 2.0)
    with_new, with_old = (SecretBox((key,), anew.data_keys) for key in (new_key, old_key))
    assert with_old.key_ids == frozenset()
    assert with_new.open(variable, place=place_in_env("A")) == "of a container"
    opened = [with_new.open(s.ciphertext, place=place_of_secret("p", s.name)) for s in anew.secrets]
    assert opened == ["hunter2", "c3rt"]
    # Named secrets left the old data key behind: an old copy of the store does not open new ones.
    for secret in anew.secrets:
        with pytest.raises(SecretLocked):
            box.open(secret.ciphertext, place=place_of_secret("p", secret.name))


def test_what_cannot_be_opened_outlives_a_rotation() -> None:
    lost_key, key, new_key = (Fernet.generate_key() for _ in range(3))
    lost = SecretBox((lost_key,), (SecretBox((lost_key,), ()).new_data_key(1.0),))
    secret = stored(lost, "db", "hunter2")
    box = SecretBox((key,), lost.data_keys)
    box = box.with_data_key(box.new_data_key(2.0))
    _, anew = box.rotated(new_key, [secret], 3.0)
    assert anew.secrets == ()
    found_again = SecretBox((new_key, lost_key), anew.data_keys)
    assert found_again.open(secret.ciphertext, place=DB) == "hunter2"


# ---- a store, a key file, and a rotation that ends anywhere --------------------------------------


def opened(tmp_path: Path, store: Store) -> Vault:
    return open_vault(store, tmp_path / "secret_keys", lambda: 5.0)


ORDER = SecretOrder(
    project="p",
    uses=(
        SecretUse(secret="db", kind=SecretKind.ENV, target="DB"),
        SecretUse(secret="cert", kind=SecretKind.FILE, target="cert.pem"),
    ),
)


def with_secrets(tmp_path: Path, store: Store) -> tuple[Vault, SecretOrder]:
    vault = opened(tmp_path, store)
    secrets = (stored(vault.box, "db", "hunter2"), stored(vault.box, "cert", "c3rt"))
    store.write((SaveSecrets(secrets=secrets),)).result(30)
    sealed = (("TOKEN", vault.seal_variable("TOKEN", "t0k")),)
    order = SecretOrder(project="p", uses=ORDER.uses, sealed_env=sealed)
    return opened(tmp_path, store), order


def all_readable(tmp_path: Path, order: SecretOrder) -> bool:
    """Return whether a process that starts now can give all values."""
    store = Store.open(url_in(tmp_path))
    try:
        values = opened(tmp_path, store).values(order)
    finally:
        store.close()
    told = (("DB", "hunter2"), ("TOKEN", "t0k"))
    return values.env == told and values.files == (("cert.pem", "c3rt"),)


@pytest.mark.parametrize("steps", [0, 1, 2, 3])
def test_a_rotation_that_ends_after_any_step_loses_nothing(tmp_path: Path, steps: int) -> None:
    store = new_store(tmp_path)
    vault, order = with_secrets(tmp_path, store)
    new_key, kept = Fernet.generate_key(), vault.key_file.read()
    _, anew = vault.box.rotated(new_key, vault.secrets.values(), 6.0)
    if steps >= 1:
        vault.key_file.write((new_key, *kept))
    if steps >= 2:
        store.write((SaveSecrets(secrets=anew.secrets, data_keys=anew.data_keys),)).result(30)
    if steps >= 3:
        vault.key_file.write((new_key,))
    store.close()
    assert all_readable(tmp_path, order)


def test_with_the_key_lost_nothing_opens_and_with_it_back_all_does(tmp_path: Path) -> None:
    store = new_store(tmp_path)
    vault, order = with_secrets(tmp_path, store)
    path = vault.key_file.path
    path.rename(tmp_path / "aside")
    locked = opened(tmp_path, store)
    assert not path.exists(), "no new key takes the place of one that may come back"
    assert (len(locked.known().readable), len(locked.known().keys)) == (0, 0)
    assert locked.known().locked == {("p", "db"), ("p", "cert")}
    for wanted in (
        SecretOrder(project="p", uses=order.uses),
        SecretOrder(sealed_env=order.sealed_env),
    ):
        with pytest.raises(SecretsWithheld, match="key to"):
            locked.values(wanted)
    (tmp_path / "aside").rename(path)
    store.close()
    assert all_readable(tmp_path, order)


def test_the_store_and_what_is_beside_it_hold_only_ciphertext(tmp_path: Path) -> None:
    store = new_store(tmp_path)
    with_secrets(tmp_path, store)
    content = b"".join(path.read_bytes() for path in sorted(tmp_path.iterdir()))
    store.close()
    assert b"updated_by" in content, "the store is among what was looked at"
    assert not [value for value in (b"hunter2", b"c3rt", b"t0k") if value in content]


@pytest.mark.parametrize(
    ("kind", "value", "told"),
    [
        (SecretKind.REGISTRY, "no colon", "USER:PASSWORD"),
        (SecretKind.REGISTRY, ":only a password", "USER:PASSWORD"),
        (SecretKind.REGISTRY, "only-a-user:", "USER:PASSWORD"),
        (SecretKind.ENV, "zero\0byte", "use it as a file"),
    ],
)
def test_what_cannot_be_used_so_is_told_without_its_value(
    tmp_path: Path, kind: SecretKind, value: str, told: str
) -> None:
    store = new_store(tmp_path)
    vault = opened(tmp_path, store)
    vault.put(stored(vault.box, "db", value))
    with pytest.raises(SecretsUnusable, match=told) as caught:
        vault.values(
            SecretOrder(project="p", uses=(SecretUse(secret="db", kind=kind, target="t"),))
        )
    store.close()
    assert value not in str(caught.value)


def test_a_secret_of_another_project_is_none(tmp_path: Path) -> None:
    store = new_store(tmp_path)
    vault, _ = with_secrets(tmp_path, store)
    store.close()
    with pytest.raises(SecretsWithheld, match="not there"):
        vault.values(SecretOrder(project="q", uses=ORDER.uses))


def test_where_there_are_none_nobody_is_given_any() -> None:
    assert NoSecrets().values(SecretOrder()).env == ()
    with pytest.raises(SecretsWithheld):
        NoSecrets().values(ORDER)
