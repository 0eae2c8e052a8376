"""Host-key proof: what proves a key, what does not, and the shell that runs on the instance."""

from __future__ import annotations

import hashlib
import hmac
import os
import pwd
import stat
import subprocess
import tempfile
from pathlib import Path

import pytest

from longshore.drivers.errors import BugError
from longshore.pool.hostkey import (
    ANSWER_LIMIT_BYTES,
    UnprovenCause,
    init_fragment,
    is_proof,
    proof_command,
    say_unproven,
    unproven_cause,
    void_command,
)

SECRET = "the secret of this instance"  # noqa: S105 - it guards nothing
KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIOne"
OTHER_KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAITwo"


def mac(secret: str, key: str) -> bytes:
    message = b"longshore-host-key-1\0" + key.encode()
    return hmac.new(secret.encode(), message, hashlib.sha256).hexdigest().encode()


NOBODY = 65534
RIGHT = mac(SECRET, KEY)


@pytest.mark.parametrize(
    ("answer", "proven"),
    [
        pytest.param(RIGHT + b"\n", True, id="the one key"),
        pytest.param(mac(SECRET, OTHER_KEY) + b"\n" + RIGHT, True, id="one of several keys"),
        pytest.param(b"welcome!\r\n" + RIGHT + b"\r\n", True, id="behind a banner"),
        pytest.param(mac(SECRET, OTHER_KEY), False, id="the true host's, passed on by a relay"),
        pytest.param(mac("another secret", KEY), False, id="another instance's"),
        pytest.param(mac("", KEY), False, id="made without a secret"),
        pytest.param(
            hmac.new(SECRET.encode(), KEY.encode(), "sha256").hexdigest().encode(),
            False,
            id="without the domain",
        ),
        pytest.param(b"", False, id="nothing"),
        pytest.param(RIGHT[:-1], False, id="cut short"),
        pytest.param(RIGHT + b"0", False, id="too long"),
        pytest.param(RIGHT.upper(), False, id="in capitals"),
        pytest.param(b"\xff\xfe\x00" * 100, False, id="nonsense"),
        pytest.param(b"x" * ANSWER_LIMIT_BYTES + b"\n" + RIGHT, False, id="huge"),
        pytest.param(b"\n" * 100 + RIGHT, False, id="behind too many lines"),
    ],
)
def test_only_the_right_answer_proves_a_key(answer: bytes, proven: bool) -> None:
    assert is_proof(SECRET, KEY, answer) is proven


def test_an_empty_secret_or_key_proves_nothing() -> None:
    assert not is_proof("", KEY, mac("", KEY))
    assert not is_proof(SECRET, "", mac(SECRET, ""))


def test_no_instance_is_created_with_an_empty_secret() -> None:
    with pytest.raises(BugError):
        init_fragment("")


def shell(
    command: str, environment: dict[str, str], *, as_nobody: bool = False
) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        ["/bin/sh", "-c", command],
        env={"PATH": "/usr/bin:/bin", **environment},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=False,
        user=NOBODY if as_nobody and os.geteuid() == 0 else None,
        timeout=60,
    )


@pytest.fixture
def host(tmp_path: Path) -> dict[str, str]:
    """Return the environment of an instance with two host keys."""
    (tmp_path / "ssh_host_a_key.pub").write_text(f"{OTHER_KEY} root@host\n")
    (tmp_path / "ssh_host_b_key.pub").write_text(f"{KEY}\n")
    return {
        "LONGSHORE_RUNNER_DIR": str(tmp_path / "runner"),
        "LONGSHORE_HOST_KEYS": str(tmp_path / "ssh_host_*_key.pub"),
        "HOME": str(tmp_path),
    }


@pytest.mark.parametrize("secret", [SECRET, 'it\'s "quoted" $HOME `id` \\ %s'])
def test_the_host_proves_each_of_its_keys(host: dict[str, str], secret: str) -> None:
    assert shell(init_fragment(secret), host).returncode == 0
    file = Path(host["LONGSHORE_RUNNER_DIR"], "instance-secret")
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    answer = shell(proof_command(), host)
    assert answer.returncode == 0, answer.stderr
    assert is_proof(secret, KEY, answer.stdout)
    assert is_proof(secret, OTHER_KEY, answer.stdout)
    assert not is_proof(secret, KEY + "x", answer.stdout)


