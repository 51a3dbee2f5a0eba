from __future__ import annotations

import contextlib
import os
from pathlib import Path

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sluice.config.errors import ConfigError
from sluice.config.keys import KNOWN_NOT_BUILT, NEWEST_VERSION
from sluice.config.load import TOP_SHAPE, load, loads
from sluice.config.schema import Metadata, PermissionRules
from tests.config.support import MINIMAL, error, read, warnings

FULL = """\
#!/usr/bin/env -S sluice serve acp
version: "16"
metadata: {author: A, license: MIT, description: d, readme: r, version: "1.0", tags: [x, y]}
agents:
  lead:
    model: main
    description: leads
    instruction: |
      Be kind.
    welcome_message: hello
    readonly: true
    safety: strict
    max_iterations: 3
    max_consecutive_tool_calls: 7
    toolsets:
      - {type: think}
    use_toolsets: [files]
models:
  main: {provider: house, model: m1, temperature: 1}
providers:
  house: {base_url: "http://localhost:9/v1"}
permissions:
  allow: [read_file]
  ask: ["shell:cmd=git push*"]
  deny: ["shell:cmd=rm *"]
runtime: {safety: balanced}
toolsets:
  files: {type: filesystem}
"""


@pytest.mark.requirement("config-file.format.yaml", "config-file.agents.core-keys")
def test_a_whole_file_is_read() -> None:
    file = read(FULL)
    assert file.path == "agent.yaml"
    assert file.version == 16
    assert file.metadata == Metadata("A", "MIT", "d", "r", "1.0", ("x", "y"))
    assert file.permissions == PermissionRules(("read_file",), ("shell:cmd=git push*",), ("shell:cmd=rm *",))
    assert file.runtime.safety == "balanced"
    lead = file.default_agent
    assert (lead.name, lead.model, lead.line) == ("lead", "main", 5)
    assert (lead.description, lead.instruction, lead.welcome_message) == ("leads", "Be kind.\n", "hello")
    assert (lead.readonly, lead.safety, lead.max_iterations, lead.max_consecutive_tool_calls) == (
        True,
        "strict",
        3,
        7,
    )
    assert [toolset.type for toolset in lead.toolsets] == ["think", "filesystem"]
    assert file.models["main"].temperature == 1.0
    assert file.warnings == ()


def test_what_is_not_written_has_the_documented_default() -> None:
    agent = read(MINIMAL).default_agent
    assert (agent.max_iterations, agent.max_consecutive_tool_calls, agent.num_history_items) == (0, 5, None)
    assert (agent.readonly, agent.safety, agent.toolsets, agent.instruction) == (False, None, (), "")


def test_a_loaded_file_cannot_be_changed() -> None:
    file = read(FULL)
    with pytest.raises(AttributeError):
        file.default_agent.model = "other"  # type: ignore[misc]  # the very thing that must not work
    for mapping in (file.agents, file.models, file.providers, file.toolsets, file.commands):
        assert not hasattr(mapping, "__setitem__")


@pytest.mark.requirement("config-file.agents.required")
def test_root_is_the_default_agent_wherever_it_stands_else_the_first() -> None:
    assert read("agents: {a: {model: auto}, root: {model: auto}}").default_agent.name == "root"
    assert read("agents: {z: {model: auto}, a: {model: auto}}").default_agent.name == "z"
    assert list(read("agents: {z: {model: auto}, a: {model: auto}}").agents) == ["z", "a"]


@pytest.mark.requirement("config-file.format.version")
@pytest.mark.parametrize(("written", "expected"), [("3", 3), ('"3"', 3), (16, 16), ("0", 0), ("", None)])
def test_a_known_version_is_accepted_as_text_or_number(written: object, expected: int | None) -> None:
    assert read(f"version: {written}\n{MINIMAL}").version == expected


@pytest.mark.requirement("config-file.format.version")
@pytest.mark.parametrize(
    ("written", "said"), [("17", "17"), ('"17"', "17"), ("9" * 40, "a number of 40 digits"), ("1" * 9, "1" * 9)]
)
def test_a_newer_version_is_refused_with_a_hint_before_its_keys_look_like_typos(written: str, said: str) -> None:
    found = error(f"brand_new: 1\nversion: {written}\n{MINIMAL}")
    assert (found.line, found.key) == (2, "version")
    assert found.message.startswith(f"{said} is newer than {NEWEST_VERSION}, ")
    assert "update sluice" in found.message


