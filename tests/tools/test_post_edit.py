"""Commands after a write."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from sluice.agent.ports import ToolFailure
from sluice.tools import build, post_edit
from tests.tools.support import Config, call, make, setup
from tests.tools.test_filesystem import EditorFiles, edit

pytestmark = pytest.mark.anyio


def with_commands(cwd: Path, *commands: tuple[str, str]) -> Any:
    return make("filesystem", cwd, post_edit=[{"path": path, "cmd": cmd} for path, cmd in commands])


@pytest.mark.requirement("fs-policy.post-edit.local-cwd", "fs-policy.post-edit.checked-target")
async def test_a_command_runs_in_the_session_directory_with_the_checked_target(tmp_path: Path) -> None:
    work = tmp_path / "work"
    work.mkdir()
    (work / "real name.py").write_text("")
    (work / "link.py").symlink_to("real name.py")
    toolset = with_commands(work, ("*.py", 'printf %s "${file}" > target; pwd > where'), ("*.md", "echo no > md"))
    await call(toolset, work, "write_file", path="link.py", content="x")
    assert (work / "target").read_text() == str(work / "real name.py")
    assert (work / "where").read_text() == f"{work}\n"
    assert not (work / "md").exists()


@pytest.mark.requirement("tool-locations-diffs.diff.omitted-cases")
async def test_an_edit_followed_by_commands_has_no_diff(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("one")
    result = await edit(
        tmp_path, "a", ("one", "two"), toolset=with_commands(tmp_path, ("*", 'echo more >> "${file}"'))
    )
    assert (tmp_path / "a").read_text() == "twomore\n"
    assert result.diff is None
    assert not result.is_error


@pytest.mark.requirement("fs-policy.post-edit.failure")
async def test_a_failing_command_is_told_and_the_write_stays(tmp_path: Path) -> None:
    toolset = with_commands(tmp_path, ("*", "echo broken; exit 2"), ("*", "echo ran > second"))
    result = await call(toolset, tmp_path, "write_file", path="a", content="x")
    assert result.is_error
    assert "was written" in result.text
    assert "ended with 2: broken" in result.text
    assert (tmp_path / "a").read_text() == "x"
    assert not (tmp_path / "second").exists()


async def test_a_command_that_takes_too_long_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(post_edit, "POST_EDIT_SECONDS", 0.2)
    result = await call(with_commands(tmp_path, ("*", "sleep 300")), tmp_path, "write_file", path="a", content="x")
    assert "timed out" in result.text


@pytest.mark.requirement("fs-policy.post-edit.after-success-only", "fs-policy.post-edit.no-mirroring")
async def test_after_a_client_write_the_command_runs_and_the_disk_is_left_alone(tmp_path: Path) -> None:
    class Refusing(EditorFiles):
        async def write_text_file(self, path: str, content: str) -> None:
            if "no" in Path(path).name:
                raise ToolFailure("refused")
            await super().write_text_file(path, content)

    options = {"post_edit": [{"path": "*", "cmd": "echo ran >> log; test -e a && echo mirrored >> log; true"}]}
    toolset = build(Config("filesystem", options=options), setup=setup(tmp_path, Refusing()))
    with pytest.raises(ToolFailure, match="refused"):
        await call(toolset, tmp_path, "write_file", path="no", content="x")
    assert not (tmp_path / "log").exists()
    await call(toolset, tmp_path, "write_file", path="a", content="x")
    assert (tmp_path / "log").read_text() == "ran\n"


@pytest.mark.parametrize("value", ["x", [3], [{"path": "*"}], [{"path": "", "cmd": "x"}]])
def test_a_setting_that_cannot_be_read_is_a_failure(tmp_path: Path, value: object) -> None:
    with pytest.raises(ToolFailure, match="post_edit"):
        make("filesystem", tmp_path, post_edit=value)
