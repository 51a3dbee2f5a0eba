"""What an agent file and a person's settings say about calls: permission rules, and the person's own hooks."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from sluice.handlers.answers import unusable

if TYPE_CHECKING:
    from sluice.agent.permissions import Rules
    from sluice.config.environment import Environment
    from sluice.config.hook_events import HookConfig
    from sluice.config.schema import PermissionRules
    from sluice.config.user_settings import UserSettings

__all__ = ["rules_of", "user_hooks", "user_rules"]


def rules_of(written: PermissionRules) -> Rules:
    """The rules that were written."""
    from sluice.agent.permissions import Rules

    return Rules.of(written.allow, written.ask, written.deny)


def user_rules(environment: Environment) -> Rules:
    """The rules of the person's settings, read anew like the agent file.

    Raises:
        BackendError: the settings cannot be used; a denial in them must not be lost in silence.
    """
    return rules_of(_settings(environment).permissions)


def user_hooks(environment: Environment, warn: Callable[[str], None]) -> tuple[HookConfig, ...]:
    """The hooks of the person's settings, then those of the files in `hooks.d`, read anew like the agent file.

    Args:
        environment: where the configuration directory is.
        warn: told of a file that is skipped, and of what has no effect.

    Raises:
        BackendError: the settings cannot be used; a guard in them must not be lost in silence.
    """
    from sluice.config.hook_directory import load_hook_directory
    from sluice.config.user_settings import SETTINGS_FILE

    settings, found = _settings(environment), load_hook_directory(environment.config_dir, environment)
    for warning in settings.warnings:
        warn(f"{SETTINGS_FILE}: {warning}")
    for error in found.skipped:
        warn(f"{error}; none of the hooks in this file runs")
    for file, warning in found.warnings:
        warn(f"{file}: {warning}")
    return settings.hooks + found.hooks


def _settings(environment: Environment) -> UserSettings:
    from sluice.config.errors import ConfigError
    from sluice.config.user_settings import load_settings

    try:
        return load_settings(environment.config_dir, environment)
    except ConfigError as error:
        raise unusable("The settings are not usable", error) from error
