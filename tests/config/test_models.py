from __future__ import annotations

import re
from pathlib import Path

import pytest

from sluice.config.models import (
    MissingCredentials,
    ModelUnavailable,
    ResolvedModel,
    missing_credentials,
    missing_text,
    resolve,
    resolve_all,
    selectable,
)
from sluice.config.providers import AUTO_ORDER, NOT_BUILT, PROVIDERS
from sluice.config.schema import Cost
from sluice.config.weights import MODELS_DIR, WEIGHTS
from tests.config.support import MINIMAL, error, read

SECRET = "sk-hush-hush"
LOCAL_MISSING = "the weights of local/0.5b are not on this machine; fetch them with `sluice model pull 0.5b`"


def pretend(directory: Path, weights: str) -> None:
    """A file of the right name and size, which takes no room on the disk."""
    with (directory / WEIGHTS[weights].file).open("wb") as file:
        file.truncate(WEIGHTS[weights].size)


def resolved(text: str, ref: str, **env: str) -> ResolvedModel:
    return resolve(read(text), ref, env)


def one_model(*lines: str) -> str:
    return "agents: {root: {model: m}}\nmodels:\n  m:\n" + "".join(f"    {line}\n" for line in lines)


@pytest.mark.requirement("models.ref.forms")
def test_a_reference_of_provider_and_model_goes_to_the_providers_own_address() -> None:
    found = resolved(MINIMAL, "openai/gpt", OPENAI_API_KEY=SECRET)
    assert (found.provider, found.model, found.api) == ("openai", "gpt", "openai_chatcompletions")
    assert (found.base_url, found.key, found.ref) == ("https://api.openai.com/v1", SECRET, "openai/gpt")
    assert resolved(MINIMAL, "openrouter/a/b:free", OPENROUTER_API_KEY="k").model == "a/b:free"


def test_a_named_model_brings_its_options() -> None:
    found = resolved(one_model("provider: openai", "model: gpt", "temperature: 0.1"), "m", OPENAI_API_KEY="k")
    assert (found.model, found.options.name, found.options.temperature) == ("gpt", "m", 0.1)


@pytest.mark.requirement("models.credentials.missing-named")
def test_no_repr_and_no_error_shows_a_key() -> None:
    assert SECRET not in repr(resolved(MINIMAL, "openai/gpt", OPENAI_API_KEY=SECRET))
    file = read(one_model("provider: cloudflare-workers-ai", "model: x"))
    env = {"CLOUDFLARE_API_TOKEN": SECRET}
    with pytest.raises(MissingCredentials) as caught:
        resolve(file, "m", env)
    assert caught.value.variables == missing_credentials(file, env) == ("CLOUDFLARE_ACCOUNT_ID",)
    assert SECRET not in caught.value.text + missing_text(file, env)


@pytest.mark.parametrize("value", ["", "  ", "\n"])
def test_a_blank_key_is_a_missing_key_and_blanks_around_one_are_dropped(value: str) -> None:
    with pytest.raises(MissingCredentials):
        resolved(MINIMAL, "openai/gpt", OPENAI_API_KEY=value)
    assert resolved(MINIMAL, "openai/gpt", OPENAI_API_KEY=f" {SECRET}\n").key == SECRET


@pytest.mark.requirement("models.providers.aliases")
@pytest.mark.parametrize("name", sorted(set(PROVIDERS) - {"scripted", "local", "azure"}))
def test_each_alias_has_an_address_and_a_key_of_its_own(name: str) -> None:
    env = {row.key: f"key-of-{row.key}" for row in PROVIDERS.values() if row.key is not None}
    found = resolve(read(MINIMAL), f"{name}/x", {**env, "CLOUDFLARE_ACCOUNT_ID": "a", "CLOUDFLARE_GATEWAY_ID": "g"})
    key = PROVIDERS[name].key
    assert found.key == (f"key-of-{key}" if key else None)
    assert found.base_url is not None
    assert found.base_url.startswith(("https://", "http://localhost:"))
    assert "$" not in found.base_url


