"""The words of `diagrams/README.md`: what the pictures mean, for a reader who has not seen the code."""

from __future__ import annotations

from typing import Final

__all__ = ["README"]

README: Final = """\
Sluice decides every lifecycle question with a state machine. The pages here are generated from the classes and
tables in `sluice/machines`; `sluice diagrams` writes them and `sluice diagrams --check` fails when they differ
from the code.

Read [admission.md](admission.md) first: for every method of the protocol it says what a caller gets in every
situation. The other pages say what happens afterwards.

## How to read a page

Boxes are states. An arrow carries the event that causes it; events with a slash are methods of the Agent Client
Protocol, all others are completions that the server reports to itself. A row that *stays* takes a completion that
came too late to matter. A box called "any state" stands for the states in its note. The tables below a picture are
exact; pictures leave out nothing but are drawn in two parts where one would be a tangle.

When an event has no row it is refused, and the refusal tables say with which reason. Reason and code are always
the same pair: `busy`, `not_initialized`, `authenticating`, `live_sessions` and `shutting_down` are -32600,
`auth_required` is -32000, `not_found` is -32002, `cleanup_failed` is -32603. A notification is never answered; its
refusal is *silent*. A refused *bug* cannot be caused by any client.

## Busy

A session has one foreground slot, and the [turn](turn.md) says who holds it. *busy* means that a prompt does, from
its admission until everything it started has settled: a turn whose answer is complete is still busy while its last
terminal is being released. That is why the response to a prompt is the last thing its turn sends. A second prompt
is refused with reason `busy`; so are a load, a resume and a configuration change, which hold the slot themselves
while they work (*reconnecting*, *configuring*). Closing and deleting are never refused for being busy: they end
the turn.

The word has two uses that must not be confused. In the admission tables an arrow, "→ busy", means that the request
is admitted and the turn goes to busy; a bare "busy" is the reason of a refusal.

## Draining

*draining* is a turn that was cancelled and has not yet come to rest. Calls that had not begun fail as interrupted,
a call in progress keeps its real result if it has one, terminals are stopped, read and released. It ends by
completions alone: no answer of the client and no word of the model is needed. The cancelled prompt is answered
only then, with stop reason `cancelled`.

People press stop and type on, so one prompt may arrive while the turn drains. The turn is then *queued*: draining,
with that prompt waiting. It starts in the very step in which the drain ends. A cancel takes it back and it is
answered `cancelled` without having left a trace in the history; a further prompt is refused `busy`.

If the drain ends with something that could not be cleaned up, a terminal whose release failed or an MCP server
that would not stop, the slot is free but *blocked*: every prompt, load and configuration change is refused with
`cleanup_failed`, until the session is closed or deleted. A [terminal](terminal.md) of a background task can block
an idle turn in the same way.

## Closed

*closed* means that nothing is left. A [session](session.md) is closed when its constructor, its turn, its
background tasks, its MCP servers and its terminals have all ended; until then it is *closing*, and whoever closes
it again joins the wait. If one of them could not be cleaned up the session ends in *cleanup_failed* instead and
stays there: the error is kept and given to everybody who asks. A closed session can be loaded again; it starts a
new incarnation with a new turn. *deleting* is a closing that will go on to *removing*, the step that touches the
store, and while it lasts the [deletion](deletion.md) barrier keeps other sessions from being constructed or
deleted.

A [connection](connection.md) that logs out or shuts down closes all its sessions first. It is *closed* when that
and its own work is done, and *shutdown_failed* when a session's cleanup failed, which the exit status reports.

## Pages
"""
