"""The hooks of a person besides those of the settings: one file each in `hooks.d` of the configuration directory."""

from __future__ import annotations

from pathlib import Path

from sluice.config.decode import Context
from sluice.config.errors import ConfigError, ConfigWarning
from sluice.config.expand import Environ
from sluice.config.hook_events import HookConfig
from sluice.config.hooks import read_hooks
from sluice.config.load import read_text
from sluice.config.tree import parse
from sluice.config.values import Frozen

__all__ = ["HOOK_DIRECTORY", "FoundHooks", "load_hook_directory"]

HOOK_DIRECTORY = "hooks.d"
"""The directory's name; its `*.yaml` are read in the order of their names (hooks.sources.order)."""


class FoundHooks(Frozen, frozen=True):
    """What was found. `skipped` says of each file that cannot be used why, `warnings` belong to the others."""

    hooks: tuple[HookConfig, ...] = ()
    skipped: tuple[ConfigError, ...] = ()
    warnings: tuple[tuple[str, ConfigWarning], ...] = ()


def load_hook_directory(config_dir: Path | None, env: Environ) -> FoundHooks:
    """Read the files of the directory; each is a mapping like the `hooks` of an agent.

    Args:
        config_dir: the configuration directory, None for none.
        env: the values of `${env.X}`.
    """
    hooks: list[HookConfig] = []
    skipped: list[ConfigError] = []
    warnings: list[tuple[str, ConfigWarning]] = []
    for path in sorted((config_dir / HOOK_DIRECTORY).glob("*.yaml")) if config_dir is not None else ():
        ctx = Context(str(path), env)
        try:
            hooks += read_hooks(ctx, parse(read_text(path), ctx.file), "")
        except ConfigError as error:
            skipped.append(error)
        else:
            warnings += [(ctx.file, warning) for warning in ctx.warnings]
    return FoundHooks(tuple(hooks), tuple(skipped), tuple(warnings))
