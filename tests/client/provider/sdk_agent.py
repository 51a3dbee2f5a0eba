"""An agent on the official Python SDK: it says something, asks for leave (`ask`), or waits for a cancel (`wait`)."""

from __future__ import annotations

import asyncio
from typing import Any
from uuid import uuid4

from acp import (
    InitializeResponse,
    LoadSessionResponse,
    NewSessionResponse,
    PromptResponse,
    run_agent,
    start_tool_call,
    text_block,
    update_agent_message,
    update_tool_call,
)
from acp.schema import AgentCapabilities, PermissionOption, ToolCallUpdate


class Scripted:
    def __init__(self) -> None:
        self.stopped = asyncio.Event()

    def on_connect(self, connection: Any) -> None:
        self.connection = connection

    async def initialize(self, protocol_version: int, **_: Any) -> InitializeResponse:
        return InitializeResponse(
            protocol_version=protocol_version, agent_capabilities=AgentCapabilities(load_session=True)
        )

    async def new_session(self, cwd: str, **_: Any) -> NewSessionResponse:
        return NewSessionResponse(session_id=uuid4().hex)

    async def load_session(self, cwd: str, session_id: str, **_: Any) -> LoadSessionResponse:
        return LoadSessionResponse()

    async def prompt(self, prompt: list[Any], session_id: str, **_: Any) -> PromptResponse:
        async def tell(update: Any) -> None:
            await self.connection.session_update(session_id=session_id, update=update)

        words = "".join(block.text for block in prompt)
        await tell(update_agent_message(text_block("pong")))
        if "wait" in words:
            await self.stopped.wait()
            return PromptResponse(stop_reason="cancelled")
        if "ask" in words:
            await tell(start_tool_call("c1", "run it", kind="execute", status="pending"))
            asked = ToolCallUpdate(tool_call_id="c1", title="run it", kind="execute")
            options = [
                PermissionOption(option_id="yes", name="Allow", kind="allow_once"),
                PermissionOption(option_id="no", name="Reject", kind="reject_once"),
            ]
            answer = await self.connection.request_permission(session_id=session_id, tool_call=asked, options=options)
            allowed = getattr(answer.outcome, "option_id", "") == "yes"
            await tell(update_tool_call("c1", status="completed" if allowed else "failed"))
        return PromptResponse(stop_reason="end_turn")

    async def cancel(self, session_id: str, **_: Any) -> None:
        self.stopped.set()


if __name__ == "__main__":
    asyncio.run(run_agent(Scripted()))  # type: ignore[arg-type]
