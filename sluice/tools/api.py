"""The api toolset: one HTTP endpoint of the operator's as a tool. Requirement `tools.api.configured-call`.

Where the request goes is the configuration's alone: an argument can fill a part of the path or the query, is encoded
there, and never changes the host; redirects are not followed. The operator chose the address, so any may be reached.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import urlencode, urlsplit

from sluice.agent.ports import Tool, ToolContext, ToolFailure, ToolResult, ToolSpec
from sluice.config.schema import ApiConfig
from sluice.tools import web
from sluice.tools.http_call import Call, Limits, as_json, merged, result, segment
from sluice.tools.setup import ToolsetConfigLike, ToolsetSetup

__all__ = ["ApiToolset", "build"]

_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
_PLACE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")
_IN_URL = frozenset({"GET", "DELETE"})


class ApiToolset:
    """One tool that makes one request.

    Args:
        api: the endpoint and its arguments.
        env: where a proxy is looked up.

    Raises:
        ToolFailure: the endpoint cannot be used.
    """

    def __init__(self, api: ApiConfig, env: Mapping[str, str]) -> None:
        self._api = api
        self._env = env
        parts = urlsplit(_PLACE.sub("x", api.endpoint))
        if not _NAME.fullmatch(api.name):
            raise ToolFailure(f"{api.name!r} is no name for a tool: letters, digits, _ and -, at most 64")
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ToolFailure(f"the endpoint of {api.name} must be an http or https URL")
        if _PLACE.search(api.endpoint.partition("://")[2].partition("/")[0].partition("?")[0]):
            raise ToolFailure(f"the endpoint of {api.name} must name its host; only path and query take arguments")
        required = tuple(api.args) if api.required is None else api.required
        if unknown := (set(required) | set(_PLACE.findall(api.endpoint))) - set(api.args):
            raise ToolFailure(f"{api.name} uses {', '.join(sorted(unknown))}, which is not among its args")
        schema = {
            "type": "object",
            "properties": {key: {"type": "string", **kind} for key, kind in api.args.items()},
            "required": list(required),
        }
        description = api.instruction or f"Sends a {api.method} request to {parts.hostname}."
        self._tool = Tool(
            ToolSpec(api.name, description, schema),
            self._run,
            read_only=api.method == "GET",
            destructive=True if api.method == "DELETE" else None,
            subject=next(iter(required), ""),
            open_world=True,
        )

    @property
    def instruction(self) -> str:
        """When to use the tool, for the system prompt."""
        return f"Use {self._api.name} instead of fetching or scripting the same request."

    async def start(self) -> None:
        """Nothing to start: a connection lives as long as its request."""

    def tools(self) -> Sequence[Tool]:
        """The one tool."""
        return (self._tool,)

    async def stop(self) -> None:
        """Nothing to end."""

    async def _run(self, arguments: Mapping[str, Any], context: ToolContext) -> ToolResult:
        given = {key: arguments[key] for key in self._api.args if arguments.get(key) is not None}
        url, rest = self._url(given)
        method, headers = self._api.method, self._api.headers
        content = None
        if method not in _IN_URL:
            content, headers = as_json(rest), merged({"content-type": "application/json"}, headers)
        return await result(Call(method, url, headers, content), self._env, Limits())

    def _url(self, given: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
        """The address, and the arguments that go into a body."""
        used: set[str] = set()

        def fill(place: re.Match[str]) -> str:
            used.add(place[1])
            return segment(place[1], given.get(place[1], ""))

        url = _PLACE.sub(fill, self._api.endpoint)
        rest = {key: value for key, value in given.items() if key not in used}
        if self._api.method in _IN_URL and rest:
            pairs = urlencode({key: web.said(value) for key, value in rest.items()})
            url, rest = f"{url}{'&' if '?' in url else '?'}{pairs}", {}
        return url, rest


def build(config: ToolsetConfigLike, setup: ToolsetSetup) -> ApiToolset:
    """Build the toolset from the option `api_config`. Raises ToolFailure when it cannot be used."""
    api = config.options.get("api_config")
    if not isinstance(api, ApiConfig):
        raise ToolFailure("an api toolset needs api_config")
    return ApiToolset(api, setup.env)
