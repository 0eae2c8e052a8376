"""Host keys against those who would be an instance that they are not: over real SSH, both sides.

Every server here keeps a record of the commands that reached it, since what matters is not only
that a probe fails, but that nothing besides the proof was ever sent.
"""

from __future__ import annotations

import socket
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import paramiko
import pytest
from paramiko.common import AUTH_SUCCESSFUL, OPEN_SUCCEEDED

from longshore.drivers.interface import HostKeyVerdict
from longshore.pool.hostkey import init_fragment, proof_command
from longshore.pool.remote.link import WorkerLink
from longshore.pool.remote.link_model import LinkReady, ProbeStage, ProbeStageError
from longshore.pool.remote.remote_shell import for_any_shell
from longshore.pool.remote.ssh_keys import PrivateKey, load_or_create_private_key, public_key_text
from tests.rigs.link import Recorder, genuine, link_settings, make_link, unknown
from tests.sshd_host import SshdHost, wait_until

pytestmark = pytest.mark.real

PROOF = for_any_shell(proof_command())
SECRET = "the secret of i-1"  # noqa: S105 - it guards nothing


class RecordedHost:
    """A real instance that writes down each command before it runs it."""

    def __init__(self, directory: Path, key: PrivateKey, secret: str) -> None:
        self.record = directory / "commands"
        recorder = directory / "recorder"
        directory.mkdir()
        recorder.write_text(
            f'#!/bin/sh\nprintf "%s\\0" "$SSH_ORIGINAL_COMMAND" >> {self.record}\n'
            'exec /bin/sh -c "$SSH_ORIGINAL_COMMAND"\n'
        )
        recorder.chmod(0o755)
        self.sshd = SshdHost(
            directory,
            authorized_key=public_key_text(key),
            configuration=[f"ForceCommand {recorder}"],
        )
        if secret:
            # As the cloud would: on the instance, before it can be reached.
            subprocess.run(
                ["/bin/sh", "-c", init_fragment(secret)],
                env={
                    "PATH": "/usr/bin:/bin",
                    "LONGSHORE_RUNNER_DIR": str(self.sshd.runner_directory),
                },
                check=True,
            )

    @property
    def commands(self) -> list[str]:
        """Return every command that reached this host."""
        if not self.record.exists():
            return []
        return self.record.read_text().split("\0")[:-1]

    @property
    def secret_file(self) -> Path:
        return self.sshd.runner_directory / "instance-secret"


class Relay(paramiko.ServerInterface):
    """A man in the middle: its own host key, and every command passed on to the true host."""

    def __init__(self, true_host: RecordedHost, key: PrivateKey, tmp_path: Path) -> None:
        self.true_host = true_host
        self.commands: list[str] = []
        self._identity = tmp_path / "relay-identity"
        self._identity.write_text(key.openssh_text)
        self._identity.chmod(0o600)
        self._host_key = paramiko.RSAKey.generate(2048)
        self._server = socket.create_server(("127.0.0.3", 0))
        self._transports: list[paramiko.Transport] = []
        self._workers: list[threading.Thread] = []
        self._thread = threading.Thread(target=self._accept, name="relay")
        self._thread.start()
        self.address = f"127.0.0.3:{self._server.getsockname()[1]}"

    def _accept(self) -> None:
        while True:
            try:
                connected, _ = self._server.accept()
            except OSError:
                return
            transport = paramiko.Transport(connected)
            transport.set_log_channel("relay")
            transport.add_server_key(self._host_key)
            self._transports.append(transport)
            transport.start_server(event=threading.Event(), server=self)

    def get_allowed_auths(self, _username: str) -> str:
        return "publickey"

    def check_auth_publickey(self, _username: str, _key: paramiko.PKey) -> int:
        return AUTH_SUCCESSFUL

    def check_channel_request(self, _kind: str, _channel_id: int) -> int:
        return OPEN_SUCCEEDED

    def check_channel_exec_request(self, channel: paramiko.Channel, command: bytes) -> bool:
        self.commands.append(command.decode())
        worker = threading.Thread(target=self._pass_on, args=(channel, command.decode()))
        self._workers.append(worker)
        worker.start()
        return True

    def _pass_on(self, channel: paramiko.Channel, command: str) -> None:
        host, _, port = self.true_host.sshd.address.partition(":")
        options = ["-o", "StrictHostKeyChecking=no", "-o", "UserKnownHostsFile=/dev/null"]
        answer = subprocess.run(
            ["ssh", "-i", str(self._identity), "-p", port, *options, f"root@{host}", command],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=False,
        )
        channel.sendall(answer.stdout)
        channel.send_exit_status(answer.returncode)
        channel.close()

    def close(self) -> None:
        self._server.shutdown(socket.SHUT_RDWR)
        self._server.close()
        self._thread.join()
        for worker in self._workers:
            worker.join()
        for transport in self._transports:
            transport.close()
            transport.join()


@pytest.fixture
def key(tmp_path: Path) -> PrivateKey:
    return load_or_create_private_key(tmp_path / "keys" / "id")


@pytest.fixture
def host(tmp_path: Path, key: PrivateKey) -> Iterator[RecordedHost]:
    made = RecordedHost(tmp_path / "i-1", key, SECRET)
    yield made
    made.sshd.stop()


