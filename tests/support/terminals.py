"""A client's terminals for wire tests: nothing runs; what a command would have done is told beforehand."""

from __future__ import annotations

from typing import Any

from tests.support.wire import Client

__all__ = ["Terminals"]

Json = dict[str, Any]


class Terminals:
    """Answers terminal/* by itself, and keeps the books: which ids are open, and what was done with each.

    Attributes:
        exits: how the next commands end, in order; a command beyond the list never ends by itself.
        output: what terminal/output answers.
        silent: methods that get no answer.
        errors: methods that are answered with an error of this code.
        done: terminal id -> the methods that named it, in order.
    """

    def __init__(self, client: Client, *exits: Json) -> None:
        self.client = client
        self.exits = list(exits)
        self.output: Json = {"output": "out\n", "truncated": False}
        self.silent: set[str] = set()
        self.errors: dict[str, int] = {}
        self.done: dict[str, list[str]] = {}
        self.open: set[str] = set()
        for name in ("create", "wait_for_exit", "output", "kill", "release"):
            client.responders[f"terminal/{name}"] = self._respond

    def _respond(self, request: Json) -> Json | None:
        name = request["method"].removeprefix("terminal/")
        terminal = request["params"].get("terminalId")
        if terminal is not None:
            assert terminal in self.open, f"{name} names {terminal}, which is not open"
            self.done[terminal].append(name)
        if name in self.errors:
            return {"error": {"code": self.errors[name], "message": "cannot"}}
        if name in self.silent:
            return None
        return self._answer(name, terminal)

    def _answer(self, name: str, terminal: str | None) -> Json | None:
        if name == "create":
            return {"result": {"terminalId": self.opened()}}
        if name == "wait_for_exit":
            return {"result": self.exits.pop(0)} if self.exits else None
        if name == "output":
            return {"result": self.output}
        if name == "release":
            self.open.discard(terminal or "")
        return {"result": {}}

    def opened(self) -> str:
        """A new terminal; returns its id."""
        terminal = f"term-{len(self.done) + 1}"
        self.done[terminal] = []
        self.open.add(terminal)
        return terminal

    @property
    def all(self) -> list[list[str]]:
        """What was done with each terminal, in the order of creation."""
        return list(self.done.values())
