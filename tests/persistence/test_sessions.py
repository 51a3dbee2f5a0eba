"""The summaries: listing by pages, the tree, and what a page costs."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluice.persistence.connection import connect
from sluice.persistence.errors import BadCursor, StoreError, UnknownSession
from sluice.persistence.migrations import migrate
from sluice.persistence.records import SessionRecord
from sluice.persistence.sessions import (
    ancestors,
    delete_tree,
    descendants,
    find_session,
    insert_session,
    list_page,
    update_session,
)
from tests.persistence.strategies import SESSIONS


@pytest.fixture
def connection(path: Path) -> Iterator[sqlite3.Connection]:
    opened = connect(path)
    migrate(opened, path)
    yield opened
    opened.close()


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[sqlite3.Connection]:
    path = tmp_path_factory.mktemp("sessions") / "session.db"
    opened = connect(path)
    migrate(opened, path)
    yield opened
    opened.close()


def add(connection: sqlite3.Connection, session_id: str, created_at: float = 1.0, **columns: Any) -> SessionRecord:
    record = SessionRecord(session_id, created_at, **{"cwd": "/work", **columns})
    insert_session(connection, record)
    return record


def fill(connection: sqlite3.Connection, count: int, *, same_time: bool = False) -> None:
    connection.execute("DELETE FROM sessions")
    connection.execute("BEGIN")
    connection.executemany(
        "INSERT INTO sessions VALUES (?, ?, ?, NULL, NULL, '', '', '{}', '[]', 0, 0.0)",
        [(f"s{n:06}", 7 if same_time else n, f"/work/{n % 2}") for n in range(count)],
    )
    connection.execute("COMMIT")


def pages(connection: sqlite3.Connection, limit: int, cwd: str | None = None) -> list[list[str]]:
    found: list[list[str]] = []
    cursor: str | None = None
    while True:
        page, cursor = list_page(connection, cwd, cursor, limit)
        found.append([record.id for record in page])
        if cursor is None:
            return found


# --- one summary -------------------------------------------------------------------------------------------------


@pytest.mark.requirement("store.summary.columns")
@given(record=SESSIONS)
def test_every_summary_comes_back_as_it_was(shared: sqlite3.Connection, record: SessionRecord) -> None:
    shared.execute("DELETE FROM sessions")
    insert_session(shared, record)
    assert find_session(shared, record.id) == record


def test_creation_time_is_kept_to_the_microsecond(connection: sqlite3.Connection) -> None:
    add(connection, "a", 1_700_000_000.123_456_7)
    found = find_session(connection, "a")
    assert found is not None
    assert found.created_at == 1_700_000_000.123_457


def test_an_id_is_stored_once(connection: sqlite3.Connection) -> None:
    add(connection, "a", title="first")
    with pytest.raises(StoreError, match="'a' is in the store already"):
        add(connection, "a", title="second")
    assert find_session(connection, "a") == SessionRecord("a", 1.0, cwd="/work", title="first")


@pytest.mark.parametrize("parent", ["missing", "a"])
def test_a_parent_has_to_be_there_first(connection: sqlite3.Connection, parent: str) -> None:
    with pytest.raises(UnknownSession):
        add(connection, "a", parent_id=parent)
    assert find_session(connection, "a") is None


def test_changes_touch_only_what_they_name(connection: sqlite3.Connection) -> None:
    before = add(connection, "a", grants=("shell",), model_overrides={"root": "x/y"}, cost=0.5)
    other = add(connection, "b")
    changes: dict[str, Any] = {
        "title": "Fix it",
        "grants": ("shell", "edit"),
        "model_overrides": {},
        "cost": 1,
        "context_tokens": 7,
        "cwd": None,
    }
    update_session(connection, "a", changes)
    assert find_session(connection, "a") == replace(before, **changes)
    assert find_session(connection, "b") == other


@pytest.mark.parametrize("name", ["id", "created_at", "parent_id", "nonsense", "title = 'x' --"])
def test_what_may_not_change_is_a_type_error(connection: sqlite3.Connection, name: str) -> None:
    add(connection, "a")
    with pytest.raises(TypeError, match="no changeable"):
        update_session(connection, "a", {name: "x", "title": "y"})
    assert find_session(connection, "a") == SessionRecord("a", 1.0, cwd="/work")


def test_an_unknown_session_cannot_be_changed(connection: sqlite3.Connection) -> None:
    with pytest.raises(UnknownSession):
        update_session(connection, "a", {"title": "x"})


def test_a_title_with_half_a_character_is_mended_not_refused(connection: sqlite3.Connection) -> None:
    add(connection, "a")
    update_session(connection, "a", {"title": "half \ud83d character"})
    found = find_session(connection, "a")
    assert found is not None
    assert found.title == "half ? character"


# --- the listing -------------------------------------------------------------------------------------------------


@pytest.mark.requirement("session.list.order")
def test_newest_come_first_and_equal_times_by_id(connection: sqlite3.Connection) -> None:
    for session_id, created_at in [("b", 2.0), ("d", 1.0), ("a", 2.0), ("c", 3.0), ("B", 2.0)]:
        add(connection, session_id, created_at)
    assert pages(connection, 50) == [["c", "B", "a", "b", "d"]]


@pytest.mark.requirement("session.list.page-size", "session.list.end-marked-by-absence")
@pytest.mark.parametrize(("count", "sizes"), [(0, [0]), (49, [49]), (50, [50]), (51, [50, 1]), (100, [50, 50])])
def test_only_a_further_page_has_a_cursor(connection: sqlite3.Connection, count: int, sizes: list[int]) -> None:
    fill(connection, count)
    assert [len(page) for page in pages(connection, 50)] == sizes


@pytest.mark.requirement("session.list.empty")
def test_no_match_is_an_empty_last_page(connection: sqlite3.Connection) -> None:
    add(connection, "a")
    assert list_page(connection, "/elsewhere", None, 50) == ([], None)


@pytest.mark.requirement("session.list.unknown-workspace-hidden")
def test_children_and_sessions_without_absolute_workspace_are_hidden(connection: sqlite3.Connection) -> None:
    for session_id, cwd in [("known", "/work"), ("unknown", None), ("relative", "work"), ("empty", "")]:
        add(connection, session_id, cwd=cwd)
    add(connection, "child", parent_id="known")
    assert pages(connection, 50) == [["known"]]
    assert pages(connection, 50, "work") == [[]]


@pytest.mark.requirement("session.list.filter-exact-cleaned", "session.list.vanished-directory")
def test_the_filter_compares_whole_strings(connection: sqlite3.Connection) -> None:
    for number, cwd in enumerate(["/work", "/work/", "/Work", "/work/sub", "/wor", "/wörk", "/gone/long/ago"]):
        add(connection, str(number), cwd=cwd)
    assert pages(connection, 50, "/work") == [["0"]]
    assert pages(connection, 50, "/wörk") == [["5"]]
    assert pages(connection, 50, "/gone/long/ago") == [["6"]]
    assert pages(connection, 50, "/w%") == [[]]


STORED = st.lists(
    st.tuples(st.integers(0, 3), st.sampled_from(["/a", "/b", None, "rel"]), st.booleans()), max_size=25
)


@pytest.mark.requirement("session.list.page-size", "session.list.order")
@given(stored=STORED, limit=st.integers(1, 6), cwd=st.sampled_from([None, "/a"]))
def test_pages_joined_are_the_sorted_list(
    shared: sqlite3.Connection, stored: list[tuple[int, str | None, bool]], limit: int, cwd: str | None
) -> None:
    shared.execute("DELETE FROM sessions")
    add(shared, "parent", cwd=None)
    expected: list[tuple[int, str]] = []
    for number, (created_at, where, is_root) in enumerate(stored):
        session_id = f"{number * 7 % 25:02}"
        add(shared, session_id, created_at, cwd=where, parent_id=None if is_root else "parent")
        if is_root and where in (("/a", "/b") if cwd is None else (cwd,)):
            expected.append((-created_at, session_id))
    found = pages(shared, limit, cwd)
    assert [session_id for page in found for session_id in page] == [entry[1] for entry in sorted(expected)]
    assert all(len(page) == limit for page in found[:-1])


@pytest.mark.requirement("session.list.no-snapshot")
def test_what_comes_and_goes_between_pages_disturbs_nobody_else(connection: sqlite3.Connection) -> None:
    for session_id in "abcdef":
        add(connection, session_id, 5.0)
    page, cursor = list_page(connection, None, None, 2)
    assert [record.id for record in page] == ["a", "b"]
    add(connection, "newest", 9.0)
    add(connection, "aa", 5.0)
    add(connection, "bb", 5.0)
    delete_tree(connection, "b")  # the very row the cursor names
    delete_tree(connection, "d")
    page, cursor = list_page(connection, None, cursor, 2)
    assert [record.id for record in page] == ["bb", "c"]
    page, cursor = list_page(connection, None, cursor, 2)
    assert [record.id for record in page] == ["e", "f"]
    assert cursor is None


@pytest.mark.requirement("session.list.bad-cursor")
def test_a_cursor_of_another_filter_or_store_is_refused(
    connection: sqlite3.Connection, shared: sqlite3.Connection
) -> None:
    fill(connection, 4)
    _, cursor = list_page(connection, None, None, 2)
    assert cursor is not None
    assert list_page(connection, None, cursor, 2)
    for other, cwd, given_cursor in [
        (connection, "/work/1", cursor),
        (shared, None, cursor),
        (connection, None, ""),
        (connection, None, "s000001"),
        (connection, None, cursor + "\n"),
    ]:
        with pytest.raises(BadCursor):
            list_page(other, cwd, given_cursor, 2)


def test_a_page_has_at_least_one_entry(connection: sqlite3.Connection) -> None:
    with pytest.raises(ValueError, match="at least one"):
        list_page(connection, None, None, 0)


@pytest.mark.requirement("session.list.summaries-only")
@pytest.mark.parametrize("cwd", [None, "/work/1"])
def test_a_page_is_read_from_the_index_and_from_summaries_alone(
    connection: sqlite3.Connection, cwd: str | None
) -> None:
    fill(connection, 10_000)
    _, cursor = list_page(connection, cwd, None, 50)
    statements: list[str] = []
    connection.set_trace_callback(statements.append)
    list_page(connection, cwd, None, 50)
    list_page(connection, cwd, cursor, 50)
    connection.set_trace_callback(None)
    listing = [statement for statement in statements if "ORDER BY" in statement]
    assert len(listing) == 3  # the first page, the rest of a microsecond, what is older
    assert not any(table in statement for statement in statements for table in ("session_items", "media"))
    index = "sessions_listed" if cwd is None else "sessions_listed_by_cwd"
    for statement in listing:
        plan = [row[3] for row in connection.execute("EXPLAIN QUERY PLAN " + statement)]
        assert len(plan) == 1  # in particular no temporary tree for sorting
        assert f"USING INDEX {index}" in plan[0]
    for statement in listing[1:]:
        plan = [row[3] for row in connection.execute("EXPLAIN QUERY PLAN " + statement)]
        assert plan[0].startswith("SEARCH") and "created_at" in plan[0]


@pytest.mark.requirement("session.list.page-size")
@pytest.mark.parametrize("same_time", [False, True])
def test_a_page_takes_as_many_steps_in_a_big_store_as_in_a_small_one(
    connection: sqlite3.Connection, same_time: bool
) -> None:
    def steps(count: int, cwd: str | None) -> int:
        """Virtual machine instructions of the third page, counted by SQLite itself."""
        fill(connection, count, same_time=same_time)
        cursor = None
        for _ in range(2):
            _, cursor = list_page(connection, cwd, cursor, 50)
        counted: list[None] = []
        connection.set_progress_handler(lambda: counted.append(None), 1)
        list_page(connection, cwd, cursor, 50)
        connection.set_progress_handler(None, 1)
        return len(counted)

    for cwd in (None, "/work/0"):
        assert abs(steps(20_000, cwd) - steps(400, cwd)) < 50


# --- the tree ----------------------------------------------------------------------------------------------------


@pytest.fixture
def family(connection: sqlite3.Connection) -> sqlite3.Connection:
    """Root with children b and c, b with grandchild d; and a stranger with a child."""
    for session_id, parent_id in [("a", None), ("c", "a"), ("b", "a"), ("d", "b"), ("x", None), ("y", "x")]:
        add(connection, session_id, parent_id=parent_id)
    for session_id in "abcdxy":
        connection.execute("INSERT INTO session_items VALUES (?, 0, 'error', '{}')", [session_id])
        connection.execute("INSERT INTO media VALUES (?, 0, 0, x'00')", [session_id])
    return connection


def test_lines_of_descent_are_known_both_ways(family: sqlite3.Connection) -> None:
    assert descendants(family, "a") == ["b", "c", "d"]
    assert descendants(family, "d") == descendants(family, "nobody") == []
    assert ancestors(family, "d") == ["b", "a"]
    assert ancestors(family, "a") == ancestors(family, "nobody") == []


@pytest.mark.requirement("session.delete.removes-tree")
def test_a_delete_takes_the_tree_with_items_and_media_and_nothing_else(family: sqlite3.Connection) -> None:
    assert delete_tree(family, "a") is True
    for query in (
        "SELECT id FROM sessions ORDER BY 1",
        "SELECT session_id FROM session_items ORDER BY 1",
        "SELECT session_id FROM media ORDER BY 1",
    ):
        assert family.execute(query).fetchall() == [("x",), ("y",)]


@pytest.mark.requirement("session.delete.unknown-id-succeeds")
def test_deleting_what_is_not_there_changes_nothing(family: sqlite3.Connection) -> None:
    before = family.total_changes
    assert delete_tree(family, "nobody") is False
    assert family.total_changes == before


def test_a_tree_deeper_than_a_cascade_may_go_is_deleted(connection: sqlite3.Connection) -> None:
    add(connection, "0")
    for depth in range(1, 1500):
        add(connection, str(depth), parent_id=str(depth - 1))
    assert len(ancestors(connection, "1499")) == 1499
    assert delete_tree(connection, "0") is True
    assert connection.execute("SELECT count(*) FROM sessions").fetchone() == (0,)
