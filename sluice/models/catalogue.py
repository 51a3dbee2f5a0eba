"""What is known of well-known models without asking anybody: windows, prices, modalities and reasoning efforts.

The facts stand in `catalogue.json`, which ships with the package and says as of when they hold; the agent file wins
over them. A model that is not listed has no known window and no price: nothing is inferred from its name
(models.catalog.offline, usage-cost.cost.no-estimate). A provider that the agent file declares is its own, whatever it
is called underneath, so only the providers built in are looked up.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from sluice.config.schema import Capabilities, Cost

__all__ = ["Facts", "as_of", "facts"]

_FILE = Path(__file__).with_name("catalogue.json")


@dataclass(frozen=True, slots=True)
class Facts:
    """What the catalogue says of one model.

    Attributes:
        context: tokens that one call may carry.
        cost: US dollars per million tokens.
        takes: what it takes besides text.
        efforts: the reasoning efforts it knows, least first; () when it knows none or cannot be told.
    """

    context: int
    cost: Cost
    takes: Capabilities
    efforts: tuple[str, ...] = ()


def facts(provider: str, model: str) -> Facts | None:
    """The facts of a model, None when it is not listed. Reads a small file once; no network.

    Args:
        provider: a provider built in, by its id.
        model: the provider's name for the model, to the letter.
    """
    row = _table()["models"].get(provider, {}).get(model)
    return None if row is None else _facts(row)


def as_of() -> str:
    """The date on which the facts were gathered, as YYYY-MM-DD."""
    return str(_table()["as_of"])


def _facts(row: Mapping[str, Any]) -> Facts:
    taken = row["takes"]
    takes = Capabilities(image="image" in taken, pdf="pdf" in taken, audio="audio" in taken)
    return Facts(row["context"], Cost(*row["cost"]), takes, tuple(row.get("efforts", ())))


@cache
def _table() -> Mapping[str, Any]:
    table: Mapping[str, Any] = json.loads(_FILE.read_text(encoding="utf-8"))
    return table
