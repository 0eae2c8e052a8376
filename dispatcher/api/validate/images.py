"""Which texts are images: references into a registry, never places on an instance's own disk.

The engine on an instance runs as root and would take a transport such as `docker-archive:/file`
for an image, and so read any file there for whoever submits.
"""

from __future__ import annotations

import re

IMAGE_LENGTH_MAX = 512

_PART = r"[a-z0-9]++(?:(?:\.|__?+|-++)[a-z0-9]++)*+"
_LABEL = r"[A-Za-z0-9](?:[A-Za-z0-9-]*[A-Za-z0-9])?"
_PORT = r":[0-9]{1,5}"
# A first part is a registry only when it looks like one; else it belongs to the path.
_REGISTRY = (
    rf"(?:{_LABEL}(?:\.{_LABEL})++(?:{_PORT})?+|{_LABEL}{_PORT}|localhost"
    rf"|\[[0-9A-Fa-f:]{{2,45}}\](?:{_PORT})?+)"
)
_REFERENCE = re.compile(
    rf"(?:{_REGISTRY}/)?{_PART}(?:/{_PART})*+"
    r"(?::[A-Za-z0-9_][A-Za-z0-9_.-]{0,127})?(?:@sha256:[0-9a-f]{64})?"
)
# What engines take before a colon for a kind of place, if what follows can be one.
_TRANSPORTS = frozenset(
    {
        "atomic",
        "containers-storage",
        "dir",
        "docker-archive",
        "docker-daemon",
        "oci",
        "oci-archive",
        "ostree",
        "sif",
        "tarball",
    }
)
_EXAMPLE = 'write it like "docker.io/library/debian:12" or "quay.io/team/tool@sha256:..."'


def image_problem(image: str) -> str:
    """Return what is wrong with an image's name, in one sentence with the remedy; "" if nothing.

    Good is `[registry[:port]/]path[:tag][@sha256:digest]` of at most 512 characters.
    """
    if len(image) > IMAGE_LENGTH_MAX:
        return f"must have at most {IMAGE_LENGTH_MAX} characters, not {len(image)}"
    if image.startswith("docker://"):
        return f'must not begin with "docker://": {_EXAMPLE}'
    transport, colon, _ = image.partition(":")
    if colon and transport in _TRANSPORTS:
        return (
            f'must be in a registry, and "{transport}:" is a place on the instance\'s own disk:'
            f" {_EXAMPLE}"
        )
    if not _REFERENCE.fullmatch(image):
        return f"is not a reference to an image: {_EXAMPLE}"
    return ""
