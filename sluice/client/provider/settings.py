"""The mode, the model and the effort of a session: what is on offer, and how it is switched.

Agents offer modes and models as settings of a category, or in the older way as fields of their own; where both are
there, the setting counts.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from sluice.client.agent import Agent
from sluice.client.errors import ClientError
from sluice.client.provider.policy import RuntimeMode, TooWide, mode_for, too_wide
from sluice.client.provider.spec import AcpAgentSpec, AcpSessionInfo, Selection
from sluice.client.provider.translation import option_of
from sluice.client.session import Choice, Session
from sluice.wire.peer import RemoteError

__all__ = ["apply_mode", "apply_selection", "session_info"]

Warn = Callable[[str], None]
"""Takes a line for the thread."""


@dataclass(frozen=True)
class _Offer:
    """What may be chosen.

    Attributes:
        option_id: the setting by which it is switched, or None where it has a method of its own.
    """

    choices: tuple[Choice, ...]
    current: str | None
    option_id: str | None

    @property
    def ids(self) -> tuple[str, ...]:
        return tuple(choice.id for choice in self.choices)


def _offer(session: Session, category: Literal["mode", "model"]) -> _Offer:
    option = option_of(session.options, category)
    if option is not None:
        return _Offer(tuple(Choice(*value) for value in option.values), str(option.current), option.id)
    if category == "mode":
        return _Offer(session.modes, session.mode, None)
    return _Offer(session.models, session.model, None)


def session_info(session: Session) -> AcpSessionInfo:
    """What a session offers, for `AcpAgentSpec.on_session`."""
    models, modes = _offer(session, "model"), _offer(session, "mode")
    return AcpSessionInfo(session.id, models.choices, models.current, modes.choices, modes.current, session.options)


async def apply_selection(
    agent: Agent, session: Session, spec: AcpAgentSpec, selection: Selection, warn: Warn
) -> None:
    """Switch to the model and the effort a person picked, as far as the agent offers them; it keeps its own else.

    Raises:
        AgentExited: it is gone.
    """
    wanted = spec.model(selection)
    models = _offer(session, "model")
    try:
        if wanted is not None and wanted not in models.ids:
            warn(f"{spec.name} does not offer the model {wanted!r} and keeps its own")
        elif wanted is not None and wanted != models.current:
            await _switch_model(agent, session, models, wanted)
        # Looked up only now: another model may offer other efforts.
        effort = option_of(session.options, "thought_level")
        if effort is not None and selection.effort in dict(effort.values) and selection.effort != effort.current:
            await agent.set_config_option(session.id, effort.id, str(selection.effort))
    except RemoteError as error:
        warn(f"{spec.name} refused the selection {selection.slug!r}: {error}")


async def _switch_model(agent: Agent, session: Session, models: _Offer, wanted: str) -> None:
    if models.option_id is None:
        await agent.set_model(session.id, wanted)
    else:
        await agent.set_config_option(session.id, models.option_id, wanted)


async def apply_mode(agent: Agent, session: Session, spec: AcpAgentSpec, wanted: RuntimeMode, warn: Warn) -> None:
    """Put the agent into the mode for a runtime mode, or a stricter one; see `policy.mode_for`.

    Raises:
        ClientError: it is in a looser one and cannot be put into another.
        AgentExited: it is gone.
    """
    modes = _offer(session, "mode")
    try:
        chosen = mode_for(wanted, spec.modes, modes.ids, modes.current)
    except TooWide:
        raise ClientError(f"runs in the mode {modes.current!r}, which allows more than {wanted}") from None
    if chosen is None or chosen == modes.current:
        return
    try:
        if modes.option_id is None:
            await agent.set_mode(session.id, chosen)
        else:
            await agent.set_config_option(session.id, modes.option_id, chosen)
    except RemoteError as error:
        # Every call that the agent asks for is still answered by the runtime mode; only its own laxity would matter.
        if modes.current is None or too_wide(wanted, spec.modes, modes.current):
            raise ClientError(f"refused the mode {chosen!r}: {error}") from error
        warn(f"{spec.name} refused the mode {chosen!r}: {error}")
