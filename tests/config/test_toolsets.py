import pytest

from sluice.config.keys import KNOWN_NOT_BUILT, TOOLSET_OPTIONS, TOOLSET_TYPES
from sluice.config.schema import ToolsetConfig
from tests.config.support import MINIMAL, error, read, warnings

NEWER = "unknown key; if a newer version than 16 has it, update sluice"


NEEDED = {
    "api": ", api_config: {name: n, endpoint: e}",
    "memory": ", path: m",
    "openapi": ", url: u",
    "script": ", shell: {a: {cmd: b}}",
}
"""What a toolset of a type must have, as the rest of a mapping."""


def toolsets(*written: str) -> tuple[ToolsetConfig, ...]:
    return read(with_toolsets(*written)).default_agent.toolsets


def with_toolsets(*written: str) -> str:
    return MINIMAL + "    toolsets:\n" + "".join(f"      - {line}\n" for line in written)


def test_the_common_keys_and_those_of_the_type_are_kept_apart() -> None:
    (found,) = toolsets(
        "{type: filesystem, name: n, tools: [read_file], readonly: true, instruction: i, "
        "allow_list: ['.', '${HOME}/x'], deny_list: [a], ignore_vcs: false}"
    )
    assert found == ToolsetConfig(
        type="filesystem",
        name="n",
        tools=("read_file",),
        readonly=True,
        instruction="i",
        options={"allow_list": (".", "${HOME}/x"), "deny_list": ("a",), "ignore_vcs": False},
        line=5,
    )


def test_what_is_not_written_is_not_in_the_options() -> None:
    (shell, think, todo) = toolsets("{type: shell}", "{type: think}", "type: todo\n        shared: true")
    assert (shell.tools, shell.instruction, dict(shell.options), shell.line) == (None, None, {}, 5)
    assert dict(think.options) == {}
    assert (dict(todo.options), todo.line) == ({"shared": True}, 7)


def test_commands_after_a_write_are_kept_as_written() -> None:
    (found,) = toolsets("{type: filesystem, post_edit: [{path: '*.py', cmd: 'fmt \"${file}\"'}]}")
    assert [dict(item) for item in found.options["post_edit"]] == [{"path": "*.py", "cmd": 'fmt "${file}"'}]
    assert warnings(with_toolsets("{type: filesystem, post_edit: [{path: a, cmd: 'b ${file}'}]}")) == []


@pytest.mark.parametrize(
    ("written", "kept"), [("true", True), ("false", False), ("[shell]", ("shell",)), ("[]", ())], ids=str
)
def test_a_toolset_may_defer_all_of_its_tools_or_some(written: str, kept: object) -> None:
    (found,) = toolsets(f"{{type: shell, defer: {written}}}")
    assert found.defer == kept


@pytest.mark.parametrize("written", ["3", "maybe", "[1]", "['']", "{a: b}"])
def test_what_cannot_be_deferred_is_an_error(written: str) -> None:
    found = error(with_toolsets(f"{{type: shell, defer: {written}}}"))
    assert (found.line, found.key.startswith("agents.root.toolsets[0].defer")) == (5, True)


def test_a_script_is_kept_as_written_but_for_its_environment() -> None:
    (found,) = toolsets("{type: script, shell: {go: {cmd: 'x ${a}', args: {a: {type: string}}, required: []}}}")
    assert {name: dict(script) for name, script in found.options["shell"].items()} == {
        "go": {
            "cmd": "x ${a}",
            "description": "",
            "args": {"a": {"type": "string"}},
            "required": (),
            "env": {},
            "working_dir": None,
        }
    }


@pytest.mark.parametrize("type_", sorted(KNOWN_NOT_BUILT["toolset types"]))
def test_a_type_that_is_not_built_is_left_out_with_one_warning(type_: str) -> None:
    text = with_toolsets("{type: shell}", f"{{type: {type_}, name: x, command: y, defer: true}}")
    assert [(line, key) for line, key, _ in warnings(text)] == [(6, "agents.root.toolsets[1]")]
    assert [toolset.type for toolset in read(text).default_agent.toolsets] == ["shell"]


@pytest.mark.parametrize("type_", sorted(TOOLSET_OPTIONS.keys() - {"mcp"}))
@pytest.mark.parametrize("key", sorted(KNOWN_NOT_BUILT["toolsets.*"]))
def test_a_common_key_that_is_not_built_gives_one_warning(type_: str, key: str) -> None:
    needed = NEEDED.get(type_, "")
    # A toolset of agents is warned about for another reason where its agent has none.
    found = [
        each for each in warnings(with_toolsets(f"{{type: {type_}, {key}: x{needed}}}")) if "toolsets" in each[1]
    ]
    assert [(line, name) for line, name, _ in found] == [(5, f"agents.root.toolsets[0].{key}")]


