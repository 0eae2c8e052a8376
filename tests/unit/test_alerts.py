"""The alerts: Prometheus' own tool tries each, and each says what to do and where that is told."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.conftest import RequireTool
from tests.exposition import text_of
from tests.rigs.engine import Rig
from tests.samples import make_type
from tools.grafana.writing import FOLDER

ROOT = FOLDER.parent
RULES: list[dict[str, Any]] = yaml.safe_load((FOLDER / "alerts.yml").read_text())["groups"][0][
    "rules"
]
TESTS: list[dict[str, Any]] = yaml.safe_load((FOLDER / "alerts_test.yml").read_text())["tests"]
NAMES = [rule["alert"] for rule in RULES]
WRONG = {
    "LongshoreStoreNotWritable": ("store_writable == 0", "store_writable == 2"),
    "LongshoreLeak": ("(longshore_leaked_instances) > 0", "(longshore_leaked_instances) > 5"),
    "LongshoreBootsFailing": ('outcome="success"}[30m]))', 'outcome="success"}[30m])) + 99'),
    "LongshoreQueueOld": ("longest_wait_seconds > 3600", "longest_wait_seconds > 60"),
    "LongshoreAtQuota": ("for: 30m", "for: 1m"),
    "LongshoreSpendNearLimit": ("hourly_spend_limit_usd > 0.9", "hourly_spend_limit_usd > 1"),
    "LongshoreBudgetNearLimit": (" + longshore_budget_committed_usd)", ")"),
    "LongshorePricesOld": ("(longshore_price_age_seconds) > 3600", "(no_such_metric) > 3600"),
    "LongshoreCertificateEnds": ("time() < 14 * 86400", "time() < 1 * 86400"),
}
"""By alert, what is taken out of its rule, and what stands there then."""


def promtool(
    program: str, *arguments: str, folder: Path = FOLDER
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [program, *arguments], cwd=folder, capture_output=True, text=True, check=False, timeout=60
    )


@pytest.mark.real
def test_each_alert_is_quiet_before_its_time_and_then_fires(require_tool: RequireTool) -> None:
    program = require_tool("promtool", "prometheus")
    checked = promtool(program, "check", "rules", "alerts.yml")
    assert checked.returncode == 0, checked.stdout + checked.stderr
    tried = promtool(program, "test", "rules", "alerts_test.yml")
    assert tried.returncode == 0, tried.stdout + tried.stderr


@pytest.mark.real
def test_rules_that_are_wrong_are_found(tmp_path: Path, require_tool: RequireTool) -> None:
    text = (FOLDER / "alerts.yml").read_text()
    for old, new in WRONG.values():
        assert text.count(old) == 1, old
        text = text.replace(old, new)
    (tmp_path / "alerts.yml").write_text(text)
    shutil.copy(FOLDER / "alerts_test.yml", tmp_path)
    program = require_tool("promtool", "prometheus")
    tried = promtool(program, "test", "rules", "alerts_test.yml", folder=tmp_path)
    assert set(re.findall(r"alertname: (\w+)", tried.stderr + tried.stdout)) == {*WRONG}


def test_each_is_tried_and_has_what_to_do_about_it() -> None:
    assert len(set(NAMES)) == len(NAMES)
    assert [each["name"] for each in TESTS] == NAMES
    page = (ROOT / "docs" / "operations.md").read_text()
    for rule in RULES:
        assert rule["labels"]["severity"] in ("page", "ticket")
        assert rule["annotations"]["runbook"] == f"docs/operations.md#{rule['alert'].lower()}"
        told = page.partition(f"\n#### {rule['alert']}\n")[2].partition("\n#")[0]
        assert len(told.split()) > 10, rule["alert"]
    assert re.findall(r"^#### (Longshore\w+)$", page, re.MULTILINE) == NAMES


def test_each_asks_for_metrics_that_there_are() -> None:
    exposed = set(re.findall(r"^# TYPE (\w+)", text_of(Rig(make_type(1))), re.MULTILINE))
    for rule in RULES:
        asked = re.findall(r"\b(longshore_\w+)", rule["expr"])
        assert asked
        assert {name.removesuffix("_bucket") for name in asked} <= exposed, rule["alert"]
