"""The values of secrets are looked up when a start is sent, and go to the runner alone."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from longshore.pool.messages import (
    Probe,
    ProbeFailed,
    StartAttempt,
    StartRefused,
    StartUnknown,
    StartWithheld,
)
from longshore.pool.model import AttemptOrder, SecretKind, SecretOrder, SecretUse, SecretValues
from longshore.pool.remote.secret_source import SecretsUnusable, SecretsWithheld
from tests.rigs.performer import Rig as PerformerRig
from tests.rigs.performer import performing
from tests.rigs.session import Rig

VALUE = "hunter2-or-so"
WANTED = SecretOrder(
    project="p",
    uses=(SecretUse(secret="db", kind=SecretKind.ENV, target="DB"),),
    sealed_env=(("A", "sealed"),),
)


class Source:
    """Gives what the test says by then."""

    def __init__(self) -> None:
        self.asked: list[SecretOrder] = []
        self.gives: SecretValues | Exception = SecretValues()

    def values(self, order: SecretOrder) -> SecretValues:
        self.asked.append(order)
        if isinstance(self.gives, Exception):
            raise self.gives
        return self.gives


@pytest.fixture
def far() -> Iterator[Rig]:
    made = Rig(request_timeout_s=60.0, heartbeat_timeout_s=600.0)
    yield made
    made.close()


def begin(rig: PerformerRig, far: Rig) -> None:
    """Give the worker "i-1" a session."""
    unreachable = Probe(
        op_id=1,
        worker_id="i-1",
        revision=0,
        address="127.0.0.1:1",
        host_key="",
        secret="s",
        boot=False,
    )
    rig.performer.perform(unreachable)
    assert isinstance(rig.outcome(), ProbeFailed)
    rig.performer._links["i-1"][0]._session = far.start()


def start(rig: PerformerRig, number: int, secrets: SecretOrder = WANTED) -> None:
    order = AttemptOrder(
        attempt_id=f"a-{number}",
        container_id=f"c-{number}",
        image="",
        command=("true",),
        secrets=secrets,
    )
    rig.performer.perform(StartAttempt(op_id=2, worker_id="i-1", order=order, boot_id="b"))


def test_each_start_has_what_there_is_by_then_and_no_log_has_it(far: Rig, tmp_path: Path) -> None:
    source = Source()
    with performing(tmp_path, secrets=source) as rig, capture_logs() as logs:
        begin(rig, far)
        for number, value in enumerate((VALUE, f"{VALUE}-changed")):
            source.gives = SecretValues(
                env=(("DB", value),), files=(("f", value),), registries=(("r", value),)
            )
            start(rig, number)
            assert far.hear()["attempt"]["secrets"] == {
                "env": {"DB": value},
                "files": {"f": value},
                "registries": {"r": value},
            }
            assert VALUE not in repr(source.gives)
        source.gives = SecretValues()
        start(rig, 2, SecretOrder())
        assert "secrets" not in far.hear()["attempt"]
        assert source.asked == [WANTED, WANTED, SecretOrder()]
        far.close()
        for _ in range(3):
            assert isinstance(rig.outcome(), StartUnknown)
    assert VALUE not in str(logs)


def test_what_cannot_be_had_is_not_sent(far: Rig, tmp_path: Path) -> None:
    source = Source()
    with performing(tmp_path, secrets=source) as rig:
        begin(rig, far)
        source.gives = SecretsWithheld("it is gone")
        start(rig, 1)
        event = rig.outcome()
        assert isinstance(event, StartWithheld)
        assert (event.op_id, event.attempt_id, event.message) == (2, "a-1", "it is gone")
        source.gives = SecretsUnusable("it is no login")
        start(rig, 2)
        event = rig.outcome()
        assert isinstance(event, StartRefused)
        assert (event.code, event.message) == ("invalid", "it is no login")
        source.gives = SecretValues()
        start(rig, 3)
        assert far.hear()["attempt"]["attempt_id"] == "a-3", "the others never were sent"
        far.close()
        assert isinstance(rig.outcome(), StartUnknown)
