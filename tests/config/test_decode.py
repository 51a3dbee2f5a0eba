from typing import Any

import pytest

from sluice.config.decode import Context, decode, describe, read
from sluice.config.errors import ConfigError
from sluice.config.tree import Node, parse


def node(text: str) -> Node:
    root = parse(text, "f.yaml")
    assert root is not None
    return root


def context(**env: str) -> Context:
    return Context("f.yaml", env)


@pytest.mark.parametrize(
    ("text", "kind", "expected"),
    [
        ("[1, 2]", tuple[int, ...], (1, 2)),
        ("{a: 1}", dict[str, int], {"a": 1}),
        ("{a: , b: 1}", dict[str, int], {"b": 1}),
        ("{a: , b: [null, {c: }]}", dict[str, Any], {"a": None, "b": (None, {"c": None})}),
        ("1", float, 1.0),
        ("x", str | None, "x"),
        ("5", int | str, 5),
    ],
)
def test_a_value_is_read_as_its_type(text: str, kind: Any, expected: object) -> None:
    assert read(context(), node(text), "k", kind) == expected


@pytest.mark.parametrize(
    ("text", "kind", "key"),
    [("{a: {b: x}}", dict[str, dict[str, int]], "k.a.b"), ("[[1], [1, x]]", tuple[tuple[int, ...], ...], "k[1][1]")],
)
def test_the_innermost_wrong_value_is_named(text: str, kind: Any, key: str) -> None:
    with pytest.raises(ConfigError) as caught:
        read(context(), node(text), "k", kind)
    assert (caught.value.key, caught.value.message) == (key, 'expected a whole number, got "x"')


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("short", '"short"'),
        (f"'{'x' * 41}'", "text"),
        ('"a\\nb"', "text"),
        ("null", "nothing"),
        ("true", "true (true or false)"),
        ("0x10", "the number 0x10"),
        ("[]", "a list"),
        ("{}", "a mapping"),
    ],
)
def test_a_value_is_described_as_it_was_written(text: str, words: str) -> None:
    assert describe(node(text)) == words


def test_a_key_that_is_not_built_and_in_the_shape_is_warned_about_and_still_checked() -> None:
    ctx = context()
    assert decode(ctx, node("rag: 1"), "", {"rag": int}, ("",)) == {"rag": 1}
    assert [warning.key for warning in ctx.warnings] == ["rag"]
    with pytest.raises(ConfigError):
        decode(context(), node("rag: x"), "", {"rag": int}, ("",))


def test_the_same_warning_at_the_same_place_counts_once() -> None:
    ctx = context()
    ctx.not_built(node("x"), "k")
    ctx.not_built(node("x"), "k")
    assert len(ctx.warnings) == 1
