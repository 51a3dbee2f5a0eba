"""What the log holds and what it never holds."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from sluice.wire.log import MAX_RECORD_CHARS, RedactingFormatter, StderrHandler, redact, set_up


@pytest.fixture(autouse=True)
def logging_as_before() -> Iterator[None]:
    root, ours = logging.getLogger(), logging.getLogger("sluice")
    before = (root.handlers[:], root.level, ours.level)
    yield
    for handler in set(root.handlers) - set(before[0]):
        handler.close()
    root.handlers[:], root.level, ours.level = before
    logging.captureWarnings(False)


@pytest.fixture
def logger() -> Iterator[logging.Logger]:
    logger = logging.Logger("test")
    yield logger
    for handler in logger.handlers:
        handler.close()


@pytest.mark.requirement("transport.logging.stderr-clean")
@pytest.mark.parametrize(
    "text",
    [
        "Authorization: Bearer SECRETSECRET",
        "{'Authorization': 'Basic SECRETSECRET'}",
        '{"authorization": "SECRETSECRET"}',
        "proxy-authorization=SECRETSECRET next",
        "sent bearer SECRETSECRET",
        "key sk-TEST-SECRET123",
        "sk-ant-api03-SECRET-SECRET",
        "OPENAI_API_KEY=SECRET",
        'api_key="SECRET with blanks"',
        '{"x-api-key": "SECRET"}',
        "client_secret: SECRET",
        "password=SECRET&user=me",
        "?access_token=SECRET&x=1",
        "ghp_SECRETSECRETSECRETSECRET",
        "https://me:SECRET@example.org/",
        "eyJhbGciSECRET.eyJzdWISECRET.SECRET",
    ],
)
def test_secrets_are_masked(text: str) -> None:
    masked = redact(f"before {text} after")
    assert "SECRET" not in masked
    assert masked.startswith("before ")
    assert masked.endswith(" after") or "&" in text


@pytest.mark.parametrize(
    "text",
    [
        "used 120 tokens: 100 in, 20 out",
        "max_tokens=100",
        "the session is busy",
        "https://example.org:80/a@b",
        "ask-me",
    ],
)
def test_what_is_no_secret_stays(text: str) -> None:
    assert redact(text) == text


@pytest.mark.requirement("transport.logging.stderr-clean")
def test_tracebacks_are_masked_and_long_records_are_cut(tmp_path: Path, logger: logging.Logger) -> None:
    handler = logging.FileHandler(tmp_path / "log", encoding="utf-8")
    handler.setFormatter(RedactingFormatter())
    logger.addHandler(handler)
    try:
        raise ValueError("token=SECRET")
    except ValueError:
        logger.exception("failed")
    logger.warning("start %s end", "x" * 1_000_000)
    text = (tmp_path / "log").read_text("utf-8")
    assert "ValueError: token=[redacted]" in text
    assert "SECRET" not in text
    assert "start x" in text
    assert text.endswith("x end\n")
    assert len(text) < 2 * MAX_RECORD_CHARS


@pytest.mark.requirement("transport.logging.stderr-clean")
def test_stderr_gets_utf8_from_our_loggers_and_only_warnings_from_others(capfd: pytest.CaptureFixture[str]) -> None:
    set_up("DEBUG")
    set_up("DEBUG")  # again: nothing is written twice
    logging.getLogger("sluice.wire").debug("ours é \ud800")
    logging.getLogger("library").info("whole message")
    logging.getLogger("library").warning("theirs")
    lines = capfd.readouterr().err.splitlines()
    assert [line.split(" ", 2)[2] for line in lines] == [
        "DEBUG sluice.wire: ours é \\ud800",
        "WARNING library: theirs",
    ]


def test_the_log_may_go_to_a_file(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    set_up(logging.INFO, tmp_path / "log")
    logging.getLogger("sluice").info("é")
    logging.getLogger("sluice").debug("hidden")
    assert (tmp_path / "log").read_text("utf-8").endswith("INFO sluice: é\n")
    assert capfd.readouterr().err == ""


def test_a_level_that_does_not_exist_is_an_error() -> None:
    with pytest.raises(ValueError, match="LOUD"):
        set_up("LOUD")


def test_a_stderr_that_nobody_reads_never_blocks(logger: logging.Logger) -> None:
    reading, writing = os.pipe()
    logger.addHandler(StderrHandler(writing))
    for _ in range(200):
        logger.warning("x" * 1000)
    first = os.read(reading, 1 << 20)
    assert b"dropped" not in first
    logger.warning("heard again")
    assert b"log records dropped: nobody read them)\nheard again\n" in os.read(reading, 1 << 20)
    os.close(reading)
    logger.warning("nobody is there any more")
    os.close(writing)
    logger.warning("and nothing at all")