def test_account_addresses_are_filled_in() -> None:
    env = {"CLOUDFLARE_API_TOKEN": "t", "CLOUDFLARE_ACCOUNT_ID": "acc", "CLOUDFLARE_GATEWAY_ID": "gw"}
    found = resolve(read(MINIMAL), "cloudflare-ai-gateway/x", env)
    assert found.base_url == "https://gateway.ai.cloudflare.com/v1/acc/gw/compat"
    with pytest.raises(MissingCredentials) as caught:
        resolve(read(MINIMAL), "cloudflare-ai-gateway/x", {})
    assert caught.value.variables == ("CLOUDFLARE_API_TOKEN", "CLOUDFLARE_ACCOUNT_ID", "CLOUDFLARE_GATEWAY_ID")


def test_azure_takes_its_address_from_the_file_and_its_key_from_its_variable() -> None:
    text = one_model("provider: azure", "model: x", "base_url: https://r.example/openai")
    assert resolved(text, "m", AZURE_API_KEY="k").key == "k"
    assert missing_credentials(read(text), {}) == ("AZURE_API_KEY",)


@pytest.mark.requirement("models.providers.scripted-fake")
def test_a_scripted_model_needs_nothing() -> None:
    text = one_model("provider: scripted", "model: s1", "provider_opts: {script: s.yaml}")
    found = resolve(read(text, path="dir/agent.yaml"), "m", {})
    assert (found.api, found.base_url, found.key, found.ref) == ("scripted", None, None, "scripted/s1")
    assert (found.options.provider_opts, found.file, found.directory) == (
        {"script": "s.yaml"},
        "dir/agent.yaml",
        "dir",
    )
    assert missing_credentials(read(text), {}) == ()


# --- base_url and token_key --------------------------------------------------------------------------------------


def test_an_address_in_the_file_gets_the_key_that_the_file_names_or_none() -> None:
    lines = ("provider: openai", "model: x", "base_url: http://h/v1")
    own = resolved(one_model(*lines), "m", OPENAI_API_KEY=SECRET)
    assert (own.base_url, own.key) == ("http://h/v1", None)
    named = resolved(one_model(*lines, "token_key: MINE"), "m", OPENAI_API_KEY=SECRET, MINE="k")
    assert (named.base_url, named.key) == ("http://h/v1", "k")
    assert missing_credentials(read(one_model(*lines)), {}) == ()
    assert missing_credentials(read(one_model(*lines, "token_key: MINE")), {"OPENAI_API_KEY": SECRET}) == ("MINE",)


def test_token_key_alone_replaces_the_variable_and_keeps_the_address() -> None:
    found = resolved(
        one_model("provider: mistral", "model: x", "token_key: MINE"), "m", MINE="k", MISTRAL_API_KEY="no"
    )
    assert (found.base_url, found.key) == ("https://api.mistral.ai/v1", "k")


@pytest.mark.parametrize("key", [None, SECRET])
def test_openai_base_url_replaces_the_address_and_the_need_for_a_key(key: str | None) -> None:
    env = {"OPENAI_BASE_URL": " http://127.0.0.1:1/v1 ", **({"OPENAI_API_KEY": key} if key else {})}
    file = read(one_model("provider: openai", "model: x"))
    found = resolve(file, "m", env)
    assert (found.base_url, found.key) == ("http://127.0.0.1:1/v1", key)
    assert missing_credentials(file, env) == ()


def test_openai_base_url_is_for_openai_only_and_a_written_address_ranks_above_it() -> None:
    env = {"OPENAI_BASE_URL": "http://other/v1", "MISTRAL_API_KEY": "k", "OPENAI_API_KEY": SECRET}
    assert resolve(read(MINIMAL), "mistral/x", env).base_url == "https://api.mistral.ai/v1"
    written = resolve(read(one_model("provider: openai", "model: x", "base_url: http://h/v1")), "m", env)
    assert (written.base_url, written.key) == ("http://h/v1", None)
    assert resolve(read(MINIMAL), "openai/x", {**env, "OPENAI_BASE_URL": ""}).base_url == "https://api.openai.com/v1"


