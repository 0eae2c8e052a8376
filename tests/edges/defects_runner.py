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
        old="        users = {key: value for key, value in variables if key not in own}",
        new="        users = dict(variables)",
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
    EdgeDefect(
        name="an_older_leader_is_served",
        guard="A session serves no leader whose time is over",
        file="pool/runner/attach.py",
        old=(
            "        if epoch < self._epoch:\n"
            '            raise Refusal("epoch", f"epoch {epoch} is over, {self._epoch} leads")'
        ),
        new="",
        test=(
            "tests/unit/test_runner_session.py"
            "::test_an_epoch_that_is_over_is_refused_also_by_the_next_session"
        ),
    ),
    EdgeDefect(
        name="a_newer_leader_is_not_remembered",
        guard="The highest epoch is kept for the sessions to come",
        file="pool/runner/attach.py",
        old="            self._spool.remember_epoch(epoch)",
        new="",
        test=(
            "tests/unit/test_runner_session.py"
            "::test_an_epoch_that_is_over_is_refused_also_by_the_next_session"
        ),
    ),
    EdgeDefect(
        name="an_older_leader_takes_over",
        guard="A leader whose time is over does not end a session",
        file="pool/runner/handshake.py",
        old=(
            "    if epoch < known:\n"
            '        raise Refusal("epoch", f"epoch {epoch} is over, {known} leads")'
        ),
        new="",
        test=(
            "tests/unit/test_runner_session.py"
            "::test_an_epoch_that_is_over_is_refused_also_by_the_next_session"
        ),
    ),
    EdgeDefect(
        name="who_is_refused_keeps_the_lock",
        guard="Who is refused keeps nobody out",
        file="pool/runner/handshake.py",
        old=("    except BaseException:\n        os.close(lock)\n        raise\n    sign(lock)"),
        new=("    except BaseException:\n        raise\n    sign(lock)"),
        test=(
            "tests/unit/test_runner_handover.py"
            "::test_a_later_leader_that_came_while_we_waited_for_the_lock_is_noticed"
        ),
    ),
    EdgeDefect(
        name="the_epoch_of_a_session_is_forgotten",
        guard="A session leaves its epoch to those to come",
        file="pool/runner/handshake.py",
        old="    spool.remember_epoch(epoch)",
        new="",
        test=(
            "tests/unit/test_runner_handover.py"
            "::test_the_lock_and_the_epoch_of_a_session_outlive_no_doubt"
        ),
    ),
    EdgeDefect(
        name="two_sessions_at_once",
        guard="There is one session at a time",
        file="pool/runner/handshake.py",
        old="        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)",
        new="        fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)",
        test=(
            "tests/unit/test_runner_handover.py"
            "::test_the_lock_and_the_epoch_of_a_session_outlive_no_doubt"
        ),
    ),
    EdgeDefect(
        name="a_frozen_session_is_waited_for",
        guard="A session that does not end when asked is made to",
        file="pool/runner/handshake.py",
        old="        late = waited_s >= TAKE_OVER_TIMEOUT_S",
        new="        late = waited_s < 0",
        test="tests/unit/test_runner_session.py::test_a_frozen_session_is_taken_over_too",
    ),
    EdgeDefect(
        name="a_session_does_not_say_who_it_is",
        guard="A newer session finds whom to ask to end",
        file="pool/runner/handshake.py",
        old="    os.pwrite(lock, own.encode().rjust(SIGNATURE_BYTES), 0)",
        new="    os.pwrite(lock, own.encode()[:0], 0)",
        test=(
            "tests/unit/test_runner_session.py"
            "::test_a_newer_session_takes_over_and_the_older_ends[1]"
        ),
    ),
    EdgeDefect(
        name="the_protocol_is_not_checked",
        guard="Another protocol is refused",
        file="pool/runner/handshake.py",
        old=(
            '    if message.get("protocol") != wire.PROTOCOL:\n'
            '        raise Refusal("protocol", f"this runner speaks protocol {wire.PROTOCOL}")'
        ),
        new="",
        test=("tests/unit/test_runner_session.py::test_a_wrong_hello_is_refused[fields0-protocol]"),
    ),
    EdgeDefect(
        name="the_cluster_is_not_checked",
        guard="A runner serves its own cluster",
        file="pool/runner/handshake.py",
        old=(
            '    if message.get("cluster") != cluster:\n'
            '        raise Refusal("cluster", f"this runner was called for cluster {cluster!r}")'
        ),
        new="",
        test=("tests/unit/test_runner_session.py::test_a_wrong_hello_is_refused[fields2-cluster]"),
    ),
    EdgeDefect(
        name="the_digest_is_not_checked",
        guard="A runner serves who wants this very one",
        file="pool/runner/handshake.py",
        old=(
            '    if message.get("runner_sha256") != runner_sha256:\n'
            '        raise Refusal("sha256", f"this is runner {runner_sha256}")'
        ),
        new="",
        test="tests/unit/test_runner_session.py::test_a_wrong_hello_is_refused[fields3-sha256]",
    ),
    EdgeDefect(
        name="a_store_may_have_any_name",
        guard="The name of a store is bounded text",
        file="pool/runner/handshake.py",
        old="    if not isinstance(store, str) or len(store) > MAX_STORE_CHARACTERS:",
        new="    if not isinstance(store, str):",
        test=(
            "tests/unit/test_runner_handover.py::test_the_name_of_a_store_is_bounded_text[store2]"
        ),
    ),
    EdgeDefect(
        name="heartbeats_have_no_least_pause",
        guard="Heartbeats come at a bounded pace",
        file="pool/runner/handshake.py",
        old="    return min(MAX_HEARTBEAT_S, max(MIN_HEARTBEAT_S, interval))",
        new="    return interval",
        test=(
            "tests/unit/test_runner_handover.py"
            "::test_heartbeats_come_at_a_pace_that_both_sides_can_bear[0-0.05]"
        ),
    ),
    EdgeDefect(
        name="a_hello_is_waited_for_for_ever",
        guard="Who says nothing keeps no runner",
        file="pool/runner/handshake.py",
        old=(
            "        if not poll.poll(max(0.0, deadline - time.monotonic()) * 1000):\n"
            '            raise ProtocolError(f"no hello within {HELLO_TIMEOUT_S} s")'
        ),
        new="        poll.poll(max(0.0, deadline - time.monotonic()) * 1000)",
        test="tests/unit/test_runner_handover.py::test_who_says_nothing_keeps_no_runner",
    ),
    EdgeDefect(
        name="a_line_has_no_limit",
        guard="A line of the protocol has a limit",
        file="pool/runner/wire.py",
        old=(
            "        if length > MAX_LINE_BYTES:\n"
            '            raise ProtocolError(f"a line is longer than {MAX_LINE_BYTES} bytes")'
        ),
        new="        del length",
        test="tests/unit/test_runner_wire.py::test_a_line_has_a_limit[]",
    ),
    EdgeDefect(
        name="the_rest_of_a_line_has_no_limit",
        guard="Half a line has the limit of a whole one",
        file="pool/runner/wire.py",
        old=(
            '        if b"\\n" not in data:\n'
            "            self._check(len(self._rest))\n"
            "            return []"
        ),
        new=('        if b"\\n" not in data:\n            return []'),
        test="tests/unit/test_runner_wire.py::test_a_line_has_a_limit[]",
    ),
    EdgeDefect(
        name="nesting_ends_the_runner",
        guard="Nonsense ends a session in one line",
        file="pool/runner/wire.py",
        old="    except (ValueError, RecursionError) as error:",
        new="    except ValueError as error:",
        test=(
            "tests/unit/test_runner_session.py"
            "::test_nonsense_ends_the_session_in_one_line[b'[[[[[[[[[[[[[[[[[[[[']"
        ),
    ),
    EdgeDefect(
        name="true_is_a_number",
        guard="A truth value is no number",
        file="pool/runner/wire.py",
        old=(
            "    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= "
            "value < 1 << 62:"
        ),
        new="    if not isinstance(value, int) or not 0 <= value < 1 << 62:",
        test=(
            "tests/unit/test_runner_orders.py"
            "::test_an_order_that_cannot_be_carried_out_is_refused[change10-memory_bytes "
            "must be a whole number]"
        ),
    ),
    EdgeDefect(
        name="counts_may_be_negative",
        guard="A count is not negative",
        file="pool/runner/wire.py",
        old=(
            "    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= "
            "value < 1 << 62:"
        ),
        new=(
            "    if isinstance(value, bool) or not isinstance(value, int) or not value < 1 << 62:"
        ),
        test=(
            "tests/unit/test_runner_orders.py"
            "::test_an_order_that_cannot_be_carried_out_is_refused[change9-memory_bytes "
            "must be a whole number, not negative]"
        ),
    ),
    EdgeDefect(
        name="seconds_may_have_no_end",
        guard="A length of time is a number that ends",
        file="pool/runner/wire.py",
        old=(
            "    if isinstance(value, bool) or not isinstance(value, (int, float)) or "
            "not 0 <= value <= 1e9:"
        ),
        new=("    if isinstance(value, bool) or not isinstance(value, (int, float)) or value < 0:"),
        test="tests/unit/test_runner_handover.py::test_a_grace_is_a_time_that_ends[inf]",
    ),
    EdgeDefect(
        name="ids_may_lead_out_of_the_spool",
        guard="An id is never a path",
        file="pool/runner/wire.py",
        old=(
            "    if not NAME.fullmatch(value):\n"
            '        raise Refusal("invalid", f"{field} must be letters, digits, dots, '
            'dashes, at most 128")'
        ),
        new="",
        test="tests/unit/test_runner_wire.py::test_an_id_cannot_leave_its_directory[]",
    ),
    EdgeDefect(
        name="an_image_may_be_an_option",
        guard="An image is never read as an option",
        file="pool/runner/wire.py",
        old='    if image.startswith("-") or len(image) > 4096:',
        new="    if len(image) > 4096:",
        test=(
            "tests/unit/test_runner_orders.py"
            "::test_an_order_that_cannot_be_carried_out_is_refused[change0-must not "
            "begin with a dash]"
        ),
    ),
    EdgeDefect(
        name="a_word_may_hold_a_zero_byte",
        guard="What no program can be given is refused",
        file="pool/runner/wire.py",
        old=(
            '    if b"\\0" in raw:\n'
            '        raise Refusal("invalid", f"{field} holds a zero byte, which no '
            'program can be given")'
        ),
        new="",
        test=(
            "tests/unit/test_runner_orders.py"
            "::test_an_order_that_cannot_be_carried_out_is_refused[change2-command holds "
            "a zero byte]"
        ),
    ),
    EdgeDefect(
        name="half_a_surrogate_ends_the_session",
        guard="Half a surrogate pair is refused and ends nothing",
        file="pool/runner/wire.py",
        old='        raw = value.encode("utf-8")',
        new='        raw = value.encode("utf-8", "surrogatepass")',
        test=(
            "tests/unit/test_runner_orders.py"
            "::test_an_order_that_cannot_be_carried_out_is_refused[change3-command holds "
            "half a surrogate pair]"
        ),
    ),
    EdgeDefect(
        name="a_name_may_hold_an_equals_sign",
        guard="A variable has a name",
        file="pool/runner/wire.py",
        old=(
            '    if any(not name or "=" in name for name in value):\n'
            '        raise Refusal("invalid", f"a name in {field} is empty or holds an'
            ' equals sign")'
        ),
        new="",
        test=(
            "tests/unit/test_runner_orders.py"
            "::test_an_order_that_cannot_be_carried_out_is_refused[change6-is empty or "
            "holds an equals sign]"
        ),
    ),
    EdgeDefect(
        name="cpus_have_no_limit",
        guard="A limit that no kernel takes is refused",
        file="pool/runner/wire.py",
        old=(
            "    if cpu_millis > MAX_CPU_MILLIS:\n"
            '        raise Refusal("invalid", f"cpu_millis must not be more than '
            '{MAX_CPU_MILLIS}")'
        ),
        new="",
        test=(
            "tests/unit/test_runner_orders.py"
            "::test_an_order_that_cannot_be_carried_out_is_refused[change12-cpu_millis "
            "must not be more than]"
        ),
    ),
    EdgeDefect(
        name="a_signal_may_be_any",
        guard="An attempt gets TERM or KILL and nothing else",
        file="pool/runner/attach.py",
        old=(
            "        if name not in launch.SIGNALS:\n"
            '            raise Refusal("invalid", "signal must be TERM or KILL")'
        ),
        new=('        if name not in launch.SIGNALS:\n            return {"signalled": False}'),
        test=(
            "tests/unit/test_runner_handover.py"
            "::test_an_attempt_gets_no_other_signal_than_term_and_kill"
        ),
    ),
    EdgeDefect(
        name="who_does_not_read_fills_memory",
        guard="Who asks and asks but never reads is hung up on",
        file="pool/runner/output.py",
        old=(
            "        if len(self._waiting) > MAX_WAITING_BYTES:\n"
            '            raise wire.ProtocolError("the other side does not read its replies")'
        ),
        new="",
        test="tests/unit/test_runner_units.py::test_output_that_nobody_reads_ends_the_session",
    ),
    EdgeDefect(
        name="logs_are_pushed_however_much_waits",
        guard="Logs wait while the reader is behind",
        file="pool/runner/output.py",
        old="        return len(self._waiting) >= PACE_BYTES",
        new="        return len(self._waiting) < 0",
        test="tests/unit/test_runner_handover.py::test_logs_wait_while_the_reader_is_behind",
    ),
    EdgeDefect(
        name="the_window_of_logs_is_open",
        guard="No more of logs is under way than the window",
        file="pool/runner/logs.py",
        old="        return not self._ready or self._unacknowledged >= WINDOW_BYTES",
        new="        return not self._ready",
        test="tests/unit/test_runner_units.py::test_streams_take_turns_within_the_window",
    ),
    EdgeDefect(
        name="one_log_takes_all_turns",
        guard="Streams that are followed have their turns",
        file="pool/runner/logs.py",
        old=(
            "        follower = self._ready.pop(name)\n"
            "        data = self._read(follower, min(CHUNK_BYTES, WINDOW_BYTES - "
            "self._unacknowledged))\n"
            "        if not data:\n"
            "            return\n"
            "        self._ready[name] = follower"
        ),
        new=(
            "        follower = self._ready[name]\n"
            "        data = self._read(follower, min(CHUNK_BYTES, WINDOW_BYTES - "
            "self._unacknowledged))\n"
            "        if not data:\n"
            "            del self._ready[name]\n"
            "            return"
        ),
        test="tests/unit/test_runner_units.py::test_streams_take_turns_within_the_window",
    ),
    EdgeDefect(
        name="a_dropped_log_keeps_its_share_of_the_window",
        guard="Who is followed no more gives back the window",
        file="pool/runner/logs.py",
        old="                self._unacknowledged -= follower.flying()",
        new="                follower.flying()",
        test=(
            "tests/unit/test_runner_handover.py"
            "::test_who_is_followed_no_more_gives_its_share_of_the_window_back"
        ),
    ),
    EdgeDefect(
        name="an_attempt_is_claimed_twice",
        guard="An attempt is started once",
        file="pool/runner/spool.py",
        old=("        if os.path.exists(self.path(attempt.attempt_id)):\n            return None"),
        new="",
        test="tests/unit/test_runner_spool.py::test_a_claim_is_given_once",
    ),
    EdgeDefect(
        name="a_claim_is_not_locked",
        guard="Who watches an attempt holds its lock",
        file="pool/runner/spool.py",
        old="            fcntl.flock(lock, fcntl.LOCK_EX)",
        new="",
        test="tests/unit/test_runner_spool.py::test_a_claim_is_given_once",
    ),
    EdgeDefect(
        name="records_have_no_room_of_their_own",
        guard="What must be written once an attempt runs has its room",
        file="pool/runner/spool.py",
        old=(
            '            for name in ("job", "exit", "grace", UNKILLED):\n'
            '                allocate(f"{temporary}/{name}")'
        ),
        new=(
            '            for name in ("job", "exit", "grace", UNKILLED):\n'
            '                open(f"{temporary}/{name}", "w").close()'
        ),
        test=(
            "tests/unit/test_runner_handover.py"
            "::test_what_must_be_written_once_an_attempt_runs_has_its_room"
        ),
    ),
    EdgeDefect(
        name="a_spool_may_be_anybodys",
        guard="A directory of somebody else's is not used",
        file="pool/runner/spool.py",
        old=(
            "    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid():\n"
            '        raise SpoolError(f"{path} is not a directory of our own: somebody '
            'else made it")'
        ),
        new="",
        test="tests/unit/test_runner_handover.py::test_a_directory_is_ours_alone_or_not_used",
    ),
    EdgeDefect(
        name="a_spool_stays_open_to_all",
        guard="A directory of ours is for us alone",
        file="pool/runner/spool.py",
        old=("    if stat.S_IMODE(found.st_mode) != 0o700:\n        os.chmod(path, 0o700)"),
        new="",
        test="tests/unit/test_runner_handover.py::test_a_directory_is_ours_alone_or_not_used",
    ),
    EdgeDefect(
        name="a_file_is_replaced_in_parts",
        guard="A reader sees the old content or the new",
        file="pool/runner/spool.py",
        old='    temporary = f"{path}.{os.getpid()}"',
        new="    temporary = path",
        test=(
            "tests/unit/test_runner_handover.py"
            "::test_a_file_that_is_replaced_is_the_old_one_or_the_new"
        ),
    ),
    EdgeDefect(
        name="a_file_that_was_not_written_is_left",
        guard="A write that fails leaves the old content and nothing else",
        file="pool/runner/spool.py",
        old=("        os.unlink(temporary)\n        raise\n    finally:"),
        new=("        raise\n    finally:"),
        test=(
            "tests/unit/test_runner_handover.py"
            "::test_a_file_that_is_replaced_is_the_old_one_or_the_new"
        ),
    ),
    EdgeDefect(
        name="a_torn_exit_is_believed",
        guard="A record of an end counts when it is whole",
        file="pool/runner/spool.py",
        old=('        if not text.endswith("\\n"):\n            return None'),
        new=("        if not text:\n            return None"),
        test="tests/unit/test_runner_spool.py::test_half_an_exit_record_is_none",
    ),
    EdgeDefect(
        name="an_attempt_ends_before_its_log",
        guard="An attempt has ended when its log is whole",
        file="pool/runner/spool.py",
        old=("        return None if self.is_collected(attempt_id) else self.recorded(attempt_id)"),
        new="        return self.recorded(attempt_id)",
        test=(
            "tests/unit/test_runner_collector.py"
            "::test_what_is_written_is_in_the_log_and_an_end_is_told_after_it"
        ),
    ),
    EdgeDefect(
        name="a_watched_attempt_is_buried",
        guard="Who has a supervisor is not buried",
        file="pool/runner/spool.py",
        old=(
            "            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)\n"
            "        except BlockingIOError:\n"
            "            os.close(lock)\n"
            "            return None"
        ),
        new=(
            "            os.fstat(lock)\n"
            "        except BlockingIOError:\n"
            "            os.close(lock)\n"
            "            return None"
        ),
        test=(
            "tests/unit/test_runner_handover.py::test_nobody_buries_what_is_watched_or_has_ended"
        ),
    ),
    EdgeDefect(
        name="an_attempt_that_ended_is_buried",
        guard="Who has an exit is not told lost",
        file="pool/runner/spool.py",
        old=(
            "        if self.recorded(attempt_id) is not None:\n"
            "            os.close(lock)\n"
            "            return None\n"
            "        return lock"
        ),
        new="        return lock",
        test=(
            "tests/unit/test_runner_handover.py::test_nobody_buries_what_is_watched_or_has_ended"
        ),
    ),
    EdgeDefect(
        name="what_a_watch_left_outlives_it",
        guard="What a command left that has ended is ended with it",
        file="pool/runner/launch.py",
        old="    if machine.start_ticks(pid) in (0, ticks):",
        new="    if machine.start_ticks(pid) == ticks:",
        test=(
            "tests/unit/test_interruption_watch.py"
            "::test_what_a_command_left_that_was_waited_for_is_ended_too"
        ),
    ),
)
