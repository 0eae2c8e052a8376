"""Sends spans to a collector by OTLP over HTTP, and speaks with nobody else.

The packages of the extra `otel` make the request. Its connection is kept narrow: no proxy of the
environment, nobody is followed elsewhere, and of an answer nothing is read but its status.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import requests
from opentelemetry.exporter.otlp.proto.http import Compression
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SpanExportResult
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import Link, SpanContext, SpanKind, Status, StatusCode, TraceFlags

from longshore.dispatcher.traces import spans

SEND_TIMEOUT_S: Final = 10.0

_SCOPE = InstrumentationScope("longshore")
_SAMPLED = TraceFlags(TraceFlags.SAMPLED)


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceTarget:
    """Where spans are sent, with which headers, and who says that it sends them."""

    url: str
    headers: Mapping[str, str] = field(repr=False)
    resource: Mapping[str, str]


class OtlpSender:
    """Sends spans, in one thread at a time."""

    def __init__(self, collector: TraceTarget, *, timeout_s: float = SEND_TIMEOUT_S) -> None:
        # What fails is told by who sends: these would write lines that are no JSON.
        told = logging.getLogger("opentelemetry")
        told.propagate = False
        if not told.handlers:
            told.addHandler(logging.NullHandler())
        self._resource = Resource(dict(collector.resource))
        self._session = _NarrowSession()
        self._exporter = OTLPSpanExporter(
            endpoint=collector.url,
            headers=dict(collector.headers),
            timeout=timeout_s,
            compression=Compression.Gzip,
            session=self._session,
        )

    def send(self, records: Sequence[spans.SpanRecord]) -> str:
        """Send spans; return why they were not taken, "" if they were."""
        self._session.why = ""
        result = self._exporter.export([self._span(each) for each in records])
        if result is SpanExportResult.SUCCESS:
            return ""
        return self._session.why or "it did not answer in time"

    def close(self) -> None:
        """End what goes on: a try that waits for the next one ends at once."""
        self._exporter.shutdown()  # type: ignore[no-untyped-call]  # it has no hint

    def _span(self, record: spans.SpanRecord) -> ReadableSpan:
        parent_id, trace_id = record.parent_id, record.context.trace_id
        parent = None if parent_id is None else _context(trace_id, parent_id)
        link = record.link
        return ReadableSpan(
            name=record.name,
            context=_context(trace_id, record.context.span_id),
            parent=parent,
            resource=self._resource,
            attributes=record.attributes,
            links=() if link is None else (Link(_context(link.trace_id, link.span_id)),),
            kind=SpanKind.INTERNAL,
            status=Status(StatusCode.ERROR if record.has_failed else StatusCode.UNSET),
            start_time=record.start_ns,
            end_time=record.end_ns,
            instrumentation_scope=_SCOPE,
        )


def _context(trace_id: int, span_id: int) -> SpanContext:
    return SpanContext(trace_id, span_id, is_remote=False, trace_flags=_SAMPLED)


class _NarrowSession(requests.Session):
    """A session that reads no more of an answer than its status, and says what went wrong."""

    def __init__(self) -> None:
        super().__init__()
        self.trust_env = False
        #: What became of the last request that was not taken, "" of one that was.
        self.why = ""

    def send(self, request: requests.PreparedRequest, **kwargs: Any) -> requests.Response:
        """Send a request; raises what `requests` does, also for an answer that leads elsewhere."""
        try:
            answer = super().send(request, **{**kwargs, "stream": True, "allow_redirects": False})
        except requests.RequestException as error:
            self.why = _why(error)
            raise
        answer.close()
        if answer.status_code >= 300:
            self.why = f"it answered {answer.status_code}"
        if 300 <= answer.status_code < 400:
            raise requests.TooManyRedirects("it leads elsewhere")
        return answer


def _why(error: requests.RequestException) -> str:
    """Return what went wrong without the address, which may be a secret."""
    match error:
        case requests.exceptions.SSLError():
            return "its certificate is not trusted"
        case requests.exceptions.Timeout():
            return "it did not answer in time"
        case requests.exceptions.ConnectionError():
            return "it cannot be reached"
        case _:
            return type(error).__name__
