"""What session/load shows of a stored history, and what it does not."""

from __future__ import annotations

import base64
import json
import sqlite3
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from sluice.persistence.records import Item, Part, ToolCallRecord
from sluice.persistence.store import Store
from tests.handlers.support import assistant, history, item, stored, user
from tests.support.model_server import ModelServer, Reply, Text, Thought, call, calls, text
from tests.support.setup import agent_on, scripted_agent
from tests.support.wire import Client, serving

pytestmark = pytest.mark.anyio

Json = dict[str, Any]


async def loaded(tmp_path: Path, *items: Item, session: str = "old") -> Client:
    """The client after a load of a session with these items."""
    database = tmp_path / "s.db"
    await stored(database, session, *items, cwd=tmp_path)
    async with serving(scripted_agent(tmp_path, {"text": "x"}), database) as server:
        await server.client.initialize()
        answer = await server.client.call("session/load", sessionId=session, cwd=str(tmp_path), mcpServers=[])
        assert "result" in answer and server.client.log[-1] == answer
    return server.client


def shown(client: Client, kind: str) -> str:
    return "".join(u["content"]["text"] for u in client.updates(kind=kind))


@pytest.mark.requirement(
    "session.load.user-chunks", "session.load.excludes-internal", "session.load.includes-failed-turns"
)
async def test_what_people_saw_is_shown_and_what_was_internal_is_not(tmp_path: Path) -> None:
    client = await loaded(
        tmp_path,
        item("system", Part(type="text", text="SYSTEM")),
        user("hello"),
        user("IMPLICIT", implicit=True),
        assistant("half an ans", id="m1", finish_reason="interrupted"),
        Item(kind="error", code="model_error", text="the service was gone"),
        Item(kind="summary", text="SUMMARY", first_kept=1),
        Item(kind="termination", text="TERMINATION"),
        assistant("done", id="m2", thought="pondering"),
    )
    kinds = [u["sessionUpdate"] for u in history(client, "old")]
    assert kinds == ["user_message_chunk", *["agent_message_chunk"] * 2, "agent_thought_chunk", "agent_message_chunk"]
    assert shown(client, "user_message_chunk") == "hello" and shown(client, "agent_thought_chunk") == "pondering"
    said = shown(client, "agent_message_chunk")
    assert said.startswith("half an ans") and "model_error" in said and said.endswith("done")
    everything = json.dumps(client.log)
    assert not any(word in everything for word in ("SYSTEM", "IMPLICIT", "SUMMARY", "TERMINATION"))


@pytest.mark.requirement(
    "session.load.tools.missing-result",
    "session.load.tools.no-arguments",
    "message-ids.tool-name.replay-no-arguments",
)
async def test_a_call_without_a_result_is_failed_with_its_outcome_unknown(tmp_path: Path) -> None:
    two = (
        ToolCallRecord("t1", "shell", '{"cmd":"SECRET-ARGUMENT"}'),
        ToolCallRecord("t2", "write_file", '{"path":"/SECRET-ARGUMENT"}'),
    )
    client = await loaded(
        tmp_path,
        item("assistant", id="m", tool_calls=two),
        item("tool", Part(type="text", text="fine"), tool_call_id="t1", tool_name="shell", status="completed"),
    )
    first, second = client.updates(kind="tool_call")
    assert (first["status"], first["content"][0]["content"]["text"]) == ("completed", "fine")
    assert second["status"] == "failed" and "unknown" in second["content"][0]["content"]["text"]
    assert [first["name"], second["name"]] == ["shell", "write_file"]
    assert not {first["toolCallId"], second["toolCallId"]} & {"t1", "t2", "m"}
    assert not any(u.get(key) for u in (first, second) for key in ("rawInput", "locations"))
    assert "SECRET-ARGUMENT" not in json.dumps(client.log)


