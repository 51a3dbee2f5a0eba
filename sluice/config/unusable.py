"""Why a model reference cannot be used: its credentials are missing, or it stands for nothing here."""

from __future__ import annotations

from sluice.config.choices import members
from sluice.config.errors import ConfigError
from sluice.config.schema import AgentFile

__all__ = ["MissingCredentials", "ModelUnavailable"]


class MissingCredentials(Exception):
    """A model has no key. The text says what to set and holds no value.

    Attributes:
        variables: the names that would help.
        text: one line for a person.
        any_of: whether one of the variables is enough; else all are needed.
        instead: what would help as well, in words; "" for nothing.
    """

    def __init__(self, variables: tuple[str, ...], text: str, *, any_of: bool = False, instead: str = "") -> None:
        super().__init__(text)
        self.variables = variables
        self.any_of = any_of
        self.instead = instead
        self.text = text


class ModelUnavailable(ConfigError):
    """A reference that no session can use: unknown, or of a provider that is not built. The message says what to do.

    Attributes:
        ref: the reference as it was given.
    """

    def __init__(self, file: AgentFile, ref: str, message: str) -> None:
        line, key = _place(file, ref)
        super().__init__(file.path, line, key, message)
        self.ref = ref


def _place(file: AgentFile, ref: str) -> tuple[int | None, str]:
    """Where a reference is declared, else where the first agent with it stands."""
    if ref in file.models:
        return file.models[ref].line, f"models.{ref}"
    for agent in file.agents.values():
        asked = (("model", agent.model), ("compaction_model", agent.compaction_model))
        for key, used in (*asked, *(("fallback.models", named) for named in agent.fallback.models)):
            if used is not None and ref in (used, *members(file.models, used)):
                return agent.line, f"agents.{agent.name}.{key}"
    return None, ""
