"""A models gateway in place of the providers."""

from __future__ import annotations

import pytest

from sluice.config.gateway import GATEWAY, LOGIN
from sluice.config.models import MissingCredentials, ModelUnavailable, missing_credentials, resolve, selectable
from sluice.config.providers import PROVIDERS
from tests.config.support import read

pytestmark = pytest.mark.requirement("models.gateway.replaces-endpoints")

FILE = """
agents: {root: {model: openai/x}}
models:
  own: {provider: anthropic, model: x, base_url: 'https://own.example', token_key: OWN}
  round: {provider: anthropic, model: x, bypass_models_gateway: true}
  plain: {provider: mistral, model: x, token_key: OWN}
providers:
  house: {base_url: 'https://house.example/v1'}
  work: {provider: anthropic, token_key: OWN}
  new: {provider: openai, api_type: openai_responses}
"""
ENV = {
    GATEWAY: "https://gw.example/models/",
    LOGIN: "login",
    "ANTHROPIC_API_KEY": "a",
    "OPENAI_API_KEY": "o",
    "OWN": "own",
    "OPENAI_BASE_URL": "https://elsewhere",
}


@pytest.mark.parametrize(
    ("ref", "base_url", "key", "key_name", "behind"),
    [
        ("openai/x", "https://gw.example/models/v1", "login", LOGIN, "openai"),
        ("groq/x", "https://gw.example/models/v1", "login", LOGIN, "groq"),
        ("anthropic/x", "https://gw.example/models", "login", LOGIN, "anthropic"),
        ("google/x", "https://gw.example/models/v1beta", "login", LOGIN, "google"),
        ("plain", "https://gw.example/models/v1", "login", LOGIN, "mistral"),
        ("work/x", "https://gw.example/models", "login", LOGIN, "anthropic"),
        ("new/x", "https://gw.example/models/v1", "login", LOGIN, "openai"),
        ("own", "https://own.example", "own", "OWN", ""),
        ("house/x", "https://house.example/v1", None, "", ""),
        ("round", "https://api.anthropic.com", "a", "ANTHROPIC_API_KEY", ""),
        ("ollama/x", PROVIDERS["ollama"].base_url, None, "", ""),
    ],
)
def test_it_stands_for_every_provider_that_wants_a_key(
    ref: str, base_url: str, key: str | None, key_name: str, behind: str
) -> None:
    found = resolve(read(FILE), ref, ENV)
    assert (found.base_url, found.key, found.key_name, found.behind_gateway) == (base_url, key, key_name, behind)


def test_without_its_login_credentials_are_missing() -> None:
    env = {**ENV, LOGIN: " "}
    with pytest.raises(MissingCredentials) as caught:
        resolve(read(FILE), "openai/x", env)
    assert caught.value.variables == missing_credentials(read(FILE), env) == (LOGIN,)
    assert LOGIN in caught.value.text and "gw.example" not in caught.value.text
    assert selectable(read(FILE), env) == ("own", "round")


def test_auto_goes_through_it_with_its_login_alone() -> None:
    found = resolve(read(FILE), "auto", {GATEWAY: "http://gw", LOGIN: "login"})
    assert (found.provider, found.base_url) == ("anthropic", "http://gw")


@pytest.mark.parametrize("address", ["gw.example", "ftp://gw", "http://[", "https://"])
def test_an_address_that_is_none_is_said_by_its_variable_and_not_shown(address: str) -> None:
    with pytest.raises(ModelUnavailable) as caught:
        resolve(read(FILE), "openai/x", {**ENV, GATEWAY: address})
    assert caught.value.message == f"the variable {GATEWAY} is no http or https URL"
