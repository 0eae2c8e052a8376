"""Spans, made of what the engine has recorded anyway; pure.

A container is a trace: `container`, from its submission to its end, and below it `submit` (the
instant at which it was taken in), and for each attempt `wait`, `start`, `stage` (its image was
fetched) and `run`. An instance is a trace of its own: `instance`, and below it `create`, `boot` and
what it was from then on (`empty`, `room`, `held`, ...). Spans of an attempt are linked with their
instance.

Ids follow from the ids of the store, the container, the attempt and the instance: the same span has
the same id whenever, and by whichever process, it is made. So what is sent twice is the same twice.

Attributes have the names of OpenTelemetry's semantic conventions where these have one, else they
begin with `longshore.`. Nothing is in them that a user may keep secret: no command, no environment,
and no sentence in which a cloud, an engine or a program says something in its own words.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from longshore.dispatcher.domain.containers import (
    Attempt,
    AttemptOutcome,
    Container,
    ContainerState,
)
from longshore.dispatcher.domain.ledger import OF_INSTANCE, BilledState, InstanceBill, Interval
from longshore.dispatcher.domain.trace_context import parent_of

AttributeValue = str | int | float | bool

MOST_STATES: Final = 1000
"""How many spans of what an instance was are made, the first ones."""

_BEFORE_READY = frozenset({BilledState.PENDING, BilledState.BOOTING})
_WELL = frozenset({AttemptOutcome.SUCCEEDED, AttemptOutcome.CANCELLED})
_LOW_BITS = 2**64 - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class SpanContext:
    """Which span: its trace's id, and its own."""

    trace_id: int
    span_id: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SpanRecord:
    """A span that has ended; times are nanoseconds since the epoch."""

    name: str
    context: SpanContext
    #: The id of the span that it is below, None for the first of its trace.
    parent_id: int | None
    start_ns: int
    end_ns: int
    attributes: Mapping[str, AttributeValue]
    #: The instance's, of an attempt's; None where there is none.
    link: SpanContext | None = None
    has_failed: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class InstanceFacts:
    """What is recorded of an instance: its bill, and what it was, in order."""

    bill: InstanceBill
    states: Sequence[Interval]


