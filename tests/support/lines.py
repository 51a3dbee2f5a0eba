"""The general checker for every line an agent writes: one rule book for all wire tests.

A test tells the checker what it sends and hands over every line it receives; the checker knows which request an
answer belongs to, which capabilities the client gave and which sessions exist. Messages are validated with the
official SDK's models, strictly: what a model does not know, or repairs by itself, is an error here. What is newer
than those models (the tool's programmatic name, notices, compaction) is validated with our own shapes.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import cache
from typing import Any, NoReturn

import msgspec
from acp import schema as sdk
from pydantic import TypeAdapter, ValidationError

from sluice import acp
from sluice.acp.base import convert

__all__ = ["LineChecker", "check_line", "sdk_model", "validate_params", "validate_result"]

_SDK_UNIONS: dict[str, Any] = {
    "session/set_config_option": sdk.SetSessionConfigOptionSelectRequest | sdk.SetSessionConfigOptionBooleanRequest,
    "elicitation/create": sdk.CreateElicitationRequest,
}
"""The params that the SDK splits into several models."""

_NEWER_UPDATES = {"notice", "compaction_update", "compaction_summary_chunk"}


@cache
def sdk_model(part: str, method: str) -> TypeAdapter[Any]:
    """The SDK's model of a method's params or result ("params", "result"); our types have the schema's names too."""
    if part == "params" and method in _SDK_UNIONS:
        return TypeAdapter(_SDK_UNIONS[method])
    return TypeAdapter(getattr(sdk, getattr(acp.METHODS[method], part).__name__))


def _fail(reason: str, line: object) -> NoReturn:
    text = line.decode(errors="replace") if isinstance(line, bytes) else json.dumps(line)
    raise AssertionError(f"{reason}\n  in {text.strip()[:2000]}")


def _without_nulls(value: Any) -> Any:
    """Null and absent mean the same in every message but the few patches that clear a field."""
    if isinstance(value, dict):
        return {key: _without_nulls(item) for key, item in value.items() if item is not None}
    if isinstance(value, list):
        return [_without_nulls(item) for item in value]
    return value


def _with_sdk(part: str, method: str, value: dict[str, Any]) -> None:
    adapter = sdk_model(part, method)
    try:
        model = adapter.validate_python(value)
    except ValidationError as error:
        _fail(f"{method} {part}: not what the SDK expects: {error}", value)
    back = adapter.dump_python(model, mode="json", by_alias=True, exclude_unset=True)
    if _without_nulls(back) != _without_nulls(value):
        _fail(f"{method} {part}: the SDK understood only {json.dumps(back)}", value)


def _with_ours(part: str, method: str, value: dict[str, Any]) -> None:
    row = acp.METHODS[method]
    try:
        message = convert(value, row.params if part == "params" else row.result)
    except msgspec.ValidationError as error:
        _fail(f"{method} {part}: {error}", value)
    back = json.loads(acp.encode(message))
    if _without_nulls(back) != _without_nulls(value):
        _fail(f"{method} {part}: holds keys that do not belong there; understood {json.dumps(back)}", value)


def _older(method: str, params: dict[str, Any]) -> dict[str, Any] | None:
    """The params without what is newer than the SDK's models; None when the whole message is newer."""
    key = {"session/update": "update", "session/request_permission": "toolCall"}.get(method)
    part = params.get(key) if key else None
    if key is None or not isinstance(part, dict):
        return params
    tag = part.get("sessionUpdate")
    if tag in _NEWER_UPDATES:
        return None
    if method == "session/request_permission" or tag in ("tool_call", "tool_call_update"):
        return {**params, key: {name: item for name, item in part.items() if name != "name"}}
    return params


def validate_params(method: str, params: dict[str, Any]) -> None:
    """AssertionError unless both the SDK's model, as far as it goes, and our shape accept these params in full."""
    older = _older(method, params)
    if older is not None:
        _with_sdk("params", method, older)
    _with_ours("params", method, params)


