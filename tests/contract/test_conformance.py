"""The conformance kit: each driver of this machine passes it, and nothing is left of any run."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import replace
from pathlib import Path

import pytest

from longshore.dispatcher.cli.commands import conformance as driver_test
from longshore.dispatcher.cli.commands.main import main
from longshore.dispatcher.conformance.kit import (
    CHECKS,
    Cause,
    Conformance,
    Outcome,
    Report,
    Result,
    check_named,
    run,
)
from longshore.dispatcher.conformance.trial import make_trial
from longshore.drivers.errors import CloudAuthError, CloudError, ConfigError
from longshore.drivers.interface import Instance
from longshore.drivers.local.loopback import DRIVER as LOOPBACK
from longshore.drivers.local.loopback import LoopbackParameters
from tests import sshd_driver
from tests.altered_driver import Altered, AlteredInstance, Call
from tests.broken_drivers import ListsStrangers
from tests.conformance_bed import PATIENCE, SPOT, SimulatedBed
from tests.driver_bench import TYPE
from tests.sshd_host import require_sshd, wait_until

ROOT = Path(__file__).resolve().parents[2]
WITHOUT_MACHINES = tuple(
    each
    for each in CHECKS
    if each.name in ("create", "listed", "filter", "destroy", "many-at-once", "lost-answer")
)


@pytest.fixture
def bed(tmp_path: Path) -> Iterator[SimulatedBed]:
    made = SimulatedBed(tmp_path / "cloud")
    yield made
    made.close()


def shown(report: Report) -> dict[str, str]:
    """Return what did not pass, with the reason."""
    return {each.name: each.why for each in report.results if each.outcome is not Outcome.PASSED}


def test_loopback_passes(tmp_path: Path) -> None:
    trial = make_trial(
        LOOPBACK,
        LoopbackParameters(),
        instance_type=TYPE,
        preemptible_type=SPOT,
        state_dir=tmp_path / "state",
        patience=PATIENCE,
        command="echo a word of its own",
    )
    report = run(trial)
    assert report.conforms, report
    lacking = ("quota-groups", "prices", "offers", "many-at-once", "other-cluster", "preemptible")
    for name in lacking:
        assert "does not claim" in shown(report)[name]
    assert "claims host-keys" in shown(report)["no-host-key-verdict"]
    assert "takes a test bed" in shown(report)["throttled"]
    (own,) = (each for each in report.results if each.name == "own-command")
    assert own.note == "a word of its own"
    assert list((tmp_path / "state").iterdir()) == []


def test_simulated_passes_on_a_bed_that_makes_all_trouble(bed: SimulatedBed) -> None:
    report = run(bed.trial())
    assert report.conforms, report
    assert sorted(shown(report)) == [
        "bad-credentials",
        "host-key-verdict",
        "leftovers",
        "no-preemptible",
        "offers",
        "only-one",
        "own-command",
        "prices",
        "zone-prices",
    ]
    assert bed.ours() == []


@pytest.mark.real
def test_real_sshd_passes(tmp_path: Path) -> None:
    require_sshd()
    trial = make_trial(
        sshd_driver.DRIVER,
        sshd_driver.SshdParameters(),
        instance_type=TYPE,
        state_dir=tmp_path / "state",
        patience=PATIENCE,
    )
    report = run(trial)
    assert report.conforms, report
    assert list((tmp_path / "state").glob("i-sshd-*")) == []


def test_every_check_says_in_a_sentence_what_it_shows() -> None:
    assert len({each.name for each in CHECKS}) == len(CHECKS)
    for each in CHECKS:
        assert each.sentence.endswith("."), each.name


def test_a_check_that_there_is_none_of_is_answered_with_those_there_are() -> None:
    with pytest.raises(ConfigError, match="use one of registration"):
        check_named("create-nothing")


def test_one_check_alone_makes_what_it_needs_and_destroys_it(bed: SimulatedBed) -> None:
    report = run(bed.trial(), only=[check_named("stale-object")])
    assert [each.outcome for each in report.results] == [Outcome.PASSED]
    assert report.conforms
    assert bed.ours() == []


def test_a_command_that_fails_is_a_failure_with_what_it_said(bed: SimulatedBed) -> None:
    trial = bed.trial(command="echo no such disk; exit 3")
    (result,) = run(trial, only=[check_named("own-command")]).results
    assert result.outcome is Outcome.FAILED
    assert "exits with 3: no such disk" in result.why


def test_somebody_may_look_at_the_instance_before_it_is_destroyed(bed: SimulatedBed) -> None:
    seen: list[tuple[str, bool]] = []
    trial = bed.trial(
        pause=lambda instance_id, address: seen.append((address, bed.is_running(instance_id)))
    )
    run(trial, only=[check_named("create"), check_named("destroy")])
    [(address, running)] = seen
    assert running
    assert address.startswith("127.0.0.1:")


@pytest.mark.parametrize("last", [each.name for each in WITHOUT_MACHINES])
def test_nothing_is_left_of_a_run_that_is_interrupted(bed: SimulatedBed, last: str) -> None:
    there: list[str] = []

    def interrupt(result: Result) -> None:
        if result.name == last:
            there.extend(bed.ours())
            raise KeyboardInterrupt

    foreign = bed.make_foreign()
    with pytest.raises(KeyboardInterrupt):
        run(bed.trial(), only=WITHOUT_MACHINES, tell=interrupt)
    assert bool(there) == (last in ("create", "listed", "filter"))
    assert bed.ours() == []
    assert bed.is_running(foreign)


class _Interrupted(Altered):
    """The user's Ctrl-C comes while a create call is under way, which makes an instance."""

    def make(self, call: Call) -> Instance:
        super().make(call)
        raise KeyboardInterrupt


