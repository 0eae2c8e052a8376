"""`tools/sentences.py` finds what the product says, and nothing that only its authors read."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools import sentences

MODULE = '''
"""This is documentation and not said."""
QUERY = "SELECT id FROM containers WHERE state = 1"
NAME = "container_id"

def f(count, log, wait, option):
    """Nor is this."""
    log.warning("the disk is nearly full", free=count)
    option(help="Show at most this many.")
    reason = WaitReason(code="held", message=f"held by {count} others")
    told = f"{count} of them wait"
    raise ValueError(f"there is no room for {count + 1} more")
'''


@pytest.fixture
def found(tmp_path: Path) -> list[tuple[str, str]]:
    path = tmp_path / "module.py"
    path.write_text(MODULE, "utf-8")
    return [(each.kind, each.text) for each in sentences.sentences_of(path, tmp_path)]


def test_each_sentence_is_found_once_with_its_kind(found: list[tuple[str, str]]) -> None:
    assert found == [
        ("log", "the disk is nearly full"),
        ("help", "Show at most this many."),
        ("waits", "held by {count} others"),
        ("other", "{count} of them wait"),
        ("errors", "there is no room for {count + 1} more"),
    ]


def test_the_product_says_what_it_is_known_to_say(capsys: pytest.CaptureFixture[str]) -> None:
    assert sentences.main(["--of", "waits", "--words", "max_containers"]) == 0
    said = capsys.readouterr().out
    assert "max_containers" in said
    assert said.rstrip().endswith("sentences")
    assert len(sentences.all_sentences()) > 1500
