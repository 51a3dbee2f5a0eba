"""Client capabilities are read with leniency and never guessed."""

from __future__ import annotations

import json
from typing import Any

import pytest
from acp.schema import ClientCapabilities as SdkClientCapabilities
from hypothesis import given
from hypothesis import strategies as st

from sluice.acp import ClientCapabilities
from tests.acp.strategies import JSON

NONE = ClientCapabilities()
FULL_WIRE = {
    "fs": {"readTextFile": True, "writeTextFile": True},
    "terminal": True,
    "elicitation": {"form": {}, "url": {}},
    "session": {"configOptions": {"boolean": {}}, "notices": {}, "compaction": {}},
    "auth": {"terminal": True},
}


@pytest.mark.requirement("initialize.client.missing-capabilities")
@pytest.mark.parametrize(
    "value",
    [
        None, {}, 3, "x", [], True,
        {"fs": None}, {"fs": {}}, {"fs": 3}, {"fs": {"readTextFile": 1}}, {"fs": {"readTextFile": "true"}},
        {"terminal": None}, {"terminal": "yes"}, {"terminal": 1}, {"terminal": {}},
        {"elicitation": None}, {"elicitation": {}}, {"elicitation": True}, {"elicitation": {"form": True}},
        {"elicitation": {"url": []}}, {"elicitation": {"form": None, "url": None}},
        {"session": {"configOptions": {"boolean": True}}}, {"session": []}, {"session": {"configOptions": None}},
        {"auth": {"terminal": {}}},
    ],
    ids=json.dumps,
)  # fmt: skip
def test_whatever_is_missing_or_malformed_is_unsupported(value: Any) -> None:
    assert ClientCapabilities.from_wire(value) == NONE


@pytest.mark.requirement("initialize.client.unknown-capabilities")
def test_unknown_keys_and_vendor_metadata_are_ignored() -> None:
    wire = {"fs": {"readTextFile": True, "watch": True, "_meta": {"a": 1}}, "nes": {}, "_meta": None}
    assert ClientCapabilities.from_wire(wire) == ClientCapabilities(fs_read=True)


def test_every_capability_is_seen() -> None:
    view = ClientCapabilities.from_wire(FULL_WIRE)
    assert all(getattr(view, name) is True for name in view.__struct_fields__)
    assert view.to_wire() == FULL_WIRE


@given(st.builds(ClientCapabilities, **{name: st.booleans() for name in NONE.__struct_fields__}))
def test_a_view_survives_the_way_over_the_wire(view: ClientCapabilities) -> None:
    assert ClientCapabilities.from_wire(view.to_wire()) == view
    SdkClientCapabilities.model_validate(view.to_wire())


@given(JSON)
def test_reading_never_fails(value: Any) -> None:
    ClientCapabilities.from_wire(value)
    ClientCapabilities.from_wire({"fs": value, "terminal": value, "elicitation": value, "session": value})


@pytest.mark.parametrize(
    ("gate", "field"),
    [
        ("fs.readTextFile", "fs_read"),
        ("fs.writeTextFile", "fs_write"),
        ("terminal", "terminal"),
        ("elicitation.form", "elicitation_form"),
        ("elicitation.url", "elicitation_url"),
        ("session.configOptions.boolean", "boolean_options"),
        ("session.notices", "notices"),
        ("session.compaction", "compaction"),
        ("auth.terminal", "auth_terminal"),
    ],
)
def test_a_gate_opens_with_its_own_capability_only(gate: str, field: str) -> None:
    full = ClientCapabilities.from_wire(FULL_WIRE)
    others = ClientCapabilities(**{name: name != field for name in NONE.__struct_fields__})
    assert full.allows(gate)
    assert not others.allows(gate)


def test_either_mode_opens_elicitation() -> None:
    assert ClientCapabilities(elicitation_form=True).allows("elicitation")
    assert ClientCapabilities(elicitation_url=True).allows("elicitation")
    assert not NONE.allows("elicitation")


def test_a_gate_nobody_knows_is_a_bug() -> None:
    with pytest.raises(KeyError):
        NONE.allows("nope")
