"""What a colour terminal shows, and what it never gets. An emulated terminal says what a person sees."""

from __future__ import annotations

import re
from typing import Any

import anyio
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sluice.client.painting import blocks
from sluice.client.permissions import PermissionOption, PermissionRequest
from sluice.client.rich_view import RichView
from sluice.client.session import SessionUpdate, TurnEnd
from sluice.client.updates import ToolRow, ToolRows, ToolUpdate, parse_update
from tests.support.screen import seen

OURS = re.compile("\x1b\\[([0-9]+A|K|J|[0-9;]*m)")
OBEYED = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
END = TurnEnd("end_turn", "end_turn")
MORE = settings(deadline=None, max_examples=40, suppress_health_check=[HealthCheck.too_slow])
SPICY = st.text(
    st.sampled_from("ab \n\t*_`#>-|[]()<&;~\x1b\x07\x9b\u202e\r") | st.characters(codec="utf-8"), max_size=80
)
ENTITIES = st.sampled_from(["&#8238;", "&#x9b;", "&#27;[2J", "[bold]x[/bold]", "[link=http://a]x[/link]", "```\x1b"])


class Screen:
    """A view in a turn, drawn after every update."""

    def __init__(self, *, colour: bool = False, columns: int = 60, rows: int = 20) -> None:
        self.output = ""
        self.rows = ToolRows()
        self.size = (columns, rows)
        self.now = 0.0
        self.view = RichView(
            self._take, lambda: self.size, colour=colour, status=lambda: ["9 of 10 tokens"], clock=lambda: self.now
        )
        self.view.begin()

    def _take(self, said: str) -> None:
        self.output += said

    def update(self, *, replay: bool = False, **fields: Any) -> Screen:
        update = parse_update(fields)
        if update is not None:
            row = self.rows.apply(update) if isinstance(update, ToolUpdate) else None
            self.view.update(SessionUpdate("s", update, row, fields, replay))
        self.view.draw()
        return self

    def say(self, said: str, kind: str = "agent_message_chunk", **more: Any) -> Screen:
        return self.update(sessionUpdate=kind, content={"type": "text", "text": said}, **more)

    def tool(self, status: str, **fields: Any) -> Screen:
        return self.update(sessionUpdate="tool_call_update", **{"toolCallId": "c", "status": status, **fields})

    def plan(self, *entries: tuple[str, str]) -> Screen:
        return self.update(sessionUpdate="plan", entries=[{"content": c, "status": s} for c, s in entries])

    def end(self, end: TurnEnd = END) -> list[str]:
        self.view.end(end)
        return self.seen

    @property
    def seen(self) -> list[str]:
        return seen(self.output, *self.size)


@MORE
@given(st.lists(SPICY | ENTITIES, max_size=6), st.sampled_from(["agent_message_chunk", "agent_thought_chunk"]))
def test_nothing_a_terminal_obeys_gets_through_whatever_markdown_makes_of_it(pieces: list[str], kind: str) -> None:
    screen = Screen(colour=True)
    for piece in pieces:
        screen.say(piece, kind)
    screen.end()
    assert not OBEYED.search(OURS.sub("", screen.output))


@MORE
@given(st.dictionaries(st.sampled_from(["title", "name", "kind", "status", "toolCallId"]), SPICY), SPICY)
def test_no_field_of_a_tool_call_or_question_gets_through_either(fields: dict[str, str], said: str) -> None:
    screen = Screen(colour=True)
    content = [
        {"type": "diff", "path": said, "oldText": said, "newText": f"{said}\nx"},
        {"type": "content", "content": {"type": "text", "text": said}},
    ]
    announced: dict[str, Any] = {"toolCallId": "c", "content": content, **fields}
    screen.update(sessionUpdate="tool_call", **announced)
    row = ToolRow("q", title=said, raw_input={said: said, "edits": [{"oldText": said, "newText": said}]})
    screen.view.question(PermissionRequest("s", row, (), {}), {"n": "reject"})
    screen.view.answer("n: reject")
    screen.tool("completed", kind="execute").tool("failed").plan((said, "pending"))
    screen.end()
    assert not OBEYED.search(OURS.sub("", screen.output))


