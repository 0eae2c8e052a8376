"""Planted defects of the way to an instance; what they are is told in `defect`."""

from __future__ import annotations

from typing import Final

from tests.edges.defect import EdgeDefect

REMOTE: Final[tuple[EdgeDefect, ...]] = (
    EdgeDefect(
        name="a_session_keeps_the_attempts_of_the_one_before",
        guard="A session knows of the attempts that its hello names, and of no others",
        file="pool/remote/link.py",
        old="            self._feed.reset()",
        new="",
        test=(
            "tests/unit/test_link_attempts.py"
            "::test_a_session_knows_of_no_attempt_of_the_session_before"
        ),
    ),
    EdgeDefect(
        name="the_runner_is_uploaded_with_the_umask_of_the_login",
        guard="What is executed on an instance can be changed by nobody else",
        file="pool/remote/deploy.py",
        old=(
            '        f\'{RUNNER_DIRECTORY}umask 077; mkdir -p "$d" && t="$(mktemp '
            '"$d/.upload-XXXXXX")" \''
        ),
        new='        f\'{RUNNER_DIRECTORY}mkdir -p "$d" && t="$(mktemp "$d/.upload-XXXXXX")" \'',
        test=(
            "tests/unit/test_remote_shell.py"
            "::test_the_runner_is_for_its_user_alone_whatever_the_umask_of_the_login"
        ),
    ),
)
