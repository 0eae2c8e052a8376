"""The trace that a request is part of, as W3C Trace Context has it; pure.

Who submits something within a trace says so in the header `traceparent`. It is kept as the variable
`TRACEPARENT` of what was submitted, as OpenTelemetry passes a trace on to processes: so the program
goes on with the trace, a restart knows of it, and the container's spans are part of it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Final

from longshore.dispatcher.domain.containers import ContainerSpec

TRACEPARENT: Final = "TRACEPARENT"
"""The variable of a container's environment."""

_FORM = re.compile(r"([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?")
_SAMPLED = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceParent:
    """The span that asks, by the ids of W3C; `is_sampled` says whether its trace is recorded."""

    trace_id: int
    span_id: int
    is_sampled: bool

    def __str__(self) -> str:
        """Return it as the header has it."""
        return f"00-{self.trace_id:032x}-{self.span_id:016x}-{int(self.is_sampled):02x}"


def trace_parent(header: str) -> TraceParent | None:
    """Return what the value of a header says, None for what is none: W3C has that ignored."""
    found = _FORM.fullmatch(header.strip())
    if found is None:
        return None
    version, trace_id, span_id, flags, more = found.groups()
    if (
        version == "ff"
        or (version == "00" and more)
        or not (int(trace_id, 16) and int(span_id, 16))
    ):
        return None
    return TraceParent(
        trace_id=int(trace_id, 16),
        span_id=int(span_id, 16),
        is_sampled=bool(int(flags, 16) & _SAMPLED),
    )


def parent_of(spec: ContainerSpec) -> TraceParent | None:
    """Return the trace that a container is part of, None for none."""
    said = next((value for name, value in spec.env if name == TRACEPARENT), "")
    return trace_parent(said)


def within(spec: ContainerSpec, header: str) -> ContainerSpec:
    """Return a specification as part of the trace that a request's header names.

    One that has a `TRACEPARENT` of its own keeps it; a header that is none changes nothing.
    """
    parent = trace_parent(header)
    taken = {name for name, _ in (*spec.env, *spec.sealed_env)}
    if parent is None or TRACEPARENT in taken:
        return spec
    return replace(spec, env=tuple(sorted((*spec.env, (TRACEPARENT, str(parent))))))
