"""Packages that load their modules when a name is first used, so that a program starts with what it needs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from sys import modules
from typing import Any

__all__ = ["lazy"]


def lazy(package: str, names: Mapping[str, tuple[str, ...]]) -> Callable[[str], Any]:
    """A module-level `__getattr__` (PEP 562). A name that was found stays in the package, so it is looked up once.

    Args:
        package: the `__name__` of the package.
        names: module -> the names it gives to the package.
    """
    where = {name: module for module, given in names.items() for name in given}

    def get(name: str) -> Any:
        if name not in where:
            raise AttributeError(f"no attribute {name!r}")
        found = getattr(import_module(where[name]), name)
        setattr(modules[package], name, found)
        return found

    return get