def test_nothing_is_left_of_a_create_call_that_is_interrupted(tmp_path: Path) -> None:
    with closing(SimulatedBed(tmp_path, view=_Interrupted)) as bed:
        conformance = Conformance(bed.trial())
        with pytest.raises(KeyboardInterrupt), conformance:
            conformance.show(check_named("create"))
        assert conformance.left == ()
        assert bed.ours() == []


class _InterruptedAtItsEnd(Altered):
    """The user's Ctrl-C comes when the checks are over, and what they made is being destroyed."""

    interrupted = False

    def shown(self, instance: Instance) -> Instance:
        return _Interrupting(instance, self)


class _Interrupting(AlteredInstance):
    def __init__(self, inner: Instance, owner: _InterruptedAtItsEnd) -> None:
        super().__init__(inner)
        self.owner = owner

    def destroy(self) -> None:
        if not self.owner.interrupted:
            self.owner.interrupted = True
            raise KeyboardInterrupt
        self.inner.destroy()


def test_the_first_interrupt_leaves_nothing_also_when_it_comes_at_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "longshore.yml"
    file.write_text(CONFIGURATION.format(data=tmp_path / "data", state=tmp_path / "state"))
    with closing(SimulatedBed(tmp_path, view=_InterruptedAtItsEnd)) as bed:
        monkeypatch.setattr(driver_test, "_trial", lambda *_: bed.trial())
        assert main(["driver", "test", "-c", str(file), "--only", "create"]) == 130
        assert bed.ours() == []
    told = capsys.readouterr()
    assert "interrupted: destroying what was made; once more leaves it there" in told.err
    assert "nothing is left" in told.out


class _Refused(Altered):
    """The account's credentials are refused, whatever is asked."""

    def make(self, call: Call) -> Instance:
        raise CloudAuthError(f"refused {call.token}")

    def found(self, tags: Mapping[str, str]) -> list[Instance]:
        raise CloudAuthError(f"refused {tags}")


@pytest.mark.parametrize("name", ["create", "registration"])
def test_a_listing_that_fails_is_not_waited_for_when_nothing_was_made(
    tmp_path: Path, name: str
) -> None:
    waited: list[float] = []
    patience = replace(PATIENCE, gone_timeout_s=3.0)
    with closing(SimulatedBed(tmp_path, view=_Refused)) as bed:
        trial = replace(bed.trial(patience=patience), wait=waited.append)
        report = run(trial, only=[check_named(name)])
    assert waited == []
    assert bool(report.left) == (name == "create"), "nobody knows what a driver calls refused"