@pytest.mark.requirement(
    "session.load.bounds.utf8-chunks", "session.load.bounds.notification-1mib", "session.load.bounds.tool-output-64k"
)
async def test_long_texts_are_split_between_characters_and_tool_output_is_cut(tmp_path: Path) -> None:
    """Six bytes of JSON may stand for one of the text, so the bound is one on what is written."""
    long = "añ🙂\u2028" * 60_000 + "\x01" * 700_000
    output = "ü" * 50_000
    client = await loaded(
        tmp_path,
        user(long),
        item("assistant", id="m", tool_calls=(ToolCallRecord("t", "shell", "{}"),)),
        item("tool", Part(type="text", text=output), tool_call_id="t", tool_name="shell", status="completed"),
        assistant(long, id="m2"),
    )
    assert shown(client, "user_message_chunk") == long == shown(client, "agent_message_chunk")
    ids = {u["messageId"] for u in client.updates(kind="user_message_chunk")}
    assert len(ids) == 1 and len(client.updates(kind="user_message_chunk")) > 2
    sizes = [len(json.dumps(m["params"], ensure_ascii=False)) for m in client.log if "params" in m]
    assert max(sizes) <= 1 << 20
    (tool,) = client.updates(kind="tool_call")
    kept, _, note = tool["content"][0]["content"]["text"].partition("\n")
    assert kept == "ü" * (32 << 10) and "64 KiB" in note


def blob(kind: str, size: int, mime: str) -> Part:
    return Part(type=kind, data=base64.b64encode(b"\0" * size).decode(), mime_type=mime, name="n", size=size)


@pytest.mark.requirement(
    "session.load.bounds.inline-512k",
    "session.load.bounds.user-audio",
    "session.load.bounds.unavailable-without-io",
    "session.load.no-side-effects",
)
async def test_small_binaries_come_back_and_everything_else_is_named(tmp_path: Path) -> None:
    limit = 512 << 10
    rate = "audio/l16;rate=16000"
    client = await loaded(
        tmp_path,
        item(
            "user",
            blob("image", limit, "image/png"),
            blob("image", limit + 1, "image/png"),
            blob("audio", 10, rate),
            blob("audio", limit + 1, rate),
            blob("document", limit, "application/pdf"),
            Part(type="image", mime_type="image/png", name="http://127.0.0.1:9/far.png"),
            Part(type="image", data="AAAA", mime_type="image/" + "x" * (11 << 20), size=3),
        ),
        item("assistant", blob("audio", 10, rate)),
    )
    blocks = [u["content"] for u in client.updates() if u["sessionUpdate"].endswith("chunk")]
    assert [b["type"] for b in blocks] == ["image", "text", "audio", "text", "resource", "text", "text", "text"]
    assert blocks[2]["mimeType"] == rate and base64.b64decode(blocks[2]["data"]) == b"\0" * 10
    assert len(base64.b64decode(blocks[0]["data"])) == limit
    assert all("not replayed" in b["text"] and len(b["text"]) < 400 for b in blocks if b["type"] == "text")


@pytest.mark.requirement(
    "session.load.order.nested-in-place", "message-ids.persist.nested-owner", "store.items.keyed-by-session"
)
async def test_a_nested_session_is_shown_where_it_was_stored_with_the_ids_of_the_child(tmp_path: Path) -> None:
    database = tmp_path / "s.db"
    await stored(database, "root", cwd=tmp_path)
    await stored(database, "child", user("task", id="c1"), assistant("child says", id="c2"), cwd=None, parent="root")
    await stored(database, "leaf", assistant("leaf says", id="l1"), cwd=None, parent="child")
    store = await Store.open(database)
    await store.append("child", [Item(kind="sub_session", session_id="leaf"), assistant("child ends", id="c3")])
    await store.append("root", [user("one", id="r1"), Item(kind="sub_session", session_id="child")])
    await store.append("root", [assistant("root ends", id="r2"), Item(kind="sub_session", session_id="gone")])
    await store.aclose()
    async with serving(scripted_agent(tmp_path, {"text": "x"}), database) as server:
        client = server.client
        await client.initialize()
        await client.result("session/load", sessionId="root", cwd=str(tmp_path), mcpServers=[])
        texts = [u["content"]["text"] for u in history(client, "root")]
        assert texts == ["one", "task", "child says", "leaf says", "child ends", "root ends"]
        under_root = {u["content"]["text"]: u["messageId"] for u in history(client, "root")}
        assert len(set(under_root.values())) == 6
        assert (await client.result("session/list"))["sessions"][0]["sessionId"] == "root"
    # The same child with a workspace of its own: its ids do not depend on where it is shown.
    connection = sqlite3.connect(database)
    connection.execute("UPDATE sessions SET cwd = ? WHERE id = 'child'", [str(tmp_path)])
    connection.commit()
    connection.close()
    async with serving(scripted_agent(tmp_path, {"text": "x"}), database) as server:
        await server.client.initialize()
        await server.client.result("session/load", sessionId="child", cwd=str(tmp_path), mcpServers=[])
        alone = {u["content"]["text"]: u["messageId"] for u in history(server.client, "child")}
        assert {text: under_root[text] for text in alone} == alone


