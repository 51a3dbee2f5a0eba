"""An OpenAPI description as the operations that can be called: names, arguments, and where each argument goes.

Versions 3.0, 3.1 and 3.2. References within the document are followed; what has no end is cut. Operations whose body
is neither JSON nor a form are left out. Source: OpenAPI Specification 3.1.1, sections 4.8.1 to 4.8.24.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal
from urllib.parse import unquote, urljoin, urlsplit

from sluice.agent.bounds import bound
from sluice.agent.ports import ToolFailure

__all__ = ["METHODS", "Body", "Operation", "Parameter", "operations"]

METHODS = ("get", "head", "post", "put", "patch", "delete")
"""The methods whose operations become tools."""

PLACEHOLDER = re.compile(r"\{([^{}]+)\}")
"""A part of a path that an argument fills."""

_DESCRIPTION_BYTES = 1024
_DEEPEST = 24
_MOST_NODES = 500
_NAME_LENGTH = 64
_NO_NAME = re.compile(r"[^A-Za-z0-9_-]+")
_NO_KEY = re.compile(r"[^A-Za-z0-9_.-]+")
_SERVER_VARIABLE = re.compile(r"\{([^{}]+)\}")
_FORM = "application/x-www-form-urlencoded"
_NOT_OURS = frozenset(
    ("accept", "authorization", "connection", "content-length", "content-type", "cookie", "host", "transfer-encoding")
)
"""Header parameters that are no arguments: the specification ignores the first of them, a client sets the rest."""

_DELIMITERS = {"spaceDelimited": " ", "pipeDelimited": "|"}

_log = logging.getLogger(__name__)

Json = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Parameter:
    """An argument that is no part of the body.

    `argument` is what the tool calls it, `name` what the API does. A list in the query is repeated when `delimiter`
    is None, else joined by it; `deep` writes the members of an object as `name[member]`.
    """

    argument: str
    name: str
    place: Literal["path", "query", "header"]
    delimiter: str | None = None
    deep: bool = False


@dataclass(frozen=True, slots=True)
class Body:
    """The argument that is the body, and how it is written."""

    argument: str
    form: bool
    media_type: str


@dataclass(frozen=True, slots=True)
class Operation:
    """One operation. `base` is the server's URL without a slash at its end, `schema` that of the arguments."""

    name: str
    description: str
    method: str
    base: str
    path: str
    parameters: tuple[Parameter, ...]
    body: Body | None
    schema: Json


def operations(document: Any, address: str) -> list[Operation]:
    """Read a description.

    Args:
        document: the parsed description.
        address: where it came from; servers without a host of their own are there.

    Raises:
        ToolFailure: it is no OpenAPI description of version 3.
    """
    if not isinstance(document, Mapping):
        raise ToolFailure("it is no OpenAPI description")
    if "swagger" in document:
        raise ToolFailure("it is a description of version 2 (Swagger); convert it to OpenAPI 3")
    if not str(document.get("openapi", "")).startswith("3."):
        raise ToolFailure("it is no OpenAPI description of version 3: the key openapi is missing or another version")
    reader = _Reader(document, address)
    return list(reader.operations())


