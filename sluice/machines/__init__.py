"""Decide: the lifecycles of the server as machines, and the rules between them as tables. No I/O, clock or task here.

THEORY OF OPERATION

Everything that decides whether something may happen *now* lives in this package, and everything here is a declared
row or a table entry. A handler asks `admit`, fires the machines it is told to fire, applies COUPLING, and only then
begins to do the work. It keeps no flag of its own about a lifecycle: if it needs one, a state is missing here.

*The machines.* Nine, in `ALL`, by these names:

    connection   one per connection             may any work enter at all?
    deletion     one per process                is a delete under way? (the barrier)
    session      one per known session id       does it exist, can it be opened, reopened, removed?
    turn         one per incarnation            who holds the foreground slot?
    tool         one per tool call              what may be shown of it, and has it ended?
    terminal     one per client terminal        who must still release it?
    background   one per background agent       does it run, and may it still start work?
    mcp          one per MCP server             can its tools be called, is it gone?
    elicitation  one per question               how was it answered?

An *incarnation* of a session is the time from `constructed` to `closed`; a reopened session gets a new turn and
shares nothing with the old one but its session machine.

*Who sees which event.* Events that a client causes carry the name of the method that causes them. Some are heard by
more than one machine: "session/delete" by the session and by the barrier, "session/load" by the session when it opens
it and by the turn when the session is already open. ADMISSION says which machines hear a method, and in which order.
All other events are completions: some work that a machine waits for came to an end, and the task that did it reports.
"exit", "constructed", "drained" are of this kind. Only handlers fire; a machine never fires another one.

*Completions are never refused.* Work can be overtaken: a close may arrive while a constructor is returning, and to
cancel a task whose result is already there does not stop it. So a completion has a row in every state its machine can
be in while the work is in flight; where it no longer matters the row stays in its state. A pair without such a row
cannot happen, and if it does, that is a bug (`Bug`), not a situation to handle.

*Why the tables are total.* A machine and an event either have a row or a refusal: `refusals.refusal` covers every
pair without a row, and every wire method in every state of the machines it can meet. "Which error, and when" is
most of a session protocol; if it were spread over handlers, two of them would disagree. Totality is tested by
enumeration.

*How the parts fit*, following one prompt that is cancelled:

1. The reader calls `admit("session/prompt", view)`: the connection is ready, the session open, the turn idle, so the
   answer is "fire turn". The turn is now busy. Nothing was awaited, so nothing can have come in between.
2. `session/cancel` is admitted in the same way. The turn is now draining. COUPLING has an entry for (turn, draining):
   its own tool calls hear "interrupted", its own terminals hear "stop". Each child that has no row is left alone.
3. While it drains, a second prompt is admitted: the turn is queued. A third one has no row and is refused: busy.
4. Each time a child comes to rest the handler asks `verdict("turn", ...)`. None means wait. In the end it says
   "drained", or "unresolved" when a terminal of the session could not be released. A parent ends by one of exactly
   two events, and VERDICTS chooses; a handler never does.
5. The handler fires it, and `answer("queued", "drained")` says what the two requests get: the holder "cancelled",
   the queued one becomes the holder. The state that was left knew that the holder had been cancelled; no flag did.

The event that frees a slot is the last act of its owner: after it, the slot may belong to somebody else.

*Drivers.* `Machine` runs a declared class on python-statemachine with every switch pinned. Tool calls and background
tasks are declared in the same way and driven by a table generated from the declaration, because they come in bursts;
so are the connection and the barrier, because they exist before the library needs to be loaded, and turns, because
every prompt pays for them. `DRIVERS` names the class to instantiate. Both drivers have one door (`fire`) and one
recorder. For the same reason this package loads its modules when a name is first used.

*How it is checked.* The tests hold every row a second time, as golden tables. A breadth-first search
(`tests/machines/search.py`) walks the composition of all tables at small bounds and checks the invariants in every
state; `diagrams/` is generated from this package and compared in CI, so table, picture and behaviour are one thing.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from sluice.lazy import lazy

if TYPE_CHECKING:
    from sluice.machines.admission import *
    from sluice.machines.answers import *
    from sluice.machines.base import *
    from sluice.machines.compiled import *
    from sluice.machines.connection import *
    from sluice.machines.coupling import *
    from sluice.machines.refusals import *
    from sluice.machines.registry import *
    from sluice.machines.session import *
    from sluice.machines.small import *
    from sluice.machines.terminal import *
    from sluice.machines.tool_call import *
    from sluice.machines.transition import *
    from sluice.machines.turn import *
    from sluice.machines.verdicts import *

_NAMES: Mapping[str, tuple[str, ...]] = {
    "sluice.machines.admission": ("ADMISSION", "Decision", "View", "admit"),
    "sluice.machines.answers": ("ANSWERS", "Answer", "answer"),
    "sluice.machines.base": ("Machine", "event_names", "final_names", "initial_name", "rows", "state_names"),
    "sluice.machines.compiled": (
        "CompiledBackground",
        "CompiledConnection",
        "CompiledDeletion",
        "CompiledMachine",
        "CompiledToolCall",
        "CompiledTurn",
    ),
    "sluice.machines.connection": ("Connection",),
    "sluice.machines.coupling": ("COUPLING", "children", "reaches"),
    "sluice.machines.refusals": ("Refusal", "refusal"),
    "sluice.machines.registry": ("ALL", "DRIVERS"),
    "sluice.machines.session": ("Session",),
    "sluice.machines.small": ("Background", "Deletion", "Elicitation", "McpServer"),
    "sluice.machines.terminal": ("Terminal",),
    "sluice.machines.tool_call": ("ToolCall",),
    "sluice.machines.transition": ("AnyMachine", "Bug", "Record", "Refused", "Row", "Transition"),
    "sluice.machines.turn": ("Turn",),
    "sluice.machines.verdicts": ("VERDICTS", "verdict"),
}

__all__ = [name for given in _NAMES.values() for name in given]

__getattr__ = lazy(__name__, _NAMES)
