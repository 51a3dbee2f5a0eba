"""A task group that keeps out of its body's errors."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio
import anyio.abc

__all__ = ["task_group"]


@asynccontextmanager
async def task_group() -> AsyncIterator[anyio.abc.TaskGroup]:
    """A task group; what its body raises leaves it as it is, not wrapped into an exception group.

    An error of the body cancels none of the tasks: the body itself says how they end.
    """
    failure: Exception | None = None
    async with anyio.create_task_group() as group:
        try:
            yield group
        except Exception as error:
            failure = error
    if failure is not None:
        raise failure