@pytest.mark.requirement("models.providers.custom")
def test_a_provider_entry_gives_address_key_and_defaults_and_the_model_ranks_above_it() -> None:
    text = """
        agents: {root: {model: house/large}}
        providers:
          house:
            base_url: https://house/v1
            token_key: HOUSE
            temperature: 0.7
            max_tokens: 10
            provider_opts: {a: 1, b: 1}
        models:
          own: {provider: house, model: x, temperature: 0, base_url: "http://own/v1", provider_opts: {b: 2}}
        """
    direct = resolved(text, "house/large", HOUSE="k")
    assert (direct.ref, direct.base_url, direct.key) == ("house/large", "https://house/v1", "k")
    assert (direct.options.temperature, direct.options.max_tokens) == (0.7, 10)
    own = resolved(text, "own", HOUSE="k")
    assert (own.base_url, own.key) == ("http://own/v1", "k")
    assert (own.options.temperature, own.options.max_tokens) == (0.0, 10)
    assert own.options.provider_opts == {"a": 1, "b": 2}
    assert missing_credentials(read(text), {}) == ("HOUSE",)


def test_a_provider_entry_without_address_goes_to_the_provider_it_stands_for() -> None:
    text = MINIMAL + "providers: {work: {provider: mistral, token_key: WORK}}\n"
    found = resolved(text, "work/x", WORK="k")
    assert (found.provider, found.base_url, found.key) == ("work", "https://api.mistral.ai/v1", "k")


# --- auto --------------------------------------------------------------------------------------------------------


@pytest.mark.requirement("models.ref.auto")
def test_auto_takes_the_first_provider_of_the_order_that_has_a_key() -> None:
    keys = {provider: PROVIDERS[provider].key or "" for provider, _ in AUTO_ORDER}
    remaining = dict.fromkeys(keys.values(), "k")
    assert [provider for provider, _ in AUTO_ORDER][:3] == ["anthropic", "openai", "google"]
    for provider, model in AUTO_ORDER:
        assert resolve(read(MINIMAL), "auto", remaining).ref == f"{provider}/{model}"
        del remaining[keys[provider]]
    with pytest.raises(MissingCredentials) as caught:
        resolve(read(MINIMAL), "auto", {})
    assert caught.value.variables == missing_credentials(read(MINIMAL), {}) == tuple(keys.values())
    wanted = f"set one of {', '.join(keys.values())}, or fetch a model for this machine with `sluice model pull`"
    assert wanted in caught.value.text
    assert missing_text(read(MINIMAL), {}) == f"credentials are missing: {wanted} (model auto)"


def test_auto_takes_openai_at_the_address_of_its_variable_without_a_key() -> None:
    assert (
        resolve(read(MINIMAL), "auto", {"OPENAI_BASE_URL": "http://h/v1", "MISTRAL_API_KEY": "k"}).provider
        == "openai"
    )


def test_auto_passes_over_a_name_that_the_file_gives_to_something_not_built() -> None:
    text = MINIMAL + "providers: {openai: {provider: amazon-bedrock}}\n"
    assert resolved(text, "auto", MISTRAL_API_KEY="k").provider == "mistral"


def test_a_model_called_auto_is_the_files_own() -> None:
    text = "agents: {root: {model: auto}}\nmodels: {auto: {provider: openai, model: x}}\n"
    assert resolved(text, "auto", OPENAI_API_KEY="k").model == "x"
    assert missing_credentials(read(text), {"MISTRAL_API_KEY": "k"}) == ("OPENAI_API_KEY",)


@pytest.mark.requirement("auth.authenticate.no-model-swap")
def test_a_configured_model_is_never_replaced_by_one_that_has_a_key() -> None:
    file = read("agents: {root: {model: mistral/x}}")
    with pytest.raises(MissingCredentials):
        resolve(file, "mistral/x", {"OPENAI_API_KEY": "k", "DEEPSEEK_API_KEY": "k"})


# --- the embedded model ------------------------------------------------------------------------------------------


@pytest.mark.requirement("models.ref.auto")
def test_auto_without_a_key_takes_the_largest_weights_that_are_there(tmp_path: Path) -> None:
    env = {MODELS_DIR: str(tmp_path)}
    with pytest.raises(MissingCredentials):
        resolve(read(MINIMAL), "auto", env)
    pretend(tmp_path, "0.5b")
    assert resolve(read(MINIMAL), "auto", env).ref == "local/0.5b"
    assert missing_credentials(read(MINIMAL), env) == () and missing_text(read(MINIMAL), env) == ""
    pretend(tmp_path, "1.5b")
    assert resolve(read(MINIMAL), "auto", env).ref == "local/1.5b"
    assert resolve(read(MINIMAL), "auto", {**env, "DEEPSEEK_API_KEY": "k"}).provider == "deepseek"


