"""The path policy on real directories and links."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluice.agent.ports import ToolFailure
from sluice.tools.paths import PathPolicy, absolute, inside, resolve


def policy(
    cwd: Path, env: Mapping[str, str] | None = None, roots: tuple[str, ...] = (), **options: Any
) -> PathPolicy:
    return PathPolicy.from_options(options, cwd=str(cwd), roots=roots, env=env or {})


def allowed(rules: PathPolicy, path: object, *, writing: bool = False) -> bool:
    try:
        rules.check(path, rules.cwd, writing=writing)
    except ToolFailure:
        return False
    return True


def test_without_lists_everything_is_allowed(tmp_path: Path) -> None:
    assert allowed(policy(tmp_path), "/etc/hostname")
    assert allowed(policy(tmp_path), "new/file")


def test_deny_wins_over_allow(tmp_path: Path) -> None:
    rules = policy(tmp_path, allow_list=["."], deny_list=["secret"])
    assert allowed(rules, "a")
    assert allowed(rules, "secrets")
    assert not allowed(rules, "secret")
    assert not allowed(rules, "x/../secret/deep")
    assert not allowed(rules, "../elsewhere")


def test_entries_may_be_relative_absolute_home_or_variables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    work = tmp_path / "work"
    work.mkdir()
    rules = policy(
        work, {"DATA": str(tmp_path / "data")}, allow_list=["sub", "~", "$DATA", "${DATA}2", str(tmp_path / "abs")]
    )
    for path in ("sub/a", str(tmp_path / "home/x"), "../data/x", "../data2/x", "../abs"):
        assert allowed(rules, path), path
    assert not allowed(rules, "a")


@pytest.mark.requirement("fs-policy.check.invalid-config-disables")
@pytest.mark.parametrize("name", ["allow_list", "deny_list"])
@pytest.mark.parametrize("value", ["text", [3], [""], [" "], {"a": 1}, ["$NOT_SET"], ["a\0b"], True])
def test_a_setting_that_cannot_be_read_disables_everything(tmp_path: Path, name: str, value: object) -> None:
    rules = PathPolicy.from_options({name: value}, cwd=str(tmp_path), roots=(), env={})
    with pytest.raises(ToolFailure, match=f"disabled.*({name}|path)"):
        rules.check("a", str(tmp_path))


def test_an_empty_allow_list_allows_nothing(tmp_path: Path) -> None:
    assert not allowed(policy(tmp_path, allow_list=[]), "a")


@pytest.mark.requirement("fs-policy.check.symlink-and-dangling")
def test_links_are_followed_before_the_lists_are_asked(tmp_path: Path) -> None:
    work, outside = tmp_path / "work", tmp_path / "outside"
    work.mkdir()
    outside.mkdir()
    (outside / "f").write_text("x")
    (work / "out").symlink_to(outside)
    (work / "in").symlink_to("real")
    (work / "real").mkdir()
    rules = policy(work, allow_list=["."], deny_list=["real/no"])
    assert not allowed(rules, "out/f")
    assert not allowed(rules, "out/new/deep")
    assert allowed(rules, "in/f")
    assert not allowed(rules, "in/no")
    assert rules.check("in/new/f", str(work)) == str(work / "real/new/f")


def test_a_denied_link_denies_itself_and_what_it_leads_to(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    rules = policy(tmp_path, deny_list=["link"])
    assert not allowed(rules, "link/a")
    assert not allowed(rules, "real/a")


@pytest.mark.requirement("fs-policy.check.symlink-and-dangling")
def test_links_that_lead_nowhere_or_in_circles_are_refused(tmp_path: Path) -> None:
    (tmp_path / "dangling").symlink_to("nowhere")
    (tmp_path / "a").symlink_to("b")
    (tmp_path / "b").symlink_to("a")
    for path in ("dangling", "dangling/x/y", "a", "a/x"):
        with pytest.raises(ToolFailure, match="leads nowhere"):
            policy(tmp_path).check(path, str(tmp_path))


@pytest.mark.requirement("fs-policy.check.roots-in-addition")
def test_a_root_lifts_no_denial_and_widens_no_allow_list(tmp_path: Path) -> None:
    work, root = tmp_path / "work", tmp_path / "root"
    work.mkdir()
    root.mkdir()
    assert not allowed(policy(work, roots=(str(root),), allow_list=["."]), str(root / "a"))
    assert not allowed(policy(work, roots=(str(root),), deny_list=[str(root)]), str(root / "a"))


def test_the_ignore_file_excludes_and_may_be_read_but_not_changed(tmp_path: Path) -> None:
    (tmp_path / ".agentsignore").write_text("*.key\nbuild/\n!ok.key\n")
    (tmp_path / "build").mkdir()
    rules = policy(tmp_path)
    assert not allowed(rules, "a/b.key")
    assert not allowed(rules, "build/x")
    assert allowed(rules, "ok.key")
    assert allowed(rules, ".agentsignore")
    assert not allowed(rules, ".agentsignore", writing=True)


def test_a_root_has_an_ignore_file_of_its_own(tmp_path: Path) -> None:
    work, root = tmp_path / "work", tmp_path / "root"
    work.mkdir()
    root.mkdir()
    (root / ".agentsignore").write_text("secret\n")
    assert not allowed(policy(work, roots=(str(root),)), str(root / "secret"))
    assert allowed(policy(work, roots=(str(root),)), "secret")


def test_an_ignore_file_that_cannot_be_read_closes_everything(tmp_path: Path) -> None:
    (tmp_path / ".agentsignore").write_bytes(b"\xff\xfe")
    assert not allowed(policy(tmp_path), "a")
    (tmp_path / ".agentsignore").unlink()
    (tmp_path / ".agentsignore").mkdir()
    assert not allowed(policy(tmp_path), "a")


@pytest.mark.parametrize("path", ["", None, 3, "a\0b"])
def test_what_is_no_path_is_refused(tmp_path: Path, path: object) -> None:
    assert not allowed(policy(tmp_path), path)


@given(st.text())
def test_an_absolute_path_has_no_dots_left(path: str) -> None:
    try:
        found = absolute(path, "/work")
    except ToolFailure:
        return
    assert os.path.isabs(found)
    assert not {".", ".."} & set(found.split("/"))


def test_a_name_that_begins_like_a_directory_is_not_inside_it() -> None:
    assert inside("/a/b", "/a")
    assert inside("/a", "/a")
    assert inside("/a", "/")
    assert not inside("/ab", "/a")


def test_a_file_used_as_a_directory_resolves_as_text(tmp_path: Path) -> None:
    (tmp_path / "f").write_text("")
    assert resolve(str(tmp_path / "f/x")) == str(tmp_path / "f/x")
