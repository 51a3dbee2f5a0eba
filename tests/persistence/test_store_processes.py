"""Real processes on one real file: several at once, one that is killed, one that may not write, one without space."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import pytest

from sluice.persistence.migrations import MIGRATIONS
from sluice.persistence.records import Item, SessionRecord
from sluice.persistence.store import Store
from tests.persistence.conftest import Child, Query

WAIT = 60
"""Seconds a child may take; far more than it needs."""

PRELUDE = """
import os, sys
from pathlib import Path
import anyio
from sluice.persistence.records import Item, Message, Part, SessionRecord
from sluice.persistence.store import Store, StoreError
path = Path(sys.argv[1])
"""

APPEND = (
    PRELUDE
    + """
name, count = sys.argv[2], int(sys.argv[3])
async def main():
    store = await Store.open(path)
    print("ready", flush=True)
    sys.stdin.readline()
    for number in range(count):
        positions = await store.append("shared", [Item("error", text=f"{name}{number}"), Item("error", text=name)])
        assert positions[1] == positions[0] + 1
    await store.aclose()
anyio.run(main)
"""
)

OPEN = (
    PRELUDE
    + """
import sqlite_utils
print("ready", flush=True)
sys.stdin.readline()
async def main():
    store = await Store.open(path)
    await store.add_session(SessionRecord(sys.argv[2], 1.0))
    await store.aclose()
anyio.run(main)
"""
)

APPEND_UNTIL_KILLED = (
    PRELUDE
    + """
import base64
image = base64.b64encode(bytes(3000)).decode()
async def write(store, worker):
    for number in range(5000):
        parts = (Part("text", f"{worker}:{number}"), Part("image", data=image, size=3000))
        (position,) = await store.append("s", [Item("message", message=Message("assistant", parts))])
        print(position, f"{worker}:{number}", flush=True)
async def main():
    store = await Store.open(path)
    await store.add_session(SessionRecord("s", 1.0))
    async with anyio.create_task_group() as tasks:
        for worker in range(4):
            tasks.start_soon(write, store, worker)
anyio.run(main)
"""
)

# Root may write anywhere, so a child of root becomes nobody, after it has done everything once elsewhere: as nobody
# it may no longer be able to import what is loaded lazily.
ATTEMPT = (
    PRELUDE
    + """
import json
async def attempt(path):
    try:
        store = await Store.open(path)
    except StoreError as error:
        return [error.kind, error.text]
    await store.add_session(SessionRecord("new", 1.0))
    await store.aclose()
    return ["written", ""]
async def main():
    assert await attempt(Path(sys.argv[2])) == ["written", ""]
    if os.geteuid() == 0:
        os.setgroups([])
        os.setegid(65534)
        os.seteuid(65534)
    print(json.dumps(await attempt(path)))
anyio.run(main)
"""
)

NO_SPACE = (
    PRELUDE
    + """
import json, resource
async def main():
    store = await Store.open(path)
    await store.add_session(SessionRecord("s", 1.0))
    await store.append("s", [Item("error", text="before")])
    resource.setrlimit(resource.RLIMIT_FSIZE, (400_000, resource.RLIM_INFINITY))
    try:
        await store.append("s", [Item("error", text="x" * 1_000_000)])
    except StoreError as error:
        print(json.dumps([error.kind, error.text]), flush=True)
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    await store.append("s", [Item("error", text="after")])
    await store.aclose()
