"""The git tools on a real repository."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from sluice.agent.ports import ToolFailure
from tests.tools.support import call, make

pytestmark = pytest.mark.anyio


def git(cwd: Path, *words: str) -> None:
    who = {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull}
    named = ("-c", "user.name=Ada", "-c", "user.email=ada@example.org", "-c", "init.defaultBranch=main")
    subprocess.run(["git", *named, *words], cwd=cwd, check=True, capture_output=True, env={**os.environ, **who})


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    git(tmp_path, "init")
    (tmp_path / "a.txt").write_text("".join(f"line {n}\n" for n in range(500)))
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-m", "the first")
    (tmp_path / "b.txt").write_text("b\n")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-m", "the second")
    git(tmp_path, "branch", "side")
    return tmp_path


@pytest.mark.requirement("tools.git.read-only-set")
async def test_the_five_tools_read_the_repository_of_the_sessions_directory(repository: Path) -> None:
    toolset = make("git", repository)
    assert [tool.name for tool in toolset.tools()] == [
        "git_status",
        "git_log",
        "git_branches",
        "git_show",
        "git_blame",
    ]
    assert all(tool.read_only for tool in toolset.tools())
    (repository / "new").write_text("")
    before = (repository / ".git" / "index").stat().st_mtime_ns
    assert (await call(toolset, repository, "git_status")).text == "## main\n?? new\n"
    log = (await call(toolset, repository, "git_log")).text.splitlines()
    assert [line.partition("Ada: ")[2] for line in log] == ["the second", "the first"]
    assert len((await call(toolset, repository, "git_log", limit=1)).text.splitlines()) == 1
    assert "the first" not in (await call(toolset, repository, "git_log", path="b.txt")).text
    assert {"main", "side"} <= set((await call(toolset, repository, "git_branches")).text.split())
    assert "+b" in (await call(toolset, repository, "git_show")).text
    assert "a.txt" in (await call(toolset, repository, "git_show", ref="HEAD~1")).text
    blame = (await call(toolset, repository, "git_blame", path="a.txt", rev="side")).text.splitlines()
    assert "Ada" in blame[0] and blame[-1] == "[100 more lines]" and len(blame) == 401
    assert (repository / ".git" / "index").stat().st_mtime_ns == before


@pytest.mark.requirement("tools.git.read-only-set")
@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("git_show", {"ref": "--output=made"}),
        ("git_blame", {"path": "a.txt", "rev": "--contents=/etc/passwd"}),
        ("git_blame", {"path": ""}),
        ("git_show", {"ref": "no-such-thing"}),
        ("git_show", {"ref": 3}),
    ],
)
async def test_what_is_no_name_fails_and_options_are_never_passed_on(
    repository: Path, name: str, arguments: dict[str, object]
) -> None:
    with pytest.raises(ToolFailure):
        await call(make("git", repository), repository, name, **arguments)
    assert not (repository / "made").exists()


async def test_no_program_of_the_repositorys_configuration_is_started(repository: Path) -> None:
    (repository / ".gitattributes").write_text("* diff=evil\n")
    git(repository, "config", "core.fsmonitor", "touch started; false")
    git(repository, "config", "diff.evil.textconv", "touch started; cat")
    git(repository, "config", "diff.evil.command", "touch started; true")
    toolset = make("git", repository)
    await call(toolset, repository, "git_status")
    await call(toolset, repository, "git_show")
    await call(toolset, repository, "git_blame", path="b.txt")
    assert not (repository / "started").exists()
