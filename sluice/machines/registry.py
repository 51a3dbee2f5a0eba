"""All machines by name: what is declared, and what is instantiated."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from sluice.machines.base import Machine
from sluice.machines.compiled import (
    CompiledBackground,
    CompiledConnection,
    CompiledDeletion,
    CompiledMachine,
    CompiledToolCall,
    CompiledTurn,
)
from sluice.machines.connection import Connection
from sluice.machines.session import Session
from sluice.machines.small import Background, Deletion, Elicitation, McpServer
from sluice.machines.terminal import Terminal
from sluice.machines.tool_call import ToolCall
from sluice.machines.turn import Turn

__all__ = ["ALL", "DRIVERS"]

ALL: Final[Mapping[str, type[Machine]]] = {
    cls.machine: cls
    for cls in (Connection, Deletion, Session, Turn, ToolCall, Terminal, Background, McpServer, Elicitation)
}
"""Every machine by the name used in all tables, as declared: what is drawn and what is tested."""

DRIVERS: Final[Mapping[str, type[Machine] | type[CompiledMachine]]] = {
    **ALL,
    "connection": CompiledConnection,
    "deletion": CompiledDeletion,
    "turn": CompiledTurn,
    "tool": CompiledToolCall,
    "background": CompiledBackground,
}
"""What to instantiate for each name: the declared class, or its compiled driver."""