def validate_result(method: str, result: object) -> None:
    """AssertionError unless the result is an object that both the SDK's model and our shape accept in full."""
    if not isinstance(result, dict):
        _fail(f"{method}: the result is no object", result)
    _with_sdk("result", method, result)
    _with_ours("result", method, result)


def _pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    keys = [key for key, _ in pairs]
    assert len(keys) == len(set(keys)), f"a key is given twice: {keys}"
    return dict(pairs)


def _constant(word: str) -> NoReturn:
    raise AssertionError(f"{word} is no JSON")


def _parse(line: bytes) -> dict[str, Any]:
    body = line.removesuffix(b"\n")
    if b"\n" in body or b"\r" in body:
        _fail("more than one line", line)
    try:
        message = json.loads(body.decode("utf-8"), object_pairs_hook=_pairs, parse_constant=_constant)
    except (ValueError, AssertionError) as error:
        _fail(f"no JSON in UTF-8: {error}", line)
    if not isinstance(message, dict):
        _fail("no JSON object", line)
    if message.get("jsonrpc") != "2.0":
        _fail('jsonrpc is not "2.0"', line)
    return message


def _key(request_id: object) -> str:
    """Ids are equal when value and JSON type are: 7 and "7" differ, and so do 1 and 1.0."""
    return json.dumps(request_id)


def _check_error(message: dict[str, Any]) -> None:
    error = message["error"]
    if not isinstance(error, dict) or not set(error) <= {"code", "message", "data"}:
        _fail("an error holds code, message and maybe data", message)
    code, text = error.get("code"), error.get("message")
    if type(code) is not int or not -(2**31) <= code < 2**31:
        _fail("an error code is an int32", message)
    if not isinstance(text, str) or not text.strip() or len(text.splitlines()) != 1:
        _fail("an error message is one non-empty line", message)
    if "Traceback (most recent call last)" in json.dumps(error):
        _fail("an error shows a traceback", message)


def _absolute(path: object, what: str, message: object) -> None:
    if path is not None and not str(path).startswith("/"):
        _fail(f"{what} is not an absolute path", message)


def _counts_from_one(line: object, message: object) -> None:
    if line is not None and line == 0:
        _fail("lines are counted from 1", message)


def _check_choices(value: dict[str, Any], capabilities: acp.ClientCapabilities, message: object) -> None:
    """What config options and modes say must fit together, wherever they are."""
    for option in value.get("configOptions") or []:
        if option["type"] == "boolean" and not capabilities.boolean_options:
            _fail("a boolean option for a client that does not know them", message)
        if option["type"] == "select":
            entries = [leaf for entry in option["options"] for leaf in entry.get("options", [entry])]
            if option["currentValue"] not in [entry["value"] for entry in entries]:
                _fail(f"the current value of option {option['id']} is not among its values", message)
    modes = value.get("modes")
    if modes and modes["currentModeId"] not in [mode["id"] for mode in modes["availableModes"]]:
        _fail("the current mode is not among the available ones", message)


def _check_tool_call(call: dict[str, Any], message: object) -> None:
    if call.get("title") == "":
        _fail("a tool call with an empty title", message)
    for place in call.get("locations") or []:
        _absolute(place["path"], "a location", message)
        _counts_from_one(place.get("line"), message)
    for part in call.get("content") or []:
        if part["type"] == "diff":
            _absolute(part["path"], "the path of a diff", message)


def _check_chunk(update: dict[str, Any], message: object) -> None:
    if update["content"].get("text") == "":
        _fail("a chunk without text", message)


def _check_usage(update: dict[str, Any], message: object) -> None:
    if update["size"] < 1:
        _fail("a context window of no size", message)


def _check_commands(update: dict[str, Any], message: object) -> None:
    for command in update["availableCommands"]:
        if not command["name"] or command["name"].startswith("/"):
            _fail("the name of a command is empty or begins with a slash", message)


