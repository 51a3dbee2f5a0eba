"""Names of MCP tools for the model."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluice.mcp.names import alias


def test_a_plain_name_is_prefixed_and_otherwise_left_alone() -> None:
    assert alias("srv", "read-it", 0) == "srv_read-it"


@pytest.mark.requirement("client-mcp.tools.generation-aliases", "client-mcp.tools.grants-not-transferred")
def test_each_generation_has_names_of_its_own() -> None:
    names = {alias("srv", tool, generation) for tool in ("a", "b" * 80) for generation in range(3)}
    assert len(names) == 6


@pytest.mark.requirement("client-mcp.tools.generation-aliases")
@given(st.lists(st.tuples(st.text(min_size=1), st.text()), max_size=6, unique=True), st.integers(0, 10**6))
def test_names_suit_every_provider_and_are_never_given_twice(pairs: list[tuple[str, str]], generation: int) -> None:
    taken: set[str] = set()
    for server, tool in pairs:
        name = alias(server, tool, generation, taken)
        assert re.fullmatch(r"[A-Za-z0-9_-]{1,64}", name)
        assert name not in taken
        taken.add(name)


def test_names_equal_but_for_the_last_character_stay_apart() -> None:
    assert alias("s", "n" * 80 + "a", 0) != alias("s", "n" * 80 + "b", 0)
    assert alias("s", "a.b", 0) != alias("s", "a/b", 0)
