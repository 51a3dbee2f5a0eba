from __future__ import annotations

from pathlib import Path

import pytest

from sluice.config.errors import ConfigError
from sluice.config.load import loads
from sluice.config.schema import AgentFile
from tests.support.wire import spawned

BASE = """\
agents:
  root:
    model: auto
    instruction: Help.
    max_iterations: 5
    toolsets:
      - type: shell
flavors:
  cheap:
    agents: {root: {model: openai/small, max_iterations: 1}}
  bare:
    agents:
      root:
        toolsets: []
        max_iterations:
  more:
    agents: {other: {model: openai/big}}
    models: {m: {provider: openai, model: x}}
  broken:
    agents: {root: {modle: x}}
"""


def flavored(*names: str, text: str = BASE) -> AgentFile:
    return loads(text, Path("agent.yaml"), {}, names)


@pytest.mark.requirement("config-file.flavors.patches")
def test_patches_are_applied_in_the_order_in_which_they_are_asked_for() -> None:
    plain = flavored().agents["root"]
    assert (plain.model, plain.max_iterations, len(plain.toolsets)) == ("auto", 5, 1)
    cheap = flavored("cheap").agents["root"]
    assert (cheap.model, cheap.max_iterations, cheap.instruction, len(cheap.toolsets)) == (
        "openai/small",
        1,
        "Help.",
        1,
    )
    assert flavored("bare", "cheap").agents["root"].max_iterations == 1
    last = flavored("cheap", "bare").agents["root"]
    assert (last.model, last.max_iterations, last.toolsets) == ("openai/small", 0, ())


def test_a_patch_may_add_agents_and_models() -> None:
    file = flavored("more")
    assert list(file.agents) == ["root", "other"]
    assert file.models["m"].model == "x"
    assert flavored("more", text="flavors: {more: {agents: {a: {model: auto}}}}").default_agent.name == "a"


@pytest.mark.requirement("config-file.flavors.patches")
@pytest.mark.parametrize(
    ("names", "line", "key", "message"),
    [
        (["chep"], 8, "flavors", 'unknown flavor "chep"; did you mean "cheap"?'),
        (["broken"], 20, "agents.root.modle", 'unknown key; did you mean "model"?'),
    ],
)
def test_an_error_names_the_line_of_the_patch(names: list[str], line: int, key: str, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        flavored(*names)
    assert (caught.value.line, caught.value.key, caught.value.message) == (line, key, message)


@pytest.mark.parametrize(
    ("flavors", "line", "key", "message"),
    [
        ("a: [x]", 3, "flavors.a", "a flavor is a mapping with keys of the agent file, got a list"),
        ("a: {agnts: {}}", 3, "flavors.a.agnts", 'unknown key; did you mean "agents"?'),
        ("a: {version: 3}", 3, "flavors.a.version", "a flavor cannot change version"),
        ("a: {flavors: {}}", 3, "flavors.a.flavors", "a flavor cannot change flavors"),
    ],
)
def test_a_flavor_is_checked_even_when_nobody_asks_for_it(flavors: str, line: int, key: str, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        flavored(text=f"agents: {{root: {{model: auto}}}}\nflavors:\n  {flavors}\n")
    assert (caught.value.line, caught.value.key, caught.value.message) == (line, key, message)


def test_a_file_without_flavors_says_so() -> None:
    with pytest.raises(ConfigError) as caught:
        flavored("x", text="agents: {root: {model: auto}}")
    assert caught.value.message == 'unknown flavor "x"; the file has none'


@pytest.mark.anyio
@pytest.mark.requirement("config-file.flavors.patches")
async def test_flavors_are_asked_for_on_the_command_line_or_in_the_environment(tmp_path: Path) -> None:
    path = tmp_path / "agent.yaml"
    (tmp_path / "script.yaml").write_text("turns: [{text: from the script}]")
    path.write_text(
        "agents: {root: {model: amazon-bedrock/x}}\nflavors:\n  half: {agents: {root: {model: m}}}\n"
        "  rest: {models: {m: {provider: scripted, model: s, provider_opts: {script: script.yaml}}}}\n"
    )
    for arguments, environment in ((("--flavor=half", "--flavor=rest"), {}), ((), {"SLUICE_FLAVOR": "half,rest"})):
        database = tmp_path / f"{len(arguments)}.db"
        async with spawned(path, database, *arguments, environment=environment) as server:
            await server.client.initialize()
            session = await server.client.new(tmp_path)
            await server.client.prompt(session, "hi")
            assert server.client.text() == "from the script"
    async with spawned(path, tmp_path / "x.db", "--flavor=hlaf") as server:
        error = await server.client.error("initialize", protocolVersion=1, clientCapabilities={})
        assert (error["data"]["line"], error["data"]["key"]) == (2, "flavors")
        assert error["data"]["error"] == 'unknown flavor "hlaf"; did you mean "half"?'
