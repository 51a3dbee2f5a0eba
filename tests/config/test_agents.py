from pathlib import Path

import pytest

from sluice.config.errors import ConfigError
from sluice.config.load import load
from sluice.config.schema import CommandConfig
from tests.config.support import MINIMAL, error, read

TEAM = """
models: {s1: {provider: scripted, model: s1}}
agents:
  orchestrator: {model: s1, sub_agents: [a]}
  a: {model: s1, sub_agents: [b], handoffs: [orchestrator]}
  b: {model: s1, sub_agents: [a]}
"""


def test_a_team_may_delegate_in_circles_and_has_no_agent_called_root() -> None:
    file = read(TEAM)
    assert file.default_agent.name == "orchestrator"
    assert file.agents["a"].sub_agents == ("b",)
    assert file.agents["a"].handoffs == ("orchestrator",)


@pytest.mark.parametrize("key", ["sub_agents", "handoffs"])
def test_an_agent_that_does_not_exist_is_an_error_with_the_nearest(key: str) -> None:
    found = error(
        f"agents:\n  root:\n    model: auto\n    {key}:\n      - helper\n      - helpr\n  helper: {{model: auto}}\n"
    )
    assert (found.line, found.key) == (6, f"agents.root.{key}[1]")
    assert found.message == 'unknown agent "helpr"; did you mean "helper"?'


def test_whoever_always_goes_on_is_an_agent_of_the_file() -> None:
    text = "agents:\n  root:\n    model: auto\n    force_handoff: {}\n  checker: {{model: auto}}\n"
    assert read(text.format("checker")).default_agent.force_handoff == "checker"
    found = error(text.format("chekcer"))
    assert (found.line, found.key) == (4, "agents.root.force_handoff")
    assert found.message == 'unknown agent "chekcer"; did you mean "checker"?'


@pytest.mark.requirement("teams.handoff.forced")
@pytest.mark.parametrize(
    ("heirs", "line", "circle"),
    [
        (("a", "", ""), 4, "a -> a"),
        (("b", "a", ""), 4, "a -> b -> a"),
        (("b", "c", "b"), 7, "b -> c -> b"),
    ],
)
def test_a_conversation_that_always_goes_on_must_end(heirs: tuple[str, ...], line: int, circle: str) -> None:
    lines = ["agents:"]
    for name, heir in zip("abc", heirs, strict=True):
        lines += [f"  {name}:", "    model: auto", f"    force_handoff: {heir}" if heir else "    description: x"]
    found = error("\n".join(lines))
    assert (found.line, found.message) == (line, f"the conversation would go round for ever: {circle}")


@pytest.mark.parametrize("reference", ["acme/pirate", "pirate:acme/pirate", "registry.example.org/a/b:1"])
def test_an_agent_from_a_registry_is_left_out_with_a_warning(reference: str) -> None:
    file = read(f"{MINIMAL}    sub_agents: [{reference}, root]\n")
    assert file.default_agent.sub_agents == ("root",)
    assert "agents.root.sub_agents[0]" in [warning.key for warning in file.warnings]


def test_skills_are_all_some_or_none_and_those_from_elsewhere_are_left_out() -> None:
    assert read(f"{MINIMAL}    skills: true\n").default_agent.skills is True
    assert read(MINIMAL).default_agent.skills is False
    file = read(f"{MINIMAL}    skills: [review, acme/skills, 'https://example.org/x', notes]\n")
    assert file.default_agent.skills == ("review", "notes")
    assert [warning.key for warning in file.warnings] == ["agents.root.skills[1]", "agents.root.skills[2]"]
    found = error(f"{MINIMAL}    skills: 3\n")
    assert (found.line, found.key) == (4, "agents.root.skills")


def test_num_history_items_zero_means_all() -> None:
    assert read(f"{MINIMAL}    num_history_items: 0\n").default_agent.num_history_items is None
    assert read(f"{MINIMAL}    num_history_items: 4\n").default_agent.num_history_items == 4


# --- commands ----------------------------------------------------------------------------------------------------


@pytest.mark.requirement("config-file.commands.forms")
def test_commands_are_texts_or_mappings_and_are_not_expanded() -> None:
    agent = read(
        """
        agents:
          root:
            model: auto
            use_commands: [git, more]
            commands:
              fix: Fix ${args} and ${env.NOT_SET}
              ask: {agent: helper, description: asks}
              site: {url: "https://example.org/{{session_id}}"}
          helper: {model: auto}
        commands:
          git:
            fix: overridden
            log: {instruction: Show the log, description: history}
          more: {log: again}
        """
    ).agents["root"]
    assert agent.commands == {
        "fix": CommandConfig("fix", instruction="Fix ${args} and ${env.NOT_SET}"),
        "log": CommandConfig("log", instruction="again"),
        "ask": CommandConfig("ask", agent="helper", description="asks"),
        "site": CommandConfig("site", url="https://example.org/{{session_id}}"),
    }


