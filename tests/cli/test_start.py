"""What is loaded before `initialize` is answered, and what is not: an editor waits for every module here."""

from __future__ import annotations

import subprocess
import sys

HEAVY = (
    "dataclasses_json",
    "httpx",
    "jsonschema",
    "mcp",
    "opentelemetry",
    "PIL",
    "pydantic",
    "rich",
    "sqlite3",
    "sqlite_utils",
    "statemachine",
    "sluice.agent.loop",
    "sluice.agent.ports",
    "sluice.handlers.session",
    "sluice.models",
    "sluice.persistence.records",
    "sluice.tools",
)

CODE = """
import sys
import sluice.cli.main, sluice.cli.serve_acp, sluice.handlers.initialization
import sluice.config.load, sluice.config.models, sluice.config.environment
from sluice.acp.validation import decode_params
decode_params("initialize", b'{"protocolVersion": 1}')
print(*sys.modules)
"""


def test_nothing_heavy_is_loaded_before_the_first_answer() -> None:
    done = subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True, check=True, timeout=60)
    assert set(HEAVY) & set(done.stdout.split()) == set()
