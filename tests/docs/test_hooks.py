"""docs/hooks.md names what is built, and its example runs."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

from sluice.cli.parsers import HOOK_FLAGS
from sluice.config.hook_directory import HOOK_DIRECTORY
from sluice.config.hook_events import FAIL_CLOSED, HOOK_EVENTS, HOOK_SECONDS
from sluice.config.hooks import GROUP_SHAPE, HOOK_SHAPE
from sluice.config.user_settings import SETTINGS_FILE
from tests.support.model_server import call, calls, text
from tests.support.setup import on_stage

TEXT = (Path(__file__).parents[2] / "docs" / "hooks.md").read_text(encoding="utf-8")


def section(heading: str) -> str:
    return TEXT.split(f"{heading}\n", 1)[1].split("\n## ", 1)[0]


def first_cells(heading: str) -> set[str]:
    cells = re.findall(r"^\| (`[^|]+) \|", section(heading), re.MULTILINE)
    return {name for cell in cells for name in re.findall(r"`([^`]+)`", cell)}


def test_every_key_and_every_event_is_in_its_table() -> None:
    assert first_cells("## The keys") == {*GROUP_SHAPE, *HOOK_SHAPE}
    assert first_cells("## The events") == set(HOOK_EVENTS)
    assert all(f"`{event}`" in section("## The events").split("**denies**")[0] for event in FAIL_CLOSED)
    sources = section("## Where hooks come from")
    assert all(f"`--hook-{event.replace('_', '-')}`" in sources for event in HOOK_FLAGS)
    assert f"`{HOOK_DIRECTORY}/*.yaml`" in sources and f"`{SETTINGS_FILE}`" in sources
    assert f"; `{HOOK_SECONDS:g}` |" in section("## The keys")


@pytest.mark.anyio
async def test_the_example_does_what_the_page_says(tmp_path: Path) -> None:
    (example,) = re.findall(r"```yaml\n(.*?)```", TEXT, re.DOTALL)
    (body,) = re.findall(r"```sh\n(.*?)```", TEXT, re.DOTALL)
    agent = yaml.safe_load(example)["agents"]["root"]
    del agent["model"]
    batch = calls(call("shell", cmd="git push --force"), call("shell", cmd="echo pushed"))
    agent["safety"] = "autonomous"
    async with on_stage(tmp_path, batch, text("end"), agent=agent) as stage:
        hook = stage.cwd / "hooks" / "no-force.sh"
        hook.parent.mkdir()
        hook.write_text(body, encoding="utf-8")
        hook.chmod(0o700)
        await stage.client.prompt(stage.session, "go")
        results = [m["content"] for m in stage.model.requests[1].messages if m["role"] == "tool"]
        said = re.search(r"\*(A hook denied this\s+call: [^*]+)\*", TEXT)
        assert said is not None and results == [" ".join(said[1].split()), "pushed\n"]
        assert stage.client.requests("session/request_permission") == []
