"""Answers to our own requests: tolerant where nothing is said, strict where something is needed, never approving."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluice import acp
from tests.acp.strategies import JSON


@pytest.mark.parametrize(
    "method", ["fs/write_text_file", "terminal/kill", "terminal/release", "session/load", "logout"]
)
@pytest.mark.parametrize("data", [None, {}, {"x": 1}, {"_meta": None}])
def test_an_answer_that_says_nothing_may_be_null(method: str, data: Any) -> None:
    assert acp.decode_result(method, data) == acp.METHODS[method].result()


@pytest.mark.parametrize(
    ("method", "data"),
    [
        ("fs/read_text_file", None),
        ("fs/read_text_file", {}),
        ("fs/read_text_file", {"content": None}),
        ("fs/read_text_file", []),
        ("terminal/create", {"terminalId": 3}),
        ("terminal/output", {"output": "x"}),
        ("terminal/wait_for_exit", {"exitCode": "1"}),
        ("terminal/wait_for_exit", "x"),
        ("elicitation/create", {}),
        ("elicitation/create", {"action": "accept", "content": []}),
        ("session/request_permission", {"outcome": "allow_once"}),
    ],
)
def test_an_answer_of_the_wrong_shape_is_a_bad_answer(method: str, data: Any) -> None:
    with pytest.raises(acp.BadAnswer, match=method):
        acp.decode_result(method, data)


@pytest.mark.parametrize("data", [{}, None, {"exitCode": None, "signal": None}])
def test_an_exit_that_tells_nothing_is_still_an_exit(data: Any) -> None:
    assert acp.decode_result("terminal/wait_for_exit", data) == acp.WaitForTerminalExitResponse()


def test_an_unknown_elicitation_action_is_kept_as_it_is() -> None:
    assert acp.decode_result("elicitation/create", {"action": "maybe", "content": None}).action == "maybe"


def test_a_notification_has_no_result_to_decode() -> None:
    with pytest.raises(KeyError):
        acp.decode_result("session/cancel", {})


@pytest.mark.parametrize(
    "data",
    [
        None, {}, [], "allow_once", {"outcome": None}, {"outcome": "allow_once"}, {"outcome": {}},
        {"outcome": {"outcome": "selected"}}, {"outcome": {"outcome": "selected", "optionId": "other"}},
        {"outcome": {"outcome": "selected", "optionId": None}},
        {"outcome": {"outcome": "allowed", "optionId": "yes"}},
        {"outcome": {"outcome": True, "optionId": "yes"}}, {"optionId": "yes"},
    ],
    ids=json.dumps,
)  # fmt: skip
def test_a_doubtful_permission_answer_is_no_outcome(data: Any) -> None:
    assert acp.permission_outcome(data, ["yes", "no"]) is None


def test_a_permission_answer_selects_what_was_offered_or_cancels() -> None:
    chosen = {"outcome": {"outcome": "selected", "optionId": "yes", "_meta": None}}
    assert acp.permission_outcome(chosen, ["yes", "no"]) == acp.SelectedPermissionOutcome("yes")
    cancelled = {"outcome": {"outcome": "cancelled"}}
    assert acp.permission_outcome(cancelled, ["yes"]) == acp.CancelledPermissionOutcome()


@given(JSON)
def test_no_answer_approves_what_was_not_offered(data: Any) -> None:
    assert not isinstance(acp.permission_outcome(data, []), acp.SelectedPermissionOutcome)
    assert not isinstance(acp.permission_outcome({"outcome": data}, []), acp.SelectedPermissionOutcome)


@given(st.sampled_from(sorted(name for name, row in acp.METHODS.items() if row.result)), JSON)
def test_any_answer_is_decoded_or_bad(method: str, data: Any) -> None:
    try:
        acp.decode_result(method, data)
    except acp.BadAnswer as error:
        assert len(str(error).splitlines()) == 1