def test_without_a_directory_set_an_unprivileged_user_has_it_at_home() -> None:
    # Not below pytest's directory, which only its owner may enter.
    with tempfile.TemporaryDirectory() as name:
        home = Path(name)
        home.chmod(0o777)
        (home / "key.pub").write_text(KEY)
        host = {"HOME": name, "LONGSHORE_HOST_KEYS": f"{name}/*.pub"}
        assert shell(init_fragment(SECRET), host, as_nobody=True).returncode == 0
        answer = shell(proof_command(), host, as_nobody=True)
        assert is_proof(SECRET, KEY, answer.stdout), answer.stderr
        assert (home / ".longshore" / "instance-secret").exists()
        shell(void_command(), host, as_nobody=True)
        assert not (home / ".longshore" / "instance-secret").exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can write for another user")
def test_root_writes_the_secret_for_the_user_who_will_log_in() -> None:
    entry = pwd.getpwuid(NOBODY)
    script = init_fragment(SECRET, user=entry.pw_name)
    assert f"getent passwd {entry.pw_name}" in script
    with tempfile.TemporaryDirectory() as name:
        host = {"LONGSHORE_RUNNER_DIR": f"{name}/runner", "LONGSHORE_HOST_KEYS": f"{name}/*.pub"}
        Path(name).chmod(0o755)
        Path(name, "key.pub").write_text(KEY)
        assert shell(script, host).returncode == 0
        answer = shell(proof_command(), host, as_nobody=True)
        assert is_proof(SECRET, KEY, answer.stdout), answer.stderr


def test_a_void_secret_proves_nothing_any_more(host: dict[str, str]) -> None:
    shell(init_fragment(SECRET), host)
    assert shell(void_command(), host).returncode == 0
    answer = shell(proof_command(), host)
    assert answer.returncode != 0
    assert not is_proof(SECRET, KEY, answer.stdout)
    assert shell(void_command(), host).returncode == 0


def test_a_host_with_an_empty_secret_answers_nothing(host: dict[str, str]) -> None:
    directory = Path(host["LONGSHORE_RUNNER_DIR"])
    directory.mkdir()
    (directory / "instance-secret").write_text("\n")
    answer = shell(proof_command(), host)
    assert answer.returncode != 0
    assert answer.stdout == b""


def test_the_init_fragment_lets_the_script_behind_it_run_even_when_it_fails(
    host: dict[str, str],
) -> None:
    Path(host["LONGSHORE_RUNNER_DIR"]).write_text("a file in the way")
    assert b"done" in shell(init_fragment(SECRET) + "echo done", host).stdout


def cause_of(command: str, host: dict[str, str], secret: str = SECRET) -> UnprovenCause:
    answer = shell(command, host)
    assert not is_proof(secret, KEY, answer.stdout)
    return unproven_cause(secret, exit_status=answer.returncode, answer=answer.stdout)


def test_why_a_key_is_not_proven_is_told(host: dict[str, str], tmp_path: Path) -> None:
    proof = proof_command()
    without_python = {**host, "PATH": str(tmp_path)}
    assert cause_of(proof, without_python) is UnprovenCause.NO_PYTHON
    assert cause_of(proof, host) is UnprovenCause.SECRET_MISSING
    shell(init_fragment("another"), host)
    assert cause_of(proof, host) is UnprovenCause.SECRET_WRONG
    shell(init_fragment(SECRET), host)
    (tmp_path / "ssh_host_b_key.pub").unlink()
    assert cause_of(proof, host) is UnprovenCause.OTHER_KEY
    (tmp_path / "ssh_host_a_key.pub").unlink()
    assert cause_of(proof, host) is UnprovenCause.NO_KEYS
    assert cause_of("exit 3", host) is UnprovenCause.UNKNOWN


def test_each_cause_is_told_in_words_of_its_own() -> None:
    told = {say_unproven(cause) for cause in UnprovenCause}
    assert len(told) == len(UnprovenCause)
