"""Loads an agent file: every error it can have appears here, before any tool or provider starts.

Source: requirements of the area config-file; workspace.config.relative-to-file.
"""

from __future__ import annotations

import stat
from collections.abc import Sequence
from pathlib import Path

from sluice.config.agents import Shared, agent_names, read_agents, read_command_groups
from sluice.config.budgets import read_budget, read_budgets
from sluice.config.decode import Context, Shape, decode, describe, shape
from sluice.config.endpoints import read_catalog
from sluice.config.errors import ConfigError, ConfigWarning
from sluice.config.expand import Environ
from sluice.config.flavors import apply_flavors
from sluice.config.keys import KNOWN_NOT_BUILT, NEWEST_VERSION
from sluice.config.migrate import migrate
from sluice.config.schema import AgentFile, Metadata, PermissionRules, RuntimeConfig
from sluice.config.suggest import nearest
from sluice.config.toolsets import read_mcps, read_named_toolsets
from sluice.config.tree import Node, parse

__all__ = ["MAX_FILE_BYTES", "TOP_SHAPE", "ConfigError", "ConfigWarning", "load", "loads", "read_text"]

MAX_FILE_BYTES = 4 << 20
"""Bytes of an agent file."""

TOP_SHAPE: Shape = {
    "version": Node,
    "metadata": Metadata,
    "agents": Node,
    "models": Node,
    "providers": Node,
    "permissions": PermissionRules,
    "runtime": Node,
    "mcps": Node,
    "toolsets": Node,
    "commands": Node,
    "flavors": Node,
    "budget": Node,
    "budgets": Node,
}

RUNTIME_SHAPE: Shape = shape(RuntimeConfig)


def load(path: Path, env: Environ, flavors: Sequence[str] = ()) -> AgentFile:
    """Read and check an agent file.

    Args:
        path: the file; its directory is where relative paths inside it start.
        env: the values of `${env.X}`.
        flavors: the patches of the file to apply, in this order.

    Returns:
        The file, with a warning for each key that has no effect yet.

    Raises:
        ConfigError: the file cannot be read, or something in it is wrong.
    """
    return loads(read_text(path), path, env, flavors)


def loads(text: str, path: Path, env: Environ, flavors: Sequence[str] = ()) -> AgentFile:
    """The same for the text of an agent file that would stand at `path`.

    Raises:
        ConfigError: something in it is wrong.
    """
    ctx = Context(str(path), env, newest=NEWEST_VERSION)
    root = parse(text, ctx.file)
    if root is None or root.value is None:
        raise ConfigError(ctx.file, None, "", "is empty; an agent file has at least the key agents")
    if not isinstance(root.value, dict):
        raise ctx.error(root, "", f"expected a mapping with the key agents, got {describe(root)}")
    _check_kind(ctx, root)
    version = _version(ctx, root.value.get("version"))
    root = apply_flavors(ctx, root, flavors, (*TOP_SHAPE, *KNOWN_NOT_BUILT[""]))
    root = migrate(ctx, root, version)
    top = decode(ctx, root, "", TOP_SHAPE, ("",))
    if "agents" not in top:
        raise ConfigError(ctx.file, None, "agents", "at least one agent is needed")
    catalog = read_catalog(ctx, top.get("models"), top.get("providers"))
    read_mcps(ctx, top.get("mcps"))
    toolsets = read_named_toolsets(ctx, top.get("toolsets"))
    names = agent_names(ctx, top["agents"])
    commands = read_command_groups(ctx, top.get("commands"), names)
    budgets = read_budgets(ctx, top.get("budgets"))
    agents = read_agents(ctx, top["agents"], Shared(catalog, toolsets, commands, budgets, names, path.parent))
    return AgentFile(
        path=str(path),
        agents=agents,
        version=version,
        metadata=top.get("metadata", Metadata()),
        models=catalog.models,
        providers=catalog.providers,
        permissions=top.get("permissions", PermissionRules()),
        runtime=_runtime(ctx, top.get("runtime")),
        toolsets=toolsets,
        commands=commands,
        budget=read_budget(ctx, top.get("budget"), "budget"),
        budgets=budgets,
        warnings=tuple(sorted(ctx.warnings, key=lambda warning: warning.line)),
    )


def _check_kind(ctx: Context, root: Node) -> None:
    """A mapping without agents and with keys that the format has not is some other kind of file; say just that."""
    assert isinstance(root.value, dict), "the caller has seen to it"
    foreign = [name for name in root.value if name not in {*TOP_SHAPE, *KNOWN_NOT_BUILT[""]}]
    if "agents" in root.value or not foreign or any(nearest(name, ("agents",)) for name in foreign):
        return
    shown = f' "{foreign[0]}"' if foreign[0].isprintable() and len(foreign[0]) <= 40 else ""
    raise ctx.error(
        root.value[foreign[0]], "agents", f"is missing, and{shown} is no key of an agent file; is this another file?"
    )


def _runtime(ctx: Context, node: Node | None) -> RuntimeConfig:
    if node is None:
        return RuntimeConfig()
    return RuntimeConfig(**decode(ctx, node, "runtime", RUNTIME_SHAPE, ("runtime",)))


def _version(ctx: Context, node: Node | None) -> int | None:
    """The schema version; checked first, because a newer file has keys that would look like typos."""
    if node is None or node.value is None:
        return None
    digits = node.raw if isinstance(node.value, (int, str)) and not isinstance(node.value, bool) else ""
    if not (digits.isascii() and digits.isdigit()):
        raise ctx.error(node, "version", f"expected a whole number, got {describe(node)}")
    if len(digits) > 9 or int(digits) > NEWEST_VERSION:
        said = digits if len(digits) <= 9 else f"a number of {len(digits)} digits"
        known = f"newer than {NEWEST_VERSION}, the newest known here"
        raise ctx.error(node, "version", f"{said} is {known}; update sluice or lower the version")
    return int(digits)


def read_text(path: Path) -> str:
    """The text of a configuration file, without a byte order mark.

    Raises:
        ConfigError: it is no regular UTF-8 file of bearable size.
    """
    name = str(path)
    if path.suffix.lower() == ".hcl":
        raise ConfigError(name, None, "", "HCL is known but not built yet; write the agent file in YAML")
    try:
        mode = path.stat()
        if stat.S_ISDIR(mode.st_mode):
            raise ConfigError(name, None, "", "is a directory; name the agent file in it")
        if not stat.S_ISREG(mode.st_mode):
            raise ConfigError(name, None, "", "is no regular file")
        if mode.st_size > MAX_FILE_BYTES:
            raise ConfigError(name, None, "", f"has more than {MAX_FILE_BYTES} bytes")
        data = path.read_bytes()
    except FileNotFoundError:
        raise ConfigError(name, None, "", "does not exist") from None
    except (OSError, ValueError) as error:
        reason = (error.strerror if isinstance(error, OSError) else None) or "bad path"
        raise ConfigError(name, None, "", f"cannot be read: {reason}") from None
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise ConfigError(name, line, "", "is not UTF-8") from None
