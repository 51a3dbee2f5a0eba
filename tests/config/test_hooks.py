"""The `hooks` of an agent: what is read, what is an error and where, what is warned about."""

from __future__ import annotations

import pytest

from sluice.config.hook_events import FAIL_CLOSED, HOOK_EVENTS, HOOK_SECONDS, TOOL_EVENTS
from sluice.config.keys import KNOWN_NOT_BUILT
from tests.config.support import MINIMAL, error, read, warnings

HEAD = MINIMAL + "    hooks:\n"


def test_hooks_are_read_in_the_order_of_the_file() -> None:
    file = read(
        HEAD + "      pre_tool_use:\n"
        "        - matcher: shell|write_.*\n"
        "          preempt_yolo: true\n"
        "          hooks:\n"
        "            - {type: command, name: a, command: './a ${env.X}', timeout: 10, env: {B: '${env.WHO}'}}\n"
        "            - command: prog\n"
        "              args: [--x, '${y}']\n"
        "              on_error: block\n"
        "      tool_guard: {matcher: '*', hooks: {command: ./b, working_dir: w, timeout: 1m30s}}\n",
        {"WHO": "hunter2"},
    )
    a, prog, b = file.default_agent.hooks
    assert (a.event, a.matcher, a.preempting) == ("pre_tool_use", "shell|write_.*", True)
    assert (a.name, a.command, a.args, a.timeout, dict(a.env)) == ("a", "./a ${env.X}", (), 10.0, {"B": "hunter2"})
    assert (prog.args, prog.on_error, prog.timeout, prog.line) == (("--x", "${y}"), "block", HOOK_SECONDS, 10)
    assert (b.event, b.matcher, b.preempting, b.working_dir, b.timeout) == ("tool_guard", "", False, "w", 90.0)
    assert file.warnings == ()
    assert "hunter2" not in repr(a)


@pytest.mark.requirement("hooks.contract.timeout")
def test_a_hook_that_does_not_say_has_a_minute() -> None:
    (hook,) = read(HEAD + "      tool_guard: [{hooks: [{command: x}]}]\n").default_agent.hooks
    assert hook.timeout == HOOK_SECONDS == 60.0


@pytest.mark.parametrize(
    ("lines", "line", "key", "message"),
    [
        ("tool_gaurd: []", 5, "tool_gaurd", 'unknown key; did you mean "tool_guard"?'),
        ("tool_guard: x", 5, "tool_guard", 'expected a list, got "x"'),
        ("tool_guard: [{command: x}]", 5, "tool_guard[0].command", "unknown key"),
        ("tool_guard: [{matcher: x}]", 5, "tool_guard[0].hooks", "hooks of a tool stand in a group"),
        ("tool_guard: [{matcher: '(', hooks: []}]", 5, "tool_guard[0].matcher", "is no regular expression"),
        ("tool_guard: [{preempt_yolo: true, hooks: []}]", 5, "tool_guard[0].preempt_yolo", "only pre_tool_use"),
        ("tool_guard: [{hooks: [{name: x}]}]", 5, "tool_guard[0].hooks[0].command", "a hook needs a command"),
        ("tool_guard: [{hooks: [{type: x}]}]", 5, "tool_guard[0].hooks[0].type", 'unknown type of hook "x"'),
        (
            "tool_guard:\n        - hooks:\n            - command: x\n              timeout: 0",
            8,
            "tool_guard[0].hooks[0].timeout",
            "expected seconds above 0",
        ),
        (
            "tool_guard: [{hooks: [{command: x, on_error: die}]}]",
            5,
            "tool_guard[0].hooks[0].on_error",
            "expected one",
        ),
    ],
)
def test_an_error_names_line_and_key(lines: str, line: int, key: str, message: str) -> None:
    found = error(f"{HEAD}      {lines}\n")
    assert (found.line, found.key) == (line, f"agents.root.hooks.{key}")
    assert found.message.startswith(message)


@pytest.mark.parametrize("event", sorted(KNOWN_NOT_BUILT["hooks"]))
def test_each_known_event_that_is_not_built_gives_one_warning(event: str) -> None:
    found = warnings(f"{HEAD}      {event}: [{{command: x}}]\n")
    assert found == [(5, f"agents.root.hooks.{event}", "known but not built yet; it has no effect")]


@pytest.mark.parametrize("type_", sorted(KNOWN_NOT_BUILT["hook types"]))
def test_a_hook_of_a_type_that_is_not_built_is_left_out_with_a_warning(type_: str) -> None:
    text = f"{HEAD}      post_tool_use:\n        - hooks:\n            - type: {type_}\n"
    assert read(text).default_agent.hooks == ()
    key = "agents.root.hooks.post_tool_use[0].hooks[0].type"
    assert [(line, key) for line, key, _ in warnings(text)] == [(7, key)]


@pytest.mark.requirement("hooks.guard.fail-closed")
@pytest.mark.parametrize("event", sorted(FAIL_CLOSED))
@pytest.mark.parametrize("type_", ["model", "evaluator"])
def test_a_guard_that_could_not_guard_is_an_error(event: str, type_: str) -> None:
    """Naively it is left out with a warning, and everything that it was to see runs."""
    found = error(f"{HEAD}      {event}:\n        - hooks:\n            - type: {type_}\n")
    assert (found.line, found.key) == (7, f"agents.root.hooks.{event}[0].hooks[0].type")
    assert found.message.startswith(f"{type_} is known but not built yet, and without this hook nothing would guard")


@pytest.mark.parametrize("key", sorted(KNOWN_NOT_BUILT["a hook"]))
def test_each_known_key_of_a_hook_that_is_not_built_gives_one_warning(key: str) -> None:
    text = f"{HEAD}      tool_guard:\n        - hooks:\n            - command: x\n              {key}: true\n"
    assert [(line, key) for line, key, _ in warnings(text)] == [
        (8, f"agents.root.hooks.tool_guard[0].hooks[0].{key}")
    ]


def test_an_event_is_built_or_known_and_never_both() -> None:
    assert set(TOOL_EVENTS) <= set(HOOK_EVENTS)
    assert not set(HOOK_EVENTS) & set(KNOWN_NOT_BUILT["hooks"])
