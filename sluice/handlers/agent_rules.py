"""The permission rules of an agent file and of a person's settings, as the permission checker takes them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sluice.handlers.answers import unusable

if TYPE_CHECKING:
    from sluice.agent.permissions import Rules
    from sluice.config.environment import Environment
    from sluice.config.schema import PermissionRules

__all__ = ["rules_of", "user_rules"]


def rules_of(written: PermissionRules) -> Rules:
    """The rules that were written."""
    from sluice.agent.permissions import Rules

    return Rules.of(written.allow, written.ask, written.deny)


def user_rules(environment: Environment) -> Rules:
    """The rules of the person's settings, read anew like the agent file.

    Raises:
        BackendError: the settings cannot be used; a denial in them must not be lost in silence.
    """
    from sluice.config.errors import ConfigError
    from sluice.config.user_settings import load_settings

    try:
        return rules_of(load_settings(environment.config_dir, environment).permissions)
    except ConfigError as error:
        raise unusable("The settings are not usable", error) from error