class _Reader:
    """Reads one document."""

    def __init__(self, document: Json, address: str) -> None:
        self._document = document
        self._address = address
        self._names: set[str] = set()

    def operations(self) -> Iterator[Operation]:
        for path, written in _mapping(self._document.get("paths")).items():
            item = self._followed(written)
            for method in METHODS:
                if not isinstance(item.get(method), Mapping):
                    continue
                try:
                    yield self._operation(str(path), method, item)
                except ToolFailure as failure:
                    _log.warning("operation %s %s is left out: %s", method.upper(), path, failure)

    def _operation(self, path: str, method: str, item: Json) -> Operation:
        one = item[method]
        base = self._base(one, item)
        arguments = _Arguments()
        parameters = tuple(self._parameters(one, item, path, arguments))
        body = self._body(one, arguments) if method not in ("get", "head") else None
        texts = [str(one[key]).strip() for key in ("summary", "description") if one.get(key)]
        description = bound("\n".join(dict.fromkeys(texts)) or f"{method.upper()} {path}", _DESCRIPTION_BYTES)
        name = self._name(one, method, path)
        return Operation(name, description, method.upper(), base, path, parameters, body, arguments.schema)

    def _name(self, one: Json, method: str, path: str) -> str:
        said = one.get("operationId") or f"{method}_{path.strip('/')}"
        plain = _NO_NAME.sub("_", str(said)).strip("_")[:_NAME_LENGTH] or method
        name, number = plain, 1
        while name in self._names:
            number += 1
            name = f"{plain[: _NAME_LENGTH - 4]}_{number}"
        self._names.add(name)
        return name

    def _base(self, one: Json, item: Json) -> str:
        servers = one.get("servers") or item.get("servers") or self._document.get("servers") or [{"url": "/"}]
        server = self._followed(servers[0] if isinstance(servers, list) and servers else {})
        variables = _mapping(server.get("variables"))

        def default(found: re.Match[str]) -> str:
            return str(_mapping(variables.get(found[1])).get("default", ""))

        url = urljoin(self._address, _SERVER_VARIABLE.sub(default, str(server.get("url") or "/")))
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ToolFailure("its server has no http or https URL")
        return url.partition("#")[0].partition("?")[0].rstrip("/")

    # --- arguments

    def _parameters(self, one: Json, item: Json, path: str, arguments: _Arguments) -> Iterator[Parameter]:
        """Those of the operation outrank those of its path (Path Item Object, `parameters`)."""
        written: dict[tuple[str, str], Json] = {}
        for holder in (item, one):
            listed = holder.get("parameters")
            for each in listed if isinstance(listed, list) else ():
                found = self._followed(each)
                written[str(found.get("in")), str(found.get("name"))] = found
        for name in PLACEHOLDER.findall(path):
            written.setdefault(("path", name), {"schema": {"type": "string"}})
        for (place, name), found in written.items():
            if place == "path" or place == "query" or (place == "header" and name.lower() not in _NOT_OURS):
                needed = place == "path" or found.get("required") is True
                argument = arguments.add(name, place, self._schema(found), required=needed)
                deep = found.get("style") == "deepObject"
                yield Parameter(argument, name, place, _delimiter(found, place), deep)  # type: ignore[arg-type]

    def _schema(self, found: Json) -> Json:
        schema = found.get("schema")
        if schema is None:
            schema = next((_mapping(kind).get("schema") for kind in _mapping(found.get("content")).values()), None)
        return self._described(schema, found)

    def _described(self, schema: Any, found: Json) -> Json:
        inlined = _Inlining(self).of(schema)
        said = found.get("description")
        return {**inlined, "description": bound(str(said), _DESCRIPTION_BYTES)} if said else inlined

    def _body(self, one: Json, arguments: _Arguments) -> Body | None:
        if "requestBody" not in one:
            return None
        written = self._followed(one["requestBody"])
        kinds = {str(name): self._followed(kind) for name, kind in _mapping(written.get("content")).items()}
        required = written.get("required") is True
        chosen = next(filter(_is_json, kinds), None) or next((name for name in kinds if _plain(name) == _FORM), None)
        if chosen is None:
            if required:
                raise ToolFailure(f"its body is {', '.join(kinds) or 'of no type'}, not JSON or a form")
            return None
        schema = self._described(kinds[chosen].get("schema"), written)
        media_type = "application/json" if "*" in chosen else chosen
        return Body(arguments.add("body", "request", schema, required=required), _plain(chosen) == _FORM, media_type)

    # --- references

    def _followed(self, node: Any) -> Json:
        """An object, or the one that it refers to; {} for what is neither."""
        for _ in range(_DEEPEST):
            if not isinstance(node, Mapping):
                return {}
            if not isinstance(node.get("$ref"), str):
                return node
            node = self.at(node["$ref"])
        return {}

    def at(self, reference: str) -> Any:
        """What a reference within the document means; None for any other (RFC 6901)."""
        if not reference.startswith("#/"):
            return None
        node: Any = self._document
        for part in unquote(reference[2:]).split("/"):
            key = part.replace("~1", "/").replace("~0", "~")
            if isinstance(node, Mapping):
                node = node.get(key)
            elif isinstance(node, list) and key.isdecimal() and int(key) < len(node):
                node = node[int(key)]
            else:
                return None
        return node


