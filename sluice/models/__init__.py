"""Model providers, each behind the agent's `Model` port. `build` makes the one that a configuration asks for."""

from __future__ import annotations

from pathlib import Path

from sluice.agent.ports import Model, ModelError
from sluice.models.local.engines import Engines
from sluice.models.settings import ResolvedModel

__all__ = ["Engines", "ResolvedModel", "build"]


def build(resolved: ResolvedModel, *, directory: str | Path = "", engines: Engines | None = None) -> Model:
    """The model for one session; nothing is connected and no provider's library is loaded yet.

    Args:
        resolved: the reference with endpoint, key and options, as `sluice.config` resolves it.
        directory: the agent file's directory, where relative paths in `provider_opts` begin.
        engines: what runs embedded models, shared by the sessions of a process; None for one of the model's own.

    Raises:
        ModelError: the wire format is not built, or the base address is unusable.
        ConfigError: the script of a scripted model cannot be read.
    """
    if resolved.api == "openai_chatcompletions":
        from sluice.models.openai_chat import API
        from sluice.models.remote import Remote

        return Remote(API, resolved)
    if resolved.api == "anthropic":
        from sluice.models import anthropic
        from sluice.models.remote import Remote

        return Remote(anthropic.API, resolved)
    if resolved.api == "openai_responses":
        from sluice.models import openai_responses
        from sluice.models.remote import Remote

        return Remote(openai_responses.API, resolved)
    if resolved.api == "gemini":
        from sluice.models import gemini
        from sluice.models.remote import Remote

        return Remote(gemini.API, resolved)
    if resolved.api == "scripted":
        from sluice.models.scripted import Scripted

        return Scripted(resolved, directory=directory)
    if resolved.api == "local":
        from sluice.models.local.chat import LocalChat

        return LocalChat(resolved, engines)
    text = f"the model {resolved.provider}/{resolved.model} needs the api {resolved.api}, which Sluice does not speak"
    raise ModelError("model_error", text)
