"""Which agent file a command line means: a path, or `default` for the agent that comes with the package."""

from __future__ import annotations

from pathlib import Path

__all__ = ["DEFAULT", "HELP", "agent_file"]

DEFAULT = "default"

HELP = "the agent file (YAML), or `default`, the assistant that comes with Sluice"


def agent_file(name: str) -> str:
    """The path of the file that is meant.

    Args:
        name: as typed. `default` is the built-in agent, for whoever has no file yet, such as an editor that installed
            Sluice from a registry; a file of that name in the current directory comes first.
    """
    if name == DEFAULT and not Path(name).exists():
        return str(Path(__file__).parent.parent / "config" / "default.yaml")
    return name
