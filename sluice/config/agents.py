"""The `agents` and `commands` of an agent file, instruction files included."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

from sluice.config.decode import Context, Shape, decode, entries, items, join, read, shape
from sluice.config.references import Catalog, check_agents, check_reference
from sluice.config.schema import AgentConfig, CommandConfig, Text, ToolsetConfig
from sluice.config.suggest import did_you_mean
from sluice.config.toolsets import read_toolsets
from sluice.config.tree import Node

__all__ = ["AGENT_SHAPE", "COMMAND_SHAPE", "Shared", "read_agents", "read_command_groups"]

AGENT_SHAPE: Shape = {
    **shape(AgentConfig),
    "instruction_file": Node,
    "toolsets": Node,
    "use_toolsets": tuple[Text, ...],
    "commands": Node,
    "use_commands": tuple[Text, ...],
}
COMMAND_SHAPE: Shape = {"description": str, "instruction": Node, "agent": Text, "url": Node}

MAX_INSTRUCTION_BYTES = 1 << 20
"""Bytes of one instruction file."""

Commands = Mapping[str, CommandConfig]


@dataclass(frozen=True, slots=True)
class Shared:
    """What agents refer to: models, named toolsets, groups of commands, and the directory of the agent file."""

    catalog: Catalog
    toolsets: Mapping[str, tuple[ToolsetConfig, ...]]
    commands: Mapping[str, Commands]
    directory: Path


def read_agents(ctx: Context, node: Node, shared: Shared) -> Mapping[str, AgentConfig]:
    """All agents, in the order of the file.

    Raises:
        ConfigError: there is none, or a key, a value or a reference is wrong.
    """
    found = {name: _agent(ctx, name, child, shared) for name, child in _agent_nodes(ctx, node)}
    if not found:
        raise ctx.error(node, "agents", "at least one agent is needed")
    written = dict(_agent_nodes(ctx, node))
    for groups_key, group in shared.commands.items():
        _check_command_agents(ctx, node, join("commands", groups_key), group, found)
    return MappingProxyType({name: _linked(ctx, written[name], agent, found) for name, agent in found.items()})


def _agent_nodes(ctx: Context, node: Node) -> list[tuple[str, Node]]:
    if not isinstance(node.value, dict):
        entries(ctx, node, "agents")
        return []
    if "" in node.value:
        raise ctx.error(node.value[""], "agents", "an agent needs a name")
    return list(node.value.items())


def _agent(ctx: Context, name: str, node: Node, shared: Shared) -> AgentConfig:
    key = join("agents", name)
    values = decode(ctx, node, key, AGENT_SHAPE, ("agents.*",))
    if "model" not in values:
        raise ctx.error(node, join(key, "model"), "an agent needs a model, for example auto")
    written = entries(ctx, node, key)
    check_reference(ctx, written["model"], join(key, "model"), values["model"], shared.catalog)
    files = values.pop("instruction_file", None)
    if files is not None:
        if "instruction" in values:
            raise ctx.error(files, join(key, "instruction_file"), "instruction is set too; only one of them may be")
        values["instruction"] = _instruction_files(ctx, files, join(key, "instruction_file"), shared.directory)
    inline = read_toolsets(ctx, values.pop("toolsets", None), join(key, "toolsets"))
    values["toolsets"] = inline + _used_toolsets(ctx, written, key, values.pop("use_toolsets", ()), shared)
    values["commands"] = _agent_commands(ctx, written, key, values, shared)
    values["num_history_items"] = values.get("num_history_items") or None
    return AgentConfig(name=name, line=node.line, **values)


def _used_toolsets(
    ctx: Context, written: dict[str, Node], key: str, names: tuple[str, ...], shared: Shared
) -> tuple[ToolsetConfig, ...]:
    used: tuple[ToolsetConfig, ...] = ()
    for position, name in enumerate(names):
        if name not in shared.toolsets:
            path = f"{join(key, 'use_toolsets')}[{position}]"
            near = did_you_mean(name, shared.toolsets)
            raise ctx.error(_item(written["use_toolsets"], position), path, f'unknown toolset "{name}"{near}')
        used += shared.toolsets[name]
    return used


def _agent_commands(
    ctx: Context, written: dict[str, Node], key: str, values: dict[str, Any], shared: Shared
) -> Commands:
    """The groups first, the agent's own commands over them."""
    merged: dict[str, CommandConfig] = {}
    for position, name in enumerate(values.pop("use_commands", ())):
        if name not in shared.commands:
            path = f"{join(key, 'use_commands')}[{position}]"
            near = did_you_mean(name, shared.commands)
            raise ctx.error(
                _item(written["use_commands"], position), path, f'unknown group of commands "{name}"{near}'
            )
        merged.update(shared.commands[name])
    own = values.pop("commands", None)
    if own is not None:
        merged.update(_commands(ctx, own, join(key, "commands")))
    return MappingProxyType(merged)


