"""Links in a prompt: files come from the client, everything else is only named."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from sluice.handlers.resource_links import file_path
from tests.support.editor import FS, Editor
from tests.support.model_server import call, calls, text
from tests.support.setup import Stage, on_stage

Json = dict[str, Any]


def link(uri: str, name: str = "shown name", **more: Any) -> Json:
    return {"type": "resource_link", "uri": uri, "name": name, **more}


async def said(stage: Stage, *blocks: Json) -> str:
    """Prompt with these blocks; what the model got as the user's message."""
    response = await stage.client.call("session/prompt", sessionId=stage.session, prompt=list(blocks))
    assert response["result"] == {"stopReason": "end_turn"}
    content = stage.model.requests[-1].messages[-1]["content"]
    assert isinstance(content, str)
    return content


@pytest.mark.requirement("resource-links.file.decoded-once", "resource-links.other.never-fetched")
@pytest.mark.parametrize(
    ("uri", "path"),
    [
        ("file:///a/b%20c", "/a/b c"),
        ("file:///a/b%2520c", "/a/b%20c"),
        ("FILE://localhost/a", "/a"),
        ("file:///a#L10:20", "/a"),
        ("file:/a", "/a"),
        ("file://server/share/a", None),
        ("file:a", None),
        ("file:///a%00", None),
        ("file:///%ff", None),
        ("file://[", None),
        ("https://example.org/a", None),
        ("/a", None),
    ],
)
def test_a_file_uri_is_decoded_once_and_names_this_host(uri: str, path: str | None) -> None:
    assert file_path(uri) == path


@pytest.mark.anyio
@pytest.mark.requirement("resource-links.file.client-read-only", "resource-links.file.decoded-once")
async def test_a_linked_file_is_what_the_client_says_it_is(tmp_path: Path) -> None:
    async with on_stage(tmp_path, text("ok"), fs=FS) as stage:
        path = stage.cwd / "a%20b.py"
        path.write_text("on disk")
        editor = Editor(stage.client, {str(path): "unsaved"})
        told = await said(stage, link(f"file://{stage.cwd}/a%2520b.py", "a%20b.py", mimeType="text/x-python"))
        assert editor.asked == [("read", {"sessionId": stage.session, "path": str(path)})]
        assert told == "[document a%20b.py text/x-python]\nunsaved"


@pytest.mark.anyio
@pytest.mark.requirement(
    "resource-links.file.client-read-only", "resource-links.other.label-reaches-model", "attachments.limits.notice"
)
async def test_outside_of_the_roots_nothing_is_asked_and_a_failure_ends_no_turn(tmp_path: Path) -> None:
    async with on_stage(tmp_path, text("ok"), fs=FS) as stage:
        outside = tmp_path / "outside"
        outside.write_text("secret")
        (stage.cwd / "out").symlink_to(outside)
        editor = Editor(stage.client, {str(outside): "secret", str(stage.cwd / "huge"): "x" * ((5 << 20) + 1)})
        told = await said(
            stage,
            link(f"file://{outside}", str(outside)),
            link(f"file://{stage.cwd}/out", "a link"),
            link(f"file://{stage.cwd}/missing", "missing"),
            link(f"file://{stage.cwd}/huge", "huge"),
        )
        assert editor.paths() == [str(stage.cwd / "missing"), str(stage.cwd / "huge")]
        assert told == (
            "[Linked file, could not be read: outside][Linked file, could not be read: a link]"
            "[Linked file, could not be read: missing][Resource left out: huge: it is larger than 5 MiB]"
        )


@pytest.mark.anyio
@pytest.mark.requirement("resource-links.file.client-read-only", "resource-links.other.label-reaches-model")
async def test_without_reading_at_the_client_a_file_is_only_named(tmp_path: Path) -> None:
    async with on_stage(tmp_path, text("ok")) as stage:
        (stage.cwd / "a.txt").write_text("on disk")
        assert await said(stage, link(f"file://{stage.cwd}/a.txt", "a.txt")) == "[Linked resource, not read: a.txt]"
        assert stage.client.requests("fs/") == []


@pytest.mark.anyio
@pytest.mark.requirement("resource-links.other.never-fetched", "resource-links.other.label-reaches-model")
async def test_other_links_cause_no_traffic_and_are_named_without_their_address(tmp_path: Path) -> None:
    async with on_stage(tmp_path, text("ok"), fs=FS) as stage:
        calls = len(stage.model.requests)
        told = await said(
            stage,
            link(f"{stage.model.base_url}/page?token=abc", f"{stage.model.base_url}/page?token=abc"),
            link("file://server/share/notes.txt", " "),
            link("data:text/plain,payload", "\x07odd\nname"),
        )
        assert len(stage.model.requests) == calls + 1 and stage.client.requests("fs/") == []
        assert told == (
            "[Linked resource, not read: page][Linked resource, not read: notes.txt]"
            "[Linked resource, not read:  odd name]"
        )


@pytest.mark.anyio
@pytest.mark.requirement("fs-policy.links.separate")
async def test_a_link_is_judged_by_the_roots_and_not_by_what_binds_the_file_tools(tmp_path: Path) -> None:
    toolsets = [{"type": "filesystem", "deny_list": ["denied"], "allow_list": ["src"]}]
    look = calls(*(call("read_file", path=name) for name in ("denied", "ignored", "elsewhere")))
    agent = {"toolsets": toolsets, "safety": "autonomous"}
    async with on_stage(tmp_path, look, text("ok"), agent=agent, fs=FS) as stage:
        (stage.cwd / ".agentsignore").write_text("ignored\n")
        names = ("denied", "ignored", "elsewhere")
        editor = Editor(stage.client, {str(stage.cwd / name): f"<{name}>" for name in names})
        blocks = [link(f"file://{stage.cwd}/{name}", name) for name in names]
        response = await stage.client.call("session/prompt", sessionId=stage.session, prompt=blocks)
        assert response["result"] == {"stopReason": "end_turn"}
        user = stage.model.requests[0].messages[-1]["content"]
        assert all(f"<{name}>" in user for name in names)
        results = [m["content"] for m in stage.model.requests[1].messages if m["role"] == "tool"]
        assert all("may not be used" in result for result in results)
        assert editor.paths() == [str(stage.cwd / name) for name in names]
