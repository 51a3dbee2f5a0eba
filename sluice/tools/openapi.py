"""The openapi toolset: one tool for each operation of an HTTP API. Requirement `tools.openapi.operations`.

The operator names the description, so it may be anywhere. Where its operations go is said by the description: to the
host it came from, or to another that the address policy lets be reached. No argument changes that.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Any
from urllib.parse import urlencode

import anyio.to_thread

from sluice.agent.ports import Tool, ToolContext, ToolFailure, ToolResult, ToolSpec
from sluice.config.errors import ConfigError
from sluice.config.tree import parse
from sluice.outbound import AddressPolicy
from sluice.tools import web
from sluice.tools.http_call import MAX_OUTPUT, TIMEOUT, Call, Limits, as_json, exchange, merged, result, segment
from sluice.tools.openapi_document import PLACEHOLDER, Operation, Parameter, operations
from sluice.tools.setup import ToolsetConfigLike, ToolsetSetup

__all__ = ["MAX_DOCUMENT", "OpenApiToolset", "build"]

MAX_DOCUMENT = 16 * 1024 * 1024
"""Bytes of a description."""

_SAFE = frozenset({"GET", "HEAD"})
_SAME_AGAIN = frozenset({"GET", "HEAD", "PUT", "DELETE"})

_log = logging.getLogger(__name__)


class OpenApiToolset:
    """The operations of one description. It is read when the toolset starts; where that fails there are no tools.

    Args:
        url: where the description is.
        headers: sent with each request, over what an argument says.
        limits: of one request.
        setup: where a proxy is looked up, and which hosts other than that of the description may be reached.
    """

    def __init__(self, url: str, headers: Mapping[str, str], limits: Limits, setup: ToolsetSetup) -> None:
        self._url = url
        self._origin = web.origin(url)
        self._headers = headers
        self._limits = limits
        self._env = setup.env
        self._policy = setup.addresses
        self._tools: tuple[Tool, ...] = ()
        self._failure = ""

    @property
    def instruction(self) -> str:
        """Which API the tools are, for the system prompt; what is wrong when there are none."""
        if self._failure:
            return f"The tools of the API at {self._origin[1]} are missing in this session: {self._failure}."
        return f"The tools of the API at {self._origin[1]} send requests to it; prefer them to fetching or scripting."

    async def start(self) -> None:
        """Read the description; one that cannot be had is told, and is tried again by the next session."""
        try:
            found = await self._read()
        except ToolFailure as failure:
            self._failure = f"its description could not be read: {failure}"
            _log.warning("openapi toolset, %s: %s", self._origin[1], self._failure)
            return
        self._tools = tuple(self._tool(operation) for operation in found)

    async def _read(self) -> list[Operation]:
        limits = Limits(self._limits.seconds, MAX_DOCUMENT)
        headers = merged({"accept": "application/json, application/yaml;q=0.9, */*;q=0.1"}, self._headers)
        answer = await exchange(Call("GET", self._url, headers), self._env, limits)
        if answer.status >= 400:
            raise ToolFailure(f"its server answered with HTTP status {answer.status}")
        if answer.cut:
            raise ToolFailure(f"it is larger than {MAX_DOCUMENT >> 20} MiB")
        return await anyio.to_thread.run_sync(partial(_understood, answer.text, self._url))

    def tools(self) -> Sequence[Tool]:
        """One for each operation, in the order of the description."""
        return self._tools

    async def stop(self) -> None:
        """Nothing to end: a connection lives as long as its request."""

    def _tool(self, operation: Operation) -> Tool:
        return Tool(
            ToolSpec(operation.name, operation.description, operation.schema),
            partial(self._run, operation),
            read_only=operation.method in _SAFE,
            destructive=True if operation.method == "DELETE" else None,
            subject=next(iter(operation.schema["required"]), ""),
            idempotent=operation.method in _SAME_AGAIN,
            open_world=True,
        )

    async def _run(self, operation: Operation, arguments: Mapping[str, Any], context: ToolContext) -> ToolResult:
        given = {name: value for name, value in arguments.items() if value is not None}
        url = operation.base + _path(operation, given) + _query(operation.parameters, given)
        headers: dict[str, str] = {}
        for parameter in operation.parameters:
            if parameter.place == "header" and parameter.argument in given:
                headers[parameter.name] = _joined(given[parameter.argument], ",")
        content = None
        if operation.body is not None and operation.body.argument in given:
            said = given[operation.body.argument]
            content = _form(said) if operation.body.form else as_json(said)
            headers["content-type"] = operation.body.media_type
        call = Call(operation.method, url, merged(headers, self._headers), content)
        return await result(call, self._env, self._limits, self._judge(operation))

    def _judge(self, operation: Operation) -> AddressPolicy | None:
        return None if web.origin(operation.base) == self._origin else self._policy


def _understood(text: str, address: str) -> list[Operation]:
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        try:
            root = parse(text, "the description")
        except ConfigError as error:
            raise ToolFailure(f"it is neither JSON nor YAML that can be read: {error.message}") from None
        document = root.plain() if root is not None else None
    return operations(document, address)


def _path(operation: Operation, given: Mapping[str, Any]) -> str:
    arguments = {one.name: one.argument for one in operation.parameters if one.place == "path"}

    def fill(name: str) -> str:
        value = given.get(arguments[name])
        if value is None or value == "":
            raise ToolFailure(f"the argument {arguments[name]!r} must not be empty")
        return segment(arguments[name], _joined(value, ","))

    return PLACEHOLDER.sub(lambda place: fill(place[1]), operation.path)


def _query(parameters: Iterable[Parameter], given: Mapping[str, Any]) -> str:
    pairs: list[tuple[str, str]] = []
    for one in parameters:
        if one.place != "query" or one.argument not in given:
            continue
        value = given[one.argument]
        if one.deep and isinstance(value, Mapping):
            pairs += [(f"{one.name}[{key}]", web.said(each)) for key, each in value.items()]
        elif one.delimiter is None and isinstance(value, list):
            pairs += [(one.name, web.said(each)) for each in value]
        else:
            pairs.append((one.name, _joined(value, one.delimiter or ",")))
    return f"?{urlencode(pairs)}" if pairs else ""


def _joined(value: Any, delimiter: str) -> str:
    return delimiter.join(map(web.said, value)) if isinstance(value, list) else web.said(value)


def _form(value: Any) -> bytes:
    if not isinstance(value, Mapping):
        raise ToolFailure("the body must be an object, whose members are the fields of a form")
    pairs = [(key, web.said(each)) for key, each in value.items() if each is not None]
    return urlencode(pairs).encode()


def build(config: ToolsetConfigLike, setup: ToolsetSetup) -> OpenApiToolset:
    """Build the toolset; reads `url`, `headers`, `timeout`, `max_output_bytes`. Raises ToolFailure for a bad URL."""
    options = config.options
    limits = Limits(float(options.get("timeout") or TIMEOUT), options.get("max_output_bytes") or MAX_OUTPUT)
    return OpenApiToolset(str(options.get("url", "")), dict(options.get("headers") or {}), limits, setup)
