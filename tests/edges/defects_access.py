"""Planted defects of who is let in, and of what each caller sees; what they are is in `defect`."""

from __future__ import annotations

from typing import Final

from tests.edges.defect import EdgeDefect

_TABLE = "tests/unit/test_access_table.py::test_each_endpoint_answers_each_caller_as_it_should"
_WORTHLESS = (
    "tests/unit/test_access_table.py::test_what_is_no_credential_is_answered_401_everywhere"
)
_POLICY = "tests/unit/test_policies.py::test_each_rule_holds_for_each_way_in"
_LEAD = (
    "tests/unit/test_policies.py::test_a_lead_runs_the_template_of_an_admin_within_its_own_policies"
)
_NAMES = "tests/unit/test_visibility.py::test_no_answer_names_nobody_elses"
_SERVER = "tests/e2e/test_access.py"

ACCESS: Final[tuple[EdgeDefect, ...]] = (
    EdgeDefect(
        name="a_token_with_another_secret_is_taken",
        guard="A token is compared as a whole, not by its id",
        file="dispatcher/service/tokens.py",
        old="        if found is None or not found.is_of(text):",
        new="        if found is None:",
        test=f"{_WORTHLESS}[unknown]",
    ),
    EdgeDefect(
        name="a_revoked_token_lets_in",
        guard="A token that was revoked lets nobody in",
        file="dispatcher/domain/tokens.py",
        old="        if self.revoked_at is not None:\n            return TokenState.REVOKED\n",
        new="",
        test=f"{_WORTHLESS}[revoked]",
    ),
    EdgeDefect(
        name="an_expired_token_lets_in",
        guard="A token lets nobody in behind its end",
        file="dispatcher/domain/tokens.py",
        old="        if self.expires_at is not None and self.expires_at <= now:",
        new="        if False:",
        test=f"{_WORTHLESS}[expired]",
    ),
    EdgeDefect(
        name="who_shows_nothing_is_let_in",
        guard="Where callers say who they are, who says nothing is nobody",
        file="dispatcher/api/doors.py",
        old="        if caller is None and not self.is_open:",
        new="        if False:",
        test=f"{_WORTHLESS}[none]",
    ),
    EdgeDefect(
        name="a_revoked_token_is_one_again_after_a_restart",
        guard="A revocation is committed",
        file="dispatcher/service/tokens.py",
        old="        await self._commit(SaveToken(token=revoked))",
        new="        await asyncio.sleep(0)",
        test=f"{_SERVER}::test_a_token_lets_in_until_it_is_revoked_also_after_a_crash",
    ),
    EdgeDefect(
        name="the_text_of_a_token_is_kept",
        guard="The store has digests of tokens only",
        file="dispatcher/service/tokens.py",
        old="            name=wanted.name,",
        new="            name=wanted.name or text,",
        test=f"{_SERVER}::test_a_token_lets_in_until_it_is_revoked_also_after_a_crash",
    ),
    EdgeDefect(
        name="a_stream_outlives_its_token",
        guard="What a token follows ends when it is revoked",
        file="dispatcher/api/doors.py",
        old="        for transport in list(self._streams.get(token_id, ())):",
        new="        for transport in ():",
        test=f"{_SERVER}::test_a_revoked_token_ends_what_it_follows",
    ),
    EdgeDefect(
        name="a_stream_outlives_its_tokens_end",
        guard="What a token follows ends when it expires",
        file="dispatcher/api/doors.py",
        old="        if caller.until is not None:",
        new="        if False:",
        test=f"{_SERVER}::test_a_token_expires_by_itself_and_its_streams_with_it",
    ),
    EdgeDefect(
        name="whoever_reaches_the_socket_is_an_admin",
        guard="The kernel is asked who speaks on the Unix socket",
        file="dispatcher/api/doors.py",
        old="    if uid not in (0, os.geteuid()):",
        new="    if False:",
        test=f"{_SERVER}::test_the_socket_is_for_the_servers_own_user_alone",
    ),
    EdgeDefect(
        name="the_socket_is_open_to_all",
        guard="The Unix socket has a mode that keeps others out",
        file="dispatcher/config/unix_socket.py",
        old="            first.chmod(0o600)",
        new="            first.chmod(0o666)",
        test=f"{_SERVER}::test_the_socket_is_for_the_servers_own_user_alone",
    ),
    EdgeDefect(
        name="a_socket_stays_behind_a_stop",
        guard="The Unix socket goes with its server",
        file="dispatcher/config/unix_socket.py",
        old="            place.unlink()",
        new="            place.lstat()",
        test=f"{_SERVER}::test_a_socket_that_a_crash_left_is_replaced",
    ),
    EdgeDefect(
        name="a_caller_asks_as_often_as_it_likes",
        guard="Each caller has a rate",
        file="dispatcher/api/doors.py",
        old="            if wait_s > 0:",
        new="            if False:",
        test=f"{_SERVER}::test_each_caller_asks_as_often_as_it_may",
    ),
    EdgeDefect(
        name="all_callers_share_one_rate",
        guard="Each caller has a rate of its own",
        file="dispatcher/api/doors.py",
        old=(
            "    return caller.token_id or "
            'f"{caller.door.value} {caller.container_id or caller.user}"'
        ),
        new="    return caller.door.value",
        test=f"{_SERVER}::test_each_caller_asks_as_often_as_it_may",
    ),
    EdgeDefect(
        name="a_caller_follows_as_much_as_it_likes",
        guard="Each caller follows so many streams at most",
        file="dispatcher/api/doors.py",
        old=(
            "        if caller.door not in _LOCAL and len(self._streams.get(name, ())) >= "
            "self._streams_most:"
        ),
        new="        if False:",
        test=f"{_SERVER}::test_each_caller_asks_as_often_as_it_may",
    ),
    EdgeDefect(
        name="the_audit_log_is_written_behind_the_change",
        guard="An entry of the audit log is queued before what it tells of",
        file="dispatcher/service/audit.py",
        old=(
            "        try:\n            self._store.write_behind(changes)\n"
            "        except (StoreBusy, StoreClosed) as error:\n"
            "            raise Unavailable(str(error)) from error\n"
        ),
        new="",
        test=f"{_SERVER}::test_what_was_acknowledged_is_in_the_audit_log_after_a_crash",
    ),
    EdgeDefect(
        name="a_renewed_certificate_is_not_seen",
        guard="The certificate is read again when its files change",
        file="dispatcher/server/certificate.py",
        old="            if now == seen:",
        new="            if now:",
        test=f"{_SERVER}::test_tls_and_a_certificate_that_is_renewed",
    ),
    EdgeDefect(
        name="open_mode_is_allowed_everywhere",
        guard="Beyond loopback nobody is an admin for having come",
        file="dispatcher/config/check.py",
        old="    if config.auth.mode is AuthMode.OPEN:",
        new="    if False:",
        test=f"{_SERVER}::test_the_server_refuses_what_would_let_in_too_many",
    ),
    EdgeDefect(
        name="what_is_shown_and_no_good_is_passed_over",
        guard="In open mode too, a token that is no good is refused",
        file="dispatcher/api/doors.py",
        old="        if isinstance(found, str):\n            raise Unauthorized(found)\n",
        new="        if isinstance(found, str):\n            return None\n",
        test=f"{_SERVER}::test_open_mode_is_as_safe_as_before",
    ),
    EdgeDefect(
        name="a_stranger_sees_what_is_anothers",
        guard="What is in no project of a caller's is not there for it",
        file="dispatcher/service/stored.py",
        old="        await self._kinship.expect_visible(found, caller)\n",
        new="",
        test=f"{_TABLE}[stranger-token]",
    ),
    EdgeDefect(
        name="a_mate_changes_what_is_anothers",
        guard="Who sees a container or job and does not own it may not change it",
        file="dispatcher/service/stored.py",
        old="        await self._kinship.expect_own(found, caller)\n",
        new="",
        test=f"{_TABLE}[mate-token]",
    ),
    EdgeDefect(
        name="who_changes_something_is_told_whose_way_it_was_in",
        guard="An answer to a change names nothing that its reader does not see",
        file="dispatcher/service/stored.py",
        old="        return self.shown(await self.get(thing_id), caller)",
        new="        return await self.get(thing_id)",
        test=f"{_NAMES}[PATCH /v1/containers/{{id}}]",
    ),
    EdgeDefect(
        name="who_asks_again_is_told_whose_way_it_was_in",
        guard="What a request made before is answered as all else is",
        file="dispatcher/service/containers.py",
        old="        return [self._stored.shown(each, caller) for each in made]",
        new="        return made",
        test=f"{_NAMES}[POST /v1/containers]",
    ),
    EdgeDefect(
        name="a_plan_names_who_would_make_way",
        guard="A plan names nothing that its reader does not see",
        file="dispatcher/service/visibility.py",
        old='    if step.action == "preempt":',
        new='    if step.action == "never":',
        test="tests/unit/test_visibility.py::test_a_plan_names_nobody_elses",
    ),
    EdgeDefect(
        name="a_user_is_answered_as_an_admin",
        guard="A route answers the roles that it is for",
        file="dispatcher/api/entrance.py",
        old="        if not allows(route.access, caller.role):",
        new="        if False:",
        test=f"{_TABLE}[owner-token]",
    ),
    EdgeDefect(
        name="a_list_has_what_others_have",
        guard="A listing has what its caller sees",
        file="dispatcher/service/containers.py",
        old="        seen = replace(which, projects=seen_projects(caller))",
        new="        seen = which",
        test="tests/unit/test_access_table.py::test_lists_have_what_one_sees",
    ),
    EdgeDefect(
        name="a_list_of_jobs_has_what_others_have",
        guard="A listing has what its caller sees",
        file="dispatcher/service/jobs.py",
        old="        seen = replace(which, projects=seen_projects(caller))",
        new="        seen = which",
        test="tests/unit/test_access_table.py::test_lists_have_what_one_sees",
    ),
    EdgeDefect(
        name="a_filter_leads_into_anothers_project",
        guard="A filter by project finds nothing in one that its caller does not see",
        file="dispatcher/store/filters.py",
        old="    seen = [each for each in wanted if each in which.projects]",
        new="    seen = list(wanted)",
        test="tests/unit/test_access_table.py::test_lists_have_what_one_sees",
    ),
    EdgeDefect(
        name="anybody_submits_into_any_project",
        guard="A caller names projects of its own only",
        file="dispatcher/service/visibility.py",
        old="    if problems:\n        raise InvalidRequest(problems[:_PROBLEMS_TOLD])",
        new="",
        test="tests/unit/test_access_table.py::test_a_project_of_others_is_no_project_of_ones_own",
    ),
    EdgeDefect(
        name="events_tell_what_others_do",
        guard="A subscriber gets the events of its projects",
        file="dispatcher/api/routes/events.py",
        old='        if not self._caller.sees(str(event.data.get("project", ""))):',
        new="        if False:",
        test="tests/unit/test_visibility.py::test_events_are_those_of_ones_projects",
    ),
    EdgeDefect(
        name="why_one_waits_names_anothers_container",
        guard="No sentence names what its reader does not see",
        file="dispatcher/service/visibility.py",
        old="        seen = _may_name(match.group(2), caller, project_of)",
        new="        seen = True",
        test="tests/unit/test_visibility.py::test_why_one_waits_names_nobody_elses",
    ),
    EdgeDefect(
        name="a_policy_holds_for_no_container",
        guard="Policies hold for containers",
        file="dispatcher/service/containers.py",
        old="        items = govern_containers(self._policies, items, caller)\n",
        new="",
        test=f"{_POLICY}[cpus]",
    ),
    EdgeDefect(
        name="a_policy_holds_for_no_update",
        guard="Policies hold for the next revision of a job",
        file="dispatcher/service/jobs.py",
        old="        revised = self._revised(job, self._governed(new, caller))",
        new="        revised = self._revised(job, new)",
        test=f"{_POLICY}[cpus]",
    ),
    EdgeDefect(
        name="a_policy_holds_for_no_dispatch",
        guard="Policies hold for what is dispatched",
        file="dispatcher/service/jobs.py",
        old="            allowed = govern_run(self._policies, template, caller)",
        new="            allowed = template",
        test=f"{_POLICY}[image]",
    ),
    EdgeDefect(
        name="what_a_policy_fills_in_is_no_part_of_a_run",
        guard="What a template leaves open is filled in for each run that is dispatched",
        file="dispatcher/service/governing.py",
        old="    return replace(template, tasks=tasks, priority=priority)",
        new="    return template if tasks or priority else template",
        test=(
            "tests/unit/test_policies.py"
            "::test_what_is_left_open_is_filled_in_by_each_way[instance_types]"
        ),
    ),
    EdgeDefect(
        name="a_run_is_dispatched_with_the_priority_of_its_template",
        guard="The priority of a run is within the policies for who dispatches it",
        file="dispatcher/service/governing.py",
        old="    return replace(template, tasks=tasks, priority=priority)",
        new="    return replace(template, tasks=tasks)",
        test=_LEAD,
    ),
    EdgeDefect(
        name="a_policy_holds_for_no_priority_of_a_job",
        guard="Policies hold for the priority of what there is",
        file="dispatcher/service/jobs.py",
        old="        expect_allowed_priority(self._policies, own, priority, caller)\n",
        new="",
        test=f"{_POLICY}[priority]",
    ),
    EdgeDefect(
        name="a_policy_holds_for_no_priority_of_a_container",
        guard="Policies hold for the priority of what there is",
        file="dispatcher/service/containers.py",
        old="            expect_allowed_priority(self._policies, own, priority, caller)\n",
        new="",
        test=f"{_POLICY}[priority]",
    ),
    EdgeDefect(
        name="a_policy_without_its_gpus",
        guard="Each rule is looked at",
        file="dispatcher/domain/policies.py",
        old="    _cpus,\n    _gpus,\n",
        new="    _cpus,\n",
        test=f"{_POLICY}[gpus]",
    ),
    EdgeDefect(
        name="a_policy_for_all_projects",
        guard="A policy is for its projects",
        file="dispatcher/domain/policies.py",
        old="any(fnmatchcase(project, each) for each in patterns)",
        new="bool(patterns)",
        test="tests/unit/test_policies.py::test_a_policy_is_for_some",
    ),
    EdgeDefect(
        name="what_was_begun_outlives_the_token",
        guard="A request whose body comes after the revocation is not carried out",
        file="dispatcher/api/doors.py",
        old="            if request.transport is not None and not request.content.is_eof():",
        new="            if False:",
        test=(f"{_SERVER}::test_what_was_begun_before_a_token_was_revoked_is_not_carried_out"),
    ),
    EdgeDefect(
        name="whoever_takes_all_places_shuts_out_the_admins",
        guard="The Unix socket has its own places",
        file="dispatcher/api/server.py",
        old="        if not is_local and len(",
        new="        if len(",
        test=f"{_SERVER}::test_an_admin_comes_in_though_all_places_are_taken",
    ),
    EdgeDefect(
        name="an_event_says_for_whom_one_made_way",
        guard="No event names what its subscriber does not see",
        file="dispatcher/api/routes/events.py",
        old="    if isinstance(attempts, list):",
        new="    if False:",
        test="tests/unit/test_visibility.py::test_an_event_names_what_its_reader_sees",
    ),
    EdgeDefect(
        name="a_key_crosses_projects",
        guard="A key means another request to a caller with another project",
        file="dispatcher/api/validate/submissions.py",
        old='    usual = project in ("", defaults.project)',
        new="    usual = True",
        test="tests/unit/test_visibility.py::test_one_key_is_anothers_in_another_project",
    ),
)