@dataclass(frozen=True, slots=True, kw_only=True)
class SpanMaker:
    """Makes the spans of one store.

    Of the traces that begin here `sample_ratio` are recorded, by their ids; of those that began
    elsewhere all of which that is said.
    """

    store: str
    sample_ratio: float = 1.0

    # ---- containers ----------------------------------------------------------------------------

    def of_container(self, container: Container, *, after: int) -> Iterator[SpanRecord]:
        """Yield the spans of attempts that have ended, but for the first `after`.

        Of a container that has ended also those of itself.
        """
        parent = parent_of(container.spec)
        own_trace = self._id("container", container.id, n_bytes=16)
        trace_id = own_trace if parent is None else parent.trace_id
        is_sampled = self._is_sampled(own_trace) if parent is None else parent.is_sampled
        if not is_sampled:
            return
        root = SpanContext(trace_id=trace_id, span_id=self._id("container", container.id))
        for place in range(after, len(container.attempts)):
            if container.attempts[place].outcome is not None:
                yield from self._of_attempt(container, place, root)
        if container.state.final and container.finished_at is not None:
            yield from self._whole(container, root, None if parent is None else parent.span_id)

    def _whole(
        self, container: Container, root: SpanContext, parent_id: int | None
    ) -> Iterator[SpanRecord]:
        created_at, ended_at = container.created_at, container.finished_at or 0.0
        yield self._below(root, "submit", container.id, (created_at, created_at))
        if not container.attempts:
            yield self._below(root, "wait", container.id, (created_at, ended_at))
        reason = container.reason
        attributes: dict[str, AttributeValue | None] = {
            "longshore.container.id": container.id,
            "longshore.container.name": container.spec.name,
            "longshore.container.state": container.state.value,
            "longshore.project": container.project,
            "user.name": container.user,
            "longshore.job.id": container.job_id or None,
            "longshore.job.task": container.task or None,
            "longshore.job.array_index": container.array_index,
            "longshore.attempts": len(container.attempts),
            "container.image.name": container.spec.image or None,
            "process.exit.code": container.exit_code,
            "error.type": None if reason is None else reason.code,
        }
        yield SpanRecord(
            name="container",
            context=root,
            parent_id=parent_id,
            start_ns=_ns(created_at),
            end_ns=max(_ns(created_at), _ns(ended_at)),
            attributes=_given(attributes),
            has_failed=container.state is ContainerState.FAILED,
        )

    def _of_attempt(
        self, container: Container, place: int, root: SpanContext
    ) -> Iterator[SpanRecord]:
        attempt = container.attempts[place]
        before = container.attempts[place - 1].finished_at if place else None
        waited_since = container.created_at if before is None else before
        link = self.instance_root(attempt.instance_id)
        attributes = _of_attempt(attempt)
        has_failed = attempt.outcome not in _WELL
        yield self._below(
            root, "wait", attempt.id, (waited_since, attempt.created_at), attributes=attributes
        )
        steps = _steps(attempt)
        for name, since, until in steps:
            is_last = name == steps[-1][0]
            yield self._below(
                root,
                name,
                attempt.id,
                (since, until),
                attributes=attributes,
                link=link,
                has_failed=has_failed and is_last,
            )

    # ---- instances -----------------------------------------------------------------------------

    def instance_root(self, instance_id: str) -> SpanContext:
        """Return which span is an instance's."""
        return SpanContext(
            trace_id=self._id("instance", instance_id, n_bytes=16),
            span_id=self._id("instance", instance_id),
        )

    def of_ready(self, story: InstanceFacts) -> Iterator[SpanRecord]:
        """Yield how an instance came to be ready: its `create` and its `boot`."""
        bill = story.bill
        root = self.instance_root(bill.instance_id)
        if not self._is_sampled(root.trace_id):
            return
        ended_ms = bill.gone_ms if bill.ready_ms is None else bill.ready_ms
        known = [bill.created_ms, bill.running_ms, ended_ms]
        for name, since_ms, until_ms in zip(("create", "boot"), known, known[1:], strict=False):
            if since_ms is None:
                continue
            end_ms = ended_ms if until_ms is None else until_ms
            if end_ms is not None:
                yield self._below(
                    root,
                    name,
                    bill.instance_id,
                    (since_ms / 1000, end_ms / 1000),
                    attributes=_of_instance(bill),
                    has_failed=bill.ready_ms is None and end_ms == ended_ms,
                )

    def of_gone(self, story: InstanceFacts) -> Iterator[SpanRecord]:
        """Yield what an instance that is gone was; one that never was ready has its beginning."""
        bill = story.bill
        root = self.instance_root(bill.instance_id)
        if not self._is_sampled(root.trace_id) or bill.gone_ms is None:
            return
        if bill.ready_ms is None:
            yield from self.of_ready(story)
        states = [
            each
            for each in story.states
            if each.holder == OF_INSTANCE
            and each.state not in _BEFORE_READY
            and each.until_ms is not None
        ]
        for each in states[:MOST_STATES]:
            yield self._below(
                root,
                each.state.value,
                f"{bill.instance_id}/{each.from_ms}",
                (each.from_ms / 1000, (each.until_ms or 0) / 1000),
                attributes=_of_instance(bill),
            )
        omitted = {"longshore.states_left_out": max(0, len(states) - MOST_STATES)}
        yield SpanRecord(
            name="instance",
            context=root,
            parent_id=None,
            start_ns=bill.created_ms * 10**6,
            end_ns=max(bill.created_ms, bill.gone_ms) * 10**6,
            attributes={**_of_instance(bill), **omitted},
            has_failed=bill.ready_ms is None,
        )

    # ---- what all of them have ------------------------------------------------------------------

    def _below(
        self,
        root: SpanContext,
        name: str,
        of: str,
        span_s: tuple[float, float],
        *,
        attributes: Mapping[str, AttributeValue] | None = None,
        link: SpanContext | None = None,
        has_failed: bool = False,
    ) -> SpanRecord:
        """Return a span below the first of its trace; none ends before it began."""
        since, until = span_s
        return SpanRecord(
            name=name,
            context=SpanContext(trace_id=root.trace_id, span_id=self._id(name, of)),
            parent_id=root.span_id,
            start_ns=_ns(since),
            end_ns=max(_ns(since), _ns(until)),
            attributes=attributes or {},
            link=link,
            has_failed=has_failed,
        )

    def _id(self, *words: str, n_bytes: int = 8) -> int:
        """Return an id that follows from words; never 0, which is none."""
        text = "\0".join((self.store, str(n_bytes), *words))
        return int.from_bytes(hashlib.sha256(text.encode()).digest()[:n_bytes]) or 1

    def _is_sampled(self, trace_id: int) -> bool:
        """Return whether a trace is recorded, as OpenTelemetry's sampler by ratio decides it."""
        return (trace_id & _LOW_BITS) < round(self.sample_ratio * 2**64)


def _steps(attempt: Attempt) -> list[tuple[str, float, float]]:
    """Return what followed on an attempt's placement: name, begin and end; one at least."""
    ended_at = attempt.finished_at or attempt.created_at
    if attempt.started_at is None:
        return [("start", attempt.created_at, ended_at)]
    steps = [("start", attempt.created_at, attempt.started_at)]
    runs_since: float | None = attempt.started_at
    if attempt.pulling_since is not None:
        fetched_at = attempt.pulled_at
        steps.append(
            ("stage", attempt.pulling_since, ended_at if fetched_at is None else fetched_at)
        )
        runs_since = fetched_at
    if runs_since is not None:
        steps.append(("run", runs_since, ended_at))
    return steps


def _of_attempt(attempt: Attempt) -> Mapping[str, AttributeValue]:
    outcome, reason = attempt.outcome, attempt.reason
    attributes: dict[str, AttributeValue | None] = {
        "longshore.container.id": attempt.container_id,
        "longshore.attempt.id": attempt.id,
        "longshore.attempt.number": attempt.number,
        "longshore.attempt.outcome": None if outcome is None else outcome.value,
        "host.id": attempt.instance_id,
        "host.type": attempt.instance_type,
        "container.image.id": attempt.image_digest or None,
        "process.exit.code": attempt.exit_code,
        "error.type": None if reason is None else reason.code,
    }
    return _given(attributes)


def _of_instance(bill: InstanceBill) -> Mapping[str, AttributeValue]:
    attributes: dict[str, AttributeValue | None] = {
        "host.id": bill.instance_id,
        "host.type": bill.provider_type or None,
        "longshore.instance.type": bill.type_name,
        "longshore.instance.preemptible": bill.preemptible,
        "longshore.project": bill.payer.project or None,
        "cloud.availability_zone": bill.billed.zone or None,
    }
    return _given(attributes)


def _given(attributes: Mapping[str, AttributeValue | None]) -> Mapping[str, AttributeValue]:
    return {name: value for name, value in attributes.items() if value is not None}


def _ns(at: float) -> int:
    return round(at * 1000) * 10**6
