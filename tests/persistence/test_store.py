"""The open store, on asyncio and trio: what is promised of one process and one file."""

from __future__ import annotations

import base64
import shutil
import sqlite3
import stat
from collections.abc import Iterator
from pathlib import Path

import anyio
import anyio.lowlevel
import pytest

from sluice.persistence.connection import Reader, Writer, connect
from sluice.persistence.migrations import migrate
from sluice.persistence.records import Item, Message, Part, SessionRecord
from sluice.persistence.store import BadCursor, Store, StoreError, UnknownSession
from tests.persistence.conftest import Query

pytestmark = pytest.mark.anyio

Lock = sqlite3.Connection
TABLES = ("sessions", "session_items", "media")


@pytest.fixture(params=["asyncio", "trio"])
def anyio_backend(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def lock(path: Path) -> Iterator[Lock]:
    """A connection as of another process, to hold the file's locks with."""
    path.touch()
    connection = sqlite3.connect(path, isolation_level=None)
    yield connection
    connection.close()


def message(text: str, media: int = 0) -> Item:
    image = Part("image", data=base64.b64encode(b"x" * media).decode(), size=media)
    return Item("message", message=Message("user", (Part("text", text), image) if media else (Part("text", text),)))


async def add(store: Store, session_id: str, parent_id: str | None = None, items: int = 0) -> None:
    await store.add_session(SessionRecord(session_id, 1.0, cwd="/work", parent_id=parent_id))
    if items:
        await store.append(session_id, [message(str(number), media=3000) for number in range(items)])


def rows(query: Query) -> list[int]:
    return [int(query(f"SELECT count(*) FROM {table}")[0][0]) for table in TABLES]


# --- opening -----------------------------------------------------------------------------------------------------


@pytest.mark.requirement("store.path.default")
async def test_the_file_and_missing_directories_are_made_for_this_user_only(tmp_path: Path) -> None:
    path = tmp_path / "share" / "sluice" / "session.db"
    tmp_path.chmod(0o755)
    store = await Store.open(path)
    await add(store, "a")
    modes = [stat.S_IMODE(place.stat().st_mode) for place in (tmp_path, path.parent.parent, path.parent, path)]
    assert modes == [0o755, 0o700, 0o700, 0o600]
    assert {stat.S_IMODE(place.stat().st_mode) for place in path.parent.iterdir()} == {0o600}
    await store.aclose()
    assert [place.name for place in path.parent.iterdir()] == ["session.db"]


@pytest.mark.requirement("store.engine.sqlite")
async def test_what_was_stored_survives_a_restart(path: Path, store: Store) -> None:
    await add(store, "a", items=2)
    await store.update_session("a", title="Fix the build")
    before = await store.session("a"), await store.items("a")
    await store.aclose()
    again = await Store.open(path)
    assert (await again.session("a"), await again.items("a")) == before
    assert await again.append("a", [message("more")]) == [2]
    await again.aclose()


async def test_a_relative_path_means_the_directory_of_the_opening(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    store = await Store.open(Path("sub/session.db"))
    assert store.path == tmp_path / "sub" / "session.db"
    await store.aclose()


async def test_an_opening_that_has_begun_gives_its_store_to_the_cancelled_caller_who_can_close_it(
    path: Path, lock: Lock
) -> None:
    await (await Store.open(path)).aclose()
    closed: list[Path] = []

    async def use() -> None:
        store = await Store.open(path, busy_timeout=60)
        try:
            await anyio.lowlevel.checkpoint()
        finally:
            await store.aclose()
            closed.append(store.path)

    async with anyio.create_task_group() as tasks:
        lock.execute("BEGIN IMMEDIATE")
        tasks.start_soon(use)
        await anyio.wait_all_tasks_blocked()
        tasks.cancel_scope.cancel()
        lock.execute("COMMIT")
    assert closed == [path]


async def test_a_store_may_be_closed_twice_and_then_says_that_it_is_closed(store: Store) -> None:
    await store.aclose()
    await store.aclose()
    with pytest.raises(StoreError, match="is closed; open it again"):
        await store.items("a")
    with pytest.raises(StoreError, match="is closed; open it again"):
        await add(store, "a")


@pytest.mark.requirement("store.engine.two-processes")
async def test_closing_does_not_wait_for_a_reader_elsewhere(path: Path, query: Query, lock: Lock) -> None:
    store = await Store.open(path, busy_timeout=600)
    await add(store, "a")
    lock.execute("BEGIN")
    lock.execute("SELECT * FROM sessions").fetchall()
    await add(store, "b")
    with anyio.fail_after(30):
        await store.aclose()
    assert rows(query)[0] == 2


# --- appending ---------------------------------------------------------------------------------------------------


@pytest.mark.requirement("store.items.saved-during-turn")
async def test_an_item_is_in_the_file_when_append_returns(store: Store, query: Query) -> None:
    await add(store, "a")
    for number in range(3):
        assert await store.append("a", [message("x", media=2000)]) == [number]
        assert rows(query) == [1, number + 1, number + 1]


async def test_many_tasks_append_at_once_and_positions_have_no_gap(store: Store) -> None:
    await add(store, "a")
    await add(store, "b")
    given: dict[str, list[int]] = {"a": [], "b": []}

    async def write(session_id: str, number: int) -> None:
        positions = await store.append(session_id, [message(f"{number}"), message(f"{number}+")])
        assert positions[1] == positions[0] + 1
        given[session_id] += positions

    async with anyio.create_task_group() as tasks:
        for number in range(20):
            tasks.start_soon(write, "a", number)
            tasks.start_soon(write, "b", number)
    for session_id, positions in given.items():
        assert sorted(positions) == list(range(40))
        assert [item.position for item in await store.items(session_id)] == list(range(40))


async def test_appending_to_a_session_deleted_meanwhile_fails_for_that_one_only(store: Store) -> None:
    await add(store, "gone")
    await add(store, "kept")
    assert await store.delete_tree("gone")
    outcomes: list[object] = []

    async def write(session_id: str) -> None:
        try:
            outcomes.append(await store.append(session_id, [message("x")]))
        except UnknownSession as error:
            outcomes.append(error.session_id)

    async with anyio.create_task_group() as tasks:
        for session_id in ("kept", "gone", "kept"):
            tasks.start_soon(write, session_id)
    assert sorted(map(str, outcomes)) == ["[0]", "[1]", "gone"]


@pytest.mark.requirement("session.load.captured-copy")
async def test_a_history_read_does_not_change_with_later_writes(store: Store) -> None:
    await add(store, "a", items=2)
    copy = await store.items("a")
    await store.append("a", [message("later")])
    assert len(copy) == 2
    assert len(await store.items("a")) == 3


# --- listing and summaries through the store ---------------------------------------------------------------------


@pytest.mark.requirement("session.list.page-size", "session.list.bad-cursor")
async def test_a_listing_continues_after_a_restart_and_refuses_other_cursors(path: Path, store: Store) -> None:
    for number in range(51):
        await add(store, f"s{number:02}")
    first, cursor = await store.list_sessions()
    assert len(first) == 50
    await store.aclose()
    again = await Store.open(path)
    rest, end = await again.list_sessions(cursor=cursor)
    assert ([record.id for record in rest], end) == (["s50"], None)
    with pytest.raises(BadCursor):
        await again.list_sessions(cwd="/work", cursor=cursor)
    with pytest.raises(BadCursor):
        await again.list_sessions(cursor="cursor")
    await again.aclose()


@pytest.mark.requirement("store.summary.columns", "session.list.summaries-only")
async def test_summaries_can_be_read_where_messages_cannot(store: Store, query: Query) -> None:
    await add(store, "a", items=1)
    query("UPDATE session_items SET body = 'broken'")
    query("DELETE FROM media")
    assert (await store.list_sessions())[0] == [await store.session("a")]
    with pytest.raises(StoreError, match="cannot be read"):
        await store.items("a")


async def test_the_family_is_known_through_the_store(store: Store) -> None:
    await add(store, "a")
    await add(store, "b", parent_id="a")
    await add(store, "c", parent_id="b")
    assert await store.ancestors("c") == ["b", "a"]
    assert await store.descendants("a") == ["b", "c"]
    assert await store.session("nobody") is None


# --- deleting ----------------------------------------------------------------------------------------------------


async def family(store: Store) -> None:
    for session_id, parent_id in [("root", None), ("child", "root"), ("grandchild", "child"), ("other", None)]:
        await add(store, session_id, parent_id, items=2)


@pytest.mark.requirement("session.delete.removes-tree", "session.delete.unknown-id-succeeds")
async def test_a_deleted_tree_is_gone_for_good(path: Path, store: Store, query: Query) -> None:
    await family(store)
    assert await store.delete_tree("root") is True
    assert await store.delete_tree("root") is False
    assert rows(query) == [1, 2, 2]
    await store.aclose()
    again = await Store.open(path)
    assert await again.session("root") is None
    assert len(await again.items("other")) == 2
    await again.aclose()


@pytest.mark.requirement("session.delete.one-transaction", "session.delete.store-error-retryable")
@pytest.mark.parametrize("victim", ["grandchild", "child", "root"])
@pytest.mark.parametrize("table", ["sessions", "session_items", "media"])
async def test_a_fault_in_the_middle_of_a_delete_leaves_everything_and_a_retry_succeeds(
    store: Store, query: Query, table: str, victim: str
) -> None:
    await family(store)
    before = rows(query)
    column = "id" if table == "sessions" else "session_id"
    query(
        f"CREATE TRIGGER fault AFTER DELETE ON {table} WHEN old.{column} = '{victim}' "
        "BEGIN SELECT RAISE(ABORT, 'fault injected'); END"
    )
    with pytest.raises(StoreError, match="fault injected") as caught:
        await store.delete_tree("root")
    assert caught.value.kind == "other"
    assert rows(query) == before
    query("DROP TRIGGER fault")
    assert await store.delete_tree("root") is True
    assert rows(query) == [1, 2, 2]


@pytest.mark.requirement("session.delete.cancel-in-store-call")
async def test_a_delete_cancelled_in_the_store_call_is_completed_and_a_retry_finds_nothing(
    path: Path, query: Query, lock: Lock
) -> None:
    store = await Store.open(path, busy_timeout=60)
    await family(store)
    results: list[bool] = []

    async def delete() -> None:
        results.append(await store.delete_tree("root"))
        await anyio.lowlevel.checkpoint()
        raise AssertionError("the cancel was lost")

    async with anyio.create_task_group() as tasks:
        lock.execute("BEGIN IMMEDIATE")  # so that the delete is surely under way when the cancel comes
        tasks.start_soon(delete)
        await anyio.wait_all_tasks_blocked()
        tasks.cancel_scope.cancel()
        lock.execute("COMMIT")
    assert results == [True]
    assert rows(query) == [1, 2, 2]
    assert await store.delete_tree("root") is False
    await store.aclose()


# --- what the file and other processes do ------------------------------------------------------------------------


@pytest.mark.requirement("store.engine.two-processes")
async def test_a_short_lock_elsewhere_is_waited_for(path: Path, lock: Lock) -> None:
    store = await Store.open(path, busy_timeout=60)
    await add(store, "a")
    lock.execute("BEGIN IMMEDIATE")
    positions: list[int] = []

    async def write() -> None:
        positions.extend(await store.append("a", [message("x")]))

    with anyio.fail_after(60):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(write)
            await anyio.wait_all_tasks_blocked()
            assert positions == []
            lock.execute("COMMIT")
    assert positions == [0]
    await store.aclose()


async def test_a_lasting_lock_elsewhere_is_an_error_that_can_be_retried(path: Path, store: Store, lock: Lock) -> None:
    await add(store, "a")
    lock.execute("BEGIN IMMEDIATE")
    with pytest.raises(StoreError) as caught:
        await store.append("a", [message("x")])
    assert caught.value.kind == "locked"
    assert (
        caught.value.text == f"the session store {path} is locked by another process; try again when that one is done"
    )
    with pytest.raises(StoreError) as caught:
        await Store.open(path, busy_timeout=0.05)
    assert caught.value.kind == "locked"
    assert await store.items("a") == []
    lock.execute("ROLLBACK")
    assert await store.append("a", [message("x")]) == [0]


async def test_a_full_disk_fails_the_write_and_keeps_what_was_there(path: Path, query: Query) -> None:
    writing = connect(path)
    migrate(writing, path)
    pages = writing.execute("PRAGMA page_count").fetchone()[0]
    writing.execute(f"PRAGMA max_page_count={pages + 20}")
    store = Store(path, Writer(writing, path), Reader(connect(path), path))
    await add(store, "a", items=1)
    with pytest.raises(StoreError, match="disk or a quota is full; free some space") as caught:
        await store.append("a", [message("small"), message("big", media=500_000)])
    assert caught.value.kind == "full"
    assert rows(query) == [1, 1, 1]
    assert await store.append("a", [message("small")]) == [1]
    assert await store.delete_tree("a") is True
    await store.aclose()


async def test_neighbours_of_a_write_that_does_not_fit_are_stored(path: Path) -> None:
    writing = connect(path)
    migrate(writing, path)
    pages = writing.execute("PRAGMA page_count").fetchone()[0]
    writing.execute(f"PRAGMA max_page_count={pages + 20}")
    store = Store(path, Writer(writing, path), Reader(connect(path), path))
    await add(store, "a")
    kinds: list[str] = []

    async def write(item: Item) -> None:
        try:
            await store.append("a", [item])
        except StoreError as error:
            kinds.append(error.kind)

    async with anyio.create_task_group() as tasks:
        for item in (message("one"), message("big", media=500_000), message("two"), message("three")):
            tasks.start_soon(write, item)
    assert kinds == ["full"]
    texts = [item.message.text for item in await store.items("a") if item.message]
    assert sorted(texts) == ["one", "three", "two"]
    await store.aclose()


async def test_a_file_that_is_no_database_is_refused_and_left_alone(path: Path) -> None:
    path.write_bytes(b"These are notes, not a database. " * 200)
    before = path.read_bytes()
    with pytest.raises(StoreError, match="is not a session store; name another file") as caught:
        await Store.open(path)
    assert caught.value.kind == "corrupt"
    assert path.read_bytes() == before


async def test_a_damaged_file_is_an_error_that_names_it(path: Path, store: Store) -> None:
    await add(store, "a", items=30)
    await store.aclose()
    damaged = bytearray(path.read_bytes())
    damaged[8192:] = b"\xff" * (len(damaged) - 8192)
    path.write_bytes(damaged)
    with pytest.raises(StoreError, match="is damaged; move it away or restore a copy") as caught:
        again = await Store.open(path)
        try:
            await again.items("a")
        finally:
            await again.aclose()
    assert caught.value.kind == "corrupt"
    assert str(path) in caught.value.text


@pytest.mark.requirement("store.engine.migrations")
async def test_a_newer_file_is_refused(path: Path, store: Store, query: Query) -> None:
    query("INSERT INTO _sqlite_migrations(migration_set, name) VALUES ('sluice', '999_from_the_future')")
    with pytest.raises(StoreError, match="999_from_the_future") as caught:
        await Store.open(path)
    assert caught.value.kind == "newer"


async def test_a_directory_or_a_path_through_a_file_cannot_be_opened(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for path in (tmp_path, tmp_path / "file" / "session.db", tmp_path / "file" / "sub" / "session.db"):
        with pytest.raises(StoreError, match="cannot be opened") as caught:
            await Store.open(path)
        assert caught.value.kind == "unreadable"
        assert str(path) in caught.value.text


async def test_a_copy_of_the_file_is_a_store(path: Path, store: Store, tmp_path: Path) -> None:
    await add(store, "a", items=1)
    await store.aclose()
    shutil.copy(path, tmp_path / "copy.db")
    copy = await Store.open(tmp_path / "copy.db")
    assert len(await copy.items("a")) == 1
    await copy.aclose()


@pytest.mark.requirement("store.items.no-connection-secrets")
async def test_the_schema_has_no_place_for_connection_settings(store: Store, query: Query) -> None:
    columns = {row[0] for table in TABLES for row in query(f"SELECT name FROM pragma_table_info('{table}')")}
    assert not {name for name in columns if any(word in name for word in ("mcp", "trace", "token_", "header", "env"))}
