"""From the model's text to checked arguments."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluice.agent.arguments import parse
from sluice.agent.ports import ToolFailure, ToolSpec

SPEC = ToolSpec(
    "probe",
    "",
    {
        "type": "object",
        "properties": {
            "path": {"type": "string"},
            "line": {"type": "integer"},
            "ratio": {"type": "number"},
            "all": {"type": "boolean"},
            "mode": {"type": "string", "enum": ["a", "b"]},
            "maybe": {"type": ["string", "null"]},
            "edits": {
                "type": "array",
                "items": {"type": "object", "properties": {"old": {"type": "string"}}, "required": ["old"]},
            },
            "odd": {"type": "date"},
            "free": {},
        },
        "required": ["path"],
    },
)


def read(**arguments: Any) -> dict[str, Any]:
    return parse(json.dumps({"path": "p", **arguments}), SPEC)


def test_no_text_is_no_arguments() -> None:
    assert parse("", ToolSpec("x", "", {"type": "object"})) == {}
    assert parse(" \n", ToolSpec("x", "", {})) == {}


@pytest.mark.requirement("tool-lifecycle.status.errors")
@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ('{"path": "a', "not valid JSON"),
        ("[1]", "one JSON object"),
        ("null", "one JSON object"),
        ('{"path": NaN}', "not valid JSON"),
        ("", "path is missing"),
        ('{"path": 3}', "path must be string, not number"),
        ('{"path": "a", "line": "two"}', "line must be integer, not string"),
        ('{"path": "a", "line": 1.5}', "line must be integer, not number"),
        ('{"path": "a", "line": true}', "line must be integer, not boolean"),
        ('{"path": "a", "all": 1}', "all must be boolean"),
        ('{"path": "a", "mode": "c"}', "mode must be one of a, b"),
        ('{"path": "a", "edits": {}}', "edits must be array, not object"),
        ('{"path": "a", "edits": [{"old": "x"}, {}]}', r"edits\[1\].old is missing"),
        ('{"path": null}', "path must be string, not null"),
        ("[" * 200_000, "nested too deeply|not valid JSON"),
    ],
)
def test_the_model_is_told_what_is_wrong(text: str, reason: str) -> None:
    with pytest.raises(ToolFailure, match=reason):
        parse(text, SPEC)


def test_harmless_mistakes_are_repaired() -> None:
    assert read(line="3")["line"] == 3
    assert read(line=3.0)["line"] == 3
    assert read(ratio="0.5")["ratio"] == 0.5
    assert read(all="True")["all"] is True
    assert read(all="false")["all"] is False


def test_an_optional_null_is_left_out_and_a_wanted_one_stays() -> None:
    assert read(line=None, maybe=None) == {"path": "p", "maybe": None}


def test_what_the_schema_does_not_say_is_left_alone() -> None:
    assert read(odd=1, free=[None], extra={"a": None}) == {
        "path": "p",
        "odd": 1,
        "free": [None],
        "extra": {"a": None},
    }


def test_the_alias_of_the_shell_command_becomes_the_one_name_that_rules_know() -> None:
    shell = ToolSpec("shell", "", {"type": "object", "properties": {"cmd": {"type": "string"}}, "required": ["cmd"]})
    assert parse('{"command": "ls"}', shell) == {"cmd": "ls"}
    assert parse('{"command": "ls", "cmd": "ls"}', shell) == {"cmd": "ls"}
    with pytest.raises(ToolFailure, match="differ"):
        parse('{"command": "rm x", "cmd": "ls"}', shell)


@given(st.text())
def test_any_text_gives_an_object_or_a_failure(text: str) -> None:
    try:
        assert isinstance(parse(text, SPEC), dict)
    except ToolFailure as failure:
        assert str(failure)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@given(st.dictionaries(st.sampled_from(sorted(SPEC.parameters["properties"])), JSON))
def test_what_passes_passes_again_unchanged(arguments: dict[str, Any]) -> None:
    try:
        once = parse(json.dumps(arguments), SPEC)
    except ToolFailure:
        return
    assert parse(json.dumps(once), SPEC) == once
