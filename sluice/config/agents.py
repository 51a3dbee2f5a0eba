"""The `agents` and `commands` of an agent file, instruction files included."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

from sluice.config.budgets import check_budgets
from sluice.config.decode import Context, Shape, decode, describe, entries, items, join, read, shape
from sluice.config.duration import seconds
from sluice.config.hooks import read_hooks
from sluice.config.references import Catalog, check_agents, check_reference
from sluice.config.schema import AgentConfig, BudgetConfig, CommandConfig, FallbackConfig, Text, ToolsetConfig
from sluice.config.structured import read_structured_output
from sluice.config.suggest import did_you_mean
from sluice.config.toolsets import read_toolsets
from sluice.config.tree import Node
from sluice.config.values import Frozen

__all__ = [
    "AGENT_SHAPE",
    "COMMAND_SHAPE",
    "FALLBACK_SHAPE",
    "Shared",
    "agent_names",
    "read_agents",
    "read_command_groups",
]

AGENT_SHAPE: Shape = {
    **shape(AgentConfig),
    "instruction_file": Node,
    "toolsets": Node,
    "use_toolsets": tuple[Text, ...],
    "commands": Node,
    "use_commands": tuple[Text, ...],
    "fallback": Node,
    "structured_output": Node,
    "hooks": Node,
}
FALLBACK_SHAPE: Shape = shape(FallbackConfig, cooldown=Node)
COMMAND_SHAPE: Shape = shape(CommandConfig)

MAX_INSTRUCTION_BYTES = 1 << 20
"""Bytes of one instruction file."""

Commands = Mapping[str, CommandConfig]


class Shared(Frozen, frozen=True):
    """What agents refer to: models, named toolsets, groups of commands, budgets, each other, the file's directory."""

    catalog: Catalog
    toolsets: Mapping[str, tuple[ToolsetConfig, ...]]
    commands: Mapping[str, Commands]
    budgets: Mapping[str, BudgetConfig]
    names: Collection[str]
    directory: Path


def read_agents(ctx: Context, node: Node, shared: Shared) -> Mapping[str, AgentConfig]:
    """All agents, in the order of the file.

    Raises:
        ConfigError: there is none, or a key, a value or a reference is wrong.
    """
    children = node.value if isinstance(node.value, dict) else {}
    agents = {name: _agent(ctx, name, child, shared) for name, child in children.items()}
    for name in agents:
        _check_forced(ctx, name, agents, children[name])
    return MappingProxyType(agents)


def _check_forced(ctx: Context, name: str, agents: Mapping[str, AgentConfig], node: Node) -> None:
    """A conversation that is always handed on must come to an end (teams.handoff.forced)."""
    seen, heir = [name], agents[name].force_handoff
    while heir is not None and heir not in seen:
        seen.append(heir)
        heir = agents[heir].force_handoff
    if heir == name:
        key = join(join("agents", name), "force_handoff")
        place = entries(ctx, node, join("agents", name))["force_handoff"]
        raise ctx.error(place, key, f"the conversation would go round for ever: {' -> '.join([*seen, name])}")


def agent_names(ctx: Context, node: Node) -> Collection[str]:
    """The names of all agents, before any of them is read.

    Raises:
        ConfigError: there is none, or one has no name.
    """
    if not isinstance(node.value, dict):
        raise ctx.error(node, "agents", f"expected a mapping, got {describe(node)}")
    if not node.value:
        raise ctx.error(node, "agents", "at least one agent is needed")
    if "" in node.value:
        raise ctx.error(node.value[""], "agents", "an agent needs a name")
    return node.value.keys()


def _agent(ctx: Context, name: str, node: Node, shared: Shared) -> AgentConfig:
    key = join("agents", name)
    values = decode(ctx, node, key, AGENT_SHAPE, ("agents.*",))
    if "model" not in values:
        raise ctx.error(node, join(key, "model"), "an agent needs a model, for example auto")
    written = entries(ctx, node, key)
    check_reference(ctx, written["model"], join(key, "model"), values["model"], shared.catalog)
    if "compaction_model" in values:
        place, path = written["compaction_model"], join(key, "compaction_model")
        check_reference(ctx, place, path, values["compaction_model"], shared.catalog)
    if "budgets" in values:
        check_budgets(ctx, written["budgets"], join(key, "budgets"), values["budgets"], shared.budgets)
    files = values.pop("instruction_file", None)
    if files is not None:
        if "instruction" in values:
            raise ctx.error(files, join(key, "instruction_file"), "instruction is set too; only one of them may be")
        values["instruction"] = _instruction_files(ctx, files, join(key, "instruction_file"), shared.directory)
    inline = read_toolsets(ctx, values.pop("toolsets", None), join(key, "toolsets"))
    values["toolsets"] = inline + _used_toolsets(ctx, written, key, values.pop("use_toolsets", ()), shared)
    values["commands"] = _agent_commands(ctx, written, key, values, shared)
    for field in ("sub_agents", "handoffs"):
        places = items(ctx, written[field], join(key, field)) if field in written else []
        named = [(*place, name) for place, name in zip(places, values.get(field, ()), strict=True)]
        values[field] = check_agents(ctx, named, shared.names)
    if isinstance(values.get("skills"), tuple):
        values["skills"] = _local_skills(ctx, written["skills"], join(key, "skills"), values["skills"])
    if values.get("force_handoff") is not None:
        named = [(join(key, "force_handoff"), written["force_handoff"], values["force_handoff"])]
        values["force_handoff"] = next(iter(check_agents(ctx, named, shared.names)), None)
    if not values["sub_agents"] and any(toolset.type == "background_agents" for toolset in values["toolsets"]):
        place = written.get("toolsets") or written["use_toolsets"]
        ctx.warn(place, join(key, "sub_agents"), "is empty, so background_agents has nobody to start")
    values["fallback"] = _fallback(ctx, values.pop("fallback", None), join(key, "fallback"), shared.catalog)
    values["structured_output"] = read_structured_output(
        ctx, values.pop("structured_output", None), join(key, "structured_output")
    )
    values["hooks"] = read_hooks(ctx, values.pop("hooks", None), join(key, "hooks"))
    values["num_history_items"] = values.get("num_history_items") or None
    return AgentConfig(name=name, line=node.line, **values)


