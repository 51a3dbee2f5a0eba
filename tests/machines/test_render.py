"""The pages of `diagrams/`: generated, committed, exact, and the same bytes everywhere."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import sluice
from sluice.machines import ALL, event_names, final_names, refusal, rows, state_names
from sluice.machines.mermaid import ANY_STATE, VIEWS, draw, views
from sluice.machines.render import check, render_all, write

DIAGRAMS = Path(sluice.__file__).parent.parent / "diagrams"
NAMES = ["connection", "deletion", "session", "turn", "tool", "terminal", "background", "mcp", "elicitation"]


@pytest.mark.requirement("machines.diagrams.generated")
def test_the_committed_pages_are_those_the_machines_render() -> None:
    assert check(DIAGRAMS) == []


def test_there_is_a_page_for_each_machine_one_for_admission_and_one_to_begin_with() -> None:
    assert list(render_all()) == ["README.md", "admission.md", *(f"{name}.md" for name in NAMES)]


@pytest.mark.requirement("machines.diagrams.deterministic")
def test_two_processes_with_different_hash_seeds_render_the_same_bytes() -> None:
    code = "import sys, sluice.machines.render as r; sys.stdout.buffer.write(repr(r.render_all()).encode())"
    outputs = [
        subprocess.run(
            [sys.executable, "-c", code], capture_output=True, check=True, env={**os.environ, "PYTHONHASHSEED": seed}
        ).stdout
        for seed in ("1", "4242")
    ]
    assert outputs[0] == outputs[1] == repr(render_all()).encode()


@pytest.mark.requirement("machines.diagrams.generated")
def test_check_names_stale_missing_and_foreign_files(tmp_path: Path) -> None:
    directory = tmp_path / "new" / "diagrams"
    assert check(directory) == sorted(render_all())
    write(directory)
    assert check(directory) == []
    (directory / "turn.md").write_text("drawn by hand")
    (directory / "session.md").unlink()
    (directory / "notes.txt").write_text("mine")
    assert check(directory) == ["notes.txt", "session.md", "turn.md"]
    write(directory)
    assert check(directory) == ["notes.txt"]
    assert (directory / "notes.txt").read_text() == "mine"


def test_a_page_is_unix_text_that_ends_with_one_newline() -> None:
    for name, text in render_all().items():
        assert text.startswith("# ") and text.endswith("\n") and not text.endswith("\n\n"), name
        assert "\r" not in text and "\t" not in text
        assert not [line for line in text.splitlines() if line != line.rstrip()], name


def _arrows(picture: str) -> list[tuple[str, str, str]]:
    """The arrows of a picture as (event, source, target), like rows."""
    found = []
    for line in picture.splitlines():
        ends, _, label = line.strip().partition(": ")
        if " --> " in ends:
            source, _, target = ends.partition(" --> ")
            found += [(event, source, target) for event in label.removesuffix(" (stays)").split(", ")]
    return found


@pytest.mark.requirement("machines.diagrams.arcs")
@pytest.mark.parametrize("name", NAMES)
def test_every_row_is_an_arrow_or_in_the_note_of_an_any_state_box(name: str) -> None:
    cls = ALL[name]
    pictures = [source for _, source in views(cls)]
    for row in rows(cls):
        if any(row in _arrows(source) for source in pictures):
            continue
        assert (name, row.event) in ANY_STATE, row
        boxed = [source for source in pictures if f"any_{row.event} --> {row.target}: {row.event}" in source]
        assert boxed, row
        note = next(line for line in boxed[0].splitlines() if f"note left of any_{row.event}: " in line)
        assert row.source in note.partition(": ")[2].split(", "), row


@pytest.mark.parametrize("name", NAMES)
def test_a_picture_draws_nothing_that_is_not_declared(name: str) -> None:
    cls = ALL[name]
    declared = set(rows(cls))
    for _, picture in views(cls):
        for event, source, target in _arrows(picture):
            if source == "[*]":
                assert target == state_names(cls)[0]
            elif target == "[*]":
                assert source in final_names(cls)
            else:
                assert source.startswith("any_") or (event, source, target) in declared


@pytest.mark.requirement("machines.diagrams.arcs")
def test_the_turn_is_drawn_twice_and_every_other_machine_once() -> None:
    assert [len(views(ALL[name])) for name in NAMES] == [1, 1, 1, 2, 1, 1, 1, 1, 1]
    page = render_all()["turn.md"]
    assert "## The path of prompts" in page and "## Reservations and closing" in page
    assert page.count("```mermaid") == 2


def test_a_state_that_no_part_of_a_picture_shows_stops_the_rendering(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(VIEWS, "turn", (("Half", ("idle", "busy")),))
    with pytest.raises(ValueError, match="no picture of turn shows"):
        views(ALL["turn"])


def test_nine_end_of_input_arrows_are_one() -> None:
    picture = draw(ALL["connection"], state_names(ALL["connection"]))
    assert picture.count(": end_of_input") == 1
    assert "note left of any_end_of_input: opened, initializing, ready" in picture


@pytest.mark.requirement("machines.diagrams.arcs")
@pytest.mark.parametrize("name", NAMES)
def test_every_event_and_every_refused_pair_is_listed_under_the_picture(name: str) -> None:
    cls = ALL[name]
    page = render_all()[f"{name}.md"]
    rows_part, _, rest = page.partition("## Rows")[2].partition("## Refusals")
    listed = {
        (event, state): line[1].split(" ")[0]
        for line in (text.strip("| ").split(" | ") for text in rest.partition("## ")[0].splitlines() if "|" in text)
        if len(line) == 3
        for event in line[0].split(", ")
        for state in line[2].split(", ")
    }
    declared = {(row.source, row.event) for row in rows(cls)}
    for event in event_names(cls):
        assert f"| {event} |" in rows_part
        for state in state_names(cls):
            if (state, event) not in declared:
                assert listed[event, state] == refusal(name, state, event).reason


@pytest.mark.requirement("machines.diagrams.arcs")
def test_the_prose_explains_busy_draining_and_closed_and_links_every_page() -> None:
    readme = render_all()["README.md"]
    for heading in ("## Busy", "## Draining", "## Closed"):
        assert heading in readme
    for word in ("*queued*", "*blocked*"):
        assert word in readme
    for name in ["admission", *NAMES]:
        assert f"]({name}.md)" in readme


@pytest.mark.requirement("machines.coupling.table", "machines.verdicts-answers.tables")
def test_coupling_verdict_and_answer_rows_stand_on_the_pages_of_the_machines_they_concern() -> None:
    pages = render_all()
    assert "| session enters closing | retire at each mcp that has a row for it |" in pages["session.md"]
    assert "| session enters closing | retire at each mcp that has a row for it |" in pages["mcp.md"]
    blocking = "| terminal enters unknown | unresolved at each turn that has a row for it, only in idle |"
    assert blocking in pages["terminal.md"] and blocking in pages["turn.md"]
    assert "| terminal | not asked | release_failed, unknown |" in pages["turn.md"]
    assert "| queued | drained | any | cancelled | promoted |" in pages["turn.md"]
    assert "| deleting | ended | any | request_cancelled |  |" in pages["session.md"]
    assert "## Verdict" not in pages["tool.md"] and "## Answers" not in pages["tool.md"]
