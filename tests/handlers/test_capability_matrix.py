"""The 32 combinations of what a client offers: files to read, files to write, a terminal, two kinds of elicitation.

What the agent offers is the same in all of them; what its model is offered follows the client, and finding that out
asks the client nothing.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.support.model_server import call, calls, text
from tests.support.setup import on_stage

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
