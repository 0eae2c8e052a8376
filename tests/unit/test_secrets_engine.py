"""What waits for a secret: held out of the queue, nothing bought for it, and let go by itself."""

from __future__ import annotations

from dataclasses import replace

import pytest

from longshore.dispatcher.domain.containers import AttemptOutcome, Container
from longshore.dispatcher.domain.messages import SecretsChanged
from longshore.dispatcher.domain.secrets import KnownSecrets, why_withheld
from longshore.pool.messages import CreateInstance, StartAttempt, StartRefused, StartWithheld
from longshore.pool.model import NO_SECRETS, SecretKind, SecretUse
from tests.rigs.engine import Rig, last_commands
from tests.samples import make_container, make_type

USE = SecretUse(secret="db", kind=SecretKind.ENV, target="DB")


def given(number: int = 1, *, sealed: bool = False) -> Container:
    plain = make_container(number)
    spec = replace(plain.spec, secrets=(USE,), sealed_env=(("T", "key1.token"),) if sealed else ())
    return replace(plain, spec=spec)


def known(project: str, *, keys: tuple[str, ...] = ("key1",), locked: bool = False) -> KnownSecrets:
    names = frozenset({(project, "db")})
    none: frozenset[tuple[str, str]] = frozenset()
    return KnownSecrets(
        readable=none if locked else names, locked=names if locked else none, keys=frozenset(keys)
    )


PROJECT = make_container(1).project
ALL = known(PROJECT)


@pytest.mark.parametrize(
    ("container", "found", "told"),
    [
        (make_container(1), KnownSecrets(), None),
        (given(), ALL, None),
        (given(sealed=True), ALL, None),
        (given(), KnownSecrets(), "there is no secret 'db' in project"),
        (given(), known("another"), "there is no secret 'db' in project"),
        (given(), known(PROJECT, locked=True), "the key to secret 'db' of project"),
        (given(sealed=True), known(PROJECT, keys=("key2",)), "the key to the secret value of 'T'"),
        (
            given(sealed=True),
            known(PROJECT, keys=(), locked=True),
            f"the key to secret 'db' of project {PROJECT} and the secret value of 'T' in its env",
        ),
    ],
)
def test_who_waits_for_secrets(container: Container, found: KnownSecrets, told: str | None) -> None:
    reason = why_withheld(container, found)
    assert (reason is None) is (told is None)
    if reason is not None and told is not None:
        assert reason.message.startswith(told)
        assert reason.code == "secrets"


def test_a_reason_names_the_secret_the_project_and_the_command_that_mends_it() -> None:
    other = SecretUse(secret="api", kind=SecretKind.ENV, target="API")
    one = given(sealed=True)
    both = replace(one, project="my lab", spec=replace(one.spec, secrets=(USE, other)))
    gone = {
        one: f"there is no secret 'db' in project {PROJECT} any more: set it again"
        f" (longshore secret set db --project {PROJECT}), or cancel this container",
        both: "there are no secrets 'api', 'db' in project my lab any more: set them again"
        " (longshore secret set NAME --project 'my lab'), or cancel this container",
    }
    for container, sentence in gone.items():
        reason = why_withheld(container, known("another"))
        assert reason is not None
        assert (reason.message, reason.topic) == (sentence, "gone")
    lost = why_withheld(one, known(PROJECT, keys=(), locked=True))
    assert lost is not None
    assert lost.topic == "locked"
    assert lost.message.endswith(
        "put back the key file (secret_keys in the data directory, or secrets.key_file); if"
        " that file is lost, make a new key (longshore secret rotate-keys),"
        f" and then set it again (longshore secret set db --project {PROJECT}) and submit this"
        " container again"
    )


def test_what_is_gone_and_what_cannot_be_decrypted_are_told_at_once() -> None:
    reason = why_withheld(given(sealed=True), KnownSecrets())
    assert reason is not None
    assert "no secret 'db' in project" in reason.message
    assert "besides, the key to the secret value of 'T' in its env is missing" in reason.message


