"""Planted defects of restarts, of how many run at once, and of what is kept from pass to pass."""

from __future__ import annotations

from tests.sim.planting import Mutant

SHARED_CPU = "containers of no cpus"
KEPT = "instances that boot"
OVERLOAD = "a store and instances that are overloaded"
QUOTAS = "quotas that are used up"
RETRIES = "containers that are tried again"

TOUCHES = (
    Mutant(
        name="a new instance goes unseen",
        guard="the planner hears of each change of a worker",
        fault="every instance",
        where="longshore.pool.core:PoolCore.note_changed",
        old="self.touch(worker.id)",
        new="pass",
        also=Mutant(
            name="its launch tells nothing",
            guard="",
            fault="",
            where="longshore.pool.core:PoolCore.bind_launch",
            old="self.touch(worker.id)",
            new="pass",
        ),
    ),
    Mutant(
        name="room that is taken goes unseen",
        guard="the planner hears of room that is taken",
        fault="every start",
        where="longshore.pool.core:PoolCore.hold_resources",
        old="self.touch(worker.id)",
        new="pass",
    ),
    Mutant(
        name="room that comes free goes unseen",
        guard="the planner hears of room that comes free",
        fault="every exit",
        where="longshore.pool.core:PoolCore.free_resources",
        old="self.touch(worker.id)",
        new="pass",
        also=Mutant(
            name="the review tells nothing",
            guard="",
            fault="",
            where="longshore.pool.shutdown:review",
            old="core.touch(worker.id)",
            new="pass",
        ),
    ),
    Mutant(
        name="what is gone goes unseen",
        guard="the planner hears of what is gone",
        fault="instances that end",
        where="longshore.pool.core:PoolCore._remove",
        old="self.touch(worker.id)",
        new="pass",
    ),
    Mutant(
        name="the review goes unseen",
        guard="the planner hears of what is reviewed",
        fault="admins, sessions that drop",
        where="longshore.pool.shutdown:review",
        old="core.touch(worker.id)",
        new="pass",
    ),
    Mutant(
        name="contact goes unseen",
        guard="the planner hears of contact with a worker that was offline",
        fault="sessions that drop",
        where="longshore.pool.attempts:on_exited",
        old="core.touch(worker.id)",
        new="pass",
        test=(
            "tests/unit/test_changes.py"
            "::test_an_exit_told_by_a_worker_that_was_offline_lets_it_be_planned_onto_again"
        ),
    ),
)
CLAIMS = (
    Mutant(
        name="claims on what is ready",
        guard="claims on what became ready are dropped",
        fault=KEPT,
        where="longshore.dispatcher.scheduler.placement.fleet:Fleet.put",
        old="if slot.kind is SlotKind.READY:",
        new="if False:",
    ),
    Mutant(
        name="a smaller machine loses all claims",
        guard="what turns out smaller keeps as many claims as it has room for",
        fault="instances whose machine is smaller than their type",
        where="longshore.dispatcher.scheduler.placement.fleet:Fleet._claim_again",
        old="while found < number and self.rules.has_room(slot, needs[key]):",
        new="while False:",
        test="tests/unit/test_planner_claims.py"
        "::test_what_turns_out_smaller_keeps_as_many_claims_as_it_has_room_for",
    ),
    Mutant(
        name="claims on what is gone",
        guard="claims on what is gone are dropped",
        fault="instances that end",
        where="longshore.dispatcher.scheduler.placement.fleet:Fleet.remove",
        old="self._forget_claims(slot_id, self._claimed.pop(slot_id, {}))",
        new="pass",
    ),
    Mutant(
        name="claims are lost when a launch is made",
        guard="a launch has the claims of what the pass thought of",
        fault=KEPT,
        where="longshore.dispatcher.scheduler.placement.fleet_sync:FleetSync.launched",
        old="self.fleet.rename(slot.id, ",
        new='self.fleet.rename("", ',
    ),
    Mutant(
        name="surplus is kept",
        guard="a class claims no more than it has containers that wait",
        fault="cancels",
        where="longshore.dispatcher.scheduler.batch.plan:_Pass.give_surplus_up",
        old="while surplus > 0:",
        new="while False:",
        also=Mutant(
            name="more are used than wait",
            guard="",
            fault="",
            where="longshore.dispatcher.scheduler.batch.plan:_Pass._give_what_is_kept",
            old="min([waiting, number, *self._most(line)])",
            new="min([number, *self._most(line)])",
        ),
    ),
    Mutant(
        name="claims of classes that are gone",
        guard="claims of classes in which nobody waits are dropped",
        fault="cancels",
        where="longshore.dispatcher.scheduler.batch.scheduling_pass:SchedulingPass.refresh",
        old="fleet.unclaim(key, fleet.slots[slot_id], number)",
        new="pass",
    ),
    Mutant(
        name="a claim takes no room",
        guard="room that is claimed is taken",
        fault=KEPT,
        where="longshore.dispatcher.scheduler.placement.fleet:Fleet.claim",
        old="self.take(slot, need, number)",
        new="pass",
    ),
    Mutant(
        name="a claim that is given up keeps its room",
        guard="room of a claim that is given up is free",
        fault="cancels",
        where="longshore.dispatcher.scheduler.placement.fleet:Fleet.unclaim",
        old="self.give(slot, self._claimed[slot.id][key], number)",
        new="pass",
        test=(
            "tests/unit/test_spend_planner.py"
            "::test_claims_that_are_given_up_are_paid_back_and_their_room_is_paid_by_who_gets_it"
        ),
    ),
    Mutant(
        name="a start is not taken back",
        guard="who comes after the one that a limit stops starts after all not",
        fault="a low max_instances",
        where="longshore.dispatcher.scheduler.batch.plan:_buy",
        old="this.take_back(head[0])",
        new="pass",
    ),
    Mutant(
        name="what is taken back counts",
        guard="room of a start that is taken back is free",
        fault="a low max_instances",
        where="longshore.dispatcher.scheduler.batch.plan:_Pass._undo",
        old="self.view.fleet.give(entry.slot, line.request_class.need(entry.slot.type))",
        new="pass",
    ),
    Mutant(
        name="the reach is short",
        guard="what is bought is bought for those that come first",
        fault="a low max_instances",
        where="longshore.dispatcher.scheduler.scale_up.batch:ScaleUp._within_reach",
        old="return reach",
        new="return reach[1:] or reach",
        test=(
            "tests/unit/test_planner_quota.py"
            "::test_what_can_go_elsewhere_leaves_the_one_on_trial_to_those_that_cannot"
        ),
    ),
)
RESTARTS = (
    Mutant(
        name="restarts at once for ever",
        guard="from the second restart on the delay passes",
        fault=RETRIES,
        where="longshore.dispatcher.state.restarts:due_after",
        old="return max(ended_at, restarted_at + _restart_delay_s(retries.delay_s))",
        new="return ended_at",
    ),
    Mutant(
        name="the first restart waits",
        guard="the first restart comes at once",
        fault=RETRIES,
        where="longshore.dispatcher.state.restarts:due_after",
        old="return ended_at + retries.first_delay_s",
        new="return ended_at + retries.delay_s",
    ),
    Mutant(
        name="restarts without end",
        guard="restarts are counted",
        fault=RETRIES,
        where="longshore.dispatcher.state.restarts:FailureHistory._is_tried_again",
        old="if self.failures > retries.most:",
        new="if False:",
    ),
    Mutant(
        name="any exit code is tried again",
        guard="only the exit codes that are named are tried again",
        fault=RETRIES,
        where="longshore.dispatcher.state.restarts:FailureHistory._is_tried_again",
        old="if exited and retries.exit_codes and last.exit_code not in retries.exit_codes:",
        new="if False:",
        test="tests/unit/test_restart_policy.py::test_which_failures_are_tried_again",
    ),
    Mutant(
        name="any failure is tried again",
        guard="only the failures that are named are tried again",
        fault=RETRIES,
        where="longshore.dispatcher.state.restarts:FailureHistory._is_tried_again",
        old='return "failed" in retries.on or code in retries.on',
        new="return True",
    ),
    Mutant(
        name="nothing is tried again",
        guard="what failed is tried again",
        fault=RETRIES,
        where="longshore.dispatcher.state.restarts:after",
        old="if until is not None or state is None:",
        new="if state is None:",
    ),
    Mutant(
        name="nobody is let go",
        guard="who is held back is let go when its time has come",
        fault=RETRIES,
        where="longshore.dispatcher.engine.engine:Engine._take_turns",
        old="released = self.table.release_due(now)",
        new="released = False",
    ),
    Mutant(
        name="what is held back waits for a place",
        guard="who is held back has no place in the queue",
        fault="containers that are tried again, priorities",
        where="longshore.dispatcher.state.containers:ContainerTable.wait",
        old="if container.priority > 0 and container.id not in self.gates:",
        new="if container.priority > 0:",
    ),
    Mutant(
        name="held back and locked after a crash",
        guard="who was locked and is held back after a crash is unlocked",
        fault="a crash, containers that are tried again",
        where="longshore.dispatcher.engine.recovery:_restore_container",
        old="and not container.has_open_attempt:",
        new="and container.id in scheduling.table.queue:",
    ),
)
AT_ONCE = (
    Mutant(
        name="any number at once",
        guard="no more run at once than max_containers",
        fault="a low max_containers",
        where="longshore.dispatcher.scheduler.batch.scheduling_pass:SchedulingPass._limits",
        old="_left(limit, spoken_for)",
        new="None",
    ),
    Mutant(
        name="starts are not counted",
        guard="what a pass starts counts for max_containers",
        fault="a low max_containers",
        where="longshore.dispatcher.scheduler.batch.plan:_Pass.count",
        old="if self.containers_left is not None:",
        new="if False:",
    ),
    Mutant(
        name="what runs is not counted",
        guard="what runs counts for max_containers",
        fault="a low max_containers",
        where="longshore.dispatcher.scheduler.batch.scheduling_pass:SchedulingPass._limits",
        old="_left(limit, spoken_for)",
        new="_left(limit, 0)",
    ),
    Mutant(
        name="any number of supervisors",
        guard="supervisors fill only their share",
        fault="a low max_containers, supervisors",
        where="longshore.dispatcher.scheduler.batch.plan:_Pass.step",
        old="if self._supervisors_left(line) == 0:",
        new="if False:",
    ),
    Mutant(
        name="supervisors that run are not counted",
        guard="supervisors that run count for their share",
        fault="a low max_containers, supervisors",
        where="longshore.dispatcher.state.containers:ContainerTable.open_attempt",
        old="self._opened(container, attempt)",
        new="self._opened(container, attempt)\n"
        "        self.supervisors_placed -= container.is_supervisor",
    ),
    Mutant(
        name="supervisors that ran before are not counted",
        guard="supervisors that an earlier process started count for their share",
        fault="a crash, supervisors",
        where="longshore.dispatcher.state.containers:ContainerTable.admit",
        old="self._opened(container, attempt)",
        new="self._opened(container, attempt)\n"
        "        self.supervisors_placed -= container.is_supervisor",
    ),
    Mutant(
        name="no supervisor at all",
        guard="one supervisor may always run",
        fault="a low max_containers, supervisors",
        where="longshore.dispatcher.scheduler.placement.supervisors:share_of",
        old="max(1, math.floor(fraction * containers + _ROUNDING))",
        new="math.floor(fraction * containers + _ROUNDING)",
    ),
    Mutant(
        name="overload is not heard",
        guard="the limit sinks when the store or an instance is overloaded",
        fault=OVERLOAD,
        where="longshore.dispatcher.scheduler.placement.concurrency:Concurrency.overloaded",
        old="self._adaptive = lower",
        new="pass",
    ),
    Mutant(
        name="overloaded instances tell nothing",
        guard="the limit sinks when an instance is overloaded",
        fault=OVERLOAD,
        where="longshore.pool.attempts:_pause",
        old="if worker.load.busy_with:",
        new="if False:",
    ),
    Mutant(
        name="the limit rises during overload",
        guard="each report of overload begins the quiet minute anew",
        fault=OVERLOAD,
        where="longshore.dispatcher.scheduler.placement.concurrency:Concurrency.overloaded",
        old="self._quiet_since = now",
        new="pass",
    ),
    Mutant(
        name="the limit rises too fast",
        guard="the limit rises by a tenth and one",
        fault=OVERLOAD,
        where="longshore.dispatcher.scheduler.placement.concurrency:Concurrency._rise",
        old="int(self._adaptive * 1.1) + 1",
        new="self._adaptive * 2 + 2",
    ),
    Mutant(
        name="overloaded instances get work",
        guard="an overloaded instance gets no work for a minute",
        fault=OVERLOAD,
        where="longshore.pool.probing:takes_work",
        old="and worker.takes_more(now)",
        new="",
    ),
    Mutant(
        name="overloaded instances rest for ever",
        guard="an instance that has rested gets work again",
        fault=OVERLOAD,
        where="longshore.pool.attempts:_pause",
        old="core.timers.set(TimerKind.OVERLOAD, worker.id, worker.health.overloaded_until)",
        new="pass",
    ),
)
SHARING = (
    Mutant(
        name="no cpus take none",
        guard="the first container of no cpus takes the one that they share",
        fault=SHARED_CPU,
        where="longshore.pool.charging:charge",
        old="if need.cpu_millis or on_shared_cpu:",
        new="if True:",
        test=(
            "tests/unit/test_room.py"
            "::test_the_first_request_of_no_cpus_takes_one_and_the_others_none"
        ),
    ),
)
MAKING_WAY = (
    Mutant(
        name="all that is idle makes way",
        guard="no more idle instances make way than are needed",
        fault=QUOTAS,
        where="longshore.dispatcher.scheduler.batch.unwanted:_LookAhead._place",
        old="self.lacking += more",
        new="self.lacking += 100 * more",
    ),
    Mutant(
        name="more make way each pass",
        guard="what is being shut down makes way too",
        fault=QUOTAS,
        where="longshore.dispatcher.scheduler.batch.unwanted:make_way",
        old="shortage.over - shortage.takes(leaving)",
        new="shortage.over",
    ),
)
CREATED_FOR_LOWER = (
    Mutant(
        name="what has come makes way at once",
        guard="an instance that came for a lower one is spared for as long as it took to boot",
        fault=QUOTAS,
        where="longshore.dispatcher.scheduler.placement.fleet_sync:slot_of",
        old="worker.state_since + booted_s",
        new="0.0",
    ),
    Mutant(
        name="what has come is left idle",
        guard="those behind the next in line use what has come for lower ones",
        fault=QUOTAS,
        where="longshore.dispatcher.scheduler.batch.plan:plan",
        old="this.start_on_unused()",
        new="pass",
    ),
    Mutant(
        name="what is withheld is used",
        guard="as many instances are withheld as the next in line needs",
        fault=QUOTAS,
        where="longshore.dispatcher.scheduler.batch.plan:_Pass.start_on_unused",
        old="gone = {*self.plan.unwanted, *self.plan.withheld}",
        new="gone = {*self.plan.unwanted}",
    ),
    Mutant(
        name="what comes for lower ones is given up",
        guard="the next in line takes nobody's claim on what is of no use to it",
        fault=KEPT,
        where="longshore.dispatcher.scheduler.batch.plan:_Pass.step",
        old="few = self.containers_left == 0 or not line.kept",
        new="few = True",
        also=Mutant(
            name="it is taken back",
            guard="",
            fault="",
            where="longshore.dispatcher.scheduler.batch.plan:_Pass.take_back",
            old="if number and not (entry.is_kept and self.plan.stopped):",
            new="if number:",
            also=Mutant(
                name="nor taken up again",
                guard="",
                fault="",
                where="longshore.dispatcher.scheduler.batch.plan:plan",
                old="this.take_up_again(before)",
                new="pass",
            ),
        ),
    ),
)

SCHEDULING_MUTANTS: tuple[Mutant, ...] = (
    *TOUCHES,
    *CLAIMS,
    *RESTARTS,
    *AT_ONCE,
    *SHARING,
    *MAKING_WAY,
    *CREATED_FOR_LOWER,
)
