"""Our own private key: made once, read again, refused with a remedy when it cannot be used."""

from __future__ import annotations

import stat
import subprocess
import threading
from pathlib import Path

import pytest

from longshore.drivers.errors import ConfigError
from longshore.pool.remote.ssh_keys import (
    check_private_key,
    load_or_create_private_key,
    public_key_text,
)
from tests.synced_files import record_syncs


def test_a_key_is_made_once_with_mode_0600(tmp_path: Path) -> None:
    path = tmp_path / "new" / "id"
    made = load_or_create_private_key(path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert load_or_create_private_key(path) == made
    assert [each.name for each in path.parent.iterdir()] == ["id"]
    assert made.openssh_text not in repr(made)
    assert public_key_text(made).startswith("ssh-ed25519 AAAA")


def test_threads_that_make_a_key_at_once_get_the_same(tmp_path: Path) -> None:
    made: set[str] = set()

    def make() -> None:
        made.add(load_or_create_private_key(tmp_path / "id").public_text)

    threads = [threading.Thread(target=make) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(made) == 1


@pytest.mark.parametrize("content", [b"", b"garbage", b"-----BEGIN OPENSSH PRIVATE KEY-----\nx\n"])
def test_a_file_without_a_key_is_refused_with_a_remedy(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "id"
    path.write_bytes(content)
    with pytest.raises(ConfigError, match="delete the file") as caught:
        load_or_create_private_key(path)
    assert str(path) in str(caught.value)
    assert path.read_bytes() == content


def made_by_an_admin(path: Path, *options: str) -> Path:
    subprocess.run(["ssh-keygen", "-q", *options, "-f", str(path)], check=True)
    return path


@pytest.mark.parametrize(
    "options", [("-t", "ed25519", "-N", "pass"), ("-t", "rsa", "-b", "1024", "-N", "")]
)
def test_keys_that_cannot_be_used_are_refused_by_the_check_too(
    tmp_path: Path, options: tuple[str, ...]
) -> None:
    path = made_by_an_admin(tmp_path / "id", *options)
    for refuses in (load_or_create_private_key, check_private_key):
        with pytest.raises(ConfigError, match="delete the file"):
            refuses(path)


def test_a_path_that_cannot_be_used_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for path in (tmp_path / "file" / "id", tmp_path):
        with pytest.raises(ConfigError, match="make it readable"):
            load_or_create_private_key(path)


FIPS = [("-t", "ecdsa", "-b", "256"), ("-t", "ecdsa", "-b", "384"), ("-t", "rsa", "-b", "2048")]


@pytest.mark.parametrize("options", FIPS)
def test_keys_for_machines_with_fips_cryptography_are_read(
    tmp_path: Path, options: tuple[str, ...]
) -> None:
    path = made_by_an_admin(tmp_path / "id", *options, "-N", "")
    check_private_key(path)
    key = load_or_create_private_key(path)
    assert public_key_text(key).split() == path.with_suffix(".pub").read_text().split()[:2]


@pytest.mark.parametrize("mode", [0o666, 0o604, 0o620, 0o640, 0o600, 0o400])
def test_a_key_that_is_open_to_others_is_told(tmp_path: Path, mode: int) -> None:
    path = made_by_an_admin(tmp_path / "id", "-t", "ed25519", "-N", "")
    path.chmod(mode)
    if mode & 0o027:
        with pytest.raises(ConfigError, match=f"chmod 600 {path}"):
            check_private_key(path)
    else:
        check_private_key(path)


def test_a_new_key_is_on_the_disk_before_it_has_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced, path = record_syncs(monkeypatch), tmp_path / "id"
    really = Path.hardlink_to

    def name(own: Path, temporary: str) -> None:
        assert (own, synced) == (path, [Path(temporary)])
        really(own, temporary)

    monkeypatch.setattr(Path, "hardlink_to", name)
    load_or_create_private_key(path)
    assert list(tmp_path.iterdir()) == [path]


def test_the_private_half_is_in_no_log(tmp_path: Path) -> None:
    key = load_or_create_private_key(tmp_path / "id")
    assert "PRIVATE" in key.openssh_text
    assert "PRIVATE" not in f"{key} {key!r}"