@pytest.mark.requirement("config-file.format.unknown-key", "config-file.errors.before-start")
@pytest.mark.parametrize(
    ("text", "line", "key", "message"),
    [
        ("agent: {}\n", 1, "agent", 'unknown key; did you mean "agents"?'),
        (MINIMAL + "zzz: 1\n", 4, "zzz", "unknown key; if a newer version than 16 has it, update sluice"),
        (
            MINIMAL + "    permissions: {}\n",
            4,
            "agents.root.permissions",
            "unknown key; permissions stands at the top level",
        ),
        (MINIMAL + "    modle: x\n", 4, "agents.root.modle", 'unknown key; did you mean "model"?'),
        (MINIMAL + "    hook: {}\n", 4, "agents.root.hook", 'unknown key; did you mean "hooks"?'),
        (MINIMAL + "metadata:\n  autor: x\n", 5, "metadata.autor", 'unknown key; did you mean "author"?'),
        (MINIMAL + "runtime:\n  safty: x\n", 5, "runtime.safty", 'unknown key; did you mean "safety"?'),
        (MINIMAL + "permissions:\n  alow: []\n", 5, "permissions.alow", 'unknown key; did you mean "allow"?'),
        (MINIMAL + "models:\n  m:\n    provder: x\n", 6, "models.m.provder", 'unknown key; did you mean "provider"?'),
        (
            MINIMAL + "models:\n  m:\n    provider: openai\n    model: x\n    cost: {inputs: 1}\n",
            8,
            "models.m.cost.inputs",
            'unknown key; did you mean "input"?',
        ),
        (MINIMAL + "providers:\n  p:\n    url: x\n", 6, "providers.p.url", 'unknown key; did you mean "base_url"?'),
        (
            MINIMAL + "    toolsets:\n      - type: shell\n        tool: [x]\n",
            6,
            "agents.root.toolsets[0].tool",
            'unknown key; did you mean "tools"?',
        ),
        ("agents: {}\n", 1, "agents", "at least one agent is needed"),
        ("agents:\n  root:\n", 2, "agents.root", "expected a mapping, got nothing"),
        ("agents:\n  root: {}\n", 2, "agents.root.model", "an agent needs a model, for example auto"),
        ("agents:\n  '': {model: auto}\n", 2, "agents", "an agent needs a name"),
        ("agents: [a]\n", 1, "agents", "expected a mapping, got a list"),
        ("- a\n", 1, "", "expected a mapping with the key agents, got a list"),
        ("\n\njust text\n", 3, "", 'expected a mapping with the key agents, got "just text"'),
        ("version: x\n" + MINIMAL, 1, "version", 'expected a whole number, got "x"'),
        ("version: 1.5\n" + MINIMAL, 1, "version", "expected a whole number, got the number 1.5"),
        ("version: true\n" + MINIMAL, 1, "version", "expected a whole number, got true (true or false)"),
        ("version: -1\n" + MINIMAL, 1, "version", "expected a whole number, got the number -1"),
        (
            MINIMAL + "    description: 5\n",
            4,
            "agents.root.description",
            "expected text, got the number 5; put it in quotes",
        ),
        (MINIMAL + "    instruction: [a]\n", 4, "agents.root.instruction", "expected text, got a list"),
        (MINIMAL + "    readonly: yes\n", 4, "agents.root.readonly", 'expected true or false, got "yes"'),
        (MINIMAL + "    readonly: 1\n", 4, "agents.root.readonly", "expected true or false, got the number 1"),
        (
            MINIMAL + "    max_iterations: many\n",
            4,
            "agents.root.max_iterations",
            'expected a whole number, got "many"',
        ),
        (
            MINIMAL + "    max_iterations: -1\n",
            4,
            "agents.root.max_iterations",
            "expected a whole number >= 0, got the number -1",
        ),
        (
            MINIMAL + "    max_iterations: true\n",
            4,
            "agents.root.max_iterations",
            "expected a whole number, got true (true or false)",
        ),
        (
            MINIMAL + "    max_consecutive_tool_calls: 0\n",
            4,
            "agents.root.max_consecutive_tool_calls",
            "expected a whole number >= 1, got the number 0",
        ),
        (
            MINIMAL + "    safety: strickt\n",
            4,
            "agents.root.safety",
            'expected one of strict, balanced, restricted, autonomous; got "strickt"; did you mean "strict"?',
        ),
        (MINIMAL + "    toolsets: shell\n", 4, "agents.root.toolsets", 'expected a list, got "shell"'),
        (MINIMAL + "    toolsets:\n      - shell\n", 5, "agents.root.toolsets[0]", 'expected a mapping, got "shell"'),
        (MINIMAL + "permissions:\n  allow: x\n", 5, "permissions.allow", 'expected a list, got "x"'),
        (
            MINIMAL + "permissions:\n  allow:\n    - x\n    - {a: b}\n",
            7,
            "permissions.allow[1]",
            "expected text, got a mapping",
        ),
        (MINIMAL + "permissions:\n  deny:\n    -\n", 6, "permissions.deny[0]", "expected text, got nothing"),
        (MINIMAL + "permissions:\n  deny: ['']\n", 5, "permissions.deny[0]", "expected text that is not empty"),
        (
            MINIMAL + "runtime:\n  safety: yolo\n",
            5,
            "runtime.safety",
            'expected one of strict, balanced, restricted, autonomous; got "yolo"',
        ),
        (
            MINIMAL + "metadata:\n  tags: [1]\n",
            5,
            "metadata.tags[0]",
            "expected text, got the number 1; put it in quotes",
        ),
        (MINIMAL + "    instruction: ${env.NOPE}\n", 4, "agents.root.instruction", "the variable NOPE is not set"),
        ("agents:\n  root:\n    model: ${env.NOPE}\n", 3, "agents.root.model", "the variable NOPE is not set"),
        ("agents:\n  root:\n    model: openai/${NOPE}\n", 3, "agents.root.model", "the variable NOPE is not set"),
        ("agents:\n  root:\n    model: ''\n", 3, "agents.root.model", "expected text that is not empty"),
    ],
)
def test_every_error_names_line_key_and_what_to_do(text: str, line: int, key: str, message: str) -> None:
    found = error(text)
    assert (found.line, found.key, found.message) == (line, key, message)
    place = f"agent.yaml:{line}: {key}: " if key else f"agent.yaml:{line}: "
    assert str(found) == place + message


