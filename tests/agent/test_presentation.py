"""Kind, title and locations of tool calls."""

from __future__ import annotations

import os
import unicodedata
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluice.agent.ports import Tool, ToolContext, ToolResult, ToolSpec
from sluice.agent.presentation import KINDS, TITLE_CHARACTERS, kind, locations, title


async def run(arguments: object, context: ToolContext) -> ToolResult:
    return ToolResult("")


def tool(name: str, **more: Any) -> Tool:
    return Tool(ToolSpec(name, "", {"type": "object"}), run, **more)


@pytest.mark.requirement("tool-lifecycle.kind.one-classifier", "tool-lifecycle.kind.name-before-hint")
@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("read_file", "read"),
        ("get_memories", "read"),
        ("list_todos", "read"),
        ("directory_tree", "read"),
        ("edit_file", "edit"),
        ("write_file", "edit"),
        ("update_todos", "edit"),
        ("create_todo", "edit"),
        ("add_memory", "edit"),
        ("delete_memory", "delete"),
        ("remove_directory", "delete"),
        ("search_files_content", "search"),
        ("find_files", "search"),
        ("think", "think"),
        ("fetch", "fetch"),
        ("http_get", "fetch"),
        ("shell", "execute"),
        ("stop_background_job", "execute"),
        ("run_background_job", "execute"),
        ("exec_query", "execute"),
        ("transfer_task", "switch_mode"),
        ("handoff", "switch_mode"),
    ],
)
@pytest.mark.parametrize("read_only", [True, False])
def test_the_name_decides_the_kind_before_any_hint(name: str, expected: str, read_only: bool) -> None:
    assert kind(name, read_only) == expected


def test_a_name_that_says_nothing_leaves_it_to_the_read_only_hint() -> None:
    assert kind("git_status", True) == "read"
    assert kind("weather", False) == "other"
    assert kind("", False) == "other"


@given(st.text(), st.booleans())
def test_a_kind_is_always_one_that_acp_knows(name: str, read_only: bool) -> None:
    assert kind(name, read_only) in KINDS


def test_a_title_names_the_command_or_the_path() -> None:
    assert title(tool("shell", subject="cmd"), {"cmd": "ls  -la\n| wc"}) == "shell: ls -la | wc"
    assert title(tool("read_file", subject="path"), {"path": "a.txt"}) == "read_file: a.txt"
    assert title(tool("remove_directory", subject="paths"), {"paths": ["a", "b"]}) == "remove_directory: a, b"
    assert title(tool("srv_open", title="Open"), {"file": "b.txt"}) == "Open: b.txt"
    assert title(tool("x", subject="id"), {"id": 3}) == "x: 3"
    assert title(tool("x", subject="cmd"), {"cmd": {"a": 3}}) == "x"


@pytest.mark.requirement("tool-lifecycle.title.always")
def test_unknown_and_empty_names_have_a_title() -> None:
    assert title("", {}) == "tool call"
    assert title("nope", {"path": "a"}) == "nope: a"
    assert title(" \n", {}) == "tool call"


def test_a_title_shows_characters_that_would_hide_or_reorder_others() -> None:
    assert title(tool("shell", subject="cmd"), {"cmd": "rm \u202ex\x1b[2K"}) == "shell: rm \ufffdx\ufffd[2K"


@pytest.mark.requirement("tool-lifecycle.title.always")
@given(st.text(), st.text(max_size=2000))
def test_a_title_is_one_bounded_line_whatever_the_model_says(name: str, command: str) -> None:
    line = title(tool(name, subject="cmd"), {"cmd": command})
    assert 0 < len(line) <= TITLE_CHARACTERS
    assert not any(unicodedata.category(one) == "Cc" for one in line)


@pytest.mark.requirement("tool-locations-diffs.location.absolute", "tool-locations-diffs.location.no-io")
def test_locations_are_absolute_and_resolved_as_text(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/ann")
    assert locations({"path": "a/../b.txt"}, "/work") == (("/work/b.txt", None),)
    assert locations({"path": "~/b"}, "/work") == (("/home/ann/b", None),)
    assert locations({"path": "/x/./y"}, "") == (("/x/y", None),)
    assert locations({"paths": ["a", "/b", "a", 3]}, "/w") == (("/w/a", None), ("/b", None))


def test_the_first_path_argument_counts_and_the_list_is_added() -> None:
    arguments = {"filename": "no", "file": "yes", "paths": ["also"], "line": 4}
    assert locations(arguments, "/w") == (("/w/yes", 4), ("/w/also", None))


@pytest.mark.requirement("tool-locations-diffs.location.omitted")
@pytest.mark.parametrize("value", ["file:///a", "https://x/y", "untitled:One", "", "a\0b", 3, None, ["a"]])
def test_values_that_are_no_paths_are_left_out(value: object) -> None:
    assert locations({"path": value}, "/w") == ()


@pytest.mark.requirement("tool-locations-diffs.location.omitted")
@pytest.mark.parametrize("cwd", ["", "rel"])
def test_relative_paths_without_an_absolute_workspace_are_left_out(cwd: str) -> None:
    assert locations({"path": "a"}, cwd) == ()


@pytest.mark.requirement("tool-locations-diffs.location.line")
@pytest.mark.parametrize("line", [0, -3, True, 1.0, "2", None])
def test_a_line_is_a_positive_whole_number_or_absent(line: object) -> None:
    assert locations({"path": "/a", "line": line}, "/w") == (("/a", None),)


@given(st.text(), st.text())
def test_a_location_is_always_absolute(value: str, cwd: str) -> None:
    assert all(os.path.isabs(path) for path, _ in locations({"path": value}, cwd))
