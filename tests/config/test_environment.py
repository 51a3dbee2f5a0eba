from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluice.config.environment import EnvFileError, Environment, parse_dotenv


@pytest.fixture
def sources(tmp_path: Path) -> Path:
    for name in ("secrets", "config"):
        (tmp_path / name).mkdir()
    return tmp_path


def snapshot(sources: Path, *env_files: str, **process: str) -> Environment:
    files = [sources / name for name in env_files]
    return Environment.read(process, files, sources / "config", sources / "secrets")


@pytest.mark.requirement("models.credentials.sources-in-order", "auth.authenticate.source-precedence")
def test_the_first_source_that_has_a_value_wins(sources: Path) -> None:
    (sources / "one.env").write_text("A=one\n", encoding="utf-8")
    (sources / "two.env").write_text("A=two\nB=two\n", encoding="utf-8")
    for name in "ABCD":
        (sources / "secrets" / name).write_text(f"secret-{name}\n", encoding="utf-8")
    (sources / "config" / ".env").write_text("A=dot\nB=dot\nC=dot\nD=dot\nE=dot\n", encoding="utf-8")
    env = snapshot(sources, "one.env", "two.env", A="process", B="process", C="process")
    again = env.reload()
    for found in (env, again):
        assert [found.get(name) for name in "ABCDEF"] == ["one", "two", "process", "secret-D", "dot", None]


def test_an_empty_value_counts_only_when_no_source_has_another(sources: Path) -> None:
    (sources / "config" / ".env").write_text("A=dot\n", encoding="utf-8")
    env = snapshot(sources, A="", B="")
    assert (env.get("A"), env.get("B"), env.get("C")) == ("dot", "", None)


@pytest.mark.requirement("auth.authenticate.reloads-sources")
def test_reload_sees_files_that_were_made_changed_or_removed(sources: Path) -> None:
    (sources / "secrets" / "GONE").write_text("x", encoding="utf-8")
    (sources / "one.env").write_text("A=old\n", encoding="utf-8")
    before = snapshot(sources, "one.env")
    (sources / "one.env").write_text("A=new\n", encoding="utf-8")
    (sources / "secrets" / "GONE").unlink()
    (sources / "secrets" / "S").write_text("s", encoding="utf-8")
    (sources / "config" / ".env").write_text("D=d\n", encoding="utf-8")
    after = before.reload()
    assert [after.get(name) for name in ("A", "GONE", "S", "D")] == ["new", None, "s", "d"]
    assert [before.get(name) for name in ("A", "GONE", "S", "D")] == ["old", "x", None, None]


@pytest.mark.requirement("auth.authenticate.process-environment-fixed", "auth.authenticate.environment-untouched")
def test_the_process_environment_is_the_one_of_the_start_and_is_not_touched(sources: Path) -> None:
    (sources / "one.env").write_text("A=file\n", encoding="utf-8")
    before_os = dict(os.environ)
    process = {"B": "start"}
    env = Environment.read(process, [sources / "one.env"], sources / "config", sources / "secrets")
    process["B"] = "later"
    process["C"] = "later"
    assert (env.reload().get("B"), env.reload().get("C")) == ("start", None)
    assert process == {"B": "later", "C": "later"}
    assert dict(os.environ) == before_os


def test_a_snapshot_cannot_be_changed_and_its_repr_shows_no_value(sources: Path) -> None:
    (sources / "one.env").write_text("A=hush-file\n", encoding="utf-8")
    env = snapshot(sources, "one.env", B="hush-process")
    with pytest.raises(AttributeError):
        env.config_dir = None  # type: ignore[misc]  # the very thing that must not work
    assert not hasattr(env.process, "__setitem__")
    assert "hush" not in repr(env)


def test_missing_directories_are_no_sources(tmp_path: Path) -> None:
    env = Environment.read({"A": "1"}, (), tmp_path / "none", tmp_path / "none")
    assert (env.get("A"), env.get("B")) == ("1", None)
    assert Environment.read({}, secrets_dir=tmp_path / "none").get("A") is None


