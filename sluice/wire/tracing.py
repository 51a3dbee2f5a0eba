"""Trace context of W3C in `_meta`: read from requests, passed on in what is sent for them, and spans if wanted.

Only this module and the command line know OpenTelemetry, and it is loaded with `--otel` only. Without it the context
that a request came with is passed on as it is; with it, what is passed on is the context of the request's span.

The context belongs to a task: a task started for a request inherits it, and nothing is kept for a session. Read are
`traceparent` and `tracestate` of `params._meta` and nothing else: no baggage, and no `_meta` of a response.

Source: W3C Trace Context; ACP "Extensibility" (reserved keys of `_meta`); requirements `tracing.*`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

if TYPE_CHECKING:
    from opentelemetry.trace import Span, Tracer

__all__ = ["MAX_FIELD", "Spans", "Trace", "Tracing", "adopt", "current", "incoming", "stamped", "under"]

T = TypeVar("T")

MAX_FIELD = 512
"""Bytes of a field that is looked at (tracing.inbound.invalid-ignored)."""

MAX_MEMBERS = 32
"""Members of a tracestate; W3C allows no more."""

_CARRIED = ("traceparent", "tracestate")
_STALE = frozenset({*_CARRIED, "baggage"})

_PARENT = re.compile(r"([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?", re.ASCII)
_KEY = r"(?:[a-z0-9][a-z0-9_\-*/]{0,255}|[a-z0-9][a-z0-9_\-*/]{0,240}@[a-z][a-z0-9_\-*/]{0,13})"
_VALUE = r"[\x20-\x2b\x2d-\x3c\x3e-\x7e]{0,255}[\x21-\x2b\x2d-\x3c\x3e-\x7e]"
_MEMBER = re.compile(rf"({_KEY})=({_VALUE})", re.ASCII)


class Trace(msgspec.Struct, frozen=True):
    """A place in a trace. `tracestate` is "" for none; `span` is ours, None for a context that is only passed on."""

    traceparent: str
    tracestate: str = ""
    span: Span | None = None


_current: ContextVar[Trace | None] = ContextVar("sluice_trace", default=None)


def current() -> Trace | None:
    """The trace of this task, None when its request came without one and no spans are made."""
    return _current.get()


def adopt(trace: Trace | None) -> None:
    """Let the rest of this task belong to `trace`; for work that another task starts than the one that asked."""
    _current.set(trace)


@contextmanager
def under(trace: Trace | None) -> Iterator[None]:
    """Let what happens inside, and the tasks that are started there, belong to `trace`."""
    token = _current.set(trace)
    try:
        yield
    finally:
        _current.reset(token)


# --- from the wire


class _Params(msgspec.Struct):
    meta: msgspec.Raw = msgspec.field(name="_meta", default=msgspec.Raw(b"null"))


_PARAMS = msgspec.json.Decoder(_Params)


def incoming(params: bytes) -> Trace | None:
    """The context that a message came with; None when there is none or it is not valid.

    Args:
        params: raw JSON of the params.
    """
    if b"traceparent" not in params:
        return None
    try:
        meta = msgspec.json.decode(_PARAMS.decode(params).meta)
    except (msgspec.DecodeError, RecursionError):
        return None
    if not isinstance(meta, dict):
        return None
    parent = _parent(meta.get("traceparent"))
    return None if parent is None else Trace(parent, _state(meta.get("tracestate")))


def _parent(value: object) -> str | None:
    if not isinstance(value, str) or len(value) > MAX_FIELD:
        return None
    match = _PARENT.fullmatch(value)
    if match is None:
        return None
    version, trace_id, span_id, flags, more = match.groups()
    if version == "ff" or (version == "00" and more) or not int(trace_id, 16) or not int(span_id, 16):
        return None
    # A later version is read as far as this one goes, and passed on as this one.
    return value if version == "00" else f"00-{trace_id}-{span_id}-{int(flags, 16) & 1:02x}"


def _state(value: object) -> str:
    """The tracestate, "" for one that breaks the rules: it drops only itself (tracing.inbound.bad-tracestate)."""
    if not isinstance(value, str) or len(value.encode("utf-8", "replace")) > MAX_FIELD:
        return ""
    members = [member for piece in value.split(",") if (member := piece.strip(" \t"))]
    found = [_MEMBER.fullmatch(member) for member in members]
    keys = {match[1] for match in found if match is not None}
    return ",".join(members) if len(keys) == len(members) <= MAX_MEMBERS else ""


# --- to the wire


def stamped(params: T) -> T:
    """The params with this task's trace in a copy of their `_meta`, and without a trace or baggage of anybody else.

    What has no `meta` (a mapping, `$/cancel_request`) is returned as it is.
    """
    trace, meta = _current.get(), getattr(params, "meta", None)
    if trace is None and not meta:
        return params
    if not isinstance(params, msgspec.Struct) or not hasattr(params, "meta"):
        return params
    fresh = {key: value for key, value in (meta or {}).items() if key not in _STALE}
    if trace is not None:
        fresh["traceparent"] = trace.traceparent
        if trace.tracestate:
            fresh["tracestate"] = trace.tracestate
    return msgspec.structs.replace(params, meta=fresh or None)


# --- spans


class Tracing:
    """What one connection does about traces: the port of the turn, and the frame around each message.

    Args:
        spans: makes spans; None makes none, and contexts are passed on all the same.
    """

    def __init__(self, spans: Spans | None = None) -> None:
        self.spans = spans

    @contextmanager
    def serving(self, method: str, params: bytes) -> Iterator[Callable[[], None]]:
        """Handle one message under the trace it came with; yields what is to be called when it has been answered.

        Args:
            method: one that is implemented, so that the span's name is one of a few.
            params: raw JSON.
        """
        trace, end = incoming(params), _nothing
        if self.spans is not None:
            trace, end = self.spans.served(method, trace)
        with under(trace):
            yield end

    def span(self, name: str) -> AbstractContextManager[None]:
        """A span below that of this task, around a model call or a tool call."""
        return nullcontext() if self.spans is None else self.spans.span(name)

    def current(self) -> object:
        """The place of this task in its trace, for a ToolContext; None for none."""
        return current()


def _nothing() -> None:
    """What there is to do at the end when there is no span."""


class Spans:
    """Makes spans with one OpenTelemetry tracer; loaded with `--otel` only.

    A span holds its name and nothing that was said: no content, path, credential or error text. There are none for
    what is sent to the client, and none per chunk.
    """

    def __init__(self, tracer: Tracer) -> None:
        self._tracer = tracer

    def served(self, method: str, trace: Trace | None) -> tuple[Trace | None, Callable[[], None]]:
        """Begin the SERVER span of a message, a child of the trace it came with; returns its place and its end."""
        from opentelemetry.trace import SpanKind

        own = self._begin(f"acp.{method}", trace, SpanKind.SERVER)
        return own, own.span.end if own is not None and own.span is not None else _nothing

    @contextmanager
    def span(self, name: str) -> Iterator[None]:
        """A span below that of this task, around a model call or a tool call."""
        from opentelemetry.trace import SpanKind

        trace = self._begin(name, current(), SpanKind.INTERNAL)
        try:
            with under(trace):
                yield
        finally:
            if trace is not None and trace.span is not None:
                trace.span.end()

    def _begin(self, name: str, trace: Trace | None, kind: Any) -> Trace | None:
        from opentelemetry.trace import TraceFlags

        span = self._tracer.start_span(name, context=_context(trace), kind=kind)
        place = span.get_span_context()
        if not place.is_valid:
            return trace  # a tracer that is switched off makes no spans; what came is passed on
        flags = int(place.trace_flags) & (TraceFlags.SAMPLED | 0x02)
        parent = f"00-{place.trace_id:032x}-{place.span_id:016x}-{flags:02x}"
        return Trace(parent, place.trace_state.to_header(), span)


def _context(trace: Trace | None) -> Any:
    """The OpenTelemetry context that holds just this place; never the one that happens to be current."""
    from opentelemetry.context import Context
    from opentelemetry.trace import NonRecordingSpan, SpanContext, TraceFlags, set_span_in_context
    from opentelemetry.trace.span import TraceState

    if trace is None:
        return Context()
    if trace.span is not None:
        return set_span_in_context(trace.span, Context())
    _, trace_id, span_id, flags = trace.traceparent.split("-")
    state = TraceState.from_header([trace.tracestate]) if trace.tracestate else TraceState()
    place = SpanContext(int(trace_id, 16), int(span_id, 16), True, TraceFlags(int(flags, 16)), state)
    return set_span_in_context(NonRecordingSpan(place), Context())
