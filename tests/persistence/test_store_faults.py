"""The store when the file, the disk or another process does not play along."""

from __future__ import annotations

import shutil
from pathlib import Path

import anyio
import anyio.lowlevel
import pytest

from sluice.persistence.connection import Reader, Writer, connect
from sluice.persistence.migrations import migrate
from sluice.persistence.records import Item
from sluice.persistence.store import Store, StoreError
from tests.persistence.conftest import Lock, Query
from tests.persistence.stored import TABLES, add, message, rows

pytestmark = pytest.mark.anyio


@pytest.fixture(params=["asyncio", "trio"])
def anyio_backend(request: pytest.FixtureRequest) -> str:
    return str(request.param)


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
