"""Skills over the wire: listed from the project and the home directory, read, and run in sessions of their own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.support.model_server import call, calls, text
from tests.support.setup import Stage, on_stage

pytestmark = [pytest.mark.anyio, pytest.mark.requirement("tools.skills.discovery")]

Json = dict[str, Any]

END = {"stopReason": "end_turn"}


def skill(place: Path, name: str, body: str = "Do it well.", **head: str) -> Path:
    directory = place / name
    directory.mkdir(parents=True)
    lines = [f"{key}: {value}" for key, value in {"name": name, "description": f"About {name}.", **head}.items()]
    (directory / "SKILL.md").write_text("\n".join(["---", *lines, "---", "", body, ""]))
    return directory


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    return home


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """Where `on_stage` opens its session."""
    project = tmp_path / "project"
    project.mkdir()
    return project


def system(stage: Stage, request: int = 0) -> str:
    return str(stage.model.requests[request].messages[0]["content"])


def results(stage: Stage, request: int) -> list[str]:
    return [m["content"] for m in stage.model.requests[request].messages if m["role"] == "tool"]


async def test_skills_of_the_project_and_of_the_person_are_listed_and_read(
    tmp_path: Path, project: Path, home: Path
) -> None:
    for place, name in ((".claude/skills", "a"), (".github/skills", "b"), (".agents/skills", "c")):
        skill(project / place, name)
    for place, name in ((".codex/skills", "d"), (".claude/skills", "e"), (".agents/skills", "f")):
        skill(home / place, name)
    skill(home / ".claude/skills", "a", "The other one.")  # the project's own comes first
    batch = calls(call("read_skill", name="a"), call("read_skill", name="f"))
    async with on_stage(tmp_path, batch, text("done"), agent={"skills": True}) as stage:
        assert (await stage.client.prompt(stage.session, "go"))["result"] == END
        assert all(f"- {name}: About {name}." in system(stage) for name in "abcdef")
        first, second = results(stage, 1)
        assert first.startswith("Do it well.") and str(project / ".claude/skills/a") in first
        assert second.startswith("Do it well.")
        assert stage.client.requests("session/request_permission") == []


@pytest.mark.parametrize(("skills", "offered"), [(False, []), (["b", "gone"], ["b"]), (True, ["a", "b"]), ([], [])])
async def test_the_file_says_which_are_offered(
    tmp_path: Path, project: Path, home: Path, skills: Any, offered: list[str]
) -> None:
    for name in "ab":
        skill(project / ".agents/skills", name)
    async with on_stage(tmp_path, text("done"), agent={"skills": skills, "toolsets": []}) as stage:
        assert (await stage.client.prompt(stage.session, "go"))["result"] == END
        assert [name for name in "ab" if f"- {name}: " in system(stage)] == offered
        assert stage.model.requests[0].tools == (["read_skill", "read_skill_file"] if offered else [])


async def test_another_file_of_a_skill_is_read_and_nothing_outside_of_it(
    tmp_path: Path, project: Path, home: Path
) -> None:
    directory = skill(project / ".agents/skills", "a")
    (directory / "more").mkdir()
    (directory / "more" / "x.md").write_text("More.")
    (directory / "link").symlink_to(project / "secret")
    (project / "secret").write_text("s3cr3t")
    paths = ["more/x.md", "../../../secret", "link", str(project / "secret"), "more", "gone", "a\0b"]
    batch = calls(*(call("read_skill_file", skill_name="a", path=path) for path in paths))
    async with on_stage(tmp_path, batch, text("done"), agent={"skills": True}) as stage:
        assert (await stage.client.prompt(stage.session, "go"))["result"] == END
        first, *others = results(stage, 1)
        assert first == "More."
        assert len(others) == 6 and not any("s3cr3t" in said for said in others)
        assert "not in the directory of the skill" in others[0]


async def test_a_skill_that_asks_for_it_is_followed_in_a_session_of_its_own(
    tmp_path: Path, project: Path, home: Path
) -> None:
    skill(project / ".agents/skills", "plain")
    skill(project / ".agents/skills", "review", "Read every line.", context="fork")
    run = calls(call("run_skill", name="review", task="Look at a.py."))
    async with on_stage(tmp_path, run, text("It is fine."), text("Done."), agent={"skills": True}) as stage:
        assert (await stage.client.prompt(stage.session, "go"))["result"] == END
        (spec,) = [
            tool["function"]
            for tool in stage.model.requests[0].body["tools"]
            if tool["function"]["name"] == "run_skill"
        ]
        assert spec["parameters"]["properties"]["name"]["enum"] == ["review"]
        (asked,) = [m["content"] for m in stage.model.requests[1].messages if m["role"] == "user"]
        assert asked == "Read every line.\n\nThe task: Look at a.py."
        assert results(stage, 2) == ["It is fine."]
        store = await stage.server.connection.assembly.store()
        assert len(await store.descendants(stage.session)) == 1


async def test_a_skill_that_runs_itself_again_and_again_is_stopped_at_ten(
    tmp_path: Path, project: Path, home: Path
) -> None:
    skill(project / ".agents/skills", "review", context="fork")
    again = calls(call("run_skill", name="review", task="Again."))
    async with on_stage(tmp_path, *[again] * 11, *[text("up")] * 11, agent={"skills": True}) as stage:
        assert (await stage.client.prompt(stage.session, "go"))["result"] == END
        assert "at most 10 deep" in results(stage, 11)[0]


@pytest.mark.parametrize(
    "written",
    [
        b"",
        b"no head",
        b"---\nname: x\n---\n",
        b"---\n: [\n---\n",
        b"---\ndescription: 3\n---\n",
        b"\0",
        b"---\n- a\n---",
    ],
)
async def test_a_skill_that_says_nothing_of_itself_is_left_out(
    tmp_path: Path, project: Path, home: Path, written: bytes
) -> None:
    skill(project / ".agents/skills", "good")
    (project / ".agents/skills/bad").mkdir()
    (project / ".agents/skills/bad/SKILL.md").write_bytes(written)
    async with on_stage(tmp_path, text("done"), agent={"skills": True}) as stage:
        assert (await stage.client.prompt(stage.session, "go"))["result"] == END
        assert "- good: " in system(stage) and "- bad" not in system(stage)