@pytest.mark.requirement("config-file.commands.forms")
@pytest.mark.parametrize(
    ("text", "line", "key", "message"),
    [
        (
            "    commands:\n      x: {}\n",
            5,
            "agents.root.commands.x",
            "a command needs an instruction, an agent or a url",
        ),
        ("    commands:\n      x: 5\n", 5, "agents.root.commands.x", "expected a mapping, got the number 5"),
        (
            "    commands:\n      x: {instruction: 5}\n",
            5,
            "agents.root.commands.x.instruction",
            "expected text, got the number 5; put it in quotes",
        ),
        (
            "    commands:\n      x: {instr: 5}\n",
            5,
            "agents.root.commands.x.instr",
            'unknown key; did you mean "instruction"?',
        ),
        (
            "    commands:\n      x: {agent: rot}\n",
            5,
            "agents.root.commands.x.agent",
            'unknown agent "rot"; did you mean "root"?',
        ),
        (
            "    use_commands: [gti]\ncommands:\n  git: {a: b}\n",
            4,
            "agents.root.use_commands[0]",
            'unknown group of commands "gti"; did you mean "git"?',
        ),
        ("commands:\n  git:\n    x: {agent: nobody}\n", 6, "commands.git.x.agent", 'unknown agent "nobody"'),
        ("commands:\n  git: text\n", 5, "commands.git", 'expected a mapping, got "text"'),
    ],
)
def test_what_is_wrong_with_a_command_is_named(text: str, line: int, key: str, message: str) -> None:
    found = error(MINIMAL + text)
    assert (found.line, found.key, found.message) == (line, key, message)


# --- instruction files -------------------------------------------------------------------------------------------


def with_files(directory: Path, written: str, env: dict[str, str] | None = None) -> str:
    path = directory / "agent.yaml"
    path.write_text(f"{MINIMAL}    instruction_file: {written}\n", encoding="utf-8")
    return load(path, env or {}).default_agent.instruction


@pytest.mark.requirement("config-file.agents.instruction-file", "workspace.config.relative-to-file")
def test_instruction_files_are_found_beside_the_agent_file_and_joined_by_a_blank_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "parts").mkdir()
    (tmp_path / "a.md").write_text("first ${env.WHO}\n\n", encoding="utf-8")
    (tmp_path / "parts" / "b.md").write_bytes("\ufeffzweite 二\n".encode())
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.chdir(elsewhere)
    assert with_files(tmp_path, "a.md", {"WHO": "me"}) == "first me"
    assert with_files(tmp_path, "[a.md, parts/../parts/b.md]", {"WHO": "me"}) == "first me\n\nzweite 二"


@pytest.mark.requirement("config-file.agents.instruction-file")
@pytest.mark.parametrize(
    ("written", "message"),
    [
        ("/etc/hostname", "an instruction file is given relative to the agent file"),
        ("~/x.md", "an instruction file is given relative to the agent file"),
        ("../secret.md", "the instruction file lies outside the agent file's directory"),
        ("sub/../../secret.md", "the instruction file lies outside the agent file's directory"),
        ("link.md", "the instruction file lies outside the agent file's directory"),
        ("up/secret.md", "the instruction file lies outside the agent file's directory"),
        ("none.md", "the instruction file does not exist, or is no file"),
        ("sub", "the instruction file does not exist, or is no file"),
        ("latin.md", "the instruction file is not UTF-8"),
        ("big.md", "the instruction file has more than 1048576 bytes"),
        ('"a\\0b"', "the instruction file cannot be read: bad path"),
        ("[]", "the list is empty"),
        ("''", "expected text that is not empty"),
        ("5", "expected text, got the number 5; put it in quotes"),
        ("unset.md", "the variable NOPE is not set"),
    ],
)
def test_an_instruction_file_outside_or_unreadable_is_an_error(tmp_path: Path, written: str, message: str) -> None:
    home = tmp_path / "home"
    (home / "sub").mkdir(parents=True)
    (tmp_path / "secret.md").write_text("secret", encoding="utf-8")
    (home / "link.md").symlink_to(tmp_path / "secret.md")
    (home / "up").symlink_to(tmp_path)
    (home / "latin.md").write_bytes(b"caf\xe9")
    (home / "big.md").write_bytes(b"x" * ((1 << 20) + 1))
    (home / "unset.md").write_text("${env.NOPE}", encoding="utf-8")
    with pytest.raises(ConfigError) as caught:
        with_files(home, written)
    assert (caught.value.line, caught.value.message) == (4, message)
    assert caught.value.key == "agents.root.instruction_file"


def test_the_item_of_a_list_of_instruction_files_is_named(tmp_path: Path) -> None:
    (tmp_path / "a.md").write_text("a", encoding="utf-8")
    with pytest.raises(ConfigError) as caught:
        with_files(tmp_path, "\n      - a.md\n      - b.md")
    assert (caught.value.line, caught.value.key) == (6, "agents.root.instruction_file[1]")


@pytest.mark.requirement("config-file.agents.instruction-file")
def test_instruction_and_instruction_file_exclude_each_other() -> None:
    found = error(MINIMAL + "    instruction: x\n    instruction_file: y.md\n")
    assert (found.line, found.key) == (5, "agents.root.instruction_file")
    assert found.message == "instruction is set too; only one of them may be"


def test_background_agents_without_anybody_to_start_is_warned_about_with_its_line() -> None:
    file = read(f"{MINIMAL}    toolsets:\n      - type: background_agents\n")
    assert [(warning.line, warning.key) for warning in file.warnings] == [(4, "agents.root.sub_agents")]
    file = read(f"{MINIMAL}    sub_agents: [a]\n    toolsets: [{{type: background_agents}}]\n  a: {{model: auto}}\n")
    assert file.warnings == ()
