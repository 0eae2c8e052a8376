"""Planted defects of the logs on the server's disk; what they are is told in `defect`."""

from __future__ import annotations

from typing import Final

from tests.edges.defect import EdgeDefect

LOGS: Final[tuple[EdgeDefect, ...]] = (
    EdgeDefect(
        name="directories_of_logs_are_not_synced",
        guard="The name of a log is as safe as its bytes",
        file="dispatcher/logs/store.py",
        old=("                    log.sync()\n                    directories.add(path.parent)"),
        new="                    log.sync()",
        test=(
            "tests/unit/test_logs.py"
            "::test_a_log_is_safe_with_the_names_of_all_directories_on_the_way"
        ),
    ),
    EdgeDefect(
        name="new_directories_are_not_synced_in_their_parents",
        guard="The names of new directories are as safe as the log",
        file="dispatcher/logs/store.py",
        old="        for directory in sorted(directories.union(made)):",
        new="        for directory in sorted(directories):",
        test=(
            "tests/unit/test_logs.py"
            "::test_a_log_is_safe_with_the_names_of_all_directories_on_the_way"
        ),
    ),
    EdgeDefect(
        name="logs_are_readable_by_all",
        guard="What containers write is for the server's user alone",
        file="dispatcher/logs/files.py",
        old="            descriptor = os.open(self.path, flags, 0o600)",
        new="            descriptor = os.open(self.path, flags, 0o644)",
        test=(
            "tests/unit/test_logs.py"
            "::test_a_sealed_log_is_for_its_owner_alone_whatever_the_umask[3]"
        ),
    ),
    EdgeDefect(
        name="notes_are_readable_by_all",
        guard="Notes on a log are for the server's user alone",
        file="dispatcher/logs/files.py",
        old="        descriptor = os.open(self.notes_path, flags, 0o600)",
        new="        descriptor = os.open(self.notes_path, flags, 0o644)",
        test="tests/unit/test_logs.py::test_files_and_directories_are_private",
    ),
    EdgeDefect(
        name="a_sealed_log_is_readable_by_all",
        guard="A sealed log is for the server's user alone",
        file="dispatcher/logs/sealed.py",
        old="    descriptor = os.open(new, flags, 0o600)",
        new="    descriptor = os.open(new, flags, 0o644)",
        test=(
            "tests/unit/test_logs.py"
            "::test_a_sealed_log_is_for_its_owner_alone_whatever_the_umask[3]"
        ),
    ),
    EdgeDefect(
        name="a_torn_sealed_file_is_left",
        guard="Where a sealed file cannot be made nothing of it stays",
        file="dispatcher/logs/sealed.py",
        old=("        new.unlink(missing_ok=True)\n        raise"),
        new="        raise",
        test="tests/unit/test_logs_sealed.py::test_on_a_full_disk_it_is_sealed_where_it_is",
    ),
    EdgeDefect(
        name="a_damaged_sealed_file_is_an_empty_log",
        guard="A damaged file is an error and not an empty log",
        file="dispatcher/logs/sealed.py",
        old='        raise OSError(errno.EIO, f"is damaged ({error})", str(path)) from error',
        new=(
            "        return SealedStreams(\n"
            "            stdout=SealedStream(kept=0, end=0), stderr=SealedStream(kept=0, end=0)\n"
            "        ), 0"
        ),
        test=(
            "tests/unit/test_logs_sealed.py"
            "::test_one_that_is_damaged_is_an_error_and_not_an_empty_log"
        ),
    ),
    EdgeDefect(
        name="a_log_is_synced_without_its_text",
        guard="The text of a log is on the disk when it is told so",
        file="dispatcher/logs/files.py",
        old=("        os.fsync(self.descriptor)\n        if self.end"),
        new="        if self.end",
        test=(
            "tests/unit/test_logs.py"
            "::test_a_log_is_safe_with_the_names_of_all_directories_on_the_way"
        ),
    ),
    EdgeDefect(
        name="a_gap_is_marked_before_it_is_noted",
        guard="A note is on the disk before the sentence that it explains",
        file="dispatcher/logs/files.py",
        old=("        self.note(Note(gap=(self.end, offset)))\n        self.sync_notes()"),
        new="        self.note(Note(gap=(self.end, offset)))",
        test="tests/unit/test_logs.py::test_a_gap_is_safe_before_its_sentence_is_written",
    ),
    EdgeDefect(
        name="the_name_of_new_notes_is_not_synced",
        guard="That there are notes is as safe as what they say",
        file="dispatcher/logs/files.py",
        old=("        sync_path(self.notes_path)\n        sync_path(self.path.parent)"),
        new="        sync_path(self.notes_path)",
        test="tests/unit/test_logs.py::test_a_gap_is_safe_before_its_sentence_is_written",
    ),
    EdgeDefect(
        name="a_torn_note_swallows_the_next",
        guard="A note begins a line, whatever a crash has left before it",
        file="dispatcher/logs/files.py",
        old='        line = b"\\n" + msgspec.json.encode(note) + b"\\n"',
        new='        line = msgspec.json.encode(note) + b"\\n"',
        test="tests/unit/test_logs.py::test_a_torn_note_is_passed_over",
    ),
    EdgeDefect(
        name="a_torn_note_makes_a_log_unreadable",
        guard="A note that a crash tore is passed over",
        file="dispatcher/logs/files.py",
        old=(
            "            except msgspec.DecodeError:\n"
            "                # Torn by a crash before it was synced, so that nothing was "
            "promised of it.\n"
            "                continue"
        ),
        new=("            except msgspec.ValidationError:\n                continue"),
        test="tests/unit/test_logs.py::test_a_torn_note_is_passed_over",
    ),
    EdgeDefect(
        name="a_torn_sentence_is_kept_as_text",
        guard="What a crash left of a sentence is cut off",
        file="dispatcher/logs/files.py",
        old=("            os.ftruncate(descriptor, at)\n            self.kept = at"),
        new="            self.kept = at + len(found)",
        test="tests/unit/test_logs.py::test_a_gap_whose_sentence_was_torn_is_asked_for_again",
    ),
    EdgeDefect(
        name="a_cut_is_believed_beyond_the_end",
        guard="A file that lost its end is asked for again",
        file="dispatcher/logs/files.py",
        old="        if cuts and cuts[-1] <= self.kept:",
        new="        if cuts:",
        test="tests/unit/test_logs.py::test_a_file_that_lost_its_end_is_asked_for_again",
    ),
    EdgeDefect(
        name="a_write_that_stopped_counts_in_full",
        guard="After a full disk a log goes on where it stopped",
        file="dispatcher/logs/files.py",
        old=(
            "            while written < len(data):\n"
            "                written += os.pwrite(self.descriptor, data[written:], "
            "self.kept + written)\n"
            "        finally:\n"
            "            self.kept += written"
        ),
        new=(
            "            while written < len(data):\n"
            "                written += os.pwrite(self.descriptor, data[written:], "
            "self.kept + written)\n"
            "        finally:\n"
            "            written = len(data)\n"
            "            self.kept += written"
        ),
        test=("tests/unit/test_logs.py::test_a_full_disk_is_an_error_and_goes_on_where_it_stopped"),
    ),
    EdgeDefect(
        name="a_synced_log_is_never_synced_again",
        guard="What comes after a sync is synced by the next",
        file="dispatcher/logs/files.py",
        old=("        written = 0\n        self.unsynced = True\n        try:"),
        new=("        written = 0\n        try:"),
        test=(
            "tests/unit/test_logs.py"
            "::test_a_log_is_safe_with_the_names_of_all_directories_on_the_way"
        ),
    ),
    EdgeDefect(
        name="offsets_may_be_anything",
        guard="A log has no bytes at an offset that cannot be",
        file="dispatcher/logs/store.py",
        old=(
            "        if not 0 <= offset <= OFFSET_MAX - len(data):\n"
            '            raise ValueError(f"a log cannot have bytes at offset {offset}")'
        ),
        new="",
        test="tests/unit/test_logs.py::test_offsets_that_cannot_be_are_refused[-1]",
    ),
    EdgeDefect(
        name="ids_may_be_paths",
        guard="An id is never a path out of the directory of logs",
        file="dispatcher/logs/store.py",
        old="            if not _ID.fullmatch(each):",
        new="            if not each:",
        test="tests/unit/test_logs.py::test_ids_are_no_paths[.]",
    ),
    EdgeDefect(
        name="streams_may_be_anything",
        guard="There are two streams, and no other file",
        file="dispatcher/logs/store.py",
        old=(
            "        if stream not in STREAMS:\n"
            '            raise ValueError(f"there is no stream {stream!r}: take stdout '
            'or stderr")'
        ),
        new="",
        test="tests/unit/test_logs.py::test_ids_are_no_paths[]",
    ),
    EdgeDefect(
        name="directories_of_logs_are_readable_by_all",
        guard="Directories of logs are for the server's user alone",
        file="dispatcher/logs/store.py",
        old="                each.mkdir(mode=0o700)",
        new="                each.mkdir(mode=0o755)",
        test="tests/unit/test_logs.py::test_files_and_directories_are_private",
    ),
    EdgeDefect(
        name="a_sealed_stream_is_added_to",
        guard="Nothing is added to a log that was told to be complete",
        file="dispatcher/logs/store.py",
        old=(
            "        if log.sealed:\n"
            '            raise ValueError(f"{log.path.name} is complete: nothing can be '
            'added to it")'
        ),
        new="",
        test="tests/unit/test_logs.py::test_a_sealed_stream_is_never_added_to[0]",
    ),
    EdgeDefect(
        name="logs_fill_the_disk",
        guard="Logs leave others the last of the disk",
        file="dispatcher/logs/store.py",
        old=(
            "        if log.truncated_at is None and (shortage := self._shortage()):\n"
            "            raise _NoRoomError(errno.ENOSPC, shortage)"
        ),
        new="",
        test="tests/unit/test_logs.py::test_the_last_of_a_disk_is_left_to_others",
    ),
    EdgeDefect(
        name="a_shortage_is_told_for_ever",
        guard="A shortage that is over is told no more",
        file="dispatcher/logs/store.py",
        old=("        except _NoRoomError:\n            raise\n        except OSError as error:"),
        new="        except OSError as error:",
        test="tests/unit/test_logs.py::test_the_last_of_a_disk_is_left_to_others",
    ),
    EdgeDefect(
        name="the_problem_of_logs_is_never_over",
        guard="A problem ends with the next bytes that are kept",
        file="dispatcher/logs/store.py",
        old=('            raise\n        self._problem = ""'),
        new="            raise",
        test=("tests/unit/test_logs.py::test_a_full_disk_is_an_error_and_goes_on_where_it_stopped"),
    ),
    EdgeDefect(
        name="logs_take_the_last_inodes",
        guard="Logs leave others the last inodes of the disk",
        file="dispatcher/logs/store.py",
        old="        if free_inodes is not None and free_inodes < min_free_inodes:",
        new="        if free_inodes is not None and free_inodes < 0:",
        test=("tests/unit/test_logs_sealed.py::test_the_last_inodes_of_a_disk_are_left_to_others"),
    ),
    EdgeDefect(
        name="repeated_bytes_are_written_again",
        guard="What is known already is left as it is",
        file="dispatcher/logs/store.py",
        old="        fresh = data[log.end - offset :]",
        new="        fresh = data",
        test="tests/unit/test_logs.py::test_repeating_and_overlapping_change_nothing",
    ),
    EdgeDefect(
        name="a_log_has_no_limit",
        guard="No more than the limit is kept of a stream",
        file="dispatcher/logs/store.py",
        old="        wanted = fresh[: self._room(log)]",
        new="        wanted = fresh",
        test="tests/unit/test_logs.py::test_a_stream_is_cut_at_the_limit_and_says_so",
    ),
    EdgeDefect(
        name="what_is_dropped_is_not_noted",
        guard="What is missing at the end of a log is told",
        file="dispatcher/logs/store.py",
        old=(
            "        if len(fresh) > len(wanted):\n            log.truncate()\n            log.end"
        ),
        new=("        if len(fresh) > len(wanted):\n            log.end"),
        test="tests/unit/test_logs.py::test_a_stream_is_cut_at_the_limit_and_says_so",
    ),
    EdgeDefect(
        name="gaps_have_no_limit",
        guard="Gaps without end cut a stream",
        file="dispatcher/logs/store.py",
        old="        if len(mark) <= self._room(log) and log.notes < NOTES_LIMIT:",
        new="        if len(mark) <= self._room(log):",
        test="tests/unit/test_logs.py::test_gaps_without_end_cut_the_stream",
    ),
    EdgeDefect(
        name="the_sentence_of_a_gap_exceeds_the_limit",
        guard="The sentence for a gap counts against the limit",
        file="dispatcher/logs/store.py",
        old="        if len(mark) <= self._room(log) and log.notes < NOTES_LIMIT:",
        new="        if log.notes < NOTES_LIMIT:",
        test=(
            "tests/unit/test_logs.py::test_a_gap_whose_sentence_is_beyond_the_limit_cuts_the_stream"
        ),
    ),
    EdgeDefect(
        name="a_sentence_is_longer_than_its_gap",
        guard="The sentence for a gap is never longer than the gap",
        file="dispatcher/logs/files.py",
        old=(
            '    return f"\\n[longshore: {length} bytes of this log are missing '
            'here]\\n".encode()[:length]'
        ),
        new=(
            '    return f"\\n[longshore: {length} bytes of this log are missing here]\\n".encode()'
        ),
        test=(
            "tests/unit/test_logs.py::test_a_gap_smaller_than_its_mark_is_marked_as_far_as_it_goes"
        ),
    ),
    EdgeDefect(
        name="files_stay_open",
        guard="Few files of logs stay open",
        file="dispatcher/logs/store.py",
        old="        excess = max(0, len(self._streams) - self._max_open_files)",
        new="        excess = 0",
        test="tests/unit/test_logs.py::test_few_files_stay_open",
    ),
    EdgeDefect(
        name="long_logs_are_put_into_one_file",
        guard="A long log is not copied to be sealed",
        file="dispatcher/logs/store.py",
        old="                sum(log.kept for log in both) > SHORT_BYTES",
        new="                sum(log.kept for log in both) < 0",
        test="tests/unit/test_logs_sealed.py::test_a_long_log_stays_as_it_is[16385]",
    ),
    EdgeDefect(
        name="a_full_disk_fails_the_seal",
        guard="On a full disk a log is sealed where it is",
        file="dispatcher/logs/store.py",
        old=(
            "            except OSError:\n"
            "                # A full disk has room for a note: they stay as they are, "
            "and are sealed there.\n"
            "                return False"
        ),
        new=("            except FileNotFoundError:\n                return False"),
        test="tests/unit/test_logs_sealed.py::test_on_a_full_disk_it_is_sealed_where_it_is",
    ),
    EdgeDefect(
        name="another_attempts_directory_stops_the_seal",
        guard="A directory with files of another attempt stays",
        file="dispatcher/logs/store.py",
        old=(
            "                if error.errno not in (errno.ENOTEMPTY, errno.EEXIST, errno.ENOENT):"
        ),
        new="                if error.errno not in (errno.EEXIST, errno.ENOENT):",
        test="tests/unit/test_logs_sealed.py::test_other_attempts_keep_their_files",
    ),
    EdgeDefect(
        name="followers_hear_of_what_is_known",
        guard="Followers are woken by growth only",
        file="dispatcher/logs/store.py",
        old="        if end > before and self._on_change is not None:",
        new="        if self._on_change is not None:",
        test="tests/unit/test_logs.py::test_followers_hear_of_growth_only",
    ),
    EdgeDefect(
        name="files_of_logs_are_left_open_at_the_end",
        guard="Closing the store of logs closes its files",
        file="dispatcher/logs/store.py",
        old=(
            "        for log in streams:\n            with log.lock:\n                log.close()"
        ),
        new="        del streams",
        test="tests/unit/test_logs.py::test_few_files_stay_open",
    ),
    EdgeDefect(
        name="a_read_gives_more_than_was_asked",
        guard="A read gives no more than its limit",
        file="dispatcher/logs/store.py",
        old=(
            "                return os.pread(descriptor, min(limit, kept - offset), base "
            "+ offset)\n"
            "        if"
        ),
        new=(
            "                return os.pread(descriptor, kept - offset, base + offset)\n        if"
        ),
        test="tests/unit/test_logs.py::test_streams_are_kept_apart_and_read_from_any_offset",
    ),
)
