"""The dashboards for Grafana: current, whole, and of queries that mean something."""

from __future__ import annotations

import re
import subprocess
from itertools import combinations
from pathlib import Path
from typing import Any

import promql_parser
import pytest
import yaml

from tests.conftest import RequireTool
from tests.dashboards import JOB, PanelQuery, documents, queries
from tests.exposition import text_of
from tests.rigs.engine import Rig
from tests.samples import make_type
from tools.grafana.panels import RATE, spent_in_range
from tools.grafana.writing import DASHBOARDS, FOLDER, PAGE_WIDTH, json_of

UNITS = {"bytes", "currencyUSD", "none", "percentunit", "s", "short"}
ALL = list(queries())


def panels() -> list[tuple[str, dict[str, Any]]]:
    return [(name, panel) for name, page in documents().items() for panel in page["panels"]]


def named(query: PanelQuery) -> str:
    return f"{query.dashboard}: {query.panel}: {query.legend}"


@pytest.mark.parametrize("name", DASHBOARDS)
def test_the_file_is_what_the_program_writes(name: str) -> None:
    written = FOLDER.joinpath(f"{name}.json").read_text(encoding="utf-8")
    assert written == json_of(DASHBOARDS[name]), "run: python -m tools.grafana.writing"


def test_there_is_no_other_file_of_a_dashboard() -> None:
    assert {path.stem for path in FOLDER.glob("*.json")} == {*DASHBOARDS}


def test_each_has_an_identity_of_its_own_and_the_datasource_is_chosen_there() -> None:
    pages = documents()
    assert len({page["uid"] for page in pages.values()}) == len(pages)
    for page in pages.values():
        first, second = page["templating"]["list"]
        assert (first["name"], first["type"], first["query"]) == (
            *("datasource", "datasource"),
            "prometheus",
        )
        assert (second["name"], second["type"]) == ("job", "query")
        sources = [each["datasource"] for each in (second, *page["panels"])]
        sources += [target["datasource"] for panel in page["panels"] for target in panel["targets"]]
        assert all(s == {"type": "prometheus", "uid": "${datasource}"} for s in sources)


def test_panels_have_ids_of_their_own_and_do_not_overlap() -> None:
    for page in documents().values():
        places = [panel["gridPos"] for panel in page["panels"]]
        assert len({panel["id"] for panel in page["panels"]}) == len(page["panels"])
        assert all(p["x"] >= 0 and p["x"] + p["w"] <= PAGE_WIDTH for p in places)
        for one, other in combinations(places, 2):
            beside = one["x"] + one["w"] <= other["x"] or other["x"] + other["w"] <= one["x"]
            below = one["y"] + one["h"] <= other["y"] or other["y"] + other["h"] <= one["y"]
            assert beside or below, (one, other)


def test_each_panel_says_what_it_shows_and_in_which_unit() -> None:
    for name, panel in panels():
        defaults = panel["fieldConfig"]["defaults"]
        assert defaults["unit"] in UNITS, (name, panel["title"])
        assert defaults["noValue"] == "no data", "which is no 0"
        assert panel["description"].endswith((".", ")")), panel["title"]
        assert len({target["refId"] for target in panel["targets"]}) == len(panel["targets"])
    titles = [(name, panel["title"]) for name, panel in panels()]
    assert len(set(titles)) == len(titles)


@pytest.mark.parametrize("query", ALL, ids=named)
def test_a_query_is_promql_and_names_its_series_by_labels_that_it_keeps(query: PanelQuery) -> None:
    filled_in = query.filled_in(3600, rate_s=60)
    assert "$" not in filled_in
    promql_parser.parse(filled_in)
    assert query.legend
    kept = set(re.findall(r"\w+", " ".join(re.findall(r"by \(([\w, ]+)\)", filled_in))))
    for label in re.findall(r"{{(\w+)}}", query.legend):
        assert label in kept or " by (" not in filled_in


def test_each_metric_that_is_asked_for_is_exposed() -> None:
    exposed = {
        line.split()[2] for line in text_of(Rig(make_type(1))).splitlines() if "# TYPE " in line
    }
    for query in ALL:
        for name in re.findall(r"\b((?:longshore|process)_\w+)", query.expression):
            assert name.removesuffix("_bucket") in exposed, named(query)


def test_money_is_never_what_a_counter_grew_by() -> None:
    money = [each for each in ALL if each.unit == "currencyUSD"]
    assert len(money) >= 10
    for query in money:
        assert not re.search(r"\b(increase|rate|irate|delta)\(", query.expression), named(query)


@pytest.mark.real
def test_money_of_a_range_counts_the_time_of_a_series_alone_and_bridges_a_restart(
    tmp_path: Path, require_tool: RequireTool
) -> None:
    """One project costs 6.1 USD an hour for 10 of 61 scrapes; one all the time, over a gap."""
    one_hour = PanelQuery(
        dashboard="",
        panel="",
        unit="",
        legend="",
        expression=spent_in_range(RATE, "project"),
        is_instant=True,
    ).filled_in(3600, rate_s=60)
    series = {
        f'{RATE}{{job="{JOB}",project="short",instance_type="t"}}': "_x20 6.1x9 _x30",
        f'longshore_cost_unpriced_instances{{job="{JOB}"}}': "0x60",
    }
    gap = {
        f'{RATE}{{job="{JOB}",project="long",instance_type="t"}}': "6x30 _x6 6x22",
        f'longshore_cost_unpriced_instances{{job="{JOB}"}}': "0x30 _x6 0x22",
    }
    cases = [
        {
            "interval": "1m",
            "input_series": [{"series": name, "values": values} for name, values in each.items()],
            "promql_expr_test": [
                {
                    "expr": one_hour,
                    "eval_time": "60m",
                    "exp_samples": [{"labels": f'{{project="{project}"}}', "value": usd}],
                }
            ],
        }
        for each, project, usd in ((series, "short", 1), (gap, "long", 6))
    ]
    (tmp_path / "t.yml").write_text(yaml.safe_dump({"evaluation_interval": "1m", "tests": cases}))
    program = require_tool("promtool", "prometheus")
    command = [program, "test", "rules", str(tmp_path / "t.yml")]
    tried = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert tried.returncode == 0, tried.stdout + tried.stderr
