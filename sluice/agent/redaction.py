"""Credentials that are told by their form alone, masked on three ways: what a tool gets, what it gives, what a model
is sent (requirement `hooks.builtin.redact-secrets`).

A document is what the model works on, so nothing here goes by a label in front: `key = value` is ordinary code. What
is binary is never looked into. Masking twice is masking once.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from sluice.persistence.records import Message, Part, ToolCallRecord

__all__ = ["MASK", "mask_known", "masked_message", "masked_value"]

MASK = "[redacted]"

# A web token begins where a run of its characters does. Were every `eyJ` inside a run a beginning, a text that is
# made of them would be read to its end from each, and a file of a megabyte would stop the program.
_KNOWN = re.compile(
    r"\b(?:sk-[A-Za-z0-9_-]{20,}|gh[pousr]_[A-Za-z0-9]{30,}|github_pat_[A-Za-z0-9_]{40,}|xox[abeprs]-[A-Za-z0-9-]{10,}"
    r"|(?:AKIA|ASIA)[A-Z0-9]{16}|AIza[A-Za-z0-9_-]{30,}|glpat-[A-Za-z0-9_-]{18,}|hf_[A-Za-z0-9]{30,}"
    r"|(?<!-)eyJ[A-Za-z0-9_-]{8,}\.eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,})"
    r"|-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)",
    re.DOTALL,
)

_HINTS = (
    *("sk-", "ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat_", "xox", "AKIA", "ASIA", "AIza", "glpat-", "hf_"),
    *("eyJ", "PRIVATE KEY-----"),
)
"""One of these is in every text that the pattern finds something in: a whole history is searched before each call."""


def mask_known(text: str) -> str:
    """`text` with the credentials masked that are known by their form."""
    return _KNOWN.sub(MASK, text) if any(hint in text for hint in _HINTS) else text


def masked_value(value: Any) -> Any:
    """Plain data with every text in it masked; the names of members stay."""
    if isinstance(value, str):
        return mask_known(value)
    if isinstance(value, Mapping):
        return {name: masked_value(member) for name, member in value.items()}
    if isinstance(value, (list, tuple)):
        return [masked_value(item) for item in value]
    return value


def masked_message(message: Message) -> Message:
    """A message as it goes to a model: texts (those of documents too), names of attachments, thoughts and arguments
    of calls masked (attachments.redaction.text-and-labels).

    `carried` stays: it is sealed by the provider, and changed it would be refused.
    """
    parts = tuple(map(_masked_part, message.parts))
    calls = tuple(map(_masked_call, message.tool_calls))
    thought = mask_known(message.thought)
    if (parts, calls, thought) == (message.parts, message.tool_calls, message.thought):
        return message
    return replace(message, parts=parts, thought=thought, tool_calls=calls)


def _masked_part(part: Part) -> Part:
    text, name = mask_known(part.text), mask_known(part.name)
    return part if (text, name) == (part.text, part.name) else replace(part, text=text, name=name)


def _masked_call(call: ToolCallRecord) -> ToolCallRecord:
    """Masked value by value, so that the arguments stay the JSON they were; as one text when they are none."""
    if mask_known(call.arguments) == call.arguments:
        return call
    try:
        arguments = json.dumps(masked_value(json.loads(call.arguments)), ensure_ascii=False)
    except (ValueError, RecursionError):
        arguments = mask_known(call.arguments)
    return replace(call, arguments=arguments)
