from __future__ import annotations

from tests.requirements.manifest import area

AREA = area(
    "machines",
    {
        "machines.five.declared": "Five machines and four small ones are declared, without I/O.",
        "machines.five.only-state": "Lifecycle state is nowhere else.",
        "machines.connection.states": "The connection's rows are as designed.",
        "machines.session.states": "The session's rows are as designed.",
        "machines.turn.states": "The turn's rows are as designed.",
        "machines.tool-call.states": "The tool call's rows are as designed.",
        "machines.terminal.states": "The terminal's rows are as designed.",
        "machines.table.total": "Every pair of state and event is decided.",
        "machines.table.refusal-keeps-state": "A refusal leaves the state.",
        "machines.table.codes-match-wire": "Refusal codes are what the wire shows.",
        "machines.table.final-states": "Nothing passes silently after the end.",
        "machines.coupling.table": "What a parent does to its children is a table.",
        "machines.admission.table": "What a method needs is a table.",
        "machines.verdicts-answers.tables": "When a parent ends, and what is answered, are tables.",
        "machines.search.exhaustive": "A search finds no way to break the sentences.",
        "machines.decide.no-await-before-admission": "Nothing is awaited before an admission.",
        "machines.record.one-choke-point": "Transitions are recorded in one place.",
        "machines.diagrams.generated": "Diagrams are generated and checked.",
        "machines.diagrams.arcs": "They show what is refused too.",
        "machines.diagrams.deterministic": "They are the same everywhere.",
        "machines.tests.exhaustive": "Each machine is tested pair by pair.",
        "machines.tests.property": "Random sequences keep the sentences.",
        "machines.tests.real-handlers": "So do random sequences over the wire.",
        "machines.tests.recorded-paths": "Each transition is taken over the wire.",
    },
)