def test_local_is_the_largest_weights_that_are_there_or_those_that_are_named(tmp_path: Path) -> None:
    env = {MODELS_DIR: str(tmp_path)}
    pretend(tmp_path, "0.5b")
    pretend(tmp_path, "1.5b")
    file = read("agents: {root: {model: local}}")
    assert file.warnings == ()
    assert resolve(file, "local", env).model == "1.5b"
    found = resolve(file, "local/0.5b", env)
    assert (found.ref, found.api, found.base_url, found.key) == ("local/0.5b", "local", None, None)
    assert Path(found.weights) == tmp_path / WEIGHTS["0.5b"].file
    assert found.options.cost == Cost()


def test_a_file_of_another_size_is_not_the_weights(tmp_path: Path) -> None:
    (tmp_path / WEIGHTS["0.5b"].file).write_bytes(b"GGUF")
    with pytest.raises(ModelUnavailable, match=re.escape("`sluice model pull 0.5b`")):
        resolve(read("agents: {root: {model: local}}"), "local", {MODELS_DIR: str(tmp_path)})


def test_an_entry_called_local_is_somebodys_server() -> None:
    text = "agents: {root: {model: local/llama}}\nproviders: {local: {base_url: 'http://localhost:1234/v1'}}\n"
    found = resolved(text, "local/llama")
    assert (found.api, found.base_url, found.model) == ("openai_chatcompletions", "http://localhost:1234/v1", "llama")


def test_a_model_entry_names_weights_and_their_window(tmp_path: Path) -> None:
    pretend(tmp_path, "0.5b")
    entry = "{provider: local, model: 0.5b, provider_opts: {context_size: 4096}}"
    file = read(f"agents: {{root: {{model: small}}}}\nmodels: {{small: {entry}}}\n")
    found = resolve(file, "small", {MODELS_DIR: str(tmp_path)})
    assert (found.ref, found.options.context_size) == ("local/0.5b", 4096)


def test_weights_that_do_not_exist_are_an_error_at_load() -> None:
    message = 'unknown local model "7b"; there are 0.5b and 1.5b'
    assert error("agents: {root: {model: local/7b}}").message == message
    assert error("agents: {root: {model: m}}\nmodels: {m: {provider: local, model: 7b}}").message == message


def test_the_parts_are_the_whole() -> None:
    for weights in WEIGHTS.values():
        assert sum(part.size for part in weights.parts) == weights.size
        assert len({part.sha256 for part in weights.parts}) == len(weights.parts)
        assert weights.url.endswith(weights.file)


# --- not usable --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("provider", sorted(NOT_BUILT))
def test_a_provider_that_is_not_built_is_an_error_when_it_is_needed(provider: str) -> None:
    file = read(f"agents:\n  root:\n    model: {provider}/x\n")
    with pytest.raises(ModelUnavailable) as caught:
        resolve(file, f"{provider}/x", {})
    assert f"provider {provider} is not built yet; use openai" in caught.value.message
    assert (caught.value.file, caught.value.line, caught.value.key) == ("agent.yaml", 2, "agents.root.model")
    assert missing_credentials(file, {}) == ()
    assert missing_text(file, {}) == ""


