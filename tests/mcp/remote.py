"""Starts the HTTP server of `server_http.py` for tests, on 127.0.0.1 and a free port."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

__all__ = ["Remote", "remote"]

SCRIPT = str(Path(__file__).parent / "server_http.py")


@dataclass
class Remote:
    """A running server. `requests` are those it has had since `forget`."""

    port: int
    log: Path
    process: subprocess.Popen[bytes]

    @property
    def requests(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.log.read_text().splitlines()] if self.log.exists() else []

    def forget(self) -> None:
        self.log.write_text("")

    def url(self, path: str) -> str:
        return f"http://127.0.0.1:{self.port}{path}"


@contextmanager
def remote(directory: Path, name: str = "remote") -> Iterator[Remote]:
    log = directory / f"{name}.requests"
    process = subprocess.Popen([sys.executable, SCRIPT, str(log)], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
    try:
        assert process.stdout is not None
        yield Remote(int(process.stdout.readline()), log, process)
    finally:
        process.kill()
        process.communicate()
