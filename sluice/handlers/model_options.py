"""The options `model` and `thought_level` of the agent that has the conversation, and what changing them does.

Specification page: https://agentclientprotocol.com/protocol/session-config-options. Both lists are made of what is
known already: the agent file, the credentials, the bundled catalogue. A change makes a new model object, stores the
choice, and only then puts it in force; until then the old object serves on, and it does so when storing fails.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sluice import acp
from sluice.agent.team import Agent
from sluice.config.schema import ModelConfig
from sluice.handlers.assembly import threshold
from sluice.handlers.session import Incarnation
from sluice.models.catalogue import facts
from sluice.wire.cleanup import shielded

if TYPE_CHECKING:
    from sluice.config.schema import ModelConfig

__all__ = ["choose_effort", "choose_model", "model_options"]

DEFAULT = "default"
CURRENT = "current"
PREFIX = "model:"


def model_options(live: Incarnation) -> list[acp.SessionConfigOption]:
    """The model list, and the reasoning efforts when the model in force is known to have some."""
    agent = live.talk.team.agent
    options: list[acp.SessionConfigOption] = [_models(live, agent)]
    efforts = _efforts(agent)
    if efforts:
        options.append(_thought_level(live, agent, efforts))
    return options


def _models(live: Incarnation, agent: Agent) -> acp.SessionConfigSelect:
    assert live.assembled is not None, "an open session was made from something"
    described = live.assembled.file.models
    default = f"What the agent file says: {agent.config.model}."
    choices = [acp.SessionConfigSelectOption(DEFAULT, _default_name(agent), default)]
    for name in live.assembled.choices:
        entry = described[name]
        choices.append(acp.SessionConfigSelectOption(PREFIX + name, name, entry.description or _named(entry)))
    current = PREFIX + agent.model_ref if agent.model_ref else DEFAULT
    if current not in [choice.value for choice in choices]:
        # The model in force is none that can be chosen; choosing this entry keeps it and does nothing.
        current = CURRENT
        choices.append(acp.SessionConfigSelectOption(CURRENT, agent.model.ref, "The model in use."))
    return acp.SessionConfigSelect(
        "model", "Model", current, choices, description="Which model answers.", category="model"
    )


def _default_name(agent: Agent) -> str:
    """The name of the file's choice, with the model it has come to where the file leaves that open."""
    open_ended = agent.config.model in ("auto", "local") and not agent.model_ref
    return f"Default ({agent.model.ref})" if open_ended else "Default"


def _named(entry: ModelConfig) -> str:
    """What an entry stands for, for people."""
    if entry.first_available:
        return f"The first with credentials of {', '.join(entry.first_available)}."
    return f"{entry.provider}/{entry.model}" if entry.provider else f"One of {entry.model}, each turn."


def _description(entry: ModelConfig) -> str:
    if entry.description:
        return entry.description
    if entry.first_available:
        return f"The first that has credentials: {', '.join(entry.first_available)}."
    return f"{entry.provider}/{entry.model}" if entry.provider else f"One of these each turn: {entry.model}."


def _efforts(agent: Agent) -> tuple[str, ...]:
    provider, _, model = agent.model.ref.partition("/")
    known = facts(provider, model)
    return known.efforts if known is not None else ()


def _thought_level(live: Incarnation, agent: Agent, efforts: tuple[str, ...]) -> acp.SessionConfigSelect:
    configured = _configured_budget(live, agent)
    label = "Default" if configured is None else f"Default ({configured})"
    choices = [acp.SessionConfigSelectOption(DEFAULT, label, "What the agent file says, else what the model does.")]
    choices += [acp.SessionConfigSelectOption(effort, effort.capitalize()) for effort in efforts]
    return acp.SessionConfigSelect(
        "thought_level",
        "Reasoning",
        agent.effort or DEFAULT,
        choices,
        description="How much the model thinks before it answers.",
        category="thought_level",
    )


def _configured_budget(live: Incarnation, agent: Agent) -> int | str | None:
    assert live.assembled is not None
    entry = live.assembled.file.models.get(agent.model_ref or agent.config.model)
    return entry.thinking_budget if entry is not None else None


async def choose_model(live: Incarnation, value: str) -> None:
    """Change the model of the agent that has the conversation; the same value changes nothing, not even the effort.

    Raises:
        BackendError: the model cannot be used; what was in force stays.
        StoreError: the choice cannot be stored; likewise.
    """
    agent = live.talk.team.agent
    ref = "" if value == DEFAULT else value.removeprefix(PREFIX)
    if value == CURRENT or ref == agent.model_ref:
        return
    await _exchange(live, agent, ref, "", stored=True)


async def choose_effort(live: Incarnation, value: str) -> None:
    """Change the reasoning effort. It lasts as long as the session is open and is not stored.

    Raises:
        BackendError: the model cannot be used like that; what was in force stays.
    """
    agent = live.talk.team.agent
    effort = "" if value == DEFAULT else value
    if effort != agent.effort:
        await _exchange(live, agent, agent.model_ref, effort, stored=False)


async def _exchange(live: Incarnation, agent: Agent, ref: str, effort: str, *, stored: bool) -> None:
    assert live.assembled is not None
    assembly = live.connection.assembly
    store = await assembly.store()
    fresh = await assembly.model(live.assembled.file, ref or agent.config.model, effort)
    with shielded(None, "a model choice is stored and in force, or neither"):
        try:
            if stored:
                await store.update_session(live.id, model_overrides=_overrides(live, agent, ref))
        except BaseException:
            await fresh.aclose()
            raise
        old, agent.model, agent.model_ref, agent.effort = agent.model, fresh, ref, effort
        agent.threshold = threshold(live.assembled.file, agent.config, ref)
        # The new model's window is observed at its first call (usage-cost.limit.after-model-change).
        live.talk.books.limit = None
        await old.aclose()


def _overrides(live: Incarnation, changed: Agent, ref: str) -> dict[str, str]:
    agents = live.talk.team.agents.values()
    chosen = {agent.name: ref if agent is changed else agent.model_ref for agent in agents}
    return {name: model for name, model in chosen.items() if model}
