"""The MCP servers of a session: those a client supplies, set up all or none, and those of the agent file.

Specification page: https://agentclientprotocol.com/protocol/session-setup (MCP servers).
"""

from __future__ import annotations

import logging
import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

import anyio

from sluice import acp, machines
from sluice.agent.ports import ToolFailure
from sluice.wire.cleanup import shielded
from sluice.wire.errors import BackendError

if TYPE_CHECKING:
    from sluice.agent.ports import Toolset
    from sluice.config.schema import ToolsetConfig
    from sluice.handlers.session import Incarnation
    from sluice.handlers.team_setup import ClientSide
    from sluice.mcp.servers import McpToolset, Spec
    from sluice.mcp.supervised import SupervisedToolset
    from sluice.tools import ToolsetSetup

__all__ = ["SETUP_BUDGET", "configured_server", "retire_servers", "start_servers"]

log = logging.getLogger(__name__)

SETUP_BUDGET = 30.0
"""Seconds for all servers of a request, from the first start to the last list (client-mcp.setup.thirty-seconds)."""


async def start_servers(live: Incarnation, servers: Sequence[acp.McpServer], cwd: str) -> list[McpToolset]:
    """Start and list every server. Whatever fails, those already started are stopped before the error is raised.

    Raises:
        BackendError: a server could not be set up within the budget; the text names the server and nothing of its
            command, environment or address.
    """
    if not servers:
        return []
    from sluice.handlers.session_setup import client_side
    from sluice.mcp.servers import McpSetup, McpToolset

    specs = [_spec(server) for server in servers]
    live.generation += 1
    setup = McpSetup(
        live.tasks,
        cwd,
        os.environ,
        SETUP_BUDGET,
        live.generation,
        taken={name for agent in live.agents() for name in agent.tools},
        policy=live.connection.assembly.addresses,
        on_change=live.offer_tools,
        elicitation=client_side(live).elicitation,
    )
    started = [
        McpToolset(spec, setup, machines.McpServer(key=f"{live.id}/{spec.name}", record=live.connection.record))
        for spec in specs
    ]
    try:
        with anyio.fail_after(SETUP_BUDGET):
            async with anyio.create_task_group() as tasks:
                for server in started:
                    tasks.start_soon(server.start)
    except BaseException as error:
        late = [server.spec.name for server in started if server.machine.state == "connecting"]
        with shielded(None, "servers of a failed setup are stopped before it is answered"):
            await retire_servers(started)
        if isinstance(error, TimeoutError):
            text = f"not ready within {SETUP_BUDGET:g} s: {', '.join(map(repr, late))}"
            raise BackendError("An MCP server was not ready in time", {"error": text}) from error
        if isinstance(error, ExceptionGroup):
            raise _failure(error) from error
        raise
    return started


def _failure(group: BaseException) -> BackendError:
    leaf: BaseException = group
    while isinstance(leaf, BaseExceptionGroup):
        leaf = leaf.exceptions[0]
    text = str(leaf) if isinstance(leaf, ToolFailure) else "it could not be started"
    log.error("an MCP server could not be set up: %s", text)
    return BackendError("An MCP server could not be set up", {"error": text})


def _spec(server: acp.McpServer) -> Spec:
    from sluice.mcp.servers import RemoteSpec, ServerSpec

    if isinstance(server, acp.McpServerStdio):
        env = tuple((entry.name, entry.value) for entry in server.env)
        return ServerSpec(server.name, server.command, tuple(server.args), env)
    assert isinstance(server, acp.McpServerHttp | acp.McpServerSse), "there are three transports"
    headers = tuple((header.name, header.value) for header in server.headers)
    return RemoteSpec(server.name, server.url, isinstance(server, acp.McpServerSse), headers)


def configured_server(config: ToolsetConfig, setup: ToolsetSetup, client: ClientSide) -> Toolset:
    """An MCP server of the agent file, not started. It is the operator's: the policy for addresses is for others.

    Raises:
        ToolFailure: nobody owns what would run in the background.
    """
    from sluice.mcp import supervised
    from sluice.mcp.names import either
    from sluice.tools import filtered

    owner = client.owner
    if owner is None:
        raise ToolFailure("MCP servers cannot be used here")
    host = supervised.Host(
        owner.tasks,
        setup.cwd,
        setup.env,
        setup.config_dir,
        owner.key,
        on_change=owner.on_change,
        record=owner.record,
        elicitation=client.elicitation,
    )
    made = supervised.build(config, host)
    owner.started.append(made)
    defer = config.defer if isinstance(config.defer, bool) else either(made.spec.name, config.defer)
    return filtered(made, readonly=config.readonly, instruction=config.instruction, defer=defer)


async def retire_servers(servers: Sequence[McpToolset | SupervisedToolset]) -> None:
    """Stop servers side by side; one that cannot be stopped stays in state failed, for the verdicts to see."""

    async def stop(server: McpToolset | SupervisedToolset) -> None:
        try:
            await server.stop()
        except Exception:
            log.exception("MCP server %s could not be stopped", server.spec.name)

    async with anyio.create_task_group() as tasks:
        for server in servers:
            tasks.start_soon(stop, server)
