"""The rules of the house, read off the source: who may import whom, one door per dependency, the size budget."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "sluice"
MODULES = sorted(PACKAGE.rglob("*.py"))

ROOMS: dict[str, set[str]] = {
    "machines": set(),
    "wire": set(),
    "acp": {"wire.errors"},
    "persistence": set(),
    "config": set(),
    "agent": {"machines", "config", "persistence.records"},
    "models": {"agent.ports", "agent.events", "agent.redaction", "config", "outbound", "persistence.records"},
    "tools": {
        "agent.ports",
        "agent.events",
        "agent.bounds",
        "config",
        "outbound",
        "persistence.records",
        "persistence.shared_file",
    },
    "mcp": {
        "agent.ports",
        "agent.events",
        "agent.bounds",
        "config",
        "outbound",
        "machines",
        "wire.cleanup",
    },
    "handlers": {"machines", "wire", "acp", "persistence", "config", "agent", "models", "tools", "mcp", "outbound"},
    "client": {"wire", "acp", "machines"},
    "cli": {
        "machines",
        "wire",
        "acp",
        "persistence",
        "config",
        "agent",
        "models",
        "tools",
        "mcp",
        "handlers",
        "client",
        "outbound",
    },
}
"""room -> what it may import of ours besides itself; a whole room or one module of it."""

DOORS: dict[str, set[str]] = {
    "statemachine": {"machines"},
    "sqlite_utils": {"persistence"},
    "sqlite3": {"persistence"},
    "dataclasses_json": {"persistence"},
    "httpx": {"models", "tools"},
    "httpx2": {"mcp"},
    "mcp": {"mcp", "handlers/mcp_server.py", "handlers/mcp_http.py"},
    "uvicorn": {"handlers/mcp_http.py"},
    "mcp_types": {"mcp"},
    "yaml": {"config"},
    "jsonschema": {"config"},
    "referencing": {"config"},
    "msgspec": {"wire", "acp", "config", "models", "client"},
    "opentelemetry": {"wire/tracing.py", "cli"},
    "rich": {"cli", "client"},
    "PIL": {"handlers/images.py"},
    "tree_sitter": {"agent/shell_words.py"},
    "tree_sitter_bash": {"agent/shell_words.py"},
    "xllamacpp": {"models/local/engine.py"},
}
"""third-party package -> the rooms or modules that may import it."""

NO_ANYIO = {"machines", "config", "outbound"}


def room_of(path: Path) -> str:
    relative = path.relative_to(PACKAGE)
    return relative.parts[0] if len(relative.parts) > 1 else relative.stem


def imports(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            assert node.level == 0, f"{path}: relative import"
            yield node.module
            if node.module == "sluice" or node.module.count(".") == 1:
                yield from (f"{node.module}.{alias.name}" for alias in node.names)


def submodules(name: str) -> bool:
    """Whether a dotted name below `sluice` is a module (and not a name inside one)."""
    path = ROOT / Path(*name.split("."))
    return path.is_dir() or path.with_suffix(".py").exists()


@pytest.mark.parametrize("path", MODULES, ids=lambda p: str(p.relative_to(ROOT)))
def test_a_room_imports_only_what_it_may(path: Path) -> None:
    room = room_of(path)
    if room in ("__init__", "__main__", "outbound", "lazy"):
        return
    for name in imports(path):
        if not name.startswith("sluice.") or not submodules(name):
            continue
        target = name.removeprefix("sluice.")
        if target == "lazy":
            continue  # how a package loads its modules; knows nothing of them
        allowed = target == room or target.startswith(f"{room}.")
        allowed = allowed or any(target == one or target.startswith(f"{one}.") for one in ROOMS[room])
        # Naming a room on the way to one of its modules is no import of the room.
        allowed = allowed or any(one.startswith(f"{target}.") for one in ROOMS[room])
        assert allowed, f"{room} may not import {name}"


@pytest.mark.parametrize("path", MODULES, ids=lambda p: str(p.relative_to(ROOT)))
def test_each_dependency_has_one_door(path: Path) -> None:
    relative = path.relative_to(PACKAGE).as_posix()
    for name in imports(path):
        package = name.split(".")[0]
        if package == "anyio":
            assert room_of(path) not in NO_ANYIO, f"{relative} imports anyio"
        if package in DOORS:
            assert {room_of(path), relative} & DOORS[package], f"{relative} imports {name}"


def test_standard_input_and_output_have_one_user() -> None:
    for path in MODULES:
        relative = path.relative_to(PACKAGE).as_posix()
        if relative == "wire/stdio.py" or room_of(path) in ("cli", "client"):
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "sys":
                assert node.attr not in ("stdin", "stdout"), f"{relative} uses sys.{node.attr}"


def functions() -> Iterator[tuple[str, ast.FunctionDef | ast.AsyncFunctionDef]]:
    for path in MODULES:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                yield f"{path.relative_to(ROOT)}:{node.lineno} {node.name}", node


def lines(node: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    assert node.end_lineno is not None
    return node.end_lineno - node.lineno + 1


def parameters(node: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    own = [*node.args.posonlyargs, *node.args.args]
    bound = 1 if own and own[0].arg in ("self", "cls") else 0
    return len(own) - bound + len(node.args.kwonlyargs)


def test_functions_stay_within_the_size_budget() -> None:
    sizes = sorted(lines(node) for _, node in functions())
    assert sizes[int(len(sizes) * 0.95)] <= 40
    assert [f"{where} ({lines(node)})" for where, node in functions() if lines(node) > 60] == []
    assert [f"{where} ({parameters(node)})" for where, node in functions() if parameters(node) > 5] == []


def test_modules_stay_within_the_size_budget() -> None:
    sizes = {path: len(path.read_text(encoding="utf-8").splitlines()) for path in MODULES}
    assert {str(path): size for path, size in sizes.items() if size > 400} == {}


def test_every_task_has_an_owner() -> None:
    """No bare tasks: a task outside a task group outlives what it was started for."""
    for path in MODULES:
        text = path.read_text(encoding="utf-8")
        assert "create_task(" not in text and "ensure_future(" not in text, path