def test_the_markup_of_the_drawing_library_is_ordinary_text() -> None:
    said = "[bold red]not bold[/bold red] :smile: [link=http://x]y[/link]"
    screen = Screen(colour=True, columns=100).say(said).tool("completed", title=said)
    assert screen.end()[:3] == [said, "", f"✓ {said}"]


def test_markdown_streams_and_its_final_form_is_the_same_as_when_it_comes_at_once() -> None:
    whole = "# Title\n\nSome **bold** and `code`.\n\n- one\n- two\n\n```py\nx = 1\n\n\ny = 2\n```\n\n> so\n\n"
    whole += "1. a\n2. b\n\n| a | b |\n|---|---|\n| 1 | 2 |\n\n---\n\nend\n"
    at_once = Screen(colour=True).say(whole).end()
    for size in (1, 3, 17):
        screen = Screen(colour=True)
        for at in range(0, len(whole), size):
            screen.say(whole[at : at + size])
        assert screen.end() == at_once
    assert at_once[0] == "Title"
    assert "Some bold and code." in at_once
    assert " • one" in at_once


def test_a_message_longer_than_the_screen_is_whole_in_the_scrollback() -> None:
    screen = Screen(rows=8)
    for number in range(60):
        screen.say(f"line {number}  \n")
    assert screen.end()[:60] == [f"line {number}" for number in range(60)]


def test_what_is_final_is_not_drawn_again() -> None:
    screen = Screen().say("First paragraph.\n\nSecond")
    before = len(screen.output)
    screen.say(" goes on.\n\nThird")
    assert "First" not in screen.output[before:]


def test_a_link_shows_where_it_leads_and_is_no_hidden_one() -> None:
    screen = Screen(colour=True).say("[good](http://evil.example/x)")
    assert screen.end()[0] == "good (http://evil.example/x)"
    assert "\x1b]8" not in screen.output


def test_a_tool_call_goes_from_pending_to_done_in_its_place() -> None:
    screen = Screen().say("I will.")
    screen.update(sessionUpdate="tool_call", toolCallId="c", title="run ls", status="pending")
    assert screen.seen[:3] == ["I will.", "", "○ run ls"]
    screen.tool("in_progress")
    screen.now = 3
    screen.view.draw()
    assert screen.seen[2].endswith("run ls  3 s")
    screen.tool(
        "completed", kind="execute", content=[{"type": "content", "content": {"type": "text", "text": "a.txt"}}]
    )
    assert screen.end() == ["I will.", "", "✓ run ls", "  a.txt", "", "9 of 10 tokens"]


def test_failed_and_cancelled_calls_say_so_in_a_word_too() -> None:
    assert Screen().tool("failed", title="t", rawOutput="no such file").end()[:2] == ["✗ t  failed", "  no such file"]
    assert Screen().tool("cancelled", title="t").end()[0] == "■ t  cancelled"
    assert Screen().tool("in_progress", title="t").end()[0] == "○ t  in progress"


def test_a_diff_has_line_numbers_and_colours() -> None:
    old = "".join(f"{n}\n" for n in range(1, 30))
    new = old.replace("3\n", "three\n", 1).replace("25\n", "", 1)
    content = [{"type": "diff", "path": "/a", "oldText": old, "newText": new}]
    screen = Screen(colour=True, rows=40).tool("completed", title="edit", content=content)
    lines = screen.end()
    assert lines[:2] == ["✓ edit", "  /a (+1 -2)"]
    assert "      3 - 3" in lines
    assert "      3 + three" in lines
    assert "       ⋮" in lines
    assert "     25 - 25" in lines
    assert "\x1b[32m" in screen.output
    assert "\x1b[31m" in screen.output


