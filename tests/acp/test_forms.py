"""Forms: the schemas that are understood, and the answers that fit."""

from __future__ import annotations

import contextlib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluice import acp
from sluice.acp.base import convert
from sluice.acp.forms import FormError, check_content, check_schema

Json = dict[str, Any]

CHOICES: Json = {
    "type": "string",
    "oneOf": [{"const": "a", "title": "A", "description": "first"}, {"const": "b", "title": "B"}],
}
SEVERAL: Json = {"type": "array", "items": {"type": "string", "enum": ["x", "y"]}, "minItems": 1, "maxItems": 2}
TITLED: Json = {"type": "array", "items": {"anyOf": [{"const": "x", "title": "X"}]}, "default": ["x"]}
FIELDS: list[Json] = [
    {"type": "string"},
    {"type": "string", "title": "T", "description": "D", "minLength": 1, "maxLength": 5, "default": "abc"},
    {"type": "string", "pattern": "^[a-z]+$"},
    {"type": "string", "format": "email"},
    {"type": "string", "enum": ["a", "b"], "default": "b"},
    CHOICES,
    {"type": "number", "minimum": 0.5, "maximum": 2, "default": 1},
    {"type": "integer", "minimum": -3, "maximum": 3, "default": 0},
    {"type": "boolean", "default": True},
    SEVERAL,
    TITLED,
]


def form(field: Any, **more: Any) -> Json:
    return {"type": "object", "properties": {"f": field}, **more}


@pytest.mark.requirement("elicitation.schema.supported")
@pytest.mark.parametrize("field", FIELDS)
def test_flat_fields_are_understood_and_survive_our_own_types(field: Json) -> None:
    schema = form(field, title="t", description="d", required=["f"])
    check_schema(schema)
    assert convert(schema, acp.ElicitationSchema).properties


@pytest.mark.requirement("elicitation.schema.declined", "elicitation.limits.big-integers")
@pytest.mark.parametrize(
    "field",
    [
        {"type": "object", "properties": {}},
        {"type": "array", "items": {"type": "string"}},
        {"type": "array", "items": {"type": "array", "items": {"type": "string", "enum": ["a"]}}},
        {"type": "array"},
        {"type": "array", "items": {"type": "string", "enum": ["a"]}, "uniqueItems": True},
        {"type": "array", "items": {"type": "string", "enum": ["a"], "anyOf": [{"const": "a", "title": "A"}]}},
        {"$ref": "#/$defs/x"},
        {"anyOf": [{"type": "string"}, {"type": "null"}]},
        {"type": ["string", "null"]},
        {"type": "null"},
        {},
        "string",
        {"type": "string", "format": "ipv4"},
        {"type": "string", "format": "password"},
        {"type": "string", "pattern": "(a+)+$"},
        {"type": "string", "contentEncoding": "base64"},
        {"type": "string", "enum": []},
        {"type": "string", "enum": ["a", "a"]},
        {"type": "string", "enum": ["a", 1]},
        {"type": "string", "enum": ["a"], "enumNames": ["A"]},
        {"type": "string", "enum": ["a"], "oneOf": [{"const": "a", "title": "A"}]},
        {"type": "string", "oneOf": [{"const": "a"}]},
        {"type": "string", "oneOf": [{"const": "a", "title": "A", "$ref": "x"}]},
        {"type": "string", "minLength": -1},
        {"type": "string", "minLength": 3, "maxLength": 2},
        {"type": "string", "default": 3},
        {"type": "string", "enum": ["a"], "default": "b"},
        {"type": "string", "title": 3},
        {"type": "number", "exclusiveMinimum": 0},
        {"type": "number", "multipleOf": 2},
        {"type": "number", "minimum": "0"},
        {"type": "number", "maximum": 1e300},
        {"type": "number", "maximum": float("inf")},
        {"type": "integer", "maximum": 2**53},
        {"type": "integer", "default": -(2**53)},
        {"type": "integer", "minimum": 0.5},
        {"type": "boolean", "default": "yes"},
    ],
)
def test_what_cannot_be_checked_in_full_is_not_understood(field: Any) -> None:
    with pytest.raises(FormError):
        check_schema(form(field))


