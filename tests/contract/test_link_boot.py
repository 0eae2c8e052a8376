"""The boot probe over a real sshd, and what an instance says of being broken."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from longshore.pool.messages import CloseSession, Probe, ProbeFailed, ProbeSucceeded
from longshore.pool.remote.link import WorkerLink
from longshore.pool.remote.link_model import LinkReady, ProbeStage, ProbeStageError
from longshore.pool.remote.ssh_keys import load_or_create_private_key, public_key_text
from tests.rigs.link import Recorder, link_settings, make_link, order, start, unknown
from tests.rigs.performer import performing
from tests.sshd_host import SshdHost, wait_until

pytestmark = pytest.mark.real

NOT_YET = "echo not yet >&2; exit 5"


class Site:
    """An instance whose boot probe is a file, and links to it."""

    def __init__(self, directory: Path) -> None:
        self.key = load_or_create_private_key(directory / "keys" / "id")
        self.host = SshdHost(directory / "i-1", authorized_key=public_key_text(self.key))
        self.recorder = Recorder()
        self.clock = 1000.0
        self.booted = directory / "booted"
        self.links: list[WorkerLink] = []

    def link(self) -> WorkerLink:
        command = f"test -e {self.booted} || {{ {NOT_YET}; }}"
        settings = link_settings(self.key, boot_probe_command=command, clock=lambda: self.clock)
        self.links.append(make_link(settings, self.recorder))
        return self.links[-1]

    def probe(self, link: WorkerLink, *, boot: bool, look_anyway: bool) -> LinkReady:
        return link.probe(
            address=self.host.address,
            host_key=self.host.host_key,
            secret="",
            boot=boot,
            verify=unknown,
            look_anyway=look_anyway,
        )

    def command(self, *, look_anyway: bool) -> Probe:
        """Return the command for a first probe."""
        return Probe(
            op_id=7,
            worker_id="i-1",
            revision=3,
            address=self.host.address,
            host_key=self.host.host_key,
            secret="",
            boot=True,
            look_anyway=look_anyway,
        )


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    made = Site(tmp_path)
    with made.host:
        yield made
        for link in made.links:
            link.close()


def test_what_runs_is_found_although_the_boot_probe_fails(site: Site) -> None:
    before = site.link()
    site.probe(before, boot=False, look_anyway=False)
    gate = site.host.directory / "gate"
    start(before, order("a1", "sh", "-c", f"while [ ! -e {gate} ]; do sleep 0.02; done"))
    before.close()
    link = site.link()
    ready = site.probe(link, boot=True, look_anyway=True)
    assert "exit status 5: not yet" in ready.boot_error
    assert [report.attempt_id for report in ready.report.attempts] == ["a1"]
    gate.touch()
    wait_until(lambda: "a1" in site.recorder.exits, "its exit, by the session")
    again = site.probe(link, boot=True, look_anyway=True)
    assert "not yet" in again.boot_error, "the boot probe is repeated though the session lives"
    site.booted.touch()
    assert site.probe(link, boot=True, look_anyway=True).boot_error == ""
    assert len(site.host.session_pids()) == 1


def test_who_may_not_be_looked_at_before_it_booted_is_not(site: Site) -> None:
    with pytest.raises(ProbeStageError) as caught:
        site.probe(site.link(), boot=True, look_anyway=False)
    assert caught.value.stage is ProbeStage.BOOT
    assert not site.host.runner_directory.exists()


def test_when_the_look_fails_too_both_are_told(site: Site) -> None:
    site.host.runner_directory.parent.mkdir(parents=True, exist_ok=True)
    site.host.runner_directory.write_text("a file where the runner's directory should be")
    with pytest.raises(ProbeStageError) as caught:
        site.probe(site.link(), boot=True, look_anyway=True)
    assert caught.value.stage is ProbeStage.BOOT
    assert "not yet; looking for what runs all the same: deploy: " in caught.value.message


def test_changes_of_being_broken_are_told_both_ways(site: Site) -> None:
    link = site.link()
    site.probe(link, boot=False, look_anyway=False)
    note = site.host.runner_directory / "broken"
    faults = site.recorder.faults
    note.write_text("disk on fire")
    wait_until(lambda: faults == ["disk on fire"], "the word")
    note.unlink()
    site.clock += 10
    wait_until(lambda: faults == ["disk on fire", ""], "that it is over")


@pytest.mark.parametrize("look_anyway", [False, True])
def test_a_probe_that_is_to_look_anyway_does_so(
    site: Site, tmp_path: Path, *, look_anyway: bool
) -> None:
    settings = link_settings(site.key, boot_probe_command=NOT_YET)
    with performing(tmp_path, settings=settings) as rig:
        rig.performer.perform(site.command(look_anyway=look_anyway))
        event = rig.outcome()
    assert isinstance(event, ProbeSucceeded if look_anyway else ProbeFailed)
    told = event.boot_error if isinstance(event, ProbeSucceeded) else event.message
    assert "exit status 5: not yet" in told


@pytest.mark.parametrize("one", [True, False])
def test_no_loss_is_told_of_a_session_that_is_ended_on_purpose(
    site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, one: bool
) -> None:
    genuine = WorkerLink.close
    settings = link_settings(site.key)
    with performing(tmp_path, settings=settings) as rig:
        rig.performer.perform(site.command(look_anyway=False))
        assert isinstance(rig.outcome(), ProbeSucceeded)
        session = rig.performer._links["i-1"][0]._session
        assert session is not None

        def close_late(link: WorkerLink) -> None:
            # Its reader has noticed the cut before anybody comes to close it.
            assert session.join()
            genuine(link)

        monkeypatch.setattr(WorkerLink, "close", close_late)
        if one:
            rig.performer.perform(CloseSession(worker_id="i-1"))
        # In the end the rest is closed, and nothing may have been posted.
