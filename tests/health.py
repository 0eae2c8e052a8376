"""What the health page says of a rig's cloud."""

from __future__ import annotations

from longshore.dispatcher.domain.views import ProblemKind
from longshore.dispatcher.explain.health import cloud_problems
from tests.rigs.engine import Rig


def told(rig: Rig) -> list[str]:
    """Return the sentences of what is wrong at this moment."""
    return [each.message for each in cloud_problems(rig.view.pool, rig.now)]


def kinds(rig: Rig) -> dict[ProblemKind, float]:
    """Return the kinds of what is wrong at this moment, each with since when it is."""
    return {each.kind: each.since for each in cloud_problems(rig.view.pool, rig.now)}
