"""An image is a reference into a registry, and never a file of the instance's."""

from __future__ import annotations

import time

import pytest

from longshore.dispatcher.api.validate.images import image_problem
from tests.api_server import MINIMAL, connected

DIGEST = "sha256:" + "0123456789abcdef" * 4


@pytest.mark.parametrize(
    "image",
    [
        "debian",
        "debian:12",
        "docker:24-dind",
        "docker.io/library/debian:12",
        "localhost/longshore-busybox:latest",
        "localhost:5000/a",
        "registry:5000/a",
        "Quay.IO/team/tool",
        f"quay.io:443/a/b@{DIGEST}",
        f"quay.io/a/b:v1@{DIGEST}",
        f"debian@{DIGEST}",
        "[::1]:5000/a/b:c",
        "[2001:db8::1]/a",
        "10.0.0.1:80/a_b/c__d/e-f/g--h.i:_T.a-g",
        "a/b/c/d",
        "a:" + "x" * 128,
        "ghcr.io/" + "a" * 504,
    ],
)
def test_references_are_images(image: str) -> None:
    assert image_problem(image) == ""


@pytest.mark.parametrize(
    "image",
    [
        "docker-archive:/etc/shadow",
        "docker-archive:shadow",
        "docker-daemon:debian:12",
        "oci:/srv/image",
        "oci:image",
        "oci:8080/image",
        "oci-archive:image.tar",
        "dir:/etc",
        "dir:8080/etc",
        "containers-storage:debian",
        "containers-storage:[overlay@/x]debian",
        "ostree:a@/b",
        "sif:a",
        "tarball:/a",
        "atomic:a",
        "docker://debian",
        "docker:///etc",
        "a:/b",
        "/etc/shadow",
        "./image",
        "../image",
        "a/../b",
        "a//b",
        "a/",
        "~/a",
        "-v",
        "--privileged",
        "-a/b",
        "a/-b",
        "Debian",
        "Team/tool",
        "docker.io/Library/debian",
        " debian",
        "debian ",
        "debian 12",
        "debian\n",
        "debian\x00",
        "debian\x9b31m",
        "debian\u202e",
        "débian",
        "debian:",
        "debian:-x",
        "debian:a:b",
        "debian@sha256:abc",
        f"debian@{DIGEST}0",
        "debian@sha256:" + "G" * 64,
        "a:" + "x" * 129,
        "registry:123456/a",
        "http://registry/a",
        "a___b",
        ".a",
        "a.",
        "[/a",
        "a" * 513,
    ],
)
def test_everything_else_is_none(image: str) -> None:
    assert image_problem(image) != ""


@pytest.mark.parametrize(
    ("image", "said"),
    [
        ("docker://debian", 'must not begin with "docker://"'),
        ("docker-archive:/etc/shadow", "the instance's own disk"),
        ("Debian", "docker.io/library/debian:12"),
        ("a" * 513, "at most 512 characters"),
    ],
)
async def test_it_is_refused_at_submission_with_an_example(image: str, said: str) -> None:
    async with connected() as client:
        status, answer = await client.post("/v1/containers", [MINIMAL, {**MINIMAL, "image": image}])
        assert status == 400
        assert [error["path"] for error in answer["errors"]] == ["[1].image"]
        assert said in answer["errors"][0]["message"]
        assert client.rig.containers() == []


@pytest.mark.parametrize("piece", ["a", "a.", "a-", "-", "a/", "a_", "A", "0:", "a.a-/"])
def test_no_text_takes_long_to_judge(piece: str) -> None:
    before = time.process_time()
    for end in ("", "!", ":", "/A"):
        image_problem((piece * 512)[: 512 - len(end)] + end)
    assert time.process_time() - before < 2
