"""A container image without a registry: a root made of busybox-static, imported by Podman."""

from __future__ import annotations

import io
import subprocess
import tarfile
from pathlib import Path

IMAGE = "localhost/longshore-busybox:latest"

# Where a machine forbids raising limits, Podman's own defaults cannot be set; these can.
ENGINE = {
    "name": "podman",
    "global_arguments": ["--runtime", "runc"],
    "arguments": ["--ulimit", "nofile=20000:20000", "--ulimit", "nproc=1000:1000"],
}


def import_image(podman: str, busybox: str) -> str:
    """Import the image, replacing an earlier one, and return its name."""
    subprocess.run(
        [podman, "import", "--quiet", "-", IMAGE],
        input=_root(Path(busybox)),
        check=True,
        stdout=subprocess.DEVNULL,
    )
    return IMAGE


def _root(busybox: Path) -> bytes:
    """Return a tar of a root directory: busybox, a link for each of its commands, /tmp."""
    listed = subprocess.run([busybox, "--list"], check=True, capture_output=True, text=True)
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        for name, mode in (("bin", 0o755), ("tmp", 0o1777), ("etc", 0o755), ("root", 0o700)):
            directory = tarfile.TarInfo(name)
            directory.type, directory.mode = tarfile.DIRTYPE, mode
            tar.addfile(directory)
        program = tarfile.TarInfo("bin/busybox")
        content = busybox.read_bytes()
        program.mode, program.size = 0o755, len(content)
        tar.addfile(program, io.BytesIO(content))
        for command in listed.stdout.split():
            if command != "busybox":
                link = tarfile.TarInfo(f"bin/{command}")
                link.type, link.linkname = tarfile.SYMTYPE, "busybox"
                tar.addfile(link)
    return buffer.getvalue()