def test_what_comes_to_light_late_is_destroyed_too(tmp_path: Path) -> None:
    looks: list[int] = []

    class Late(Altered):
        def found(self, tags: Mapping[str, str]) -> list[Instance]:
            looks.append(len(looks))
            return super().found(tags) if len(looks) > 12 else []

    with closing(SimulatedBed(tmp_path, view=Late)) as bed, bed.causing(Cause.LOST_ANSWER):
        conformance = Conformance(bed.trial())
        with conformance:
            result = conformance.show(check_named("create"))
            assert "AmbiguousResult" in result.why
            assert len(bed.ours()) == 1
        assert conformance.left == ()
        assert bed.ours() == []
        assert len(looks) > 12


class _UndyingInstance(AlteredInstance):
    def destroy(self) -> None:
        raise CloudError("not today")


class _Undying(Altered):
    def shown(self, instance: Instance) -> Instance:
        return _UndyingInstance(instance)


def test_what_cannot_be_destroyed_is_named(tmp_path: Path) -> None:
    with closing(SimulatedBed(tmp_path, view=_Undying)) as bed:
        trial = bed.trial(patience=replace(PATIENCE, gone_timeout_s=0.5))
        report = run(trial, only=[check_named("create")])
        assert [each.outcome for each in report.results] == [Outcome.PASSED]
        assert not report.conforms
        (instance_id,) = bed.ours()
        assert report.left == (f"{instance_id}: CloudError: not today",)


class _Thief(Altered):
    """Returns somebody else's instance as the one that it created."""

    def make(self, call: Call) -> Instance:
        assert call.token
        return next(each for each in self.cloud.instances({}) if "owner" in each.tags)


def test_an_instance_that_is_not_ours_is_not_destroyed_whatever_the_driver_says(
    tmp_path: Path,
) -> None:
    with closing(SimulatedBed(tmp_path, view=_Thief)) as bed:
        foreign = bed.make_foreign()
        patience = replace(PATIENCE, listing_lag_s=0.3, gone_timeout_s=0.3)
        report = run(bed.trial(patience=patience), only=[check_named("create")])
        assert [each.outcome for each in report.results] == [Outcome.FAILED]
        assert bed.is_running(foreign)
        what = "a create call of ours returned it, and it does not carry our tag"
        assert report.left == (f"{foreign}: {what}",)


def test_what_a_driver_lists_as_ours_and_is_not_is_not_destroyed(tmp_path: Path) -> None:
    with closing(SimulatedBed(tmp_path, view=ListsStrangers)) as bed:
        foreign = bed.make_foreign()
        report = run(bed.trial(), only=[check_named("create")])
        assert report.conforms, report
        assert bed.ours() == []
        assert bed.is_running(foreign)


CONFIGURATION = """\
data_dir: {data}
driver: {{name: "tests.sshd_driver:DRIVER", parameters: {{state_dir: {state}}}}}
instance_types:
  small: {{cpus: 1, memory: 2GiB, price_per_hour: 0.05}}
"""


@pytest.mark.real
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("moment", ["while it creates", "once it runs"])
def test_the_command_leaves_nothing_behind_when_it_is_interrupted(
    tmp_path: Path, number: signal.Signals, moment: str
) -> None:
    require_sshd()
    state, told = tmp_path / "state", tmp_path / "told"
    file = tmp_path / "longshore.yml"
    file.write_text(CONFIGURATION.format(data=tmp_path / "data", state=state))
    with told.open("wb") as sink, _started(file, sink.fileno()) as process:
        try:
            if moment == "once it runs":
                wait_until(
                    lambda: b"listed" in told.read_bytes() or process.poll() is not None,
                    "the instance to be listed",
                    timeout_s=60,
                )
            else:
                wait_until(
                    lambda: (
                        bool(list(state.glob("i-sshd-*/instance.json")))
                        or process.poll() is not None
                    ),
                    "an instance to be made",
                    timeout_s=60,
                )
            assert process.poll() is None, told.read_text()
            process.send_signal(number)
            assert process.wait(120) == 130, told.read_text()
        finally:
            with suppress(ProcessLookupError):
                process.kill()
    assert "interrupted: destroying what was made" in told.read_text()
    assert "nothing is left" in told.read_text()
    assert list(state.glob("i-sshd-*")) == []


def _started(file: Path, sink: int) -> subprocess.Popen[bytes]:
    command: Sequence[str] = [sys.executable, "-m", "longshore", "driver", "test", "-c", str(file)]
    return subprocess.Popen(
        command,
        cwd=ROOT,
        stdin=subprocess.DEVNULL,
        stdout=sink,
        stderr=sink,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
    )
