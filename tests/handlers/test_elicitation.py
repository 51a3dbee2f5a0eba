"""elicitation/create over the wire: questions of tools, by the user_prompt tool and by the port itself."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import anyio
import pytest

from sluice.agent.ports import ElicitationAnswer, FormQuestion, ToolContext, UrlQuestion
from sluice.handlers import elicitation
from sluice.handlers.elicitation import ClientElicitation
from sluice.wire import tracing
from tests.support.model_server import Scripted, call, calls, text
from tests.support.setup import Stage, on_stage

pytestmark = pytest.mark.anyio

Json = dict[str, Any]
NAME: Json = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
FORM: Json = {"elicitation": {"form": {}}}
URL: Json = {"elicitation": {"url": {}}}
BOTH: Json = {"elicitation": {"form": {}, "url": {}}}
TOOLSETS = [{"type": "user_prompt"}, {"type": "shell"}]


@asynccontextmanager
async def asking(
    directory: Path, *replies: Scripted, schema: Any = NAME, **capabilities: Any
) -> AsyncIterator[Stage]:
    """A session whose first turn asks for a name with user_prompt, and then ends."""
    question = calls(call("user_prompt", message="Who are you?", **({"schema": schema} if schema else {})))
    made = replies or (question, text("end"))
    async with on_stage(directory, *made, agent={"toolsets": TOOLSETS}, **capabilities) as stage:
        yield stage


def port(stage: Stage) -> ClientElicitation:
    live = stage.server.connection.entries[stage.session].live
    assert live is not None
    return live.elicitation


def owner(stage: Stage, call_id: str = "c") -> ToolContext:
    return ToolContext(stage.session, call_id, str(stage.cwd))


def said(stage: Stage) -> Json:
    """What the tool was told, as the model sees it."""
    message = stage.model.requests[-1].messages[-1]
    assert message["role"] == "tool"
    answer: Json = json.loads(message["content"])
    return answer


def path_of(stage: Stage) -> list[str]:
    return [t.target for t in stage.server.transitions if t.machine == "elicitation"]


async def send_prompt(stage: Stage) -> int:
    message = stage.client.send_prompt(stage.session, "go")
    await stage.client.write(message)
    return int(message["id"])


# --- forms ------------------------------------------------------------------------------------------------------


@pytest.mark.requirement(
    "tools.user-prompt.via-elicitation",
    "elicitation.request.session-scope",
    "elicitation.schema.supported",
    "elicitation.reply.validated",
    "elicitation.history.not-stored",
)
async def test_a_question_is_asked_as_a_form_of_its_session_and_the_tool_gets_the_answer(tmp_path: Path) -> None:
    async with asking(tmp_path, **FORM) as stage:
        await stage.client.new(stage.cwd)  # the newest session is not the one that asks
        prompt = await send_prompt(stage)
        asked = await stage.client.asked("elicitation/create")
        assert asked["params"] == {
            "mode": "form",
            "sessionId": stage.session,
            "message": "Who are you?",
            "requestedSchema": NAME,
        }
        await stage.client.respond(asked, {"action": "accept", "content": {"name": "Ada"}})
        assert (await stage.client.answer(prompt))["result"] == {"stopReason": "end_turn"}
        assert said(stage) == {"action": "accept", "content": {"name": "Ada"}}
        assert path_of(stage) == ["accepted"]
        roles = [m["role"] for m in stage.model.requests[-1].messages]
        assert roles == ["system", "user", "assistant", "tool"]


@pytest.mark.requirement("elicitation.reply.fail-closed", "tools.user-prompt.via-elicitation")
@pytest.mark.parametrize(
    ("answer", "action"),
    [
        ({"action": "decline"}, "decline"),
        ({"action": "decline", "content": {"name": "Ada"}}, "decline"),
        ({"action": "cancel", "content": {"name": "Ada"}}, "cancel"),
        ({"action": "accept"}, "decline"),
        ({"action": "accept", "content": None}, "decline"),
        ({"action": "accept", "content": {}}, "decline"),
        ({"action": "accept", "content": {"name": 3}}, "decline"),
        ({"action": "accept", "content": {"name": "Ada", "more": 1}}, "decline"),
        ({"action": "accept", "content": [["name", "Ada"]]}, "decline"),
        ({"action": "maybe", "content": {"name": "Ada"}}, "decline"),
        ({"action": True, "content": {"name": "Ada"}}, "decline"),
        ({"content": {"name": "Ada"}}, "decline"),
        ({}, "decline"),
        (None, "decline"),
        ("accept", "decline"),
    ],
)
async def test_only_a_clear_and_valid_answer_is_an_acceptance(tmp_path: Path, answer: Any, action: str) -> None:
    """Naively a broken answer becomes an acceptance with empty content, and the tool goes on with it."""
    async with asking(tmp_path, **FORM) as stage:
        stage.client.responders["elicitation/create"] = lambda request: {"result": answer}
        assert (await stage.client.prompt(stage.session, "go"))["result"] == {"stopReason": "end_turn"}
        assert said(stage)["action"] == action and "content" not in said(stage)
        assert path_of(stage) == ["cancelled" if action == "cancel" else "declined"]


@pytest.mark.requirement("elicitation.reply.fail-closed")
async def test_an_error_is_a_decline_and_the_turn_goes_on(tmp_path: Path) -> None:
    async with asking(tmp_path, **FORM) as stage:
        error = {"error": {"code": -32601, "message": "what?"}}
        stage.client.responders["elicitation/create"] = lambda request: error
        assert (await stage.client.prompt(stage.session, "go"))["result"] == {"stopReason": "end_turn"}
        assert said(stage)["action"] == "decline"


async def test_a_question_without_a_schema_can_only_be_agreed_to(tmp_path: Path) -> None:
    async with asking(tmp_path, schema=None, **FORM) as stage:
        stage.client.responders["elicitation/create"] = lambda request: {"result": {"action": "accept"}}
        await stage.client.prompt(stage.session, "go")
        assert said(stage) == {"action": "accept", "content": {}}


@pytest.mark.requirement("elicitation.schema.declined")
@pytest.mark.parametrize(
    "schema",
    [
        {"type": "object", "properties": {"a": {"type": "object", "properties": {}}}},
        {"type": "object", "properties": {"a": {"type": "string", "format": "hostname"}}},
        {"type": "object", "properties": {"a": {"$ref": "#/x"}}},
        {"type": "object", "additionalProperties": False},
        {"type": "string"},
    ],
)
async def test_a_form_that_cannot_be_checked_is_declined_here_with_the_reason(tmp_path: Path, schema: Json) -> None:
    async with asking(tmp_path, schema=schema, **FORM) as stage:
        await stage.client.prompt(stage.session, "go")
        assert said(stage)["action"] == "decline" and "not supported" in said(stage)["reason"]
        assert stage.client.requests("elicitation/") == [] and path_of(stage) == ["declined"]


@pytest.mark.requirement("elicitation.secrets.form-declined", "auth.method.no-secret-accepted")
@pytest.mark.parametrize(
    ("message", "schema"),
    [
        ("Your API key, please", {"type": "object", "properties": {"value": {"type": "string"}}}),
        ("One question", {"type": "object", "properties": {"client_secret": {"type": "string"}}}),
        ("One question", {"type": "object", "properties": {"x": {"type": "string", "title": "Password"}}}),
        ("sudo needs you", {"type": "object"}),
    ],
)
async def test_a_form_that_asks_for_a_credential_is_declined_also_when_pages_are_not_supported(
    tmp_path: Path, message: str, schema: Json
) -> None:
    async with asking(tmp_path, **FORM) as stage:
        answer = await port(stage).elicit(FormQuestion(message, schema), owner(stage))
        assert answer == ElicitationAnswer("decline", reason="a form must not ask for a credential")
        assert stage.client.requests("elicitation/") == []


# --- negotiation ------------------------------------------------------------------------------------------------


@pytest.mark.requirement(
    "elicitation.negotiate.independent",
    "elicitation.negotiate.unsupported-declined",
    "capability-matrix.client.no-ungated-call",
)
@pytest.mark.parametrize(
    ("capability", "modes"),
    [
        (None, set()),
        ({}, set()),
        ({"form": None}, set()),
        ({"form": True}, set()),
        ({"form": {}}, {"form"}),
        ({"url": {}}, {"url"}),
        ({"form": {}, "url": {}}, {"form", "url"}),
    ],
)
async def test_each_mode_is_asked_only_when_it_was_negotiated(
    tmp_path: Path, capability: Any, modes: set[str]
) -> None:
    async with asking(tmp_path, elicitation=capability) as stage:
        stage.client.responders["elicitation/create"] = lambda request: {
            "result": {"action": "accept", "content": {"name": "Ada"}}
        }
        form = await port(stage).elicit(FormQuestion("Who?", NAME), owner(stage))
        page = await port(stage).elicit(UrlQuestion("Look", "https://example.org/"), owner(stage))
        assert {m["params"]["mode"] for m in stage.client.requests("elicitation/")} == modes
        assert form.action == ("accept" if "form" in modes else "decline")
        assert page.action == ("accept" if "url" in modes else "decline")
        await stage.client.prompt(stage.session, "go")
        assert said(stage)["action"] == ("accept" if "form" in modes else "decline")


@pytest.mark.requirement("elicitation.negotiate.other-prompts-separate")
async def test_a_client_without_questions_is_still_asked_for_permission(tmp_path: Path) -> None:
    async with asking(tmp_path, calls(call("shell", cmd="touch x")), text("end")) as stage:
        prompt = await send_prompt(stage)
        await stage.client.allow("reject")
        await stage.client.answer(prompt)
        assert not (stage.cwd / "x").exists()


# --- pages ------------------------------------------------------------------------------------------------------


@pytest.mark.requirement(
    "elicitation.url.consent-only", "elicitation.url.agent-never-opens", "elicitation.url.no-complete"
)
async def test_accepting_a_page_is_a_consent_and_brings_no_content(tmp_path: Path) -> None:
    visits: list[bytes] = []
    listener = await anyio.create_tcp_listener(local_host="127.0.0.1")
    address = listener.extra(anyio.abc.SocketAttribute.local_port)

    async def visited(stream: anyio.abc.SocketStream) -> None:
        visits.append(await stream.receive())

    async with listener, asking(tmp_path, **URL) as stage, anyio.create_task_group() as tasks:
        tasks.start_soon(listener.serve, visited)
        answers = [{"action": "accept", "content": {"token": "x"}}, {"action": "decline"}, {"action": "cancel"}]
        stage.client.responders["elicitation/create"] = lambda request: {"result": answers.pop(0)}
        question = UrlQuestion("Sign in", f"http://127.0.0.1:{address}/a?b=c#d")
        got = [await port(stage).elicit(question, owner(stage)) for _ in range(3)]
        assert got == [ElicitationAnswer("accept"), ElicitationAnswer("decline"), ElicitationAnswer("cancel")]
        sent = stage.client.requests("elicitation/")
        assert [m["params"]["url"] for m in sent] == [question.url] * 3
        assert all(set(m["params"]) == {"mode", "message", "url", "elicitationId", "sessionId"} for m in sent)
        assert not any(m.get("method") == "elicitation/complete" for m in stage.client.log)
        assert visits == []
        tasks.cancel_scope.cancel()


@pytest.mark.requirement("elicitation.url.no-complete")
async def test_the_ids_of_open_pages_are_unique(tmp_path: Path) -> None:
    async with asking(tmp_path, **URL) as stage, anyio.create_task_group() as tasks:
        for _ in range(2):
            tasks.start_soon(port(stage).elicit, UrlQuestion("Look", "https://example.org/"), owner(stage))
        sent = [await stage.client.asked("elicitation/create") for _ in range(2)]
        assert len({m["params"]["elicitationId"] for m in sent}) == 2
        for request in sent:
            await stage.client.respond(request, {"action": "decline"})


@pytest.mark.requirement("elicitation.url.http-only")
@pytest.mark.parametrize(
    "url",
    [
        *("javascript:alert(1)", "file:///etc/passwd", "ftp://example.org", "//example.org", "example.org", ""),
        *(
            "https://user@example.org",
            "https://user:pw@example.org",
            "https://",
            "https://[",
            "https://a:0/",
            "http://a:x",
        ),
        *(
            "https://exa mple.org",
            "https://example.org\n",
            "https://example.org\\@evil.example",
            "https://exämple.org",
        ),
    ],
)
async def test_an_address_that_is_no_plain_web_address_is_declined(tmp_path: Path, url: str) -> None:
    async with asking(tmp_path, **URL) as stage:
        assert (await port(stage).elicit(UrlQuestion("Look", url), owner(stage))).action == "decline"
        assert stage.client.requests("elicitation/") == []


# --- limits -----------------------------------------------------------------------------------------------------


@pytest.mark.requirement("elicitation.limits.256-kib", "elicitation.limits.big-integers")
@pytest.mark.parametrize(
    "body",
    [
        '{"action":"accept","content":{"name":"' + "x" * (256 * 1024) + '"}}',
        '{"action":"accept","content":{"name":"Ada"}' + " " * (256 * 1024) + "}",
        '{"action":"accept","content":{"name":"' + "\u0001" * 50_000 + '"}}',
        '{"action":"accept","content":{"name":9007199254740992}}',
        '{"action":"accept","content":{"name":' + "1" * 5000 + "}}",
        '{"action":"accept","content":{"name":1e400}}',
        '{"action":"accept","content":' + '{"name":' * 300 + "1" + "}" * 300 + "}",
    ],
    ids=["text", "blanks", "escapes", "integer", "digits", "exponent", "nesting"],
)
async def test_an_answer_that_is_too_much_declines_its_question_only(tmp_path: Path, body: str) -> None:
    async with asking(tmp_path, **FORM) as stage:
        prompt = await send_prompt(stage)
        asked = await stage.client.asked("elicitation/create")
        body = body.replace("\u0001", "\\u0001")
        await stage.client.raw(b'{"jsonrpc":"2.0","id":%d,"result":%s}' % (asked["id"], body.encode()))
        assert (await stage.client.answer(prompt))["result"] == {"stopReason": "end_turn"}
        assert said(stage)["action"] == "decline"
        assert await stage.client.result("session/list")


@pytest.mark.requirement("elicitation.limits.big-integers")
async def test_a_big_integer_in_an_answer_declines_it_and_the_one_below_is_exact(tmp_path: Path) -> None:
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}}
    async with asking(tmp_path, **FORM) as stage:
        answers = [2**53, 2**53 - 1]
        stage.client.responders["elicitation/create"] = lambda request: {
            "result": {"action": "accept", "content": {"n": answers.pop(0)}}
        }
        assert (await port(stage).elicit(FormQuestion("n?", schema), owner(stage))).action == "decline"
        assert (await port(stage).elicit(FormQuestion("n?", schema), owner(stage))).content == {"n": 2**53 - 1}


@pytest.mark.requirement("elicitation.limits.256-kib")
async def test_a_question_that_is_too_much_is_not_sent(tmp_path: Path) -> None:
    many = {"type": "object", "properties": {f"f{n}": {"type": "string", "title": "x" * 100} for n in range(3000)}}
    async with asking(tmp_path, **BOTH) as stage:
        for question in (
            FormQuestion("x" * (256 * 1024), NAME),
            FormQuestion("q", many),
            FormQuestion("\ud800", NAME),
            UrlQuestion("q", "https://example.org/" + "x" * (256 * 1024)),
        ):
            assert (await port(stage).elicit(question, owner(stage))).action == "decline"
        assert stage.client.requests("elicitation/") == []


@pytest.mark.requirement("elicitation.limits.128-pending")
async def test_question_129_of_the_connection_is_declined_and_room_comes_back(tmp_path: Path) -> None:
    async with asking(tmp_path, **FORM) as stage, anyio.create_task_group() as tasks:
        other = await stage.client.new(stage.cwd)
        second = stage.server.connection.entries[other].live
        assert second is not None
        for _ in range(elicitation.MAX_PENDING):
            tasks.start_soon(port(stage).elicit, FormQuestion("Who?", NAME), owner(stage))
        asked = [await stage.client.asked("elicitation/create") for _ in range(128)]
        answer = await second.elicitation.elicit(FormQuestion("Who?", NAME), owner(stage))
        assert answer.action == "decline" and "128" in answer.reason
        for request in asked:
            await stage.client.respond(request, {"action": "decline"})
        with anyio.fail_after(5):
            while stage.server.connection.elicitations:
                await anyio.lowlevel.checkpoint()
        tasks.start_soon(second.elicitation.elicit, FormQuestion("Who?", NAME), owner(stage))
        await stage.client.respond(await stage.client.asked("elicitation/create"), {"action": "decline"})


# --- the end of a wait ------------------------------------------------------------------------------------------


@pytest.mark.requirement("elicitation.wait.own-cancellation", "elicitation.wait.joined-by-cleanup")
@pytest.mark.parametrize("method", ["session/cancel", "session/close", "session/delete", "logout"])
async def test_a_question_ends_with_its_turn_and_the_client_is_told(tmp_path: Path, method: str) -> None:
    async with asking(tmp_path, **FORM) as stage:
        prompt = await send_prompt(stage)
        asked = await stage.client.asked("elicitation/create")
        if method == "session/cancel":
            await stage.client.notify(method, sessionId=stage.session)
        else:
            params = {} if method == "logout" else {"sessionId": stage.session}
            assert await stage.client.result(method, **params) == {}
        assert (await stage.client.answer(prompt))["result"] == {"stopReason": "cancelled"}
        withdrawn = [m["params"]["requestId"] for m in stage.client.log if m.get("method") == "$/cancel_request"]
        assert withdrawn == [asked["id"]] and path_of(stage) == ["withdrawn"]
        assert not stage.server.connection.elicitations
        await stage.client.respond(asked, {"action": "accept", "content": {"name": "late"}})


@pytest.mark.requirement("elicitation.wait.joined-by-cleanup")
async def test_the_end_of_input_ends_an_open_question(tmp_path: Path) -> None:
    async with asking(tmp_path, **FORM) as stage:
        await send_prompt(stage)
        await stage.client.asked("elicitation/create")
    assert stage.server.status == 0 and path_of(stage)[-1] in ("withdrawn", "declined")


@pytest.mark.requirement("elicitation.wait.ambiguous-owner", "elicitation.setup.non-interactive")
async def test_a_question_without_one_owner_reaches_nobody(tmp_path: Path) -> None:
    async with asking(tmp_path, **BOTH) as stage:
        for question in (FormQuestion("Who?", NAME), UrlQuestion("Look", "https://example.org/")):
            assert (await port(stage).elicit(question, None)).action == "decline"
        assert stage.client.requests("elicitation/") == []


@pytest.mark.requirement("elicitation.wait.own-cancellation")
async def test_the_questions_of_a_call_can_be_withdrawn_from_another_task(tmp_path: Path) -> None:
    got: list[ElicitationAnswer] = []
    async with asking(tmp_path, **FORM) as stage:

        async def ask(call_id: str) -> None:
            got.append(await port(stage).elicit(FormQuestion("Who?", NAME), owner(stage, call_id)))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(ask, "one")
            tasks.start_soon(ask, "two")
            first, second = [await stage.client.asked("elicitation/create") for _ in range(2)]
            port(stage).withdraw(owner(stage, "one"))
            cancelled = await stage.client.until(lambda m: m.get("method") == "$/cancel_request")
            assert cancelled["params"]["requestId"] == first["id"]
            await stage.client.respond(second, {"action": "accept", "content": {"name": "Ada"}})
        assert [answer.action for answer in got] == ["cancel", "accept"]
        assert path_of(stage) == ["withdrawn", "accepted"]


@pytest.mark.requirement("elicitation.oauth.not-adapted", "elicitation.setup.non-interactive")
@pytest.mark.parametrize("kind", ["http", "sse"])
async def test_a_server_that_wants_a_login_fails_the_setup_and_nobody_is_asked_for_one(
    tmp_path: Path, kind: str
) -> None:
    async def refuse(stream: anyio.abc.SocketStream) -> None:
        async with stream:
            await stream.receive()
            where = "https://login.example/.well-known/oauth-protected-resource"
            head = f'HTTP/1.1 401 Unauthorized\r\nWWW-Authenticate: Bearer resource_metadata="{where}"\r\n'
            await stream.send(f"{head}Content-Length: 0\r\nConnection: close\r\n\r\n".encode())

    listener = await anyio.create_tcp_listener(local_host="127.0.0.1")
    port_number = listener.extra(anyio.abc.SocketAttribute.local_port)
    async with (
        listener,
        on_stage(tmp_path, allow=["127.0.0.0/8"], **BOTH) as stage,
        anyio.create_task_group() as tasks,
    ):
        tasks.start_soon(listener.serve, refuse)
        server = {"type": kind, "name": "far", "url": f"http://127.0.0.1:{port_number}/mcp", "headers": []}
        error = await stage.client.error("session/new", cwd=str(stage.cwd), mcpServers=[server])
        assert error["code"] == -32603
        assert stage.client.requests("elicitation/") == [] and path_of(stage) == []
        tasks.cancel_scope.cancel()


@pytest.mark.requirement("tracing.mcp.owning-call")
async def test_a_question_carries_the_trace_of_its_call_and_not_that_of_the_task_it_is_asked_from(
    tmp_path: Path,
) -> None:
    def trace(number: int) -> tracing.Trace:
        return tracing.Trace(f"00-{number:032x}-{number:016x}-01")

    async with asking(tmp_path, **FORM) as stage:
        with tracing.under(trace(1)):  # as a server's task does, since the session was set up
            async with anyio.create_task_group() as tasks:
                call = replace(owner(stage), trace=trace(2))
                tasks.start_soon(port(stage).elicit, FormQuestion("Who?", NAME), call)
                asked = await stage.client.asked("elicitation/create")
                assert asked["params"]["_meta"] == {"traceparent": trace(2).traceparent}
                await stage.client.respond(asked, {"action": "decline"})


async def test_a_closed_session_asks_nothing(tmp_path: Path) -> None:
    async with asking(tmp_path, **FORM) as stage:
        old = port(stage)
        await stage.client.result("session/close", sessionId=stage.session)
        await stage.client.result("session/load", sessionId=stage.session, cwd=str(stage.cwd), mcpServers=[])
        assert (await old.elicit(FormQuestion("Who?", NAME), owner(stage))).action == "decline"
        assert stage.client.requests("elicitation/") == []


@pytest.mark.requirement("elicitation.secrets.heuristic-documented")
def test_the_docs_call_the_screening_a_heuristic_and_name_the_other_way() -> None:
    words = (Path(__file__).parents[2] / "docs" / "elicitation.md").read_text(encoding="utf-8")
    assert "heuristic" in words and "use a page" in words