@pytest.mark.requirement("elicitation.schema.declined")
@pytest.mark.parametrize(
    "schema",
    [
        None,
        [],
        {},
        {"type": "string"},
        {"type": "object", "properties": []},
        {"type": "object", "additionalProperties": False},
        {"type": "object", "$defs": {}},
        {"type": "object", "$schema": "https://json-schema.org/draft/2020-12/schema"},
        {"type": "object", "allOf": []},
        {"type": "object", "properties": {}, "required": ["x"]},
        {"type": "object", "properties": {}, "required": "x"},
        {"type": "object", "title": 3},
    ],
)
def test_what_is_no_flat_object_is_not_understood(schema: object) -> None:
    with pytest.raises(FormError):
        check_schema(schema)


@pytest.mark.requirement("elicitation.reply.validated", "elicitation.limits.big-integers")
@pytest.mark.parametrize(
    ("field", "good", "bad"),
    [
        ({"type": "string"}, ["", "x", "é"], [1, None, True, ["x"], {}]),
        ({"type": "string", "minLength": 2, "maxLength": 3}, ["ab", "abc"], ["a", "abcd"]),
        ({"type": "string", "pattern": "^[a-z]+$"}, ["a"], ["A", "a\n", ""]),
        ({"type": "string", "format": "email"}, ["a.b+c@d.example"], ["a", "a@", "@b", "a b@c", "a@b@c", "a@b\n"]),
        (
            {"type": "string", "format": "uri"},
            ["https://a/b?c#d", "mailto:a@b"],
            ["a", "//a", "http://a b", "http://["],
        ),
        ({"type": "string", "format": "date"}, ["2024-02-29"], ["2023-02-29", "20240229", "2024-2-9", "x"]),
        (
            {"type": "string", "format": "date-time"},
            ["2024-02-29T10:00:00Z", "2024-02-29t10:00:00.123456789+01:30"],
            ["2024-02-30T10:00:00Z", "2024-02-29 10:00:00Z", "2024-02-29T10:00:00", "2024-02-29T25:00:00Z"],
        ),
        ({"type": "string", "enum": ["a"]}, ["a"], ["b", "A"]),
        (CHOICES, ["a", "b"], ["A"]),
        ({"type": "number", "minimum": 0, "maximum": 2}, [0, 1.5, 2], [-1, 2.5, "1", True, None]),
        ({"type": "number"}, [2**53 - 1, -0.0], [2**53, -(2**53), 1e300, float("inf"), float("nan")]),
        ({"type": "integer"}, [0, -5, 2**53 - 1], [1.5, "1", True, 9007199254740992, -9007199254740992, 10**400]),
        ({"type": "boolean"}, [True, False], [0, 1, "true", None]),
        (SEVERAL, [["x"], ["y", "x"]], [[], ["x", "x"], ["z"], "x", [1], None]),
        (TITLED, [[], ["x"]], [["X"], ["x", "x"]]),
    ],
)
def test_a_value_fits_its_field_or_the_answer_is_none(field: Json, good: list[Any], bad: list[Any]) -> None:
    schema = form(field)
    check_schema(schema)
    for value in good:
        assert check_content(schema, {"f": value}) == {"f": value}
    for value in bad:
        with pytest.raises(FormError):
            check_content(schema, {"f": value})


def test_a_whole_number_written_as_a_fraction_is_that_number() -> None:
    checked = check_content(form({"type": "integer"}), {"f": 3.0})
    assert checked == {"f": 3} and isinstance(checked["f"], int)


@pytest.mark.requirement("elicitation.reply.validated")
def test_required_fields_must_be_there_and_others_must_not() -> None:
    schema = form({"type": "string"}, required=["f"])
    unfit: list[Any] = [{}, None, [], "x", {"f": "x", "g": "y"}]
    for content in unfit:
        with pytest.raises(FormError):
            check_content(schema, content)
    assert check_content(form({"type": "string"}), {}) == {}
    with pytest.raises(FormError):
        check_content(form({"type": "string"}), None)
    assert check_content({"type": "object"}, None) == {}


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


@given(st.sampled_from(FIELDS), JSON)
def test_no_answer_raises_anything_else(field: Json, value: Any) -> None:
    for content in (value, {"f": value}):
        with contextlib.suppress(FormError):
            check_content(form(field), content)


@given(JSON, st.sampled_from(["string", "number", "integer", "boolean", "array"]), st.text(max_size=8))
def test_no_schema_raises_anything_else(value: Any, kind: str, keyword: str) -> None:
    keywords = ["pattern", "format", "enum", "oneOf", "items", "minimum", "maxLength", "default", "title", keyword]
    for name in keywords:
        with contextlib.suppress(FormError):
            check_schema(form({"type": kind, name: value}))
