"""Planted defects of the API inside of containers; what they are is told in `defect`."""

from __future__ import annotations

from typing import Final

from tests.edges.defect import EdgeDefect

_DOOR = "tests/unit/test_inside_door.py::"
_RELAY = "tests/unit/test_api_relay.py::test_what_no_honest_runner_says_ends_the_session"
_RUNNER = "tests/contract/test_runner_inside.py::"
_KINSHIP = "tests/unit/test_kinship.py::"

INSIDE: Final[tuple[EdgeDefect, ...]] = (
    EdgeDefect(
        name="an_instance_speaks_for_what_runs_elsewhere",
        guard="A worker speaks for the attempts that run on it, and for no others",
        file="dispatcher/api/inside.py",
        old="        if attempt.instance_id != call.worker_id or not container.spec.has_api:",
        new="        if not container.spec.has_api:",
        test=f"{_DOOR}test_an_instance_speaks_for_what_runs_there_alone[another worker]",
    ),
    EdgeDefect(
        name="whoever_runs_has_the_api_inside",
        guard="Only what was promised the API inside is answered there",
        file="dispatcher/api/inside.py",
        old="        if attempt.instance_id != call.worker_id or not container.spec.has_api:",
        new="        if attempt.instance_id != call.worker_id:",
        test=f"{_DOOR}test_an_instance_speaks_for_what_runs_there_alone[one without the api]",
    ),
    EdgeDefect(
        name="inside_one_sees_all_of_its_user",
        guard="Inside of a container there are its descendants, and nothing else",
        file="dispatcher/service/kinship.py",
        old="        return caller.container_id in await self._ancestors(thing_id)",
        new="        return bool(await self._ancestors(thing_id)) or True",
        test=f"{_DOOR}test_each_endpoint_answers_inside_as_it_should[another's]",
    ),
    EdgeDefect(
        name="inside_one_lists_all_of_its_user",
        guard="A list inside of a container has the children of one",
        file="dispatcher/service/kinship.py",
        old="        return replace(which, parent=await self._seen_parent(which.parent, caller))\n",
        new="        return replace(which, parent=which.parent)\n",
        test=f"{_DOOR}test_lists_have_children_alone_and_those_of_children",
    ),
    EdgeDefect(
        name="inside_one_waits_for_anything_of_its_project",
        guard="Nobody learns by waiting for something whether it is there",
        file="dispatcher/service/kinship.py",
        old="        if not caller.container_id:\n            return\n        problems",
        new="        if caller.user:\n            return\n        problems",
        test=f"{_DOOR}test_nobody_waits_for_what_is_not_its_own",
    ),
    EdgeDefect(
        name="trees_have_no_end",
        guard="So many containers may submit each other",
        file="dispatcher/service/kinship.py",
        old="        if len(above) + 1 >= GENERATIONS_MOST:",
        new="        if len(above) < 0:",
        test=f"{_DOOR}test_a_tree_has_so_many_generations",
    ),
    EdgeDefect(
        name="keys_are_shared_between_a_user_s_containers",
        guard="The idempotency keys of a container are its own",
        file="dispatcher/domain/principals.py",
        old="if self.container_id else self.user",
        new="if not self.user else self.user",
        test=f"{_DOOR}test_a_key_is_its_containers_own",
    ),
    EdgeDefect(
        name="inside_a_log_is_followed",
        guard="Nothing goes on and on that is passed on once it is whole",
        file="dispatcher/api/routes/openapi.py",
        old="        return not _NOT_FOLLOWED.issuperset(",
        new="        return {'true'} == set(",
        test=f"{_DOOR}test_the_output_of_a_child_is_read_and_not_followed",
    ),
    EdgeDefect(
        name="a_container_lists_the_secrets_of_its_project",
        guard="Inside of a container nobody learns which secrets there are",
        file="dispatcher/service/secrets.py",
        old="        if caller.container_id:",
        new="        if caller.container_id == caller.user:",
        test=f"{_DOOR}test_the_names_of_secrets_are_not_told_inside",
    ),
    EdgeDefect(
        name="who_waits_for_a_container_has_its_tree_added_up",
        guard="What takes as long as a tree is large is done for who asks for it",
        file="dispatcher/api/routes/containers.py",
        old=" if with_tree else None\n",
        new="\n",
        test=f"{_DOOR}test_a_tree_is_cancelled_whole_and_told_what_it_costs",
    ),
    EdgeDefect(
        name="a_parent_that_is_cancelled_takes_children",
        guard="What is being cancelled submits nothing more",
        file="dispatcher/store/kinship.py",
        old="        if found.cancel_requested:",
        new="        if found.cancel_requested is None:",
        test=f"{_KINSHIP}test_a_closed_parent_takes_no_child[cancelled]",
    ),
    EdgeDefect(
        name="a_parent_that_has_ended_takes_children",
        guard="What has ended submits nothing more",
        file="dispatcher/store/kinship.py",
        old="        if found is None or found.state in ended:",
        new="        if found is None:",
        test=f"{_KINSHIP}test_a_closed_parent_takes_no_child[ended]",
    ),
    EdgeDefect(
        name="a_job_comes_to_a_parent_that_is_closed",
        guard="What is being cancelled submits no jobs either",
        file="dispatcher/store/job_changes.py",
        old="    expect_open(connection, [change.job.parent])\n",
        new="",
        test=f"{_KINSHIP}test_a_closed_parent_takes_no_job",
    ),
    EdgeDefect(
        name="a_run_is_made_of_a_job_that_is_cancelled",
        guard="What is launched while its job is being cancelled is refused",
        file="dispatcher/store/kinship.py",
        old="    for parent in sorted({each for each in parents if each}):",
        new="    for parent in sorted({each for each in parents if is_container(each)}):",
        test="tests/unit/test_periodic_service.py::test_of_what_is_being_cancelled_nothing_is_run",
    ),
    EdgeDefect(
        name="a_session_brings_any_number_of_bodies",
        guard="What a worker's session has under way of the API is bounded",
        file="pool/remote/api_relay.py",
        old="            if len(self._open) >= OPEN_MOST or held > HELD_BYTES_MOST:",
        new="            if held > HELD_BYTES_MOST:",
        test=f"{_RELAY}[messages2]",
    ),
    EdgeDefect(
        name="bodies_of_any_size_are_kept",
        guard="Bodies of the API that a worker's session has under way are bounded",
        file="pool/remote/api_relay.py",
        old="            if len(self._open) >= OPEN_MOST or held > HELD_BYTES_MOST:",
        new="            if len(self._open) >= OPEN_MOST:",
        test=f"{_RELAY}[messages3]",
    ),
    EdgeDefect(
        name="a_body_that_comes_twice_is_done_twice",
        guard="A request of the API is handed over once",
        file="pool/remote/api_relay.py",
        old="            is_over = exchange.is_handed_over or not piece.data",
        new="            is_over = not piece.data",
        test=f"{_RELAY}[messages6]",
    ),
    EdgeDefect(
        name="headers_come_in_chunks",
        guard="A body inside has a length that was told before",
        file="pool/runner/inside.py",
        old='    if "transfer-encoding" in headers:',
        new='    if "transfer-encoding" in headers and "content-length" not in headers:',
        test=f"{_RUNNER}test_what_is_no_plain_request_goes_nowhere",
    ),
    EdgeDefect(
        name="a_header_may_be_there_twice",
        guard="No header inside is there twice",
        file="pool/runner/inside.py",
        old="        if name in headers:",
        new="        if name in headers and len(headers) > 100:",
        test=f"{_RUNNER}test_a_head_that_is_odd_is_told",
    ),
    EdgeDefect(
        name="all_connections_inside_are_taken",
        guard="An attempt has so many connections at once",
        file="pool/runner/inside.py",
        old="        full = number >= CONNECTIONS_MOST or len",
        new="        full = number > 100_000 or len",
        test=f"{_RUNNER}test_only_so_many_connections_are_taken_and_all_are_served_in_turn",
    ),
    EdgeDefect(
        name="anybody_on_an_instance_may_ask",
        guard="The socket of an attempt is for its user alone",
        file="pool/runner/launch.py",
        old="            return inside.bind(self._door_of(attempt), uid=uid, gid=gid, mode=0o600)",
        new="            return inside.bind(self._door_of(attempt), uid=uid, gid=gid, mode=0o666)",
        test=f"{_RUNNER}test_only_its_user_may_connect_and_only_we_may_put_anything_there",
    ),
    EdgeDefect(
        name="a_container_lays_links_where_its_socket_is_made",
        guard="No program may write where we bind its socket and set its mode",
        file="pool/runner/invocation.py",
        old='{INSIDE}:ro"]',
        new='{INSIDE}"]',
        test=(
            "tests/contract/test_runner_podman.py"
            "::test_a_container_finds_the_socket_of_the_api_that_it_was_promised"
        ),
    ),
    EdgeDefect(
        name="a_socket_outlives_its_attempt",
        guard="The right to ask ends with the attempt",
        file="pool/runner/attach.py",
        old="        self._inside.shut(attempt_id)\n",
        new="",
        test=f"{_RUNNER}test_the_socket_ends_with_its_attempt",
    ),
    EdgeDefect(
        name="who_asks_between_sessions_hears_nothing",
        guard="Between sessions who asks is told to ask again",
        file="pool/runner/watching.py",
        old="            self._turn_away(name, now)",
        new="            self._shut(name)",
        test=f"{_RUNNER}test_without_a_session_who_asks_is_told_to_ask_again",
    ),
)