class _Arguments:
    """The arguments of one tool: a name for each, and their schema."""

    def __init__(self) -> None:
        self._properties: dict[str, Json] = {}
        self._required: list[str] = []

    @property
    def schema(self) -> Json:
        return {"type": "object", "properties": self._properties, "required": self._required}

    def add(self, name: str, place: str, schema: Json, *, required: bool) -> str:
        """Take an argument; an API may have one name in two places, a tool may not."""
        plain = _NO_KEY.sub("_", name)[:_NAME_LENGTH] or place
        if plain in self._properties:
            plain = f"{place}_{plain}"[:_NAME_LENGTH]
        while plain in self._properties:
            plain = f"{plain[: _NAME_LENGTH - 1]}_"
        self._properties[plain] = schema
        if required:
            self._required.append(plain)
        return plain


_KEPT = frozenset(
    (
        *("type", "enum", "const", "format", "description", "default", "pattern", "multipleOf"),
        *("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "minLength", "maxLength", "minItems"),
        *("maxItems", "uniqueItems", "minProperties", "maxProperties"),
    )
)
_SCHEMAS = ("items", "additionalProperties", "not")
_LISTS = ("oneOf", "anyOf", "allOf")


class _Inlining:
    """One schema with its references put in. What refers to itself, or is too large or too deep, allows anything
    from there on.
    """

    def __init__(self, reader: _Reader) -> None:
        self._reader = reader
        self._nodes = 0
        self._depth = 0
        self._open: list[str] = []

    def of(self, schema: Any) -> dict[str, Any]:
        self._nodes += 1
        if not isinstance(schema, Mapping) or self._nodes > _MOST_NODES or self._depth > _DEEPEST:
            return {}
        self._depth += 1
        try:
            reference = schema.get("$ref")
            return self._target(reference) if isinstance(reference, str) else self._plain(schema)
        finally:
            self._depth -= 1

    def _target(self, reference: str) -> dict[str, Any]:
        if reference in self._open:
            return {}
        self._open.append(reference)
        found = self.of(self._reader.at(reference))
        self._open.pop()
        return found

    def _plain(self, schema: Json) -> dict[str, Any]:
        found = {key: value for key, value in schema.items() if key in _KEPT}
        for key in _SCHEMAS:
            if isinstance(schema.get(key), Mapping):
                found[key] = self.of(schema[key])
            elif isinstance(schema.get(key), bool):
                found[key] = schema[key]
        for key in _LISTS:
            if isinstance(schema.get(key), list):
                found[key] = [self.of(each) for each in schema[key]]
        if isinstance(schema.get("properties"), Mapping):
            shown = [
                (name, each)
                for name, each in schema["properties"].items()
                if _mapping(each).get("readOnly") is not True  # what only answers hold
            ]
            found["properties"] = {name: self.of(each) for name, each in shown[:_MOST_NODES]}
        if isinstance(schema.get("required"), list):
            names = found["properties"] if "properties" in found else schema["required"]
            found["required"] = [name for name in schema["required"] if name in names]
        return _modern(found, nullable=schema.get("nullable") is True)


def _modern(schema: dict[str, Any], *, nullable: bool) -> dict[str, Any]:
    """Version 3.0 writes two things in ways that JSON Schema does not know: null, and bounds that exclude."""
    for edge, plain in (("exclusiveMinimum", "minimum"), ("exclusiveMaximum", "maximum")):
        if isinstance(schema.get(edge), bool):
            excludes = schema.pop(edge)
            if excludes and plain in schema:
                schema[edge] = schema.pop(plain)
    if nullable and isinstance(schema.get("type"), str):
        schema["type"] = [schema["type"], "null"]
    return schema


def _mapping(value: Any) -> Json:
    return value if isinstance(value, Mapping) else {}


def _plain(media_type: str) -> str:
    return media_type.partition(";")[0].strip().lower()


def _is_json(media_type: str) -> bool:
    plain = _plain(media_type)
    return plain in ("application/json", "*/*", "application/*") or plain.endswith("+json")


def _delimiter(found: Json, place: str) -> str | None:
    """How a list is written; None repeats the name (Style Values: `form` explodes unless it says otherwise)."""
    style = found.get("style", "form")
    explode = found.get("explode", style == "form")
    if place != "query":
        return ","
    return None if explode is True else _DELIMITERS.get(str(style), ",")
