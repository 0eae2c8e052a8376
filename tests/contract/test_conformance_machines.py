"""What the kit asks of machines, on ones that do not do it."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from longshore.dispatcher.conformance.kit import Outcome, Result, check_named, run
from longshore.drivers.local import machine
from longshore.drivers.local.ssh_server import SshServer
from longshore.drivers.simulated.parameters import SimulatedFaults
from tests.altered_driver import Altered
from tests.conformance_bed import SimulatedBed


class WatchedBed(SimulatedBed):
    """A bed whose driver has an interruption watch; notices of all instances are in one file."""

    def __init__(self, directory: Path, watch: str) -> None:
        self.notice = directory / "notice"

        class Watched(Altered):
            def interruption_watch(self) -> str:
                return watch

        super().__init__(directory, view=Watched)

    def give_notice(self, instance_id: str, ends_at: str) -> None:
        """Write the notice down where the watch looks for it."""
        assert self.is_running(instance_id)
        staged = self.notice.with_suffix(".new")
        staged.write_text(ends_at)
        staged.rename(self.notice)


@pytest.fixture
def bed(tmp_path: Path) -> Iterator[SimulatedBed]:
    with closing(SimulatedBed(tmp_path)) as made:
        yield made


def shown(bed: SimulatedBed, name: str) -> Result:
    report = run(bed.trial(), only=[check_named("capabilities"), check_named(name)])
    assert report.left == ()
    capabilities, result = report.results
    assert capabilities.outcome is Outcome.PASSED, capabilities
    return result


def watched(directory: Path, tail: str) -> Result:
    """Return what the kit shows of a watch that waits for the notice, and then runs `tail`."""
    file = shlex.quote(str(directory / "notice"))
    watch = f"while [ ! -e {file} ]; do sleep 0.1; done; {tail.format(file=file)}"
    with closing(WatchedBed(directory, watch)) as bed:
        return shown(bed, "interruption-watch")


def test_a_watch_that_waits_and_tells_passes(tmp_path: Path) -> None:
    assert watched(tmp_path, "cat {file}").outcome is Outcome.PASSED


@pytest.mark.parametrize("tail", ["date", "true", "cat {file}; exit 3"])
def test_a_watch_that_tells_a_notice_otherwise_fails(tmp_path: Path, tail: str) -> None:
    result = watched(tmp_path, tail)
    assert result.outcome is Outcome.FAILED
    assert "of a notice for 2031-02-03T04:05:06Z the watch says" in result.why


def test_a_watch_that_does_not_wait_fails(tmp_path: Path) -> None:
    with closing(WatchedBed(tmp_path, "echo nothing yet")) as bed:
        result = shown(bed, "interruption-watch")
    assert result.outcome is Outcome.FAILED
    assert "without a notice the watch ends with 0" in result.why


def test_an_image_that_cannot_run_the_runner_fails_the_boot_probe(bed: SimulatedBed) -> None:
    with bed.faulty(SimulatedFaults(without_runner=1.0)):
        assert shown(bed, "host-key-proof").outcome is Outcome.PASSED
        result = shown(bed, "boot-probe")
    assert result.outcome is Outcome.FAILED
    assert "the Python of this image cannot run archives" in result.why


def test_a_machine_that_lets_strangers_in_fails(
    bed: SimulatedBed, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert shown(bed, "stranger").outcome is Outcome.PASSED
    monkeypatch.setattr(SshServer, "admits", lambda *_: True)
    result = shown(bed, "stranger")
    assert result.outcome is Outcome.FAILED
    assert "lets in a key that was never put there" in result.why


def altered_environment(monkeypatch: pytest.MonkeyPatch, **changes: str) -> None:
    """Let what runs on instances find other things in its environment."""
    real = machine.instance_environment

    def altered(
        instance_id: str, directory: Path, *, is_whole_machine: bool = False
    ) -> dict[str, str]:
        return real(instance_id, directory, is_whole_machine=is_whole_machine) | changes

    monkeypatch.setattr(machine, "instance_environment", altered)


def test_an_image_whose_host_keys_lie_elsewhere_is_told_so(
    bed: SimulatedBed, monkeypatch: pytest.MonkeyPatch
) -> None:
    altered_environment(monkeypatch, LONGSHORE_HOST_KEYS="/nowhere/*.pub")
    result = shown(bed, "host-key-proof")
    assert result.outcome is Outcome.FAILED
    assert "no public host keys lie where they are looked for" in result.why
    assert "/nowhere/*.pub" in result.why
    assert "/etc/ssh/ssh_host_*_key.pub" in result.remedy


def test_an_image_whose_host_keys_are_other_ones_is_told_so(
    bed: SimulatedBed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "other.pub").write_text("ssh-ed25519 AAAA")
    altered_environment(monkeypatch, LONGSHORE_HOST_KEYS=str(tmp_path / "*.pub"))
    result = shown(bed, "host-key-proof")
    assert result.outcome is Outcome.FAILED
    assert "it knows its secret, and the key that its SSH server shows is none" in result.why
    assert "/etc/ssh/ssh_host_*_key.pub" in result.remedy


def test_an_image_without_python_is_told_so(
    bed: SimulatedBed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    programs = tmp_path / "programs"
    programs.mkdir()
    for program in sorted(Path("/usr/bin").iterdir()):
        if not program.name.startswith("python"):
            (programs / program.name).symlink_to(program)
    altered_environment(monkeypatch, PATH=str(programs))
    result = shown(bed, "host-key-proof")
    assert result.outcome is Outcome.FAILED
    assert "there is no python3 that the SSH user finds" in result.why
    assert "Python 3.8 or later" in result.remedy
