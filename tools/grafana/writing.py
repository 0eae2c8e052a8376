"""Writes the dashboards' JSON: `python -m tools.grafana.writing`.

A test holds that what is in `dashboards/` is what this writes.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final, assert_never

from grafana_foundation_sdk.builders import bargauge, common, prometheus, stat, timeseries
from grafana_foundation_sdk.builders import dashboard as builders
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models import common as words
from grafana_foundation_sdk.models import dashboard as models

from tools.grafana.cost import COST
from tools.grafana.operators import OPERATORS
from tools.grafana.panels import DashboardSpec, PanelSpec, Query, Shape
from tools.grafana.users import USERS

FOLDER: Final = Path(__file__).resolve().parents[2] / "dashboards"
DASHBOARDS: Final = {"cost": COST, "operators": OPERATORS, "users": USERS}
"""By the name of their file."""
PAGE_WIDTH: Final = 24
_HEIGHT: Final = {Shape.NUMBER: 4, Shape.LINES: 8, Shape.STACK: 8, Shape.BARS: 8}
_SOURCE: Final = models.DataSourceRef(type_val="prometheus", uid="${datasource}")
_Panel = timeseries.Panel | stat.Panel | bargauge.Panel


def json_of(spec: DashboardSpec) -> str:
    """Return the JSON of a dashboard, the same each time."""
    page = (
        builders.Dashboard(spec.title)
        .uid(spec.uid)
        .description(spec.description)
        .tags(["longshore"])
        .readonly()
        .timezone("browser")
        .time(spec.since, "now")
        .refresh("1m")
        .tooltip(models.DashboardCursorSync.CROSSHAIR)
        .with_variable(
            builders.DatasourceVariable("datasource").label("Prometheus").type("prometheus")
        )
        .with_variable(
            builders.QueryVariable("job")
            .label("Job")
            .datasource(_SOURCE)
            .query("label_values(longshore_store_writable, job)")
            .refresh(models.VariableRefresh.ON_TIME_RANGE_CHANGED)
        )
    )
    for number, (panel, place) in enumerate(_laid_out(spec), 1):
        page.with_panel(_panel(panel).id(number).grid_pos(place))
    return JSONEncoder(sort_keys=True, indent=2).encode(page.build()) + "\n"


def _laid_out(spec: DashboardSpec) -> list[tuple[PanelSpec, models.GridPos]]:
    """Return the panels with their places: rows from left to right, each as high as its highest."""
    found: list[tuple[PanelSpec, models.GridPos]] = []
    left = top = height = 0
    for panel in spec.panels:
        if left + panel.width > PAGE_WIDTH:
            left, top, height = 0, top + height, 0
        own = _HEIGHT[panel.shape]
        found.append((panel, models.GridPos(h=own, w=panel.width, x=left, y=top)))
        left, height = left + panel.width, max(height, own)
    return found


def _panel(spec: PanelSpec) -> _Panel:
    panel = _of_shape(spec.shape)
    panel.title(spec.title).description(spec.description).unit(spec.unit).datasource(_SOURCE)
    panel.no_value("no data")
    for number, query in enumerate(spec.queries):
        panel.with_target(_target(query, chr(ord("A") + number), is_of_now=spec.is_of_now))
    return panel


def _of_shape(shape: Shape) -> _Panel:
    match shape:
        case Shape.LINES:
            return timeseries.Panel().min(0)
        case Shape.STACK:
            stacking = common.StackingConfig().mode(words.StackingMode.NORMAL).group("A")
            return timeseries.Panel().min(0).stacking(stacking).fill_opacity(30)
        case Shape.NUMBER:
            return stat.Panel()
        case Shape.BARS:
            return bargauge.Panel().orientation(words.VizOrientation.HORIZONTAL).min(0)
        case unknown:
            assert_never(unknown)


def _target(query: Query, ref_id: str, *, is_of_now: bool) -> prometheus.Dataquery:
    target = (
        prometheus.Dataquery()
        .ref_id(ref_id)
        .datasource(_SOURCE)
        .expr(query.expression)
        .legend_format(query.legend)
    )
    return target.instant() if is_of_now else target.range()


def main() -> None:
    """Write each dashboard into its file."""
    FOLDER.mkdir(exist_ok=True)
    for name, spec in DASHBOARDS.items():
        FOLDER.joinpath(f"{name}.json").write_text(json_of(spec), encoding="utf-8")


if __name__ == "__main__":
    main()
