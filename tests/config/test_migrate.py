from __future__ import annotations

import pytest

from tests.config.support import error, read, warnings

OLD = """\
version: "0"
agents:
  root:
    model: m
    think: true
    todo: {shared: true}
    toolsets:
      - type: shell
  calm:
    model: m
    think: false
    todo:
models:
  m:
    type: openai
    model: gpt
"""


@pytest.mark.requirement("config-file.format.version")
def test_a_file_of_version_0_is_read_as_it_was_meant() -> None:
    file = read(OLD)
    assert (file.models["m"].provider, file.models["m"].model) == ("openai", "gpt")
    toolsets = file.agents["root"].toolsets
    assert [toolset.type for toolset in toolsets] == ["todo", "think", "shell"]
    assert (toolsets[0].options, [toolset.line for toolset in toolsets]) == ({"shared": True}, [6, 5, 8])
    assert file.agents["calm"].toolsets == ()
    assert file.warnings == ()


@pytest.mark.parametrize("version", ["1", "16", None])
def test_what_version_0_had_is_unknown_to_later_ones(version: str | None) -> None:
    head = f"version: {version}\n" if version is not None else ""
    assert error(head + OLD.split("\n", 1)[1]).key == "models.m.type"


def test_a_memory_of_version_0_is_a_toolset_with_a_path() -> None:
    text = OLD.replace("think: true", "memory: {path: ./m.db}")
    assert warnings(text) == []
    (kept,) = [toolset for toolset in read(text).default_agent.toolsets if toolset.type == "memory"]
    assert dict(kept.options) == {"path": "./m.db"}
    found = error(OLD.replace("think: true", "memory: yes"))
    assert (found.line, found.key) == (5, "agents.root.memory")
    assert error(OLD.replace("think: true", "think: {a: 1}")).line == 5


@pytest.mark.requirement("config-file.format.version")
@pytest.mark.parametrize(
    ("text", "line", "key"),
    [
        ("env: {A: b}\nagents: {root: {model: auto}}", 2, "env"),
        ("agents: {root: {model: m}}\nmodels:\n  m:\n    env: {A: b}", 5, "models.m.env"),
        (
            "agents:\n  root:\n    model: auto\n    toolsets:\n    - type: mcp\n      env_file: x",
            7,
            "agents.root.toolsets[0].env_file",
        ),
    ],
)
def test_what_ended_with_version_1_is_an_error_that_says_what_to_do(text: str, line: int, key: str) -> None:
    found = error(f"version: 1\n{text}\n")
    assert (found.line, found.key) == (line, key)
    assert "--env-from-file" in found.message


def test_retrieval_sources_of_an_agent_are_toolsets_since_version_7() -> None:
    text = "agents:\n  root:\n    model: auto\n    rag: [docs, wiki]\n"
    old = warnings(f"version: 6\n{text}")
    assert [(line, key) for line, key, _ in old] == [(5, "agents.root.toolsets[0]"), (5, "agents.root.toolsets[1]")]
    assert error(f"version: 7\n{text}").key == "agents.root.rag"
    assert error("version: 6\nagents: {root: {model: auto, rag: docs}}").message == 'expected a list, got "docs"'


@pytest.mark.parametrize(
    "wrong", ["agents: [a]", "agents: {root: x}", "agents: {root: {model: a, toolsets: x, think: true}}"]
)
def test_what_is_of_the_wrong_kind_is_left_for_the_check_that_follows(wrong: str) -> None:
    assert "expected a" in error(f"version: 0\n{wrong}\nmodels: {{a: {{type: openai, model: m}}}}").message
