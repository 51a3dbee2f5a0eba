"""What a person has set for every agent: `settings.yaml` in the configuration directory.

A file that is not there says nothing. One that cannot be read is an error, as the denials in it would be lost.
"""

from __future__ import annotations

from pathlib import Path

from sluice.config.decode import Context, Shape, decode, describe
from sluice.config.errors import ConfigError, ConfigWarning
from sluice.config.expand import Environ
from sluice.config.hook_events import HookConfig
from sluice.config.hooks import read_hooks
from sluice.config.load import read_text
from sluice.config.schema import PermissionRules
from sluice.config.tree import Node, parse
from sluice.config.values import Frozen

__all__ = ["SETTINGS_FILE", "UserSettings", "load_settings"]

SETTINGS_FILE = "settings.yaml"
"""The file's name in the configuration directory."""


class UserSettings(Frozen, frozen=True):
    """The settings of one person. `permissions` stand beside those of the agent file; a deny on either side wins.
    `hooks` come after those of each agent. `warnings` are about keys that have no effect yet.
    """

    permissions: PermissionRules = PermissionRules()
    hooks: tuple[HookConfig, ...] = ()
    warnings: tuple[ConfigWarning, ...] = ()


_SHAPE: Shape = {"permissions": PermissionRules, "hooks": Node}


def load_settings(config_dir: Path | None, env: Environ) -> UserSettings:
    """Read the settings.

    Args:
        config_dir: the configuration directory, None for none.
        env: the values of `${env.X}`.

    Raises:
        ConfigError: the file is there and cannot be used; names file, line and key.
    """
    path = None if config_dir is None else config_dir / SETTINGS_FILE
    if path is None or not path.exists():
        return UserSettings()
    ctx = Context(str(path), env)
    root = parse(read_text(path), ctx.file)
    if root is None or root.value is None:
        return UserSettings()
    if not isinstance(root.value, dict):
        raise ConfigError(ctx.file, root.line, "", f"expected a mapping, got {describe(root)}")
    values = decode(ctx, root, "", _SHAPE)
    hooks = read_hooks(ctx, values.pop("hooks", None), "hooks")
    return UserSettings(**values, hooks=hooks, warnings=tuple(ctx.warnings))
