"""The low-level client against a scripted agent process: K001-K003, K011-K036, K058-K073 of the client checklist."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

import anyio
import pytest
from acp import schema as official

from sluice.client.agent import connect
from sluice.client.connection import ClientHandlers, ClientOptions
from sluice.client.errors import (
    AgentExited,
    ClientError,
    ListingError,
    NotAdvertised,
    ProtocolMismatch,
    TurnInProgress,
)
from sluice.client.permissions import PermissionRequest, choose_option
from sluice.client.updates import MessageChunk, Plan, ToolUpdate
from sluice.wire.errors import InvalidParams
from sluice.wire.peer import Peer, RemoteError
from sluice.wire.transport import MemoryTransport
from tests.client.support import QUICK, ask, chunk, in_session, playing

pytestmark = pytest.mark.anyio

END_TURN: Mapping[str, Any] = {"result": {"stopReason": "end_turn"}}
CANCELLED = {"outcome": {"outcome": "cancelled"}}


def initialized(**result: Any) -> dict[str, Any]:
    return {"initialize": [[{"result": {"protocolVersion": 1, **result}}]]}


# --- initialize


@pytest.mark.requirement("acp-provider.start.first-message")
async def test_initialize_is_the_first_message_with_version_capabilities_and_client_info(tmp_path: Path) -> None:
    options = ClientOptions(name="tester", version="9", title="The tester")
    async with playing(tmp_path, options=options) as played:
        info = await played.agent.initialize()
        assert (info.name, info.version) == ("fake-agent", "1")
        assert "sessionCapabilities.list" in info.capabilities
        (params,) = played.params("initialize")
        assert params == {
            "protocolVersion": 1,
            "clientCapabilities": {"fs": {"readTextFile": False, "writeTextFile": False}, "terminal": False},
            "clientInfo": {"name": "tester", "version": "9", "title": "The tester"},
        }
        official.InitializeRequest.model_validate(params)


@pytest.mark.requirement("acp-provider.start.version-1-only")
@pytest.mark.parametrize("version", [2, 0, "1", True, None, 1.5, {}])
async def test_any_other_version_ends_with_a_clear_error(tmp_path: Path, version: object) -> None:
    with pytest.raises(ProtocolMismatch, match="this client speaks ACP version 1"):
        async with playing(tmp_path, {"initialize": [[{"result": {"protocolVersion": version}}]]}) as played:
            process = played.agent.process
            await played.agent.initialize()
    assert process is not None
    assert process.returncode == 0


@pytest.mark.requirement("acp-provider.start.tolerant-initialize")
@pytest.mark.parametrize(
    "junk",
    [
        {},
        {"agentCapabilities": None, "authMethods": None, "agentInfo": None},
        {"agentCapabilities": "all", "authMethods": {"id": "x"}, "agentInfo": []},
        {"agentCapabilities": {"loadSession": 1, "sessionCapabilities": {"list": True}, "auth": "yes"}},
        {"agentCapabilities": {"promptCapabilities": {"image": "true"}, "sessionCapabilities": {"close": None}}},
    ],
)
async def test_missing_or_broken_capabilities_count_as_none(tmp_path: Path, junk: dict[str, Any]) -> None:
    async with playing(tmp_path, initialized(**junk)) as played:
        info = await played.agent.initialize()
        assert info.capabilities.advertised == frozenset()
        assert info.auth_methods == ()


@pytest.mark.requirement("acp-provider.start.tolerant-initialize")
async def test_broken_auth_methods_are_skipped_and_unknown_types_kept(tmp_path: Path) -> None:
    methods = [
        {"id": "a"},
        "junk",
        {"name": "no id"},
        {"id": "t", "name": "T", "type": "terminal", "args": ["--login", 3], "env": {"A": "1", "B": 2}},
        {"id": "e", "type": "env_var", "vars": [1]},
    ]
    async with playing(tmp_path, initialized(authMethods=methods)) as played:
        info = await played.agent.initialize()
        assert [(m.id, m.type) for m in info.auth_methods] == [("a", "agent"), ("t", "terminal"), ("e", "env_var")]
        assert info.auth_methods[1].args == ("--login",)
        assert info.auth_methods[1].env == {"A": "1"}
        await played.agent.authenticate("a")
        with pytest.raises(ClientError, match="terminal"):
            await played.agent.authenticate("t")
        with pytest.raises(ClientError, match="no method 'zz'"):
            await played.agent.authenticate("zz")
        assert played.params("authenticate") == [{"methodId": "a"}]


async def test_nothing_is_called_before_initialize(tmp_path: Path) -> None:
    async with playing(tmp_path) as played:
        with pytest.raises(ClientError, match="not been initialized"):
            await played.agent.new_session(tmp_path)


# --- what is advertised


@pytest.mark.requirement("acp-provider.client.gates")
async def test_nothing_is_sent_that_is_not_advertised(tmp_path: Path) -> None:
    async with playing(tmp_path, initialized()) as played:
        agent = played.agent
        await agent.initialize()
        await agent.new_session(tmp_path)
        refused: list[Callable[[], Awaitable[object]]] = [
            lambda: agent.load_session("x", tmp_path),
            lambda: agent.resume_session("x", tmp_path),
            lambda: agent.list_sessions(),
            lambda: agent.close_session("s1"),
            lambda: agent.delete_session("s1"),
            lambda: agent.logout(),
            lambda: agent.set_mode("s1", "ask"),
            lambda: agent.set_config_option("s1", "model", "x"),
            lambda: agent.new_session(tmp_path, roots=[tmp_path]),
            lambda: agent.new_session(tmp_path, [{"type": "http", "name": "n", "url": "http://h"}]),
            lambda: agent.new_session(tmp_path, [{"type": "sse", "name": "n", "url": "http://h"}]),
            lambda: agent.prompt("s1", [{"type": "image", "data": "", "mimeType": "image/png"}]),
            lambda: agent.prompt("s1", [{"type": "audio", "data": "", "mimeType": "audio/wav"}]),
            lambda: agent.prompt("s1", [{"type": "resource", "resource": {"uri": "file:///a", "text": ""}}]),
        ]
        for call in refused:
            with pytest.raises(NotAdvertised):
                await call()
        with pytest.raises(ClientError, match="unknown MCP transport"):
            await agent.new_session(tmp_path, [{"type": "acp", "name": "n"}])
        await agent.prompt("s1", [{"type": "resource_link", "uri": "file:///a", "name": "a"}])
        assert played.methods() == ["initialize", "session/new", "session/prompt"]


@pytest.mark.requirement("acp-provider.start.absolute-cwd", "acp-provider.start.no-fs-no-terminal")
async def test_the_working_directory_is_absolute_and_server_lists_are_complete(tmp_path: Path) -> None:
    servers: list[dict[str, Any]] = [
        {"name": "a", "command": "/bin/a", "type": "stdio"},
        {"name": "b", "command": "/bin/b", "args": ["x"], "env": [{"name": "K", "value": "V"}]},
        {"type": "http", "name": "c", "url": "http://h"},
    ]
    async with playing(tmp_path) as played:
        await played.agent.initialize()
        await played.agent.new_session("some/where")
        await played.agent.new_session(tmp_path, servers, roots=["other"])
        first, second = played.params("session/new")
        assert first == {"cwd": f"{os.getcwd()}/some/where", "mcpServers": []}
        assert second["additionalDirectories"] == [f"{os.getcwd()}/other"]
        assert second["mcpServers"] == [
            {"name": "a", "command": "/bin/a", "args": [], "env": []},
            {"name": "b", "command": "/bin/b", "args": ["x"], "env": [{"name": "K", "value": "V"}]},
            {"type": "http", "name": "c", "url": "http://h", "headers": []},
        ]
        official.NewSessionRequest.model_validate(second)


# --- JSON-RPC robustness


@pytest.mark.requirement("acp-provider.rpc.robust")
async def test_responses_nobody_waits_for_are_ignored_and_the_first_answer_wins(tmp_path: Path) -> None:
    steps = [
        {
            "raw": '{"jsonrpc":"2.0","id":999,"result":{}}\n'
            '{"jsonrpc":"2.0","id":"1","result":{"protocolVersion":7}}\n'
        },
        {"raw": '{"jsonrpc":"2.0","id":{},"result":1}\n{"jsonrpc":"2.0","result":1}\n'},
        {"result": {"protocolVersion": 1}},
        {"result": {"protocolVersion": 7}},
    ]
    async with playing(tmp_path, {"initialize": [steps]}) as played:
        await played.agent.initialize()
        await played.settled()
        assert played.answers() == {}


@pytest.mark.requirement("acp-provider.rpc.robust")
@pytest.mark.parametrize(
    "body",
    [
        '"result":{"sessions":[]},"error":{"code":1,"message":"m"}',
        '"error":{"message":"no code"}',
        '"error":"text"',
        '"error":null',
        '"x":1',
    ],
)
async def test_a_malformed_response_fails_its_own_request_only(tmp_path: Path, body: str) -> None:
    # initialize is request 1, session/new 2, session/list 3.
    steps = [{"raw": '{"jsonrpc":"2.0","id":3,' + body + "}\n"}]
    async with in_session(tmp_path, {"session/list": [steps]}) as played:
        with pytest.raises(RemoteError):
            await played.agent.list_sessions()
        assert (await played.agent.prompt("s1", "x")).stop_reason == "end_turn"
        await played.settled()
        assert played.answers() == {}


@pytest.mark.requirement("acp-provider.rpc.robust")
async def test_a_null_result_is_a_success_where_nothing_is_expected(tmp_path: Path) -> None:
    null = [[{"result": None}]]
    modes = {"currentModeId": "a", "availableModes": [{"id": "a", "name": "A"}, {"id": "b"}]}
    scripted = {
        "session/load": null,
        "session/resume": null,
        "session/set_mode": null,
        "session/close": null,
        "session/delete": null,
        "session/list": null,
        "logout": null,
        "session/new": [[{"result": {"sessionId": "s1", "modes": modes}}]],
    }
    async with in_session(tmp_path, scripted) as played:
        agent = played.agent
        await agent.load_session("old", tmp_path)
        await agent.resume_session("older", tmp_path)
        await agent.set_mode("s1", "b")
        assert agent.session("s1").mode == "b"
        await agent.close_session("old")
        await agent.delete_session("older")
        assert await agent.list_sessions() == []
        await agent.logout()


@pytest.mark.requirement("acp-provider.update.unhandled-request")
async def test_requests_this_client_does_not_offer_get_method_not_found(tmp_path: Path) -> None:
    methods = ["foo/bar", "_x/y", "fs/read_text_file", "terminal/create", "elicitation/create", "session/prompt"]
    steps = [
        {"send": {"jsonrpc": "2.0", "id": f"r{n}", "method": method, "params": {"sessionId": "s1"}}}
        for n, method in enumerate(methods)
    ]
    async with in_session(tmp_path, {"session/prompt": [[*steps, END_TURN]]}) as played:
        await played.agent.prompt("s1", "x")
        await played.settled()
        answers = played.answers()
        assert [answers[f"r{n}"]["error"]["code"] for n in range(len(methods))] == [-32601] * len(methods)


async def test_a_program_may_handle_requests_for_capabilities_it_advertises() -> None:
    async def read(params: Mapping[str, Any]) -> dict[str, Any]:
        if params["path"] != "/a":
            raise InvalidParams("only /a")
        return {"content": "text"}

    async def stuck(params: Mapping[str, Any]) -> None:
        await anyio.sleep_forever()

    ours, theirs = MemoryTransport.pair()
    handlers = ClientHandlers(requests={"fs/read_text_file": read, "_stuck": stuck})
    with anyio.fail_after(10):
        async with connect(ours, handlers), anyio.create_task_group() as group:
            peer = Peer(theirs)

            class Silent:
                def request(self, request: Any) -> None: ...
                def notification(self, method: str, params: bytes) -> None: ...
                def end_of_input(self) -> None: ...

            group.start_soon(peer.read, Silent())
            group.start_soon(peer.write)
            assert await peer.request("fs/read_text_file", {"path": "/a"}) == {"content": "text"}
            with pytest.raises(RemoteError, match="only /a"):
                await peer.request("fs/read_text_file", {"path": "/b"})
            with pytest.raises(RemoteError, match="must be an object"):
                await peer.request("fs/read_text_file", [1])
            with anyio.move_on_after(0.01):
                await peer.request("_stuck", {})
            group.cancel_scope.cancel()


@pytest.mark.requirement("acp-provider.update.unknown-ignored")
async def test_unknown_notifications_and_broken_updates_are_ignored(tmp_path: Path) -> None:
    def note(method: str, params: Any) -> dict[str, Any]:
        return {"send": {"jsonrpc": "2.0", "method": method, "params": params}}

    steps = [
        note("$/x", {}),
        note("_vendor/thing", [1, 2]),
        note("elicitation/complete", {"elicitationId": "zzz"}),
        note("session/update", {}),
        note("session/update", {"sessionId": 3, "update": {}}),
        note("session/update", {"sessionId": "s1"}),
        note("session/update", [1]),
        note("$/cancel_request", {"requestId": {"a": 1}}),
        {"update": {"sessionUpdate": "state_update", "state": "idle"}},
        {"update": {"sessionUpdate": 7}},
        {"update": {"sessionUpdate": "usage_update", "used": None, "size": 10}},
        {"update": chunk("still here", annotations=None, field_meta=None)},
        END_TURN,
    ]
    async with in_session(tmp_path, {"session/prompt": [steps]}) as played:
        await played.agent.prompt("s1", "x")
        assert played.said == "still here"
        assert len(played.updates) == 1


@pytest.mark.requirement("acp-provider.turn.failed-request")
@pytest.mark.parametrize("data", [None, 3, [1], {"sessionId": "s1"}])
async def test_any_error_code_is_a_plain_failure_with_its_message(tmp_path: Path, data: object) -> None:
    error: dict[str, Any] = {"code": 12345, "message": "no luck"}
    if data is not None:
        error["data"] = data
    async with in_session(tmp_path, {"session/prompt": [[{"error": error}], [END_TURN]]}) as played:
        with pytest.raises(RemoteError, match="no luck") as caught:
            await played.agent.prompt("s1", "x")
        assert (caught.value.code, caught.value.data) == (12345, data)
        assert (await played.agent.prompt("s1", "again")).stop_reason == "end_turn"


@pytest.mark.requirement("acp-provider.rpc.own-requests")
async def test_an_abandoned_call_is_cancelled_and_its_late_answer_ignored(tmp_path: Path) -> None:
    steps = [{"wait": "$/cancel_request"}, {"result": {"sessions": [{"sessionId": "x", "cwd": "/"}]}}]
    async with in_session(tmp_path, {"session/list": [steps, [{"result": {"sessions": []}}]]}) as played:
        async with anyio.create_task_group() as group:
            group.start_soon(played.agent.list_sessions)
            await anyio.wait_all_tasks_blocked()
            group.cancel_scope.cancel()
        assert await played.agent.list_sessions() == []
        lines = played.script.received()
        (call, _) = [line["id"] for line in lines if line.get("method") == "session/list"]
        assert played.params("$/cancel_request") == [{"requestId": call}]
        ids = [line["id"] for line in lines if "method" in line and "id" in line]
        assert len(ids) == len(set(ids))
        assert all(isinstance(number, int) for number in ids)


@pytest.mark.requirement("acp-provider.rpc.own-requests")
async def test_an_active_trace_travels_in_meta(tmp_path: Path) -> None:
    options = ClientOptions(trace=lambda: {"traceparent": "00-1-2-01"})
    async with in_session(tmp_path, options=options) as played:
        await played.agent.prompt("s1", "x")
        assert played.params("session/prompt")[0]["_meta"] == {"traceparent": "00-1-2-01"}


# --- sessions and updates


@pytest.mark.requirement("acp-provider.continue.early-updates")
async def test_updates_before_the_answer_of_session_new_are_held_and_applied_in_order(tmp_path: Path) -> None:
    commands = {"sessionUpdate": "available_commands_update", "availableCommands": [{"name": "go"}]}
    steps = [
        {"sessionId": "s1", "update": commands},
        {"sessionId": "s1", "update": chunk("1")},
        {"sessionId": "other", "update": chunk("lost")},
        {"result": {"sessionId": "s1"}},
        {"sessionId": "s1", "update": chunk("2")},
    ]
    async with playing(tmp_path, {"session/new": [steps]}) as played:
        await played.agent.initialize()
        session = await played.agent.new_session(tmp_path)
        await played.settled()
        assert [command.name for command in session.commands.commands] == ["go"]
        assert played.said == "12"


@pytest.mark.requirement("acp-provider.continue.load-second")
async def test_a_load_replays_its_history_before_it_returns_and_marks_it(tmp_path: Path) -> None:
    steps = [{"update": chunk("old")}, {"result": {"configOptions": None}}]
    async with playing(tmp_path, {"session/load": [steps]}) as played:
        await played.agent.initialize()
        await played.agent.load_session("before", tmp_path)
        assert [(u.session_id, u.replay) for u in played.updates] == [("before", True)]
        with pytest.raises(ClientError, match="already open"):
            await played.agent.load_session("before", tmp_path)


async def test_a_refused_load_leaves_nothing_behind(tmp_path: Path) -> None:
    refusal = {"error": {"code": -32002, "message": "no such session"}}
    async with playing(tmp_path, {"session/load": [[refusal]]}) as played:
        await played.agent.initialize()
        with pytest.raises(RemoteError):
            await played.agent.load_session("gone", tmp_path)
        with pytest.raises(ClientError, match="no open session 'gone'"):
            await played.agent.prompt("gone", "x")


async def test_updates_are_routed_by_session_and_unknown_ones_dropped(tmp_path: Path) -> None:
    steps = [
        {"sessionId": "s2", "update": chunk("two")},
        {"sessionId": "s9", "update": chunk("nobody")},
        {"sessionId": "s1", "update": chunk("one")},
        END_TURN,
    ]
    async with in_session(tmp_path, {"session/prompt": [steps]}) as played:
        await played.agent.new_session(tmp_path)
        await played.agent.prompt("s1", "x")
        assert [u.session_id for u in played.updates] == ["s2", "s1"]


@pytest.mark.requirement("acp-provider.turn.updates-before-done")
async def test_updates_are_handed_over_in_order_before_the_turn_is_done_and_late_ones_after(tmp_path: Path) -> None:
    steps = [{"update": chunk(f"{n} ")} for n in range(200)]
    late = {"update": {"sessionUpdate": "tool_call_update", "toolCallId": "c9", "status": "completed"}}
    async with in_session(tmp_path, {"session/prompt": [[*steps, END_TURN, late]]}) as played:
        await played.agent.prompt("s1", "x")
        assert played.said == "".join(f"{n} " for n in range(200))
        await played.settled()
        assert isinstance(played.updates[-1].update, ToolUpdate)
        assert played.updates[-1].row is not None
        assert played.updates[-1].row.title == "c9"


async def test_a_failing_update_handler_does_not_stop_the_stream(tmp_path: Path) -> None:
    seen: list[str] = []

    def fail_once(update: Any) -> None:
        assert isinstance(update.update, MessageChunk)
        seen.append(update.update.text)
        if len(seen) == 1:
            raise RuntimeError("a broken view")

    steps = [{"update": chunk("1")}, {"update": chunk("2")}, END_TURN]
    async with in_session(tmp_path, {"session/prompt": [steps]}) as played:
        played.agent._connection._handlers = ClientHandlers(on_update=fail_once)
        await played.agent.prompt("s1", "x")
    assert seen == ["1", "2"]


@pytest.mark.requirement("acp-provider.client.list-pages")
async def test_a_listing_follows_the_cursor_verbatim_to_its_end(tmp_path: Path) -> None:
    pages = [
        [{"result": {"sessions": [{"sessionId": "a", "cwd": "/a", "title": None}], "nextCursor": "c 1/="}}],
        [{"result": {"sessions": ["junk", {"sessionId": "b", "cwd": "/b", "title": "B"}], "nextCursor": ""}}],
        [{"result": {"sessions": [{"sessionId": "c", "cwd": "/c", "additionalDirectories": ["/d"]}, {"cwd": "/"}]}}],
    ]
    async with in_session(tmp_path, {"session/list": pages}) as played:
        found = await played.agent.list_sessions(tmp_path)
        assert [(entry.session_id, entry.title, entry.additional_directories) for entry in found] == [
            ("a", None, ()),
            ("b", "B", ()),
            ("c", None, ("/d",)),
        ]
        cwd = str(tmp_path)
        assert played.params("session/list") == [
            {"cwd": cwd},
            {"cwd": cwd, "cursor": "c 1/="},
            {"cwd": cwd, "cursor": ""},
        ]


@pytest.mark.requirement("acp-provider.client.list-pages")
async def test_a_repeated_cursor_is_an_error(tmp_path: Path) -> None:
    page = [{"result": {"sessions": [], "nextCursor": "again"}}]
    async with in_session(tmp_path, {"session/list": [page]}) as played:
        with pytest.raises(ListingError, match="repeats a cursor"):
            await played.agent.list_sessions()
        assert len(played.params("session/list")) == 2


@pytest.mark.requirement("acp-provider.options.set-shape")
async def test_options_are_set_by_id_and_the_list_is_replaced_by_the_result(tmp_path: Path) -> None:
    flat = [{"value": "x", "name": "X"}, {"value": "y"}]
    grouped = [{"group": "g", "name": "G", "options": flat}]
    options = [
        {
            "id": "model",
            "name": "Model",
            "category": "weird",
            "type": "select",
            "currentValue": "x",
            "options": grouped,
        },
        {"id": "fast", "name": "Fast", "type": "boolean", "currentValue": False},
        {"id": "slide", "name": "Slide", "type": "slider", "currentValue": 3},
    ]
    changed = [{"id": "model", "name": "Model", "type": "select", "currentValue": "y", "options": flat}]
    scripted = {
        "session/new": [[{"result": {"sessionId": "s1", "configOptions": options}}]],
        "session/set_config_option": [[{"result": None}], [{"result": {"configOptions": changed}}]],
    }
    async with in_session(tmp_path, scripted) as played:
        session = played.agent.session("s1")
        assert [(o.id, o.category, o.current, o.values) for o in session.options] == [
            ("model", "weird", "x", (("x", "X"), ("y", "y"))),
            ("fast", None, False, ()),
        ]
        assert len(await played.agent.set_config_option("s1", "fast", True)) == 2
        assert [o.current for o in await played.agent.set_config_option("s1", "model", "y")] == ["y"]
        with pytest.raises(NotAdvertised):
            await played.agent.set_config_option("s1", "model", True)
        assert played.params("session/set_config_option") == [
            {"sessionId": "s1", "configId": "fast", "value": True, "type": "boolean"},
            {"sessionId": "s1", "configId": "model", "value": "y"},
        ]


@pytest.mark.requirement("acp-provider.process.shutdown-ladder")
async def test_sessions_are_closed_first_and_not_found_counts_as_closed(tmp_path: Path) -> None:
    refusal = {"error": {"code": -32002, "message": "not active"}}
    async with in_session(
        tmp_path, {"session/close": [[refusal], [{"error": {"code": 1, "message": "no"}}]]}
    ) as played:
        await played.agent.new_session(tmp_path)
        await played.agent.close_session("s1")
        with pytest.raises(RemoteError):
            await played.agent.close_session("s2")
    assert played.methods()[-3:] == ["session/close"] * 3


# --- turns


@pytest.mark.parametrize(
    ("answer", "stop", "known"),
    [
        ({"stopReason": "end_turn"}, "end_turn", True),
        ({"stopReason": "max_tokens"}, "max_tokens", True),
        ({"stopReason": "max_turn_requests"}, "max_turn_requests", True),
        ({"stopReason": "refusal"}, "refusal", True),
        ({"stopReason": "cancelled"}, "cancelled", True),
        ({"stopReason": "tired"}, "tired", False),
        ({"stopReason": 3}, "", False),
        (None, "", False),
    ],
)
async def test_stop_reasons_are_passed_on_and_unknown_ones_told_apart(
    tmp_path: Path, answer: object, stop: str, known: bool
) -> None:
    async with in_session(tmp_path, {"session/prompt": [[{"result": answer}]]}) as played:
        end = await played.agent.prompt("s1", "x")
        assert (end.stop_reason, end.known) == (stop, known)


@pytest.mark.requirement("acp-provider.turn.one-prompt")
async def test_a_session_never_has_two_prompts_in_flight(tmp_path: Path) -> None:
    steps = [{"wait": "session/cancel"}, {"result": {"stopReason": "cancelled"}}]
    async with in_session(tmp_path, {"session/prompt": [steps, [END_TURN]]}) as played:
        async with anyio.create_task_group() as group:
            group.start_soon(played.agent.prompt, "s1", "one")
            await anyio.wait_all_tasks_blocked()
            with pytest.raises(TurnInProgress):
                await played.agent.prompt("s1", "two")
            played.agent.cancel("s1")
        assert (await played.agent.prompt("s1", "three")).stop_reason == "end_turn"
        assert len(played.params("session/prompt")) == 2


@pytest.mark.requirement("acp-provider.interrupt.waits-for-answer")
@pytest.mark.parametrize(
    ("answer", "said"),
    [
        ({"result": {"stopReason": "cancelled"}}, "cancelled"),
        ({"result": {"stopReason": "end_turn"}}, "end_turn"),
        ({"error": {"code": -32800, "message": "cancelled"}}, None),
        ({"error": {"code": -32603, "message": "aborted"}}, None),
    ],
)
async def test_an_interrupted_turn_is_cancelled_whatever_is_answered(
    tmp_path: Path, answer: dict[str, Any], said: str | None
) -> None:
    tool = {"sessionUpdate": "tool_call", "toolCallId": "c1", "title": "T", "status": "in_progress"}
    steps = [{"update": tool}, ask("p"), {"wait": "session/cancel"}, {"update": chunk("tail")}, answer]
    asked = anyio.Event()

    async def wait_for_user(request: PermissionRequest) -> str | None:
        asked.set()
        await anyio.sleep_forever()
        return "yes"

    async with in_session(tmp_path, {"session/prompt": [steps, [END_TURN]]}, permission=wait_for_user) as played:
        ends: list[Any] = []

        async def turn() -> None:
            ends.append(await played.agent.prompt("s1", "x"))

        async with anyio.create_task_group() as group:
            group.start_soon(turn)
            await asked.wait()
            played.agent.cancel("s1")
            played.agent.cancel("s1")
        assert [(end.stop_reason, end.answered) for end in ends] == [("cancelled", said)]
        assert played.said == "tail"
        statuses = [u.row.status for u in played.updates if u.row is not None]
        assert statuses == ["in_progress", "cancelled"]
        assert (await played.agent.prompt("s1", "again")).stop_reason == "end_turn"
        assert played.methods().count("session/cancel") == 1


@pytest.mark.requirement("acp-provider.interrupt.order", "acp-provider.interrupt.late-permission")
async def test_an_interrupt_answers_open_permissions_then_cancels_and_answers_late_ones_at_once(
    tmp_path: Path,
) -> None:
    steps = [
        ask("a1", "c1"),
        ask("a2", "c2"),
        {"wait": "session/cancel"},
        ask("a3", "c3"),
        {"wait": {"response": "a3"}},
        {"result": {"stopReason": "cancelled"}},
    ]
    open_questions: list[str] = []
    both = anyio.Event()

    async def wait_for_user(request: PermissionRequest) -> str | None:
        open_questions.append(request.row.call_id)
        if len(open_questions) == 2:
            both.set()
        try:
            await anyio.sleep_forever()
        finally:
            open_questions.remove(request.row.call_id)
        return None

    async with in_session(tmp_path, {"session/prompt": [steps]}, permission=wait_for_user) as played:
        async with anyio.create_task_group() as group:
            group.start_soon(played.agent.prompt, "s1", "x")
            await both.wait()
            played.agent.cancel("s1")
        lines = played.script.received()
        order = [line.get("id", line.get("method")) for line in lines[3:]]
        assert order == ["a1", "a2", "session/cancel", "a3"]
        assert all(answer["result"] == CANCELLED for answer in played.answers().values())
        assert open_questions == []


@pytest.mark.requirement("acp-provider.interrupt.idle-or-stuck")
async def test_an_interrupt_without_a_turn_sends_nothing(tmp_path: Path) -> None:
    async with in_session(tmp_path) as played:
        played.agent.cancel("s1")
        await played.agent.prompt("s1", "x")
        played.agent.cancel("s1")
        await played.settled()
        assert "session/cancel" not in played.methods()


@pytest.mark.requirement("acp-provider.interrupt.idle-or-stuck")
async def test_an_agent_that_never_answers_a_cancelled_prompt_is_given_up(tmp_path: Path) -> None:
    steps = [{"update": chunk("busy")}, {"wait": "nothing"}]
    async with in_session(
        tmp_path, {"session/prompt": [steps]}, options=ClientOptions(cancel_grace=0.05, close_sessions=0.05)
    ) as played:
        failures: list[Exception] = []

        async def turn() -> None:
            try:
                await played.agent.prompt("s1", "x")
            except AgentExited as error:
                failures.append(error)

        async with anyio.create_task_group() as group:
            group.start_soon(turn)
            await anyio.wait_all_tasks_blocked()
            played.agent.cancel("s1")
        assert "did not answer the cancelled prompt within 0.05 s" in str(failures[0])


async def test_a_caller_that_stops_waiting_cancels_the_turn_and_the_session_stays_busy_until_the_answer(
    tmp_path: Path,
) -> None:
    steps = [{"wait": "session/cancel"}, {"wait": "_test/go"}, {"result": {"stopReason": "cancelled"}}]
    async with in_session(tmp_path, {"session/prompt": [steps, [END_TURN]], "_test/go": [[]]}) as played:
        async with anyio.create_task_group() as group:
            group.start_soon(played.agent.prompt, "s1", "x")
            await anyio.wait_all_tasks_blocked()
            group.cancel_scope.cancel()
        turn = played.agent.session("s1").turn
        assert turn is not None
        with pytest.raises(TurnInProgress):
            await played.agent.prompt("s1", "y")
        played.agent._connection.post("_test/go", {})
        await turn.ended.wait()
        assert (await played.agent.prompt("s1", "z")).stop_reason == "end_turn"


# --- permissions


@pytest.mark.requirement("acp-provider.approval.option-by-kind")
async def test_a_permission_is_asked_with_what_is_known_of_the_call_and_answered_by_kind(tmp_path: Path) -> None:
    tool = {
        "sessionUpdate": "tool_call",
        "toolCallId": "c1",
        "title": "known",
        "kind": "execute",
        "rawInput": {"a": 1},
    }
    options = [
        {"optionId": "n", "name": "No", "kind": "reject_once"},
        {"optionId": "?", "name": "Hm", "kind": "allow_everything_forever"},
        {"name": "no id", "kind": "allow_once"},
        {"optionId": "y", "name": "Yes", "kind": "allow_once"},
        {"optionId": "y2", "name": "Yes", "kind": "allow_once"},
    ]
    asked: list[PermissionRequest] = []

    async def allow(request: PermissionRequest) -> str | None:
        asked.append(request)
        return choose_option(request.options, "allow_always")

    steps = [{"update": tool}, ask("p", options=options), {"wait": {"response": "p"}}, END_TURN]
    async with in_session(tmp_path, {"session/prompt": [steps]}, permission=allow) as played:
        await played.agent.prompt("s1", "x")
        assert played.answers()["p"]["result"] == {"outcome": {"outcome": "selected", "optionId": "y"}}
        assert (asked[0].row.title, asked[0].row.kind, asked[0].row.raw_input) == ("run it", "execute", {"a": 1})
        official.RequestPermissionResponse.model_validate(played.answers()["p"]["result"])


@pytest.mark.requirement("acp-provider.approval.falls-narrower")
@pytest.mark.parametrize(
    ("kinds", "decision", "chosen"),
    [
        (["reject_once", "allow_once", "allow_always"], "allow_once", "allow_once"),
        (["reject_once", "allow_once"], "allow_always", "allow_once"),
        (["allow_always", "reject_always"], "allow_once", "reject_always"),
        (["allow_always"], "allow_once", None),
        (["allow_once", "allow_always"], "reject", None),
        (["reject_always", "reject_once"], "reject", "reject_once"),
        (["mystery"], "allow_always", None),
        ([], "reject", None),
    ],
)
async def test_a_decision_takes_its_kind_or_the_next_stricter_and_never_a_wider_one(
    tmp_path: Path, kinds: list[str], decision: Any, chosen: str | None
) -> None:
    async def decide(request: PermissionRequest) -> str | None:
        return choose_option(request.options, decision)

    options = [{"optionId": kind, "name": kind, "kind": kind} for kind in kinds]
    steps = [ask("p", options=options), {"wait": {"response": "p"}}, END_TURN]
    async with in_session(tmp_path, {"session/prompt": [steps]}, permission=decide) as played:
        await played.agent.prompt("s1", "x")
        expected = CANCELLED if chosen is None else {"outcome": {"outcome": "selected", "optionId": chosen}}
        assert played.answers()["p"]["result"] == expected


async def test_without_a_handler_or_with_a_broken_one_nothing_is_approved(tmp_path: Path) -> None:
    async def broken(request: PermissionRequest) -> str | None:
        raise RuntimeError("no view")

    async def made_up(request: PermissionRequest) -> str | None:
        return "not on offer"

    empty = {"send": {"jsonrpc": "2.0", "id": "q", "method": "session/request_permission", "params": None}}
    strange = ask("r", session="s9")
    steps = [ask("p"), {"wait": {"response": "p"}}, empty, {"wait": {"response": "q"}}, strange, END_TURN]
    for number, (handler, outcome) in enumerate(
        [
            (None, {"outcome": {"outcome": "selected", "optionId": "no"}}),
            (broken, CANCELLED),
            (made_up, CANCELLED),
        ]
    ):
        where = tmp_path / str(number)
        where.mkdir()
        async with in_session(where, {"session/prompt": [steps]}, permission=handler) as played:
            await played.agent.prompt("s1", "x")
            await played.settled()
            answers = played.answers()
            assert [answers[key]["result"] for key in ("p", "q", "r")] == [outcome, CANCELLED, CANCELLED]


@pytest.mark.requirement("acp-provider.approval.withdrawn")
async def test_a_permission_withdrawn_by_the_agent_disappears_and_is_answered_once(tmp_path: Path) -> None:
    gone = anyio.Event()

    async def wait_for_user(request: PermissionRequest) -> str | None:
        try:
            await anyio.sleep_forever()
        finally:
            gone.set()
        return "yes"

    withdraw = {"send": {"jsonrpc": "2.0", "method": "$/cancel_request", "params": {"requestId": "p"}}}
    steps = [ask("p"), withdraw, {"wait": {"response": "p"}}, withdraw, END_TURN]
    async with in_session(tmp_path, {"session/prompt": [steps]}, permission=wait_for_user) as played:
        await played.agent.prompt("s1", "x")
        await gone.wait()
        played.agent.cancel("s1")
        await played.settled()
        answers = [line for line in played.script.received() if line.get("id") == "p"]
        assert [answer["error"]["code"] for answer in answers] == [-32800]


async def test_a_permission_left_open_at_the_end_of_its_turn_is_withdrawn(tmp_path: Path) -> None:
    async def wait_for_user(request: PermissionRequest) -> str | None:
        await anyio.sleep_forever()
        return "yes"

    async with in_session(tmp_path, {"session/prompt": [[ask("p"), END_TURN]]}, permission=wait_for_user) as played:
        await played.agent.prompt("s1", "x")
        await played.settled()
        assert played.answers()["p"]["result"] == CANCELLED


@pytest.mark.requirement("acp-provider.process.death")
async def test_permissions_are_withdrawn_when_the_agent_dies(tmp_path: Path) -> None:
    asked, gone = anyio.Event(), anyio.Event()

    async def wait_for_user(request: PermissionRequest) -> str | None:
        asked.set()
        try:
            await anyio.sleep_forever()
        finally:
            gone.set()
        return "yes"

    async with in_session(
        tmp_path,
        {"session/prompt": [[ask("p"), {"wait": "die"}, {"exit": 1}]], "die": [[]]},
        permission=wait_for_user,
    ) as played:

        async def turn() -> None:
            with pytest.raises(AgentExited, match="status 1"):
                await played.agent.prompt("s1", "x")

        async with anyio.create_task_group() as group:
            group.start_soon(turn)
            await asked.wait()
            played.agent._connection.post("die", {})
        await gone.wait()


@pytest.mark.requirement("acp-provider.process.death")
async def test_a_prompt_after_the_agents_end_fails_as_every_call_does(tmp_path: Path) -> None:
    async with in_session(tmp_path, {"session/prompt": [[{"exit": 3}]]}) as played:
        for _ in range(2):
            with pytest.raises(AgentExited, match="status 3"):
                await played.agent.prompt("s1", "x")
            await anyio.wait_all_tasks_blocked()


async def test_a_permission_for_a_reused_id_knows_nothing_of_the_ended_call(tmp_path: Path) -> None:
    asked: list[PermissionRequest] = []

    async def deny(request: PermissionRequest) -> str | None:
        asked.append(request)
        return None

    done = {"sessionUpdate": "tool_call", "toolCallId": "c1", "title": "T", "kind": "read", "status": "completed"}
    steps = [{"update": done}, ask("p"), {"wait": {"response": "p"}}, END_TURN]
    async with in_session(tmp_path, {"session/prompt": [steps]}, permission=deny) as played:
        await played.agent.prompt("s1", "x")
    assert [(request.row.kind, request.row.status) for request in asked] == [("other", "pending")]


@pytest.mark.requirement("acp-provider.update.tool-orphan-and-reuse")
async def test_an_id_announced_again_in_a_later_turn_is_another_call_even_if_the_old_one_never_ended(
    tmp_path: Path,
) -> None:
    tool = {"sessionUpdate": "tool_call", "toolCallId": "c1", "title": "T", "rawInput": 1}
    again = {"sessionUpdate": "tool_call", "toolCallId": "c1", "title": "T"}
    turns = [[{"update": tool}, {"update": again}, END_TURN], [{"update": again}, {"update": again}, END_TURN]]
    async with in_session(tmp_path, {"session/prompt": turns}) as played:
        await played.agent.prompt("s1", "x")
        await played.agent.prompt("s1", "y")
        rows = [(u.row.generation, u.row.raw_input) for u in played.updates if u.row is not None]
        assert rows == [(1, 1), (1, 1), (2, None), (2, None)]


async def test_a_plan_replaces_the_plan_before_it(tmp_path: Path) -> None:
    def plan(*steps: str) -> dict[str, Any]:
        return {
            "update": {"sessionUpdate": "plan", "entries": [{"content": step, "status": "odd"} for step in steps]}
        }

    steps = [plan("a", "b", "c"), plan("d"), plan(), END_TURN]
    async with in_session(tmp_path, {"session/prompt": [steps]}) as played:
        await played.agent.prompt("s1", "x")
        sizes = [len(u.update.entries) for u in played.updates if isinstance(u.update, Plan)]
        assert sizes == [3, 1, 0]
        assert played.agent.session("s1").plan == Plan(())


async def test_an_agent_over_a_stream_is_driven_like_one_in_a_process() -> None:
    ours, theirs = MemoryTransport.pair()
    with anyio.fail_after(10):
        async with connect(ours) as agent:
            theirs.send_eof()
            with pytest.raises(AgentExited, match="closed the connection"):
                await agent.initialize()
            assert agent.process is None
    assert QUICK.after_close > 0
