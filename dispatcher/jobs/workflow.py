"""What a container waits for beside room: others' ends, its turn in an array, its job's release.

It goes to the queue when nothing of that is left. Who never can start is cancelled.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from longshore.dispatcher.jobs.dependencies import Dependencies, Needs, failed_among, still_needed
from longshore.dispatcher.jobs.model import Job, JobState, element_node, task_node
from longshore.dispatcher.ledger.ledger import Ledger
from longshore.dispatcher.messages import PublishContainer, PublishJob, SaveJob
from longshore.dispatcher.model import (
    Container,
    ContainerState,
    Dependency,
    DependencyOn,
    Reason,
    WaitReason,
)
from longshore.dispatcher.queueing.holdbacks import Block


@dataclass(slots=True, kw_only=True)
class _Pin:
    """What somebody is about to wait for: what of it has ended since."""

    holders: int = 0
    ended: dict[str, bool] = field(default_factory=dict)


class Workflow:
    """Admits containers into the ledger, and lets them on when what is before them has ended."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._jobs = ledger.jobs
        self._dependencies = Dependencies()
        self._pins: dict[str, _Pin] = {}

    # ---- coming ------------------------------------------------------------------------------

    def admit(self, containers: Iterable[Container], ended: Mapping[str, bool], now: float) -> None:
        """Take in containers that the store holds, whose jobs are known.

        `ended` says of the nodes that they wait for, and that have ended, whether they succeeded.
        """
        waiting = []
        for container in containers:
            if container.job_id:
                self._jobs.take_in(container)
            if container.has_open_attempt or container.state is not ContainerState.QUEUED:
                self._jobs.force(container)
                self._hold_with_job(container)
                self._ledger.admit(container)
            else:
                waiting.append(container)
        # Who was under way before comes before who never was.
        for container in sorted(waiting, key=lambda each: not each.attempts):
            self._admit_waiting(container, ended, now)

    def restore(self, containers: Iterable[Container], ended: Mapping[str, bool]) -> None:
        """Take in what a start finds in the store, as `admit` does."""
        self.admit(containers, ended, now=0.0)

    def _admit_waiting(self, container: Container, ended: Mapping[str, bool], now: float) -> None:
        needs = () if container.attempts else _needs_of(container)
        outcomes = ((node, self._known(node, ended)) for node, _ in needs)
        known = {node: outcome for node, outcome in outcomes if outcome is not None}
        failed = failed_among(needs, known)
        rest = still_needed(needs, known)
        self._hold_with_job(container)
        if rest or failed is not None:
            self._ledger.holdbacks.block(container.id, Block.AFTER)
        elif not self._jobs.enter(container):
            self._ledger.holdbacks.block(container.id, Block.MAX_RUNNING)
        self._ledger.admit(container)
        if failed is not None:
            self._doom(container.id, failed, now)
        elif rest:
            self._dependencies.add(container.id, rest)

    def _known(self, node: str, ended: Mapping[str, bool]) -> bool | None:
        """Return whether a node succeeded, None while it has not ended.

        What nobody has heard of has not succeeded, and never will.
        """
        if node in ended:
            return ended[node]
        root = node.partition("/")[0]
        pin = self._pins.get(root)
        if pin is not None and node in pin.ended:
            return pin.ended[node]
        return None if root in self._ledger.containers or root in self._jobs else False

    def _hold_with_job(self, container: Container) -> None:
        job_id = container.job_id
        if self._jobs.is_held(job_id):
            self._ledger.holdbacks.block(container.id, Block.JOB_HELD)
        type_ = self._jobs.type_of(job_id)
        if type_ is not None and type_.has_own_placer:
            self._ledger.holdbacks.block(container.id, Block.OWN_PLACER)

    # ---- what somebody is about to wait for ----------------------------------------------------

    def pin(self, roots: Iterable[str]) -> None:
        """Remember the ends of containers and jobs from now on, until `unpin`.

        Who looks up what has ended already, and afterwards submits who waits for it, would else
        miss what ends in between.
        """
        for root in roots:
            self._pins.setdefault(root, _Pin()).holders += 1

    def unpin(self, roots: Iterable[str]) -> None:
        """Forget what was remembered for one who called `pin` with the same; none is no error."""
        for root in roots:
            pin = self._pins.get(root)
            if pin is None:
                continue
            pin.holders -= 1
            if not pin.holders:
                del self._pins[root]

    # ---- going on ------------------------------------------------------------------------------

    def settle(self, now: float) -> bool:
        """Do what follows of containers' ends; return whether anybody came to wait for room."""
        released = self._go_on(now)
        while concluded := self._turn(now):
            for job in concluded:
                succeeded = job.state is JobState.SUCCEEDED
                for node in [*(task_node(job.id, task.name) for task in job.tasks), job.id]:
                    released = self._node_ended(node, succeeded, now) or released
            released = self._go_on(now) or released
        return released

    def _turn(self, now: float) -> list[Job]:
        """Tell of jobs that changed; return those that ended, and not with their containers."""
        told = self._jobs.turn(now)
        for job in told:
            self._ledger.changes.append(SaveJob(job=job))
            deed = self._jobs.take_deed(job.id)
            self._ledger.published.append(PublishJob(job=job, deed=deed))
        return [job for job in told if job.state.final and not job.ends_by_itself]

    def _go_on(self, now: float) -> bool:
        """Do what follows of each container's end; return whether anybody came to wait for room."""
        released = False
        ledger = self._ledger
        idle = self._jobs.take_idle()
        while ledger.finished or idle:
            finished = list(ledger.finished)
            ledger.finished.clear()
            # All of them first: who ended together with what it waited for is not to be cancelled.
            for container in finished:
                self._dependencies.drop(container.id)
            for container in finished:
                for node, succeeded in self._jobs.ends_with(container):
                    released = self._node_ended(node, succeeded, now) or released
                released = self._take_turn(self._jobs.leave(container), now) or released
            for container_id in idle:
                released = self._give_turn_up(container_id, now) or released
            idle = self._jobs.take_idle()
        return released

    def _give_turn_up(self, container_id: str, now: float) -> bool:
        container = self._ledger.containers.get(container_id)
        return container is not None and self._take_turn(self._jobs.leave(container), now)

    def _node_ended(self, node: str, succeeded: bool, now: float) -> bool:
        pin = self._pins.get(node.partition("/")[0])
        if pin is not None:
            pin.ended[node] = succeeded
        released, doomed = self._dependencies.ended(node, succeeded=succeeded)
        for container_id in doomed:
            self._doom(container_id, node, now)
        went = False
        for container_id in released:
            holdbacks = self._ledger.holdbacks
            holdbacks.unblock(container_id, Block.AFTER)
            container = self._ledger.containers[container_id]
            if self._jobs.enter(container):
                went = self._wait(container, now) or went
            else:
                holdbacks.block(container_id, Block.MAX_RUNNING)
                self._ledger.published.append(PublishContainer(container=container))
        return went

    def _take_turn(self, container_id: str | None, now: float) -> bool:
        if container_id is None:
            return False
        self._ledger.holdbacks.unblock(container_id, Block.MAX_RUNNING)
        return self._wait(self._ledger.containers[container_id], now)

    def line_up(self, container: Container) -> None:
        """Let an element wait for its turn, by its index, that gave its own up or never had one."""
        holdbacks = self._ledger.holdbacks
        is_in_line = bool(holdbacks.blocks(container.id) & (Block.AFTER | Block.MAX_RUNNING))
        if not is_in_line and not self._jobs.enter(container):
            holdbacks.block(container.id, Block.MAX_RUNNING)

    def _wait(self, container: Container, now: float) -> bool:
        """Let a container wait for room if nothing else holds it; tell of it either way."""
        self._ledger.wait(container, now)
        self._ledger.published.append(PublishContainer(container=container, released=True))
        return container.id in self._ledger.queue

    def _doom(self, container_id: str, node: str, now: float) -> None:
        """Cancel a container that waits for what has not succeeded."""
        container = self._ledger.containers[container_id]
        message = f"it was to run after {node}, which did not succeed"
        reason = Reason(code="dependency_failed", message=message)
        self._ledger.finish(container, ContainerState.CANCELLED, reason, now)

    # ---- held jobs -----------------------------------------------------------------------------

    def hold(self, job_id: str, *, held: bool, now: float) -> None:
        """Let a job start nothing new, or go on; what runs of it goes on."""
        if self._jobs.is_held(job_id) == held:
            return
        self._jobs.set_held(job_id, held=held)
        ledger = self._ledger
        for container_id in self._jobs.containers_of(job_id):
            container = ledger.containers[container_id]
            if not held:
                ledger.holdbacks.unblock(container_id, Block.JOB_HELD)
            else:
                ledger.holdbacks.block(container_id, Block.JOB_HELD)
            if container.has_open_attempt:
                continue
            if held and container.state is ContainerState.LOCKED:
                ledger.unlock(container_id)
            ledger.wait(ledger.containers[container_id], now)

    def _no_turn(self, container: Container) -> WaitReason:
        """Return why an element waits for its turn."""
        under_way = self._jobs.under_way_with(container)
        message = f"as many of its array are under way as may be at once ({under_way})"
        return WaitReason(code="max_running", message=message, limit="max_running")

    def needs(self, container_id: str) -> Needs:
        """Return the nodes whose ends a container waits for, () for none."""
        return self._dependencies.needs(container_id)

    # ---- why somebody waits --------------------------------------------------------------------

    def reason(self, container: Container) -> WaitReason | None:
        """Return what a container waits for beside room, None for nothing."""
        block = self._ledger.holdbacks.blocks(container.id)
        if Block.JOB_HELD in block:
            message = f"its job {container.job_id} is held, and starts nothing until it is released"
            return WaitReason(code="job_held", message=message)
        if Block.AFTER in block:
            return _after(self._dependencies.needs(container.id))
        if Block.MAX_RUNNING in block:
            return self._no_turn(container)
        return None


def roots_of(containers: Iterable[Container]) -> list[str]:
    """Return the containers and jobs that some new containers wait for, sorted, each once."""
    specs = {id(container.spec): container.spec for container in containers}
    return sorted({each.of.partition("/")[0] for spec in specs.values() for each in spec.after})


def _needs_of(container: Container) -> Needs:
    """Return the nodes that a container waits for, as it was submitted."""
    return tuple((_node(container, each), each.on) for each in container.spec.after)


def _node(container: Container, dependency: Dependency) -> str:
    if not dependency.each or container.array_index is None:
        return dependency.of
    job_id, _, task = dependency.of.partition("/")
    return element_node(job_id, task, container.array_index)


def _after(needs: Needs) -> WaitReason:
    """Return the reason of one that waits for others, by the first of them."""
    if not needs:
        return WaitReason(code="after", message="it waits for others to end")
    node, on = needs[0]
    what = "succeed" if on is DependencyOn.SUCCESS else "end"
    more = f", and for {len(needs) - 1} more" if len(needs) > 1 else ""
    return WaitReason(code="after", message=f"it waits for {node} to {what}{more}", behind=node)