def test_secrets_are_regular_small_text_files_named_like_variables(sources: Path) -> None:
    secrets = sources / "secrets"
    (secrets / "KEY").write_bytes(b" v \r\n")
    (secrets / "link").symlink_to(secrets / "KEY")
    (secrets / "NOT-A-NAME").write_text("x", encoding="utf-8")
    (secrets / "DIR").mkdir()
    (secrets / "BINARY").write_bytes(b"\xff\xfe")
    (secrets / "BIG").write_bytes(b"x" * 70_000)
    (secrets / "DANGLING").symlink_to(secrets / "none")
    env = snapshot(sources)
    assert (env.get("KEY"), env.get("link")) == (" v ", " v ")
    for name in ("NOT-A-NAME", "DIR", "BINARY", "BIG", "DANGLING", "../config/.env", ""):
        assert env.get(name) is None


@pytest.mark.requirement("auth.authenticate.unreadable-env-file")
@pytest.mark.parametrize("content", [None, b"caf\xe9=1", b"SECRET hush\n", b"A='hush", b"#" * ((1 << 20) + 1)])
def test_an_env_file_that_cannot_be_used_gives_a_fixed_text(sources: Path, content: bytes | None) -> None:
    path = sources / "hush.env"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(EnvFileError) as caught:
        snapshot(sources, "hush.env")
    assert str(caught.value) == "an environment file could not be read"
    assert caught.value.path == path
    assert "hush" not in caught.value.reason
    assert caught.value.__cause__ is None


def test_a_dot_env_that_is_there_but_cannot_be_read_is_an_error_too(sources: Path) -> None:
    (sources / "config" / ".env").mkdir()
    with pytest.raises(EnvFileError):
        snapshot(sources)


def test_a_failed_reload_leaves_the_snapshot_as_it_was(sources: Path) -> None:
    (sources / "one.env").write_text("A=1\n", encoding="utf-8")
    env = snapshot(sources, "one.env")
    (sources / "one.env").unlink()
    with pytest.raises(EnvFileError):
        env.reload()
    assert env.get("A") == "1"


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("A=1", {"A": "1"}),
        ("  export  A = 1 ", {"A": "1"}),
        ("export\tA=1", {"A": "1"}),
        ("A=", {"A": ""}),
        ("A= # c", {"A": ""}),
        ("A=#c", {"A": ""}),
        ("A=x#y", {"A": "x#y"}),
        ("A=x #y", {"A": "x"}),
        ("A=a b=c", {"A": "a b=c"}),
        ("A=it's", {"A": "it's"}),
        ("A='x # y' # c", {"A": "x # y"}),
        (r"A='a\nb'", {"A": r"a\nb"}),
        (r'A="a\n\"b\" \\ \$X \q"', {"A": 'a\n"b" \\ $X \\q'}),
        ('A="x"', {"A": "x"}),
        ("A=''", {"A": ""}),
        ("A=$B ${C}", {"A": "$B ${C}"}),
        ('A="one\ntwo"\nB=2', {"A": "one\ntwo", "B": "2"}),
        ("# c\n\n \t\nA=1\r\nB=2", {"A": "1", "B": "2"}),
        ("A=1\nA=2", {"A": "2"}),
        ("", {}),
    ],
)
def test_lines_of_an_env_file(line: str, expected: dict[str, str]) -> None:
    assert parse_dotenv(line) == expected


@pytest.mark.parametrize(
    "line", ["hush", "=hush", "1A=hush", "A-B=hush", "export hush", "A='hush", 'A="hush', "A='x' hush"]
)
def test_a_line_of_another_form_is_named_by_its_number_only(line: str) -> None:
    with pytest.raises(ValueError, match=r"^line 3 is not NAME=value$"):
        parse_dotenv(f"# first\nOK=1\n{line}\n")


@given(st.text())
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        values = parse_dotenv(text)
    except ValueError as error:
        assert str(error).endswith("is not NAME=value")
    else:
        assert all(name.isidentifier() for name in values)


@given(st.dictionaries(st.from_regex(r"\A[A-Z_][A-Z0-9_]{0,8}\Z"), st.text(st.characters(exclude_characters="'\r"))))
def test_what_is_written_in_single_quotes_comes_back(values: dict[str, str]) -> None:
    assert parse_dotenv("\n".join(f"{name}='{value}'" for name, value in values.items())) == values