@pytest.mark.requirement("message-ids.legacy.position-based", "message-ids.persist.copied-differs")
async def test_messages_without_an_id_get_one_from_their_position_and_owner(tmp_path: Path) -> None:
    items = [user("same"), assistant("one"), assistant("two"), assistant("known", id="m")]
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    first = [u["messageId"] for u in history(await loaded(tmp_path / "a", *items))]
    again = [u["messageId"] for u in history(await loaded(tmp_path / "b", *items))]
    assert first == again and len(set(first)) == 4
    (tmp_path / "c").mkdir()
    copied = [u["messageId"] for u in history(await loaded(tmp_path / "c", *items, session="copy"))]
    assert not set(first) & set(copied)


@pytest.mark.requirement(
    "message-ids.chunk.always",
    "message-ids.chunk.thought-differs",
    "message-ids.persist.logical-id",
    "message-ids.user.agent-made",
    "message-ids.persist.stable-display",
    "session.load.live-keeps-runtime",
)
async def test_ids_are_ours_and_the_same_live_in_a_live_load_and_in_a_cold_one(tmp_path: Path) -> None:
    """Naively a replay makes fresh ids, and a client shows every message twice."""
    database = tmp_path / "s.db"
    thinking = Reply([Thought("hm"), Thought("m"), Text("an"), Text("swer")])
    async with ModelServer([replace(thinking, steps=[*thinking.steps, *text("").steps])]) as model:
        file = agent_on(tmp_path, model.base_url)
        async with serving(file, database) as server:
            client = server.client
            await client.initialize()
            session = await client.new(tmp_path)
            block = {"type": "text", "text": "hi"}
            response = await client.call("session/prompt", sessionId=session, prompt=[block], messageId="client-made")
            assert response["result"] == {"stopReason": "end_turn"}
            live = [(u["sessionUpdate"], u["messageId"]) for u in client.updates() if "messageId" in u]
            thought, said = {i for k, i in live if "thought" in k}, {i for k, i in live if "message" in k}
            assert len(thought) == 1 == len(said) and thought != said
            before = len(history(client))
            runtime = server.connection.entries[session].live
            await client.result("session/load", sessionId=session, cwd=str(tmp_path), mcpServers=[])
            assert server.connection.entries[session].live is runtime
            active = history(client)[before:]
        async with serving(file, database) as server:
            await server.client.initialize()
            await server.client.result("session/load", sessionId=session, cwd=str(tmp_path), mcpServers=[])
            cold = history(server.client)
    for replayed in (active, cold):
        assert [u["sessionUpdate"] for u in replayed] == [
            "user_message_chunk",
            "agent_thought_chunk",
            "agent_message_chunk",
        ]
        assert {replayed[1]["messageId"]} == thought and {replayed[2]["messageId"]} == said
    assert active[0]["messageId"] == cold[0]["messageId"] != "client-made"
    assert "client-made" not in json.dumps([active, cold])


