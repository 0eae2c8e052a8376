"""Several passes over one fleet whose workers come, fill and leave; and the order of a class."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from longshore.dispatcher.domain.containers import Container, ContainerState, SchedulerSettings
from longshore.dispatcher.domain.messages import BehaviorRequested
from longshore.dispatcher.state.queue import Order, SortedIndex
from longshore.drivers.errors import CapacityError, CloudError, QuotaError
from longshore.pool.messages import Probe, SessionLost
from longshore.pool.model import IdleBehavior, PoolSettings
from tests.rigs.engine import Rig, last_commands
from tests.samples import make_container, make_type

MOST = 4


class Passes(RuleBasedStateMachine):
    """An engine whose passes follow each other while its pool changes in between.

    The rig has `Engine.check` after every event: it holds the kept fleet against one built anew.
    """

    def __init__(self) -> None:
        super().__init__()
        types = [make_type(n) for n in (1, 2, 4)]
        types[2] = replace(
            types[2], resources=replace(types[2].resources, gpus=1, custom=(("licence", 2),))
        )
        self.rig = Rig(
            *types,
            settings=SchedulerSettings(max_instances=MOST, max_price_factor=5, max_containers=7),
            pool=PoolSettings(idle_timeout_s=20),
        )
        self.rig.create_error = lambda _command: self.trouble
        self.trouble: CloudError | None = None
        self.submitted = 0

    def some(self, ids: Sequence[str], index: int) -> str:
        return sorted(ids)[index % len(ids)]

    def waiting(self) -> list[str]:
        return [c.id for c in self.rig.containers.values() if not c.state.final]

    def running(self) -> list[str]:
        attempts = self.rig.attempts.values()
        return [a.id for a in attempts if a.outcome is None and a.instance_id in self.rig.cloud]

    @rule(
        cpus=st.integers(0, 4),
        priority=st.integers(0, 3),
        number=st.integers(1, 4),
        licences=st.integers(0, 2),
        supervisor=st.booleans(),
    )
    def submit(
        self, cpus: int, priority: int, number: int, licences: int, *, supervisor: bool
    ) -> None:
        made: list[Container] = []
        for _ in range(number):
            self.submitted += 1
            each = make_container(
                self.submitted, cpus=cpus, priority=priority, supervisor=supervisor
            )
            if licences:
                wanted = replace(each.spec.resources, custom=(("licence", licences),))
                each = replace(each, spec=replace(each.spec, resources=wanted))
            made.append(each)
        self.rig.submit(*made)

    @precondition(lambda self: self.waiting())
    @rule(index=st.integers(0, 99), priority=st.integers(0, 3))
    def set_priority(self, index: int, priority: int) -> None:
        self.rig.set_priority(self.some(self.waiting(), index), priority)

    @precondition(lambda self: self.waiting())
    @rule(index=st.integers(0, 99))
    def cancel(self, index: int) -> None:
        self.rig.cancel(self.some(self.waiting(), index))

    @precondition(lambda self: self.running())
    @rule(index=st.integers(0, 99))
    def exit(self, index: int) -> None:
        attempt_id = self.some(self.running(), index)
        if attempt_id in self.rig.on_instance[self.rig.attempts[attempt_id].instance_id]:
            self.rig.exit(attempt_id)

    @precondition(lambda self: self.rig.engine.pool.workers)
    @rule(index=st.integers(0, 99), behavior=st.sampled_from(IdleBehavior))
    def behave(self, index: int, behavior: IdleBehavior) -> None:
        worker_id = self.some(list(self.rig.engine.pool.workers), index)
        self.rig.send(BehaviorRequested(worker_id=worker_id, behavior=behavior))

    @precondition(lambda self: self.rig.cloud)
    @rule(index=st.integers(0, 99))
    def vanish(self, index: int) -> None:
        instance_id = self.some(list(self.rig.cloud), index)
        del self.rig.cloud[instance_id]
        self.rig.on_instance.pop(instance_id)

    @precondition(lambda self: self.rig.cloud)
    @rule(index=st.integers(0, 99))
    def lose_session(self, index: int) -> None:
        worker_id = self.some(list(self.rig.cloud), index)
        self.rig.send(SessionLost(worker_id=worker_id, last_contact=self.rig.now, reason="?"))

    @rule(error=st.sampled_from([None, QuotaError("q"), CapacityError("c")]))
    def let_creates(self, error: CloudError | None) -> None:
        self.trouble = error

    @rule()
    def probes_hang(self) -> None:
        self.rig.silent ^= {Probe}
        if Probe not in self.rig.silent:
            for probe in last_commands(self.rig, Probe)[-MOST:]:
                worker = self.rig.engine.pool.workers.get(probe.worker_id)
                if worker is not None and worker.link.probe_op == probe.op_id:
                    self.rig.probe_now(probe)
            self.rig.settle()

    @rule(seconds=st.sampled_from([1.0, 6.0, 30.0, 90.0]))
    def pass_time(self, seconds: float) -> None:
        self.rig.advance(seconds)

    @invariant()
    def claims_never_exceed_the_waiting(self) -> None:
        scheduling = self.rig.engine.scheduling
        classes = {c.key: c for c in self.rig.engine.table.queue.classes()}
        for key, by_slot in scheduling.fleet_sync.fleet.claims.items():
            assert sum(by_slot.values()) <= len(classes[key])
            assert min(by_slot.values()) > 0

    @invariant()
    def no_worker_is_over_its_resources(self) -> None:
        for slot in self.rig.engine.scheduling.fleet_sync.fleet.slots.values():
            assert not slot.is_overfull
            assert slot.count >= 0
            assert slot.on_shared_cpu >= 0

    @invariant()
    def limits_are_kept(self) -> None:
        pool = self.rig.engine.pool
        assert len(pool.workers) + len(pool.expected_launches()) <= MOST
        assert len(self.rig.engine.table.open_attempts) <= 7

    @invariant()
    def nobody_runs_twice_and_who_has_a_claim_is_locked(self) -> None:
        scheduling, table = self.rig.engine.scheduling, self.rig.engine.table
        assert not scheduling.locked & set(table.open_attempts.values())
        for container_id in scheduling.locked:
            assert table.containers[container_id].state is ContainerState.LOCKED


Passes.TestCase.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
TestPasses = Passes.TestCase

ENTRIES = st.lists(
    st.tuples(st.tuples(st.integers(-3, 0), st.integers(0, 60)), st.booleans()), max_size=120
)


@pytest.mark.parametrize("chunk", [1, 2, 1024])
@given(changes=ENTRIES, data=st.data())
@settings(deadline=None)
def test_the_order_of_a_class_is_that_of_a_sorted_list(
    chunk: int, changes: list[tuple[Order, bool]], data: st.DataObject
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("longshore.dispatcher.state.queue._CHUNK", chunk)
        entries, known = SortedIndex(), list[tuple[Order, str]]()
        for order, is_added in changes:
            entry = (order, f"c-{order}")
            if is_added and entry not in known:
                entries.add(*entry)
                known.append(entry)
            elif entry in known:
                entries.remove(*entry)
                known.remove(entry)
            else:
                with pytest.raises(ValueError, match="is not in order here"):
                    entries.remove(*entry)
            known.sort()
            assert len(entries) == len(known)
        assert list(entries.span(0, len(known) + 5)) == known
        assert [entries.at(i) for i in range(len(known) + 2)] == [*known, None, None]
        start = data.draw(st.integers(0, 130))
        stop = data.draw(st.integers(0, 130))
        assert list(entries.span(start, stop)) == known[start:stop]
        order = data.draw(st.tuples(st.integers(-4, 1), st.integers(-1, 61)))
        assert entries.before(order) == sum(each < (order, "") for each in known)
