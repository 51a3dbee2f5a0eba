"""The files a client may offer: below its roots only, by lines, with buffers before the disk."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import anyio
import pytest

from sluice.client.agent import connect
from sluice.client.connection import ClientHandlers, ClientOptions
from sluice.client.fake_agent import Script
from sluice.client.files import LocalFiles
from sluice.client.process import AgentCommand
from sluice.wire.errors import BackendError, InvalidParams, RefusedError, RpcError
from tests.client.support import BARRIER, QUICK

pytestmark = pytest.mark.anyio


async def read(files: LocalFiles, path: object, **more: Any) -> str:
    answer = await files.requests()["fs/read_text_file"]({"sessionId": "s", "path": path, **more})
    return str(answer["content"])


async def write(files: LocalFiles, path: object, content: object) -> Any:
    params = {"sessionId": "s", "path": path, "content": content}
    return await files.requests()["fs/write_text_file"](params)


@pytest.mark.requirement("acp-provider.client.optional-fs")
@pytest.mark.parametrize(
    ("more", "content"),
    [
        ({}, "a\r\nb\u2028b\nc"),
        ({"line": None, "limit": None}, "a\r\nb\u2028b\nc"),
        ({"line": 1}, "a\r\nb\u2028b\nc"),
        ({"line": 2}, "b\u2028b\nc"),
        ({"line": 2, "limit": 1}, "b\u2028b\n"),
        ({"limit": 1}, "a\r\n"),
        ({"limit": 0}, ""),
        ({"line": 4}, ""),
        ({"line": 400, "limit": 3}, ""),
        ({"line": 3, "limit": 400}, "c"),
    ],
    ids=str,
)
async def test_lines_are_counted_from_one_and_the_text_is_exact(
    tmp_path: Path, more: dict[str, Any], content: str
) -> None:
    (tmp_path / "a").write_bytes("a\r\nb\u2028b\nc".encode())
    assert await read(LocalFiles([tmp_path]), str(tmp_path / "a"), **more) == content


@pytest.mark.requirement("acp-provider.client.optional-fs")
async def test_a_missing_file_is_not_found_and_other_odd_ones_are_errors(tmp_path: Path) -> None:
    files = LocalFiles([tmp_path])
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "binary").write_bytes(b"\xff\xfe")
    (tmp_path / "huge").write_bytes(b"x" * (9 << 20))
    with pytest.raises(RpcError) as missing:
        await read(files, str(tmp_path / "none"))
    assert missing.value.code == -32002
    with anyio.fail_after(5):
        for name in (".", "pipe", "binary", "huge"):
            with pytest.raises(BackendError):
                await read(files, str(tmp_path / name))


@pytest.mark.requirement("acp-provider.client.optional-fs")
@pytest.mark.parametrize("path", ["a", "./a", "", None, 3, "/a\0b"])
async def test_a_path_that_is_not_absolute_is_refused(tmp_path: Path, path: object) -> None:
    with pytest.raises(InvalidParams):
        await read(LocalFiles([tmp_path]), path)
    with pytest.raises(InvalidParams):
        await write(LocalFiles([tmp_path]), path, "x")


@pytest.mark.parametrize(
    "more", [{"line": -1}, {"limit": -1}, {"line": "1"}, {"limit": True}, {"line": 1.5}], ids=str
)
async def test_line_and_limit_are_whole_numbers(tmp_path: Path, more: dict[str, Any]) -> None:
    (tmp_path / "a").write_text("a")
    with pytest.raises(InvalidParams):
        await read(LocalFiles([tmp_path]), str(tmp_path / "a"), **more)


@pytest.mark.requirement("acp-provider.client.optional-fs")
async def test_a_write_makes_the_file_and_its_directories_and_keeps_the_mode_of_an_old_one(tmp_path: Path) -> None:
    files = LocalFiles([tmp_path])
    assert await write(files, str(tmp_path / "new/dir/a"), "") == {}
    assert (tmp_path / "new/dir/a").read_bytes() == b""
    script = tmp_path / "run.sh"
    script.write_text("old")
    script.chmod(0o750)
    assert await write(files, str(script), "n\r\n\u00e9") == {}
    assert script.read_bytes() == "n\r\n\u00e9".encode()
    assert script.stat().st_mode & 0o777 == 0o750
    assert sorted(path.name for path in tmp_path.iterdir()) == ["new", "run.sh"]
    with pytest.raises(BackendError):
        await write(files, str(tmp_path / "new"), "x")
    with pytest.raises(InvalidParams):
        await write(files, str(script), None)


@pytest.mark.requirement("acp-provider.client.optional-fs")
async def test_nothing_outside_of_the_roots_is_read_or_written(tmp_path: Path) -> None:
    inside, outside = tmp_path / "in", tmp_path / "out"
    inside.mkdir()
    outside.mkdir()
    (outside / "secret").write_text("s")
    (inside / "link").symlink_to(outside)
    (inside / "dangling").symlink_to(outside / "new")
    files = LocalFiles([inside])
    for path in (outside / "secret", inside / "../out/secret", inside / "link/secret", tmp_path / "input"):
        with pytest.raises(RefusedError, match="outside"):
            await read(files, str(path))
    for path in (outside / "new", inside / "link/new", inside / "dangling"):
        with pytest.raises(RefusedError, match="outside"):
            await write(files, str(path), "x")
    assert [path.name for path in outside.iterdir()] == ["secret"]


@pytest.mark.requirement("acp-provider.client.optional-fs")
async def test_an_unsaved_buffer_is_read_and_written_in_place_of_the_file(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_text("saved")
    files = LocalFiles([tmp_path], {str(path): "unsaved"})
    assert await read(files, str(path)) == "unsaved"
    await write(files, str(path), "changed")
    assert files.buffers == {str(path): "changed"}
    assert path.read_text() == "saved"


@pytest.mark.requirement("acp-provider.client.optional-fs", "acp-provider.update.unhandled-request")
@pytest.mark.parametrize("opted_in", [True, False])
async def test_an_agent_gets_files_from_a_client_that_opted_in_and_method_not_found_from_any_other(
    tmp_path: Path, opted_in: bool
) -> None:
    (tmp_path / "a").write_text("A")
    params = {"sessionId": "s1", "path": str(tmp_path / "a")}
    ask = {"send": {"jsonrpc": "2.0", "id": "f", "method": "fs/read_text_file", "params": params}}
    turn: list[Mapping[str, Any]] = [ask, {"wait": {"response": "f"}}, {"result": {"stopReason": "end_turn"}}]
    script = Script(on={**BARRIER, "session/prompt": [turn]})
    files = LocalFiles([tmp_path])
    handlers = ClientHandlers(requests=files.requests() if opted_in else {})
    options = ClientOptions(capabilities={"fs": files.capabilities()}) if opted_in else None
    with anyio.fail_after(20):
        async with connect(AgentCommand(script.command(tmp_path), ladder=QUICK), handlers, options) as agent:
            await agent.initialize()
            session = await agent.new_session(tmp_path)
            await agent.prompt(session.id, "go")
    answer = next(line for line in script.received() if line.get("id") == "f")
    if opted_in:
        assert answer["result"] == {"content": "A"}
    else:
        assert answer["error"]["code"] == -32601
