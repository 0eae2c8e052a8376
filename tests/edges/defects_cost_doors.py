"""Planted defects of exports, of the folder of files, and of booking bills; see `defect`."""

from __future__ import annotations

from typing import Final

from tests.edges.defect import EdgeDefect

_EXPORT: Final = "tests/unit/test_cost_export.py::"
_FOLDER: Final = "tests/unit/test_export_folder.py::"
_BILL: Final = "tests/unit/test_cost_reconciling.py::"

COST_DOORS: Final[tuple[EdgeDefect, ...]] = (
    EdgeDefect(
        name="anybody_has_the_bill_of_all",
        guard="FOCUS is for admins",
        file="dispatcher/service/cost_exports.py",
        old="        if export.format is not ExportFormat.CSV and caller.role is not Role.ADMIN:",
        new="        if False:",
        test=f"{_EXPORT}test_a_caller_is_given_what_it_sees",
    ),
    EdgeDefect(
        name="an_export_has_what_others_spent",
        guard="A line is in a file only of those who see it",
        file="dispatcher/service/cost_exports.py",
        old="                if seen.everything or seen.sees(group_of(line, ())):",
        new="                if line:",
        test=f"{_EXPORT}test_a_caller_is_given_what_it_sees",
    ),
    EdgeDefect(
        name="a_refused_export_takes_the_file_that_is_there",
        guard="A file is replaced once all of the new one came",
        file="dispatcher/cli/commands/cost_files.py",
        old='    staged = path.with_name(f"{path.name}.part")\n',
        new='    staged = path.with_name(f"{path.name}.part")\n    path.unlink(missing_ok=True)\n',
        test=f"{_EXPORT}test_a_file_that_is_cut_off_is_told_and_the_old_one_stays",
    ),
    EdgeDefect(
        name="half_a_month_looks_like_all_of_it",
        guard="An export that is cut off has no proper end",
        file="dispatcher/api/routes/cost_files.py",
        old="            return await self._send(request, first, rows)",
        new="            return await self._send(request, first, iter(()))",
        test=f"{_EXPORT}test_a_file_that_is_cut_off_is_told_and_the_old_one_stays",
    ),
    EdgeDefect(
        name="exports_are_without_number",
        guard="A few exports are made at a time",
        file="dispatcher/api/routes/cost_files.py",
        old="        with self._gate.admit(holder_of(request)):\n            try:",
        new="        if self._gate:\n            try:",
        test=f"{_EXPORT}test_exports_are_few_at_a_time",
    ),
    EdgeDefect(
        name="a_file_of_cost_has_its_name_too_early",
        guard="A file is on the disk before it has its name",
        file="dispatcher/service/export_folder.py",
        old="            file.flush()\n            os.fsync(file.fileno())\n        return Exp",
        new="            file.flush()\n        return Exp",
        test=f"{_FOLDER}test_a_file_is_synced_before_it_has_its_name_and_the_folder_after",
    ),
    EdgeDefect(
        name="the_manifest_tells_of_what_is_to_come",
        guard="A file is written beside the one before",
        file="dispatcher/service/export_folder.py",
        old="        with _begun_anew(_staged_at(terms.directory, name)) as file:",
        new="        with _begun_anew(terms.directory / name) as file:",
        test=f"{_FOLDER}test_a_crash_at_any_instant_leaves_whole_files_and_the_next_start_mends_the"
        "_rest[again]",
    ),
    EdgeDefect(
        name="the_manifest_tells_of_the_file_before",
        guard="The manifest never names a file with another content",
        file="dispatcher/service/export_folder.py",
        old="                    self._tell(known)\n                _take",
        new="                _take",
        test=f"{_FOLDER}test_a_crash_at_any_instant_leaves_whole_files_and_the_next_start_mends_the"
        "_rest[again]",
    ),
    EdgeDefect(
        name="files_of_cost_are_written_again_each_time",
        guard="A file with the same content stays",
        file="dispatcher/service/export_folder.py",
        old="            if path.exists() and _hash_of(path) == made.sha256:",
        new="            if False:",
        test=f"{_FOLDER}test_only_what_changed_is_written_again",
    ),
    EdgeDefect(
        name="a_booked_month_is_never_looked_at_again",
        guard="A month is made again when what is booked of it changes",
        file="dispatcher/service/export_folder.py",
        old="        if not booked or before.booked_sha256 != booked:",
        new="        if not booked or not before.booked_sha256:",
        test=f"{_FOLDER}test_a_month_that_is_booked_is_made_again_when_what_is_booked_of_it_changes",
    ),
    EdgeDefect(
        name="a_bill_is_booked_each_time",
        guard="What was booked before counts as the ledger's",
        file="dispatcher/service/cost_reconciling.py",
        old="                yield _as_line(each)",
        new="                continue",
        test=f"{_BILL}test_what_is_applied_is_in_reports_and_the_same_bill_again_books_nothing",
    ),
    EdgeDefect(
        name="what_a_bill_has_not_yet_is_taken_back",
        guard="A bill that is not final may lack what ran last",
        file="dispatcher/service/cost_reconciling.py",
        old="corrections(found, piece.coverage)",
        new="corrections(found, Coverage.WHOLE)",
        test=f"{_BILL}test_until_a_bill_is_final_what_ran_after_its_end_stays",
    ),
    EdgeDefect(
        name="each_piece_of_a_bill_is_compared_with_all",
        guard="A piece is compared with the instances that are in it",
        file="dispatcher/service/cost_reconciling.py",
        old="if piece_of(b.instance_id, piece.pieces) == piece.piece]",
        new="if b]",
        test=f"{_BILL}test_a_bill_in_pieces_says_what_it_does_in_one",
    ),
    EdgeDefect(
        name="an_instance_is_in_several_pieces",
        guard="A path and an id of one instance are in the same piece",
        file="dispatcher/cost/reconcile.py",
        old='resource_id.casefold().rpartition("/")[2].encode()',
        new="resource_id.encode()",
        test=f"{_BILL}test_an_instance_is_in_one_piece_however_it_is_written",
    ),
    EdgeDefect(
        name="a_row_without_time_says_nothing_took_any",
        guard="A sum tells time only where each row does",
        file="dispatcher/cli/bill_sums.py",
        old="            self.usage_s = None\n        else:",
        new="            pass\n        else:",
        test=f"{_BILL}test_rows_of_an_hour_are_sent_as_their_sum",
    ),
)
