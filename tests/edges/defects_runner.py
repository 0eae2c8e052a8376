"""Planted defects of the program on an instance; what they are is told in `defect`."""

from __future__ import annotations

from typing import Final

from tests.edges.defect import EdgeDefect

RUNNER: Final[tuple[EdgeDefect, ...]] = (
    EdgeDefect(
        name="the_epoch_is_not_looked_at_again_with_the_lock",
        guard="A leader that came while a session waited for the lock keeps it",
        file="pool/runner/handshake.py",
        old=(
            "        # Once more, since a later leader may have come while we waited.\n"
            "        _check_epoch(spool, epoch)"
        ),
        new="",
        test=(
            "tests/unit/test_runner_handover.py"
            "::test_a_later_leader_that_came_while_we_waited_for_the_lock_is_noticed"
        ),
    ),
    EdgeDefect(
        name="users_say_what_is_ours_by_the_env_file",
        guard="What says who an attempt is comes from us and never from its user",
        file="pool/runner/invocation.py",
        old="        users = {key: value for key, value in order.env if key not in own}",
        new="        users = dict(order.env)",
        test="tests/unit/test_runner_environment.py::test_no_user_says_what_is_ours_to_say",
    ),
    EdgeDefect(
        name="a_waiting_kill_is_replaced_by_term",
        guard="A KILL that waits for a pid is not taken back by a later TERM",
        file="pool/runner/attach.py",
        old='        if not sent and self._kills.get(attempt_id, ("", 0.0))[0] != "KILL":',
        new="        if not sent:",
        test=(
            "tests/unit/test_runner_handover.py"
            "::test_a_kill_that_waits_is_not_taken_back_by_a_later_term"
        ),
    ),
)
