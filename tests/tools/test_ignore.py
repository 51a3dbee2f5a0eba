"""Patterns in the form of .gitignore, compared with git itself where it is installed."""

from __future__ import annotations

import subprocess
from pathlib import Path
from shutil import which

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluice.tools.ignore import IgnoreRules

CASES = [
    ("a", ["a", "x/a"], ["ab", "b"]),
    ("/a", ["a", "a/b"], ["x/a"]),
    ("a/", ["a/b", "x/a/b"], ["a"]),
    ("a/b", ["a/b", "a/b/c"], ["x/a/b"]),
    ("*.py", ["m.py", "x/m.py"], ["m.pyc"]),
    ("a*b", ["ab", "axxb"], ["a/b"]),
    ("?", ["x", "d/x"], ["xy"]),
    ("[abc].t", ["a.t"], ["d.t"]),
    ("[!abc].t", ["d.t"], ["a.t"]),
    ("[a-c]x", ["bx"], ["dx"]),
    ("**/a", ["a", "x/a", "x/y/a"], ["b"]),
    ("a/**", ["a/b", "a/b/c"], ["b/a"]),
    ("a/**/b", ["a/b", "a/x/b", "a/x/y/b"], ["b"]),
    ("*.k\n!ok.k", ["a.k"], ["ok.k"]),
    ("d/\n!d/keep", ["d/keep"], ["keep"]),
    ("# note\n\n\\#x\n\\!y", ["#x", "!y"], ["# note", "y"]),
    ("a b  ", ["a b"], ["a"]),
    ("a[", [], ["a"]),
]


@pytest.mark.parametrize(("text", "ignored", "kept"), CASES)
def test_patterns_mean_what_they_mean_in_gitignore(text: str, ignored: list[str], kept: list[str]) -> None:
    rules = IgnoreRules(text)
    assert [path for path in ignored if not rules.ignores(path, is_dir=False)] == []
    assert [path for path in kept if rules.ignores(path, is_dir=False)] == []


@pytest.mark.skipif(which("git") is None, reason="git is not installed")
@pytest.mark.parametrize(("text", "ignored", "kept"), CASES)
def test_git_reads_the_same_patterns_the_same_way(
    tmp_path: Path, text: str, ignored: list[str], kept: list[str]
) -> None:
    subprocess.run(["git", "init", "-q", "."], cwd=tmp_path, check=True)
    (tmp_path / ".gitignore").write_text(text)
    command = ["git", "check-ignore", "--no-index", "--stdin", "-z"]
    asked = "\0".join((*ignored, *kept)).encode()
    found = subprocess.run(command, cwd=tmp_path, input=asked, stdout=subprocess.PIPE, check=False).stdout
    assert {item for item in found.decode().split("\0") if item} == set(ignored)


@given(st.text(), st.text(min_size=1))
def test_no_text_is_too_odd_to_be_rules(text: str, path: str) -> None:
    IgnoreRules(text).ignores(path, is_dir=False)
