"""The nearest of few names, and of many without comparing all."""

from __future__ import annotations

import pytest

from longshore.dispatcher.api.validate.job_tasks import NearNames

MANY = [f"mProject_ID{number:07}" for number in range(5000)] + ["mConcat", "mBackground"]


@pytest.mark.parametrize(
    ("names", "word", "hint"),
    [
        ([], "a", "there is none to choose from"),
        (["align", "merge"], "algin", 'did you mean "align"?'),
        (["align", "merge"], "xyz", 'known are "align", "merge"'),
        (MANY, "mProjct_ID0004711", 'did you mean "mProject_ID0004711"?'),
        (MANY, "Concat", 'did you mean "mConcat"?'),
        (MANY, "mbackground", 'did you mean "mBackground"?'),
    ],
)
def test_the_nearest_name_is_told(names: list[str], word: str, hint: str) -> None:
    assert NearNames(names).hint(word) == hint


def test_of_many_names_that_are_all_unlike_some_are_listed() -> None:
    hint = NearNames(MANY).hint("x")
    assert hint.startswith('known are "mBackground", "mConcat", "mProject_ID0000000"')
    assert hint.endswith("and 4982 more")


def test_after_twenty_questions_there_is_no_answer() -> None:
    near = NearNames(["align"])
    hints = [near.hint("algin") for _ in range(22)]
    assert hints == ['did you mean "align"?'] * 20 + [""] * 2
