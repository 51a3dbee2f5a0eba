"""Replacing parts of a text."""

from __future__ import annotations

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from sluice.agent.events import Diff
from sluice.agent.ports import ToolFailure
from sluice.tools.edits import DIFF_BYTES, Edit, apply, diff

LINES = st.lists(st.text(alphabet="abc é", max_size=4), min_size=1, max_size=6)


@pytest.mark.requirement("tools.filesystem.edit-rules")
@pytest.mark.parametrize(
    ("text", "old", "new", "expected"),
    [
        ("a\r\nb\r\n", "a\nb", "x\ny\nz", "x\r\ny\r\nz\r\n"),
        ("a\r\nb", "a", "x\ny", "x\r\ny\r\nb"),
        ("a\nb", "a\r\nb", "x\r\ny", "x\ny"),
        ("a\nb", "b", "c", "a\nc"),
        ("a", "a", "b\n", "b\n"),
        ("a\r\nb\nc\n", "b\nc", "x\ny", "a\r\nx\ny\n"),
        ("a\nb\r\nc", "b\nc", "x\ny", "a\nx\r\ny"),
        ("\ufeffa\nb", "a", "x", "\ufeffx\nb"),
        ("\ufeffa", "\ufeffa", "\ufeffx", "\ufeffx"),
        ("one", "o", "", "ne"),
        ("\udcff a", "a", "b", "\udcff b"),
    ],
)
def test_newlines_marks_and_other_bytes_stay_as_they_are(text: str, old: str, new: str, expected: str) -> None:
    assert apply(text, [Edit(old, new)]) == expected


def test_a_newline_never_cuts_a_pair_in_two() -> None:
    assert apply("a\r\n\r\nb", [Edit("\n", "")]) == "a\r\nb"


def test_edits_see_what_the_ones_before_them_made() -> None:
    assert apply("a", [Edit("a", "b"), Edit("b", "c")]) == "c"


@pytest.mark.parametrize("old", ["", "\ufeff"])
def test_an_old_text_is_needed(old: str) -> None:
    with pytest.raises(ToolFailure, match="edit 1: oldText must not be empty"):
        apply("\ufeffa", [Edit(old, "x")])


@pytest.mark.requirement("tools.filesystem.edit-rules")
@given(LINES, st.sampled_from(["\n", "\r\n"]), st.data())
def test_only_the_found_place_changes_and_the_newline_style_is_kept(
    lines: list[str], newline: str, data: st.DataObject
) -> None:
    text = newline.join(lines)
    first = data.draw(st.integers(0, len(lines) - 1))
    old = "\n".join(lines[first : data.draw(st.integers(first + 1, len(lines)))])
    assume(old)
    new = "\n".join(data.draw(LINES))
    styled_old, styled_new = old.replace("\n", newline), new.replace("\n", newline)
    at = text.index(styled_old)
    after = apply(text, [Edit(old, new)])
    uses_newlines = "\n" in text
    assert after == text[:at] + (styled_new if uses_newlines else new) + text[at + len(styled_old) :]


@pytest.mark.requirement("tool-locations-diffs.diff.omitted-cases")
def test_a_diff_needs_two_texts_of_a_bounded_size() -> None:
    assert diff("/a", "x", "y") == Diff("/a", "x", "y")
    assert diff("/a", "x", "\udcff") is None
    half = "x" * (DIFF_BYTES // 2 - 2)
    assert diff("/a", half, half) is not None
    assert diff("/a", half, half + "x") is None
    assert diff("/a", '"' * (DIFF_BYTES // 2), "") is None
