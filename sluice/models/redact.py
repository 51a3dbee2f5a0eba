"""Keeps credentials out of texts that people, stores and logs will see.

Server messages quote what they were sent, keys included, so every text of a server passes through `one_line`
before it becomes part of an error.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from sluice.agent.redaction import MASK

__all__ = ["LIMIT", "MASK", "one_line", "redact"]

LIMIT = 300
"""The most characters of a server's own words in an error: enough for any real message, too few to flood a client."""

_SHORTEST_SECRET = 4
"""Characters; a shorter literal would mask ordinary words, and no provider issues one."""

_WORD = r"[A-Za-z0-9._~+/=*-]"
# Each pattern keeps its first group (the label) and masks the rest. Order matters: a scheme ("Bearer x") goes before
# the label that precedes it ("Authorization: Bearer x"), else only the scheme's name would be masked.
_PATTERNS = tuple(
    re.compile(pattern, re.IGNORECASE)
    for pattern in (
        rf"\b(bearer\s+|basic\s+)(?!{re.escape(MASK[1:-1])}){_WORD}{{4,}}",
        r"()\b(?:sk|pk|rk|xai|gsk|hf|nvapi|pplx|csk|fw|tgp|ghp|gho|ghu|ghs|ghr|github_pat)[-_][A-Za-z0-9_*.-]{3,}",
        r"()\b(?:AIza|AKIA|ASIA|eyJ)[A-Za-z0-9_.-]{8,}",
        r"(\b[\w-]*(?:key|token|secret|passw(?:or)?d|credential|authorization)[\"']?\s*[=:]\s*[\"']?)"
        rf"(?!\[|bearer\b|basic\b){_WORD}{{3,}}",
        r"(://)[^/\s@]+(?=@)",
    )
)
_SPACES = re.compile(r"[\s\x00-\x1f\x7f-\x9f\u2028\u2029]+")


def redact(text: str, secrets: Iterable[str] = ()) -> str:
    """`text` with the given secrets and everything that looks like a credential masked.

    Args:
        text: any text, also a server's.
        secrets: literal values to mask wherever they stand; values under four characters are passed over.
    """
    for secret in sorted(secrets, key=len, reverse=True):
        if len(secret) >= _SHORTEST_SECRET:
            text = text.replace(secret, MASK)
    for pattern in _PATTERNS:
        text = pattern.sub(rf"\g<1>{MASK}", text)
    return text


def one_line(text: str, secrets: Iterable[str] = (), limit: int = LIMIT) -> str:
    """`text` redacted, on one line without control characters, and at most `limit` characters long.

    Redaction comes before the cut, so that no cut leaves half a credential that is no longer recognised.
    """
    line = _SPACES.sub(" ", redact(text, secrets)).strip()
    return line if len(line) <= limit else line[: limit - 1].rstrip() + "…"
