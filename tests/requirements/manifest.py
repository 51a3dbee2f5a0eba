"""The manifest: areas with their ids, statements and deferrals, and which ids the suite's tests carry."""

from __future__ import annotations

import ast
import importlib
import pkgutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tests.requirements import areas

__all__ = ["TESTS", "Area", "area", "load", "markers", "modules"]

TESTS = Path(__file__).parent.parent


@dataclass(frozen=True)
class Area:
    """One area: id -> statement, and id -> "milestone or area: reason" for those that no test carries yet."""

    name: str
    statements: Mapping[str, str]
    deferred: Mapping[str, str] = field(default_factory=dict)

    def held(self) -> list[str]:
        return [name for name in self.statements if name not in self.deferred]


def area(name: str, statements: Mapping[str, str], deferred: Mapping[str, str] | None = None) -> Area:
    """What an area's module assigns to AREA."""
    return Area(name, statements, deferred or {})


def modules() -> Iterator[tuple[Path, Area]]:
    """Each area's file and data, by file name."""
    for info in pkgutil.iter_modules(areas.__path__):
        module = importlib.import_module(f"{areas.__name__}.{info.name}")
        assert module.__file__ is not None
        yield Path(module.__file__), module.AREA


def load() -> list[Area]:
    """All areas, by name."""
    return sorted((found for _, found in modules()), key=lambda found: found.name)


def markers() -> dict[str, list[str]]:
    """Requirement id -> where it is marked, read off the source, so that it is fast and misses no platform's test."""
    found: dict[str, list[str]] = {}
    for path in sorted(TESTS.rglob("*.py")):
        text = path.read_text(encoding="utf-8")
        if "mark.requirement" not in text:
            continue
        for node in ast.walk(ast.parse(text)):
            if not (isinstance(node, ast.Call) and ast.unparse(node.func) == "pytest.mark.requirement"):
                continue
            where = f"{path.relative_to(TESTS.parent)}:{node.lineno}"
            for argument in node.args:
                assert isinstance(argument, ast.Constant), f"{where}: a requirement id must be written out"
                found.setdefault(str(argument.value), []).append(where)
    return found
