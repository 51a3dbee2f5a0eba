"""The screening of forms for credentials."""

from __future__ import annotations

import pytest

from sluice.handlers.screening import asks_for_credential

SECRETS = [
    *(
        "api_key",
        "apiKey",
        "APIKey",
        "OPENAI_API_KEY",
        "Password",
        "Enter your pass\u00adword",
        "client-secret",
        "otp",
    ),
    *("GitHub access token", "token", "The verification code", "PIN", "sudo", "OAuth2 login", "passphrase"),
    *("Contraseña", "пароль", "密码を入力", "ｐａｓｓｗｏｒｄ", "private key", "one-time code", "session id", "CVV"),
]
HARMLESS = [
    *(
        "Your name",
        "max_tokens",
        "How many tokens?",
        "zip code",
        "country code",
        "pineapple",
        "keyboard",
        "secretary",
    ),
    *("passport number", "session", "key", "compass", "Which authors?"),
]


@pytest.mark.requirement("elicitation.secrets.form-declined", "auth.method.no-secret-accepted")
@pytest.mark.parametrize("words", SECRETS)
def test_words_for_a_credential_are_found_wherever_a_person_reads_them(words: str) -> None:
    assert asks_for_credential(words, {})
    assert asks_for_credential("", {"title": words})
    assert asks_for_credential("", {"description": words})
    for properties in ({words: {"title": ""}}, {"f": {"title": words}}, {"f": {"description": words}}):
        assert asks_for_credential("", {"properties": properties})


@pytest.mark.parametrize("words", HARMLESS)
def test_harmless_words_are_left_alone(words: str) -> None:
    assert not asks_for_credential(words, {"title": words, "properties": {words: {"title": words}}})
