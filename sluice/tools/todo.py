"""The todo toolset: a list the model keeps, shown to the person as the plan.

Every result carries the whole list as typed metadata (`ToolResult.plan`), so no one has to read it out of the text:
requirements `tools.todo.typed-metadata` and `plan.source.typed-metadata`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sluice.agent.events import PlanEntry
from sluice.agent.ports import Tool, ToolContext, ToolFailure, ToolResult, ToolSpec
from sluice.tools.setup import ToolsetConfigLike, ToolsetSetup, text, texts

__all__ = ["TodoList", "TodoToolset", "build"]

_PLAN_STATUS = {
    "pending": "pending",
    "in-progress": "in_progress",
    "in_progress": "in_progress",
    "completed": "completed",
}

_INSTRUCTION = (
    "Keep a todo list for work of several steps: create the items first, set one to in-progress when you begin it and"
    " to completed as soon as it is done. Do not stop while items are unfinished unless the user says so."
)


@dataclass
class _Item:
    id: str
    description: str
    status: str = "pending"


class TodoList:
    """The items, in the order they were made; ids are never given twice.

    Completed items stay visible until a new list begins, which is when items are created after all are completed.
    """

    def __init__(self) -> None:
        self._items: list[_Item] = []
        self._next = 1

    def create(self, descriptions: Sequence[str]) -> tuple[str, ...]:
        """Append items and return their ids. When nothing is unfinished, the old items are cleared first."""
        if all(item.status == "completed" for item in self._items):
            self._items.clear()
        made = []
        for description in descriptions:
            made.append(f"todo_{self._next}")
            self._items.append(_Item(made[-1], description))
            self._next += 1
        return tuple(made)

    def update(self, updates: Sequence[tuple[str, str]]) -> None:
        """Set statuses; all of them or none. Raises ToolFailure for an unknown id or status."""
        known = {item.id: item for item in self._items}
        for identifier, status in updates:
            if identifier not in known:
                raise ToolFailure(f"there is no todo {identifier!r}; there are: {', '.join(known) or 'none'}")
            if status not in _PLAN_STATUS:
                raise ToolFailure(f"unknown status {status!r}; use pending, in-progress or completed")
        for identifier, status in updates:
            known[identifier].status = status.replace("_", "-")

    def plan(self) -> tuple[PlanEntry, ...]:
        """Return the whole list as the plan; a status nobody knows counts as pending."""
        return tuple(PlanEntry(item.description, _PLAN_STATUS.get(item.status, "pending")) for item in self._items)

    def result(self, head: str) -> ToolResult:
        """Return a result with the head line, the list, a reminder of what is unfinished, and the plan."""
        lines = [head, *(f"- {item.id} [{item.status}] {item.description}" for item in self._items)]
        unfinished = [item.id for item in self._items if item.status != "completed"]
        if unfinished:
            lines.append(f"Unfinished: {', '.join(unfinished)}.")
        return ToolResult("\n".join(lines), plan=self.plan())


class TodoToolset:
    """The four todo tools over one list."""

    def __init__(self, todos: TodoList | None = None) -> None:
        self._todos = TodoList() if todos is None else todos
        self._tools = (
            Tool(_CREATE_ONE, self._create_one, read_only=True, subject="description"),
            Tool(_CREATE_MANY, self._create_many, read_only=True),
            Tool(_UPDATE, self._update, read_only=True),
            Tool(_LIST, self._list, read_only=True),
        )

    @property
    def instruction(self) -> str:
        """How to use the tools, for the system prompt."""
        return _INSTRUCTION

    async def start(self) -> None:
        """Nothing to start."""

    def tools(self) -> Sequence[Tool]:
        """create_todo, create_todos, update_todos and list_todos."""
        return self._tools

    async def stop(self) -> None:
        """Nothing to end."""

    async def _create_one(self, arguments: Mapping[str, Any], context: ToolContext) -> ToolResult:
        (made,) = self._todos.create([text(arguments, "description")])
        return self._todos.result(f"Created {made}.")

    async def _create_many(self, arguments: Mapping[str, Any], context: ToolContext) -> ToolResult:
        made = self._todos.create([item for item in texts(arguments, "descriptions") if item.strip()])
        return self._todos.result(f"Created {', '.join(made)}." if made else "Created nothing.")

    async def _update(self, arguments: Mapping[str, Any], context: ToolContext) -> ToolResult:
        updates = arguments.get("updates")
        if not isinstance(updates, (list, tuple)) or not all(isinstance(item, Mapping) for item in updates):
            raise ToolFailure("the argument 'updates' must be a list of objects with 'id' and 'status'")
        self._todos.update([(text(item, "id"), text(item, "status")) for item in updates])
        return self._todos.result(f"Updated {len(updates)}.")

    async def _list(self, arguments: Mapping[str, Any], context: ToolContext) -> ToolResult:
        return self._todos.result("Todo list:" if self._todos.plan() else "The todo list is empty.")


def _spec(name: str, description: str, /, **properties: Mapping[str, Any]) -> ToolSpec:
    schema = {"type": "object", "properties": properties, "required": list(properties)}
    return ToolSpec(name, description, schema)


_CREATE_ONE = _spec(
    "create_todo",
    "Adds one item to the todo list.",
    description={"type": "string", "description": "What is to be done"},
)
_CREATE_MANY = _spec(
    "create_todos",
    "Adds several items to the todo list, in order.",
    descriptions={
        "type": "array",
        "items": {"type": "string"},
        "description": "What is to be done, one text an item",
    },
)
_UPDATE = _spec(
    "update_todos",
    "Sets the status of items of the todo list.",
    updates={
        "type": "array",
        "items": {
            "type": "object",
            "properties": {
                "id": {"type": "string", "description": "The item's id"},
                "status": {"type": "string", "enum": ["pending", "in-progress", "completed"]},
            },
            "required": ["id", "status"],
        },
    },
)
_LIST = _spec("list_todos", "Shows the todo list.")


def build(config: ToolsetConfigLike, setup: ToolsetSetup) -> TodoToolset:
    """Build the toolset; with the option `shared` all agents of the session keep one list."""
    if config.options.get("shared") is True:
        return TodoToolset(setup.shared.setdefault("todo", TodoList()))
    return TodoToolset()
