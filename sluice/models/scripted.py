"""A model that plays a script: for tests, demonstrations and first steps, without a network or a key.

It never pretends to be more: its reference begins with `scripted/` and so does the model name in its answers. Which
turn a call gets follows from the history alone, so a session goes on rightly after it was loaded in a new process;
only the count of a turn that fails a given number of times lives in memory, and it matters within one call.

Source: requirement models.providers.scripted-fake; the format is documented in `docs/scripted-model.md`.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import anyio

from sluice.agent.ports import Delta, ModelError, ModelRequest, ModelResponse
from sluice.config.errors import ConfigError
from sluice.config.script import Script, ScriptedError, ScriptedTurn, When, load_script
from sluice.models.pricing import priced
from sluice.models.redact import one_line
from sluice.models.settings import ResolvedModel, context_size
from sluice.persistence.records import Message, ToolCallRecord, Usage

__all__ = ["Scripted"]

OnDelta = Callable[[Delta], Awaitable[None]]

_CODES = {413: "request_too_large", 429: "rate_limited"}
_REQUEST_TIMEOUT = 408


class Scripted:
    """The scripted model of one session."""

    def __init__(
        self,
        resolved: ResolvedModel,
        *,
        directory: str | Path = "",
        sleep: Callable[[float], Awaitable[None]] = anyio.sleep,
    ) -> None:
        """Read the script that `provider_opts.script` names.

        Args:
            resolved: the model and its options.
            directory: where a relative path of the script begins: the agent file's directory.
            sleep: how to wait a number of seconds.

        Raises:
            ConfigError: no script is named, or it cannot be read.
        """
        path = _path(resolved, directory)
        self._script = load_script(path)
        self._options = resolved.options
        self._name = f"scripted/{resolved.model or path.stem}"
        self._sleep = sleep
        self._failures: dict[tuple[int, int], int] = {}

    @property
    def ref(self) -> str:
        """The reference shown to people; always begins with `scripted/`."""
        return self._name

    @property
    def context_size(self) -> int | None:
        """The context window in tokens the configuration names, None when it names none."""
        return context_size(self._options)

    async def complete(self, request: ModelRequest, on_delta: OnDelta) -> ModelResponse:
        """Play the turn that is due.

        Raises:
            ModelError: the script has an error here.
        """
        turn = self._due(request.messages)
        if turn is None:
            turn = ScriptedTurn(text=self._script.closing)
        error = turn.error
        if error is not None and not error.after_text:
            await self._wait(turn)
            raise _model_error(error)
        await self._speak(turn, on_delta)
        if error is not None:
            raise _model_error(error)
        calls = tuple(
            ToolCallRecord(
                call.id or f"scripted_{len(request.messages)}_{number}", call.name, json.dumps(call.arguments)
            )
            for number, call in enumerate(turn.tool_calls)
        )
        return ModelResponse(
            text="".join(_chunks(turn.text)),
            thought="".join(_chunks(turn.thought)),
            tool_calls=calls,
            finish_reason=turn.finish_reason or ("tool_calls" if calls else "stop"),
            usage=priced(_usage(turn), getattr(self._options, "cost", None)),
            model=self._name,
        )

    async def aclose(self) -> None:
        """Nothing is held."""

    async def _speak(self, turn: ScriptedTurn, on_delta: OnDelta) -> None:
        deltas = [Delta("thought", chunk) for chunk in _chunks(turn.thought)]
        deltas += [Delta("content", chunk) for chunk in _chunks(turn.text)]
        if not deltas:
            await self._wait(turn)
        for delta in deltas:
            await self._wait(turn)
            await on_delta(delta)

    async def _wait(self, turn: ScriptedTurn) -> None:
        # Also without a delay: a script must not be able to keep the event loop to itself.
        await self._sleep(turn.delay)

    def _due(self, messages: Sequence[Message]) -> ScriptedTurn | None:
        place = _locate(self._script, messages)
        for index in place.candidates(self._script):
            error = self._script.turns[index].error
            if error is not None and error.times is not None:
                played = self._failures.get((index, len(messages)), 0)
                if played >= error.times:
                    continue
                self._failures[index, len(messages)] = played + 1
            return self._script.turns[index]
        return None


# --- where in the script a history stands ------------------------------------------------------------------------


@dataclass(frozen=True)
class _Place:
    """What a call knows: the person's last text, the answers since, and the tool result before it, if any.

    `used` is the index in the script of the first turn without `when` that is not used up.
    """

    user: str = ""
    step: int = 0
    tool: str | None = None
    result: str = ""
    used: int = 0

    def candidates(self, script: Script) -> Iterator[int]:
        """The turns that may answer now, the first choice first: those whose `when` holds, then the rest in order."""
        for index, turn in enumerate(script.turns):
            condition = turn.condition
            if condition is not None and self._holds(condition):
                yield index
        for index, turn in enumerate(script.turns):
            if turn.condition is None and index >= self.used:
                yield index

    def _holds(self, when: When) -> bool:
        return (
            (when.user is None or when.user.casefold() in self.user.casefold())
            and (when.step is None or when.step == self.step)
            and (when.tool is None or when.tool == self.tool)
            and (when.result is None or (self.tool is not None and when.result.casefold() in self.result.casefold()))
        )

    def after(self, script: Script, index: int | None) -> _Place:
        """The place once the turn `index` was played."""
        if index is None or script.turns[index].condition is not None:
            return self
        return replace(self, used=index + 1)


def _locate(script: Script, messages: Sequence[Message]) -> _Place:
    """Play the history through the script, without speaking.

    A prompt that got no answer (cancelled, or failed on every attempt) has used up one turn. A tool result without
    an answer has used one up only when that turn is an error; else the prompt was cancelled before the call.
    """
    place = _Place()
    open_role = ""
    for message in messages:
        if message.role == "assistant":
            index = _answered_by(script, place, message)
            place = replace(place.after(script, index), step=place.step + 1, tool=None, result="")
            open_role = ""
        elif message.role == "tool":
            place = replace(place, tool=message.tool_name, result=message.text)
            open_role = "tool"
        elif message.role == "user":
            if open_role:
                place = _unanswered(script, place, open_role)
            place = replace(place, user=message.text, step=0, tool=None, result="")
            open_role = "" if message.implicit else "user"
    return place


def _answered_by(script: Script, place: _Place, message: Message) -> int | None:
    """The turn that gave this answer: errors came before it, but for one that broke off after this very text."""
    for index in place.candidates(script):
        turn = script.turns[index]
        if turn.error is None or (turn.error.after_text and message.text and message.text == _said(turn)):
            return index
    return None


def _unanswered(script: Script, place: _Place, open_role: str) -> _Place:
    index = next(place.candidates(script), None)
    if index is None or (open_role == "tool" and script.turns[index].error is None):
        return place
    return place.after(script, index)


# --- a turn's parts ----------------------------------------------------------------------------------------------


def _chunks(text: str | tuple[str, ...]) -> list[str]:
    return [chunk for chunk in ((text,) if isinstance(text, str) else text) if chunk]


def _said(turn: ScriptedTurn) -> str:
    return "".join(_chunks(turn.text))


def _usage(turn: ScriptedTurn) -> Usage | None:
    used = turn.usage
    if used is None:
        return None
    return Usage(used.input_tokens, used.output_tokens, used.cached_input_tokens, used.reasoning_tokens)


def _model_error(error: ScriptedError) -> ModelError:
    status = error.status
    code = error.code or _CODES.get(status or 0, "model_error")
    retryable = error.retryable
    if retryable is None:
        retryable = status is not None and (status >= 500 or status == _REQUEST_TIMEOUT)
    text = one_line(error.text) or "the script says that this call fails"
    return ModelError(code, text, retryable=retryable, retry_after=error.retry_after, status=status)


def _path(resolved: ResolvedModel, directory: str | Path) -> Path:
    name = resolved.options.provider_opts.get("script")
    if not isinstance(name, str) or not name:
        text = f"the scripted model {resolved.model} needs the path of its script"
        key = f"models.{getattr(resolved.options, 'name', resolved.model)}.provider_opts.script"
        raise ConfigError(str(directory) or ".", getattr(resolved.options, "line", 0) or None, key, text)
    return Path(directory) / Path(name).expanduser()
