"""`sluice sessions list|show|delete` and `sluice export`: what is stored, without an agent.

Only `delete` writes. The others open the store for reading, while an agent may be using it.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from sluice.cli import output
from sluice.cli.reasons import naming
from sluice.cli.transcript import Stored, as_json, as_markdown, when
from sluice.client.wording import one_line, printable
from sluice.persistence import paths
from sluice.persistence.codec import to_dict
from sluice.persistence.errors import StoreError
from sluice.persistence.readonly import StoredSessions

if TYPE_CHECKING:
    from sluice.persistence.records import SessionRecord

__all__ = ["delete", "export", "list_sessions", "show"]


def list_sessions(options: argparse.Namespace) -> int:
    """Print the stored sessions, newest first. Returns the exit status."""
    cwd = os.path.abspath(options.cwd) if options.cwd is not None else None  # noqa: PTH100 - links stay as typed
    path = _path(options)
    found: list[SessionRecord] = []
    if path.exists():
        with StoredSessions.open(path) as store:
            for record in store.sessions(cwd):
                if options.limit is not None and len(found) >= options.limit:
                    break
                found.append(record)
    elif options.session_db:
        output.complain(f"there is no session store at {path} yet")
    if options.json:
        print(json.dumps([{**to_dict(each), "created": when(each.created_at)} for each in found], indent=2))
    elif not sys.stdout.isatty():
        for record in found:
            fields = (record.id, when(record.created_at), record.cwd or "", record.title or "")
            print("\t".join(one_line(field, 10_000) for field in fields))
    elif not found:
        print("no session is stored yet")
    else:
        _table(found)
    return 0


def _table(found: list[SessionRecord]) -> None:
    columns = output.size()[0]
    for record in found:
        about = f"{record.id}  {when(record.created_at)[:16].replace('T', ' ')}  "
        rest = f"{one_line(record.title or 'untitled', 60)}  {one_line(record.cwd or '', 200)}"
        room = max(20, columns - len(about) - 1)
        print(about + (rest if len(rest) <= room else rest[: room - 1] + "…"))


def show(options: argparse.Namespace) -> int:
    """Print one session as a person would read it. Returns the exit status."""
    said = as_markdown(_stored(options))
    if output.moves_cursor() and not options.plain:
        from sluice.client.painting import Painter, blocks, markdown

        painter = Painter(colour=output.colour())
        width = min(output.size()[0] - 1, 120)
        said = "\n\n".join("\n".join(painter.lines(markdown(block), width)) for block in blocks(said)) + "\n"
        output.writer(output.STDOUT)(said)
    else:
        _print(said)
    return 0


def export(options: argparse.Namespace) -> int:
    """Write one session whole, as JSON or Markdown. Returns the exit status."""
    stored = _stored(options)
    wanted = options.format or ("json" if (options.output or "").endswith(".json") else "markdown")
    said = as_json(stored) + "\n" if wanted == "json" else as_markdown(stored)
    if options.output is None:
        _print(said)
    else:
        with naming(options.output):
            Path(options.output).write_text(said, encoding="utf-8", errors="surrogatepass")
    return 0


def _print(said: str) -> None:
    """Text of a session to stdout: as it is into a file or a pipe, without what a terminal would obey onto one."""
    if os.isatty(output.STDOUT):
        output.writer(output.STDOUT)(printable(said))
    else:
        sys.stdout.buffer.write(said.encode("utf-8", "surrogatepass"))
        sys.stdout.buffer.flush()


def delete(options: argparse.Namespace) -> int:
    """Delete sessions with everything below them. Returns the exit status; without a yes nothing is deleted."""
    with StoredSessions.open(_path(options)) as store:
        records = [store.find(wanted) for wanted in options.session]
    for record in records:
        if record.parent_id is not None:
            raise StoreError(f"{record.id} belongs to the session {record.parent_id}; delete that one")
    if not options.yes:
        if not output.on_terminal():
            output.complain("nothing was deleted: without a terminal to ask on, --yes is needed")
            return 2
        for record in records:
            print(f"{record.id}  {one_line(record.title or 'untitled', 60)}")
        what = "these sessions" if len(records) > 1 else "this session"
        if input(f"Delete {what} for good? [y/N] ").strip().lower() not in ("y", "yes"):
            print("nothing was deleted")
            return 1
    import anyio

    anyio.run(_delete, _path(options), [record.id for record in records])
    return 0


async def _delete(path: Path, session_ids: list[str]) -> None:
    from sluice.persistence.store import Store

    store = await Store.open(path)
    try:
        for session_id in session_ids:
            await store.delete_tree(session_id)
    finally:
        await store.aclose()


def _stored(options: argparse.Namespace) -> Stored:
    with StoredSessions.open(_path(options)) as store:
        record = store.find(options.session)
        return [(each, store.items(each.id)) for each in (record, *store.descendants(record.id))]


def _path(options: argparse.Namespace) -> Path:
    return paths.store_path(os.environ, options.session_db, options.data_dir)
