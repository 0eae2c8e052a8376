"""A performer with a cloud under the test's control, and what it posts."""

from __future__ import annotations

import queue
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from longshore.drivers.interface import HostKeyVerdict, Instance, InstanceType
from longshore.pool.messages import PoolEvent
from longshore.pool.remote.cloud_calls import CloudCalls, Launching
from longshore.pool.remote.deploy import RunnerBundle
from longshore.pool.remote.link_model import LinkSettings
from longshore.pool.remote.performer import Performer
from longshore.pool.remote.secret_source import NoSecrets, SecretSource
from longshore.pool.remote.ssh_keys import load_or_create_private_key

CALL_TIMEOUT_S = 1.0


@dataclass
class Vm:
    """An instance whose every call raises what it is told to."""

    id: str
    error: Exception | None = None
    address: str = "127.0.0.1:1"
    gate: threading.Event | None = None
    destroys: int = 0
    tags: dict[str, str] = field(default_factory=lambda: {"longshore-cluster": "x"})

    def destroy(self) -> None:
        self.destroys += 1
        if self.gate is not None:
            self.gate.wait(60)
        if self.error is not None:
            raise self.error

    def set_tags(self, tags: Mapping[str, str]) -> None:
        if self.error is not None:
            raise self.error
        self.tags.update(tags)

    def verify_host_key(self, public_key: str) -> HostKeyVerdict:
        del public_key
        return HostKeyVerdict.UNKNOWN


class Cloud:
    """A driver under the test's control."""

    def __init__(self) -> None:
        self.vms: list[Vm] = []
        self.error: Exception | None = None
        self.created: list[dict[str, object]] = []
        self.gate = threading.Event()
        self.gate.set()

    def create(
        self,
        *,
        instance_type: InstanceType,
        image: str,
        tags: Mapping[str, str],
        init_command: str,
        public_key: str,
        token: str,
    ) -> Instance:
        self.gate.wait(60)
        if self.error is not None:
            raise self.error
        self.created.append({"init": init_command, "key": public_key, "token": token})
        assert (instance_type.name, image, dict(tags)) == ("t1", "an-image", {"a": "b"})
        self.vms.append(Vm(f"i-{len(self.vms)}"))
        return self.vms[-1]

    def instances(self, tags: Mapping[str, str]) -> Sequence[Instance]:
        assert tags == {"longshore-cluster": "x"}
        if self.error is not None:
            raise self.error
        return self.vms

    def close(self) -> None:
        """Nothing is held."""


class NoLogs:
    """A log sink that nothing reaches in these tests."""

    def append(self, attempt_id: str, stream: str, offset: int, data: bytes) -> None:
        raise AssertionError((attempt_id, stream, offset, data))

    def offsets(self, attempt_id: str) -> tuple[int, int]:
        raise AssertionError(attempt_id)

    def sync(self, attempt_id: str) -> None:
        raise AssertionError(attempt_id)


@dataclass
class Rig:
    """A performer, its cloud, and what it posts."""

    performer: Performer
    cloud: Cloud
    posted: queue.Queue[PoolEvent]

    def outcome(self) -> PoolEvent:
        """Return the next event."""
        return self.posted.get(timeout=60)


def _out_of_reach(tmp_path: Path) -> LinkSettings:
    return LinkSettings(
        user="root",
        private_key=load_or_create_private_key(tmp_path / "key"),
        cluster="x",
        epoch=1,
        bundle=RunnerBundle(data=b"", sha256="0" * 64),
        engine_json="{}",
        handshakes=threading.Semaphore(1),
        clock=lambda: 5.0,
        connect_timeout_s=2.0,
        power_off_command="poweroff",
    )


@contextmanager
def performing(
    tmp_path: Path,
    *,
    settings: LinkSettings | None = None,
    probe_threads: int = 64,
    secrets: SecretSource | None = None,
) -> Iterator[Rig]:
    """Yield a rig; each command must have had its outcome taken in the end.

    Without `settings` its links are for instances that nobody reaches.
    """
    posted: queue.Queue[PoolEvent] = queue.Queue()
    cloud = Cloud()
    calls = CloudCalls(
        cloud,
        cluster="x",
        launching=Launching(
            image="an-image",
            init_command=lambda secret: f"put {secret}",
            public_key="ssh-x AAAA",
        ),
        post=posted.put,
        now=lambda: 5.0,
        threads=6,
        call_timeout_s=CALL_TIMEOUT_S,
        default_port=2222,
    )
    performer = Performer(
        cloud=calls,
        link_settings=settings or _out_of_reach(tmp_path),
        logs=NoLogs(),
        post=posted.put,
        now=lambda: 5.0,
        probe_threads=probe_threads,
        secrets=secrets or NoSecrets(),
    )
    yield Rig(performer, cloud, posted)
    cloud.gate.set()
    assert performer.close()
    assert posted.empty(), "an outcome came twice"
