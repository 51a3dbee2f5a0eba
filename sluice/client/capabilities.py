"""What an agent said about itself in `initialize`, read tolerantly.

Source: https://agentclientprotocol.com/protocol/initialization
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sluice.acp.methods import METHODS, PROMPT_GATES
from sluice.client.errors import ClientError, NotAdvertised, ProtocolMismatch
from sluice.client.reading import flag, items, marker, members, text

__all__ = ["PROTOCOL_VERSION", "AgentInfo", "AuthMethod", "Capabilities", "read_agent_info"]

PROTOCOL_VERSION = 1
"""The only ACP version this client speaks."""


@dataclass(frozen=True)
class Capabilities:
    """The advertised capabilities as a set of dotted paths below `agentCapabilities`.

    Attributes:
        advertised: for example `{"loadSession", "sessionCapabilities.list", "promptCapabilities.image"}`.
    """

    advertised: frozenset[str] = frozenset()

    def __contains__(self, path: str) -> bool:
        return path in self.advertised

    def require(self, call: str, path: str) -> None:
        """Refuse a call the agent does not offer.

        Raises:
            NotAdvertised: the path is not advertised.
        """
        if path not in self.advertised:
            raise NotAdvertised(call, path)

    def check_method(self, method: str) -> None:
        """Refuse a method the agent does not offer.

        Raises:
            NotAdvertised: the method has a gate in the method table and it is not advertised.
        """
        row = METHODS.get(method)
        if row is not None and row.gate is not None:
            self.require(method, row.gate)

    def check_prompt(self, blocks: Sequence[Mapping[str, Any]]) -> None:
        """Refuse content blocks the agent cannot take.

        Raises:
            NotAdvertised: an image, audio or embedded resource without its prompt capability.
        """
        for block in blocks:
            kind = str(block.get("type"))
            if kind in PROMPT_GATES:
                self.require(f"session/prompt with {kind} content", PROMPT_GATES[kind])

    def check_servers(self, call: str, servers: Sequence[Mapping[str, Any]]) -> None:
        """Refuse MCP servers over a transport the agent does not speak; stdio is baseline.

        Raises:
            NotAdvertised: an http or sse server without its capability.
            ClientError: a transport ACP version 1 does not know.
        """
        for server in servers:
            kind = server.get("type")
            if kind in ("http", "sse"):
                self.require(f"{call} with an MCP server over {kind}", f"mcpCapabilities.{kind}")
            elif kind not in (None, "stdio"):
                raise ClientError(f"{call}: unknown MCP transport {kind!r}")


@dataclass(frozen=True)
class AuthMethod:
    """One way to authenticate.

    Attributes:
        type: "agent" (call `authenticate`), "terminal" (run the program in a terminal) or a word we do not know.
        args: for a terminal method, the arguments the agent's program is run with.
        env: for a terminal method, its extra variables.
    """

    id: str
    name: str
    description: str | None = None
    type: str = "agent"
    args: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class AgentInfo:
    """The answer to `initialize`.

    Attributes:
        name: the agent's name, or None when it gave none.
        raw: the whole answer as plain data.
    """

    name: str | None
    title: str | None
    version: str | None
    capabilities: Capabilities
    auth_methods: tuple[AuthMethod, ...]
    raw: Mapping[str, Any]


def read_agent_info(answer: object) -> AgentInfo:
    """Read the answer to `initialize`; missing or broken parts count as not offered.

    Args:
        answer: the result as plain JSON data.

    Raises:
        ProtocolMismatch: the version is not the integer 1.
    """
    root = members(answer)
    version = root.get("protocolVersion")
    if version is not True and version == PROTOCOL_VERSION and isinstance(version, int):
        about = members(root.get("agentInfo"))
        return AgentInfo(
            name=text(about.get("name")),
            title=text(about.get("title")),
            version=text(about.get("version")),
            capabilities=_read_capabilities(members(root.get("agentCapabilities"))),
            auth_methods=_read_auth_methods(root.get("authMethods")),
            raw=root,
        )
    said = "no protocol version" if version is None else f"protocol version {version!r}"
    raise ProtocolMismatch(f"the agent answered with {said}; this client speaks ACP version {PROTOCOL_VERSION}")


def _read_capabilities(root: Mapping[str, Any]) -> Capabilities:
    found = {"loadSession"} if flag(root.get("loadSession")) else set()
    for group in ("promptCapabilities", "mcpCapabilities"):
        found |= {f"{group}.{key}" for key, value in members(root.get(group)).items() if flag(value)}
    for group in ("sessionCapabilities", "auth"):
        found |= {f"{group}.{key}" for key, value in members(root.get(group)).items() if marker(value)}
    return Capabilities(frozenset(found))


def _read_auth_methods(value: object) -> tuple[AuthMethod, ...]:
    methods = []
    for entry in items(value):
        method_id = text(entry.get("id"))
        if not method_id:
            continue
        args = entry.get("args")
        methods.append(
            AuthMethod(
                id=method_id,
                name=text(entry.get("name")) or method_id,
                description=text(entry.get("description")),
                type=text(entry.get("type")) or "agent",
                args=tuple(arg for arg in args if isinstance(arg, str)) if isinstance(args, list) else (),
                env={k: v for k, v in members(entry.get("env")).items() if isinstance(v, str)},
            )
        )
    return tuple(methods)
