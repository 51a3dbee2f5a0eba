"""Hypothesis strategies for JSON, wild and near to a valid message."""

from __future__ import annotations

import copy
from typing import Any

from hypothesis import strategies as st

from tests.acp.golden_params import PARAMS

__all__ = ["JSON", "near_params"]

KEYS = st.one_of(
    st.sampled_from(["sessionId", "cwd", "mcpServers", "prompt", "type", "name", "url", "headers", "_meta", "text"]),
    st.text(max_size=8),
)
SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**70), 2**70),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(max_size=12),
)
JSON = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(KEYS, inner, max_size=4),
    max_leaves=12,
)
"""Any JSON value."""


def _places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    items: list[tuple[Any, Any]] = []
    if isinstance(value, dict):
        items = list(value.items())
    elif isinstance(value, list):
        items = list(enumerate(value))
    return [path, *[place for key, item in items for place in _places(item, (*path, key))]]


@st.composite
def near_params(draw: st.DrawFn) -> tuple[str, Any]:
    """A method and golden params in which one place has been replaced by any JSON value."""
    method, _, wire = draw(st.sampled_from(PARAMS))
    *parents, last = draw(st.sampled_from([place for place in _places({"params": wire}) if place]))
    root = {"params": copy.deepcopy(wire)}
    target: Any = root
    for key in parents:
        target = target[key]
    target[last] = draw(JSON)
    return method, root["params"]