_UPDATE_CHECKS: dict[str, Callable[[dict[str, Any], object], None]] = {
    "agent_message_chunk": _check_chunk,
    "agent_thought_chunk": _check_chunk,
    "tool_call": _check_tool_call,
    "tool_call_update": _check_tool_call,
    "usage_update": _check_usage,
    "available_commands_update": _check_commands,
}


def _check_permission(params: dict[str, Any], message: object) -> None:
    _check_tool_call(params["toolCall"], message)
    ids = [option["optionId"] for option in params["options"]]
    if not ids or len(set(ids)) != len(ids):
        _fail("permission options are missing or their ids are not unique", message)


def _check_read(params: dict[str, Any], message: object) -> None:
    _absolute(params["path"], "path", message)
    _counts_from_one(params.get("line"), message)


def _check_elicitation(params: dict[str, Any], message: object) -> None:
    if ("sessionId" in params) == ("requestId" in params):
        _fail("an elicitation belongs to exactly one of a session and a request", message)


_PARAMS_CHECKS: dict[str, Callable[[dict[str, Any], object], None]] = {
    "session/request_permission": _check_permission,
    "fs/read_text_file": _check_read,
    "fs/write_text_file": lambda params, message: _absolute(params["path"], "path", message),
    "terminal/create": lambda params, message: _absolute(params.get("cwd"), "cwd", message),
    "elicitation/create": _check_elicitation,
}


def _gate(method: str, params: dict[str, Any]) -> str | None:
    """The capability this very call needs; our table names the method's, the mode and the update narrow it down."""
    if method == "elicitation/create":
        return f"elicitation.{params['mode']}"
    if method == "session/update":
        return {
            "notice": "session.notices",
            "compaction_update": "session.compaction",
            "compaction_summary_chunk": "session.compaction",
        }.get(params["update"]["sessionUpdate"])
    return acp.METHODS[method].gate


