"""The ports of the agent room: what a turn needs from outside, as protocols.

The loop knows only these, so the same loop serves ACP, MCP and the tests. Callers take the names from here. The three
modules are by who stands behind them: `model` a provider, `tools` what the model calls, `client` the person's side.
"""

from __future__ import annotations

from sluice.agent.ports.client import (
    ApprovalAnswer,
    ApprovalRequest,
    Elicitation,
    ElicitationAnswer,
    Files,
    FormQuestion,
    PermissionPort,
    Terminal,
    TerminalCommand,
    TerminalOutcome,
    UrlQuestion,
)
from sluice.agent.ports.model import (
    AnswerCache,
    Delta,
    Model,
    ModelError,
    ModelRequest,
    ModelResponse,
    ToolSpec,
)
from sluice.agent.ports.tools import (
    Background,
    Colleagues,
    Tool,
    ToolContext,
    ToolFailure,
    ToolResult,
    Toolset,
    Tracer,
)

__all__ = [
    "AnswerCache",
    "ApprovalAnswer",
    "ApprovalRequest",
    "Background",
    "Colleagues",
    "Delta",
    "Elicitation",
    "ElicitationAnswer",
    "Files",
    "FormQuestion",
    "Model",
    "ModelError",
    "ModelRequest",
    "ModelResponse",
    "PermissionPort",
    "Terminal",
    "TerminalCommand",
    "TerminalOutcome",
    "Tool",
    "ToolContext",
    "ToolFailure",
    "ToolResult",
    "ToolSpec",
    "Toolset",
    "Tracer",
    "UrlQuestion",
]
