"""Records as Hypothesis draws them: any valid Unicode, any number a column can hold."""

from __future__ import annotations

import base64

from hypothesis import strategies as st

from sluice.persistence.records import Item, Message, Part, SessionRecord, ToolCallRecord, Usage

TEXT = st.text(max_size=20)
COUNTS = st.integers(0, 2**53)
MONEY = st.floats(0, 1e9)

USAGE = st.builds(Usage, COUNTS, COUNTS, COUNTS, COUNTS, st.none() | MONEY, COUNTS)
DATA = TEXT | st.binary(min_size=700, max_size=900).map(lambda data: base64.b64encode(data).decode())
PARTS = st.builds(Part, TEXT, TEXT, DATA, TEXT, TEXT, COUNTS, st.booleans())
CALLS = st.builds(ToolCallRecord, TEXT, TEXT, TEXT)
MESSAGES = st.builds(
    Message,
    role=TEXT,
    parts=st.lists(PARTS, max_size=3).map(tuple),
    id=TEXT,
    agent=TEXT,
    model=TEXT,
    thought=TEXT,
    tool_calls=st.lists(CALLS, max_size=3).map(tuple),
    tool_call_id=TEXT,
    tool_name=TEXT,
    status=TEXT,
    finish_reason=TEXT,
    usage=st.none() | USAGE,
    carried=TEXT,
    implicit=st.booleans(),
)
ITEMS = st.builds(
    Item,
    kind=TEXT,
    message=st.none() | MESSAGES,
    text=TEXT,
    code=TEXT,
    session_id=TEXT,
    first_kept=st.none() | COUNTS,
    usage=st.none() | USAGE,
)
SESSIONS = st.builds(
    SessionRecord,
    id=TEXT,
    created_at=st.integers(0, 2**51).map(lambda microseconds: microseconds / 1_000_000),
    cwd=st.none() | TEXT,
    title=st.none() | TEXT,
    mode=TEXT,
    agent=TEXT,
    model_overrides=st.dictionaries(TEXT, TEXT, max_size=3),
    grants=st.lists(TEXT, max_size=3).map(tuple),
    context_tokens=COUNTS,
    cost=MONEY,
)