@pytest.mark.parametrize("text", ["", "# nothing\n", "---\n", "null\n", "~\n"])
def test_an_empty_file_says_so(text: str) -> None:
    found = error(text)
    assert (found.line, found.key) == (None, "")
    assert "is empty" in found.message


def test_a_file_without_agents_says_so() -> None:
    assert str(error("version: 3\n")) == "agent.yaml: agents: at least one agent is needed"
    assert str(error("agents:\n")) == "agent.yaml: agents: at least one agent is needed"


def test_keys_without_a_value_count_as_not_written() -> None:
    agent = read(
        MINIMAL + "    description:\n    toolsets:\n    max_iterations: null\nmodels:\npermissions:\nruntime:\n"
    )
    assert (agent.default_agent.description, agent.default_agent.toolsets) == ("", ())


@pytest.mark.requirement("config-file.format.unknown-key")
@pytest.mark.parametrize("key", sorted(KNOWN_NOT_BUILT[""]))
def test_each_known_top_level_key_that_is_not_built_gives_one_warning_with_its_line(key: str) -> None:
    found = warnings(f"{MINIMAL}{key}: {{}}\n")
    assert found == [(4, key, "known but not built yet; it has no effect")]


@pytest.mark.parametrize("key", sorted(KNOWN_NOT_BUILT["runtime"]))
def test_each_known_runtime_key_that_is_not_built_gives_one_warning(key: str) -> None:
    assert [(line, name) for line, name, _ in warnings(f"{MINIMAL}runtime:\n  {key}: x\n")] == [(5, f"runtime.{key}")]


AGENT_VALUES = {
    "sub_agents": "[root]",
    "handoffs": "[root]",
    "add_date": "true",
    "add_environment_info": "true",
    "add_prompt_files": "[AGENTS.md]",
    "commands": "{go: do it}",
    "use_commands": "[]",
    "num_history_items": "5",
}


