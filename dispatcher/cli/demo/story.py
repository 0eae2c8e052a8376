"""What happened in the demo, as the server's events told it, and whether it is as promised."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

from msgspec import to_builtins

from longshore.dispatcher.api.schemas.containers import ContainerAnswer
from longshore.dispatcher.api.schemas.cost import CostAnswer
from longshore.dispatcher.api.schemas.instances import InstanceAnswer
from longshore.dispatcher.cli import output
from longshore.dispatcher.cli.answers import is_final, read
from longshore.dispatcher.cli.demo.scenario import (
    IDLE_TIMEOUT_S,
    PROMISES,
    QUOTA_INSTANCES,
    Promise,
)

EVENTS_MAY_LAG_S = 1.0


@dataclass(slots=True, kw_only=True)
class InstanceStory:
    """One instance's life; the times are seconds since the demo began, None for not yet."""

    id: str
    type_name: str
    price_usd_per_hour: Decimal
    state: str
    created_s: float
    first_idle_s: float | None = None
    shut_down_s: float | None = None
    gone_s: float | None = None


@dataclass(slots=True, kw_only=True)
class Story:
    """Everything seen so far; `tell(elapsed_s, sentence)` is called for each thing that happens."""

    tell: Callable[[float, str], None]
    containers: dict[str, ContainerAnswer] = field(default_factory=dict)
    instances: dict[str, InstanceStory] = field(default_factory=dict)
    outputs: dict[str, str] = field(default_factory=dict)
    seen_running: set[str] = field(default_factory=set)
    seen_waiting: dict[str, str] = field(default_factory=dict)
    most_instances: int = 0
    #: What containers cost, by name, and what all of the instances cost in the end.
    costs_usd: dict[str, Decimal] = field(default_factory=dict)
    total_usd: Decimal = Decimal(0)

    def hear_container(self, data: Mapping[str, Any], elapsed_s: float) -> ContainerAnswer | None:
        """Take what is said of a container; return it when that is news."""
        before = self.containers.get(str(data.get("id")))
        known = {} if before is None else _as_data(before)
        seen = read({**known, **data}, ContainerAnswer)
        if before is not None and is_final(before) and not is_final(seen):
            # An answer that was on its way while the end was told.
            return None
        self.containers[seen.id] = seen
        if seen.state == "running":
            self.seen_running.add(seen.id)
        if before is not None and _stage(before) == _stage(seen):
            return None
        self.tell(elapsed_s, container_sentence(seen))
        return seen

    def hear_waiting(self, data: Mapping[str, Any], elapsed_s: float) -> None:
        """Take why a container waits, and tell it the first time."""
        seen = read(data, ContainerAnswer)
        known = self.containers.get(seen.id)
        if known is None or known.state != seen.state or not seen.waiting:
            return
        self.containers[seen.id] = seen
        if seen.id not in self.seen_waiting:
            self.tell(elapsed_s, f"{seen.name} waits: {seen.waiting}")
        self.seen_waiting[seen.id] = seen.waiting

    def hear_costs(self, answer: CostAnswer) -> None:
        """Take what the ledger says, by the name of the work."""
        self.costs_usd = {row.by["job"]: row.amounts.direct for row in answer.items}
        self.total_usd = answer.total.total

    def hear_instance(self, data: Mapping[str, Any], elapsed_s: float) -> None:
        """Take what is said of an instance."""
        seen = read(data, InstanceAnswer)
        story = self.instances.get(seen.id)
        if story is None:
            story = self.instances[seen.id] = InstanceStory(
                id=seen.id,
                type_name=seen.instance_type,
                price_usd_per_hour=seen.price_usd_per_hour,
                state="",
                created_s=elapsed_s,
            )
        if seen.state == story.state:
            return
        story.state = seen.state
        match seen.state:
            case "idle":
                story.first_idle_s = story.first_idle_s or elapsed_s
            case "shutdown":
                story.shut_down_s = story.shut_down_s or elapsed_s
            case "gone":
                story.gone_s = elapsed_s
        # One that is being shut down may have left the cloud, and its quota, before we hear of it.
        up = sum(each.shut_down_s is None for each in self.instances.values())
        self.most_instances = max(self.most_instances, up)
        cost = output.price(story.price_usd_per_hour)
        self.tell(elapsed_s, f"instance {seen.id} ({story.type_name}, {cost}): {seen.state}")

    def containers_over(self) -> bool:
        """Return whether all promised containers have ended."""
        ended = {each.name for each in self.containers.values() if is_final(each)}
        return set(PROMISES) <= ended

    def over(self) -> bool:
        """Return whether all containers have ended and all instances are gone."""
        return self.containers_over() and all(
            each.gone_s is not None for each in self.instances.values()
        )

    def runs_on(self, instance_id: str) -> list[str]:
        """Return the names of the containers that ran on an instance, in the order of starting."""
        there = [
            (attempt.started_at, each.name)
            for each in self.containers.values()
            for attempt in each.attempts
            if attempt.instance == instance_id and attempt.started_at is not None
        ]
        return [name for _, name in sorted(there)]

    def broken_promises(self) -> list[str]:
        """Return what is not as it must be, in sentences; empty when all is well."""
        by_name = {each.name: each for each in self.containers.values()}
        broken = [
            sentence
            for name, promise in PROMISES.items()
            for sentence in self._broken(promise, by_name.get(name))
        ]
        if not self.instances:
            broken.append("no instance was ever seen")
        broken += [
            f"instance {each.id} is still there ({each.state})"
            for each in self.instances.values()
            if each.gone_s is None
        ]
        if self.instances and not any(_idled(each) for each in self.instances.values()):
            broken.append(f"no instance was idle for {IDLE_TIMEOUT_S:g} s before it was shut down")
        if self.most_instances > QUOTA_INSTANCES:
            broken.append(f"{self.most_instances} instances at once, of {QUOTA_INSTANCES} allowed")
        return broken

    def _broken(self, promise: Promise, seen: ContainerAnswer | None) -> list[str]:
        if seen is None:
            return [f"{promise.name} was never submitted"]
        broken = []
        if seen.state != promise.state:
            broken.append(f"{promise.name} is {seen.state}, and not {promise.state}")
        elif promise.exit_code is not None and seen.exit_code != promise.exit_code:
            broken.append(
                f"{promise.name} ended with {seen.exit_code}, and not {promise.exit_code}"
            )
        if promise.says and promise.says not in self.outputs.get(seen.id, "").splitlines():
            broken.append(f"the log of {promise.name} lacks the line '{promise.says}'")
        if promise.cancelled and seen.id not in self.seen_running:
            broken.append(f"{promise.name} was not seen running before it was cancelled")
        return broken


def container_sentence(seen: ContainerAnswer) -> str:
    """Return what is told when a container changed state."""
    match seen.state:
        case "queued":
            return f"{seen.name} is queued, priority {seen.priority}, {seen.cpus:g} cpu"
        case "locked":
            return f"{seen.name} has a place"
        case "running":
            return f"{seen.name} runs on {seen.instance or '?'} ({seen.instance_type or '?'})"
        case _ if seen.exit_code is not None:
            return f"{seen.name} {seen.state} with exit code {seen.exit_code}"
        case _:
            return f"{seen.name} {seen.state}"


def _stage(seen: ContainerAnswer) -> str:
    """Return the state, but one for all that wait: places are given and taken back at quota."""
    return "waiting" if seen.state in {"queued", "locked"} else seen.state


def _idled(story: InstanceStory) -> bool:
    """Return whether it had been idle for its time; at quota it may have to go sooner."""
    if story.first_idle_s is None or story.shut_down_s is None:
        return False
    return story.shut_down_s - story.first_idle_s > IDLE_TIMEOUT_S - EVENTS_MAY_LAG_S


def _as_data(seen: ContainerAnswer) -> dict[str, Any]:
    data: dict[str, Any] = to_builtins(seen, builtin_types=(Decimal,))
    return data
