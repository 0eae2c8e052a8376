"""What a container waits for beside room: others' ends, its turn in an array, its job's release.

What is waited for is a *node*: a container, an element of an array, a task or a job. `Dependencies`
is the graph: for each waiting container the nodes that it still needs, and back. `Workflow` keeps
each container that waits for such a thing out of the queue, by a gate: `AFTER` for nodes,
`MAX_RUNNING` for a turn among the elements of its array, `JOB_HELD` for its job, and
`OWN_SCHEDULER` if a scheduler of its own places it. The container table adds `SECRETS` for one
whose secrets cannot be had, and `BUDGET` for one whose budget is spent.

How an end is passed on, in `propagate`, once for each event of the engine:

1. The container table lists the containers that have `finished`. First all of them stop waiting, so
   that one that ended together with what it waited for is not cancelled for that.
2. Each ends its nodes: itself, its element, and its task or its job if it was the last of it and
   these end by themselves. Its turn in the array goes to the next element, as does that of an
   element whose priority became 0 before it ran.
3. A node that ends lets go whoever waited for nothing else: the gate is lifted, and the container
   is queued, or waits for its turn. Who needed the node to succeed, and it did not, is cancelled:
   that is an end like others, and steps 1 to 3 go on until there are no more. So a chain of any
   length ends in one event.
4. Jobs that changed are journalled. One that does not end by itself (`Job.ends_by_itself`), and has
   ended, ends its nodes now, and all begins anew.

What has ended is forgotten, so that the graph is as large as what waits. Whoever submits looks up
in the store which nodes have ended; what ends between that and the admission is remembered
meanwhile (`watch_completions`). A node that is known to nobody did not succeed, and never will.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from longshore.dispatcher.domain.containers import (
    Container,
    ContainerState,
    Dependency,
    DependencyOn,
    Reason,
    WaitReason,
)
from longshore.dispatcher.domain.jobs import Job, JobState, element_node, nodes_of, task_node
from longshore.dispatcher.domain.messages import PublishContainer, PublishJob, SaveJob
from longshore.dispatcher.domain.secrets import why_withheld
from longshore.dispatcher.state.containers import ContainerTable
from longshore.dispatcher.state.scheduling_gates import Gate

# ---- the graph of who waits for which nodes ------------------------------------------------------

Needs = tuple[tuple[str, DependencyOn], ...]
"""The nodes that are waited for, each with the end that counts."""


class Dependencies:
    """The graph of who waits for which nodes; what has ended is not in it."""

    def __init__(self) -> None:
        self._needs: dict[str, dict[str, DependencyOn]] = {}
        self._dependents: dict[str, dict[str, None]] = {}

    def __contains__(self, container_id: str) -> bool:
        return container_id in self._needs

    def add(self, container_id: str, needs: Needs) -> None:
        """Let a container wait for one node or more; it must not wait already."""
        self._needs[container_id] = dict(needs)
        for node, _ in needs:
            self._dependents.setdefault(node, {})[container_id] = None

    def needs(self, container_id: str) -> Needs:
        """Return what a container still waits for, () when it waits for nothing."""
        return tuple(self._needs.get(container_id, {}).items())

    def ended(self, node: str, *, succeeded: bool) -> tuple[list[str], list[str]]:
        """Note the end of a node; return who waits for nothing more, and who can never start now.

        Both are in the order in which they came to wait, and are no longer in the graph.
        """
        released: list[str] = []
        unsatisfiable: list[str] = []
        for container_id in self._dependents.pop(node, {}):
            needs = self._needs[container_id]
            if fails(needs.pop(node), succeeded=succeeded):
                self.drop(container_id)
                unsatisfiable.append(container_id)
            elif not needs:
                del self._needs[container_id]
                released.append(container_id)
        return released, unsatisfiable

    def drop(self, container_id: str) -> None:
        """Let a container wait no more; not waiting is no error."""
        for node in self._needs.pop(container_id, {}):
            dependents = self._dependents.get(node)
            if dependents is not None:
                dependents.pop(container_id, None)
                if not dependents:
                    del self._dependents[node]


def fails(on: DependencyOn, *, succeeded: bool) -> bool:
    """Return whether an end is not the one that was waited for."""
    return on is DependencyOn.SUCCESS and not succeeded


def still_needed(needs: Sequence[tuple[str, DependencyOn]], ended: Mapping[str, bool]) -> Needs:
    """Return those of `needs` whose node has not ended."""
    return tuple(each for each in needs if each[0] not in ended)


def failed_among(
    needs: Sequence[tuple[str, DependencyOn]], ended: Mapping[str, bool]
) -> str | None:
    """Return the first node that ended otherwise than it must, None when there is none."""
    for node, on in needs:
        succeeded = ended.get(node)
        if succeeded is not None and fails(on, succeeded=succeeded):
            return node
    return None


# --------------------------------------------------------------------------------------------------


@dataclass(slots=True, kw_only=True)
class _Watched:
    """The nodes of a container or job that ended while somebody prepares to wait for them."""

    watchers: int = 0
    ended: dict[str, bool] = field(default_factory=dict)


class Workflow:
    """Admits containers, keeps those out of the queue that must wait, and passes ends on."""

    def __init__(self, table: ContainerTable) -> None:
        self._table = table
        self._jobs = table.jobs
        self._dependencies = Dependencies()
        self._watched: dict[str, _Watched] = {}

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
                self._table.admit(container)
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
            self._table.gates.block(container.id, Gate.AFTER)
        elif not self._jobs.enter(container):
            self._table.gates.block(container.id, Gate.MAX_RUNNING)
        self._table.admit(container)
        if failed is not None:
            self._cancel_dependent(container.id, failed, now)
        elif rest:
            self._dependencies.add(container.id, rest)

    def _known(self, node: str, ended: Mapping[str, bool]) -> bool | None:
        """Return whether a node succeeded, None while it has not ended.

        What nobody has heard of has not succeeded, and never will.
        """
        if node in ended:
            return ended[node]
        root = node.partition("/")[0]
        watched = self._watched.get(root)
        if watched is not None and node in watched.ended:
            return watched.ended[node]
        return None if root in self._table.containers or root in self._jobs else False

    def _hold_with_job(self, container: Container) -> None:
        job_id = container.job_id
        if self._jobs.is_held(job_id):
            self._table.gates.block(container.id, Gate.JOB_HELD)
        type_ = self._jobs.type_of(job_id)
        if type_ is not None and type_.has_own_scheduler:
            self._table.gates.block(container.id, Gate.OWN_SCHEDULER)

    # ---- what somebody is about to wait for ----------------------------------------------------

    def watch_completions(self, roots: Iterable[str]) -> None:
        """Remember the ends of containers and jobs from now on, until `unwatch_completions`.

        For whoever looks up in the store what has ended, and then submits what waits for the rest:
        what ends in between would be missed.
        """
        for root in roots:
            self._watched.setdefault(root, _Watched()).watchers += 1

    def unwatch_completions(self, roots: Iterable[str]) -> None:
        """End what `watch_completions` began with the same roots; others may still watch them.

        Roots that nobody watches are no error.
        """
        for root in roots:
            watched = self._watched.get(root)
            if watched is None:
                continue
            watched.watchers -= 1
            if not watched.watchers:
                del self._watched[root]

    # ---- going on ------------------------------------------------------------------------------

    def propagate(self, now: float) -> bool:
        """Pass the ends of containers on (see the top); return whether anybody was queued."""
        released = self._propagate_ends(now)
        while concluded := self._publish_changed_jobs(now):
            for job in concluded:
                succeeded = job.state is JobState.SUCCEEDED
                for node in [*(task_node(job.id, task.name) for task in job.tasks), job.id]:
                    released = self._node_ended(node, succeeded, now) or released
            released = self._propagate_ends(now) or released
        return released

    def _publish_changed_jobs(self, now: float) -> list[Job]:
        """Journal and publish the jobs that changed.

        Returns those that have ended, but not by the end of their last container.
        """
        told = self._jobs.drain_changes(now)
        for job in told:
            self._table.changes.append(SaveJob(job=job))
            last_action = self._jobs.pop_last_action(job.id)
            self._table.published.append(PublishJob(job=job, last_action=last_action))
        return [job for job in told if job.state.final and not job.ends_by_itself]

    def _propagate_ends(self, now: float) -> bool:
        """Pass on the ends of containers until there are no more; return whether anybody was
        queued.
        """
        released = False
        table = self._table
        idle = self._jobs.take_idle()
        while table.finished or idle:
            finished = list(table.finished)
            table.finished.clear()
            # All of them first: who ended together with what it waited for is not to be cancelled.
            for container in finished:
                self._dependencies.drop(container.id)
            for container in finished:
                for node, succeeded in self._jobs.ends_with(container):
                    released = self._node_ended(node, succeeded, now) or released
                released = self._enter_window(self._jobs.leave(container), now) or released
            for container_id in idle:
                released = self._leave_window(container_id, now) or released
            idle = self._jobs.take_idle()
        return released

    def _leave_window(self, container_id: str, now: float) -> bool:
        container = self._table.containers.get(container_id)
        return container is not None and self._enter_window(self._jobs.leave(container), now)

    def _node_ended(self, node: str, succeeded: bool, now: float) -> bool:
        watched = self._watched.get(node.partition("/")[0])
        if watched is not None:
            watched.ended[node] = succeeded
        released, unsatisfiable = self._dependencies.ended(node, succeeded=succeeded)
        for container_id in unsatisfiable:
            self._cancel_dependent(container_id, node, now)
        went = False
        for container_id in released:
            gates = self._table.gates
            gates.unblock(container_id, Gate.AFTER)
            container = self._table.containers[container_id]
            if self._jobs.enter(container):
                went = self._wait(container, now) or went
            else:
                gates.block(container_id, Gate.MAX_RUNNING)
                self._table.published.append(PublishContainer(container=container))
        return went

    def _enter_window(self, container_id: str | None, now: float) -> bool:
        if container_id is None:
            return False
        self._table.gates.unblock(container_id, Gate.MAX_RUNNING)
        return self._wait(self._table.containers[container_id], now)

    def enqueue_in_window(self, container: Container) -> None:
        """Let an element that does not run wait for a turn in its array, if it does not wait
        already.
        """
        gates = self._table.gates
        is_in_line = bool(gates.blocks(container.id) & (Gate.AFTER | Gate.MAX_RUNNING))
        if not is_in_line and not self._jobs.enter(container):
            gates.block(container.id, Gate.MAX_RUNNING)

    def _wait(self, container: Container, now: float) -> bool:
        """Queue a container unless another gate holds it, and publish it; return whether it is
        queued.
        """
        self._table.wait(container, now)
        self._table.published.append(PublishContainer(container=container, released=True))
        return container.id in self._table.queue

    def _cancel_dependent(self, container_id: str, node: str, now: float) -> None:
        """Cancel a container that waits for what has not succeeded."""
        container = self._table.containers[container_id]
        message = f"it was to run after {node}, which did not succeed"
        reason = Reason(code="dependency_failed", message=message)
        self._table.finish(container, ContainerState.CANCELLED, reason, now)

    # ---- held jobs -----------------------------------------------------------------------------

    def hold(self, job_id: str, *, held: bool, now: float) -> None:
        """Let a job start nothing new, or go on; what runs of it goes on."""
        if self._jobs.is_held(job_id) == held:
            return
        self._jobs.set_held(job_id, held=held)
        table = self._table
        for container_id in self._jobs.containers_of(job_id):
            container = table.containers[container_id]
            if not held:
                table.gates.unblock(container_id, Gate.JOB_HELD)
            else:
                table.gates.block(container_id, Gate.JOB_HELD)
            if container.has_open_attempt:
                continue
            if held and container.state is ContainerState.LOCKED:
                table.unlock(container_id)
            table.wait(table.containers[container_id], now)

    def _full_window_reason(self, container: Container) -> WaitReason:
        """Return why an element waits for its turn."""
        under_way = self._jobs.under_way_with(container)
        message = f"as many elements of its array run as may at once ({under_way})"
        return WaitReason(code="max_running", message=message, limit="max_running")

    def needs(self, container_id: str) -> Needs:
        """Return the nodes whose ends a container waits for, () for none."""
        return self._dependencies.needs(container_id)

    # ---- why somebody waits --------------------------------------------------------------------

    def reason(self, container: Container) -> WaitReason | None:
        """Return what a container waits for beside room, None for nothing."""
        block = self._table.gates.blocks(container.id)
        if Gate.JOB_HELD in block:
            return self._table.why_not_begin(container)
        if Gate.AFTER in block:
            return _after(self._dependencies.needs(container.id))
        if Gate.MAX_RUNNING in block:
            return self._full_window_reason(container)
        if Gate.SECRETS in block:
            return why_withheld(container, self._table.known_secrets)
        if Gate.BUDGET in block:
            return self._table.why_not_begin(container)
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


# ---- the head of a dependency chain, for `longshore explain` -------------------------------------

MOST_LINKS = 10_000
MOST_CONTAINERS = 20_000
"""How many unfinished containers the jobs on the way may have that are looked through."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Chain:
    """Who is at the head of a chain of dependencies."""

    #: A container that waits for no other's end, or a node of which no container is known.
    first: str
    #: How many are before the one who was asked about.
    before: int
    #: False where the way was too long to follow: `first` is who was reached.
    is_whole: bool = True


