"""Trace contexts as they are read and written, without a server around."""

from __future__ import annotations

import json
import string
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluice import acp
from sluice.wire.tracing import Trace, current, incoming, stamped, under

TRACE, SPAN = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
PARENT = f"00-{TRACE}-{SPAN}-01"


def params(**meta: Any) -> bytes:
    return json.dumps({"sessionId": "s", "_meta": meta}).encode()


@pytest.mark.requirement("tracing.inbound.params-meta-only", "tracing.inbound.no-baggage")
def test_the_two_fields_of_the_params_are_read_and_nothing_else() -> None:
    assert incoming(params(traceparent=PARENT, tracestate="a=1", baggage="b=2", other=3)) == Trace(PARENT, "a=1")
    assert incoming(json.dumps({"traceparent": PARENT, "meta": {"traceparent": PARENT}}).encode()) is None
    assert incoming(json.dumps({"prompt": [{"_meta": {"traceparent": PARENT}}]}).encode()) is None
    assert incoming(params(tracestate="a=1")) is None
    assert incoming(b"") is None and incoming(b'["traceparent"]') is None and incoming(b'{"traceparent":') is None


@pytest.mark.requirement("tracing.inbound.invalid-ignored")
@pytest.mark.parametrize(
    "parent",
    [
        None,
        7,
        [PARENT],
        "",
        PARENT.upper(),
        PARENT + "-more",
        PARENT + "\n",
        " " + PARENT,
        f"ff-{TRACE}-{SPAN}-01",
        f"00-{'0' * 32}-{SPAN}-01",
        f"00-{TRACE}-{'0' * 16}-01",
        f"00-{TRACE[:-1]}g-{SPAN}-01",
        f"00-{TRACE}-{SPAN}-1",
        f"01-{TRACE}-{SPAN}-01-" + "x" * 512,
    ],
)
def test_a_context_that_breaks_the_rules_is_none(parent: object) -> None:
    assert incoming(params(traceparent=parent, tracestate="a=1")) is None


def test_a_later_version_is_read_as_this_one() -> None:
    assert incoming(params(traceparent=f"cc-{TRACE}-{SPAN}-ff-more")) == Trace(PARENT)


@pytest.mark.requirement("tracing.inbound.bad-tracestate")
@pytest.mark.parametrize(
    ("state", "kept"),
    [
        ("a=1, b@c=2 ,", "a=1,b@c=2"),
        ("a=" + "x" * 200 + ",b=" + "x" * 200, "a=" + "x" * 200 + ",b=" + "x" * 200),
        (",".join(f"k{n}=v" for n in range(32)), ",".join(f"k{n}=v" for n in range(32))),
        (",".join(f"k{n}=v" for n in range(33)), ""),
        ("a=1,a=2", ""),
        ("A=1", ""),
        ("a", ""),
        ("a=é", ""),
        ("a=1,b=" + "x" * 256 + ",c=" + "y" * 256, ""),
        (9, ""),
        (None, ""),
    ],
)
def test_a_state_that_breaks_the_rules_drops_only_itself(state: object, kept: str) -> None:
    assert incoming(params(traceparent=PARENT, tracestate=state)) == Trace(PARENT, kept)


@given(st.one_of(st.text(alphabet=string.hexdigits + "-", max_size=60), st.text(max_size=600), st.integers()))
def test_whatever_comes_is_read_without_an_error(value: object) -> None:
    found = incoming(params(traceparent=value, tracestate=value))
    assert found is None or (isinstance(value, str) and found.traceparent.startswith("00-"))


@pytest.mark.requirement("tracing.outbound.two-keys", "tracing.outbound.nothing-more")
def test_what_is_sent_gets_the_two_keys_in_a_copy_and_loses_stale_ones() -> None:
    meta = {"own": 1, "traceparent": "old", "tracestate": "old", "baggage": "old"}
    note = acp.ReadTextFileRequest("s", "/a", meta=meta)
    with under(Trace(PARENT, "a=1")):
        assert acp.encode(stamped(note)) == acp.encode(
            acp.ReadTextFileRequest("s", "/a", meta={"own": 1, "traceparent": PARENT, "tracestate": "a=1"})
        )
        plain = {"requestId": 1}
        assert stamped(plain) is plain and stamped(None) is None
    with under(Trace(PARENT)):
        assert stamped(acp.ReadTextFileRequest("s", "/a")).meta == {"traceparent": PARENT}
    assert stamped(note).meta == {"own": 1} and meta["traceparent"] == "old"
    bare = acp.ReadTextFileRequest("s", "/a")
    assert stamped(bare) is bare and current() is None
