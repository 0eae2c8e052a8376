"""A cloud behind Libcloud: its dummy driver, with nodes that stand on real `sshd` processes.

It speaks to Libcloud's users as clouds with tags do: user data and tags of a node are arguments.
A node's user data is never run as it is: what it holds is taken out of it, the init script is run
in the node's own directory, and its key is let in by the node's sshd after that.
"""

from __future__ import annotations

import base64
import re
import secrets
import shlex
import socket
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import requests
from libcloud.common.exceptions import BaseHTTPError, RateLimitReachedError
from libcloud.common.types import InvalidCredsError
from libcloud.compute.base import Node, NodeImage, NodeSize
from libcloud.compute.drivers.dummy import DummyConnection, DummyNodeDriver
from libcloud.compute.providers import DRIVERS, set_driver
from libcloud.compute.types import NodeState

from longshore.dispatcher.conformance.model import Cause
from longshore.drivers.local.machine import instance_environment, remove_files, run_init
from longshore.drivers.local.processes import end_processes
from longshore.drivers.local.ssh_command import Wake
from tests.sshd_host import SshdHost

PROVIDER = "longshore-test"
_CLOUDS: dict[str, SshdCloud] = {}

_INIT = re.compile(r"<<'END-OF-INIT'\n(.*?)\nEND-OF-INIT\n", re.DOTALL)
_KEY = re.compile(r"^printf '\\n%s\\n' (.*) >>\"\$home/.ssh/authorized_keys\"$", re.MULTILINE)


def parts_of(user_data: str) -> tuple[str, str]:
    """Return the init script and the key that user data hold."""
    init, key = _INIT.search(user_data), _KEY.search(user_data)
    assert init is not None, user_data
    assert key is not None, user_data
    return base64.b64decode(init[1]).decode(), shlex.split(key[1])[0]


@dataclass(slots=True)
class _Machine:
    """What stands behind a node; `host` is None until it has booted, or for good when it ends."""

    id: str
    name: str
    address: str
    directory: Path
    tags: dict[str, str] = field(default_factory=dict)
    host: SshdHost | None = None
    wake: Wake = field(default_factory=Wake)
    boot: threading.Thread | None = None


class SshdCloud:
    """The account of one test: its nodes, and the trouble that it makes on demand.

    `key` is what Libcloud's driver is made with, `port` that of all SSH servers. With a `meeting`,
    every listing waits there for another one.
    """

    def __init__(self, directory: Path) -> None:
        self.key = secrets.token_hex(8)
        self.creates: list[dict[str, Any]] = []
        self.meeting: threading.Barrier | None = None
        self._directory = directory
        self._machines: dict[str, _Machine] = {}
        self._lock = threading.RLock()
        self._trouble: Cause | None = None
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port: int = probe.getsockname()[1]
        _CLOUDS[self.key] = self
        if PROVIDER not in DRIVERS:
            set_driver(PROVIDER, __name__, "SshdNodeDriver")  # type: ignore[arg-type]  # names are what it takes

    @property
    def causes(self) -> frozenset[Cause]:
        return frozenset(_TROUBLE) | {Cause.LOST_ANSWER, Cause.DUPLICATES}

    @contextmanager
    def causing(self, cause: Cause) -> Iterator[None]:
        self._trouble = cause
        try:
            yield
        finally:
            self._trouble = None

    def make_foreign(self) -> str:
        """Create a node that is not ours."""
        return self._add("somebody-elses", {}).id

    def is_running(self, instance_id: str) -> bool:
        """Return whether there is a node."""
        return instance_id in self._machines

    def close(self) -> None:
        """End everything."""
        for machine_id in sorted(self._machines):
            self.end(machine_id)
        del _CLOUDS[self.key]

    # ---- what Libcloud's driver asks -----------------------------------------------------

    def call(self, name: str) -> None:
        """Raise what the trouble of the moment does to a call."""
        if self._trouble in _TROUBLE:
            calls, make = _TROUBLE[self._trouble]
            if name in calls:
                error: Exception = make()
                raise error

    def create(self, name: str, user_data: str) -> _Machine:
        """Make a machine and let it boot; a lost answer is lost after that."""
        self.call("create")
        init_command, public_key = parts_of(user_data)
        machine = self._add(name, {})
        thread = threading.Thread(
            target=self._boot, args=(machine, init_command, public_key), name="node-boot"
        )
        machine.boot = thread
        thread.start()
        if self._trouble is Cause.LOST_ANSWER:
            raise requests.exceptions.ReadTimeout("the answer is lost")
        return machine

    def machines(self) -> list[_Machine]:
        """Return the machines, twice when that is the trouble."""
        self.call("listing")
        if self.meeting is not None:
            with suppress(threading.BrokenBarrierError):
                self.meeting.wait()
        with self._lock:
            found = [machine for _, machine in sorted(self._machines.items())]
        return found * (2 if self._trouble is Cause.DUPLICATES else 1)

    def set_tags(self, machine_id: str, tags: Mapping[str, str]) -> None:
        """Set tags, or answer that there is no such machine."""
        self.call("tags")
        with self._lock:
            if machine_id not in self._machines:
                raise BaseHTTPError(404, f"no node {machine_id}")  # type: ignore[no-untyped-call]  # Libcloud's
            self._machines[machine_id].tags.update(tags)

    def end(self, machine_id: str) -> None:
        """End a machine, or answer that there is none."""
        with self._lock:
            machine = self._machines.pop(machine_id, None)
        if machine is None:
            raise BaseHTTPError(404, f"no node {machine_id}")  # type: ignore[no-untyped-call]  # Libcloud's
        machine.wake.set()
        if machine.boot is not None:
            machine.boot.join()
        if machine.host is not None:
            machine.host.stop()
        end_processes(machine_id)
        machine.wake.close()
        remove_files(machine.directory)

    def _add(self, name: str, tags: dict[str, str]) -> _Machine:
        machine_id = f"i-libcloud-{secrets.token_hex(6)}"
        numbers = [str(1 + secrets.randbelow(254)) for _ in range(2)]
        machine = _Machine(
            id=machine_id,
            name=name,
            address=".".join(["127", str(64 + secrets.randbelow(128)), *numbers]),
            directory=self._directory / machine_id,
            tags=tags,
        )
        machine.directory.mkdir(mode=0o700, parents=True)
        with self._lock:
            self._machines[machine_id] = machine
        return machine

    def _boot(self, machine: _Machine, init_command: str, public_key: str) -> None:
        environment = instance_environment(machine.id, machine.directory)
        ended = run_init(
            init_command, environment=environment, directory=machine.directory, wake=machine.wake
        )
        if ended:
            machine.host = SshdHost(
                machine.directory,
                host=machine.address,
                port=self.port,
                authorized_key=public_key,
                environment={"LONGSHORE_INSTANCE_ID": machine.id},
            )


