"""The pages that bring Sluice into an editor: settings start it, programs run, the registry entry holds."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
import tomllib
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from sluice import __version__
from sluice.cli.main import build_parser

ROOT = Path(__file__).parent.parent
EDITORS = (ROOT / "docs" / "editors.md").read_text(encoding="utf-8")
TASKS = (ROOT / "docs" / "first-tasks.md").read_text(encoding="utf-8")
ENTRY = json.loads((ROOT / "registry" / "sluice" / "agent.json").read_text(encoding="utf-8"))

BOUND = 60.0
"""Seconds before a program of the pages counts as hung."""


def blocks(text: str, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", text, re.MULTILINE | re.DOTALL)


def start(command: list[str]) -> None:
    """What a setting would start is a command line that the program takes, for a server."""
    assert command[0] == "sluice"
    options = build_parser().parse_args(command[1:])
    assert command[1] == "serve" and options.agent_file


@pytest.fixture
def on_path(tmp_path: Path) -> dict[str, str]:
    """An environment in which `sluice` is this one, with a data directory of its own."""
    folder = tmp_path / "bin"
    folder.mkdir()
    program = folder / "sluice"
    program.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m sluice "$@"\n')
    program.chmod(0o755)
    path = f"{folder}{os.pathsep}{os.environ['PATH']}"
    return {**os.environ, "PATH": path, "SLUICE_DATA_DIR": str(tmp_path / "data"), "PYTHONPATH": str(ROOT)}


def test_the_json_settings_of_the_editors_start_the_server() -> None:
    settings = [json.loads(block)["agent_servers"]["Sluice"] for block in blocks(EDITORS, "json")]
    assert len(settings) == 2, "Zed and JetBrains"
    for entry in settings:
        start([entry["command"], *entry["args"]])
        assert entry["env"] == {}


def test_the_settings_in_lisp_and_lua_start_the_server() -> None:
    (lisp,), (lua,) = blocks(EDITORS, "elisp"), blocks(EDITORS, "lua")
    assert lisp.count("(") == lisp.count(")") and lua.count("{") == lua.count("}")
    program = re.search(r':command "(.*?)"', lisp)
    arguments = re.search(r":command-params '\((.*?)\)", lisp)
    assert program and arguments
    start([program[1], *shlex.split(arguments[1])])
    command = re.search(r"default = \{ (.*?) \}", lua)
    assert command
    start([part.strip('"') for part in command[1].split(", ")])


def test_the_commands_of_the_pages_are_commands_of_the_program() -> None:
    lines = [line.removeprefix("$ ") for block in blocks(EDITORS + TASKS, "console") for line in block.splitlines()]
    for line in lines:
        words = shlex.split(line)
        start(shlex.split(words[words.index("--agent") + 1]) if words[0] == "npx" else words)


@pytest.mark.requirement("cli.docs.host-example")
def test_the_host_of_the_page_runs_and_uses_methods_that_exist(on_path: dict[str, str]) -> None:
    host = next(block for block in blocks(TASKS, "python") if "subprocess" in block)
    assert re.findall(r'call\("(.*?)"', host) == ["initialize", "session/new", "session/prompt"]
    done = subprocess.run([sys.executable, "-c", host], cwd=ROOT, env=on_path, capture_output=True, timeout=BOUND)
    assert (done.returncode, done.stderr) == (0, b""), done.stderr
    *answer, reason = done.stdout.decode().splitlines()
    assert "".join(answer) and reason == "end_turn"


@pytest.mark.requirement("cli.docs.editor-guide")
def test_the_three_tasks_are_there_and_the_schema_of_the_tool_is_what_the_program_prints(
    on_path: dict[str, str],
) -> None:
    headings = re.findall(r"^## \d\. (.*)$", TASKS, re.MULTILINE)
    assert [re.search("MCP client|tool looks like|over ACP", heading) is not None for heading in headings] == [
        True
    ] * 3
    (settings,) = (json.loads(block)["mcpServers"]["sluice"] for block in blocks(TASKS, "json"))
    start([settings["command"], *settings["args"]])
    look = next(block for block in blocks(TASKS, "python") if "list_tools" in block)
    done = subprocess.run([sys.executable, "-c", look], cwd=ROOT, env=on_path, capture_output=True, timeout=BOUND)
    assert done.returncode == 0, done.stderr
    tool, *answer = done.stdout.decode().splitlines()
    name, properties = tool.split(" ", 1)
    assert name == "ask" and "message" in json.loads(properties)
    assert "".join(answer)


def test_the_registry_entry_keeps_the_registrys_rules() -> None:
    """The rules of its guide for contributors: required fields, id, version, pinned package, the folder's name."""
    needed, optional = (
        {"id", "name", "version", "description", "distribution"},
        {"repository", "website", "authors", "license", "license_url", "icon"},
    )
    assert needed <= ENTRY.keys() <= needed | optional
    assert all(isinstance(ENTRY[name], str) and ENTRY[name] for name in needed - {"distribution"})
    assert ENTRY["id"] == "sluice" and re.fullmatch(r"[a-z][a-z0-9-]*", ENTRY["id"])
    assert ENTRY["version"] == __version__ and re.fullmatch(r"\d+\.\d+\.\d+", ENTRY["version"])
    assert ENTRY["distribution"].keys() == {"uvx"}
    uvx = ENTRY["distribution"]["uvx"]
    assert {"package"} <= uvx.keys() <= {"package", "args", "env"}, "its schema takes nothing else, no command either"
    assert uvx["package"] == f"sluice-acp=={__version__}"
    start(["sluice", *uvx["args"]])


