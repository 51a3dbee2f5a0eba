"""What a call cost, from its tokens and the prices of the configuration."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from sluice.persistence.records import Usage

__all__ = ["priced"]

_MILLION = 1_000_000


def priced(usage: Usage | None, cost: Any) -> Usage | None:
    """The usage with its cost in USD filled in.

    Args:
        usage: what the provider reported; tokens read from a cache or written to it are part of its input tokens.
        cost: the prices in USD per million tokens (`input`, `output`, `cache_read`, `cache_write`); None for a
            model without a price, whose cost stays None. All-zero prices give a cost of 0, which is not the same.
    """
    if usage is None or cost is None:
        return usage
    cached = min(usage.cached_input_tokens, usage.input_tokens)
    written = min(usage.cached_write_tokens, usage.input_tokens - cached)
    total = (
        (usage.input_tokens - cached - written) * float(cost.input)
        + cached * float(cost.cache_read)
        + written * float(cost.cache_write)
        + usage.output_tokens * float(cost.output)
    )
    return replace(usage, cost=total / _MILLION)
