"""What went wrong with a call, as one `ModelError`: code, whether to try again, and a line that says what to do.

The server's own words are quoted, but bounded, on one line and without credentials.

Source: the runtime codes of a prompt's failure, and the rules of which failures may be tried again.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from typing import Any

from sluice.agent.ports import ModelError
from sluice.models.redact import one_line

__all__ = ["Endpoint", "NotTakenBack", "refused", "retry_after", "stream_failed", "unreachable"]

_OVERFLOW = re.compile(
    r"context[_ ]length|context[_ ](?:window|size)|maximum context|exceed_context|too many tokens|prompt is too long"
    r"|input is too long|input length and|reduce the length|maximum prompt length|tokens? limit exceeded"
    r"|input token count",
    re.IGNORECASE,
)
_MEDIA = re.compile(
    r"(?:image|media|audio|file|pdf)\b.*(?:too large|too big|exceed|too many|at most|dimension|maximum)"
    r"|(?:too large|too many|exceed\w*|maximum)\b.*(?:image|media|audio)",
    re.IGNORECASE,
)
_RATE = re.compile(r"rate[_ -]?limit|too many requests|quota|throttl", re.IGNORECASE)
_TRANSIENT = re.compile(r"overload|unavailable|timeout|timed out|server[_ ]error|internal|try again", re.IGNORECASE)

_NOT_TAKEN_BACK = re.compile(
    r"signature|(?:thinking|reasoning)\b.{0,40}\b(?:bound|modified|altered)|encrypted[_ ]content"
    r"|'reasoning'.{0,40}required|required 'reasoning'",
    re.IGNORECASE,
)
"""How services say that something of theirs came back other than they gave it."""

_BAD_REQUEST = 400
_BAD_KEY = re.compile(r"api[_ ]key[_ ](?:not valid|invalid|expired)", re.IGNORECASE)
"""How a service says 400 where others say 401."""

_REQUEST_TIMEOUT = 408
_TOO_LARGE = 413
_TOO_MANY = 429


class NotTakenBack(ModelError):
    """The service refuses the request because of something that it had made itself (see `carried`)."""


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Whom the errors are about.

    `place` is host and port; `key_name` the variable the key comes from, "" when unknown; `secrets` are the literal
    values that no text may hold.
    """

    place: str
    model: str
    provider: str = ""
    key_name: str = ""
    has_key: bool = False
    secrets: Sequence[str] = ()

    @property
    def key(self) -> str:
        """The words for the key: where a person would look for it."""
        return self.key_name or "the variable that token_key names in the agent file"


def refused(endpoint: Endpoint, status: int, headers: Mapping[str, str], body: bytes) -> ModelError:
    """The error for an answer with any status but success.

    Args:
        endpoint: who answered.
        status: the HTTP status.
        headers: the answer's headers, names in lower case or case-insensitive.
        body: as much of the body as was read.
    """
    error = _error_of(body)
    passing = status in (_REQUEST_TIMEOUT, _TOO_MANY) or status >= 500
    wait = (retry_after(headers) or _retry_delay(error)) if passing else None
    return _classified(endpoint, status, error, wait)


def stream_failed(endpoint: Endpoint, error: Any) -> ModelError:
    """The error for an error object inside an answer that began well.

    Without a status of its own it counts as a failure of the server, so it may be tried again, unless its words say
    that the request is at fault.
    """
    status = _status_in(error)
    if status is not None:
        return _classified(endpoint, status, error, None)
    words = _words(error)
    said = _said(endpoint, error)
    code = _code_by_words(words)
    if code is not None:
        return ModelError(code, f"the model server broke off the answer{said}")
    at_fault = "invalid_request" in words and not _TRANSIENT.search(words)
    return ModelError("model_error", f"the model server broke off the answer{said}", retryable=not at_fault)


def unreachable(endpoint: Endpoint, failure: str, *, retryable: bool = True) -> ModelError:
    """The error for a call that got no answer; `failure` is a phrase of ours or a system error's text."""
    reason = one_line(failure, endpoint.secrets, limit=160)
    return ModelError("model_error", f"the model server at {endpoint.place} {reason}", retryable=retryable)


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Seconds to wait, from `retry-after-ms` or `retry-after` (seconds or a date); None when neither is there."""
    milliseconds = _seconds(headers.get("retry-after-ms"))
    if milliseconds is not None:
        return milliseconds / 1000
    value = headers.get("retry-after")
    seconds = _seconds(value)
    if seconds is not None or not value:
        return seconds
    try:
        return max(0.0, parsedate_to_datetime(value).timestamp() - time.time())
    except ValueError:
        return None


def _retry_delay(error: Any) -> float | None:
    """Seconds to wait, from the details of an error of Google's (`RetryInfo`); None when they say nothing."""
    details = error.get("details") if isinstance(error, dict) else None
    for detail in details if isinstance(details, list) else ():
        if isinstance(detail, dict) and isinstance(detail.get("retryDelay"), str):
            return _seconds(detail["retryDelay"].removesuffix("s"))
    return None


