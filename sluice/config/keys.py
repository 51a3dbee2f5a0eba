"""The keys of the format as data: what each toolset type takes, and what is known but not built yet.

`KNOWN_NOT_BUILT` is the one place that says so. Building a feature means taking its row out; a key that stands in
the table and in the schema is still read and checked, and warned about.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sluice.config.schema import (
    ApiConfig,
    Lifecycle,
    PathEntry,
    Positive,
    PostEditCommand,
    Reference,
    RemoteMcp,
    ScriptCommand,
    Text,
)

__all__ = [
    "KNOWN_NOT_BUILT",
    "NEWEST_VERSION",
    "TOOLSET_OPTIONS",
    "TOOLSET_REQUIRED",
    "TOOLSET_TYPES",
    "TOP_LEVEL_KEYS",
    "UNBUILT_TOOLSET_KEYS",
]

NEWEST_VERSION = 16
"""The newest schema version whose keys are known here."""

TOP_LEVEL_KEYS = frozenset({"version", "metadata", "agents", "models", "providers", "permissions", "runtime"})
"""Keys of the top level that make no sense anywhere else, for telling where one belongs."""

TOOLSET_OPTIONS: Mapping[str, Mapping[str, Any]] = {
    "filesystem": {
        "ignore_vcs": bool,
        "allow_list": tuple[PathEntry, ...],
        "deny_list": tuple[PathEntry, ...],
        "post_edit": tuple[PostEditCommand, ...],
    },
    "shell": {"env": dict[str, str], "sudo_askpass": bool},
    "mcp": {
        "command": Text,
        "args": tuple[str, ...],
        "env": dict[str, str],
        "working_dir": Text,
        "remote": RemoteMcp,
        "ref": Text,
        "lifecycle": Lifecycle,
    },
    "background_jobs": {"env": dict[str, str]},
    "background_agents": {},
    "git": {},
    "environment": {},
    "user_prompt": {},
    "think": {},
    "todo": {"shared": bool},
    "memory": {"path": Text},
    "fetch": {
        "timeout": Positive,
        "headers": dict[str, str],
        "allowed_domains": tuple[Text, ...],
        "blocked_domains": tuple[Text, ...],
        "allow_private_ips": bool,
    },
    "api": {"api_config": ApiConfig},
    "openapi": {"url": Reference, "headers": dict[str, str], "timeout": Positive, "max_output_bytes": Positive},
    "script": {"shell": dict[str, ScriptCommand]},
}
"""The toolset types that are built, and the keys that each takes besides the common ones."""

TOOLSET_REQUIRED: Mapping[str, str] = {
    "api": "api_config",
    "memory": "path",
    "openapi": "url",
    "script": "shell",
}
"""Toolset type -> the key of its own that it cannot do without."""

KNOWN_NOT_BUILT: Mapping[str, Mapping[str, str]] = {
    "": {
        "rag": "named retrieval sources",
        "skills": "named groups of skills",
        "evaluators": "evaluators for hooks",
        "routing": "routing by hooks",
    },
    "runtime": {
        "sandbox": "running in a sandbox",
        "network_allowlist": "hosts that may be reached",
    },
    "agents.*": {
        "subagents": "delegation that does not wait",
        "code_mode_tools": "one code tool instead of many tools",
        "add_description_parameter": "a description argument in each tool",
        "use_skills": "groups of skills",
        "harness": "an external agent in place of a model",
    },
    "hooks": {
        "on_tool_approval_decision": "after a decision about a call",
        "on_session_resume": "going on past the limit of model calls",
        "user_steering_messages_submit": "messages while a turn runs",
        "user_followup_submit": "messages for after a turn",
        "subagent_stop": "the end of a delegated task",
        "on_user_input": "when a person is asked",
        "notification": "messages to the person",
        "on_max_iterations": "the limit of model calls",
        "on_agent_switch": "another agent goes on",
        "worktree_create": "making a worktree",
        "skill_content_guard": "reading a skill",
        "prompt_file_guard": "reading a prompt file",
        "before_agent_run": "before an agent runs",
        "after_agent_complete": "after an agent has run",
    },
    "hook types": {
        "builtin": "a hook that comes with the program",
        "model": "a model that decides",
        "evaluator": "an evaluator that decides",
    },
    "a hook": {
        "model": "the model of a model hook",
        "prompt": "its prompt",
        "schema": "the form of its answer",
        "strict_output": "a strict form of what a hook says",
    },
    "models.*": {
        "task_budget": "a budget for one task",
        "track_usage": "turning usage off",
        "routing": "choosing a model by examples",
        "title_model": "the model that names sessions",
        "compaction_model": "the model that compacts",
        "auth": "workload identity",
    },
    "providers.*": {
        "unload_api": "unloading a local model",
        "auth": "workload identity",
        "compaction_model": "the model that compacts",
    },
    "toolsets.*": {
        "model": "another model after a tool",
        "toon": "compact tool results",
        "lifecycle": "supervision of the toolset",
    },
    "toolsets.mcp": {
        "model": "another model after a tool",
        "toon": "compact tool results",
        "version": "which version to install",
        "config": "settings of a server from a catalog",
    },
    "toolsets.shell": {"sudo_askpass": "asking for a password"},
    "toolsets.background_jobs": {"recall": "a job's output sent to the model when it ends"},
    "toolset types": {
        "a2a": "agents over A2A",
        "lsp": "language servers",
        "mcp_catalog": "MCP servers from a catalog",
        "model_picker": "changing the model",
        "open_url": "opening a page for the person",
        "plan": "shared plans",
        "rag": "retrieval",
        "scheduler": "prompts at set times",
        "session_context": "reading other sessions",
        "session_plan": "the plan of a session",
        "tasks": "shared tasks",
        "webhook": "sending a message to a URL",
    },
    "providers": {
        "amazon-bedrock": "Amazon Bedrock",
        "chatgpt": "a ChatGPT sign-in",
        "github-copilot": "GitHub Copilot",
    },
    "values": {
        "catalog server": "a server of Docker's MCP catalog",
        "skills from elsewhere": "skills from a repository or an address",
        "external agent": "an agent from a registry in sub_agents or handoffs",
        "template": "`${…}` that is not `${env.X}`",
    },
}
"""What the format has and this program not yet, by scope: key or name -> what it would be.

Scopes: "" is the top level, `agents.*` an agent, `hooks` the events of hooks, `toolsets.*` any toolset,
`toolsets.<type>` one type; the last three hold toolset types, providers and forms of values.
"""

TOOLSET_TYPES = (*TOOLSET_OPTIONS, *KNOWN_NOT_BUILT["toolset types"])
"""Every toolset type of the format."""

UNBUILT_TOOLSET_KEYS = frozenset(
    (
        *("path", "shared", "recall", "env", "shell", "api_config", "url", "headers", "timeout", "allowed_domains"),
        *("blocked_domains", "allow_private_ips", "command", "args", "working_dir", "version", "remote", "ref"),
        *("config", "file_types", "models", "allowed_servers", "blocked_servers", "rag_config", "webhook_config"),
        *("max_output_bytes", "allow_list", "deny_list"),
    )
)
"""The keys that the types not built take, for telling a typo from a key."""
