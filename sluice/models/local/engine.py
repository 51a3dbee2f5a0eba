"""The engine: the process that holds the weights and answers chat completions on a loopback port.

Run as `python -m sluice.models.local.engine`. The first line of its stdin is the settings as JSON: `weights` (path),
`context` (tokens), `threads`, `key`, and `kept`, the directory for what it has read (see `kept`). The first line of
its stdout is `{"port": …, "library": …}` when it can be asked, or `{"error": …}`. Nothing else is written to either;
**the end of stdin is its end**, so it cannot outlive the agent, however that ends. The key is never an argument or a
variable, where other processes could read it.
"""

from __future__ import annotations

import fcntl
import json
import os
import select
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

__all__ = ["main"]

STDIN, STDOUT, STDERR = 0, 1, 2

TEMPLATE = Path(__file__).with_name("template.jinja")
"""The chat template; it makes a fenced JSON object the mark of a tool call, which is what these models write."""

PROMPT_CACHE_MIB = 256
"""Room for the prompts of other conversations, in MiB; the library's own default is 8 GiB."""


def main() -> int:
    """Serve until stdin ends. Returns the exit status, which is 1 when the engine could not start."""
    # The library writes to stdout as it likes; the report has a descriptor of its own.
    report = os.dup(STDOUT)
    os.dup2(STDERR, STDOUT)
    settings = json.loads(_first_line(STDIN))
    _end_with(STDIN)
    try:
        server = _serve(settings)
        said = {"port": urlsplit(server.listening_address).port, "library": _version()}
    except ImportError:
        said = {
            "error": "the package xllamacpp is not installed; install Sluice with `pip install 'sluice-acp[local]'`"
        }
    except Exception as error:
        said = {"error": " ".join(str(error).split()) or type(error).__name__}
    os.write(report, json.dumps(said).encode() + b"\n")
    os.close(report)
    if "error" in said:
        return 1
    while os.read(STDIN, 4096):
        pass
    # The library's threads may be in the middle of an answer that nobody waits for any more.
    os._exit(0)


def _first_line(descriptor: int) -> bytes:
    line = bytearray()
    while not line.endswith(b"\n"):
        byte = os.read(descriptor, 1)
        if not byte:
            os._exit(0)
        line += byte
    return bytes(line)


def _end_with(descriptor: int) -> None:
    """End this process as soon as the other end of its input is closed, also while the library holds the GIL.

    Loading takes seconds and lets no other thread run. The kernel sends SIGIO when the pipe is closed, and its
    default action is to end the process; systems that ignore it just end a little later, after loading.
    """
    fcntl.fcntl(descriptor, fcntl.F_SETOWN, os.getpid())
    flags = fcntl.fcntl(descriptor, fcntl.F_GETFL)
    fcntl.fcntl(descriptor, fcntl.F_SETFL, flags | getattr(os, "O_ASYNC", 0))
    if select.select([descriptor], [], [], 0)[0] and not os.read(descriptor, 1):
        os._exit(0)


def _serve(settings: dict[str, Any]) -> Any:
    """Load the weights and listen; returns the library's server."""
    import xllamacpp

    params = xllamacpp.CommonParams()
    params.model.path = settings["weights"]
    params.n_ctx = settings["context"]
    # The window is divided by the number of slots, and a conversation needs all of it.
    params.n_parallel = 1
    params.cpuparams.n_threads = settings["threads"]
    params.cpuparams_batch.n_threads = settings["threads"]
    params.cache_ram_mib = PROMPT_CACHE_MIB
    params.hostnames = ["127.0.0.1"]
    params.port = 0
    params.api_keys = [settings["key"]]
    params.ui = False
    params.endpoint_slots = False
    params.slot_save_path = _directory(settings["kept"])
    params.offline = True
    params.use_jinja = True
    params.chat_template = TEMPLATE.read_text(encoding="utf-8")
    params.verbosity = 1
    return xllamacpp.Server(params)


def _version() -> str:
    import xllamacpp

    return str(getattr(xllamacpp, "__version__", ""))


def _directory(path: str) -> str:
    """The directory, made when it is missing; empty when it cannot be, and then nothing is kept."""
    try:
        Path(path).mkdir(mode=0o700, exist_ok=True)
    except OSError:
        return ""
    return f"{path}{os.sep}"


if __name__ == "__main__":
    raise SystemExit(main())
