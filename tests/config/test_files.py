"""Ten agent files in the manner of those people have: each loads unchanged, or its error says what is wrong where.

What a file may be warned about is listed with it. A key that has been built since is not warned about any more, and
the test then wants it to have gone from the warnings.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path

import anyio
import pytest

from sluice.config.errors import ConfigError
from sluice.config.keys import KNOWN_NOT_BUILT
from sluice.config.load import load
from sluice.config.models import missing_credentials
from sluice.config.schema import AgentFile
from tests.support.wire import spawned

FILES = Path(__file__).parent / "files"
ENV = {"LLM_GATEWAY_URL": "https://llm.example.org/v1"}


@dataclass(frozen=True)
class Outcome:
    """`error` is line, key and the beginning of the message; `missing` is (line, key) of each possible warning."""

    error: tuple[int, str, str] | None = None
    missing: tuple[tuple[int, str], ...] = ()
    agents: tuple[str, ...] = ("root",)
    credentials: tuple[str, ...] = ("OPENAI_API_KEY",)
    env: dict[str, str] = field(default_factory=dict)


OUTCOMES = {
    "team-without-root": Outcome(agents=("orchestrator", "researcher", "writer")),
    "providers-with-variables": Outcome(env=ENV, credentials=("LLM_GATEWAY_TOKEN",)),
    "misspelt-toolsets": Outcome((6, "agents.root.toolset", 'unknown key; did you mean "toolsets"?')),
    "long-instructions": Outcome(agents=("привет", "βοηθός", "案内")),
    "another-schema": Outcome((1, "agents", 'is missing, and "name" is no key of an agent file')),
    "alloy-with-shebang": Outcome(credentials=("ANTHROPIC_API_KEY", "OPENAI_API_KEY")),
    "permissions": Outcome(),
    "commands": Outcome(agents=("root", "reviewer")),
    "cyclic-team": Outcome(agents=("planner", "builder", "checker")),
    "prompt-files": Outcome(
        missing=(
            (6, "agents.root.add_date"),
            (7, "agents.root.add_environment_info"),
            (8, "agents.root.add_prompt_files"),
        )
    ),
}


def read(name: str) -> AgentFile:
    return load(FILES / f"{name}.yaml", OUTCOMES[name].env)


def still_missing(key: str) -> bool:
    """Whether a key is one that the format has and this program not; a provider that is not built always is."""
    return key.endswith(".provider") or key.rsplit(".", 1)[-1] in KNOWN_NOT_BUILT["agents.*"]


def test_every_file_has_an_outcome() -> None:
    assert {path.stem for path in FILES.glob("*.yaml")} == set(OUTCOMES)


@pytest.mark.requirement(
    "config-file.errors.before-start", "config-file.format.yaml", "config-file.format.unknown-key"
)
@pytest.mark.parametrize("name", OUTCOMES)
def test_a_file_loads_or_says_where_it_is_wrong(name: str) -> None:
    wanted = OUTCOMES[name]
    if wanted.error is not None:
        with pytest.raises(ConfigError) as caught:
            read(name)
        line, key, message = wanted.error
        assert (caught.value.line, caught.value.key) == (line, key)
        assert caught.value.message.startswith(message)
        return
    file = read(name)
    assert tuple(file.agents) == wanted.agents
    assert file.default_agent.name == wanted.agents[0]
    missing = [(line, key) for line, key in wanted.missing if still_missing(key)]
    assert [(warning.line, warning.key) for warning in file.warnings] == missing
    assert missing_credentials(file, wanted.env) == wanted.credentials


@pytest.mark.requirement("config-file.agents.required", "config-file.agents.core-keys")
def test_a_team_needs_neither_a_root_nor_instructions() -> None:
    file = read("team-without-root")
    assert [agent.instruction for agent in file.agents.values()] == ["", "", ""]
    assert file.default_agent.sub_agents == ("researcher", "writer")


@pytest.mark.requirement("config-file.expand.env", "config-file.format.version", "models.providers.custom")
def test_an_address_takes_its_variable_or_says_which_is_not_set() -> None:
    file = read("providers-with-variables")
    assert (file.version, file.providers["gateway"].base_url) == (12, ENV["LLM_GATEWAY_URL"])
    assert file.models["main"].description == "the large one"
    with pytest.raises(ConfigError) as caught:
        load(FILES / "providers-with-variables.yaml", {})
    assert (caught.value.line, caught.value.key) == (6, "providers.gateway.base_url")
    assert caught.value.message == "the variable LLM_GATEWAY_URL is not set"


def test_long_texts_in_other_scripts_arrive_letter_by_letter() -> None:
    raw = (FILES / "long-instructions.yaml").read_text(encoding="utf-8")
    assert len(raw.encode()) > 40_000
    for agent in read("long-instructions").agents.values():
        written = [line.strip() for line in agent.instruction.splitlines() if line.strip()]
        assert len(written) > 50
        assert all(line in raw for line in written)
        assert agent.welcome_message.endswith(f"«{agent.name}» 👋🏽")


@pytest.mark.requirement("models.ref.forms")
def test_a_shebang_line_is_a_comment_and_an_alloy_is_kept_as_written() -> None:
    assert read("alloy-with-shebang").default_agent.model == "opus,gpt"


@pytest.mark.requirement("config-file.permissions.team-rules")
def test_rules_with_arguments_are_kept_in_their_order() -> None:
    rules = read("permissions").permissions
    assert rules.allow == ("read_*", "shell:cmd=git status*", "shell:cmd=git diff*")
    assert (rules.ask, rules.deny) == (("shell:cmd=git push*",), ("shell:cmd=sudo *", "write_file:path=*.env"))


@pytest.mark.requirement("config-file.commands.forms")
def test_commands_come_as_a_mapping_or_as_a_list() -> None:
    file = read("commands")
    root = file.agents["root"].commands
    assert root["changelog"].instruction == "Write the changelog since the last tag."
    assert (root["review"].agent, root["review"].instruction) == ("reviewer", "")
    assert (root["ask"].agent, root["ask"].instruction) == ("reviewer", "Answer in one sentence: ${args}")
    assert list(file.agents["reviewer"].commands) == ["risks", "tests"]


@pytest.mark.anyio
@pytest.mark.requirement("config-file.errors.before-start", "cli.serve-acp.agent-file", "cli.serve-acp.team-file")
async def test_served_each_file_answers_initialize_or_names_file_line_and_key(tmp_path: Path) -> None:
    limiter = anyio.CapacityLimiter(3)

    async def serve(name: str) -> None:
        wanted, path = OUTCOMES[name], FILES / f"{name}.yaml"
        place = tmp_path / name
        place.mkdir()
        environment = {**wanted.env, **dict.fromkeys(wanted.credentials, "k"), "SLUICE_LOG_FILE": ""}
        async with limiter, spawned(path, place / "session.db", environment=environment) as server:
            response = await server.client.call("initialize", protocolVersion=1, clientCapabilities={})
            if wanted.error is None:
                assert response["result"]["protocolVersion"] == 1
                return
            line, key, message = wanted.error
            data = response["error"]["data"]
            assert (data["file"], data["line"], data["key"]) == (str(path), line, key)
            assert data["error"].startswith(message)

    with anyio.fail_after(120):
        async with anyio.create_task_group() as tasks:
            for name in OUTCOMES:
                tasks.start_soon(serve, name)


@pytest.mark.anyio
async def test_a_session_that_needs_what_is_not_built_says_so_with_the_line(tmp_path: Path) -> None:
    alloy = (FILES / "alloy-with-shebang.yaml").read_text(encoding="utf-8")
    path = tmp_path / "agent.yaml"
    path.write_text(alloy.replace("provider: anthropic", "provider: amazon-bedrock"), encoding="utf-8")
    async with spawned(path, tmp_path / "session.db", environment={"OPENAI_API_KEY": "k"}) as server:
        await server.client.initialize()
        error = await server.client.error("session/new", cwd=str(tmp_path), mcpServers=[])
    assert (error["data"]["line"], error["data"]["key"]) == (4, "models.opus")
    assert "provider amazon-bedrock is not built yet" in json.dumps(error)
