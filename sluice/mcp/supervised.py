"""A configured MCP server as a toolset: started with the team, watched, and started again under its profile.

`resilient` starts a lost server again, after growing waits; `strict` fails the session when it cannot be started, and
does not restart; `best-effort` tries once and goes on without. Each key of the life cycle outranks its profile.
Requirement `tools.mcp.toolset`.
"""

from __future__ import annotations

import logging
import math
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import anyio
from anyio.abc import TaskGroup

from sluice.agent.ports import Elicitation, Tool, ToolContext, ToolFailure, ToolResult
from sluice.config.schema import Lifecycle, RemoteMcp, ToolsetConfig
from sluice.machines import McpServer, Transition
from sluice.mcp.names import either
from sluice.mcp.servers import SETUP_SECONDS, McpSetup, McpToolset, RemoteSpec, ServerSpec, Spec

__all__ = ["STEADY_SECONDS", "Host", "SupervisedToolset", "build", "seconds"]

STEADY_SECONDS = 60.0
"""How long a server must have run for its restarts to be forgotten, in seconds."""

_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Host:
    """The session that configured servers work for.

    Attributes:
        tasks: where they are owned and watched; it must outlive `stop`.
        cwd: the session's directory, absolute.
        env: the whole environment before a server's own entries.
        config_dir: the directory of the agent file; relative commands and directories start there.
        key: names the session in the records of the machines.
        on_change: called when the tools of a server have changed.
        record: takes the transitions.
        elicitation: how a person is asked, None when nobody can be.
    """

    tasks: TaskGroup
    cwd: str
    env: Mapping[str, str] = field(repr=False)
    config_dir: Path
    key: str = ""
    on_change: Callable[[], None] | None = None
    record: Callable[[Transition], None] | None = None
    elicitation: Elicitation | None = None


def seconds(text: str) -> float:
    """The seconds of a checked duration, such as `500ms`, `30s`, `2m` or `1h`."""
    unit = "ms" if text.endswith("ms") else text[-1]
    return float(text.removesuffix(unit)) * _UNITS[unit]


def build(config: ToolsetConfig, host: Host) -> SupervisedToolset:
    """The toolset of a configured server; nothing is started."""
    options = config.options
    remote: RemoteMcp | None = options.get("remote")
    name = config.name or ("mcp" if remote is not None else Path(options["command"]).stem)
    cwd = host.cwd
    if directory := options.get("working_dir"):
        cwd = str(host.config_dir / Path(directory).expanduser())
    spec: Spec
    if remote is not None:
        spec = RemoteSpec(name, remote.url, remote.transport_type == "sse", tuple(remote.headers.items()))
    else:
        command = options["command"]
        if "/" in command:
            command = str(host.config_dir / Path(command).expanduser())
        spec = ServerSpec(name, command, tuple(options.get("args", ())), tuple(options.get("env", {}).items()))
    return SupervisedToolset(spec, replace(host, cwd=cwd), options.get("lifecycle") or Lifecycle(), config.tools)


