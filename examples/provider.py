"""Chat with an ACP agent from a Python program: `python examples/provider.py "hello" "demo"`.

The agent is the scripted one beside this file; put the command line of any other ACP agent behind `--`:

    python examples/provider.py "Explain this directory" -- npx some-agent --acp
"""

from __future__ import annotations

import sys
from pathlib import Path

import anyio

from sluice.client.provider import (
    AcpAgentSpec,
    ApprovalRequested,
    Chat,
    ChatEvent,
    Launch,
    Note,
    TextDelta,
    TextDone,
    ToolDone,
    TurnFailed,
    create_acp_backend,
)

SCRIPTED = [sys.executable, "-m", "sluice", "serve", "acp", str(Path(__file__).with_name("scripted.yaml"))]


class Program:
    """A host: it prints what it is told, and allows what the agent asks for once."""

    chat: Chat

    def on_event(self, event: ChatEvent) -> None:
        match event:
            case TextDelta(text):
                print(text, end="", flush=True)
            case TextDone():
                print()
            case ToolDone(row):
                print(f"[{row.name}] {row.title}: {row.status}")
            case ApprovalRequested(id=approval, row=row):
                print(f"allowed once: {row.title}")
                self.chat.answer(approval, "allow_once")
            case Note(text) | TurnFailed(text):
                print(f"* {text}")
            case _:
                pass


async def main(prompts: list[str], command: list[str]) -> None:
    program = Program()
    spec = AcpAgentSpec(kind="example", name="Example", command=command[0], args=command[1:])
    async with create_acp_backend(spec).start(Launch(Path.cwd(), program.on_event)) as program.chat:
        for prompt in prompts:
            print(f"> {prompt}")
            await program.chat.send(prompt)


if __name__ == "__main__":
    words = sys.argv[1:]
    at = words.index("--") if "--" in words else len(words)
    anyio.run(main, words[:at] or ["hello"], words[at + 1 :] or SCRIPTED)