anyio.run(main)
"""
)


def finish(process: subprocess.Popen[str]) -> str:
    out, err = process.communicate(timeout=WAIT)
    assert (process.returncode, err) == (0, "")
    return out


def start_together(processes: list[subprocess.Popen[str]]) -> None:
    for process in processes:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()


def read(path: Path, session_id: str) -> list[Item]:
    async def main() -> list[Item]:
        store = await Store.open(path)
        items = await store.items(session_id)
        await store.aclose()
        return items

    return anyio.run(main)


@pytest.mark.requirement("store.engine.two-processes")
def test_two_processes_write_one_session_and_nothing_is_lost_or_mixed(path: Path, child: Child) -> None:
    async def prepare() -> None:
        store = await Store.open(path)
        await store.add_session(SessionRecord("shared", 1.0))
        await store.aclose()

    anyio.run(prepare)
    processes = [child(APPEND, path, name, 100) for name in "ab"]
    start_together(processes)
    for process in processes:
        finish(process)
    items = read(path, "shared")
    assert [item.position for item in items] == list(range(400))
    for name in "ab":
        mine = [item.text for item in items if item.text.startswith(name) and item.text != name]
        assert mine == [f"{name}{number}" for number in range(100)]


@pytest.mark.requirement("store.engine.two-processes", "store.engine.migrations")
def test_processes_that_make_the_file_at_once_migrate_it_once(path: Path, child: Child, query: Query) -> None:
    processes = [child(OPEN, path, f"s{number}") for number in range(4)]
    start_together(processes)
    for process in processes:
        finish(process)
    assert query("SELECT name FROM _sqlite_migrations ORDER BY id") == [(step.name,) for step in MIGRATIONS]
    assert query("SELECT count(*) FROM sessions") == [(4,)]


@pytest.mark.requirement("store.items.saved-during-turn")
def test_a_killed_process_leaves_everything_it_acknowledged(path: Path, child: Child) -> None:
    process = child(APPEND_UNTIL_KILLED, path)
    assert process.stdout is not None
    acknowledged = [process.stdout.readline().split() for _ in range(60)]
    process.send_signal(signal.SIGKILL)
    rest, _ = process.communicate(timeout=WAIT)
    acknowledged += [line.split() for line in rest.splitlines(keepends=True) if line.endswith("\n")]
    items = read(path, "s")
    assert [item.position for item in items] == list(range(len(items)))
    for position, text in acknowledged:
        message = items[int(position)].message
        assert message is not None
        assert message.text == text
        assert message.parts[1].data  # no item without its binary
    assert read(path, "s") == items


# --- permissions -------------------------------------------------------------------------------------------------


@pytest.fixture
def public() -> Iterator[Path]:
    """A directory that other users can reach, which pytest's own are not."""
    with tempfile.TemporaryDirectory() as name:
        place = Path(name)
        place.chmod(0o777)
        (place / "sub").mkdir()
        (place / "sub").chmod(0o777)
        yield place / "sub"
        (place / "sub").chmod(0o777)


def attempt(child: Child, path: Path, elsewhere: Path) -> tuple[str, str]:
    kind, text = json.loads(finish(child(ATTEMPT, path, elsewhere / f"{path.parent.name}.db")))
    return kind, text


def stored(path: Path) -> Path:
    async def main() -> None:
        await (await Store.open(path)).aclose()

    anyio.run(main)
    path.chmod(0o666)
    return path


def test_the_attempt_itself_succeeds_where_nothing_forbids_it(public: Path, child: Child, tmp_path: Path) -> None:
    assert attempt(child, stored(public / "session.db"), tmp_path) == ("written", "")


def test_a_read_only_file_is_refused_at_the_opening(public: Path, child: Child, tmp_path: Path) -> None:
    path = stored(public / "session.db")
    path.chmod(0o444)
    assert attempt(child, path, tmp_path) == (
        "read_only",
        f"the session store {path} cannot be written; check the permissions of the file and its directory",
    )


def test_a_file_in_a_read_only_directory_is_refused_at_the_opening(
    public: Path, child: Child, tmp_path: Path
) -> None:
    path = stored(public / "session.db")
    public.chmod(0o555)
    kind, text = attempt(child, path, tmp_path)
    assert kind == "read_only"
    assert str(path) in text


def test_what_a_crash_left_in_a_read_only_directory_is_refused_at_the_opening(
    public: Path, child: Child, tmp_path: Path
) -> None:
    async def crash() -> None:
        store = await Store.open(tmp_path / "crashed.db")
        for suffix in ("", "-wal"):  # as they lie there while the store is open
            shutil.copy(f"{tmp_path}/crashed.db{suffix}", f"{public}/session.db{suffix}")
        await store.aclose()

    anyio.run(crash)
    for place in public.iterdir():
        place.chmod(0o666)
    public.chmod(0o555)
    kind, text = attempt(child, public / "session.db", tmp_path)
    assert kind == "read_only"
    assert str(public) in text


def test_a_new_file_in_a_read_only_directory_cannot_be_made(public: Path, child: Child, tmp_path: Path) -> None:
    public.chmod(0o555)
    for path in (public / "session.db", public / "deeper" / "session.db"):
        kind, text = attempt(child, path, tmp_path)
        assert kind == "read_only"
        assert str(path) in text


def test_a_file_that_may_not_be_read_is_unreadable(public: Path, child: Child, tmp_path: Path) -> None:
    path = stored(public / "session.db")
    path.chmod(0)
    kind, text = attempt(child, path, tmp_path)
    assert kind == "unreadable"
    assert str(path) in text


def test_a_directory_that_may_not_be_entered_is_unreadable(public: Path, child: Child, tmp_path: Path) -> None:
    path = stored(public / "session.db")
    public.chmod(0)
    kind, text = attempt(child, path, tmp_path)
    assert kind == "unreadable"
    assert str(path) in text


def test_a_write_beyond_the_file_size_limit_fails_whole_and_the_store_goes_on(path: Path, child: Child) -> None:
    kind, text = json.loads(finish(child(NO_SPACE, path)))
    assert kind in ("full", "other")
    assert "free" in text and "space" in text
    texts: list[Any] = [item.text for item in read(path, "s")]
    assert texts == ["before", "after"]
