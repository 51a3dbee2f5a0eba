"""Scripts as tools, run by a real shell."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from sluice.agent.ports import ToolFailure, Toolset
from sluice.tools import build
from tests.tools.support import Config, call, make, setup

pytestmark = pytest.mark.anyio

HOSTILE = [
    "; touch pwned",
    "$(touch pwned)",
    "`touch pwned`",
    "\ntouch pwned\n",
    "' ; touch pwned '",
    '" ; touch pwned "',
    "| touch pwned",
    "&& touch pwned",
    "> pwned",
    "${x:-$(touch pwned)}",
    "\\",
    "*",
    "\u00a0touch\u2003pwned",
]


def scripts(cwd: Path, **entries: dict[str, Any]) -> Toolset:
    return make("script", cwd, shell=entries)


@pytest.mark.requirement("tools.script.entries")
@pytest.mark.parametrize("said", HOSTILE, ids=ascii)
async def test_an_argument_is_data_whatever_it_holds(tmp_path: Path, said: str) -> None:
    toolset = scripts(tmp_path, greet={"cmd": 'printf "%s" "<$who>"', "args": {"who": {"type": "string"}}})
    assert (await call(toolset, tmp_path, "greet", who=said)).text == f"<{said}>"
    assert list(tmp_path.iterdir()) == []


@pytest.mark.requirement("tools.script.entries")
async def test_even_without_quotes_an_argument_is_words_and_never_a_command(tmp_path: Path) -> None:
    toolset = scripts(tmp_path, greet={"cmd": "echo $who", "args": {"who": {}}})
    assert (await call(toolset, tmp_path, "greet", who="$(touch pwned); `touch pwned` > pwned")).text == (
        "$(touch pwned); `touch pwned` > pwned\n"
    )
    assert list(tmp_path.iterdir()) == []


@pytest.mark.requirement("tools.script.entries")
async def test_each_entry_is_a_tool_whose_arguments_are_all_needed_unless_it_says_otherwise(tmp_path: Path) -> None:
    kinds = {"a": {"type": "string", "description": "first"}, "n": {"type": "integer"}}
    toolset = scripts(
        tmp_path,
        all={"cmd": "true", "args": kinds, "description": "Does it."},
        some={"cmd": "echo ${a-none} ${n-none}", "args": kinds, "required": ("a",)},
        none={"cmd": "true", "args": kinds, "required": ()},
    )
    every, some, none = (tool.spec for tool in toolset.tools())
    assert (every.name, every.description) == ("all", "Does it.")
    assert every.parameters == {"type": "object", "properties": kinds, "required": ["a", "n"]}
    assert (some.parameters["required"], none.parameters["required"]) == (["a"], [])
    assert not any(tool.read_only for tool in toolset.tools())
    assert (await call(toolset, tmp_path, "some", a="x")).text == "x none\n"
    assert (await call(toolset, tmp_path, "some", a="x", n=3)).text == "x 3\n"


async def test_the_entrys_own_variables_and_directory_hold_and_an_argument_is_never_inherited(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    entry = {
        "cmd": 'echo "$PWD $mode ${level-unset}"; exit 3',
        "args": {"level": {}},
        "required": (),
        "env": {"mode": "fast"},
        "working_dir": "sub",
    }
    made = setup(tmp_path)
    made.env["level"] = "inherited"  # type: ignore[index]  # a dict here, so that the test can add to it
    toolset = build(Config("script", options={"shell": {"go": entry}}), setup=made)
    result = await call(toolset, tmp_path, "go")
    assert result.is_error and result.text == f"The command failed with exit code 3.\n{tmp_path}/sub fast unset\n"


@pytest.mark.parametrize("argument", ["PATH", "IFS", "LD_PRELOAD", "a-b", "1a", "a b", "", "mode", "ENV", "BASH_ENV"])
def test_an_argument_that_would_change_how_the_command_runs_is_refused(tmp_path: Path, argument: str) -> None:
    with pytest.raises(ToolFailure, match="no name for an argument"):
        scripts(tmp_path, go={"cmd": "true", "args": {argument: {}}, "env": {"mode": "fast"}})


@pytest.mark.parametrize(
    "entries",
    [{"a b": {"cmd": "true"}}, {"x" * 65: {"cmd": "true"}}, {"a": {"cmd": "true", "required": ("b",)}}],
    ids=str,
)
def test_a_tool_that_cannot_be_offered_is_refused(tmp_path: Path, entries: dict[str, dict[str, Any]]) -> None:
    with pytest.raises(ToolFailure):
        scripts(tmp_path, **entries)


@pytest.mark.parametrize("value", ["a\0b", "x" * 100_001, "\ud800"], ids=["nul", "long", "surrogate"])
async def test_a_value_that_is_no_variable_is_told(tmp_path: Path, value: str) -> None:
    with pytest.raises(ToolFailure, match="argument 'a'"):
        await call(scripts(tmp_path, go={"cmd": "true", "args": {"a": {}}}), tmp_path, "go", a=value)
