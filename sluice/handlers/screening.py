"""Does a form ask for a credential? Then it must not be a form: what is typed into one passes through the agent.

A heuristic over the words that a person would read, and the names of the fields. It is no guarantee against a tool
that means to deceive; docs/elicitation.md says so.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Mapping
from typing import Any

__all__ = ["asks_for_credential"]

_WORDS = re.compile(
    r"""(?x)
      \b(?: pass\s?words? | pass\s?wd | pwd | pass\s?phrases? | pass\s?codes? | pass\s?keys? | pin\s?codes? | pin
        | secrets? | credentials? | credenciales | o\s?auth\d? | sudo | askpass
        | api\s?keys? | (?:access|private|secret|signing|encryption|ssh|gpg|pgp|account|master|licen[cs]e)\s?keys?
        | token | (?:access|auth|authentication|authorization|refresh|bearer|api|id|session|security)\s?tokens?
        | (?:client|shared|consumer|app)\s?secrets? | jwt | bearer | cookie | session\s?ids?
        | otp | totp | mfa | 2\s?fa | two\s?factor | one\s?time\s?(?:code|password|pin)
        | (?:auth|authentication|authorization|verification|security|recovery|backup|confirmation|login|sms)\s?codes?
        | (?:seed|recovery|mnemonic)\s?(?:phrase|words?) | mnemonic | cvv | cvc
        | passwort | kennwort | contrase(?:n|ñ)a | mot\s?de\s?passe | senha | wachtwoord | (?:ло|па)роль )\b
      | 密码 | 密碼 | 口令 | パスワード | 暗証番号 | 비밀번호
    """
)
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")


def asks_for_credential(message: str, schema: Mapping[str, Any]) -> bool:
    """Whether the message, or a name, title or description in the schema, speaks of a credential.

    Args:
        message: what the person is told.
        schema: a schema that `sluice.acp.forms.check_schema` accepted.
    """
    return any(_WORDS.search(_plain(text)) for text in _texts(message, schema))


def _texts(message: str, schema: Mapping[str, Any]) -> Iterator[str]:
    yield message
    yield schema.get("title", "")
    yield schema.get("description", "")
    for name, field in schema.get("properties", {}).items():
        yield name
        yield field.get("title", "")
        yield field.get("description", "")


def _plain(text: str) -> str:
    """Words apart and in small letters: `clientSecret`, `client-secret` and `CLIENT_SECRET` are the same two."""
    text = unicodedata.normalize("NFKC", text)
    text = "".join(char for char in text if unicodedata.category(char) != "Cf")  # what hides between letters
    text = _CAMEL.sub(" ", text).lower()
    return " ".join(re.sub(r"[\W_]+", " ", text).split())
