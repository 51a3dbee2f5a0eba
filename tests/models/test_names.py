from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st

from sluice.models.names import WireNames, wire_id

PATTERN = re.compile(r"[a-zA-Z0-9_-]{1,64}")


@given(st.lists(st.text(max_size=100), unique=True, max_size=20))
def test_every_name_is_sendable_distinct_and_comes_back(names: list[str]) -> None:
    wire = WireNames(names)
    sent = [wire.wire(name) for name in names]
    assert all(PATTERN.fullmatch(name) for name in sent)
    assert len(set(sent)) == len(names)
    assert [wire.ours(name) for name in sent] == names


@given(st.text(max_size=100))
def test_an_id_is_sendable_and_always_the_same(given_id: str) -> None:
    sent = wire_id(given_id)
    assert re.fullmatch(r"[a-zA-Z0-9_-]{1,40}", sent)
    assert sent == wire_id(given_id)


def test_fine_names_stay_as_they_are() -> None:
    assert WireNames().wire("read_file") == "read_file"
    assert wire_id("call_1") == "call_1"


def test_a_name_the_model_made_up_is_returned_as_it_is() -> None:
    assert WireNames(["a"]).ours("made.up") == "made.up"
