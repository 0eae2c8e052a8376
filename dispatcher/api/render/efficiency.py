"""From how well work asks to the JSON of the API.

Stands alone: each resource has a file of its own in each role.
"""

from __future__ import annotations

from longshore.dispatcher.api.render.containers import cpus_answer, given_answer
from longshore.dispatcher.api.render.values import usd
from longshore.dispatcher.api.schemas.efficiency import (
    EfficiencyAnswer,
    EfficiencyItem,
    SavingAnswer,
    SuggestionAnswer,
)
from longshore.dispatcher.explain.efficiency import Efficiency, Saving
from longshore.dispatcher.service.efficiency import EfficiencyReport


def efficiency_answer(report: EfficiencyReport) -> EfficiencyAnswer:
    """Return a report as it is answered."""
    items = tuple(_item(each) for each in report.items)
    return EfficiencyAnswer(items=items, complete=report.complete)


def _item(found: Efficiency) -> EfficiencyItem:
    key = found.key
    return EfficiencyItem(
        user=key.user,
        project=key.project,
        name=key.name,
        task=key.task or None,
        asked=given_answer(key.asked),
        runs=found.runs,
        runs_missing=found.runs_missing,
        peak_memory_p95_bytes=found.peak_memory_p95_bytes,
        cpus_p95=None if found.cpus_p95 is None else round(found.cpus_p95, 3),
        suggested=_suggested(found),
        saving=_saving(found.saving),
    )


def _suggested(found: Efficiency) -> SuggestionAnswer | None:
    cpu_millis, memory_bytes = found.suggested_cpu_millis, found.suggested_memory_bytes
    if cpu_millis is None and memory_bytes is None:
        return None
    cpus = None if cpu_millis is None else cpus_answer(cpu_millis)
    return SuggestionAnswer(cpus=cpus, memory=memory_bytes)


def _saving(saving: Saving | None) -> SavingAnswer | None:
    if saving is None:
        return None
    return SavingAnswer(usd=usd(saving.usd), now=saving.now, instead=saving.instead)
