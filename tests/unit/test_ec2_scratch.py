"""How an instance makes its scratch space: with programs that only tell what they were asked."""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

from longshore.drivers.ec2.user_data import SCRATCH

TOLD = ("chmod", "chown", "cp", "mkdir", "mkfs.ext4", "mount", "mv", "rm")
HARMLESS = ("cut", "sh", "sort", "wc")
EBS = "Amazon Elastic Block Store"
STORE = "Amazon EC2 NVMe Instance Storage"


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """How the script ended, what it failed with, and which programs it ran with what."""

    status: int
    reason: str
    calls: list[str]


class Machine:
    """A directory of programs, the only ones that the script can run."""

    def __init__(self, directory: Path) -> None:
        self._bin = directory / "bin"
        self._bin.mkdir()
        self._log = directory / "calls"
        self._log.write_text("")
        for name in TOLD:
            self.program(name, f'echo "{name} $*" >>{self._log}')
        for name in HARMLESS:
            found = shutil.which(name)
            assert found is not None
            self._bin.joinpath(name).symlink_to(found)
        self.program("getent", "echo admin:x:1000:1000::/home-of/admin:/bin/sh")
        self.program("sleep", f'echo "sleep $*" >>{self._log}')
        self.program("blkid", '[ "$1" = -p ] && exit 2; exit 2')

    def program(self, name: str, body: str) -> None:
        path = self._bin / name
        path.write_text(f"#!/bin/sh\n{body}\n")
        path.chmod(0o700)

    def disks(self, *lines: str) -> None:
        rows = "".join(f"echo '{line}'\n" for line in lines)
        self.program(
            "lsblk", f'case "$*" in *NAME,SIZE,MODEL) {rows or ":"} ;; *) echo one ;; esac'
        )

    def mdadm(self) -> None:
        self.program("mdadm", f'echo "mdadm $*" >>{self._log}')
        self.program("readlink", "echo /dev/md127")

    def run(self, wanted: str, size_bytes: int, user: str = "admin") -> Told:
        start = (
            '_ls_fail() { echo "$1"; exit 7; }\n'
            f"_ls_user={user} _ls_wanted={wanted} _ls_bytes={size_bytes}\n"
        )
        done = subprocess.run(
            ["/bin/sh", "-c", f"{start}{SCRATCH}_ls_bind 1 /var/lib/containers\nexit 0\n"],
            env={"PATH": str(self._bin)},
            stdout=subprocess.PIPE,
            text=True,
            timeout=90,
            check=False,
        )
        return Told(
            status=done.returncode,
            reason=done.stdout.strip(),
            calls=self._log.read_text().splitlines(),
        )


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def with_program(calls: list[str], *names: str) -> list[str]:
    return [each for each in calls if each.split()[0] in names]


def test_a_volume_is_formatted_once_and_holds_the_runner_and_what_else_is_named(
    machine: Machine,
) -> None:
    machine.disks(f"/dev/nvme0n1 8589934592 {EBS}", f"/dev/nvme1n1 1073741824 {EBS}")
    told = machine.run("ebs", 2**30)
    assert (told.status, told.reason) == (0, "")
    assert told.calls == [
        "mkfs.ext4 -q -F -L longshore -m 0 /dev/nvme1n1",
        "mkdir -p /mnt/longshore-scratch",
        "mount -o noatime /dev/nvme1n1 /mnt/longshore-scratch",
        "rm -rf /mnt/longshore-scratch/0.new",
        "mkdir -p /home-of/admin/.longshore",
        "cp -a /home-of/admin/.longshore /mnt/longshore-scratch/0.new",
        "mv /mnt/longshore-scratch/0.new /mnt/longshore-scratch/0",
        "mkdir -p /home-of/admin/.longshore",
        "mount --bind /mnt/longshore-scratch/0 /home-of/admin/.longshore",
        "chown admin /home-of/admin/.longshore",
        "chmod 700 /home-of/admin/.longshore",
        "rm -rf /mnt/longshore-scratch/1.new",
        "mkdir -p /var/lib/containers",
        "cp -a /var/lib/containers /mnt/longshore-scratch/1.new",
        "mv /mnt/longshore-scratch/1.new /mnt/longshore-scratch/1",
        "mkdir -p /var/lib/containers",
        "mount --bind /mnt/longshore-scratch/1 /var/lib/containers",
    ]


def test_for_root_the_runner_is_elsewhere(machine: Machine) -> None:
    machine.disks(f"/dev/nvme1n1 1073741824 {EBS}")
    told = machine.run("ebs", 2**30, user="root")
    assert "mount --bind /mnt/longshore-scratch/0 /var/lib/longshore" in told.calls


def test_after_a_reboot_it_is_found_by_its_name_and_not_formatted(machine: Machine) -> None:
    machine.disks(f"/dev/nvme1n1 1073741824 {EBS}")
    machine.program("blkid", '[ "$*" = "-L longshore" ] && echo /dev/nvme1n1 || exit 2')
    told = machine.run("ebs", 2**30)
    assert told.status == 0
    assert with_program(told.calls, "mkfs.ext4") == []
    assert "mount -o noatime /dev/nvme1n1 /mnt/longshore-scratch" in told.calls


@pytest.mark.parametrize(
    ("count", "size_bytes", "expected"),
    [
        (1, 75 * 10**9, "/dev/nvme1n1"),
        # Hosts tell sizes in GB, which disks fall short of by a little.
        (1, 76 * 10**9, "/dev/nvme1n1"),
        (2, 75 * 10**9, "/dev/nvme1n1"),
        (2, 150 * 10**9, "/dev/md127"),
    ],
)
def test_disks_of_the_host_are_joined_when_one_is_too_small(
    count: int, size_bytes: int, expected: str, machine: Machine
) -> None:
    machine.disks(*(f"/dev/nvme{each + 1}n1 75000000000 {STORE}" for each in range(count)))
    machine.mdadm()
    told = machine.run("store", size_bytes)
    assert told.status == 0
    (formatted,) = with_program(told.calls, "mkfs.ext4")
    assert formatted.endswith(f" {expected}")
    joined = [each for each in told.calls if each.startswith("mdadm --create")]
    create = "mdadm --create /dev/md/longshore --run --level=0 --raid-devices=2"
    devices = "/dev/nvme1n1 /dev/nvme2n1"
    assert joined == ([f"{create} {devices}"] if expected == "/dev/md127" else [])


def test_without_a_disk_nothing_is_formatted_and_the_instance_ends(machine: Machine) -> None:
    machine.disks(f"/dev/nvme1n1 8589934592 {EBS}")
    told = machine.run("ebs", 2**30)
    assert told.status == 7
    assert "no blank disk for its scratch appears (wanted: ebs, 1073741824 bytes)" in told.reason
    assert with_program(told.calls, "mkfs.ext4", "mount") == []
    assert set(told.calls) == {"sleep 1"}
    assert len(told.calls) == 120


@pytest.mark.parametrize("program", ["mkfs.ext4", "mount"])
def test_what_fails_ends_the_instance(program: str, machine: Machine) -> None:
    machine.disks(f"/dev/nvme1n1 1073741824 {EBS}")
    machine.program(program, "exit 1")
    told = machine.run("ebs", 2**30)
    assert told.status == 7
    assert with_program(told.calls, "chown") == []
