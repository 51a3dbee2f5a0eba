"""docs/permissions.md and docs/files.md say what must be said."""

from __future__ import annotations

from pathlib import Path

import pytest

from sluice.agent.permissions import MODES

DOCS = Path(__file__).parents[2] / "docs"
PERMISSIONS = " ".join((DOCS / "permissions.md").read_text(encoding="utf-8").split())
FILES = " ".join((DOCS / "files.md").read_text(encoding="utf-8").split())


@pytest.mark.requirement("modes.scope.dispatcher-only")
def test_modes_do_not_govern_an_external_agent() -> None:
    assert "An external coding agent that is used as a tool has its own approvals, and no mode governs" in PERMISSIONS


@pytest.mark.requirement("tool-lifecycle.id.same-agent-limit")
def test_ids_of_calls_are_made_here() -> None:
    assert "equal ids of two agents, or of two sessions of one agent, are never mixed up" in PERMISSIONS


@pytest.mark.requirement("fs-policy.check.not-atomic")
def test_the_check_is_no_sandbox_and_the_editor_guards_its_own_opening() -> None:
    assert "it is **no sandbox**" in FILES and "an editor must guard its own opening of files" in FILES


@pytest.mark.requirement("tool-locations-diffs.diff.no-final-claim")
def test_a_diff_is_no_promise_about_the_final_content() -> None:
    assert "is **no promise about the file's final content**" in FILES


def test_the_table_of_modes_is_the_one_in_force() -> None:
    words = {"allow": "runs", "ask": "ask", "deny": "no"}
    for mode, row in MODES.items():
        cells = (words[row[label]] for label in ("annotated_safe", "safe", "destructive", "unknown"))
        assert f"| `{mode}` | {' | '.join(cells)} |" in PERMISSIONS