@pytest.mark.parametrize("key", sorted(KNOWN_NOT_BUILT["agents.*"]))
def test_each_known_agent_key_that_is_not_built_gives_one_warning(key: str) -> None:
    found = warnings(f"{MINIMAL}    {key}: {AGENT_VALUES.get(key, '{}')}\n")
    assert [(line, name) for line, name, _ in found] == [(4, f"agents.root.{key}")]


def test_warnings_come_in_the_order_of_the_file_and_once_each() -> None:
    found = warnings(
        "rag: {}\nagents:\n  a: {model: auto, harness: {}}\n  b: {model: auto, harness: {}}\nevaluators: {}\n"
    )
    assert [(line, key) for line, key, _ in found] == [
        (1, "rag"),
        (3, "agents.a.harness"),
        (4, "agents.b.harness"),
        (5, "evaluators"),
    ]


def test_a_warning_reads_as_one_line() -> None:
    assert str(read(f"{MINIMAL}rag: {{}}\n").warnings[0]) == "line 4: rag: known but not built yet; it has no effect"


def test_a_template_that_is_not_expanded_is_said_and_stays_as_written() -> None:
    text = MINIMAL + "    instruction: run ${shell({cmd:'ls'})} for ${env.WHO}\n"
    assert read(text, {"WHO": "me"}).default_agent.instruction == "run ${shell({cmd:'ls'})} for me"
    assert [(line, key) for line, key, _ in warnings(text, {"WHO": "me"})] == [(4, "agents.root.instruction")]


@pytest.mark.requirement("config-file.expand.env")
def test_variables_are_expanded_in_texts_lists_and_mappings() -> None:
    file = read(
        """
        agents:
          root:
            model: "${env.P}/${NAME}"
            instruction: hello ${env.WHO || 'you'}
            toolsets: [{type: shell, env: {TOKEN: "${env.T}"}}]
        permissions: {deny: ["shell:cmd=${env.T}*"]}
        models:
          m: {provider: openai, model: x, provider_opts: {http_headers: {X-T: "${env.T}"}, list: ["${env.T}", 1]}}
        """,
        {"P": "openai", "NAME": "gpt", "T": "t$1\\1"},
    )
    agent = file.default_agent
    assert (agent.model, agent.instruction) == ("openai/gpt", "hello you")
    assert agent.toolsets[0].options["env"] == {"TOKEN": "t$1\\1"}
    assert file.permissions.deny == ("shell:cmd=t$1\\1*",)
    assert file.models["m"].provider_opts == {"http_headers": {"X-T": "t$1\\1"}, "list": ("t$1\\1", 1)}
    assert file.warnings == ()


@pytest.mark.requirement("config-file.permissions.team-rules")
def test_a_rule_is_kept_as_it_was_written() -> None:
    rules = ["shell:cmd=a*:cwd=/x y", "mcp_*", "[a-z]?"]
    assert read(f"{MINIMAL}permissions: {{ask: {rules}}}\n").permissions.ask == tuple(rules)


def test_a_long_file_with_long_texts_in_many_scripts_is_read_exactly() -> None:
    lines = [
        "Sprich höflich – „bitte“ und „danke“.",
        "请先读文件,再修改。",
        "Пиши коротко: 日本語も可。",
        "  مرحبا ${env.X} 🙂",
        "",
    ]
    body = [lines[number % len(lines)] for number in range(1000)]
    block = "\n".join(f"      {line}" if line else "" for line in body)
    text = f"{MINIMAL}    instruction: |\n{block}\n    welcome_message: |\n{block}\n    modle: x\n"
    assert len(text.encode()) > 40_000
    found = error(text, {"X": "é"})
    assert (found.line, found.key) == (text.count("\n"), "agents.root.modle")
    agent = read(text.replace("    modle: x\n", ""), {"X": "é"}).default_agent
    expected = "\n".join(body).replace("${env.X}", "é").rstrip("\n") + "\n"
    assert agent.instruction == agent.welcome_message == expected


# --- the file itself ---------------------------------------------------------------------------------------------


