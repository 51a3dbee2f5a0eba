"""initialize: the version, what this agent can do, and how it authenticates.

Specification page: https://agentclientprotocol.com/protocol/initialization.
"""

from __future__ import annotations

import anyio.to_thread

from sluice import __version__, acp
from sluice.acp.validation import decode_params
from sluice.handlers.answers import AUTH_METHOD_ID, refused
from sluice.handlers.connection import Connection
from sluice.handlers.joint import Joint
from sluice.handlers.table import warm_up
from sluice.machines import Refusal
from sluice.wire.peer import IncomingRequest

__all__ = ["CAPABILITIES", "PROTOCOL_VERSION", "advertised", "initialize"]

PROTOCOL_VERSION = 1
"""The one version spoken here; initialization: an agent that does not support the requested version answers with the
latest it supports."""

CAPABILITIES = acp.AgentCapabilities(
    load_session=True,
    prompt_capabilities=acp.PromptCapabilities(image=True, audio=True, embedded_context=True),
    mcp_capabilities=acp.McpCapabilities(http=True, sse=True),
    session_capabilities=acp.SessionCapabilities(
        list=acp.SessionListCapabilities(),
        delete=acp.SessionDeleteCapabilities(),
        additional_directories=acp.SessionAdditionalDirectoriesCapabilities(),
        resume=acp.SessionResumeCapabilities(),
        close=acp.SessionCloseCapabilities(),
    ),
    auth=acp.AgentAuthCapabilities(logout=acp.LogoutCapabilities()),
)
"""The same for every client (capability-matrix.agent.fixed-in-all-cells); only what works is in it."""

AUTH_METHOD = acp.AuthMethodAgent(
    AUTH_METHOD_ID,
    "Credentials on this host",
    description="Adopt the model credentials that are already configured on the agent's host.",
)


def advertised(connection: Connection) -> acp.AgentCapabilities:
    """What this connection offers: everything, unless the process was set up to offer less."""
    return connection.assembly.options.capabilities or CAPABILITIES


def _response(connection: Connection) -> acp.InitializeResponse:
    return acp.InitializeResponse(
        PROTOCOL_VERSION,
        agent_capabilities=advertised(connection),
        auth_methods=[AUTH_METHOD],
        agent_info=acp.Implementation("sluice", __version__, title="sluice"),
    )


def initialize(connection: Connection, request: IncomingRequest) -> None:
    """Answer, or join the one under way; a repeated initialize gets the first answer and changes nothing.

    Missing credentials do not fail it; a broken agent file does, with an error that names file, line and key, and a
    later initialize tries again.
    """
    params: acp.InitializeRequest = decode_params("initialize", request.params)
    decision = connection.decide("initialize")
    if decision.verdict == "ok":
        request.answer(_response(connection))
        return
    if decision.verdict == "join":
        assert connection.initializing is not None, "an initialize under way has its joint work"
        connection.initializing.attach(request)
        return
    connection.fire("initialize")
    connection.capabilities = params.capabilities
    work = connection.initializing = Joint()
    work.attach(request)
    work.start(connection.tasks, lambda: _check(connection, work))


async def _check(connection: Connection, work: Joint) -> object:
    """The last act answers initialize before anything that was held behind it is admitted."""
    event, error = "initialize_failed", None
    with connection.initialize_scope:
        try:
            event = "credentials_missing" if await connection.assembly.check() else "credentials_found"
        except Exception as failed:
            error = failed
    if connection.initialize_scope.cancel_called:
        # Overtaken by the shutdown: what was found all the same changes nothing, and nobody is told that it holds.
        work.error = refused(Refusal("shutting_down", -32600))
    elif error is not None:
        work.error = error
    work.result = _response(connection)
    work.settle()
    connection.initialized(event)
    if connection.machine.can("logout"):
        connection.tasks.start_soon(_warm_up)
    return work.result


async def _warm_up() -> None:
    """Load in a worker thread what the first session needs, while the client reads the answer."""
    await anyio.to_thread.run_sync(warm_up, abandon_on_cancel=True)
