"""Renders the machines and tables of this package as Markdown: the files of `diagrams/`.

Everything is read from the compiled classes and the tables, in their own order, so the same code always yields the
same bytes. `write` and `check` are the only functions of this package that touch the file system.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from inspect import cleandoc
from pathlib import Path
from textwrap import fill

from sluice.machines import ALL
from sluice.machines.admission import ADMISSION, TWINS, Check
from sluice.machines.answers import ANSWERS, BY_HOLDER, Answer
from sluice.machines.base import Machine, event_names, final_names, initial_name, rows, state_names
from sluice.machines.coupling import COUPLING, Rule
from sluice.machines.matrix import Matrix, matrices
from sluice.machines.mermaid import views
from sluice.machines.prose import README
from sluice.machines.refusals import refusal
from sluice.machines.verdicts import VERDICTS, Verdict

__all__ = ["check", "render_all", "write"]

_MARK = "<!-- Generated from sluice/machines by `sluice diagrams`. Do not edit. -->"


def render_all() -> dict[str, str]:
    """Every file of `diagrams/`: {file name: text with a final newline}."""
    pages = {f"{name}.md": _machine_page(cls) for name, cls in ALL.items()}
    return {"README.md": _readme(), "admission.md": _admission_page(), **pages}


def write(directory: Path) -> None:
    """Writes every page into `directory`, which is made if need be. Files of other names are left alone.

    Raises:
        OSError: the directory cannot be written.
    """
    directory.mkdir(parents=True, exist_ok=True)
    for name, text in render_all().items():
        (directory / name).write_bytes(text.encode())


def check(directory: Path) -> list[str]:
    """The names of files in `directory` that are stale, missing or none of ours, sorted; empty when all is well."""
    pages = {name: text.encode() for name, text in render_all().items()}
    found = {path.name: path for path in directory.iterdir()} if directory.is_dir() else {}
    stale = [
        name
        for name, text in pages.items()
        if name not in found or not found[name].is_file() or found[name].read_bytes() != text
    ]
    return sorted({*stale, *(found.keys() - pages.keys())})


# --- pages -------------------------------------------------------------------------------------------------------


def _page(title: str, sections: Iterable[str]) -> str:
    return "\n\n".join([f"# {title}", _MARK, *(section.strip("\n") for section in sections)]) + "\n"


def _readme() -> str:
    pages = [("admission", "what a caller gets, in every situation"), *((name, _summary(ALL[name])) for name in ALL)]
    return _page("The machines", [README, "\n".join(f"- [{name}]({name}.md): {what}" for name, what in pages)])


def _machine_page(cls: type[Machine]) -> str:
    sections = [cleandoc(cls.__doc__ or ""), _facts(cls)]
    for title, source in views(cls):
        sections += [f"## {title or 'Diagram'}", f"```mermaid\n{source}\n```"]
    sections += ["## Rows", _rows_table(cls), "## Refusals", _refusals_table(cls)]
    sections += _coupling_section(cls.machine)
    sections += _verdict_section(cls.machine)
    sections += _answers_section(cls.machine)
    return _page(cls.machine, sections)


def _admission_page() -> str:
    intro = _fill(
        """What a caller gets. **→ x** means admitted, and the first machine that is fired goes to x. *ok* is success
        without a change, *join* waits for the same work that is already under way, *held* is kept until
        initialization is over, and *·* is silence. Any other bare word is the reason of a refusal.
        [README.md](README.md) says what the states mean."""
    )
    sections = [intro]
    for matrix in matrices():
        sections += [f"## {matrix.title}", _matrix_table(matrix)]
    sections += [
        _fill(
            """The third table asks about a session that only the connection can refuse: authenticate and session/new
            without any live session, session/cancel for a busy turn, everything else for an open, idle one."""
        ),
        "## The checks",
        _fill(
            """Each method's checks in order. A state that is not named is refused. *fire* moves the machine once all
            checks have passed; *done* does so and skips the rest."""
        ),
        _table(("method", "checks in order"), _checks()),
    ]
    return _page("Admission", sections)


# --- sections ----------------------------------------------------------------------------------------------------


def _summary(cls: type[Machine]) -> str:
    return cleandoc(cls.__doc__ or "").partition("\n")[0].rstrip(".")


def _facts(cls: type[Machine]) -> str:
    final = ", ".join(final_names(cls)) or "none"
    return f"{len(state_names(cls))} states, {len(rows(cls))} rows. Begins in {initial_name(cls)}. Final: {final}."


def _rows_table(cls: type[Machine]) -> str:
    lines = []
    for event in event_names(cls):
        targets: dict[str, list[str]] = {}
        for row in rows(cls):
            if row.event == event:
                targets.setdefault("" if row.source == row.target else row.target, []).append(row.source)
        moves = [
            f"{', '.join(sources)} → {target}" if target else f"stays in {', '.join(sources)}"
            for target, sources in targets.items()
        ]
        lines.append((event, "; ".join(moves)))
    return _table(("event", "rows"), lines)


def _refusals_table(cls: type[Machine]) -> str:
    declared = {(row.source, row.event) for row in rows(cls)}
    lines: dict[tuple[str, ...], list[str]] = {}  # the refused pairs of one event as (reason, states, ...) -> events
    for event in event_names(cls):
        reasons: dict[str, list[str]] = {}
        for state in state_names(cls):
            if (state, event) not in declared:
                why = refusal(cls.machine, state, event)
                reason = why.reason if why.code is None else f"{why.reason} ({why.code})"
                reasons.setdefault(reason, []).append(state)
        for reason, states in reasons.items():
            lines.setdefault((reason, ", ".join(states)), []).append(event)
    return _table(("event", "refused", "in"), [(", ".join(events), *line) for line, events in lines.items()])


def _coupling_section(machine: str) -> list[str]:
    lines = [
        (f"{parent} enters {state}", _rule(rule))
        for (parent, state), rules in COUPLING.items()
        for rule in rules
        if machine in (parent, rule.child)
    ]
    return ["## Coupling", _table(("when", "then"), lines)] if lines else []


def _rule(rule: Rule) -> str:
    only = f", only in {', '.join(rule.only_in)}" if rule.only_in else ""
    return f"{rule.event} at each {rule.child} that has a row for it{only}"


def _verdict_section(machine: str) -> list[str]:
    row = VERDICTS.get(machine)
    return [] if row is None else ["## Verdict", *_verdict(row)]


def _verdict(row: Verdict) -> list[str]:
    twin = f", or *{row.twin}* instead" if row.twin else ""
    keys = list(dict.fromkeys([*row.rest, *row.failed]))
    head = ("of", "must be in", *((f"{row.twin} if any is in",) if row.twin else ()))
    lines = [(key, _states(row.rest, key), *((_states(row.failed, key),) if row.twin else ())) for key in keys]
    return [f"It ends by *{row.event}*{twin}, when these have come to rest:", _table(head, lines)]


def _states(of: Mapping[str, frozenset[str]], key: str) -> str:
    """A set of states in an order that no hash seed changes."""
    return ", ".join(sorted(of.get(key, ()))) or "not asked"


def _answers_section(machine: str) -> list[str]:
    if machine not in ("turn", "session"):
        return []
    special = {key[:2] for key in BY_HOLDER}
    lines: dict[tuple[str, str, Answer], list[str]] = {}
    for (state, event), answered in ANSWERS.items():
        if any(answered) and _of_turn(event) == (machine == "turn"):
            lines[state, event, answered] = ["a prompt" if (state, event) in special else "any"]
    for (state, event, holder), answered in BY_HOLDER.items() if machine == "turn" else ():
        lines.setdefault((state, event, answered), []).append(holder)
    shown = [
        (state, event, ", ".join(holders), answered.holder or "", answered.queued or "")
        for (state, event, answered), holders in lines.items()
    ]
    intro = "Who is answered when an event fires, by the state that was left:"
    return ["## Answers", intro, _table(("state", "event", "holder", "holder gets", "queued prompt"), shown)]


def _of_turn(event: str) -> bool:
    return event in event_names(ALL["turn"])


def _checks() -> list[tuple[str, str]]:
    return [
        (", ".join([method, *(twin for twin, of in TWINS.items() if of == method)]), "; ".join(map(_check, checks)))
        for method, checks in ADMISSION.items()
        if method not in TWINS
    ]


def _check(check: Check) -> str:
    whose = {"one": check.machine, "each": f"each {check.machine}", "owner": "owner (turn or background)"}[
        check.whose
    ]
    if check.machine == "session" and check.whose == "each":
        whose = "each other session"
    outcomes: dict[str, list[str]] = {}
    for state, outcome in check.states.items():
        outcomes.setdefault(outcome, []).append(state)
    listed = ", ".join(f"{', '.join(states)} *{outcome}*" for outcome, states in outcomes.items())
    return f"**{whose}**: {listed}" + (f", else {check.reason}" if check.reason else "")


# --- Markdown ----------------------------------------------------------------------------------------------------


def _matrix_table(matrix: Matrix) -> str:
    lines = [(method, *cells) for method, cells in zip(matrix.methods, matrix.cells, strict=True)]
    return _table((matrix.corner, *matrix.columns), lines)


def _fill(paragraph: str) -> str:
    """A paragraph written over several lines of code, as lines of a page."""
    return fill(" ".join(paragraph.split()), width=115, break_on_hyphens=False)


def _table(head: Sequence[str], lines: Iterable[Sequence[str]]) -> str:
    rule = ["---"] * len(head)
    return "\n".join("| " + " | ".join(line) + " |" for line in (head, rule, *lines))