def failure(path: Path) -> ConfigError:
    with pytest.raises(ConfigError) as caught:
        load(path, {})
    assert caught.value.file == str(path)
    return caught.value


def test_a_file_on_disk_is_read_with_or_without_a_byte_order_mark(tmp_path: Path) -> None:
    path = tmp_path / "agent.yaml"
    path.write_bytes(b"\xef\xbb\xbf" + MINIMAL.encode())
    assert load(path, {}).path == str(path)
    path.write_bytes(MINIMAL.replace("\n", "\r\n").encode())
    assert load(path, {}).default_agent.model == "auto"


@pytest.mark.requirement("workspace.config.reloaded-per-session")
def test_each_load_sees_the_file_as_it_is_now_and_leaves_earlier_ones_alone(tmp_path: Path) -> None:
    path = tmp_path / "agent.yaml"
    path.write_text(MINIMAL, encoding="utf-8")
    first = load(path, {})
    path.write_text(MINIMAL.replace("auto", "openai/x"), encoding="utf-8")
    assert load(path, {}).default_agent.model == "openai/x"
    assert first.default_agent.model == "auto"


def test_a_file_that_is_not_there_a_directory_and_a_pipe_are_told_apart(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe.yaml"
    os.mkfifo(pipe)
    assert failure(tmp_path / "none.yaml").message == "does not exist"
    assert failure(tmp_path).message == "is a directory; name the agent file in it"
    assert failure(pipe).message == "is no regular file"
    assert failure(tmp_path / ("x" * 5000)).message.startswith("cannot be read: ")
    assert failure(Path("a\0b")).message == "cannot be read: bad path"


def test_a_file_that_may_not_be_read_says_why(tmp_path: Path) -> None:
    path = tmp_path / "loop.yaml"
    path.symlink_to(path)
    assert failure(path).message.startswith("cannot be read: ")


def test_a_file_that_is_not_utf_8_names_the_line(tmp_path: Path) -> None:
    path = tmp_path / "agent.yaml"
    path.write_bytes(b"agents:\n  root:\n    description: caf\xe9\n")
    assert str(failure(path)) == f"{path}:3: is not UTF-8"


def test_a_huge_file_and_hcl_are_refused(tmp_path: Path) -> None:
    huge = tmp_path / "huge.yaml"
    huge.write_bytes(b"#" * (5 << 20))
    assert "bytes" in failure(huge).message
    assert "HCL" in failure(tmp_path / "agent.hcl").message


# --- anything ----------------------------------------------------------------------------------------------------

KEYS = sorted({*TOP_SHAPE, "root", "model", "toolsets", "type", "provider", "safety", "commands", "instruction", "x"})
VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.sampled_from(["auto", "shell", "openai/x", "${env.A}"])
    | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYS) | st.text(), inner, max_size=4),
    max_leaves=15,
)


@given(st.text())
def test_any_text_loads_or_is_a_config_error(text: str) -> None:
    with contextlib.suppress(ConfigError):
        loads(text, Path("f.yaml"), {})


@pytest.mark.parametrize("key", ["flavors", "commands", "agents", "models", "providers", "toolsets", "budgets"])
def test_a_name_with_a_line_break_or_an_escape_is_told_in_one_line(key: str) -> None:
    document = {"agents": {"root": {"model": "x/y"}}, key: {"a\n\x1b[2Jb": False}}
    with pytest.raises(ConfigError) as caught:
        loads(yaml.safe_dump(document), Path("f.yaml"), {})
    assert str(caught.value).isprintable() and r"a\n\x1b[2Jb" in str(caught.value)


@settings(suppress_health_check=[HealthCheck.too_slow])
@given(st.dictionaries(st.sampled_from(KEYS), VALUES, max_size=6), VALUES, VALUES)
def test_any_yaml_value_anywhere_loads_or_is_a_config_error(
    top: dict[str, object], agent: object, toolset: object
) -> None:
    root = {"model": "auto", "toolsets": [toolset], **agent} if isinstance(agent, dict) else agent
    for document in (top, {**top, "agents": {"root": root}}):
        try:
            file = loads(yaml.safe_dump(document, allow_unicode=True), Path("f.yaml"), {"A": "v"})
        except ConfigError as caught:
            assert "\n" not in str(caught)
        else:
            assert file.default_agent.model
