"""What a terminal shows, and above all what it never gets."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sluice.client.permissions import PermissionOption, PermissionRequest
from sluice.client.session import SessionUpdate, TurnEnd
from sluice.client.terminal import TerminalView, one_line, printable
from sluice.client.updates import ToolRow, ToolRows, ToolUpdate, parse_update

OBEYED = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


class Screen:
    """A view with a session behind it."""

    def __init__(self, *, colour: bool = False) -> None:
        self.shown = ""
        self.rows = ToolRows()
        self.view = TerminalView(self._take, colour=colour)

    def _take(self, said: str) -> None:
        self.shown += said

    def update(self, **fields: Any) -> Screen:
        update = parse_update(fields)
        if update is not None:
            row = self.rows.apply(update) if isinstance(update, ToolUpdate) else None
            self.view.update(SessionUpdate("s", update, row, fields))
        return self

    def say(self, said: str, kind: str = "agent_message_chunk", **more: Any) -> Screen:
        return self.update(sessionUpdate=kind, content={"type": "text", "text": said}, **more)

    def tool(self, status: str | None = None, announced: bool = False, **fields: Any) -> Screen:
        kind = "tool_call" if announced else "tool_call_update"
        return self.update(sessionUpdate=kind, toolCallId="c", status=status, **fields)


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.text())
def test_nothing_a_terminal_obeys_gets_through(said: str) -> None:
    assert not OBEYED.search(printable(said))
    assert not OBEYED.search(one_line(said))
    assert "\n" not in one_line(said)
    assert len(one_line(said)) <= 200


def test_control_characters_are_shown_and_ordinary_text_is_not_touched() -> None:
    assert printable("a\x1b[2J\x07b\x9bc\rd\u202ee") == "a\\x1b[2J\\x07b\\x9bc\\x0dd\\u202ee"
    assert printable("one\r\ntwo\tüñ \U0001f600") == "one\ntwo\tüñ \U0001f600"


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.dictionaries(st.sampled_from(["title", "name", "kind", "status", "toolCallId"]), st.text()), st.text())
def test_no_field_of_a_tool_call_gets_through_either(fields: dict[str, str], path: str) -> None:
    screen = Screen()
    content = [{"type": "diff", "path": path, "newText": "x"}, {"type": "content", "content": {"text": path}}]
    screen.update(sessionUpdate="tool_call", **{"toolCallId": "c", "content": content, **fields})
    screen.tool("completed").tool("failed")
    assert not OBEYED.search(screen.shown)


def test_text_streams_and_thoughts_are_marked_on_every_line() -> None:
    screen = Screen().say("Let me ", "agent_thought_chunk").say("see\nhm", "agent_thought_chunk")
    screen.say("An").say("swer\n").say("more")
    assert screen.shown == "~ Let me see\n~ hm\nAnswer\nmore"


def test_another_message_id_begins_a_new_line_and_the_user_is_not_repeated() -> None:
    screen = Screen().say("mine", "user_message_chunk").say("a", messageId="1").say("b", messageId="1")
    assert screen.say("c", messageId="2").shown == "ab\nc"


def test_a_tool_call_is_one_line_per_step_and_none_without_a_change() -> None:
    screen = Screen().say("I will").tool("pending", announced=True, title="run ls")
    screen.tool("in_progress").tool("in_progress", rawOutput="x").tool("completed").tool("completed")
    assert screen.shown == "I will\n[pending] run ls\n[running] run ls\n[done] run ls\n"


def test_a_failed_call_says_why_and_a_cancelled_one_that_it_is() -> None:
    content = [{"type": "content", "content": {"type": "text", "text": "no such file\nat all"}}]
    assert Screen().tool("failed", title="t", content=content).shown == "[failed] t\n  no such file\\nat all\n"
    assert Screen().tool("failed", title="t", rawOutput="short").shown == "[failed] t\n  short\n"
    screen = Screen().tool("in_progress", title="t")
    for row in screen.rows.cancel_open():
        screen.view.update(SessionUpdate("s", ToolUpdate(row.call_id, status=row.status), row, {}))
    assert screen.shown.endswith("[cancelled] t\n")


def test_what_a_command_printed_is_shown_in_part_and_what_other_tools_return_is_not() -> None:
    content = [{"type": "content", "content": {"type": "text", "text": "".join(f"{n}\x1b\n" for n in range(10))}}]
    shown = Screen().tool("completed", title="ls", kind="execute", content=content).shown.split("\n")
    assert shown[:2] == ["[done] ls", "  0\\x1b"]
    assert shown[8:] == ["  7\\x1b", "  … 2 more lines", ""]
    assert Screen().tool("completed", title="read", kind="read", content=content).shown == "[done] read\n"


def test_diffs_are_shown_in_numbers() -> None:
    content = [
        {"type": "diff", "path": "/a", "oldText": "1\n2\n3\n", "newText": "1\nx\n3\n4\n"},
        {"type": "diff", "path": "/b", "newText": "1\n2\n"},
        {"type": "diff", "path": "/c", "oldText": "a\n" * 15000, "newText": "b\n" * 15000},
        {"type": "terminal", "terminalId": "T"},
    ]
    shown = Screen().tool("completed", title="edit", content=content).shown
    assert shown == "[done] edit\n  /a (+2 -1)\n  /b (new, 2 lines)\n  /c (15000 lines, now 15000)\n"


def test_a_plan_is_a_check_list() -> None:
    entries = [
        {"content": "look", "status": "completed"},
        {"content": "do\nit", "status": "in_progress"},
        {"content": "rest", "status": "whatever"},
    ]
    screen = Screen().update(sessionUpdate="plan", entries=entries).update(sessionUpdate="plan", entries=[])
    assert screen.shown == "plan:\n  [x] look\n  [>] do\\nit\n  [ ] rest\n"


def test_what_is_no_text_has_a_placeholder() -> None:
    screen = Screen()
    for content in (
        {"type": "image", "mimeType": "image/png", "data": "AAAA"},
        {"type": "resource_link", "uri": "file:///a%20b", "name": "b"},
        {"type": "resource", "resource": {"uri": "file:///c", "text": "long"}},
        {"type": "dance"},
    ):
        screen.update(sessionUpdate="agent_message_chunk", content=content)
    assert screen.shown == "<image image/png><resource_link file:///a%20b><resource file:///c><dance>"


@pytest.mark.parametrize(
    ("reason", "shown"),
    [
        ("end_turn", "text\n"),
        ("cancelled", "text\ncancelled\n"),
        ("max_turn_requests", "text\nstopped: the limit of model requests in one turn is reached\n"),
        ("odd\x1b", "text\nended for an unknown reason: odd\\x1b\n"),
    ],
)
def test_the_end_of_a_turn_closes_the_line_and_says_what_is_unusual(reason: str, shown: str) -> None:
    screen = Screen().say("text")
    screen.view.end(TurnEnd(reason, reason))
    assert screen.shown == shown


def test_a_question_shows_what_would_be_done_and_the_keys() -> None:
    screen = Screen().say("text")
    row = ToolRow(
        "c", title="rm", raw_input={"cmd": "rm -r x"}, content=({"type": "diff", "path": "/a", "newText": ""},)
    )
    request = PermissionRequest("s", row, (PermissionOption("y", "Yes", "allow_once"),), {})
    screen.view.question(request, {"y": "allow once", "n": "reject"})
    assert screen.shown == (
        'text\npermission: rm\n  {"cmd": "rm -r x"}\n  /a (new, 0 lines)\n  [y] allow once  [n] reject\n'
    )


def test_arguments_are_asked_for_as_a_whole_or_with_a_word_about_the_rest() -> None:
    for size, hidden in ((3900, ""), (5000, " … and 1000 more characters that are not shown")):
        screen = Screen()
        request = PermissionRequest("s", ToolRow("c", title="t", raw_input="\x1b" * 10 + "x" * (size - 10)), (), {})
        screen.view.question(request, {"n": "reject"})
        line = screen.shown.split("\n")[1]
        assert line == "  " + "\\x1b" * 10 + "x" * (min(size, 4000) - 10) + hidden


def test_colours_stand_around_our_own_words_only() -> None:
    screen = Screen(colour=True).tool("completed", title="t\x1b[31m")
    assert screen.shown == "\x1b[32m[done]\x1b[0m t\\x1b[31m\n"
