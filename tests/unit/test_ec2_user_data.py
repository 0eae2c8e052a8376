"""User data: what cloud-init gets, that a shell can read it, and its parts in harmless places.

No script is run as a whole here: it would make an instance of this machine.
"""

from __future__ import annotations

import email
import email.policy
import gzip
import os
import pwd
import random
import shlex
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from longshore.drivers.ec2.power import POWER_OFF
from longshore.drivers.ec2.user_data import (
    BLANK_DISKS,
    LET_IN,
    METADATA_RULES,
    Scratch,
    Storage,
    user_data,
)
from longshore.drivers.errors import CloudError
from longshore.pool.hostkey import init_fragment
from longshore.pool.lease import fault_of_command, first_contact_fragment
from tests.conftest import RequireTool, not_tested

KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJPOgXw172AGPhjJKDZBJ/T8vN+4WjMaIQgWzL9NGMcJ"
VOLUME = Scratch(
    storage=Storage.VOLUME, size_bytes=10 * 2**30, directories=("/var/lib/containers",)
)
STORE = Scratch(storage=Storage.STORE, size_bytes=75 * 10**9)
PER_BOOT = "/var/lib/cloud/scripts/per-boot/longshore"


def made(**more: Any) -> bytes:
    wanted: dict[str, Any] = {
        "init_command": "echo init",
        "public_key": f"{KEY} a comment",
        "ssh_user": "admin",
        "scratch": Scratch(),
        "metadata_for_all": False,
    }
    return user_data(**(wanted | more))


def parts(data: bytes) -> dict[str, tuple[str, str]]:
    """Return what cloud-init, which reads a message as text, finds by name: the type, the text."""
    message = email.message_from_string(gzip.decompress(data).decode())
    assert message.get_content_type() == "multipart/mixed"
    found: dict[str, tuple[str, str]] = {}
    for part in message.walk():
        if not part.is_multipart():
            payload = part.get_payload(decode=True)
            assert isinstance(payload, bytes)
            found[part.get_filename() or ""] = (part.get_content_type(), payload.decode())
    return found


def script(data: bytes) -> str:
    return parts(data)["longshore-first-boot"][1]


def written(text: str, path: str) -> str:
    """Return what a script would write to a file, taken out of it by a shell as `cat` does."""
    (start,) = [line for line in text.splitlines() if line.startswith(f"cat >{path} <<")]
    mark = shlex.split(start.partition("<<")[2])[0]
    body = text[text.index(start) : text.index(f"\n{mark}\n") + len(mark) + 2]
    shown = body.replace(f"cat >{path}", "cat").encode()
    return subprocess.run(["sh"], input=shown, stdout=subprocess.PIPE, check=True).stdout.decode()


CASES: list[dict[str, Any]] = [
    {},
    {"scratch": VOLUME},
    {"scratch": STORE, "ssh_user": "root"},
    {"metadata_for_all": True, "init_command": ""},
    {"init_command": "if true; then", "ssh_user": "od'd user"},
]


@pytest.mark.parametrize("case", CASES)
def test_every_script_in_it_can_be_read_by_a_shell(case: dict[str, Any]) -> None:
    found = parts(made(**case))
    assert {name: kind for name, (kind, _) in found.items()} == {
        "longshore-gate": "text/cloud-boothook",
        "longshore-config": "text/cloud-config",
        "longshore-first-boot": "text/x-shellscript",
    }
    assert found["longshore-gate"][1].startswith("#cloud-boothook\n#!/bin/sh\n")
    assert found["longshore-config"][1].startswith("#cloud-config\n")
    first_boot = found["longshore-first-boot"][1]
    assert first_boot.startswith("#!/bin/sh\n")
    scripts = [found["longshore-gate"][1], first_boot, written(first_boot, PER_BOOT)]
    for each in scripts:
        subprocess.run(["sh", "-n"], input=each, text=True, check=True)


