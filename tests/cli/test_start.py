"""What is loaded before `initialize` is answered, and what is not: an editor waits for every module here."""

from __future__ import annotations

import subprocess
import sys

HEAVY = (
    "dataclasses_json",
    "difflib",
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
    "sluice.handlers.team_setup",
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

COUNT = """
from dataclasses import is_dataclass
for name, module in list(sys.modules.items()):
    if name.startswith("sluice.config"):
        print(*(f"{name}.{what}" for what, made in vars(module).items() if is_dataclass(made)))
"""


def test_nothing_heavy_is_loaded_before_the_first_answer() -> None:
    done = subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True, check=True, timeout=60)
    assert set(HEAVY) & set(done.stdout.split()) == set()


def test_no_class_of_the_config_room_is_written_as_source_text_at_start() -> None:
    code = CODE.replace("print(*sys.modules)", COUNT)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.split() == []