def test_the_package_has_a_command_of_its_own_name_for_uvx() -> None:
    """The registry's clients run `uvx PACKAGE ARGS`, and that starts the command which is named like the package."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    package = ENTRY["distribution"]["uvx"]["package"].partition("==")[0]
    assert project["name"] == package
    assert project["scripts"][package] == project["scripts"]["sluice"]


def test_the_icon_of_the_entry_is_a_small_square_in_the_colour_of_the_text() -> None:
    text = (ROOT / "registry" / "sluice" / "icon.svg").read_text(encoding="utf-8")
    icon = ET.fromstring(text)
    assert "<!--" not in text and icon.tag.endswith("svg")
    assert (icon.get("width"), icon.get("height"), icon.get("viewBox")) == ("16", "16", "0 0 16 16")
    painted = {part.get(name) for part in icon.iter() for name in ("fill", "stroke")} - {None}
    assert painted == {"currentColor"}


def test_what_the_registry_starts_answers_initialize_with_a_way_to_authenticate(on_path: dict[str, str]) -> None:
    """As the registry checks it: nothing configured, no key, and the answer names a method."""
    uvx = ENTRY["distribution"]["uvx"]
    bare = {name: on_path[name] for name in ("PATH", "SLUICE_DATA_DIR", "PYTHONPATH")}
    ask = {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "initialize",
        "params": {"protocolVersion": 1, "clientCapabilities": {"terminal": True}},
    }
    command = ["sluice", *uvx["args"]]
    done = subprocess.run(
        command, input=json.dumps(ask).encode() + b"\n", env={**bare, "HOME": bare["SLUICE_DATA_DIR"]},
        cwd=ROOT, capture_output=True, timeout=BOUND,
    )  # fmt: skip
    (line,) = done.stdout.splitlines()
    methods = json.loads(line)["result"]["authMethods"]
    assert [method["id"] for method in methods] == ["host-credentials"] and "type" not in methods[0]


def test_the_agent_that_comes_with_the_package_is_the_example() -> None:
    shipped = ROOT / "sluice" / "config" / "default.yaml"
    assert shipped.read_bytes() == (ROOT / "examples" / "assistant.yaml").read_bytes()
