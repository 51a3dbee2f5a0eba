"""The pictures of the README are what the program shows."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parent.parent
PICTURES = ROOT / "docs" / "pictures"
SCENES = ("turn", "permission", "diff", "cancelled")


@pytest.fixture(scope="module")
def made() -> ModuleType:
    spec = importlib.util.spec_from_file_location("pictures", PICTURES / "make.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("name", SCENES)
def test_a_picture_is_what_the_program_shows(made: ModuleType, name: str) -> None:
    """When it is not, look whether the new picture is right and write it with `make pictures`."""
    assert tuple(made.SCENES) == SCENES
    assert made.play(name) == (PICTURES / f"{name}.svg").read_text(encoding="utf-8")


def test_the_readme_shows_pictures_that_exist() -> None:
    shown = re.findall(r"!\[.*?\]\((.*?)\)", (ROOT / "README.md").read_text(encoding="utf-8"))
    assert {"docs/pictures/turn.svg", "docs/pictures/diff.svg"} <= set(shown)
    assert all((ROOT / path).is_file() for path in shown)