@pytest.mark.parametrize(("type_", "key", "value"), [("shell", "sudo_askpass", "true")])
def test_a_key_of_one_type_that_is_not_built_gives_one_warning_there_and_is_unknown_elsewhere(
    type_: str, key: str, value: str
) -> None:
    assert [name for _, name, _ in warnings(with_toolsets(f"{{type: {type_}, {key}: {value}}}"))] == [
        f"agents.root.toolsets[0].{key}"
    ]
    assert "unknown key" in error(with_toolsets(f"{{type: think, {key}: {value}}}")).message


def test_the_types_of_the_format_are_all_known() -> None:
    assert len(TOOLSET_TYPES) == len(set(TOOLSET_TYPES)) == 27


@pytest.mark.parametrize(
    ("written", "key", "message"),
    [
        ("{type: filesytem}", ".type", 'unknown toolset type "filesytem"; did you mean "filesystem"?'),
        ("{type: zzz}", ".type", 'unknown toolset type "zzz"'),
        ("{tools: [x]}", ".type", f"a toolset needs a type: {', '.join(TOOLSET_OPTIONS)}"),
        ("{type: }", ".type", f"a toolset needs a type: {', '.join(TOOLSET_OPTIONS)}"),
        ("{type: [x]}", ".type", "expected text, got a list"),
        ("{type: shell, allow_list: [x]}", ".allow_list", NEWER),
        ("{type: think, shard: true}", ".shard", NEWER),
        ("{type: todo, shared: maybe}", ".shared", 'expected true or false, got "maybe"'),
        ("{type: filesystem, allow_list: x}", ".allow_list", 'expected a list, got "x"'),
        ("{type: filesystem, allow_list: ['']}", ".allow_list[0]", "expected text that is not empty"),
        ("{type: filesystem, post_edit: [{path: a}]}", ".post_edit[0].cmd", "is missing"),
        ("{type: filesystem, post_edit: [{path: a, cmd: b, c: d}]}", ".post_edit[0].c", NEWER),
        ("{type: filesystem, post_edit: fmt}", ".post_edit", 'expected a list, got "fmt"'),
        ("{type: shell, env: [A=1]}", ".env", "expected a mapping, got a list"),
        ("{type: shell, env: {A: 1}}", ".env.A", "expected text, got the number 1; put it in quotes"),
        ("{type: shell, tools: [1]}", ".tools[0]", "expected text, got the number 1; put it in quotes"),
        ("{type: mcp, comand: x}", ".comand", 'unknown key; did you mean "command"?'),
        ("{type: api}", ".api_config", "is missing"),
        ("{type: api, api_config: {name: n}}", ".api_config.endpoint", "is missing"),
        ("{type: memory}", ".path", "is missing"),
        ("{type: openapi}", ".url", "is missing"),
        ("{type: openapi, url: '${NOPE}/openapi.json'}", ".url", "the variable NOPE is not set"),
        ("{type: script}", ".shell", "is missing"),
        ("{type: script, shell: {}}", ".shell", "is missing"),
        ("{type: script, shell: {a: {}}}", ".shell.a.cmd", "is missing"),
        ("{type: script, shell: {a: {cmd: b, arg: {}}}}", ".shell.a.arg", 'unknown key; did you mean "args"?'),
        (
            "{type: script, shell: {a: {cmd: b, args: {c: text}}}}",
            ".shell.a.args.c",
            'expected a mapping, got "text"',
        ),
        ("{type: filesystem, deny_list: ['${env.NOPE}']}", ".deny_list[0]", "the variable NOPE is not set"),
    ],
)
def test_what_is_wrong_with_a_toolset_is_named(written: str, key: str, message: str) -> None:
    found = error(with_toolsets("{type: think}", written))
    assert (found.line, found.key, found.message) == (6, f"agents.root.toolsets[1]{key}", message)


@pytest.mark.requirement("config-file.toolsets.shared-maps")
def test_named_toolsets_come_after_the_inline_ones_and_may_be_lists() -> None:
    file = read(
        """
        agents:
          root: {model: auto, toolsets: [{type: think}], use_toolsets: [both, one]}
        toolsets:
          one: {type: todo}
          both: [{type: shell}, {type: lsp}, {type: filesystem}]
        """
    )
    assert [toolset.type for toolset in file.default_agent.toolsets] == ["think", "shell", "filesystem", "todo"]
    assert [warning.key for warning in file.warnings] == ["toolsets.both[1]"]
    assert set(file.toolsets) == {"one", "both"}


@pytest.mark.requirement("config-file.toolsets.shared-maps")
def test_a_named_toolset_that_does_not_exist_is_an_error() -> None:
    found = error(MINIMAL + "    use_toolsets:\n      - files\n      - fils\ntoolsets: {files: {type: filesystem}}\n")
    assert str(found) == 'agent.yaml:6: agents.root.use_toolsets[1]: unknown toolset "fils"; did you mean "files"?'
