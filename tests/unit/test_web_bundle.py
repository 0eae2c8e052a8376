"""The dashboard's files: what is made of the sources, and what is told when they cannot be made."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tools import web_bundle

ROOT = Path(__file__).resolve().parent.parent.parent


def hook() -> tuple[Any, list[str]]:
    """Return the build hook, and the list in which it tells its warnings."""
    made: Any = web_bundle.WebBundleHook.__new__(web_bundle.WebBundleHook)
    told: list[str] = []

    class App:
        display_warning = told.append

    made._BuildHookInterface__app = App()
    return made, told


@pytest.fixture
def unbuildable(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail() -> None:
        raise web_bundle.BundleError("no registry in reach")

    monkeypatch.setattr(web_bundle, "is_current", lambda: False)
    monkeypatch.setattr(web_bundle, "make_bundle", fail)


@pytest.mark.usefixtures("unbuildable")
def test_a_release_without_the_dashboard_is_refused() -> None:
    made, _ = hook()
    with pytest.raises(web_bundle.BundleError, match="no registry"):
        made.initialize("standard", {"artifacts": []})


@pytest.mark.usefixtures("unbuildable")
def test_an_installation_for_development_goes_on_without_it() -> None:
    made, told = hook()
    data: dict[str, Any] = {"artifacts": []}
    made.initialize("editable", data)
    assert data == {"artifacts": []}
    assert "no registry in reach" in told[0]


def test_what_is_made_of_the_same_sources_is_not_made_again(tmp_path: Path) -> None:
    assert not web_bundle.is_current(tmp_path)
    (tmp_path / web_bundle.STAMP).write_text(web_bundle.fingerprint())
    assert web_bundle.is_current(tmp_path)
    web = tmp_path / "web"
    (web / "src").mkdir(parents=True)
    for name in ("package.json", "package-lock.json", "build.mjs", "tsconfig.json", "src/a.ts"):
        (web / name).write_text(name)
    before = web_bundle.fingerprint(web)
    (web / "src" / "a.ts").write_text("changed")
    assert web_bundle.fingerprint(web) != before


def test_the_types_of_answers_are_those_of_the_document() -> None:
    ended = subprocess.run(
        [sys.executable, "tools/web_types.py", "--check"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
