"""Where a Python author starts: an echo agent on the official Python SDK. It asks no model."""

from __future__ import annotations

import asyncio
from typing import Any
from uuid import uuid4

from acp import (
    InitializeResponse,
    NewSessionResponse,
    PromptResponse,
    run_agent,
    text_block,
    update_agent_message,
)


class Echo:
    def on_connect(self, connection: Any) -> None:
        self.connection = connection

    async def initialize(self, protocol_version: int, **_: Any) -> InitializeResponse:
        return InitializeResponse(protocol_version=protocol_version)

    async def new_session(self, cwd: str, **_: Any) -> NewSessionResponse:
        return NewSessionResponse(session_id=uuid4().hex)

    async def prompt(self, prompt: list[Any], session_id: str, **_: Any) -> PromptResponse:
        await self.connection.session_update(session_id=session_id, update=update_agent_message(text_block("pong")))
        return PromptResponse(stop_reason="end_turn")

    async def cancel(self, session_id: str, **_: Any) -> None:
        """Nothing runs long enough to be cancelled."""


asyncio.run(run_agent(Echo()))  # type: ignore[arg-type]