def _seconds(value: str | None) -> float | None:
    try:
        seconds = float(value or "")
    except ValueError:
        return None
    # NaN and infinity compare false here, so a server cannot make us wait for ever.
    return seconds if 0 <= seconds < 1e9 else None


def _classified(endpoint: Endpoint, status: int, error: Any, wait: float | None) -> ModelError:
    words = _words(error)
    said = _said(endpoint, error)
    if status in (401, 403) or (status == _BAD_REQUEST and _BAD_KEY.search(words)):
        return ModelError("model_error", _refused_key(endpoint, status) + said, status=status)
    if status == _TOO_MANY:
        text = (
            f"the model server at {endpoint.place} allows no more requests now (HTTP 429); wait and ask again{said}"
        )
        return ModelError("rate_limited", text, retry_after=wait, status=status)
    code = _code_by_words(words) if status >= 400 else None
    if code == "media_too_large" and status >= 500:
        code = None  # a server that fails may say anything about files
    if status == _TOO_LARGE and code != "media_too_large":
        code = "request_too_large"
    if code == "rate_limited":
        code = None  # only a status or an error inside a stream says so; a 400 about quotas is not cured by waiting
    text = _failure_text(endpoint, status, code)
    transient = code is None and (status >= 500 or status == _REQUEST_TIMEOUT)
    kind = NotTakenBack if status == _BAD_REQUEST and code is None and _NOT_TAKEN_BACK.search(words) else ModelError
    return kind(code or "model_error", text + said, retryable=transient, retry_after=wait, status=status)


def _failure_text(endpoint: Endpoint, status: int, code: str | None) -> str:
    if code == "context_exceeded":
        return f"the conversation is too long for the model {endpoint.model}"
    if code == "request_too_large":
        return "the request is too large for the model server (HTTP 413); send less or smaller attachments"
    if code == "media_too_large":
        return f"an attachment is too large for the model {endpoint.model}; send a smaller one"
    if status == 404:
        return (
            f"the model server at {endpoint.place} does not know the model {endpoint.model} (HTTP 404);"
            " check the model's name and base_url"
        )
    if 300 <= status < 400:
        return f"the model server at {endpoint.place} points elsewhere (HTTP {status}); correct base_url"
    if status >= 500 or status == _REQUEST_TIMEOUT:
        return f"the model server at {endpoint.place} failed (HTTP {status})"
    return f"the model server at {endpoint.place} refused the request (HTTP {status})"


def _refused_key(endpoint: Endpoint, status: int) -> str:
    if endpoint.has_key:
        return f"the model server refused the key in {endpoint.key} (HTTP {status})"
    return f"the model server at {endpoint.place} wants a key (HTTP {status}); set {endpoint.key}"


def _code_by_words(words: str) -> str | None:
    if _OVERFLOW.search(words):
        return "context_exceeded"
    if _MEDIA.search(words):
        return "media_too_large"
    if _RATE.search(words):
        return "rate_limited"
    return None


def _error_of(body: bytes) -> Any:
    text = body.decode("utf-8", "replace")
    try:
        value = json.loads(text)
    except ValueError:
        # A page for browsers says nothing to the person who reads the error.
        return "" if text.lstrip().startswith("<") else text
    if isinstance(value, list) and value:
        value = value[0]
    if isinstance(value, dict):
        return value.get("error") or value
    return value


def _status_in(error: Any) -> int | None:
    for key in ("code", "status", "status_code"):
        value = error.get(key) if isinstance(error, dict) else None
        if isinstance(value, str) and value.isdecimal():
            value = int(value)
        if isinstance(value, int) and 400 <= value < 600:
            return value
    return None


def _words(error: Any) -> str:
    """Everything in the error that may tell its kind."""
    if not isinstance(error, dict):
        return str(error)
    return " ".join(str(error.get(key) or "") for key in ("code", "type", "param", "message", "detail"))


def _said(endpoint: Endpoint, error: Any) -> str:
    message: Any = error
    if isinstance(error, dict):
        message = error.get("message") or error.get("detail") or error.get("error") or ""
    if not isinstance(message, str):
        message = json.dumps(message)
    line = one_line(message, endpoint.secrets)
    return f": {line}" if line else ""