def test_what_lacks_a_secret_waits_without_an_instance_and_goes_on_by_itself() -> None:
    rig = Rig(make_type(1))
    rig.submit(given())
    assert rig.states() == {"c-1": "queued"}
    assert not last_commands(rig, CreateInstance)
    why = rig.view.wait_reason("c-1")
    assert why is not None
    assert "there is no secret 'db'" in why.message
    rig.send(SecretsChanged(known=ALL))
    assert rig.states() == {"c-1": "running"}
    (start,) = last_commands(rig, StartAttempt)
    assert (start.order.secrets.project, start.order.secrets.uses) == (PROJECT, (USE,))


def test_who_has_none_is_started_whatever_there_is() -> None:
    rig = Rig(make_type(1))
    rig.submit(make_container(1))
    rig.send(SecretsChanged(known=ALL))
    (start,) = last_commands(rig, StartAttempt)
    assert start.order.secrets is NO_SECRETS


def test_who_has_a_claim_gives_it_up_when_its_secret_goes() -> None:
    rig = Rig(make_type(1))
    rig.silent.add(CreateInstance)
    rig.send(SecretsChanged(known=ALL))
    rig.submit(given())
    assert rig.states() == {"c-1": "locked"}
    rig.send(SecretsChanged(known=KnownSecrets()))
    assert rig.states() == {"c-1": "queued"}
    assert rig.view.is_gated("c-1")


def test_what_runs_goes_on_when_its_secret_goes_and_its_next_attempt_waits() -> None:
    rig = Rig(make_type(1))
    rig.send(SecretsChanged(known=ALL))
    rig.submit(given())
    rig.send(SecretsChanged(known=KnownSecrets()))
    assert rig.states() == {"c-1": "running"}
    rig.set_priority("c-1", 0)
    rig.exit("c-1-1", 143)
    rig.set_priority("c-1", 500)
    assert rig.states() == {"c-1": "queued"}
    rig.send(SecretsChanged(known=ALL))
    assert rig.states() == {"c-1": "running"}


def test_after_a_restart_it_waits_until_they_are_known() -> None:
    rig = Rig(make_type(1))
    rig.submit(given())
    rig.crash()
    assert rig.states() == {"c-1": "queued"}
    rig.send(SecretsChanged(known=ALL))
    assert rig.states() == {"c-1": "running"}


def test_a_withheld_start_is_no_try_and_blames_no_instance() -> None:
    rig = Rig(make_type(1))
    rig.silent.add(StartAttempt)
    rig.send(SecretsChanged(known=ALL))
    rig.submit(given())
    start = last_commands(rig, StartAttempt)[-1]
    rig.send(SecretsChanged(known=KnownSecrets()))
    for _ in range(2):  # repeated, it changes nothing
        rig.send(
            StartWithheld(
                op_id=start.op_id, worker_id="i-001", attempt_id="c-1-1", message="it is gone"
            )
        )
    container = rig.containers["c-1"]
    assert (container.state.value, len(container.attempts)) == ("queued", 1)
    (attempt,) = container.attempts
    assert attempt.outcome is AttemptOutcome.PREEMPTED
    assert attempt.reason is not None
    assert (attempt.reason.code, attempt.reason.message) == ("secret_missing", "it is gone")
    assert rig.worker_states() == {"i-001": "idle"}
    assert rig.workers["i-001"].health.refusals == 0
    rig.send(SecretsChanged(known=ALL))
    assert rig.started_on() == {"c-1": "i-001"}


def test_an_instance_cannot_say_that_it_was_never_sent() -> None:
    rig = Rig(make_type(1))
    rig.silent.add(StartAttempt)
    rig.submit(make_container(1))
    start = last_commands(rig, StartAttempt)[-1]
    rig.send(
        StartRefused(
            op_id=start.op_id,
            worker_id="i-001",
            attempt_id="c-1-1",
            code="secrets",
            message="no",
        )
    )
    assert rig.workers["i-001"].health.refusals == 1