class SshdNodeDriver(DummyNodeDriver):
    """Libcloud's dummy, over an `SshdCloud` in place of the list that it keeps."""

    def __init__(self, key: str, **_: object) -> None:
        self.cloud = _CLOUDS[key]
        self.connection = DummyConnection(key)  # type: ignore[no-untyped-call]  # Libcloud's

    def list_nodes(self) -> list[Node]:
        return [self._node(machine) for machine in self.cloud.machines()]

    def create_node(  # type: ignore[override]  # as Libcloud's own drivers do, which take what they need
        self,
        name: str,
        size: NodeSize,
        image: NodeImage,
        ex_userdata: str = "",
        ex_colour: str = "",
    ) -> Node:
        self.cloud.creates.append(
            {"name": name, "size": size.id, "image": image.id, "ex_colour": ex_colour}
        )
        return self._node(self.cloud.create(name, ex_userdata))

    def destroy_node(self, node: Node) -> bool:
        self.cloud.end(str(node.id))
        return True

    def ex_create_tags(self, resource: Node, tags: Mapping[str, str]) -> None:
        self.cloud.set_tags(str(resource.id), tags)

    def _node(self, machine: _Machine) -> Node:
        return Node(
            id=machine.id,
            name=machine.name,
            state=NodeState.RUNNING,
            public_ips=[machine.address],
            private_ips=[],
            driver=self,
            extra={"tags": dict(machine.tags)},
        )


def _http(status: int, text: str) -> Exception:
    error: Exception = BaseHTTPError(status, text)  # type: ignore[no-untyped-call]  # Libcloud's
    return error


def _throttled() -> Exception:
    error: Exception = RateLimitReachedError(headers={"retry-after": "7"})  # type: ignore[no-untyped-call]  # Libcloud's
    return error


_ALL = frozenset({"create", "listing", "tags"})
_CREATE = frozenset({"create"})
_TROUBLE: dict[Cause, tuple[frozenset[str], Any]] = {
    Cause.THROTTLED: (_ALL, _throttled),
    Cause.QUOTA_OF_ACCOUNT: (_CREATE, lambda: _http(403, "Quota exceeded for instances")),
    Cause.SHORT_OF_TYPE: (_CREATE, lambda: _http(400, "No valid host was found")),
    Cause.BAD_CREDENTIALS: (_ALL, InvalidCredsError),
    Cause.SERVER_ERROR: (_ALL, lambda: _http(500, "something broke")),
    Cause.CUT_LISTING: (
        frozenset({"listing"}),
        lambda: requests.exceptions.ChunkedEncodingError("cut"),
    ),
}
