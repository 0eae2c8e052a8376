"""Each view of the dashboard has its pictures, light and dark, and its page shows them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from PIL import Image

from tools.screenshots import (
    FOLDER,
    MOST_BYTES,
    PICTURES,
    ROOT,
    SCHEMES,
    WIDTH_PX,
    file_of,
)

# A case of the router: what the path begins with, and whether with an id it is another view.
CASE = re.compile(r'case "([a-z-]*)":\n +return (id === undefined)?')
FILES = [file_of(each, scheme) for each in PICTURES for scheme in SCHEMES]


def views_of_router() -> set[tuple[str, bool]]:
    """Return the views: what each path begins with, and whether an id follows."""
    cases = CASE.findall((ROOT / "web" / "src" / "main.tsx").read_text())
    return {(name, False) for name, _ in cases} | {(name, True) for name, has_id in cases if has_id}


def test_each_view_of_the_router_has_its_pictures() -> None:
    pictured = [each.view.split("?")[0].partition("/") for each in PICTURES]
    assert {(name, bool(rest)) for name, _, rest in pictured} == views_of_router()


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_a_picture_is_there_and_small(file: Path) -> None:
    assert file.stat().st_size <= MOST_BYTES
    with Image.open(file) as picture:
        assert picture.width == WIDTH_PX


def test_there_is_no_picture_of_a_view_that_is_gone() -> None:
    assert sorted(FOLDER.iterdir()) == sorted(FILES)


def test_the_page_about_the_dashboard_shows_each_view() -> None:
    shown = re.findall(r"\(screenshots/([a-z-]+\.png)\)", (ROOT / "docs/dashboard.md").read_text())
    assert shown == [file_of(each, "light").name for each in PICTURES]