def test_the_init_command_is_run_as_it_is_whatever_is_in_it() -> None:
    secret = init_fragment("s3cret", user="admin")
    lease = first_contact_fragment(1800, POWER_OFF, user="admin")
    for own in ("echo 'ünï' \"$HOME\" `id` \\", "cat <<'END'\n--x\nEND", "a\r\nb", "x\ty"):
        command = f"{secret}\n{lease}\n{own}"
        assert written(script(made(init_command=command)), "/run/longshore-init") == f"{command}\n"


def test_the_order_is_scratch_then_init_then_our_key_then_the_gate() -> None:
    text = script(made(scratch=VOLUME))
    places = [
        text.index(each)
        for each in (
            f"{PER_BOOT} || exit 1",
            "exec sh /run/longshore-init",
            "authorized_keys",
            ": >/var/lib/cloud/instance/longshore-ready",
            "rm -f /etc/nologin",
        )
    ]
    assert places == sorted(places)
    assert ">/etc/nologin" in parts(made())["longshore-gate"][1]


def test_only_what_is_wanted_is_in_it() -> None:
    plain, full = (written(script(made(**case)), PER_BOOT) for case in ({}, {"scratch": VOLUME}))
    assert "mkfs" not in plain
    assert "_ls_wanted=ebs _ls_bytes=10737418240\n" in full
    assert "_ls_bind 1 /var/lib/containers\n" in full
    assert "_ls_wanted=store _ls_bytes=75000000000\n" in script(made(scratch=STORE))
    assert "169.254.169.254" in plain
    assert "169.254.169.254" not in script(made(metadata_for_all=True))


def test_the_same_values_make_the_same_bytes() -> None:
    assert made() == made()
    assert made() != made(init_command="echo other")


def test_what_is_too_long_is_refused_with_its_size() -> None:
    noise = random.Random(1).randbytes(20_000).hex()
    with pytest.raises(CloudError, match=r"would be \d+ bytes, and EC2 takes 16384"):
        made(init_command=noise)
    assert len(made(init_command="echo hello\n" * 20_000)) < 16_384


def test_an_ordinary_one_leaves_the_operator_most_of_the_room() -> None:
    lease = first_contact_fragment(1800, POWER_OFF, user="admin")
    ours = made(scratch=VOLUME, init_command=init_fragment("s" * 64, user="admin") + lease)
    assert len(ours) < 6_000


def test_the_power_off_command_is_one_that_instances_take() -> None:
    assert fault_of_command(POWER_OFF) == ""
    subprocess.run(["sh", "-n", "-c", POWER_OFF], check=True)


# ---- parts of it, in harmless places --------------------------------------------------------


def shims(directory: Path, **programs: str) -> str:
    """Make programs that do what is told, and return a search path that has them first."""
    directory.mkdir()
    for name, body in programs.items():
        directory.joinpath(name).write_text(f"#!/bin/sh\n{body}\n")
        directory.joinpath(name).chmod(0o700)
    return f"{directory}:{os.environ['PATH']}"


LSBLK = """
case "$*" in
  *NAME,SIZE,MODEL) printf '%s\\n' \\
    '/dev/nvme3n1 75000000000 Amazon EC2 NVMe Instance Storage' \\
    '/dev/nvme2n1 75000000000 Amazon EC2 NVMe Instance Storage' \\
    '/dev/nvme0n1 10737418240 Amazon Elastic Block Store' \\
    '/dev/nvme1n1 10737418240 Amazon Elastic Block Store' \\
    '/dev/nvme4n1 10737418240 Amazon Elastic Block Store' \\
    '/dev/nvme5n1 21474836480 Amazon Elastic Block Store' \\
    '/dev/xvdf 10737418240' \\
    '/dev/xvdg 10737418240' \\
    '/dev/loop0 10737418240' ;;
  *nvme0n1) printf 'nvme0n1\\nnvme0n1p1\\n' ;;
  *) echo disk ;;
esac
"""
# 0: something is on it; 2: nothing; 4, 8: it could not tell.
BLKID = 'case "$2" in *nvme1n1) exit 0 ;; *xvdg) exit 8 ;; *nvme2n1) exit 4 ;; esac; exit 2'


