"""Settings, histories and recorders for the tests of models."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any

import msgspec

from sluice.agent.ports import Delta, Model, ModelRequest, ModelResponse, ToolSpec
from sluice.config import values
from sluice.config.schema import Capabilities, Cost
from sluice.config.values import Frozen
from sluice.persistence.records import Message, Part, ToolCallRecord

KEY = "sk-proj-4f9Zq7secret"


class Options(Frozen, frozen=True):
    temperature: float | None = None
    max_tokens: int | None = None
    top_p: float | None = None
    frequency_penalty: float | None = None
    presence_penalty: float | None = None
    parallel_tool_calls: bool | None = None
    provider_opts: Mapping[str, Any] = msgspec.field(default_factory=dict)
    context_size: int | None = None
    token_key: str | None = None
    capabilities: Capabilities = Capabilities()
    cost: Cost | None = None
    thinking_budget: int | str | None = None


@dataclass(frozen=True)
class Resolved:
    base_url: str | None = None
    provider: str = "openai"
    model: str = "gpt-4o"
    api: str = "openai_chatcompletions"
    key: str | None = KEY
    options: Options = field(default_factory=Options)
    directory: str = ""
    weights: str = ""

    def with_options(self, **changed: Any) -> Resolved:
        return replace(self, options=values.replace(self.options, **changed))


TOOL = ToolSpec("shell", "run a command", {"type": "object", "properties": {"cmd": {"type": "string"}}})


def user(text: str) -> Message:
    return Message("user", (Part("text", text),))


def assistant(text: str = "", *calls: ToolCallRecord) -> Message:
    return Message("assistant", (Part("text", text),) if text else (), tool_calls=calls)


def made(id: str, name: str = "shell", arguments: str = '{"cmd": "ls"}') -> ToolCallRecord:
    return ToolCallRecord(id, name, arguments)


def result(id: str, text: str = "ok", name: str = "shell") -> Message:
    return Message("tool", (Part("text", text),), tool_call_id=id, tool_name=name, status="completed")


def asked(*messages: Message | str, tools: Sequence[ToolSpec] = (TOOL,)) -> ModelRequest:
    """A request; a plain text is a user's message."""
    return ModelRequest(tuple(user(each) if isinstance(each, str) else each for each in messages), tools)


def cut(data: bytes, cuts: Sequence[int]) -> list[bytes]:
    """The data in pieces that end at the given places."""
    return [data[begin:end] for begin, end in pairwise([0, *sorted(cuts), len(data)])]


@dataclass
class Heard:
    """Collects deltas."""

    deltas: list[Delta] = field(default_factory=list)

    async def __call__(self, delta: Delta) -> None:
        self.deltas.append(delta)

    @property
    def texts(self) -> list[str]:
        return [delta.text for delta in self.deltas if delta.channel == "content"]

    @property
    def thoughts(self) -> list[str]:
        return [delta.text for delta in self.deltas if delta.channel == "thought"]


async def ask(model: Model, *messages: Message | str, heard: Heard | None = None) -> ModelResponse:
    return await model.complete(asked(*messages), heard or Heard())
