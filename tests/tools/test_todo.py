"""The todo list and the plan it carries."""

from __future__ import annotations

from pathlib import Path

import pytest

from sluice.agent.events import PlanEntry
from sluice.agent.ports import ToolFailure
from sluice.tools import build
from sluice.tools.todo import TodoList
from tests.tools.support import Config, call, make, setup

pytestmark = pytest.mark.anyio


@pytest.mark.requirement("tools.todo.typed-metadata", "plan.source.typed-metadata")
async def test_every_result_carries_the_whole_list(tmp_path: Path) -> None:
    todos = make("todo", tmp_path)
    one = await call(todos, tmp_path, "create_todo", description="read")
    assert one.plan == (PlanEntry("read"),)
    await call(todos, tmp_path, "create_todos", descriptions=["write", "test"])
    updates = [{"id": "todo_1", "status": "completed"}, {"id": "todo_2", "status": "in-progress"}]
    result = await call(todos, tmp_path, "update_todos", updates=updates)
    expected = (PlanEntry("read", "completed"), PlanEntry("write", "in_progress"), PlanEntry("test", "pending"))
    assert result.plan == expected
    assert result.text.endswith("Unfinished: todo_2, todo_3.")
    assert (await call(todos, tmp_path, "list_todos")).plan == expected


async def test_an_unknown_id_or_status_changes_nothing(tmp_path: Path) -> None:
    todos = make("todo", tmp_path)
    await call(todos, tmp_path, "create_todo", description="a")
    good = {"id": "todo_1", "status": "completed"}
    for bad, reason in (({"id": "x", "status": "completed"}, "no todo"), ({"id": "todo_1", "status": "z"}, "status")):
        with pytest.raises(ToolFailure, match=reason):
            await call(todos, tmp_path, "update_todos", updates=[good, bad])
    assert (await call(todos, tmp_path, "list_todos")).plan == (PlanEntry("a"),)


@pytest.mark.requirement("plan.clear.empty-entries")
async def test_completed_items_stay_until_a_new_list_begins(tmp_path: Path) -> None:
    todos = make("todo", tmp_path)
    await call(todos, tmp_path, "create_todo", description="a")
    done = await call(todos, tmp_path, "update_todos", updates=[{"id": "todo_1", "status": "completed"}])
    assert done.plan == (PlanEntry("a", "completed"),)
    assert "Unfinished" not in done.text
    assert (await call(todos, tmp_path, "create_todos", descriptions=[])).plan == ()
    new = await call(todos, tmp_path, "create_todo", description="b")
    assert new.plan == (PlanEntry("b"),)
    assert "todo_2" in new.text


async def test_an_empty_list_has_an_empty_plan_not_none(tmp_path: Path) -> None:
    assert (await call(make("todo", tmp_path), tmp_path, "list_todos")).plan == ()


@pytest.mark.requirement("tools.todo.typed-metadata")
async def test_a_shared_list_is_one_list_for_the_team_and_others_are_not(tmp_path: Path) -> None:
    session = setup(tmp_path)
    shared = Config("todo", options={"shared": True})
    first, second, own = (
        build(shared, setup=session),
        build(shared, setup=session),
        build(Config("todo"), setup=session),
    )
    await call(first, tmp_path, "create_todo", description="a")
    assert (await call(second, tmp_path, "list_todos")).plan == (PlanEntry("a"),)
    assert (await call(own, tmp_path, "list_todos")).plan == ()
    assert (await call(build(shared, setup=setup(tmp_path)), tmp_path, "list_todos")).plan == ()


def test_all_todo_tools_are_read_only(tmp_path: Path) -> None:
    tools = make("todo", tmp_path).tools()
    assert [tool.name for tool in tools] == ["create_todo", "create_todos", "update_todos", "list_todos"]
    assert all(tool.read_only for tool in tools)


def test_a_status_nobody_knows_is_shown_as_pending() -> None:
    todos = TodoList()
    todos.create(["a"])
    todos._items[0].status = "someday"
    assert todos.plan() == (PlanEntry("a"),)
