"""Planted defects of what is made of machines that are smaller than their type says."""

from __future__ import annotations

from tests.sim.planting import Mutant

_SMALLER = "instances that have less than their type says"

SIZE_MUTANTS: tuple[Mutant, ...] = (
    Mutant(
        name="what a machine has is not heard",
        guard="no more is placed on a machine than it says that it has",
        fault=_SMALLER,
        where="longshore.pool.probing:on_succeeded",
        old="sizes.take_in(core, worker, event.report.machine, now)",
        new="pass",
    ),
    Mutant(
        name="cpus that are missing are placed on",
        guard="a machine with fewer cpus than its type is given less",
        fault=_SMALLER,
        where="longshore.pool.charging:found_as",
        old="cpu_millis=min(whole.cpu_millis, cpus_kept)",
        new="cpu_millis=reserve.cpu_millis",
    ),
    Mutant(
        name="memory that is missing is placed on",
        guard="a machine with less memory than its type is given less",
        fault=_SMALLER,
        where="longshore.pool.charging:found_as",
        old="memory_bytes=min(whole.memory_bytes, memory_kept)",
        new="memory_bytes=reserve.memory_bytes",
    ),
    Mutant(
        name="a small machine teaches nothing",
        guard="what no machine of a type has is not bought again and again",
        fault=_SMALLER,
        where="longshore.pool.core:PoolCore.as_found",
        old="found_as(type_, self.machines.get(type_.name))",
        new="type_",
    ),
    Mutant(
        name="the smallest speaks for its type",
        guard="the largest machine that is there says what a type has",
        fault=_SMALLER,
        where="longshore.pool.sizes:_largest",
        old="cpus=max(",
        new="cpus=min(",
    ),
    Mutant(
        name="a type is small for ever",
        guard="once none of its machines is there a type is tried again after an hour",
        fault=_SMALLER,
        where="longshore.pool.sizes:forget",
        old="_expect(core, type_name, None)",
        new="pass",
    ),
)
