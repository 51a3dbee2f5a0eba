"""The open store, on asyncio and trio: what is promised of one process and one file."""

from __future__ import annotations

import stat
from pathlib import Path

import anyio
import anyio.lowlevel
import pytest

from sluice.persistence.store import BadCursor, Store, StoreError, UnknownSession
from tests.persistence.conftest import Lock, Query
from tests.persistence.stored import add, message, rows

pytestmark = pytest.mark.anyio


@pytest.fixture(params=["asyncio", "trio"])
def anyio_backend(request: pytest.FixtureRequest) -> str:
    return str(request.param)


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
