"""What can be set in a session, by the names people use: its mode, its model, and every other option."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sluice.client.agent import Agent
from sluice.client.session import Session
from sluice.client.updates import ConfigOption

__all__ = ["Setting", "UnknownChoice", "choose", "find_setting", "settings", "status_parts"]


class UnknownChoice(Exception):
    """What was typed names none of the choices, or more than one. The text says which there are."""


@dataclass(frozen=True)
class Setting:
    """Something to choose.

    Attributes:
        name: what it is called here: `mode`, `model`, or the agent's own id.
        option_id: the agent's id of it; None for a mode that is set by `session/set_mode`.
        current: the id of the present value.
        values: (id, name) of each value, in the agent's order.
        switch: whether the value is a yes or no.
    """

    name: str
    option_id: str | None
    current: str
    values: tuple[tuple[str, str], ...]
    switch: bool = False

    async def set(self, agent: Agent, session_id: str, wanted: str) -> str:
        """Set it.

        Args:
            agent: the agent.
            session_id: an open session.
            wanted: a value's id or name, the beginning of one, or its number in the list.

        Returns:
            The id of the value that was set.

        Raises:
            UnknownChoice: there is no such value.
            RemoteError: the agent refused.
        """
        value = choose(self.values, wanted, self.name)
        if self.option_id is None:
            await agent.set_mode(session_id, value)
        else:
            await agent.set_config_option(session_id, self.option_id, value == "on" if self.switch else value)
        return value


def settings(session: Session) -> list[Setting]:
    """Everything that can be set in a session. An option outranks the older way to set modes, as ACP says."""
    found = [_setting(option) for option in session.options]
    if session.modes and not any(setting.name == "mode" for setting in found):
        values = tuple((mode.id, mode.name) for mode in session.modes)
        found.insert(0, Setting("mode", None, session.mode or "", values))
    return found


def _setting(option: ConfigOption) -> Setting:
    name = option.category if option.category in ("mode", "model") else option.id
    if isinstance(option.current, bool):
        values = (("on", "on"), ("off", "off"))
        return Setting(name, option.id, "on" if option.current else "off", values, switch=True)
    return Setting(name, option.id, option.current, option.values)


def find_setting(session: Session, name: str) -> Setting:
    """The setting of this name.

    Raises:
        UnknownChoice: the session has no such setting.
    """
    found = settings(session)
    for setting in found:
        if name in (setting.name, setting.option_id):
            return setting
    known = ", ".join(setting.name for setting in found) or "nothing"
    raise UnknownChoice(f"this session has no {name} to choose; it has: {known}")


def choose(values: Sequence[tuple[str, str]], wanted: str, what: str) -> str:
    """Find one of some values by id, by number (from 1), by name, or by how its id or name begins.

    Raises:
        UnknownChoice: none fits, or several do.
    """
    for value, _ in values:
        if value == wanted:
            return value
    if wanted.isascii() and wanted.isdigit() and 1 <= int(wanted[:9]) <= len(values):
        return values[int(wanted) - 1][0]
    low = wanted.lower()
    exact = [value for value, name in values if low in (value.lower(), name.lower())]
    begins = [value for value, name in values if value.lower().startswith(low) or name.lower().startswith(low)]
    fitting = (exact or begins) if low else []
    if len(fitting) == 1:
        return fitting[0]
    if fitting:
        raise UnknownChoice(f"{what}: {wanted!r} could be {' or '.join(fitting)}")
    raise UnknownChoice(f"{what}: there is no {wanted!r}, but {', '.join(value for value, _ in values)}")


def status_parts(session: Session | None) -> list[str]:
    """What a status line says of a session: how full its context is, what it cost, its mode and its model."""
    if session is None:
        return []
    parts = []
    if (usage := session.usage) is not None:
        parts.append(f"{_short(usage.used)} of {_short(usage.size)} tokens")
        if usage.cost is not None and usage.cost[0] > 0:
            amount, currency = usage.cost
            parts.append(f"${amount:.4f}" if currency == "USD" else f"{amount:.4f} {currency}")
    for setting in settings(session):
        if setting.name in ("mode", "model"):
            names = dict(setting.values)
            parts.append(f"{setting.name} {names.get(setting.current, setting.current)}")
    return parts


def _short(tokens: int) -> str:
    if tokens < 1000:
        return str(tokens)
    return f"{tokens / 1000:.1f}k" if tokens < 100_000 else f"{tokens // 1000}k"
