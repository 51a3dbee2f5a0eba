"""The method table agrees with the official SDK and answers for every gate."""

from __future__ import annotations

import pytest
from acp.meta import AGENT_METHODS, CLIENT_METHODS

from sluice import acp

UNSTABLE = {
    "session/fork",
    "providers/list",
    "providers/set",
    "providers/disable",
    "mcp/message",
    "mcp/connect",
    "mcp/disconnect",
    "nes/start",
    "nes/suggest",
    "nes/accept",
    "nes/reject",
    "nes/close",
    "document/didOpen",
    "document/didChange",
    "document/didClose",
    "document/didSave",
    "document/didFocus",
}
FULL = acp.AgentCapabilities(
    True,
    acp.PromptCapabilities(True, True, True),
    acp.McpCapabilities(True, True),
    acp.SessionCapabilities(
        list=acp.SessionListCapabilities(),
        delete=acp.SessionDeleteCapabilities(),
        additional_directories=acp.SessionAdditionalDirectoriesCapabilities(),
        resume=acp.SessionResumeCapabilities(),
        close=acp.SessionCloseCapabilities(),
    ),
    acp.AgentAuthCapabilities(acp.LogoutCapabilities()),
)


def received_by(side: str) -> set[str]:
    return {row.name for row in acp.METHODS.values() if row.receiver == side}


@pytest.mark.requirement("capability-matrix.tests.single-gate-table")
def test_an_agent_receives_what_the_sdk_knows_and_nothing_unstable() -> None:
    assert received_by("agent") == set(AGENT_METHODS.values()) - UNSTABLE


@pytest.mark.requirement("capability-matrix.tests.single-gate-table")
def test_a_client_receives_what_the_sdk_knows_and_nothing_unstable() -> None:
    assert received_by("client") == set(CLIENT_METHODS.values()) - UNSTABLE


def test_only_the_cancellation_of_a_request_goes_both_ways() -> None:
    assert received_by("both") == {"$/cancel_request"}


@pytest.mark.requirement("capability-matrix.agent.not-offered")
@pytest.mark.parametrize("name", sorted(UNSTABLE))
def test_an_unstable_method_is_unknown(name: str) -> None:
    assert name not in acp.METHODS


def test_requests_have_results_and_notifications_have_none() -> None:
    for row in acp.METHODS.values():
        assert (row.result is not None) == (row.kind == "request"), row.name


@pytest.mark.parametrize("name", ["Session/new", "session/new ", "SESSION/NEW", "", "session/update"])
def test_a_name_is_found_only_exactly_and_by_the_side_that_handles_it(name: str) -> None:
    assert acp.find(name, "agent", "request") is None


def test_a_notification_is_no_request_and_the_reverse() -> None:
    assert acp.find("session/cancel", "agent", "request") is None
    assert acp.find("session/cancel", "agent", "notification") is acp.METHODS["session/cancel"]
    assert acp.find("session/prompt", "agent", "notification") is None
    assert acp.find("$/cancel_request", "client", "notification") is acp.METHODS["$/cancel_request"]


@pytest.mark.requirement("capability-matrix.tests.single-gate-table")
@pytest.mark.parametrize("name", sorted(received_by("agent")))
def test_an_agent_gate_is_open_with_every_capability_and_closed_with_none(name: str) -> None:
    row = acp.METHODS[name]
    assert acp.agent_allows(FULL, row.gate)
    assert acp.agent_allows(acp.AgentCapabilities(), row.gate) == (row.gate is None)


@pytest.mark.parametrize("gate", sorted(acp.PROMPT_GATES.values()))
def test_a_prompt_gate_is_open_with_every_capability_and_closed_with_none(gate: str) -> None:
    assert acp.agent_allows(FULL, gate)
    assert not acp.agent_allows(acp.AgentCapabilities(), gate)


@pytest.mark.requirement("capability-matrix.tests.single-gate-table")
@pytest.mark.parametrize("name", sorted(received_by("client")))
def test_a_client_gate_is_closed_without_capabilities(name: str) -> None:
    row = acp.METHODS[name]
    assert acp.ClientCapabilities().allows(row.gate) == (row.gate is None)


def test_updates_newer_than_the_first_schema_are_gated() -> None:
    assert acp.update_gate(acp.Notice("info", "x")) == "session.notices"
    assert acp.update_gate(acp.CompactionUpdate("c", "in_progress")) == "session.compaction"
    assert acp.update_gate(acp.CompactionSummaryChunk("c", acp.TextContent("x"))) == "session.compaction"
    assert acp.update_gate(acp.Plan([])) is None


def test_the_table_cannot_be_changed() -> None:
    with pytest.raises(TypeError):
        acp.METHODS["x"] = acp.METHODS["initialize"]  # type: ignore[index]  # the very thing that must fail
