"""Planted defects of secrets, wherever they pass; what they are is told in `defect`."""

from __future__ import annotations

from typing import Final

from tests.edges.defect import EdgeDefect

_BOX = "tests/unit/test_secret_box.py::"
_API = "tests/unit/test_secrets_api.py::"
_RUNNER = "tests/contract/test_runner_secrets.py::"
_DELIVERY = "tests/unit/test_secret_delivery.py::"

SECRETS: Final[tuple[EdgeDefect, ...]] = (
    EdgeDefect(
        name="others_may_read_the_key_file",
        guard="A key file that others may open is refused",
        file="dispatcher/store/secret_box.py",
        old="            if mode & 0o077:",
        new="            if mode & 0o007:",
        test=f"{_BOX}test_a_key_file_that_others_may_open_is_refused[416]",
    ),
    EdgeDefect(
        name="a_ciphertext_opens_anywhere",
        guard="A ciphertext opens only where it was sealed for",
        file="dispatcher/store/secret_box.py",
        old="        if found != place:",
        new="        if not found:",
        test=f"{_BOX}test_a_ciphertext_opens_nothing_elsewhere[env db]",
    ),
    EdgeDefect(
        name="a_rotation_leaves_the_old_data_key",
        guard="Named secrets are encrypted anew",
        file="dispatcher/store/secret_box.py",
        old="anew.append(replace(secret, ciphertext=box.seal(value, place=place)))",
        new="anew.append(replace(secret, ciphertext=self.seal(value, place=place)))",
        test=f"{_BOX}test_after_a_rotation_the_old_key_opens_nothing_and_the_new_one_all",
    ),
    EdgeDefect(
        name="a_rotation_leaves_the_old_key",
        guard="Data keys are encrypted with the new key",
        file="dispatcher/store/secret_box.py",
        old="rewrapped.append(replace(each, ciphertext=outer.encrypt(opened).decode()))",
        new="rewrapped.append(each)",
        test=f"{_BOX}test_after_a_rotation_the_old_key_opens_nothing_and_the_new_one_all",
    ),
    EdgeDefect(
        name="a_rotation_forgets_what_is_locked",
        guard="What cannot be opened stays as it is",
        file="dispatcher/store/secret_box.py",
        old="            else:\n                rewrapped.append(each)",
        new="",
        test=f"{_BOX}test_what_cannot_be_opened_outlives_a_rotation",
    ),
    EdgeDefect(
        name="a_lost_key_is_replaced",
        guard="No new key takes the place of one that may come back",
        file="dispatcher/store/vault.py",
        old="    if not data_keys:",
        new="    if not data_keys or not keys:",
        test=f"{_BOX}test_with_the_key_lost_nothing_opens_and_with_it_back_all_does",
    ),
    EdgeDefect(
        name="half_a_login_is_sent",
        guard="A login has a user and a password",
        file="dispatcher/store/vault.py",
        old='        if use.kind is SecretKind.REGISTRY and not all(value.partition(":")[::2]):',
        new='        if use.kind is SecretKind.REGISTRY and ":" not in value:',
        test=f"{_BOX}test_what_cannot_be_used_so_is_told_without_its_value"
        "[SecretKind.REGISTRY-only-a-user:-USER:PASSWORD]",
    ),
    EdgeDefect(
        name="users_set_secrets",
        guard="Secrets are set by leads and admins",
        file="dispatcher/service/secrets.py",
        old="    if caller.role not in (Role.LEAD, Role.ADMIN):",
        new="    if caller.role is Role.METRICS:",
        test=f"{_API}test_members_list_leads_and_admins_change_and_others_see_nothing",
    ),
    EdgeDefect(
        name="another_projects_secrets_are_listed",
        guard="What is not in a caller's projects is not there",
        file="dispatcher/service/secrets.py",
        old="    if not caller.sees(project):",
        new="    if not caller.projects and not caller.is_admin:",
        test=f"{_API}test_members_list_leads_and_admins_change_and_others_see_nothing",
    ),
    EdgeDefect(
        name="leads_make_new_keys",
        guard="New keys are an admin's",
        file="dispatcher/service/secrets.py",
        old="        if not caller.is_admin:",
        new="        if caller.role is Role.USER:",
        test=f"{_API}test_members_list_leads_and_admins_change_and_others_see_nothing",
    ),
    EdgeDefect(
        name="two_rotations_at_once",
        guard="A rotation drops no key that another has just made",
        file="dispatcher/service/secrets.py",
        old="        async with self._rotating:",
        new="        async with asyncio.Lock():",
        test=f"{_API}test_rotations_at_the_same_time_leave_the_key_that_is_in_use",
    ),
    EdgeDefect(
        name="secrets_that_are_not_there_are_taken",
        guard="What does not exist is refused at the submission",
        file="dispatcher/service/containers.py",
        old="        self._admission.refuse_unknown_secrets(\n"
        '            (f"[{n}]", item.project, item.spec) for n, item in enumerate(items)\n'
        "        )\n",
        new="",
        test=f"{_API}test_what_is_not_there_is_refused_where_it_is_named",
    ),
    EdgeDefect(
        name="jobs_with_schedulers_of_their_own_have_secrets",
        guard="What would not wait for a secret is refused with one",
        file="dispatcher/service/jobs.py",
        old="        if new.type.has_own_scheduler:",
        new="        if new.type.has_own_scheduler and not new.tasks:",
        test=f"{_API}test_jobs_with_a_scheduler_of_their_own_have_none[system]",
    ),
    EdgeDefect(
        name="a_secret_value_is_stored",
        guard="Secret values are encrypted before they reach the store",
        file="dispatcher/api/validate/specification.py",
        old="            (name, seal(name, value.secret))",
        new="            (name, value.secret)",
        test=f"{_API}test_secret_values_are_sealed_before_they_are_stored_and_shown_as_a_mark",
    ),
    EdgeDefect(
        name="a_ciphertext_is_shown",
        guard="A secret value is shown as a mark",
        file="dispatcher/api/render/containers.py",
        old="env={**dict(spec.env), **{name: SecretMark() for name, _ in spec.sealed_env}},",
        new="env={**dict(spec.env), **dict(spec.sealed_env)},",
        test=f"{_API}test_secret_values_are_sealed_before_they_are_stored_and_shown_as_a_mark",
    ),
    EdgeDefect(
        name="a_hash_of_a_secret_value_is_kept",
        guard="What is kept of a request has nothing of its secret values",
        file="dispatcher/api/validate/submissions.py",
        old="    kept = _without_secret_values(value)",
        new="    kept = value",
        test=f"{_API}test_a_repeated_request_is_known_by_all_but_its_secret_values",
    ),
    EdgeDefect(
        name="a_file_of_secrets_lies_elsewhere",
        guard="A file's name has no slash",
        file="dispatcher/api/validate/secrets.py",
        old="        case SecretKind.FILE if not FILE_NAME.fullmatch(target):",
        new="        case SecretKind.FILE if not target:",
        test=f"{_API}test_all_that_is_wrong_with_references_is_told_at_once",
    ),
    EdgeDefect(
        name="a_start_without_its_secrets",
        guard="What cannot be had is not sent",
        file="pool/remote/performer.py",
        old="                StartWithheld(\n",
        new="                StartUnknown(\n",
        test=f"{_DELIVERY}test_what_cannot_be_had_is_not_sent",
    ),
    EdgeDefect(
        name="all_secrets_of_an_instance_are_listed",
        guard="Nobody can list whose secrets lie beside the spool",
        file="pool/runner/secret_files.py",
        old="        os.chmod(parent, 0o711)",
        new="        os.chmod(parent, 0o755)",
        test=f"{_RUNNER}test_nobody_else_can_look_and_no_argument_has_a_value[]",
    ),
    EdgeDefect(
        name="everybody_reads_a_file_of_secrets",
        guard="A file of secrets is its user's alone",
        file="pool/runner/secret_files.py",
        old="os.O_NOFOLLOW, 0o400)",
        new="os.O_NOFOLLOW, 0o444)",
        test=f"{_RUNNER}test_nobody_else_can_look_and_no_argument_has_a_value[]",
    ),
    EdgeDefect(
        name="secrets_on_a_disk",
        guard="Secrets are written to memory alone",
        file="pool/runner/secret_files.py",
        old="    if not spool.is_in_memory:",
        new="    if not spool.places.spool:",
        test=f"{_RUNNER}test_without_shared_memory_files_are_refused",
    ),
    EdgeDefect(
        name="secrets_outlive_their_program",
        guard="The supervisor removes them before it tells of the end",
        file="pool/runner/scripts.py",
        old='  [ -z "$_ls_given" ] || rm -rf -- "$_ls_given"\n',
        new="",
        test=f"{_RUNNER}test_a_process_has_them_and_nothing_is_left[]",
    ),
    EdgeDefect(
        name="secrets_outlive_a_supervisor",
        guard="What is lost leaves no secrets",
        file="pool/runner/launch.py",
        old="                self.end_rest(attempt)\n"
        "                secret_files.remove(self._spool, attempt.attempt_id)\n",
        new="                self.end_rest(attempt)\n",
        test=f"{_RUNNER}test_what_loses_its_supervisor_loses_them_too[]",
    ),
    EdgeDefect(
        name="secrets_outlive_a_runner",
        guard="What a runner left that died over a start is removed",
        file="pool/runner/launch.py",
        old="        secret_files.sweep(self._spool)\n",
        new="",
        test=f"{_RUNNER}test_what_a_runner_left_that_died_over_a_start_is_swept[]",
    ),
    EdgeDefect(
        name="a_login_outlives_its_pull",
        guard="A login is for one pull",
        file="pool/runner/scripts.py",
        old='[ -z "$_ls_auth" ] || rm -rf -- "$_ls_auth"\n',
        new="",
        test=f"{_RUNNER}test_a_login_is_for_the_pull_alone",
    ),
    EdgeDefect(
        name="the_runner_writes_where_a_name_says",
        guard="A file of secrets is called as one can be, whoever asks",
        file="pool/runner/wire.py",
        old='    if any(not FILE_NAME.fullmatch(os.fsdecode(name)) for name, _ in found["files"]):',
        new='    if any(not name for name, _ in found["files"]):',
        test=f"{_RUNNER}test_an_order_that_cannot_be_is_refused_without_a_value"
        "[given1-not called as one can be]",
    ),
    EdgeDefect(
        name="a_login_without_an_image",
        guard="A login that nobody would use is refused",
        file="pool/runner/invocation.py",
        old="        if bare and order.secrets.registries:",
        new="        if bare and order.image:",
        test=f"{_RUNNER}test_an_order_that_cannot_be_is_refused_without_a_value"
        "[given0-a login at a registry is for]",
    ),
    EdgeDefect(
        name="a_program_finds_the_supervisors_words",
        guard="No variable of the supervisor's reaches the program",
        file="pool/runner/scripts.py",
        old="unset _ls_enter _ls_stat _ls_pid _ls_group _ls_join _ls_mark _ls_given OLDPWD",
        new="unset _ls_enter _ls_stat _ls_pid _ls_group _ls_join _ls_mark OLDPWD",
        test=f"{_RUNNER}test_a_process_has_them_and_nothing_is_left[]",
    ),
)
