"""`structured_output`: the schema of an agent's final answer, checked at load, and answers against it.

The schema is never fetched from anywhere: a reference leads to another place of the same schema or is an error.
Source: JSON Schema 2020-12; requirement config-file.agents.structured-output.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, NoReturn

from sluice.config.decode import Context, Shape, decode, describe, join, shape
from sluice.config.schema import StructuredOutput
from sluice.config.tree import Node

__all__ = ["STRUCTURED_SHAPE", "answer_problem", "read_structured_output"]

STRUCTURED_SHAPE: Shape = {"name": str, **shape(StructuredOutput, schema=Node)}

_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
_LONGEST = 200
"""Characters of what is said about an answer: it quotes the answer, which may be long."""


def read_structured_output(ctx: Context, node: Node | None, key: str) -> StructuredOutput | None:
    """The form of the final answer, None when the agent has none.

    Raises:
        ConfigError: a key is wrong, or the schema is none.
    """
    if node is None:
        return None
    values = decode(ctx, node, key, STRUCTURED_SHAPE)
    for needed in ("name", "schema"):
        if needed not in values:
            raise ctx.error(node, join(key, needed), "structured_output needs a name and a schema")
    if not _NAME.fullmatch(values["name"]):
        raise ctx.error(node, join(key, "name"), "expected 1 to 64 letters, digits, _ and - without spaces")
    place: Node = values["schema"]
    schema = place.plain()
    problem = _schema_problem(schema) if isinstance(schema, dict) else f"it is {describe(place)}"
    if problem is not None:
        raise ctx.error(place, join(key, "schema"), f"is no usable JSON schema: {problem}")
    return StructuredOutput(**{**values, "schema": schema})


def answer_problem(schema: Mapping[str, Any], answer: str) -> str | None:
    """Why an answer does not fit the schema, as a phrase of at most a few hundred characters; None when it fits.

    Args:
        schema: a schema that was read here.
        answer: the answer's whole text; blanks around the JSON do not count.
    """
    import json

    import referencing
    from jsonschema import Draft202012Validator
    from jsonschema.exceptions import best_match

    try:
        value = json.loads(answer, parse_constant=_no_constant)
    except (ValueError, RecursionError):
        return "it is not JSON"
    checker = Draft202012Validator(schema, registry=referencing.Registry())
    try:
        worst = best_match(checker.iter_errors(value))
    except RecursionError:
        return "it is nested too deeply"
    return _line(worst.json_path, worst.message) if worst is not None else None


def _schema_problem(schema: dict[str, Any]) -> str | None:
    from jsonschema import Draft202012Validator
    from jsonschema.exceptions import SchemaError

    try:
        Draft202012Validator.check_schema(schema)
    except SchemaError as error:
        return _line(error.json_path, error.message)
    return next((problem for ref in _references(schema) if (problem := _reference_problem(schema, ref))), None)


def _reference_problem(schema: dict[str, Any], ref: str) -> str | None:
    from referencing import Registry, Resource
    from referencing.exceptions import Unresolvable
    from referencing.jsonschema import DRAFT202012

    if not ref.startswith("#"):
        return f'"{ref[:80]}" leads out of the schema'
    whole = Resource.from_contents(schema, default_specification=DRAFT202012)
    try:
        Registry().with_resource("", whole).resolver().lookup(ref)
    except Unresolvable:
        return f'"{ref[:80]}" leads nowhere'
    return None


def _references(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        for name, child in value.items():
            if name in ("$ref", "$dynamicRef") and isinstance(child, str):
                yield child
            yield from _references(child)
    elif isinstance(value, list):
        for child in value:
            yield from _references(child)


def _line(path: str, message: str) -> str:
    text = " ".join(message.split())
    short = text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"
    return short if path == "$" else f"{path}: {short}"


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON value")
