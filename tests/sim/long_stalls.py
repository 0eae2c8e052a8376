"""Runs in which the store is away for up to 25 minutes: longer than anybody may be silent.

The seeds' own stalls are short, so these are runs of their own. What is looked at is what the
checks look at everywhere (above all `signals.signalled`, and `upkeep` where it expects that who is
judged was asked).
"""

from __future__ import annotations

from dataclasses import replace

import msgspec

from tests.sim.options import SimOptions, options_of

SEEDS = (11, 19, 22, 28)
"""Seeds whose runs have much to end in their stalls, and time enough to end it all afterwards."""


def options_with_long_stalls(seed: int) -> SimOptions:
    """Return a seed's run with long stalls, and much that falls due in them.

    The dispatcher lives through it: a new process would know nothing of what waited.
    """
    options = options_of(seed)
    return replace(
        options,
        safety_s=2000.0,
        demand=replace(
            options.demand,
            containers=40,
            longest_list=4,
            longest_run_s=600.0,
            failing=0.0,
            limited=0.9,
            behaviors_every_s=60.0,
            cancels_every_s=40.0,
        ),
        hosts=replace(options.hosts, deaf=0.5, drops_every_s=60.0),
        dispatcher=replace(
            options.dispatcher,
            crashes_every_s=0.0,
            crashes_at_requests=0.0,
            refusals=0.0,
            stalls_every_s=300.0,
            longest_stall_s=1500.0,
        ),
        pool=msgspec.structs.replace(options.pool, term_timeout_s=50.0),
    )
