"""Which handler answers which method: one row a method, by the page of the specification it is on."""

from __future__ import annotations

from collections.abc import Mapping

from sluice.handlers import (
    authentication,
    initialization,
    prompt_turn,
    session_close,
    session_config_options,
    session_delete,
    session_list,
    session_modes,
    session_setup,
)
from sluice.handlers.connection import Admit, Notice

__all__ = ["NOTIFICATIONS", "REQUESTS"]

REQUESTS: Mapping[str, Admit] = {
    "initialize": initialization.initialize,
    "authenticate": authentication.authenticate,
    "logout": authentication.logout,
    "session/new": session_setup.new,
    "session/load": session_setup.load,
    "session/resume": session_setup.resume,
    "session/list": session_list.list_sessions,
    "session/close": session_close.close,
    "session/delete": session_delete.delete,
    "session/prompt": prompt_turn.prompt,
    "session/set_mode": session_modes.set_mode,
    "session/set_config_option": session_config_options.set_config_option,
}

NOTIFICATIONS: Mapping[str, Notice] = {"session/cancel": prompt_turn.cancel}
