"""The planted defects: one for each guard of the pool, the engine and what carries them out.

`docs/reliability.md` shows them as a table, which is made from here; `tests/sim/test_mutants.py`
holds that each is caught, by the test that it names or within 200 seeds.
"""

from __future__ import annotations

from tests.sim.mutants_absence import ABSENCE_MUTANTS
from tests.sim.mutants_attempts import ATTEMPT_MUTANTS
from tests.sim.mutants_avoiding import AVOIDING_MUTANTS
from tests.sim.mutants_conditions import CONDITION_MUTANTS
from tests.sim.mutants_elastic import ELASTIC_MUTANTS
from tests.sim.mutants_holds import HOLDS_MUTANTS
from tests.sim.mutants_instances import INSTANCES_MUTANTS
from tests.sim.mutants_interruptions import INTERRUPTION_MUTANTS
from tests.sim.mutants_jobs import JOB_MUTANTS
from tests.sim.mutants_launches import LAUNCHES_MUTANTS
from tests.sim.mutants_ledger import LEDGER_MUTANTS
from tests.sim.mutants_per_instance import PER_INSTANCE_MUTANTS
from tests.sim.mutants_rates import RATES_MUTANTS
from tests.sim.mutants_scheduling import SCHEDULING_MUTANTS
from tests.sim.mutants_sizes import SIZE_MUTANTS
from tests.sim.mutants_standstill import STANDSTILL_MUTANTS
from tests.sim.mutants_steering import STEERING_MUTANTS
from tests.sim.mutants_times import TIME_MUTANTS
from tests.sim.mutants_trials import TRIAL_MUTANTS
from tests.sim.planting import Mutant

JOURNAL = (
    Mutant(
        name="create before its journal",
        guard="a launch is journalled before its create call",
        fault="a store that lags, a crash between two commands",
        where="longshore.dispatcher.engine.outbox:Outbox.put",
        old="then = list(command.then)",
        new="ready += command.then; then = []",
    ),
    Mutant(
        name="commands overtake a commit",
        guard="nothing overtakes the commit that it follows",
        fault="a store that lags",
        where="longshore.dispatcher.engine.outbox:Outbox.put",
        old="elif self._batches:",
        new="elif False:",
    ),
)
MUTANTS: tuple[Mutant, ...] = (
    *JOURNAL,
    *ABSENCE_MUTANTS,
    *LAUNCHES_MUTANTS,
    *LEDGER_MUTANTS,
    *INSTANCES_MUTANTS,
    *CONDITION_MUTANTS,
    *SIZE_MUTANTS,
    *STEERING_MUTANTS,
    *INTERRUPTION_MUTANTS,
    *HOLDS_MUTANTS,
    *RATES_MUTANTS,
    *ATTEMPT_MUTANTS,
    *AVOIDING_MUTANTS,
    *SCHEDULING_MUTANTS,
    *JOB_MUTANTS,
    *PER_INSTANCE_MUTANTS,
    *TIME_MUTANTS,
    *STANDSTILL_MUTANTS,
    *ELASTIC_MUTANTS,
    *TRIAL_MUTANTS,
)
