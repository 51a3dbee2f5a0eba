"""`sluice serve mcp FILE`: agents as tools of an MCP client, on standard input and output or over HTTP."""

from __future__ import annotations

import argparse
import logging
import os
import re
import signal
import sys
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import anyio
from anyio.abc import TaskStatus

from sluice.cli.serve_acp import make_assembly
from sluice.persistence import paths
from sluice.wire import log, stdio

if TYPE_CHECKING:
    from sluice.config.schema import AgentConfig, AgentFile
    from sluice.handlers.assembly import Assembly
    from sluice.handlers.mcp_server import AgentServer

__all__ = ["serve_mcp"]

FORCED_EXIT = 130

MAX_KEEPALIVE = 24 * 3600.0
"""The longest pause between two pings, in seconds."""

_UNITS = {"": 1.0, "s": 1.0, "ms": 0.001, "m": 60.0, "h": 3600.0}
_HTTP_ONLY = ("auth_token", "insecure_no_auth", "safety")


def serve_mcp(options: argparse.Namespace) -> int:
    """Serve until end of input or a signal. Returns the exit status: 2 for flags that do not go together."""
    problem = conflict(options)
    if problem:
        print(f"sluice serve mcp: {problem}", file=sys.stderr)
        return 2
    transport = None if options.http else stdio.claim()
    log.set_up(
        logging.DEBUG if options.debug else logging.WARNING, Path(options.log_file) if options.log_file else None
    )
    if options.attach is not None:
        assert transport is not None, "attaching is over standard input and output"
        from sluice.cli.attach import attach

        return anyio.run(attach, transport, paths.data_dir(os.environ, options.data_dir), options.attach)
    assembly = make_assembly(options)
    # First of all, so that a broken file is told in the words of every other command.
    file = assembly.read()
    if options.http:
        return anyio.run(_over_http, assembly, options, file)
    keepalive = duration(options.mcp_keepalive) if options.mcp_keepalive else 0.0

    async def over_stdio() -> None:
        from sluice.handlers.mcp_server import serve_stdio

        assert transport is not None, "claimed above"
        server, _agents = _server(assembly, options, file)
        await serve_stdio(server, transport, keepalive)

    return anyio.run(_until_signalled, assembly, over_stdio)


def conflict(options: argparse.Namespace) -> str:
    """What is wrong about the flags as a whole, "" when nothing is."""
    given = [name for name in (*_HTTP_ONLY, "mcp_keepalive") if getattr(options, name)]
    if options.attach is not None:
        clashing = (["http"] if options.http else []) + given
        return f"--attach does not go with {_flag(clashing[0])}" if clashing else ""
    if options.agent_file is None:
        return "name an agent file, or attach to a running process with --attach"
    if options.http and options.mcp_keepalive:
        return "--mcp-keepalive works on standard input and output only, not with --http"
    if not options.http and (needing := [name for name in given if name in _HTTP_ONLY]):
        return f"{_flag(needing[0])} needs --http"
    if options.mcp_keepalive:
        try:
            duration(options.mcp_keepalive)
        except ValueError as error:
            return str(error)
    return ""


def _flag(name: str) -> str:
    return "--" + name.replace("_", "-")


def duration(text: str) -> float:
    """Seconds of `30s`, `2m`, `500ms`, `1h` or a plain number. Raises ValueError."""
    found = re.fullmatch(r"([0-9]+(?:\.[0-9]+)?)(ms|s|m|h)?", text.strip())
    if found is None:
        raise ValueError(f"{text!r} is no duration, such as 30s")
    seconds = float(found[1]) * _UNITS[found[2] or ""]
    if not 0 < seconds <= MAX_KEEPALIVE:
        raise ValueError(f"{text!r} must be more than nothing and at most a day")
    return seconds


def _server(
    assembly: Assembly, options: argparse.Namespace, file: AgentFile
) -> tuple[AgentServer, Mapping[str, AgentConfig]]:
    """The server and the agents it begins with, by the names of their tools. Raises CallFailed for none."""
    from sluice.handlers.mcp_calls import Calls
    from sluice.handlers.mcp_server import AgentServer, Exposed

    calls = Calls(assembly, safety=options.safety, local=not options.http)
    exposed = Exposed(options.agent, options.tool_name)
    return AgentServer(calls, exposed), exposed.of(file)


async def _over_http(assembly: Assembly, options: argparse.Namespace, file: AgentFile) -> int:
    from sluice.handlers.mcp_calls import safety_of
    from sluice.handlers.mcp_http import Door, listen_on, serve_http

    server, agents = _server(assembly, options, file)
    door = Door(options.auth_token, options.insecure_no_auth)
    try:
        listener, host = listen_on(options.listen, door)
    except (OSError, ValueError) as error:
        print(f"sluice serve mcp: {error}", file=sys.stderr)
        return 2 if isinstance(error, ValueError) else 1
    for name, agent in agents.items():
        mode, source = safety_of(file, agent, options.safety, local=False)
        print(f"tool {name}: safety {mode} ({source})", file=sys.stderr)

    async def serve() -> None:
        print(f"MCP server on http://{host}:{listener.getsockname()[1]}/mcp", file=sys.stderr, flush=True)
        await serve_http(server, listener, host, door)

    return await _until_signalled(assembly, serve)


async def _until_signalled(assembly: Assembly, serve: Callable[[], Awaitable[None]]) -> int:
    """The first signal ends like end of input, a second one waits for nothing; from before `serve` says anything."""

    async def watch(scope: anyio.CancelScope, *, task_status: TaskStatus[None]) -> None:
        with anyio.open_signal_receiver(signal.SIGTERM, signal.SIGINT, signal.SIGHUP) as received:
            task_status.started()
            async for _ in received:
                if scope.cancel_called:
                    os._exit(FORCED_EXIT)
                scope.cancel()

    try:
        async with anyio.create_task_group() as tasks:
            with anyio.CancelScope() as scope:
                await tasks.start(watch, scope)
                await serve()
            await assembly.aclose()
            tasks.cancel_scope.cancel()
    except BaseExceptionGroup as group:
        leaf: BaseException = group
        while isinstance(leaf, BaseExceptionGroup):
            leaf = leaf.exceptions[0]
        raise leaf from group
    return 0