def _local_skills(ctx: Context, node: Node, key: str, names: tuple[str, ...]) -> tuple[str, ...]:
    """The names of skills; a place to take some from (with `/` or `:`) is warned about and left out."""
    local = []
    for (path, place), name in zip(items(ctx, node, key), names, strict=True):
        if "/" in name or ":" in name:
            ctx.warn(place, path, "skills from elsewhere are known but not built yet; they are left out")
        else:
            local.append(name)
    return tuple(local)


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
        merged.update(_commands(ctx, own, join(key, "commands"), shared.names))
    return MappingProxyType(merged)


def _item(node: Node, position: int) -> Node:
    """An item of a list that was read before."""
    return node.value[position] if isinstance(node.value, list) else node


def _fallback(ctx: Context, node: Node | None, key: str, catalog: Catalog) -> FallbackConfig:
    if node is None:
        return FallbackConfig()
    values = decode(ctx, node, key, FALLBACK_SHAPE)
    written = entries(ctx, node, key)
    if "models" in values:
        places = items(ctx, written["models"], join(key, "models"))
        for (path, place), ref in zip(places, values["models"], strict=True):
            check_reference(ctx, place, path, ref, catalog)
    if "cooldown" in values:
        place, path = written["cooldown"], join(key, "cooldown")
        values["cooldown"] = seconds(place.value)
        if values["cooldown"] is None:
            raise ctx.error(place, path, f"expected a time such as 90s or 1m, got {describe(place)}")
    return FallbackConfig(**values)


# --- commands ----------------------------------------------------------------------------------------------------


def read_command_groups(ctx: Context, node: Node | None, agents: Collection[str]) -> Mapping[str, Commands]:
    """The top level's `commands`: group -> command -> what it does.

    Args:
        ctx: the load.
        node: the mapping, None when there is none.
        agents: the names of all agents.

    Raises:
        ConfigError: a key or a value is wrong, or an agent does not exist.
    """
    groups = entries(ctx, node, "commands") if node is not None else {}
    return MappingProxyType(
        {name: _commands(ctx, child, join("commands", name), agents) for name, child in groups.items()}
    )


def _commands(ctx: Context, node: Node, key: str, agents: Collection[str]) -> Commands:
    found: dict[str, CommandConfig] = {}
    for path, name, child in _named_commands(ctx, node, key):
        if name in found:
            raise ctx.error(child, path, f'there is a command "{name}" before this one')
        command = found[name] = _command(ctx, name, child, path)
        if command.agent and command.agent not in agents:
            place = entries(ctx, child, path)["agent"]
            near = did_you_mean(command.agent, agents)
            raise ctx.error(place, join(path, "agent"), f'unknown agent "{command.agent}"{near}')
    return MappingProxyType(found)


def _named_commands(ctx: Context, node: Node, key: str) -> list[tuple[str, str, Node]]:
    """Path, name and value of each command: of a mapping, or of a list of mappings."""
    if not isinstance(node.value, list):
        return [(join(key, name), name, child) for name, child in entries(ctx, node, key).items()]
    return [
        (join(path, name), name, child)
        for path, item in items(ctx, node, key)
        for name, child in entries(ctx, item, path).items()
    ]


def _command(ctx: Context, name: str, node: Node, key: str) -> CommandConfig:
    """A command: an instruction, or a mapping. What is typed after it is put in when it is used, not here."""
    if isinstance(node.value, str):
        return CommandConfig(name=name, instruction=node.value)
    command = CommandConfig(name=name, **decode(ctx, node, key, COMMAND_SHAPE))
    if not (command.instruction or command.agent or command.url):
        raise ctx.error(node, key, "a command needs an instruction, an agent or a url")
    return command


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