class LineChecker:
    """Follows one connection from the client's side.

    Args:
        capabilities: the client's capabilities, for a checker that does not see `initialize`.
        any_session: accept updates and requests for sessions whose beginning this checker has not seen.
    """

    def __init__(self, capabilities: dict[str, Any] | None = None, *, any_session: bool = False) -> None:
        self.capabilities = acp.ClientCapabilities.from_wire(capabilities)
        self.any_session = any_session
        self.sessions: set[str] = set()
        self._made: set[str] = set()
        self._open: dict[str, list[dict[str, Any]]] = {}
        self._answered: set[str] = set()
        self._asked: dict[str, str] = {}
        self._asked_before: set[str] = set()

    @property
    def unanswered(self) -> list[dict[str, Any]]:
        """The client's requests that have no answer yet."""
        return [request for requests in self._open.values() for request in requests]

    @property
    def agent_requests(self) -> dict[str, str]:
        """The agent's requests that the client has not answered yet: JSON text of the id -> method."""
        return dict(self._asked)

    def sent(self, obj: Any) -> None:
        """Remember what the client sends, valid or not; what is no object leaves no trace."""
        if not isinstance(obj, dict):
            return
        if "method" not in obj and ("result" in obj or "error" in obj):
            self._asked.pop(_key(obj.get("id")), None)
        elif "id" in obj:
            self._open.setdefault(_key(obj["id"]), []).append(obj)
            params = obj.get("params")
            # the history comes before the answer, so the id counts from the request on
            if obj.get("method") in ("session/load", "session/resume") and isinstance(params, dict):
                self.sessions.add(str(params.get("sessionId")))

    def received(self, line: bytes) -> dict[str, Any]:
        """Check one line from the agent.

        Args:
            line: the bytes, with or without the final newline.

        Returns:
            The decoded message.

        Raises:
            AssertionError: a rule is broken; the text says which, and shows the line.
        """
        message = _parse(line)
        if "method" in message:
            self._call(message)
        else:
            self._response(message)
        return message

    def _response(self, message: dict[str, Any]) -> None:
        if set(message) not in ({"jsonrpc", "id", "result"}, {"jsonrpc", "id", "error"}):
            _fail("a response holds id and exactly one of result and error, and nothing else", message)
        if "error" in message:
            _check_error(message)
        request = self._take(message)
        if request is None or "error" in message:
            return
        method = request.get("method")
        row = acp.METHODS.get(method) if isinstance(method, str) else None
        if row is None or row.result is None or not row.received_by("agent"):
            _fail(f"{method!r} is no request to an agent, but was answered with a result", message)
        validate_result(row.name, message["result"])
        _check_choices(message["result"], self.capabilities, message)
        self._succeeded(row.name, request, message["result"])

    def _take(self, message: dict[str, Any]) -> dict[str, Any] | None:
        """The request this answers. Of several with one id, an error answers the latest and a result the first."""
        key = _key(message["id"])
        waiting = self._open.get(key)
        if not waiting:
            if message["id"] is None and "error" in message:
                return None
            known = key in self._answered
            _fail("an id is answered twice" if known else "an answer to a request that was never sent", message)
        request = waiting.pop(-1 if "error" in message else 0)
        if not waiting:
            del self._open[key]
        self._answered.add(key)
        return request

    def _succeeded(self, method: str, request: dict[str, Any], result: dict[str, Any]) -> None:
        params = request.get("params") or {}
        if method == "initialize" and not self.sessions:
            self.capabilities = acp.ClientCapabilities.from_wire(params.get("clientCapabilities"))
        elif method == "session/new":
            if not result["sessionId"] or result["sessionId"] in self._made:
                _fail("session/new answered an empty id, or one that it had answered before", result)
            self._made.add(result["sessionId"])
            self.sessions.add(result["sessionId"])

    def _call(self, message: dict[str, Any]) -> None:
        if not {"jsonrpc", "method", "params"} <= set(message) <= {"jsonrpc", "id", "method", "params"}:
            _fail("a call holds method, params and maybe id, and nothing else", message)
        method, params = message["method"], message["params"]
        row = acp.find(method, "client", "request" if "id" in message else "notification")
        if row is None:
            _fail(f"{method!r} is nothing a client handles", message)
        if not isinstance(params, dict):
            _fail("params are an object", message)
        validate_params(method, params)
        gate = _gate(method, params)
        if not self.capabilities.allows(gate):
            _fail(f"the client has no {gate}", message)
        session_id = params.get("sessionId")
        if session_id is not None and not self.any_session and session_id not in self.sessions:
            _fail("a session that was neither made, loaded nor resumed on this connection", message)
        self._check_content(method, params, message)
        if "id" in message:
            self._ask(message)

    def _check_content(self, method: str, params: dict[str, Any], message: dict[str, Any]) -> None:
        if method == "session/update":
            update = params["update"]
            _check_choices(update, self.capabilities, message)
            check = _UPDATE_CHECKS.get(update["sessionUpdate"])
            if check is not None:
                check(update, message)
        elif method == "$/cancel_request" and _key(params["requestId"]) not in self._asked_before:
            _fail("a request is cancelled that was never sent", message)
        elif method in _PARAMS_CHECKS:
            _PARAMS_CHECKS[method](params, message)

    def _ask(self, message: dict[str, Any]) -> None:
        key = _key(message["id"])
        if not isinstance(message["id"], int | str) or isinstance(message["id"], bool):
            _fail("a request id is a string or an integer", message)
        if key in self._asked:
            _fail("a request id is used twice at once", message)
        self._asked[key] = message["method"]
        self._asked_before.add(key)


def check_line(line: bytes, sent: dict[str, Any] | None = None, capabilities: dict[str, Any] | None = None) -> Any:
    """Check one line out of its context: `sent` is the request it may answer, None for capabilities means none."""
    checker = LineChecker(capabilities, any_session=True)
    checker.sent(sent)
    return checker.received(line)
