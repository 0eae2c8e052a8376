"""The user data of the driver `libcloud`, run as a cloud would: as root of a machine of its own."""

from __future__ import annotations

import subprocess

import pytest

from longshore.drivers.libcloud.user_data import user_data
from tests.busybox_image import ENGINE, IMAGE, import_image
from tests.conftest import RequireTool

pytestmark = pytest.mark.real

KEY = "ssh-ed25519 AAAAC3 it's"


@pytest.fixture
def podman(require_tool: RequireTool) -> str:
    path = require_tool("podman", "podman")
    require_tool("runc", "runc")
    import_image(path, require_tool("busybox", "busybox-static"))
    return path


def in_a_container(podman: str, script: str) -> str:
    """Run a script as root of a new container without a network, and return what it says."""
    command = [podman, "--runtime", "runc", "run", "--rm", "-i", "--network", "none"]
    ran = subprocess.run(
        [*command, *ENGINE["arguments"], IMAGE, "sh"],
        input=script,
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    return ran.stdout


def test_the_init_script_runs_once_and_the_key_is_let_in_after_it(podman: str) -> None:
    told = 'echo "init ran, keys: $(cat /root/.ssh/authorized_keys 2>/dev/null)"\n'
    boot = user_data(init_command=told, public_key=KEY, user="root")
    look = "\n".join(
        [
            "echo root:x:0:0::/root:/bin/sh >/etc/passwd",
            f"cat >/boot.sh <<'END-OF-BOOT'\n{boot}\nEND-OF-BOOT",
            "sh /boot.sh && sh /boot.sh",
            "cat /root/.ssh/authorized_keys",
            "stat -c '%a %n' /root/.ssh /root/.ssh/authorized_keys",
            "find /var/lib/longshore-init -type f",
        ]
    )
    lines = in_a_container(podman, look).splitlines()
    assert [line for line in lines if line] == [
        "init ran, keys: ",
        KEY,
        "700 /root/.ssh",
        "600 /root/.ssh/authorized_keys",
    ]


def test_a_failing_init_script_does_not_keep_the_key_out(podman: str) -> None:
    boot = user_data(init_command="exit 3\n", public_key=KEY, user="root")
    root = "echo root:x:0:0::/root:/bin/sh >/etc/passwd"
    assert KEY in in_a_container(podman, f"{root}\n{boot}\ncat /root/.ssh/authorized_keys")
