"""What is remembered: the records of a session and of its items.

Records belong to us, so they are plain dataclasses; nothing here validates a peer's input. Their stored form is that
of dataclasses-json, which `codec.py` gives them: the turn needs the records long before anything is stored.
"""

from __future__ import annotations

from dataclasses import dataclass, field

__all__ = ["Item", "Message", "Part", "SessionRecord", "ToolCallRecord", "Usage"]


@dataclass(frozen=True)
class Usage:
    """Tokens of one model call. Counts are tokens; `cost` is USD, None when the call has no price.

    `cached_input_tokens` were read from the provider's cache and `cached_write_tokens` written to it; both are part
    of `input_tokens`. `reasoning_tokens` are part of `output_tokens`.
    """

    input_tokens: int = 0
    output_tokens: int = 0
    cached_input_tokens: int = 0
    reasoning_tokens: int = 0
    cost: float | None = None
    cached_write_tokens: int = 0


@dataclass(frozen=True)
class ToolCallRecord:
    """A tool call as the model made it.

    `id` is ours and unique in the session, whatever id the provider used; `arguments` is the JSON text.
    """

    id: str
    name: str
    arguments: str


@dataclass(frozen=True)
class Part:
    """One piece of a message's content.

    `type` is text, document, image or audio. `text` holds the text of text and text documents, `data` the base64
    of binary ones; `size` is in decoded bytes; `notice` marks a text that stands for something left out.
    """

    type: str
    text: str = ""
    data: str = ""
    mime_type: str = ""
    name: str = ""
    size: int = 0
    notice: bool = False


@dataclass(frozen=True)
class Message:
    """One message of the conversation.

    `role` is user, assistant, tool or system. `id` is the logical id that survives storage (never shown: display
    ids are derived from it). For role tool, `tool_call_id`, `tool_name` and `status` (completed or failed) say which
    call is answered and how. `implicit` messages are for the model and never replayed to a client. `carried` is what
    the provider gave to be handed back unchanged with this answer, such as its signed thoughts: a text that only the
    model client reads; "" for nothing.
    """

    role: str
    parts: tuple[Part, ...] = ()
    id: str = ""
    agent: str = ""
    model: str = ""
    thought: str = ""
    tool_calls: tuple[ToolCallRecord, ...] = ()
    tool_call_id: str = ""
    tool_name: str = ""
    status: str = ""
    finish_reason: str = ""
    usage: Usage | None = None
    implicit: bool = False
    carried: str = field(default="", repr=False)

    @property
    def text(self) -> str:
        """The text parts joined, without separators."""
        return "".join([part.text for part in self.parts if part.type == "text"])


@dataclass(frozen=True)
class Item:
    """One entry of a session's history, in stored order.

    `kind` is message (`message` set), error (`text`, `code`), sub_session (`session_id`), termination (`text`) or
    summary (`text`, `first_kept` = position of the first item kept verbatim, None when nothing is kept).
    `usage` is what calls that came to no answer, or to this summary, have used since the item before, `agent` whose
    calls they were ("" in older files); an answer's own use is that of its message.
    `position` is given by the store, from 0 upwards without reuse; -1 for an item not stored yet.
    """

    kind: str
    message: Message | None = None
    text: str = ""
    code: str = ""
    session_id: str = ""
    first_kept: int | None = None
    usage: Usage | None = None
    agent: str = ""
    position: int = -1


@dataclass(frozen=True)
class SessionRecord:
    """The summary of one session: everything that can be read without its messages.

    `created_at` is seconds since the epoch. `cwd` is the cleaned absolute path as given by the client, None when
    unknown. `mode` is the safety mode's stored name, "" when never chosen. `model_overrides` maps agent name to
    model reference. `grants` are the tool names allowed for this session. `context_tokens` and `cost` describe the
    root conversation's last known state; `cost` is USD.
    """

    id: str
    created_at: float
    cwd: str | None = None
    title: str | None = None
    parent_id: str | None = None
    mode: str = ""
    agent: str = ""
    model_overrides: dict[str, str] = field(default_factory=dict)
    grants: tuple[str, ...] = ()
    context_tokens: int = 0
    cost: float = 0.0
