"""Agent files for wire tests: one agent on a real model server, or on a script."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from sluice.wire.tracing import Spans
from tests.support.chat_dialect import CHAT
from tests.support.dialects import Dialect
from tests.support.model_server import ModelServer, Scripted
from tests.support.wire import Client, Server, serving

__all__ = ["Stage", "agent_on", "on_stage", "scripted_agent"]

TOOLSETS: list[dict[str, Any]] = [{"type": name} for name in ("filesystem", "shell", "think", "todo")]


def _write(path: Path, content: Any) -> Path:
    path.write_text(yaml.safe_dump(content, sort_keys=False), encoding="utf-8")
    return path


def agent_on(
    directory: Path,
    base_url: str,
    *,
    agent: dict[str, Any] | None = None,
    takes: dict[str, bool] | None = None,
    model: dict[str, Any] | None = None,
    **file: Any,
) -> Path:
    """An agent whose model is the server at `base_url`; `agent`, `model` and `file` add to or replace keys.

    `takes` is what the model is said to take besides text.
    """
    root = {"model": "m", "description": "a test agent", "instruction": "Help.", "toolsets": TOOLSETS}
    entry: dict[str, Any] = {"provider": "openai", "model": "test-model", "base_url": base_url, **(model or {})}
    if takes is not None:
        entry["capabilities"] = takes
    content = {"agents": {"root": {**root, **(agent or {})}}, "models": {"m": entry}, **file}
    return _write(directory / "agent.yaml", content)


def scripted_agent(directory: Path, *turns: dict[str, Any], agent: dict[str, Any] | None = None, **file: Any) -> Path:
    """An agent that plays `turns`."""
    script = _write(directory / "script.yaml", {"turns": list(turns)})
    root = {"model": "m", "description": "a test agent", "instruction": "Help.", "toolsets": TOOLSETS}
    model = {"provider": "scripted", "model": "test", "provider_opts": {"script": str(script)}}
    content = {"agents": {"root": {**root, **(agent or {})}}, "models": {"m": model}, **file}
    return _write(directory / "agent.yaml", content)


@dataclass
class Stage:
    """A model server, a server on it, an initialized client and one open session."""

    model: ModelServer
    server: Server
    client: Client
    session: str
    cwd: Path


@asynccontextmanager
async def on_stage(
    directory: Path,
    *replies: Scripted,
    agent: dict[str, Any] | None = None,
    allow: Sequence[str] = (),
    file: dict[str, Any] | None = None,
    takes: dict[str, bool] | None = None,
    spans: Spans | None = None,
    dialect: Dialect = CHAT,
    entry: dict[str, Any] | None = None,
    **capabilities: Any,
) -> AsyncIterator[Stage]:
    """Everything up to the first prompt; `allow` are networks that the operator opens, `file` top-level keys.

    `dialect` is what the model server speaks, `entry` what the model's entry has besides its address.

    No reply of the model server may be a refusal of an invalid history.
    """
    cwd = directory / "project"
    cwd.mkdir(exist_ok=True)
    async with ModelServer(replies, dialect=dialect) as model:
        path = agent_on(directory, model.base_url, agent=agent, takes=takes, model=entry, **(file or {}))
        async with serving(path, directory / "session.db", allow=allow, spans=spans) as server:
            client = server.client
            await client.initialize(**capabilities)
            yield Stage(model, server, client, await client.new(cwd), cwd)
        assert model.refusals == []
