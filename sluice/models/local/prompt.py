"""A request as a small model can follow it: who it is, worked examples of its tools, and nothing that is not needed.

Everything put in depends only on the model and on the tools that are offered, and stands in front, so the prefix of a
conversation stays the same from call to call: what the engine has read once it does not read again.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import takewhile
from typing import Any, Literal, NamedTuple

from sluice.agent.ports import ModelRequest, ToolSpec
from sluice.persistence.records import Message, Part, ToolCallRecord

__all__ = ["CALL_BIAS", "CALL_MARK", "RESULT_SHARE", "front", "identity", "prepared"]

RESULT_SHARE = 4
"""A tool result may fill one part in so many of the window: there is a history and an answer besides."""

CHARACTERS_PER_TOKEN = 3
"""A cautious guess for text and code, so that a cut result is not too long after all."""

CALL_BIAS: Mapping[str, float] = {"0.5b": 3.0}
"""How much likelier the mark of a tool call is made at the first step of a turn, by model, as a logit.

The smallest model knows which tool to call, and then answers from imagination all the same. With this it calls in 18
of 19 questions about files where it called in 15, and still answers small talk in words.
"""

CALL_MARK = "```"
"""The token that a tool call begins with; see the chat template."""


class _Example(NamedTuple):
    """One worked example: a question, the tool and the call it leads to, what the tool gives, and the answer."""

    question: str
    tool: str
    arguments: Mapping[str, Any]
    result: str
    answer: str


_TALK = (
    ("Hi, who are you?", "I am a small language model on this computer. Ask me about your files."),
    ("What is 7 times 6?", "7 times 6 is 42."),
)
"""What needs no tool."""

_WORKED = (
    _Example(
        "Which branch is checked out?",
        "shell",
        {"cmd": "git branch --show-current"},
        "spring",
        "The branch spring is checked out.",
    ),
    _Example(
        "What does notes/plan.md say?",
        "read_file",
        {"path": "notes/plan.md"},
        "Water the plants on Monday.",
        "notes/plan.md says: Water the plants on Monday.",
    ),
    _Example(
        "What is in assets?",
        "list_directory",
        {"path": "assets"},
        "logo.svg\nicons/",
        "assets holds the file logo.svg and the directory icons.",
    ),
    _Example(
        "Which host does conf/app.ini name?",
        "read_file",
        {"path": "conf/app.ini"},
        "[server]\nhost = larder.example\nuser = kim",
        "conf/app.ini names the host larder.example.",
    ),
    _Example(
        "Where is the word timeout used below lib?",
        "search_files_content",
        {"path": "lib", "query": "timeout"},
        "lib/net.py:7:timeout = 5",
        "lib/net.py uses it: timeout = 5.",
    ),
    _Example(
        "Write the text ok to tmp/state.txt.",
        "write_file",
        {"path": "tmp/state.txt", "content": "ok"},
        "Wrote 2 bytes to tmp/state.txt.",
        "I wrote ok to tmp/state.txt.",
    ),
)
"""Tools that have no example are offered all the same; what the others show carries over."""


def identity(model: str) -> str:
    """What the model is to say of itself: left alone these models claim to be somebody else's."""
    return (
        f"You are Qwen2.5-Coder-{model.upper()}-Instruct, a small language model made by Alibaba Cloud."
        " You run on this computer, inside Sluice, without a network."
    )


_WITH_TOOLS = (
    "Use the tools to look at files, never guess what is in them. Write paths as the person does. Answer briefly."
)


def prepared(request: ModelRequest, model: str, context: int) -> ModelRequest:
    """The request to send.

    Args:
        request: the prompt as the agent made it.
        model: the id of the weights.
        context: the window in tokens; longer tool results are cut to a share of it.
    """
    messages = list(request.messages)
    texts = [identity(model)]
    if request.tools:
        texts.append(_WITH_TOOLS)
    while messages and messages[0].role == "system":
        texts.append(messages.pop(0).text)
    limit = context // RESULT_SHARE * CHARACTERS_PER_TOKEN
    system = Message("system", (Part("text", "\n\n".join(text for text in texts if text.strip())),))
    examples = _examples(request.tools)
    messages = [system, *examples, *(_cut(message, limit) for message in messages)]
    return replace(request, messages=messages, tools=[_slim(tool) for tool in request.tools])


def front(request: ModelRequest, model: str, context: int) -> ModelRequest | None:
    """What stands in front of the conversation of a request, as a prompt to send; None without tools.

    Args:
        request: the prompt as the agent made it.
        model: the id of the weights.
        context: the window in tokens.
    """
    if not request.tools:
        return None
    leading = takewhile(lambda message: message.role == "system", request.messages)
    alone = ModelRequest([*leading, _said("user", ".")], request.tools, max_output_tokens=1)
    return prepared(alone, model, context)


def _slim(tool: ToolSpec) -> ToolSpec:
    """The tool with its required parameters only, and without the texts on them.

    Every parameter that may be left out is one that a small model fills with something. A tool without any required
    parameter keeps all.
    """
    schema = dict(tool.parameters)
    required = [name for name in schema.get("required") or () if name in (schema.get("properties") or {})]
    properties: Mapping[str, Any] = schema.get("properties") or {}
    kept = {name: _plain(properties[name]) for name in (required or properties)}
    return ToolSpec(tool.name, tool.description, {**schema, "properties": kept, "required": required})


def _plain(schema: Any) -> Any:
    """A parameter's schema without its description, when it has a type to stand on."""
    if not isinstance(schema, Mapping) or "type" not in schema:
        return schema
    return {key: value for key, value in schema.items() if key not in ("description", "title", "examples")}


def _examples(tools: Sequence[ToolSpec]) -> list[Message]:
    """Worked examples of the offered tools, as turns that were never spoken."""
    offered = {tool.name: tool for tool in tools}
    fitting = [example for example in _WORKED if _fits(example, offered.get(example.tool))]
    if not fitting:
        return []
    shown = [message for asked, said in _TALK for message in (_said("user", asked), _said("assistant", said))]
    for number, example in enumerate(fitting, 1):
        call = f"example{number}"
        record = ToolCallRecord(call, example.tool, json.dumps(example.arguments))
        result = (Part("text", example.result),)
        shown += [
            _said("user", example.question),
            Message("assistant", tool_calls=(record,)),
            Message("tool", result, tool_call_id=call, tool_name=example.tool),
            _said("assistant", example.answer),
        ]
    return shown


def _said(role: Literal["user", "assistant"], text: str) -> Message:
    return Message(role, (Part("text", text),))


def _fits(example: _Example, tool: ToolSpec | None) -> bool:
    """Whether this is the tool that the example is of, and not another of its name."""
    return tool is not None and set(tool.parameters.get("required") or ()) == set(example.arguments)


def _cut(message: Message, limit: int) -> Message:
    if message.role != "tool" or len(message.text) <= limit:
        return message
    left = len(message.text) - limit
    text = f"{message.text[:limit]}\n[cut: {left} more characters do not fit this model]"
    return replace(message, parts=(Part("text", text),))
