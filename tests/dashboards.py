"""The dashboards as files: their panels, and queries with their variables filled in."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from tools.grafana.writing import DASHBOARDS, FOLDER

JOB: Final = "longshore"


@dataclass(frozen=True, slots=True, kw_only=True)
class PanelQuery:
    """One query of a panel."""

    dashboard: str
    panel: str
    unit: str
    legend: str
    expression: str
    #: Whether it is asked for one moment.
    is_instant: bool

    def filled_in(self, range_s: float, *, rate_s: float) -> str:
        """Return it as Grafana would ask it of a range; `rate_s` is what rates are taken over."""
        values = {
            "$__rate_interval": f"{round(rate_s * 1000)}ms",
            "$__range_s": f"{range_s:.3f}",
            "$__range": f"{round(range_s * 1000)}ms",
            "$job": JOB,
        }
        text = self.expression
        for name, value in values.items():
            text = text.replace(name, value)
        return text


def documents() -> Mapping[str, Any]:
    """Return the JSON of each dashboard, by the name of its file."""
    return {name: json.loads(FOLDER.joinpath(f"{name}.json").read_text()) for name in DASHBOARDS}


def queries() -> Iterator[PanelQuery]:
    """Yield all queries of all dashboards."""
    for name, document in documents().items():
        for panel in document["panels"]:
            for target in panel["targets"]:
                yield PanelQuery(
                    dashboard=name,
                    panel=panel["title"],
                    unit=panel["fieldConfig"]["defaults"]["unit"],
                    legend=target["legendFormat"],
                    expression=target["expr"],
                    is_instant=target["instant"],
                )
