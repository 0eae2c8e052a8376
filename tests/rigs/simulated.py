"""What tests of the simulated cloud's rules share: a cloud without machines, and its story."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import msgspec

from longshore.drivers.interface import TOKEN_TAG, InstanceType
from longshore.drivers.simulated.model import CloudModel, Creation, Happening, Machine
from longshore.drivers.simulated.parameters import SimulatedParameters
from tests.driver_bench import TYPE

OTHER = replace(TYPE, name="other", provider_type="t2")
SPOT = replace(TYPE, name="spot", preemptible=True)
OURS = {"cluster": "ours", TOKEN_TAG: "x"}


def cloud(
    *, seed: int = 1, faults: Mapping[str, object] | None = None, **others: Any
) -> CloudModel:
    """A cloud whose instances boot after 10 s unless told otherwise, and with these faults."""
    values = {"boot_time_s": 10, **others, "faults": faults or {}}
    return CloudModel(
        msgspec.convert(values, SimulatedParameters),
        name="test",
        dice=random.Random(f"{seed}:calls"),
        dice_of=lambda number: random.Random(f"{seed}:{number}"),
    )


def attempt(
    made: CloudModel, token: str, *, type_: InstanceType = TYPE, now: float = 0.0
) -> Creation:
    return made.create(type_, tags=OURS, token=token, now=now)


def create(
    made: CloudModel, token: str, *, type_: InstanceType = TYPE, now: float = 0.0
) -> Machine:
    return attempt(made, token, type_=type_, now=now).answer()


def story(made: CloudModel, *, until: float = 10_000.0) -> list[tuple[float, Happening, str]]:
    """Let time pass as far as it goes, and return what happened when, and to which number."""
    told: list[tuple[float, Happening, str]] = []
    while (due := made.next_due()) is not None and due <= until:
        told += [(due, what, machine.id[-2:]) for what, machine in made.run_due(due)]
    return told


def listed(made: CloudModel, now: float, tags: Mapping[str, str] | None = None) -> list[str]:
    return [machine.id[-2:] for machine, _ in made.listing(tags or {}, now)]
