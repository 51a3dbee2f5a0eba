"""The manifest against the suite: an id is carried by a test or deferred with a reason, never both or neither."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.requirements.manifest import TESTS, load, markers, modules

AREAS = load()
IDS = {name for area in AREAS for name in area.statements}
DEFERRED = {name: reason for area in AREAS for name, reason in area.deferred.items()}

ROOT = TESTS.parent


def test_every_marked_id_exists() -> None:
    assert {name: places for name, places in markers().items() if name not in IDS} == {}


def test_every_id_has_a_test_or_a_reason() -> None:
    assert sorted(IDS - set(markers()) - set(DEFERRED)) == []


def test_no_id_that_a_test_carries_is_deferred() -> None:
    """`python -m tests.requirements --settle` drops them."""
    assert sorted(set(markers()) & set(DEFERRED)) == []


def test_every_deferral_is_of_an_id_and_has_a_place_and_a_reason() -> None:
    assert sorted(set(DEFERRED) - IDS) == []
    for name, reason in DEFERRED.items():
        assert re.fullmatch(r"[^:]{2,60}: .{5,200}", reason), f"{name}: {reason!r}"


@pytest.mark.parametrize(("path", "area"), list(modules()), ids=lambda value: getattr(value, "name", ""))
def test_an_area_holds_its_own_ids_with_one_line_each(path: Path, area: object) -> None:
    found = next(one for one in AREAS if one is area)
    assert path.stem == found.name.replace(".", "_").replace("-", "_")
    for name, statement in found.statements.items():
        assert re.fullmatch(re.escape(found.name) + r"(\.[a-z0-9-]+)+", name)
        assert "\n" not in statement and 10 < len(statement) <= 160 and statement.endswith("."), name


def test_ids_are_never_taken_out() -> None:
    """A published id stays: one that is dropped is marked as withdrawn, not removed."""
    assert len(AREAS) == 45 and len(IDS) >= 853


def test_the_count_in_the_readme_is_the_count_of_the_data() -> None:
    """`python -m tests.requirements --readme` writes it."""
    total = sum(len(area.statements) for area in AREAS)
    held = total - len(DEFERRED)
    shown = re.findall(r"\d+ of \d+ requirements hold", (ROOT / "README.md").read_text(encoding="utf-8"))
    assert set(shown) <= {f"{held} of {total} requirements hold"}


def test_the_table_ends_with_the_count() -> None:
    printed = subprocess.run(
        [sys.executable, "-m", "tests.requirements"], cwd=ROOT, capture_output=True, text=True, check=True, timeout=60
    ).stdout.splitlines()
    assert re.fullmatch(r"\d+ of \d+ requirements hold", printed[-1])
    assert len(printed) == len(AREAS) + 2
