"""Instances whose login shell is no POSIX shell, says things of its own, or runs nothing at all.

A real sshd hands commands to the login shell of the passwd entry; here it is made to hand them to
another one, with that one's start-up files, by a forced command.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from longshore.pool.remote.deploy import build_runner
from longshore.pool.remote.link import WorkerLink
from longshore.pool.remote.link_model import LinkReady, ProbeStage, ProbeStageError, StartVerdict
from longshore.pool.remote.ssh_keys import PrivateKey, load_or_create_private_key, public_key_text
from tests.conftest import RequireTool
from tests.rigs.link import Recorder, link_settings, make_link, order, start, unknown
from tests.sshd_host import SshdHost, wait_until

pytestmark = pytest.mark.real

SECRET = "s3cret"  # noqa: S105 - a test's
STARTUP = {
    "bash": (".bashrc", "bash", ""),
    "tcsh": (".tcshrc", "tcsh", "set prompt = '! '; set histchars = '!^'"),
    "fish": (".config/fish/config.fish", "fish", ""),
}
MANY_LINES = "\n".join(f"echo notice {number} of the day" for number in range(40))


@pytest.fixture
def key(tmp_path: Path) -> PrivateKey:
    return load_or_create_private_key(tmp_path / "keys" / "id")


@pytest.fixture
def recorder() -> Recorder:
    return Recorder()


@pytest.fixture
def link(key: PrivateKey, recorder: Recorder) -> Iterator[WorkerLink]:
    settings = link_settings(
        key,
        bundle=build_runner(),
        engine_json='{"name":"process"}',
        boot_probe_command="[ \"$(echo 'it''s' \\\\ !)\" = \"its \\\\ !\" ] &&\n true",
    )
    made = make_link(settings, recorder)
    yield made
    made.close()


def host_with(directory: Path, key: PrivateKey, forced: str) -> SshdHost:
    """Return a host that hands each command to `forced`; its secret is in place."""
    made = SshdHost(
        directory, authorized_key=public_key_text(key), configuration=[f"ForceCommand {forced}"]
    )
    made.runner_directory.mkdir()
    (made.runner_directory / "instance-secret").write_text(SECRET)
    return made


def probe(link: WorkerLink, host: SshdHost, *, host_key: str = "") -> LinkReady:
    return link.probe(
        address=host.address, host_key=host_key, secret=SECRET, boot=True, verify=unknown
    )


@pytest.fixture(params=["bash", "tcsh", "fish"])
def login(request: pytest.FixtureRequest, tmp_path: Path, require_tool: RequireTool) -> Path:
    """Return what hands on commands to a shell that reads `i-1/startup` first."""
    startup, package, more = STARTUP[request.param]
    path = require_tool(request.param, package)
    file = tmp_path / "i-1" / startup
    file.parent.mkdir(parents=True)
    file.write_text(f"{more}\nsource ~/startup\n")
    variable = "BASH_ENV=$HOME/.bashrc " if request.param == "bash" else ""
    script = tmp_path / "login"
    script.write_text(f'#!/bin/sh\n{variable}exec {path} -c "$SSH_ORIGINAL_COMMAND"\n')
    script.chmod(0o755)
    return script


@pytest.mark.parametrize("noise", ["", "echo hello\necho 'of the day'", MANY_LINES])
def test_an_instance_is_of_use_whatever_its_login_shell_is_and_says(
    login: Path, key: PrivateKey, link: WorkerLink, recorder: Recorder, noise: str
) -> None:
    directory = login.parent / "i-1"
    (directory / "startup").write_text(f"{noise}\n")
    with host_with(directory, key, str(login)) as host:
        ready = probe(link, host)
        assert ready.host_key == host.host_key
        # With a pinned key the secret is deleted.
        assert probe(link, host, host_key=host.host_key).report.attempts == ()
        assert not (host.runner_directory / "instance-secret").exists()
        assert start(link, order("a", "sh", "-c", "echo out")).verdict is StartVerdict.STARTED
        wait_until(lambda: recorder.complete == ["a"], "its log")
        assert recorder.logs["a", "stdout"] == b"out\n"
        link.release("a")


def refused(link: WorkerLink, host: SshdHost) -> ProbeStageError:
    with pytest.raises(ProbeStageError) as failed:
        probe(link, host)
    return failed.value


def test_a_login_that_runs_nothing_is_told_in_its_own_words(
    tmp_path: Path, key: PrivateKey, link: WorkerLink
) -> None:
    forced = "echo 'Please login as the user admin rather than the user root.'; exit 142"
    with host_with(tmp_path / "i-1", key, forced) as host:
        error = refused(link, host)
    assert error.stage is ProbeStage.HOST_KEY
    assert "did not run what it was told to (exit status 142" in error.message
    assert "it said: Please login as the user admin rather than" in error.message


def test_a_login_that_never_stops_talking_is_cut_off(
    tmp_path: Path, key: PrivateKey, link: WorkerLink
) -> None:
    with host_with(tmp_path / "i-1", key, "yes") as host:
        error = refused(link, host)
    assert re.search("wrote more than [0-9]+ bytes", error.message)


def test_one_session_a_connection_is_enough(
    tmp_path: Path, key: PrivateKey, link: WorkerLink, recorder: Recorder
) -> None:
    directory = tmp_path / "i-1"
    with SshdHost(
        directory, authorized_key=public_key_text(key), configuration=["MaxSessions 1"]
    ) as host:
        host.runner_directory.mkdir()
        (host.runner_directory / "instance-secret").write_text(SECRET)
        probe(link, host)
        assert start(link, order("a", "sleep", "600")).verdict is StartVerdict.STARTED
        # The session takes the one that its connection may have, and goes on meanwhile.
        for _ in range(2):
            ready = probe(link, host, host_key=host.host_key)
            assert [each.attempt_id for each in ready.report.attempts] == ["a"]
            assert ready.boot_error == ""
        assert not (host.runner_directory / "instance-secret").exists()
        wait_until(lambda: len(host.session_pids()) == 1, "the other connection's end")
        assert recorder.losses == []
        link.signal("a", "KILL", grace_s=0)
        wait_until(lambda: "a" in recorder.exits, "its end")
        link.release("a")
