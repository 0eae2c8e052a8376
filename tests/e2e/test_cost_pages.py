"""Must show: what the pages of cost tell a payer to type works as it stands there."""

from __future__ import annotations

import re
import shlex
import shutil
import time
from pathlib import Path

import pytest

from longshore.dispatcher.cli.commands.main import main
from tests.dispatcher_process import DispatcherProcess, wait_for

DOCS = Path(__file__).parent.parent.parent / "docs"
CONFIG = {
    "driver": {"name": "simulated", "parameters": {"boot_time_s": 0, "zones": ["z1"]}},
    "instance_types": {
        "here": {"provider_type": "h", "cpus": 4, "memory": "4GiB", "price_per_hour": 5}
    },
    "engine": {"name": "process"},
    "pool": {"idle_timeout_s": 1, "sync_interval_s": 0.5, "term_timeout_s": 3},
    "cost": {"labels": ["team"]},
}


def commands(page: str) -> list[list[str]]:
    """Return the words of each `longshore cost` of a page, behind `longshore`, for this month."""
    blocks = re.findall(r"```\w*\n(.*?)```", (DOCS / page).read_text(), re.DOTALL)
    told = [line for block in blocks for line in block.splitlines()]
    words = [shlex.split(line, comments=True)[1:] for line in told if "longshore cost" in line]
    now = time.gmtime()
    following = (now.tm_year, now.tm_mon + 1) if now.tm_mon < 12 else (now.tm_year + 1, 1)
    months = {"2026-10": f"{now.tm_year}-{now.tm_mon:02}", "2026-11": "{}-{:02}".format(*following)}
    return [[months.get(word, word) for word in each] for each in words]


def test_every_command_of_the_pages_of_cost_works(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with DispatcherProcess(tmp_path / "server", CONFIG) as server:
        monkeypatch.setenv("LONGSHORE_URL", server.url)
        monkeypatch.chdir(tmp_path)
        server.wait_final(server.submit("true", name="align", labels={"team": "cells"}))
        wait_for(lambda: not server.instances(), "the instance is gone")
        shown = {}
        for words in (*commands("cost.md"), *commands("cost-export.md")):
            if "reconcile" in words:
                # The bill says what the ledger does, in one file and in several.
                (tmp_path / "bill").mkdir(exist_ok=True)
                for name in ("bill.csv", "bill/1.csv"):
                    shutil.copy(tmp_path / "focus.csv", tmp_path / name)
            assert main(words) == 0, words
            shown[" ".join(words)] = capsys.readouterr().out
        assert len(shown) >= 10
        assert "align" in shown["cost --by job --limit 20"]
        assert "cells" in (tmp_path / "lines.csv").read_text()
        assert "0 corrections are booked" in shown["cost reconcile bill.csv --final --apply"]