@pytest.mark.parametrize(
    ("wanted", "size_bytes", "expected"),
    [
        ("ebs", 10737418240, ["/dev/nvme4n1 10737418240", "/dev/xvdf 10737418240"]),
        ("ebs", 21474836480, ["/dev/nvme5n1 21474836480"]),
        ("ebs", 75000000000, []),
        ("store", 1, ["/dev/nvme3n1 75000000000"]),
    ],
)
def test_only_disks_that_hold_nothing_are_ever_taken(
    wanted: str, size_bytes: int, expected: list[str], tmp_path: Path
) -> None:
    path = shims(tmp_path / "bin", lsblk=LSBLK, blkid=BLKID)
    done = subprocess.run(
        ["sh", "-c", f"_ls_wanted={wanted} _ls_bytes={size_bytes}\n{BLANK_DISKS}_ls_blank_disks"],
        env={"PATH": path},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.splitlines() == expected
    assert done.stderr == ""


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (None, [KEY]),
        ("", [KEY]),
        ("ssh-rsa AAAAother somebody", ["ssh-rsa AAAAother somebody", KEY]),
        (f'no-pty,command="echo Please login as" {KEY} longshore\n', [KEY]),
    ],
)
def test_our_key_is_let_in_beside_others_and_read_by_nobody_else(
    before: str | None, after: list[str], tmp_path: Path
) -> None:
    home, user = tmp_path / "home", pwd.getpwuid(os.getuid()).pw_name
    home.mkdir()
    keys = home / ".ssh" / "authorized_keys"
    if before is not None:
        keys.parent.mkdir()
        keys.write_text(before)
    path = shims(
        tmp_path / "bin",
        getent=f"echo {user}:x:0:0::{home}:/bin/sh",
        restorecon="true",
        # As root this machine's own settings would be looked at, and changed.
        sshd="echo permitrootlogin without-password",
        sed="exit 9",
        systemctl="exit 9",
    )
    start = f"umask 022\n_ls_fail() {{ exit 7; }}\n_ls_user={user}\n_ls_key={shlex.quote(KEY)}\n"
    for _ in range(2):
        subprocess.run(["sh", "-c", start + LET_IN], env={"PATH": path}, check=True)
        assert keys.read_text().splitlines() == after
    assert keys.stat().st_mode & 0o777 == 0o600
    assert keys.parent.stat().st_mode & 0o777 == 0o700


def test_a_user_that_the_image_lacks_ends_the_instance(tmp_path: Path) -> None:
    path = shims(tmp_path / "bin", getent="exit 2")
    start = "_ls_fail() { echo \"$1\"; exit 7; }\n_ls_user=nobody-here\n_ls_key='a b'\n"
    done = subprocess.run(
        ["sh", "-c", start + LET_IN],
        env={"PATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (
        7,
        "there is no user nobody-here: correct ssh.user\n",
    )


@pytest.mark.parametrize(("user", "allowed"), [("root", {0}), ("bin", {0, 2})])
def test_the_metadata_service_is_for_root_and_the_login_user_only(
    user: str, allowed: set[int], require_tool: RequireTool
) -> None:
    require_tool("ip", "iproute2")
    if os.geteuid() != 0:
        not_tested("routes of a network of one's own need root")
    alone = ["unshare", "--net"]
    if not shutil.which("unshare") or subprocess.run([*alone, "true"], check=False).returncode:
        pytest.skip("this machine lets nobody have a network of his own")
    setting = "ip link set lo up && ip route add 169.254.0.0/16 dev lo || exit 8\n"
    asking = "for uid in 0 1 2 1000 4294967294; do\n"
    asking += "ip route get 169.254.169.254 uid $uid >/dev/null 2>&1 && echo $uid; done; true\n"
    rules = f"_ls_fail() {{ exit 7; }}\n_ls_user={user}\n{METADATA_RULES}"
    done = subprocess.run(
        # Again and again, as if somebody had kept them over reboots.
        [*alone, "sh", "-c", f"{setting}{rules * 3}{asking}"],
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    assert {int(line) for line in done.stdout.split()} == allowed