@pytest.mark.parametrize(
    ("ref", "line", "message"),
    [
        ("multi", 3, "provider amazon-bedrock is not built yet; use openai or another OpenAI-compatible provider"),
        ("alloy", 4, "alloy names several models; name one"),
        ("fast,multi", None, "fast,multi names several models; name one"),
        ("local", None, LOCAL_MISSING),
        ("local/1.5b", None, LOCAL_MISSING.replace("0.5b", "1.5b")),
        ("local/2b", None, 'unknown local model "2b"; there are 0.5b and 1.5b'),
        ("fst", None, 'unknown model "fst"; did you mean "fast"?'),
        ("", None, 'unknown model ""; the agent file has no such model'),
        ("openai/", None, 'unknown model "openai/"; the agent file has no such model'),
        ("opnai/x", None, 'unknown provider "opnai"; did you mean "openai"?'),
        ("azure/x", None, 'provider "azure" needs a base_url'),
    ],
)
def test_a_reference_that_no_session_can_use_says_why(ref: str, line: int | None, message: str) -> None:
    file = read(
        "agents: {root: {model: fast}}\nmodels:\n  multi: {first_available: [amazon-bedrock/x]}\n"
        "  alloy: {model: 'openai/a,openai/b'}\n  fast: {provider: scripted, model: s}\n"
    )
    with pytest.raises(ModelUnavailable) as caught:
        resolve(file, ref, {})
    assert (caught.value.ref, caught.value.line, caught.value.message) == (ref, line, message)


def test_what_is_missing_is_named_once_in_the_order_of_the_agents() -> None:
    file = read(
        """
        agents:
          a: {model: mistral/x}
          b: {model: openai/x}
          c: {model: mistral/y}
          d: {model: ollama/x}
          e: {model: amazon-bedrock/x}
          f: {model: unused_elsewhere}
        models:
          unused_elsewhere: {provider: scripted, model: s}
          unused: {provider: groq, model: x}
        """
    )
    assert missing_credentials(file, {}) == ("MISTRAL_API_KEY", "OPENAI_API_KEY")
    assert missing_text(file, {"OPENAI_API_KEY": SECRET}) == (
        "credentials are missing: set MISTRAL_API_KEY (model mistral/x); MISTRAL_API_KEY (model mistral/y)"
    )


@pytest.mark.requirement("models.providers.gemini", "models.credentials.missing-named")
def test_one_of_two_variables_is_enough_for_google_and_the_first_counts() -> None:
    google = resolved(MINIMAL, "google/x", GEMINI_API_KEY="second")
    assert (google.api, google.key, google.key_name) == ("gemini", "second", "GEMINI_API_KEY")
    assert resolved(MINIMAL, "google/x", GEMINI_API_KEY="second", GOOGLE_API_KEY="first").key == "first"
    assert resolved(MINIMAL, "auto", GEMINI_API_KEY="k").provider == "google"
    with pytest.raises(MissingCredentials) as caught:
        resolved(MINIMAL, "google/x")
    assert caught.value.variables == ("GOOGLE_API_KEY",)


@pytest.mark.requirement("models.providers.openai-responses")
def test_the_api_is_that_of_the_entry_else_that_of_the_provider() -> None:
    entries = (
        "providers: {openai: {api_type: openai_responses},"
        " house: {base_url: 'http://h/v1', api_type: openai_responses},"
        " plain: {base_url: 'http://h/v1'}, chat: {provider: openai, api_type: openai_chatcompletions}}\n"
    )
    keys = {"OPENAI_API_KEY": "k", "ANTHROPIC_API_KEY": "k"}
    found = {
        ref: resolve(read(MINIMAL + entries), f"{ref}/x", keys).api
        for ref in ("openai", "house", "plain", "chat", "anthropic")
    }
    assert found == {
        "openai": "openai_responses",
        "house": "openai_responses",
        "plain": "openai_chatcompletions",
        "chat": "openai_chatcompletions",
        "anthropic": "anthropic",
    }


# --- several models ----------------------------------------------------------------------------------------------

CHOICES = """
agents: {root: {model: MODEL}}
models:
  fast: {provider: openai, model: a}
  strong: {provider: mistral, model: b}
  both: {model: 'fast, strong'}
  nested: {model: 'both,fast,groq/c'}
  first: {first_available: [strong, fast, ollama/x]}
  keyed: {first_available: [strong, fast]}
  far: {first_available: [amazon-bedrock/x, keyed]}
"""


@pytest.mark.requirement("models.ref.alloy", "models.ref.forms")
@pytest.mark.parametrize(
    ("ref", "members"),
    [
        ("fast,strong", ["openai/a", "mistral/b"]),
        ("both", ["openai/a", "mistral/b"]),
        ("nested", ["openai/a", "mistral/b", "groq/c"]),
        ("fast , fast", ["openai/a"]),
        ("fast", ["openai/a"]),
    ],
)
def test_an_alloy_is_all_of_its_members_each_once(ref: str, members: list[str]) -> None:
    env = {"OPENAI_API_KEY": "k", "MISTRAL_API_KEY": "k", "GROQ_API_KEY": "k"}
    assert [found.ref for found in resolve_all(read(CHOICES.replace("MODEL", "fast")), ref, env)] == members


