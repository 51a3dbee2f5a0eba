"""Joint work: started once, owned by the session or the connection, joined by every caller.

Close, delete, logout, initialize and shutdown are joint work. A caller that gives up stops waiting and nothing else;
the initiator of a delete passes `before`, which withdraws the removal while that is still possible. Joiners are
entries in a list, not tasks, so they are answered in the same synchronous step as the last event.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Self

import anyio
from anyio.abc import TaskGroup

from sluice.handlers.answers import wire_error
from sluice.wire.errors import RequestCancelled
from sluice.wire.peer import IncomingRequest

__all__ = ["Joint"]


class Joint:
    """One piece of work that many callers may wait for.

    Attributes:
        done: set when the work has ended, well or not.
        result, error: what it ended with; the error is kept for joiners and never raised into the owner's group.
    """

    def __init__(self) -> None:
        self.done = anyio.Event()
        self.waiters: dict[bytes, IncomingRequest] = {}
        self.result: Any = None
        self.error: BaseException | None = None

    def start(self, owner: TaskGroup, work: Callable[[], Awaitable[Any]]) -> Self:
        """Run `work` in a task of its owner; called from `admit`, so it must not await."""
        owner.start_soon(self._run, work)
        return self

    async def _run(self, work: Callable[[], Awaitable[Any]]) -> None:
        # Shielded: the work belongs to all joiners and to its owner, so no single cancel may end it half way.
        with anyio.CancelScope(shield=True):
            try:
                self.result = await work()
            except Exception as error:
                self.error = wire_error(error)
            finally:
                self.settle()

    def settle(self) -> None:
        """Answer every joiner; the last thing the work does."""
        self.done.set()
        waiting, self.waiters = self.waiters, {}
        for request in waiting.values():
            if self.error is not None:
                request.fail(self.error)
            else:
                request.answer(self.result)

    def attach(self, request: IncomingRequest, before: Callable[[], None] | None = None) -> None:
        """Let `request` wait for the end. Its cancel calls `before`, then leaves the wait with -32800."""
        self.waiters[request.id] = request

        def leave() -> None:
            if before is not None:
                before()
            if self.waiters.pop(request.id, None) is not None:
                request.fail(RequestCancelled("Request cancelled"))

        request.on_cancel = leave