def blocking_chain(container_id: str, *, table: ContainerTable, workflow: Workflow) -> Chain:
    """Follow what a container waits for, and what that waits for; of several always the first."""
    walk = _Walk(table)
    current, before = container_id, 0
    while needs := workflow.needs(current):
        if before == MOST_LINKS:
            return Chain(first=current, before=before, is_whole=False)
        node, _ = needs[0]
        before += 1
        found = walk.container_of(node)
        if found is None:
            return Chain(first=node, before=before)
        current = found
    return Chain(first=current, before=before)


class _Walk:
    """Finds a container that has to end for a node to end; each job is looked through once."""

    def __init__(self, table: ContainerTable) -> None:
        self._table = table
        self._found: dict[str, Mapping[str, str]] = {}
        self._left = MOST_CONTAINERS

    def container_of(self, node: str) -> str | None:
        """Return an unfinished container of a node: the first that waits for no node, else the
        first.

        None if no container is known, or too many were looked through.
        """
        root = node.partition("/")[0]
        if root in self._table.containers:
            return root
        if root not in self._found:
            self._found[root] = self._by_node(root)
        return self._found[root].get(node)

    def _by_node(self, job_id: str) -> Mapping[str, str]:
        container_ids = self._table.jobs.containers_of(job_id)
        self._left -= len(container_ids)
        if self._left < 0:
            return {}
        found: dict[str, str] = {}
        waits = {each: Gate.AFTER in self._table.gates.blocks(each) for each in container_ids}
        for container_id in sorted(container_ids, key=waits.__getitem__):
            container = self._table.containers[container_id]
            for node in (*nodes_of(container), task_node(job_id, container.task), job_id):
                found.setdefault(node, container_id)
        return found