@pytest.mark.requirement("models.ref.alloy", "models.credentials.missing-named")
def test_an_alloy_needs_the_credentials_of_every_member() -> None:
    file = read(CHOICES.replace("MODEL", "nested"))
    assert missing_credentials(file, {}) == ("OPENAI_API_KEY", "MISTRAL_API_KEY", "GROQ_API_KEY")
    assert missing_credentials(file, {"MISTRAL_API_KEY": "k"}) == ("OPENAI_API_KEY", "GROQ_API_KEY")
    assert missing_text(file, {"OPENAI_API_KEY": SECRET, "MISTRAL_API_KEY": "k"}) == (
        "credentials are missing: set GROQ_API_KEY (model groq/c)"
    )
    with pytest.raises(MissingCredentials) as caught:
        resolve_all(file, "nested", {})
    assert caught.value.variables == ("OPENAI_API_KEY", "MISTRAL_API_KEY", "GROQ_API_KEY")
    assert "both" not in selectable(file, {"OPENAI_API_KEY": "k"})
    assert "both" in selectable(file, {"OPENAI_API_KEY": "k", "MISTRAL_API_KEY": "k"})


@pytest.mark.requirement("models.ref.first-available")
def test_first_available_takes_the_first_whose_credentials_exist() -> None:
    file = read(CHOICES.replace("MODEL", "first"))
    assert resolve(file, "first", {"OPENAI_API_KEY": "k", "MISTRAL_API_KEY": "k"}).ref == "mistral/b"
    assert resolve(file, "first", {"OPENAI_API_KEY": "k"}).ref == "openai/a"
    assert resolve(file, "first", {}).ref == "ollama/x"
    assert missing_credentials(file, {}) == ()
    assert resolve(file, "far", {"OPENAI_API_KEY": "k", "AWS_BEARER_TOKEN_BEDROCK": "k"}).ref == "openai/a"


@pytest.mark.requirement("models.ref.first-available", "models.credentials.missing-named")
def test_first_available_without_any_key_says_that_one_would_do() -> None:
    file = read(CHOICES.replace("MODEL", "far"))
    assert missing_credentials(file, {}) == ("MISTRAL_API_KEY", "OPENAI_API_KEY")
    assert missing_text(file, {}) == "credentials are missing: set one of MISTRAL_API_KEY, OPENAI_API_KEY (model far)"


def test_a_fallback_without_a_key_is_not_missing_for_it_is_only_left_out() -> None:
    assert missing_credentials(read("agents: {root: {model: ollama/x, fallback: {models: [openai/x]}}}"), {}) == ()


def test_a_resolved_model_names_the_variable_of_its_key_and_none_when_none_is_sent() -> None:
    text = """
        agents: {root: {model: house/x}}
        providers: {house: {base_url: "http://h/v1", token_key: HOUSE}, open: {base_url: "http://o/v1"}}
        """
    assert resolved(text, "house/x", HOUSE="k").key_name == "HOUSE"
    assert resolved(text, "open/x", OPENAI_API_KEY="k").key_name == ""
    assert resolved(text, "openai/x", OPENAI_API_KEY="k").key_name == "OPENAI_API_KEY"
    assert resolved(text, "ollama/x").key_name == ""


@pytest.mark.requirement("models.providers.aliases")
@pytest.mark.parametrize(
    ("env", "address"),
    [
        ({}, "http://localhost:12434/engines/v1"),
        (
            {"MODEL_RUNNER_HOST": "http://model-runner.docker.internal/"},
            "http://model-runner.docker.internal/engines/v1",
        ),
    ],
)
def test_the_model_runner_needs_no_key_and_its_host_can_be_named(env: dict[str, str], address: str) -> None:
    found = resolved(MINIMAL, "dmr/ai/qwen3", **env)
    assert (found.base_url, found.key, found.model) == (address, None, "ai/qwen3")