def _linked(ctx: Context, node: Node, agent: AgentConfig, found: Mapping[str, AgentConfig]) -> AgentConfig:
    """The agent with its references to others checked; those from a registry are left out."""
    key = join("agents", agent.name)
    written = entries(ctx, node, key)
    changed: dict[str, Any] = {}
    for field in ("sub_agents", "handoffs"):
        names: tuple[str, ...] = getattr(agent, field)
        named = [(f"{join(key, field)}[{at}]", _item(written[field], at), name) for at, name in enumerate(names)]
        changed[field] = check_agents(ctx, named, found)
    if "commands" in written:
        own = {name: agent.commands[name] for name in entries(ctx, written["commands"], join(key, "commands"))}
        _check_command_agents(ctx, written["commands"], join(key, "commands"), own, found)
    return _replaced(agent, changed)


def _replaced(agent: AgentConfig, changed: dict[str, Any]) -> AgentConfig:
    return AgentConfig(**{**{name: getattr(agent, name) for name in AgentConfig.__slots__}, **changed})


def _item(node: Node, position: int) -> Node:
    """An item of a list that was read before."""
    return node.value[position] if isinstance(node.value, list) else node


# --- commands ----------------------------------------------------------------------------------------------------


def read_command_groups(ctx: Context, node: Node | None) -> Mapping[str, Commands]:
    """The top level's `commands`: group -> command -> what it does.

    Raises:
        ConfigError: a key or a value is wrong.
    """
    groups = entries(ctx, node, "commands") if node is not None else {}
    return MappingProxyType({name: _commands(ctx, child, join("commands", name)) for name, child in groups.items()})


def _commands(ctx: Context, node: Node, key: str) -> Commands:
    commands = entries(ctx, node, key)
    return MappingProxyType({name: _command(ctx, name, child, join(key, name)) for name, child in commands.items()})


def _command(ctx: Context, name: str, node: Node, key: str) -> CommandConfig:
    """A command: an instruction, or a mapping. What is typed after it is put in when it is used, not here."""
    if isinstance(node.value, str):
        return CommandConfig(name=name, instruction=node.value)
    values = decode(ctx, node, key, COMMAND_SHAPE)
    for field in ("instruction", "url"):
        if field in values:
            values[field] = _literal(ctx, values[field], join(key, field))
    command = CommandConfig(name=name, **values)
    if not (command.instruction or command.agent or command.url):
        raise ctx.error(node, key, "a command needs an instruction, an agent or a url")
    return command


def _literal(ctx: Context, node: Node, key: str) -> str:
    if not isinstance(node.value, str):
        raise ctx.error(node, key, "expected text")
    return node.value


def _check_command_agents(
    ctx: Context, node: Node, key: str, commands: Commands, agents: Mapping[str, AgentConfig]
) -> None:
    for name, command in commands.items():
        if command.agent and command.agent not in agents:
            near = did_you_mean(command.agent, agents)
            raise ctx.error(node, join(join(key, name), "agent"), f'unknown agent "{command.agent}"{near}')


# --- instruction files -------------------------------------------------------------------------------------------


def _instruction_files(ctx: Context, node: Node, key: str, directory: Path) -> str:
    """The texts of one or several files, joined by a blank line."""
    single = not isinstance(node.value, list)
    places = [(key, node)] if single else items(ctx, node, key)
    if not places:
        raise ctx.error(node, key, "the list is empty")
    return "\n\n".join(_instruction_file(ctx, child, path, directory) for path, child in places)


def _instruction_file(ctx: Context, node: Node, key: str, directory: Path) -> str:
    name: str = read(ctx, node, key, Text)
    if Path(name).is_absolute() or name.startswith("~"):
        raise ctx.error(node, key, "an instruction file is given relative to the agent file")
    try:
        base = directory.resolve()
        real = (base / name).resolve()
        if not real.is_relative_to(base):
            raise ctx.error(node, key, "the instruction file lies outside the agent file's directory")
        if not real.is_file():
            raise ctx.error(node, key, "the instruction file does not exist, or is no file")
        if real.stat().st_size > MAX_INSTRUCTION_BYTES:
            raise ctx.error(node, key, f"the instruction file has more than {MAX_INSTRUCTION_BYTES} bytes")
        text = real.read_bytes().decode("utf-8-sig")
    except UnicodeDecodeError:
        raise ctx.error(node, key, "the instruction file is not UTF-8") from None
    except (OSError, ValueError, RuntimeError) as error:
        reason = (error.strerror if isinstance(error, OSError) else None) or "bad path"
        raise ctx.error(node, key, f"the instruction file cannot be read: {reason}") from None
    return ctx.expanded(text.strip("\n"), node, key)
