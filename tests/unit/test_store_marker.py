"""The marker in the data directory: whole, safe and private, or an error."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from longshore.dispatcher.store.errors import StoreUnusable
from longshore.dispatcher.store.marker import Marker, MarkerFile
from tests.synced_files import record_syncs

MARKER = Marker(store="0123456789abcdef", created_at=1.0, commits=7, written_at=2.0)


def test_it_is_read_as_it_was_written_and_is_for_its_owner_alone(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        file = MarkerFile(tmp_path)
        assert file.read() is None
        file.make(MARKER)
        assert file.read() == MARKER
        later = replace(MARKER, commits=100_000)
        file.write(later)
        assert file.read() == later
        file.write(MARKER)
        assert file.read() == MARKER, "nothing is left of a longer one"
        file.close()
    finally:
        os.umask(before)
    assert [path.stat().st_mode & 0o777 for path in tmp_path.iterdir()] == [0o600]


def test_it_is_safe_before_it_has_its_name_and_so_is_the_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced, file = record_syncs(monkeypatch), MarkerFile(tmp_path)
    really = Path.replace

    def name(path: Path, target: Path) -> Path:
        assert (synced, target) == ([path], file.path)
        return really(path, target)

    monkeypatch.setattr(Path, "replace", name)
    file.make(MARKER)
    assert synced[1:] == [tmp_path]
    file.close()
    assert synced[2:] == [file.path]


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"store": "a", "commits": "many"}'])
def test_one_that_cannot_be_read_is_an_error_and_not_a_first_start(
    tmp_path: Path, text: str
) -> None:
    file = MarkerFile(tmp_path)
    file.path.write_text(text)
    with pytest.raises(StoreUnusable, match="then delete that file"):
        file.read()