@pytest.mark.requirement("message-ids.tool-name.omitted")
async def test_a_name_that_is_too_long_or_unprintable_is_left_out_and_not_cut(tmp_path: Path) -> None:
    names = ["n" * 129, "a\x07b", "", "fine"]
    records = tuple(ToolCallRecord(f"t{i}", name, "{}") for i, name in enumerate(names))
    client = await loaded(tmp_path, item("assistant", id="m", tool_calls=records))
    tools = client.updates(kind="tool_call")
    assert [u.get("name") for u in tools] == [None, None, None, "fine"] and all(u["title"] for u in tools)


@pytest.mark.requirement("session.load.failure.closes-and-unroutes", "session.load.captured-copy")
async def test_a_replay_that_fails_closes_the_session_and_a_later_load_begins_anew(tmp_path: Path) -> None:
    """A nested session whose row is damaged: the load must not pass for a success that shows half of it."""
    database = tmp_path / "s.db"
    nested = Item(kind="sub_session", session_id="child")
    await stored(database, "root", user("one"), cwd=tmp_path)
    await stored(database, "child", assistant("inside", id="c"), cwd=None, parent="root")
    store = await Store.open(database)
    await store.append("root", [nested, assistant("end", id="e")])
    await store.aclose()

    def child_body(new: str | None = None) -> str:
        connection = sqlite3.connect(database)
        try:
            (old,) = connection.execute("SELECT body FROM session_items WHERE session_id = 'child'").fetchone()
            if new is not None:
                connection.execute("UPDATE session_items SET body = ? WHERE session_id = 'child'", [new])
                connection.commit()
            return str(old)
        finally:
            connection.close()

    good = child_body()
    load: Json = {"sessionId": "root", "cwd": str(tmp_path), "mcpServers": []}
    async with serving(scripted_agent(tmp_path, {"text": "x"}), database) as server:
        client = server.client
        await client.initialize()
        await client.result("session/resume", **load)
        for _ in range(2):  # once on the live session, once on one that is not open
            child_body("{damaged")
            error = await client.error("session/load", **load)
            assert error["code"] == -32603
            assert (await client.prompt("root", "hi"))["error"]["code"] == -32002
            child_body(good)
        await client.result("session/load", **load)
        assert [u["content"]["text"] for u in history(client, "root")] == ["one", "inside", "end"]
        assert (await client.prompt("root", "hi"))["result"] == {"stopReason": "end_turn"}


@pytest.mark.requirement(
    "session.load.no-side-effects", "session.load.cold-default-agent", "session.load.required-fields"
)
async def test_a_load_asks_no_model_runs_nothing_and_needs_all_its_fields(tmp_path: Path) -> None:
    """Field case B09: a load that shows nothing, too late, or succeeds for an unknown id."""
    agents = {"helper": {"model": "m", "description": "d", "instruction": "HELPER"}}
    async with ModelServer([calls(call("think", thought="x")), text("final words"), text("more")]) as model:
        file = agent_on(tmp_path, model.base_url)
        content = yaml.safe_load(file.read_text())
        content["agents"].update(agents)
        file.write_text(json.dumps(content))
        async with serving(file, tmp_path / "s.db") as server:
            await server.client.initialize()
            session = await server.client.new(tmp_path)
            await server.client.prompt(session, "first question")
        async with serving(file, tmp_path / "s.db") as server:
            client = server.client
            await client.initialize()
            where: Json = {"sessionId": session, "cwd": str(tmp_path), "mcpServers": []}
            for missing in where:
                partial = {key: value for key, value in where.items() if key != missing}
                assert (await client.error("session/load", **partial))["code"] == -32602, missing
            assert (await client.error("session/load", **{**where, "mcpServers": None}))["code"] == -32602
            assert (await client.error("session/load", **{**where, "sessionId": "no-such-id"}))["code"] == -32002
            assert history(client) == [] and len((await client.result("session/list"))["sessions"]) == 1
            await client.result("session/load", **where)
            kinds = [u["sessionUpdate"] for u in history(client)]
            assert kinds == ["user_message_chunk", "tool_call", "agent_message_chunk"]
            assert len(model.requests) == 2 and not [m for m in client.log if "method" in m and "id" in m]
            await client.prompt(session, "again")
            assert model.requests[2].messages[0]["content"].startswith("Help.")
        assert model.refusals == []
