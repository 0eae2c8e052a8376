"""A driver on the bench: each one whose instances are on this machine, and a plain SSH client."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path

import paramiko

from longshore.drivers.interface import (
    HostKeyVerdict,
    Instance,
    InstanceSet,
    InstanceType,
    Resources,
)
from longshore.drivers.local import loopback
from longshore.drivers.local.ssh_server import host_key_in, public_key_text
from longshore.drivers.registry import DriverContext, driver
from longshore.drivers.simulated.parameters import SimulatedParameters
from tests import sshd_driver
from tests.sshd_host import wait_until

TYPE = InstanceType(
    name="small",
    provider_type="t1",
    resources=Resources(cpu_millis=1000, memory_bytes=2**30),
    price_usd_per_hour=Decimal("0.1"),
)
TAGS = {"longshore-cluster": "contract", "longshore-type": "small"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One driver, and in what the drivers are meant to differ."""

    name: str
    parameters: object
    most: int
    verdicts: tuple[HostKeyVerdict, HostKeyVerdict]
    survives: bool


FIRST = "token-1"
UNKNOWN = (HostKeyVerdict.UNKNOWN, HostKeyVerdict.UNKNOWN)
CASES = (
    Case(
        name="loopback",
        parameters=loopback.LoopbackParameters(),
        most=1,
        verdicts=(HostKeyVerdict.GENUINE, HostKeyVerdict.WRONG),
        survives=True,
    ),
    Case(
        name="simulated",
        parameters=SimulatedParameters(boot_time_s=0.1, quota=3),
        most=3,
        verdicts=UNKNOWN,
        survives=False,
    ),
    Case(
        name="tests.sshd_driver:DRIVER",
        parameters=sshd_driver.SshdParameters(quota=3),
        most=3,
        verdicts=UNKNOWN,
        survives=True,
    ),
)


class Bench:
    """One driver under test, with a client's key and a plain client."""

    def __init__(self, case: Case, directory: Path) -> None:
        self.case = case
        self.key = host_key_in(made_directory(directory / "client"))
        self.public_key = public_key_text(self.key)
        # A relative one, as a configuration may name it.
        self.state_dir = Path("state")
        self.set: InstanceSet = self.open()

    def open(self) -> InstanceSet:
        """Return a new instance set over the same state, as a restarted dispatcher makes it."""
        context = DriverContext(cluster="contract", state_dir=self.state_dir, clock=time.monotonic)
        return driver(self.case.name).make(self.case.parameters, context)

    def create(
        self, token: str = FIRST, *, init: str = "", tags: Mapping[str, str] = TAGS
    ) -> Instance:
        return self.set.create(
            instance_type=TYPE,
            image="",
            tags=tags,
            init_command=init,
            public_key=self.public_key,
            token=token,
        )

    def listed(self, instance_id: str) -> Instance | None:
        found = [each for each in self.set.instances({}) if each.id == instance_id]
        return found[0] if found else None

    @contextmanager
    def connected(self, instance: Instance) -> Iterator[paramiko.Transport]:
        """Yield a client's connection, once the instance lets clients in."""
        reached: list[socket.socket] = []

        def reach() -> bool:
            now = self.listed(instance.id)
            assert now is not None
            host, _, port = now.address.rpartition(":")
            try:
                reached.append(socket.create_connection((host, int(port)), timeout=5.0))
            except (ValueError, ConnectionRefusedError):
                return False
            return True

        wait_until(reach, f"{instance.id} to accept a connection")
        transport = paramiko.Transport(reached[0])
        try:
            transport.connect(username="root", pkey=self.key)
            yield transport
        finally:
            transport.close()
            transport.join()

    def run(self, instance: Instance, command: str) -> str:
        with self.connected(instance) as transport:
            channel = transport.open_session()
            channel.exec_command(command)
            output = channel.makefile().read().decode()
            assert channel.recv_exit_status() == 0
            return output


def made_directory(directory: Path) -> Path:
    """Make a directory and return it."""
    directory.mkdir()
    return directory


def answers(address: str) -> bool:
    """Return whether an SSH server answers there."""
    host, _, port = address.rpartition(":")
    try:
        with socket.create_connection((host, int(port)), 5.0) as client:
            return client.recv(4) == b"SSH-"
    except ConnectionRefusedError:
        return False
