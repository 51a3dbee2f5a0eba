"""The 32 combinations of what a client offers: files to read, files to write, a terminal, two kinds of elicitation.

What the agent offers is the same in all of them; what its model is offered follows the client, and finding that out
asks the client nothing.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from sluice.agent.ports import FormQuestion, ToolContext, UrlQuestion
from tests.support.editor import Editor
from tests.support.model_server import call, calls, text
from tests.support.setup import on_stage
from tests.support.terminals import Terminals

pytestmark = pytest.mark.anyio

Json = dict[str, Any]

ELICITATION: dict[str, Json] = {"none": {}, "form": {"form": {}}, "url": {"url": {}}, "both": {"form": {}, "url": {}}}

CELLS = [
    pytest.param(read, write, terminal, kind, id=f"read={read}-write={write}-terminal={terminal}-elicitation={kind}")
    for read in (False, True)
    for write in (False, True)
    for terminal in (False, True)
    for kind in ELICITATION
]

HOST = {"list_directory", "directory_tree", "search_files_content", "create_directory", "remove_directory"}

NAME: Json = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}

GATED = ("fs/", "terminal/", "elicitation/")


def client_capabilities(read: bool, write: bool, terminal: bool, kind: str) -> Json:
    return {
        "fs": {"readTextFile": read, "writeTextFile": write},
        "terminal": terminal,
        "elicitation": ELICITATION[kind],
    }


def expected_file_tools(read: bool, write: bool) -> set[str]:
    return (
        ({"read_file", "read_multiple_files"} if read else set())
        | ({"write_file"} if write else set())
        | ({"edit_file"} if read and write else set())
    )


def gated(log: list[Json]) -> list[Json]:
    return [message for message in log if message.get("method", "").startswith(GATED)]


def offered(request: Any) -> dict[str, Json]:
    """The tools of a model request, by name."""
    return {tool["function"]["name"]: tool["function"] for tool in request.body["tools"]}


@pytest.fixture(scope="module")
def first_answer() -> dict[str, str]:
    """The `initialize` result of the first cell as JSON text, which every other cell must repeat."""
    return {}


@pytest.mark.requirement(
    "capability-matrix.agent.fixed-in-all-cells",
    "capability-matrix.client.file-tools",
    "capability-matrix.client.shell-tool",
    "capability-matrix.client.discovery-quiet",
    "capability-matrix.tests.wire-and-behaviour",
    "client-fs.gate.table",
)
@pytest.mark.parametrize(("read", "write", "terminal", "kind"), CELLS)
async def test_in_every_cell_the_agent_is_the_same_and_its_tools_follow_the_client(
    tmp_path: Path, first_answer: dict[str, str], read: bool, write: bool, terminal: bool, kind: str
) -> None:
    capabilities = client_capabilities(read, write, terminal, kind)
    async with on_stage(tmp_path, text("hello"), **capabilities) as stage:
        initialized = json.dumps(stage.client.log[0]["result"])
        assert first_answer.setdefault("result", initialized) == initialized
        assert gated(stage.client.log) == []
        await stage.client.prompt(stage.session, "hi")
        tools = offered(stage.model.requests[0])
        files = {name for name in tools if name.endswith(("_file", "_files"))}
        assert files == expected_file_tools(read, write)
        assert set(tools) >= HOST | {"shell"}
        assert gated(stage.client.log) == []


TOOLSETS = [{"type": name} for name in ("filesystem", "shell", "environment", "user_prompt")]


def expected_methods(read: bool, write: bool, terminal: bool, kind: str) -> set[str]:
    """What the client is asked when the model tries everything."""
    return (
        ({"fs/read_text_file"} if read else set())
        | ({"fs/write_text_file"} if write else set())
        | ({f"terminal/{name}" for name in ("create", "wait_for_exit", "output", "release")} if terminal else set())
        | ({"elicitation/create"} if kind != "none" else set())
    )


@pytest.mark.requirement(
    "capability-matrix.client.no-ungated-call",
    "capability-matrix.client.shell-tool",
    "capability-matrix.client.file-tools",
    "capability-matrix.tests.wire-and-behaviour",
)
@pytest.mark.parametrize(("read", "write", "terminal", "kind"), CELLS)
async def test_in_every_cell_a_model_that_tries_everything_reaches_the_client_only_where_it_offers_something(
    tmp_path: Path, read: bool, write: bool, terminal: bool, kind: str
) -> None:
    batch = calls(
        call("read_file", path="a"),
        call("read_multiple_files", paths=["a"]),
        call("write_file", path="b", content="x"),
        call("edit_file", path="a", edits=[{"oldText": "o", "newText": "n"}]),
        call("shell", cmd="echo host"),
        call("get_environment_info"),
        call("user_prompt", message="Who?", schema=NAME),
    )
    agent = {"safety": "autonomous", "toolsets": TOOLSETS}
    capabilities = client_capabilities(read, write, terminal, kind)
    async with on_stage(tmp_path, batch, text("done"), agent=agent, **capabilities) as stage:
        (stage.cwd / "a").write_text("on disk")
        editor = Editor(stage.client, {str(stage.cwd / "a"): "o in the editor"})
        Terminals(stage.client, {"exitCode": 0})
        accepted = {"action": "accept", "content": {"name": "Ada"}}
        stage.client.responders["elicitation/create"] = lambda request: {
            "result": accepted if request["params"]["mode"] == "form" else {"action": "accept"}
        }
        assert (await stage.client.prompt(stage.session, "go"))["result"] == {"stopReason": "end_turn"}
        live = stage.server.connection.entries[stage.session].live
        assert live is not None
        form = await live.elicitation.elicit(FormQuestion("Who?", NAME), ToolContext(stage.session, "c", "/"))
        page = await live.elicitation.elicit(
            UrlQuestion("Look", "https://example.org/"), ToolContext(stage.session, "c", "/")
        )

        assert {message["method"] for message in gated(stage.client.log)} == expected_methods(
            read, write, terminal, kind
        )
        modes = {m["params"]["mode"] for m in stage.client.requests("elicitation/")}
        assert modes == set(ELICITATION[kind])
        assert (form.action, page.action) == tuple(
            "accept" if mode in ELICITATION[kind] else "decline" for mode in ("form", "url")
        )
        tools = offered(stage.model.requests[0])
        assert {name for name in tools if name.endswith(("_file", "_files"))} == expected_file_tools(read, write)
        assert set(tools) - expected_file_tools(read, write) == HOST | {
            "shell",
            "get_environment_info",
            "user_prompt",
        }
        assert ("in the client's terminal" in tools["shell"]["description"]) is terminal

        one, many, wrote, edited, ran, _, asked = [
            m["content"] for m in stage.model.requests[1].messages if m["role"] == "tool"
        ]
        assert ["There is no tool named" in result for result in (one, many, wrote, edited)] == [
            not read,
            not read,
            not write,
            not (read and write),
        ]
        assert ran == ("out\n" if terminal else "host\n")
        assert json.loads(asked)["action"] == ("accept" if "form" in ELICITATION[kind] else "decline")
        # The host's files are never touched instead, whatever the cell.
        assert (stage.cwd / "a").read_text() == "on disk" and not (stage.cwd / "b").exists()
        assert editor.texts[str(stage.cwd / "a")].startswith("n" if read and write else "o")
        assert (str(stage.cwd / "b") in editor.texts) is write


@pytest.mark.requirement("capability-matrix.client.no-ungated-call", "client-fs.gate.hidden-call")
@pytest.mark.parametrize("capabilities", [{}, {"fs": None}, {"fs": {}, "elicitation": {}}, {"fs": "yes"}], ids=str)
async def test_a_client_that_offers_nothing_is_asked_for_nothing(tmp_path: Path, capabilities: Json) -> None:
    batch = calls(
        call("read_file", path="a"),
        call("read_multiple_files", paths=["a"]),
        call("write_file", path="a", content="x"),
        call("edit_file", path="a", edits=[{"oldText": "o", "newText": "n"}]),
        call("shell", cmd="echo hi"),
    )
    async with on_stage(tmp_path, batch, text("done"), agent={"safety": "autonomous"}, **capabilities) as stage:
        (stage.cwd / "a").write_text("on disk")
        assert (await stage.client.prompt(stage.session, "go"))["result"] == {"stopReason": "end_turn"}
        assert gated(stage.client.log) == []
        results = [m["content"] for m in stage.model.requests[1].messages if m["role"] == "tool"]
        assert all("There is no tool named" in result for result in results[:4])
        assert results[4] == "hi\n"
        assert (stage.cwd / "a").read_text() == "on disk"
