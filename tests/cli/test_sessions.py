"""`sluice sessions` and `sluice export` on stores that an agent has written, and on none."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluice.cli.transcript import _code, _fenced, as_json, as_markdown
from sluice.persistence.records import Item, Message, Part, SessionRecord, ToolCallRecord
from sluice.persistence.store import Store
from tests.cli.support import Terminal

ROOT = SessionRecord(
    "aa11", 1_700_000_000.0, cwd="/work", title="First *talk*", agent="root", mode="default", cost=0.5
)
CHILD = SessionRecord("cc33", 1_700_000_001.0, cwd="/work", parent_id="aa11", agent="helper")
OTHER = SessionRecord("ab22", 1_700_000_100.0, cwd="/else", title="bad\x1b[2Jtitle")
ITEMS = [
    Item(
        "message",
        Message("user", (Part("text", "Hello <b>"), Part("image", data="AAAA", mime_type="image/png", size=3))),
    ),
    Item(
        "message",
        Message(
            "assistant",
            (Part("text", "I look.\x1b[31m"),),
            agent="root",
            model="scripted/demo",
            thought="hm\nso",
            tool_calls=(ToolCallRecord("t1", "shell", '{"cmd": "ls"}'),),
        ),
    ),
    Item(
        "message",
        Message("tool", (Part("text", "a\n```\nb"),), tool_call_id="t1", tool_name="shell", status="failed"),
    ),
    Item("message", Message("user", (Part("text", "for the model"),), implicit=True)),
    Item("sub_session", session_id="cc33"),
    Item("error", text="it broke", code="model_error"),
    Item("summary", text="All of it."),
    Item("termination", text=""),
]


@pytest.fixture
def store(tmp_path: Path) -> Path:
    path = tmp_path / "session.db"

    async def fill() -> None:
        store = await Store.open(path)
        for record in (ROOT, CHILD, OTHER):
            await store.add_session(record)
        await store.append("aa11", ITEMS)
        await store.append("cc33", [Item("message", Message("assistant", (Part("text", "From below."),)))])
        await store.aclose()

    anyio.run(fill)
    return path


def sluice(*arguments: str, store: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "sluice", *arguments, f"--session-db={store}"]
    return subprocess.run(command, capture_output=True, text=True, timeout=30, stdin=subprocess.DEVNULL)


def test_a_listing_for_programs_has_one_line_a_session_newest_first(store: Path) -> None:
    done = sluice("sessions", "list", store=store)
    assert done.returncode == 0
    assert done.stdout.splitlines() == [
        "ab22\t2023-11-14T22:15:00Z\t/else\tbad\\x1b[2Jtitle",
        "aa11\t2023-11-14T22:13:20Z\t/work\tFirst *talk*",
    ]
    assert sluice("sessions", "list", "--cwd=/work", store=store).stdout.startswith("aa11\t")
    assert len(sluice("sessions", "list", "--limit=1", store=store).stdout.splitlines()) == 1
    listed = json.loads(sluice("sessions", "list", "--json", store=store).stdout)
    assert [entry["id"] for entry in listed] == ["ab22", "aa11"]
    refused = sluice("sessions", "list", "--limit=0", store=store)
    assert refused.returncode == 2 and "expected a whole number from 1, got '0'" in refused.stderr


def test_an_export_has_everything_and_the_store_is_not_touched(store: Path, tmp_path: Path) -> None:
    before = store.read_bytes()
    done = sluice("export", "aa", "--format=json", store=store)
    whole = json.loads(done.stdout)
    assert (whole["format"], whole["version"]) == ("sluice-session", 1)
    assert whole["session"]["id"] == "aa11"
    assert [item["kind"] for item in whole["items"]] == [item.kind for item in ITEMS]
    assert whole["items"][0]["message"]["parts"][1]["data"] == "AAAA"
    assert whole["sub_sessions"][0]["items"][0]["message"]["parts"][0]["text"] == "From below."
    for name in ("talk.json", "talk.md"):
        assert sluice("export", "aa11", "-o", str(tmp_path / name), store=store).returncode == 0
    assert json.loads((tmp_path / "talk.json").read_text("utf-8")) == whole
    assert (tmp_path / "talk.md").read_text("utf-8") == sluice("sessions", "show", "aa11", store=store).stdout
    assert store.read_bytes() == before
    made = {path.name for path in tmp_path.iterdir()} - {"session.db", "talk.json", "talk.md"}
    # SQLite's own, empty; the next agent takes them away.
    assert made <= {"session.db-shm", "session.db-wal"}
    assert all(path.stat().st_size == 0 for path in tmp_path.glob("*-wal"))


def test_markdown_reads_as_the_conversation_went() -> None:
    said = as_markdown(
        [(ROOT, ITEMS), (CHILD, [Item("message", Message("assistant", (Part("text", "From below."),)))])]
    )
    order = [
        "# First \\*talk\\*",
        "- directory: `/work`",
        "## You",
        "Hello <b>",
        "Attached: image/png (3 bytes)",
        "## root · `scripted/demo`",
        "> hm\n> so",
        "I look.",
        'Calls `shell`:\n\n```json\n{\n  "cmd": "ls"\n}\n```',
        "Result of `shell` (failed):\n\n````\na\n```\nb\n````",
        "## Sub-session helper",
        "### Agent",
        "From below.",
        "**The turn failed** (model\\_error): it broke",
        "## Summary of what came before\n\nAll of it.",
        "*The turn was ended.*",
    ]
    at = 0
    for part in order:
        at = said.index(part, at) + len(part)
    assert "for the model" not in said


def test_a_damaged_store_that_nests_in_circles_is_exported_all_the_same() -> None:
    looping = replace(CHILD, id="dd44")
    stored = [
        (ROOT, [Item("sub_session", session_id="cc33")]),
        (CHILD, [Item("sub_session", session_id="dd44")]),
        (looping, [Item("sub_session", session_id="cc33")]),
    ]
    assert as_markdown(stored).count("Sub-session") == 2
    assert json.loads(as_json(stored))["sub_sessions"]


@given(st.text())
def test_no_text_ends_the_block_it_stands_in(said: str) -> None:
    first, *inside, last = _fenced(said)
    assert first == last
    assert first not in "\n".join(inside)
    code = _code(said)
    assert "\n" not in code


def test_what_a_terminal_would_obey_is_shown_on_one_and_kept_in_a_file(store: Path) -> None:
    assert "\x1b[31m" in sluice("export", "aa11", store=store).stdout
    for arguments in (["export", "aa11"], ["sessions", "show", "aa11"], ["sessions", "list"]):
        with Terminal(["-m", "sluice", *arguments, f"--session-db={store}"]) as terminal:
            assert terminal.wait() == 0
            assert "\x1b[31m" not in terminal.output
            assert "\x1b[2J" not in terminal.output


@pytest.mark.parametrize(
    ("wanted", "said"),
    [("zz", "no session begins with 'zz'"), ("a", "2 sessions begin with 'a'"), ("", "no session")],
)
def test_what_is_not_found_is_an_error(store: Path, wanted: str, said: str) -> None:
    for command in (["export"], ["sessions", "show"], ["sessions", "delete", "--yes"]):
        done = sluice(*command, wanted, store=store)
        assert done.returncode == 1
        assert said in done.stderr
        assert "Traceback" not in done.stderr


def test_deleting_asks_and_takes_the_sessions_below_along(store: Path) -> None:
    refused = sluice("sessions", "delete", "aa11", store=store)
    assert (refused.returncode, "--yes is needed" in refused.stderr) == (2, True)
    child = sluice("sessions", "delete", "cc33", "--yes", store=store)
    assert (child.returncode, "belongs to the session aa11" in child.stderr) == (1, True)
    arguments = ["-m", "sluice", "sessions", "delete", "aa11", "ab22", f"--session-db={store}"]
    with Terminal(arguments) as terminal:
        terminal.expect("Delete these sessions for good? [y/N] ")
        terminal.type("\n")
        terminal.expect("nothing was deleted")
        assert terminal.wait() == 1
    assert len(sluice("sessions", "list", store=store).stdout.splitlines()) == 2
    with Terminal(arguments) as terminal:
        terminal.expect("[y/N] ")
        terminal.type("y\n")
        assert terminal.wait() == 0
    assert sluice("sessions", "list", store=store).stdout == ""
    assert sluice("export", "cc33", store=store).returncode == 1


def test_without_a_store_there_is_nothing_and_nothing_is_made(tmp_path: Path) -> None:
    path = tmp_path / "none.db"
    assert sluice("sessions", "list", store=path).returncode == 0
    done = sluice("export", "a", store=path)
    assert done.returncode == 1
    assert f"there is no session store at {path} yet" in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_a_file_of_something_else_is_named(tmp_path: Path, store: Path) -> None:
    (tmp_path / "text").write_text("no database" * 100, "utf-8")
    assert "is not a session store" in sluice("sessions", "list", store=tmp_path / "text").stderr
    import sqlite3

    with sqlite3.connect(tmp_path / "other.db") as other:
        other.execute("CREATE TABLE x(y)")
    other.close()
    assert "is no session store" in sluice("sessions", "list", store=tmp_path / "other.db").stderr
    writing = sqlite3.connect(store)
    with writing:
        writing.execute("DELETE FROM _sqlite_migrations WHERE name = '004_store_key'")
    assert "by an older Sluice" in sluice("sessions", "list", store=store).stderr
    with writing:
        writing.execute("UPDATE _sqlite_migrations SET name = '999_new' WHERE name = '001_sessions'")
    writing.close()
    assert "by a newer Sluice (it has '999_new')" in sluice("sessions", "list", store=store).stderr


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_store_of_somebody_else_is_an_error(store: Path) -> None:
    store.chmod(0)
    assert sluice("sessions", "list", store=store).returncode == 1
