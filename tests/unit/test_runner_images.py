"""What the runner makes of what an engine says of an image, and of an administrator's arguments."""

from __future__ import annotations

import json

import pytest

from longshore.pool.runner.images import SWALLOWED, Image, parse, pull_options, pull_policy

DIGEST = "sha256:" + "0123456789abcdef" * 4


def record(asked: str = "1", **said: object) -> str:
    return f"{asked} {json.dumps({'stop_signal': '', 'digest': DIGEST, **said})}\n"


@pytest.mark.parametrize(
    ("text", "image", "signal"),
    [
        (record(), Image(digest=DIGEST), ""),
        (record(digest=f"registry/a/b@{DIGEST}"), Image(digest=DIGEST), ""),
        (record(digest="<b>"), Image(), ""),
        (record(stop_signal="SIGQUIT"), Image(digest=DIGEST), "SIGQUIT"),
        (record(stop_signal="3"), Image(digest=DIGEST), "3"),
        (record(stop_signal="RTMIN+3"), Image(digest=DIGEST), "RTMIN+3"),
        (record(stop_signal="-9; rm"), Image(digest=DIGEST), ""),
        (record(entrypoint=["/bin/sh", "-c", "./a"]), Image(digest=DIGEST, warning=SWALLOWED), ""),
        (
            record(entrypoint=["bash", "-o", "pipefail", "-c", "./a | b"]),
            Image(digest=DIGEST, warning=SWALLOWED),
            "",
        ),
        (record("0", entrypoint=["/bin/sh", "-c", "./a"]), Image(digest=DIGEST), ""),
        (record(entrypoint=["/bin/sh", "-c", 'exec ./a "$@"']), Image(digest=DIGEST), ""),
        (record(entrypoint=["/bin/sh", "-c", "./a ${1}", "sh"]), Image(digest=DIGEST), ""),
        (record(entrypoint=["./a"]), Image(digest=DIGEST), ""),
        (record(entrypoint=None), Image(digest=DIGEST), ""),
        (record()[:-1], Image(), ""),
        (record()[:-9] + "\n", Image(), ""),
        ("1 null\n", Image(), ""),
        ("1 [1]\n", Image(), ""),
        ("", Image(), ""),
    ],
)
def test_what_an_engine_says_of_an_image(text: str, image: Image, signal: str) -> None:
    assert parse(text) == (image, signal)


@pytest.mark.parametrize(
    ("arguments", "options", "policy"),
    [
        ((), [], "missing"),
        (("--network", "host", "--gpus=all"), [], "missing"),
        (("--tls-verify=false",), ["--tls-verify=false"], "missing"),
        (("--tls-verify", "--network", "none"), ["--tls-verify"], "missing"),
        (("--authfile", "/a", "-v", "/a:/b"), ["--authfile", "/a"], "missing"),
        (("--platform=linux/arm64",), ["--platform=linux/arm64"], "missing"),
        (("--pull", "always"), [], "always"),
        (("--pull=never", "--arch", "arm64"), ["--arch", "arm64"], "never"),
    ],
)
def test_what_arguments_of_run_mean_for_a_pull(
    arguments: tuple[str, ...], options: list[str], policy: str
) -> None:
    assert (pull_options(arguments), pull_policy(arguments)) == (options, policy)
