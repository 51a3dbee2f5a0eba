"""Packages that load their modules when a name is first used, so that a program starts with what it needs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any

__all__ = ["lazy"]


def lazy(names: Mapping[str, tuple[str, ...]]) -> Callable[[str], Any]:
    """A module-level `__getattr__` (PEP 562).

    Args:
        names: module -> the names it gives to the package.
    """
    where = {name: module for module, given in names.items() for name in given}

    def get(name: str) -> Any:
        if name not in where:
            raise AttributeError(f"no attribute {name!r}")
        return getattr(import_module(where[name]), name)

    return get
