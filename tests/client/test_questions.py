"""The questions a client may answer: forms with their defaults and their checks, and pages that are asked about."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import anyio
import pytest

from sluice.client.provider import AcpAgentSpec, Launch, TurnDone, create_acp_backend
from sluice.client.questions import Accepted, Cancelled, Declined, Field, Form, Page, Questions, Reply
from sluice.wire.errors import InvalidParams
from tests.client.provider.support import Host, chatting, turn
from tests.client.support import QUICK
from tests.support.setup import scripted_agent

pytestmark = [pytest.mark.anyio, pytest.mark.requirement("acp-provider.client.optional-elicitation")]

ONE = {"type": "object", "properties": {"a": {"type": "string", "default": "x"}}, "required": ["a"]}


class Person:
    """Answers one question after the other, and keeps what was shown and opened."""

    def __init__(self, *replies: Reply) -> None:
        self.replies = list(replies)
        self.shown: list[Any] = []
        self.opened: list[str] = []

    async def ask(self, question: Form | Page) -> Reply:
        assert not self.opened, "nothing is opened before the person was asked"
        self.shown.append(question)
        return self.replies.pop(0)

    def questions(self) -> Questions:
        return Questions(self.ask, self.ask, self.opened.append)

    async def form(self, schema: Any, **more: Any) -> Any:
        return await self._create(mode="form", requestedSchema=schema, **more)

    async def page(self, url: Any) -> Any:
        return await self._create(mode="url", elicitationId="e1", url=url)

    async def _create(self, **params: Any) -> Any:
        request = {"sessionId": "s", "message": "Which?", **params}
        return await self.questions().requests()["elicitation/create"](request)


# --- forms -------------------------------------------------------------------------------------------------------


async def test_a_form_is_shown_with_its_defaults_in_it_and_what_is_filled_in_is_sent() -> None:
    person = Person(Accepted({"a": "y"}))
    assert await person.form(ONE) == {"action": "accept", "content": {"a": "y"}}
    (form,) = person.shown
    assert form == Form("Which?", (Field("a", "string", "a", required=True, default="x"),), "s", values={"a": "x"})


async def test_every_kind_of_field_is_described() -> None:
    person = Person(Declined())
    titled = [{"const": "r", "title": "Red"}, {"const": "g", "title": "Green"}]
    await person.form(
        {
            "type": "object",
            "title": "T",
            "description": "D",
            "properties": {
                "n": {"type": "number", "title": "N", "minimum": 1, "maximum": 2.5},
                "i": {"type": "integer", "default": 3},
                "b": {"type": "boolean", "default": False, "description": "yes or no"},
                "s": {"type": "string", "enum": ["p", "q"]},
                "o": {"type": "string", "oneOf": titled},
                "m": {"type": "array", "items": {"anyOf": titled}, "minItems": 1},
                "t": {"type": "string", "format": "email", "maxLength": 9},
            },
        }
    )
    (form,) = person.shown
    colours = (("r", "Red"), ("g", "Green"))
    assert (form.title, form.description, form.values) == ("T", "D", {"i": 3, "b": False})
    assert form.fields == (
        Field("n", "number", "N", limits={"minimum": 1, "maximum": 2.5}),
        Field("i", "integer", "i", default=3),
        Field("b", "boolean", "b", "yes or no", default=False),
        Field("s", "string", "s", choices=(("p", "p"), ("q", "q"))),
        Field("o", "string", "o", choices=colours),
        Field("m", "array", "m", choices=colours, limits={"minItems": 1}),
        Field("t", "string", "t", limits={"format": "email", "maxLength": 9}),
    )


async def test_what_does_not_fit_is_asked_again_with_the_reason_and_never_sent() -> None:
    schema = {"type": "object", "properties": {"n": {"type": "integer", "maximum": 9}}, "required": ["n"]}
    person = Person(Accepted({}), Accepted({"n": 10}), Accepted({"n": 3, "other": 1}), Accepted({"n": 3}))
    assert await person.form(schema) == {"action": "accept", "content": {"n": 3}}
    problems = [form.problem for form in person.shown]
    assert (
        problems[0] == "" and "missing" in problems[1] and "bounds" in problems[2] and "not asked for" in problems[3]
    )
    assert [form.values for form in person.shown] == [{}, {}, {"n": 10}, {"n": 3, "other": 1}]


@pytest.mark.parametrize(("reply", "action"), [(Declined(), "decline"), (Cancelled(), "cancel")])
async def test_to_say_no_and_to_close_the_question_are_two_answers(reply: Reply, action: str) -> None:
    assert await Person(reply).form(ONE) == {"action": action}
    assert await Person(reply).page("https://h/p") == {"action": action}


@pytest.mark.parametrize(
    "schema",
    [
        None,
        [],
        {"type": "array"},
        {"type": "object", "properties": {"a": {"type": "tree"}}},
        {"type": "object", "properties": {"a": {"type": "object", "properties": {}}}},
        {"type": "object", "properties": {"a": {"type": "string", "widget": "password"}}},
        {"type": "object", "properties": {}, "required": ["gone"]},
    ],
)
async def test_a_form_with_anything_unknown_in_it_is_declined_unseen(schema: Any) -> None:
    person = Person()
    assert await person.form(schema) == {"action": "decline"}
    assert person.shown == []


# --- pages -------------------------------------------------------------------------------------------------------


async def test_a_page_is_opened_after_its_address_was_shown_and_agreed_to() -> None:
    person = Person(Accepted())
    assert await person.page("https://login.example.org/a?b=c") == {"action": "accept"}
    (page,) = person.shown
    assert (page.url, page.host, page.warning) == ("https://login.example.org/a?b=c", "login.example.org", "")
    assert person.opened == ["https://login.example.org/a?b=c"]


@pytest.mark.parametrize("reply", [Declined(), Cancelled()])
async def test_a_page_that_is_not_agreed_to_is_not_opened(reply: Reply) -> None:
    person = Person(reply)
    await person.page("https://h/p")
    assert person.opened == []


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("https://xn--pypal-4ve.com/", "other letters"),
        ("https://a.xn--p1ai/", "other letters"),
        ("https://pаypal.com/", "other letters"),
        ("http://h/p", "https"),
    ],
)
async def test_an_odd_host_is_pointed_out(url: str, words: str) -> None:
    person = Person(Declined())
    await person.page(url)
    assert words in person.shown[0].warning


@pytest.mark.parametrize(
    "url",
    [
        "file:///etc/passwd",
        "javascript:alert(1)",
        "ftp://h/",
        "vscode://x",
        "https://",
        "https://user:pw@h/",
        "https://good.example\\@evil.example/",
        "https://h/\u202egpj.exe",
        "https://h/a b",
        "https://[bad/",
        "",
        None,
        7,
    ],
)
async def test_what_is_no_address_that_can_be_shown_and_opened_is_declined_unseen(url: Any) -> None:
    person = Person()
    assert await person.page(url) == {"action": "decline"}
    assert person.shown == [] and person.opened == []


# --- what is offered --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("questions", "offered", "refused"),
    [
        (Questions(), {}, ("form", "url", "wizard", None)),
        (Questions(on_form=Person().ask), {"form": {}}, ("url", "wizard")),
        (Questions(on_page=Person().ask), {"url": {}}, ("form", 3)),
        (Person().questions(), {"form": {}, "url": {}}, ("wizard", "")),
    ],
)
async def test_only_what_is_offered_is_taken(questions: Questions, offered: Mapping[str, Any], refused: Any) -> None:
    assert questions.capabilities() == offered
    for mode in refused:
        with pytest.raises(InvalidParams):
            await questions.requests()["elicitation/create"](
                {"mode": mode, "requestedSchema": ONE, "url": "https://h/"}
            )


async def test_a_chat_offers_them_when_its_host_does(tmp_path: Path) -> None:
    """Our own server asks through its user_prompt tool; a notice that a page is done is nothing to act on."""
    asked = {"name": "user_prompt", "arguments": {"message": "Which colour?", "schema": ONE}}
    toolsets = [{"type": "user_prompt"}]
    file = scripted_agent(tmp_path, {"tool_calls": [asked]}, {"text": "done"}, agent={"toolsets": toolsets})
    args = ["-m", "sluice", "serve", "acp", str(file), "-s", str(tmp_path / "s.db")]
    person, host = Person(Accepted({"a": "blue"})), Host()
    spec = AcpAgentSpec("mine", "Mine", sys.executable, args, ladder=QUICK)
    with anyio.fail_after(60):
        launch = Launch(tmp_path, host, mode="full-access", questions=person.questions())
        async with create_acp_backend(spec).start(launch) as chat:
            assert await chat.send("go") == TurnDone("end_turn")
    assert person.shown and "blue" in host.rows[-1].output


@pytest.mark.parametrize("wanted", [False, True])
async def test_a_host_without_questions_is_asked_none(tmp_path: Path, wanted: bool) -> None:
    done = {"jsonrpc": "2.0", "method": "elicitation/complete", "params": {"elicitationId": "zzz"}}
    questions = Person().questions() if wanted else None
    async with chatting(tmp_path, turn({"send": done}, {"send": done}), launch={"questions": questions}) as it:
        assert await it.chat.send("x") == TurnDone("end_turn")
        (params,) = it.params("initialize")
        assert ("elicitation" in params["clientCapabilities"]) is wanted
