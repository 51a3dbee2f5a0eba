"""`sluice diagrams`."""

from __future__ import annotations

from pathlib import Path

import pytest

from sluice.cli.main import main


@pytest.mark.requirement("cli.diagrams.command")
def test_diagrams_are_written_and_a_stale_one_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    where = tmp_path / "out"
    assert main(["diagrams", "--directory", str(where)]) == 0
    assert main(["diagrams", "--check", "--directory", str(where)]) == 0
    assert capsys.readouterr().err == ""
    (where / "turn.md").write_text("old")
    assert main(["diagrams", "--check", "--directory", str(where)]) == 1
    assert f"{where / 'turn.md'} is not what the machines say" in capsys.readouterr().err
