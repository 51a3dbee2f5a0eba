"""Which handler answers which method: one row a method, by the page of the specification it is on.

A page is loaded when one of its methods is first called, or by `warm_up`, so that the first answer waits for none.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any

from sluice.handlers.connection import Admit, Notice

__all__ = ["NOTIFICATIONS", "PAGES", "REQUESTS", "warm_up"]

PAGES: Mapping[str, tuple[str, str]] = {
    "initialize": ("initialization", "initialize"),
    "authenticate": ("authentication", "authenticate"),
    "logout": ("authentication", "logout"),
    "session/new": ("session_setup", "new"),
    "session/load": ("session_setup", "load"),
    "session/resume": ("session_setup", "resume"),
    "session/list": ("session_list", "list_sessions"),
    "session/close": ("session_close", "close"),
    "session/delete": ("session_delete", "delete"),
    "session/prompt": ("prompt_turn", "prompt"),
    "session/set_mode": ("session_modes", "set_mode"),
    "session/set_config_option": ("session_config_options", "set_config_option"),
    "session/cancel": ("prompt_turn", "cancel"),
}
"""method -> page and function."""


def _handler(method: str) -> Callable[..., Any]:
    page, name = PAGES[method]

    def handle(connection: Any, message: Any) -> None:
        getattr(import_module(f"sluice.handlers.{page}"), name)(connection, message)

    return handle


NOTIFICATIONS: Mapping[str, Notice] = {"session/cancel": _handler("session/cancel")}
REQUESTS: Mapping[str, Admit] = {method: _handler(method) for method in PAGES if method not in NOTIFICATIONS}


def warm_up() -> None:
    """Load every page and what a first session needs; for a worker thread, after the first answer."""
    for page, _ in PAGES.values():
        import_module(f"sluice.handlers.{page}")
    for module in ("sluice.machines.registry", "sluice.persistence.store", "sluice.models", "sluice.tools.registry"):
        import_module(module)
