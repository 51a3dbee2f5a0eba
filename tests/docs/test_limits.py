"""docs/limits.md says what must be said; each row is one promise of the documentation."""

from __future__ import annotations

from pathlib import Path

import pytest

PAGE = " ".join((Path(__file__).parents[2] / "docs" / "limits.md").read_text(encoding="utf-8").split())


def says(*phrases: str) -> None:
    for phrase in phrases:
        assert phrase in PAGE, phrase


@pytest.mark.requirement("session.load.transcript-not-lossless")
def test_it_calls_a_replay_a_view_and_lists_what_is_left_out() -> None:
    says("a view of it and not a lossless copy", "system texts", "summaries", "arguments, places, diffs and plans")
    says("64 KiB", "512 KiB", "Clear what was shown before you try again")


@pytest.mark.requirement("session.delete.scope-documented")
def test_it_limits_deleting_to_this_process_and_store() -> None:
    says("covers this agent process and this store", "Another process that has the same session open is not asked")


@pytest.mark.requirement("shutdown.scope.unmanaged-tools")
def test_it_says_what_is_not_undone() -> None:
    says("Tools that a toolset does not manage are not ended with it")
    says("What has already been asked of the client", "is not taken back")


@pytest.mark.requirement("transport.output.blocked-write-documented")
def test_it_says_that_writes_have_no_deadline() -> None:
    says("no hard deadline on a write", "A write that is blocked is never counted as done")


@pytest.mark.requirement("message-ids.durability.documented")
def test_it_says_that_an_id_promises_no_storage() -> None:
    says("not that the message has been stored")


@pytest.mark.requirement("capability-matrix.agent.no-modality-claim")
def test_it_claims_no_understanding_of_pictures_and_sounds() -> None:
    says("means that such a block is accepted", "depends on the model and its service")


@pytest.mark.requirement("auth.authenticate.process-environment-fixed", "auth.outside.setup-documented")
def test_it_says_where_credentials_go_and_when_to_restart() -> None:
    says("--env-from-file", "restart the agent for those", "none is taken over the protocol")


def test_it_says_which_failures_stay() -> None:
    says("every later close, load, resume and delete of this session in this process")
    says("keeps logout failing on its connection, and authenticate refused")


def test_it_says_where_it_is_stricter_than_the_protocol() -> None:
    says("changed only while a session is idle", "not queued")


def test_it_says_what_a_directory_is_not() -> None:
    says("no sandbox", "is shared by all sessions")


def test_it_says_that_roots_of_work_under_way_are_kept() -> None:
    says("keeps the directories it began with")


@pytest.mark.requirement("audio.limits.frame-first")
def test_the_page_on_attachments_says_which_limit_comes_first() -> None:
    page = Path(__file__).parents[2] / "docs" / "attachments.md"
    text = " ".join(page.read_text(encoding="utf-8").split())
    assert "about 7.5 MiB of sound" in text and "(10 MiB)" in text and "20 MiB, decoded" in text


@pytest.mark.requirement("tracing.scope.other-telemetry")
def test_the_page_on_tracing_claims_no_redaction_of_other_telemetry() -> None:
    page = Path(__file__).parents[2] / "docs" / "tracing.md"
    text = " ".join(page.read_text(encoding="utf-8").split())
    assert "records what its own settings say, and Sluice does not redact it" in text