class SupervisedToolset:
    """A server that somebody looks after.

    Its tools keep their names over a restart: it is the same server of the same operator. A call that was under way
    when the server was lost fails, and is never made again.
    """

    def __init__(self, spec: Spec, host: Host, life: Lifecycle, names: Sequence[str] | None = None) -> None:
        self.spec = spec
        self._host = host
        self._life = life
        self._names = None if names is None else frozenset(either(spec.name, names))
        self._now: McpToolset | None = None
        self._stopping = False
        self._failed = False
        # Made by `start`, on the event loop; this object may be made in a thread.
        self._wake: anyio.Event
        self._scope: anyio.CancelScope
        self._watched: anyio.Event | None = None  # None: nobody watches

    @property
    def instruction(self) -> str:
        """Nothing: what a server says about itself is not put into the system prompt."""
        return ""

    @property
    def _required(self) -> bool:
        return self._life.profile == "strict" if self._life.required is None else self._life.required

    @property
    def _restarts(self) -> int:
        wanted = self._life.profile == "resilient" if self._life.restart is None else self._life.restart
        return self._life.max_restarts if wanted else 0

    async def start(self) -> None:
        """Start the server; only a required one that cannot be started is an error.

        Raises:
            ToolFailure: it is required and could not be started.
        """
        self._wake, self._scope = anyio.Event(), anyio.CancelScope()
        try:
            await self._connect()
        except ToolFailure as failure:
            if self._required:
                raise
            _log.warning("%s", failure)
        if self._restarts:
            self._watched = anyio.Event()
            self._host.tasks.start_soon(self._watch, self._watched)

    async def _connect(self) -> None:
        life, host = self._life, self._host
        setup = McpSetup(
            host.tasks,
            host.cwd,
            host.env,
            seconds(life.startup_timeout) if life.startup_timeout else SETUP_SECONDS,
            policy=None,
            on_change=host.on_change,
            on_lost=self._lost,
            call_timeout=seconds(life.call_timeout) if life.call_timeout else math.inf,
            elicitation=host.elicitation,
        )
        fresh = McpToolset(self.spec, setup, McpServer(key=f"{host.key}/{self.spec.name}", record=host.record))
        await fresh.start()
        self._now = fresh

    def _lost(self) -> None:
        self._wake.set()

    async def _watch(self, watched: anyio.Event) -> None:
        """Start the server again whenever it is lost, until it was lost too often."""
        try:
            with self._scope:
                used = 0
                while True:
                    if self._now is not None:
                        began = anyio.current_time()
                        await self._wake.wait()
                        used = 0 if anyio.current_time() - began >= STEADY_SECONDS else used
                    if used >= self._restarts:
                        _log.error("MCP server %s was lost too often and stays lost", self.spec.name)
                        return
                    used += 1
                    await self._again(used)
        finally:
            watched.set()

    async def _again(self, used: int) -> None:
        self._wake = anyio.Event()
        lost, self._now = self._now, None
        if lost is not None:
            await self._end(lost)
        backoff = self._life.backoff
        wait = min(seconds(backoff.initial) * backoff.multiplier ** (used - 1), seconds(backoff.max))
        await anyio.sleep(wait * (1 + backoff.jitter * random.uniform(-1, 1)))
        try:
            await self._connect()
        except ToolFailure as failure:
            _log.warning("%s", failure)
            return
        if self._host.on_change is not None:
            self._host.on_change()

    async def _end(self, server: McpToolset) -> None:
        try:
            await server.stop()
        except ToolFailure as failure:
            self._failed = True
            _log.error("%s", failure)

    def tools(self) -> Sequence[Tool]:
        """The tools as the server has them now; of a list of names, only those, with or without the prefix."""
        if self._now is None:
            return ()
        return tuple(
            replace(tool, run=partial(self._run, tool.name))
            for tool in self._now.tools()
            if self._names is None or tool.name in self._names
        )

    async def _run(self, name: str, arguments: Mapping[str, Any], context: ToolContext) -> ToolResult:
        found = [tool for tool in self._now.tools() if tool.name == name] if self._now is not None else []
        if not found:
            raise ToolFailure(f"the MCP server {self.spec.name!r} is not connected; it may be again in a while")
        return await found[0].run(arguments, context)

    async def stop(self) -> None:
        """End the watch and the server; may be called again, and then only tells how it went.

        Raises:
            ToolFailure: something of the server still runs.
        """
        if not self._stopping:
            self._stopping = True
            with anyio.CancelScope(shield=True):
                if self._watched is not None:
                    self._scope.cancel()
                    await self._watched.wait()
                if self._now is not None:
                    await self._end(self._now)
                    self._now = None
        if self._failed:
            raise ToolFailure(f"the MCP server {self.spec.name!r} could not be ended")