@pytest.fixture
def link(key: PrivateKey) -> Iterator[WorkerLink]:
    made = make_link(link_settings(key, boot_probe_command="echo boot probe"), Recorder())
    yield made
    made.close()


def refusal(link: WorkerLink, address: str, *, host_key: str = "", secret: str = "") -> str:
    """Probe in vain, at the stage of the host key, and return why."""
    with pytest.raises(ProbeStageError) as caught:
        link.probe(address=address, host_key=host_key, secret=secret, boot=True, verify=unknown)
    assert caught.value.stage is ProbeStage.HOST_KEY
    return caught.value.message


def success(link: WorkerLink, host: RecordedHost, *, host_key: str, secret: str) -> LinkReady:
    return link.probe(
        address=host.sshd.address, host_key=host_key, secret=secret, boot=True, verify=unknown
    )


def test_a_new_host_is_trusted_by_its_secret_and_the_secret_goes_once_it_is_pinned(
    host: RecordedHost, link: WorkerLink
) -> None:
    ready = success(link, host, host_key="", secret=SECRET)
    assert ready.host_key == host.sshd.host_key
    assert host.commands[0] == PROOF, "the proof comes first"
    assert host.commands.count(PROOF) == 1
    # Until the pin is kept by the caller, a crash would need the secret again.
    assert host.secret_file.exists()
    success(link, host, host_key=ready.host_key, secret="")
    assert not host.secret_file.exists()


def test_a_relay_cannot_pass_on_the_true_hosts_proof(
    host: RecordedHost, link: WorkerLink, key: PrivateKey, tmp_path: Path
) -> None:
    relay = Relay(host, key, tmp_path)
    try:
        assert "does not prove" in refusal(link, relay.address, secret=SECRET)
    finally:
        relay.close()
    assert relay.commands == [PROOF]
    assert host.commands == [PROOF], "the relay did get the true host's answer"
    assert success(link, host, host_key="", secret=SECRET).host_key == host.sshd.host_key


def test_a_relay_before_a_pinned_host_gets_no_command_at_all(
    host: RecordedHost, link: WorkerLink, key: PrivateKey, tmp_path: Path
) -> None:
    relay = Relay(host, key, tmp_path)
    try:
        refusal(link, relay.address, host_key=host.sshd.host_key, secret=SECRET)
    finally:
        relay.close()
    assert relay.commands == []
    assert host.commands == []


def test_another_instances_proof_is_none(link: WorkerLink, key: PrivateKey, tmp_path: Path) -> None:
    other = RecordedHost(tmp_path / "i-2", key, "the secret of i-2")
    try:
        assert "does not prove" in refusal(link, other.sshd.address, secret=SECRET)
        assert other.commands == [PROOF]
    finally:
        other.sshd.stop()


def test_a_host_without_the_secret_is_not_trusted_yet(
    link: WorkerLink, key: PrivateKey, tmp_path: Path
) -> None:
    bare = RecordedHost(tmp_path / "i-2", key, "")
    try:
        assert "is not there" in refusal(link, bare.sshd.address, secret=SECRET)
        assert bare.commands == [PROOF]
    finally:
        bare.sshd.stop()


def test_a_changed_key_of_a_pinned_host_gets_no_command(
    host: RecordedHost, link: WorkerLink, key: PrivateKey
) -> None:
    refusal(link, host.sshd.address, host_key=public_key_text(key), secret=SECRET)
    assert host.commands == []


def test_a_changed_key_is_accepted_when_the_driver_vouches_for_it(
    host: RecordedHost, link: WorkerLink, key: PrivateKey
) -> None:
    ready = link.probe(
        address=host.sshd.address,
        host_key=public_key_text(key),
        secret="",
        boot=True,
        verify=genuine,
    )
    assert ready.host_key == host.sshd.host_key
    assert PROOF not in host.commands


def test_a_key_that_the_driver_denies_is_refused_even_when_it_is_pinned(
    host: RecordedHost, link: WorkerLink
) -> None:
    with pytest.raises(ProbeStageError) as caught:
        link.probe(
            address=host.sshd.address,
            host_key=host.sshd.host_key,
            secret=SECRET,
            boot=True,
            verify=lambda _: HostKeyVerdict.WRONG,
        )
    assert caught.value.stage is ProbeStage.HOST_KEY
    assert host.commands == []


def test_without_pin_secret_or_word_of_the_driver_we_do_not_even_log_in(
    host: RecordedHost, link: WorkerLink
) -> None:
    assert "no pinned key, no secret" in refusal(link, host.sshd.address)
    success(link, host, host_key=host.sshd.host_key, secret="")
    wait_until(lambda: "Accepted publickey" in host.sshd.log_file.read_text(), "the login")
    assert host.sshd.log_file.read_text().count("Accepted publickey") == 1


@pytest.mark.parametrize("flood", ["head -c 10000000 /dev/zero", "yes"])
def test_a_huge_answer_is_no_proof(
    link: WorkerLink, key: PrivateKey, tmp_path: Path, flood: str
) -> None:
    liar = tmp_path / "liar"
    liar.write_text(f"#!/bin/sh\nexec {flood}\n")
    liar.chmod(0o755)
    with SshdHost(
        tmp_path / "i-2",
        authorized_key=public_key_text(key),
        configuration=[f"ForceCommand {liar}"],
    ) as sshd:
        assert "more than 69632 bytes" in refusal(link, sshd.address, secret=SECRET)
