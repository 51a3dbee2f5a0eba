"""MCP servers in the agent file: one of three ways, references, life cycles, and errors that name line and key."""

from pathlib import Path

import pytest

from sluice.config.load import ConfigError, loads
from sluice.config.schema import AgentFile, RemoteMcp


def load(toolset: str, mcps: str = "") -> AgentFile:
    text = (
        f"mcps: {{{mcps}}}\nagents:\n  root:\n    model: openai/x\n    toolsets:\n      - {{type: mcp, {toolset}}}\n"
    )
    return loads(text, Path("agent.yaml"), {"TOKEN": "t"})


@pytest.mark.requirement("tools.mcp.toolset")
def test_a_reference_takes_what_the_named_server_says_and_adds_its_own() -> None:
    file = load("ref: files, args: [b]", "files: {command: /bin/files, args: [a], env: {K: '${env.TOKEN}'}}")
    (toolset,) = file.default_agent.toolsets
    assert toolset.name == "files"
    assert toolset.options == {"command": "/bin/files", "args": ("b",), "env": {"K": "t"}}


def test_a_remote_server_and_its_life_cycle() -> None:
    file = load("name: n, remote: {url: 'https://h/', headers: {A: '${env.TOKEN}'}}, lifecycle: {profile: strict}")
    (toolset,) = file.default_agent.toolsets
    assert toolset.options["remote"] == RemoteMcp("https://h/", headers={"A": "t"})
    assert toolset.options["lifecycle"].profile == "strict" and file.warnings == ()


@pytest.mark.parametrize(
    ("toolset", "words"),
    [
        ("name: x", "exactly one of command, remote and ref"),
        ("command: a, ref: b", "exactly one of command, remote and ref"),
        ("ref: flies", 'unknown MCP server "flies"; did you mean "files"?'),
        ("command: a, lifecycle: {profile: bold}", "resilient"),
        ("command: a, lifecycle: {call_timeout: soon}", "lifecycle.call_timeout"),
        ("remote: {url: u, transport_type: ws}", "streamable"),
        ("command: a, comand: b", "unknown key"),
    ],
)
def test_what_is_wrong_is_named_with_its_line(toolset: str, words: str) -> None:
    with pytest.raises(ConfigError) as error:
        load(toolset, "files: {command: /bin/files}")
    assert words in str(error.value) and error.value.line == 6


def test_what_is_not_built_is_a_warning() -> None:
    file = load("remote: {url: u, oauth: {clientId: x}}, toon: x, defer: true")
    assert file.default_agent.toolsets[0].defer is True
    assert [warning.key for warning in file.warnings] == [
        "agents.root.toolsets[0].toon",
        "agents.root.toolsets[0].remote.oauth",
    ]


CATALOG = "a server of Docker's MCP catalog is known but not built yet; its tools are missing; say its command"


def test_a_server_of_a_catalog_is_left_out_with_a_warning_wherever_it_is_named() -> None:
    """Many public files name one: everything else in them works all the same."""
    file = load("ref: docker:duckduckgo, config: {a: b}, tools: [search]")
    assert file.default_agent.toolsets == ()
    config, ref = file.warnings
    assert (config.key, ref.key) == ("agents.root.toolsets[0].config", "agents.root.toolsets[0].ref")
    assert ref.line == 6 and ref.message.startswith(CATALOG)
    named = load("ref: search", "search: {ref: docker:duckduckgo, tools: [search]}")
    assert named.default_agent.toolsets == ()
    (warning,) = named.warnings
    assert warning.key == "mcps.search.ref" and warning.message.startswith(CATALOG)


@pytest.mark.requirement("config-file.toolsets.shared-maps", "tools.registry.filter")
def test_a_named_server_takes_what_any_toolset_takes_and_the_reference_outranks_it() -> None:
    """Naively the top level knows only how the server is started."""
    shared = (
        "files: {type: mcp, command: /f, name: docs, tools: [a, b], readonly: true, defer: [a], instruction: Say.}"
    )
    (toolset,) = load("ref: files", shared).default_agent.toolsets
    assert (toolset.name, toolset.tools, toolset.readonly) == ("docs", ("a", "b"), True)
    assert (toolset.defer, toolset.instruction, toolset.options) == (("a",), "Say.", {"command": "/f"})
    (own,) = load("ref: files, name: mine, tools: [c], readonly: false, defer: false", shared).default_agent.toolsets
    assert (own.name, own.tools, own.readonly, own.defer, own.instruction) == ("mine", ("c",), False, False, "Say.")


@pytest.mark.parametrize(
    ("server", "words"),
    [
        ("files: {command: /f, type: shell}", "mcps.files.type"),
        ("files: {command: /f, defr: true}", 'did you mean "defer"?'),
        ("files: {ref: files}", "mcps.files.ref: unknown key"),
    ],
)
def test_what_a_named_server_cannot_be_is_an_error_at_its_place(server: str, words: str) -> None:
    with pytest.raises(ConfigError) as error:
        load("command: a", server)
    assert words in str(error.value) and error.value.line == 1