def test_a_plan_is_one_check_list_that_changes_in_place() -> None:
    screen = Screen().plan(("look", "completed"), ("do", "in_progress"), ("rest", "pending"))
    assert screen.seen[:4] == ["plan", "  [x] look", "  [>] do", "  [ ] rest"]
    screen.say("Working.").plan(("look", "completed"), ("do", "completed"), ("rest", "completed"))
    lines = screen.end()
    assert lines[:2] == ["Working.", ""]
    assert lines[2:6] == ["plan", "  [x] look", "  [x] do", "  [x] rest"]
    assert "".join(lines).count("plan") == 1


def test_the_status_line_is_the_last_while_a_turn_runs_and_stays_once_at_its_end() -> None:
    screen = Screen().say("text")
    assert screen.seen[-1].endswith("0 s · 9 of 10 tokens · ctrl-c stops")
    assert screen.end() == ["text", "", "9 of 10 tokens"]


def test_thoughts_are_marked_and_dimmed() -> None:
    screen = Screen(colour=True).say("hm\nso", "agent_thought_chunk").say("Answer")
    assert screen.end()[:4] == ["~ hm", "~ so", "", "Answer"]
    assert "\x1b[2m~ hm" in screen.output


def test_the_user_is_shown_in_a_replay_only() -> None:
    assert "mine" not in Screen().say("mine", "user_message_chunk").output
    assert Screen().say("mine", "user_message_chunk", replay=True).seen[0] == "> mine"


def test_a_question_shows_command_path_and_change_and_nothing_comes_behind_it_before_the_answer() -> None:
    screen = Screen().say("text")
    raw = {"path": "/a", "edits": [{"oldText": "was", "newText": "is"}]}
    row = ToolRow("c", title="edit_file: /a", raw_input=raw)
    request = PermissionRequest("s", row, (PermissionOption("y", "Yes", "allow_once"),), {})
    screen.view.question(request, {"y": "allow once", "n": "reject"})
    asked = [
        "text",
        "",
        "permission: edit_file: /a",
        "  path: /a",
        "  - was",
        "  + is",
        "  [y] allow once  [n] reject",
    ]
    assert screen.seen == asked
    screen.say("late")
    assert screen.seen == asked
    screen.view.answer("y: allow once")
    assert screen.end()[7:10] == ["  y: allow once", "", "late"]


def test_without_colours_only_the_cursor_moves() -> None:
    screen = Screen().say("**b** `c`").tool("completed", title="t")
    screen.end()
    assert "\x1b[" not in re.sub("\x1b\\[([0-9]+A|K|J)", "", screen.output)


@pytest.mark.parametrize(
    ("source", "parts"),
    [
        ("", []),
        ("one", ["one"]),
        ("one\n\ntwo", ["one\n\n", "two"]),
        ("- a\n- b\n", ["- a\n- b\n"]),
        ("- a\n\n\ntext", ["- a\n\n\n", "text"]),
        ("```\na\n\nb", ["```\na\n\nb"]),
        ("\nx\n\n```\na\n\nb\n```\n\nend", ["\nx\n\n", "```\na\n\nb\n```\n\n", "end"]),
    ],
)
def test_a_message_is_cut_at_its_top_level_blocks(source: str, parts: list[str]) -> None:
    assert blocks(source) == parts


@MORE
@given(SPICY)
def test_nothing_is_lost_in_the_cutting(source: str) -> None:
    assert "".join(blocks(source)) in (source, "")
    assert blocks(source) or not source.strip()


def test_a_reference_and_its_definition_are_both_seen() -> None:
    lines = Screen().say("See [this][1].\n\n[1]: http://x.example\n\nend").end()
    assert lines[:3] == ["See [this][1].", "", "[1]: http://x.example"]


@pytest.mark.anyio
async def test_it_is_drawn_by_itself_while_a_turn_runs() -> None:
    screen = Screen()
    with anyio.fail_after(5):
        async with anyio.create_task_group() as group:
            group.start_soon(screen.view.animate)
            update = parse_update(
                {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": "hello"}}
            )
            assert update is not None
            screen.view.update(SessionUpdate("s", update, None, {}))
            while "hello" not in screen.output:
                await anyio.lowlevel.checkpoint()
            group.cancel_scope.cancel()
