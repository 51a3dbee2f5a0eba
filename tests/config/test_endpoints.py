import pytest

from sluice.config.keys import KNOWN_NOT_BUILT
from sluice.config.providers import NOT_BUILT, PROVIDERS
from sluice.config.schema import Capabilities, Cost
from tests.config.support import MINIMAL, error, read, warnings


def model(*written: str) -> str:
    return MINIMAL + "models:\n  m:\n" + "".join(f"    {line}\n" for line in written)


def test_every_option_of_a_model_is_read() -> None:
    found = read(
        model(
            "provider: openai",
            "model: gpt",
            "description: d",
            "base_url: https://h.example/v1",
            "token_key: KEY_${env.X}",
            "temperature: 0.5",
            "max_tokens: 100",
            "top_p: 1",
            "frequency_penalty: -2",
            "presence_penalty: 2",
            "parallel_tool_calls: false",
            "provider_opts: {context_size: 8000, extra_body: {a: [1, null], b: null}}",
            "capabilities: {image: true, pdf: false}",
            "cost: {input: 1, output: 2.5}",
        )
    ).models["m"]
    assert (found.name, found.provider, found.model, found.line) == ("m", "openai", "gpt", 5)
    assert (found.base_url, found.token_key) == ("https://h.example/v1", "KEY_${env.X}")
    assert (found.temperature, found.max_tokens, found.top_p) == (0.5, 100, 1.0)
    assert (found.frequency_penalty, found.presence_penalty, found.parallel_tool_calls) == (-2.0, 2.0, False)
    assert (found.context_size, found.provider_opts["extra_body"]) == (8000, {"a": (1, None), "b": None})
    assert found.capabilities == Capabilities(image=True, pdf=False)
    assert found.cost == Cost(1.0, 2.5)


@pytest.mark.requirement("models.options.sampling")
def test_what_is_not_set_stays_unset() -> None:
    found = read(model("provider: openai", "model: gpt")).models["m"]
    assert (found.temperature, found.max_tokens, found.top_p, found.parallel_tool_calls) == (None, None, None, None)
    assert (found.cost, found.context_size, found.thinking_budget) == (None, None, None)


@pytest.mark.requirement("config-file.expand.token-key-literal")
def test_token_key_is_a_name_and_never_expanded() -> None:
    found = read(model("provider: openai", "model: gpt", "token_key: ${env.SECRET}"), {"SECRET": "value"}).models["m"]
    assert found.token_key == "${env.SECRET}"


@pytest.mark.parametrize("budget", ["0", "2048", "-1", "none", "minimal", "xhigh", "adaptive", "adaptive/high"])
def test_a_thinking_budget_is_tokens_or_an_effort(budget: str) -> None:
    found = read(model("provider: openai", "model: gpt", f"thinking_budget: {budget}")).models["m"]
    assert str(found.thinking_budget) == budget


def test_the_repr_of_a_model_shows_no_headers() -> None:
    found = read(model("provider: openai", "model: g", "provider_opts: {http_headers: {Authorization: Bearer hush}}"))
    assert "hush" not in repr(found)


@pytest.mark.parametrize(
    ("written", "line", "key", "message"),
    [
        (["model: x"], 5, "provider", "a model needs a provider"),
        (["provider: openai"], 5, "model", "a model needs the provider's name for it"),
        (["provider: opnai", "model: x"], 6, "provider", 'unknown provider "opnai"; did you mean "openai"?'),
        (["provider: azure", "model: x"], 5, "base_url", 'provider "azure" needs a base_url'),
        (["provider: openai", "model: x", "base_url: localhost:80"], 8, "base_url", "expected an http or https URL"),
        (["provider: openai", "model: x", "base_url: 'http://'"], 8, "base_url", "expected an http or https URL"),
        (["provider: openai", "model: x", "base_url: 'http://[x'"], 8, "base_url", "expected an http or https URL"),
        (["provider: openai", "model: x", "base_url: ''"], 8, "base_url", "expected text that is not empty"),
        (["provider: openai", "model: x", "base_url: '${U}'"], 8, "base_url", "the variable U is not set"),
        (["provider: openai", "model: x", "temperature: hot"], 8, "temperature", 'expected a number, got "hot"'),
        (
            ["provider: openai", "model: x", "temperature: 3"],
            8,
            "temperature",
            "expected a number <= 2.0, got the number 3",
        ),
        (
            ["provider: openai", "model: x", "top_p: -0.1"],
            8,
            "top_p",
            "expected a number >= 0.0, got the number -0.1",
        ),
        (
            ["provider: openai", "model: x", "max_tokens: 0"],
            8,
            "max_tokens",
            "expected a whole number >= 1, got the number 0",
        ),
        (
            ["provider: openai", "model: x", "max_tokens: 1.5"],
            8,
            "max_tokens",
            "expected a whole number, got the number 1.5",
        ),
        (
            ["provider: openai", "model: x", "cost: {input: -1}"],
            8,
            "cost.input",
            "expected a number >= 0.0, got the number -1",
        ),
        (
            ["provider: openai", "model: x", "capabilities: [image]"],
            8,
            "capabilities",
            "expected a mapping, got a list",
        ),
        (
            ["provider: openai", "model: x", "provider_opts: 5"],
            8,
            "provider_opts",
            "expected a mapping, got the number 5",
        ),
    ],
)
def test_what_is_wrong_with_a_model_is_named(written: list[str], line: int, key: str, message: str) -> None:
    found = error(model(*written))
    assert (found.line, found.key, found.message) == (line, f"models.m.{key}", message)


def test_a_wrong_effort_lists_the_right_ones() -> None:
    found = error(model("provider: openai", "model: x", "thinking_budget: hihg"))
    assert (found.line, found.key) == (8, "models.m.thinking_budget")
    assert found.message.endswith('got "hihg"; did you mean "high"?')
    assert "a whole number" in error(model("provider: openai", "model: x", "thinking_budget: 1.5")).message


@pytest.mark.parametrize("key", sorted(KNOWN_NOT_BUILT["models.*"]))
def test_each_known_model_key_that_is_not_built_gives_one_warning(key: str) -> None:
    assert [(line, name) for line, name, _ in warnings(model("provider: openai", "model: x", f"{key}: []"))] == [
        (8, f"models.m.{key}")
    ]


@pytest.mark.parametrize("key", sorted(KNOWN_NOT_BUILT["providers.*"]))
def test_each_known_provider_key_that_is_not_built_gives_one_warning(key: str) -> None:
    found = warnings(MINIMAL + f"providers:\n  p:\n    {key}: x\n")
    assert [(line, name) for line, name, _ in found] == [(6, f"providers.p.{key}")]


@pytest.mark.parametrize("provider", sorted(NOT_BUILT))
def test_a_provider_that_is_not_built_is_a_warning_at_its_line(provider: str) -> None:
    expected = f'provider "{provider}" is known but not built yet; sessions that need it will fail'
    assert warnings(model(f"provider: {provider}", "model: x")) == [(6, "models.m.provider", expected)]
    by_reference = MINIMAL.replace("auto", f"{provider}/x")
    assert warnings(by_reference) == [(3, "agents.root.model", expected)]
    assert warnings(f"{MINIMAL}providers:\n  p:\n    provider: {provider}\n") == [
        (6, "providers.p.provider", expected)
    ]


@pytest.mark.requirement("models.providers.custom")
def test_a_provider_entry_stands_for_openai_unless_it_says_otherwise() -> None:
    file = read(
        MINIMAL
        + "providers:\n  house: {base_url: 'http://h/v1'}\n  m2: {provider: mistral}\n  groq: {token_key: K}\n"
    )
    assert {name: entry.provider for name, entry in file.providers.items()} == {
        "house": "openai",
        "m2": "mistral",
        "groq": "groq",
    }


@pytest.mark.parametrize(
    ("written", "key", "message"),
    [
        ("provider: nobody", "provider", 'unknown provider "nobody"'),
        ("provider: p", "provider", 'unknown provider "p"'),
        ("base_url: ftp://h", "base_url", "expected an http or https URL"),
        (
            "api_type: openai_response",
            "api_type",
            'expected one of openai_chatcompletions, openai_responses; got "openai_response"; did you mean '
            '"openai_responses"?',
        ),
    ],
)
def test_what_is_wrong_with_a_provider_is_named(written: str, key: str, message: str) -> None:
    found = error(f"{MINIMAL}providers:\n  p:\n    {written}\n")
    assert (found.line, found.key, found.message) == (6, f"providers.p.{key}", message)


@pytest.mark.requirement("models.providers.openai-responses")
def test_the_responses_api_is_chosen_by_an_entry_and_by_no_provider_that_has_its_own() -> None:
    assert warnings(f"{MINIMAL}providers:\n  p:\n    api_type: openai_responses\n") == []
    for provider in ("anthropic", "scripted"):
        text = f"{MINIMAL}providers:\n  p:\n    provider: {provider}\n    api_type: openai_responses\n"
        found = error(text)
        assert (found.line, found.key) == (7, "providers.p.api_type")
        assert f'provider "{provider}" has an API of its own' in found.message


# --- references --------------------------------------------------------------------------------------------------

MODELS = "\nmodels: {fast: {provider: scripted, model: s1}, a/b: {provider: scripted, model: s2}}\n"


@pytest.mark.requirement("models.ref.forms")
@pytest.mark.parametrize(
    "ref", ["auto", "fast", "a/b", "openai/gpt", "ollama/x:7b", "openrouter/org/model", "scripted/x"]
)
def test_a_model_is_a_name_a_provider_and_model_or_auto(ref: str) -> None:
    file = read(f"agents: {{root: {{model: '{ref}'}}}}{MODELS}")
    assert file.default_agent.model == ref
    assert file.warnings == ()


@pytest.mark.parametrize(
    ("ref", "message"),
    [
        ("fasst", 'unknown model "fasst"; did you mean "fast"?'),
        ("zzz", 'unknown model "zzz"; write a name from models or provider/model'),
        ("openia/gpt", 'unknown provider "openia"; did you mean "openai"?'),
        ("openai/", '"openai/" is not of the form provider/model'),
        ("/gpt", '"/gpt" is not of the form provider/model'),
        ("azure/gpt", 'provider "azure" needs a base_url'),
        ("fast,nope", 'unknown model "nope"; write a name from models or provider/model'),
    ],
)
def test_a_reference_to_nothing_is_an_error_with_the_nearest(ref: str, message: str) -> None:
    found = error(f"agents:\n  root:\n    model: '{ref}'{MODELS}")
    assert (found.line, found.key, found.message) == (3, "agents.root.model", message)


def test_a_form_that_is_not_built_is_warned_about() -> None:
    found = warnings(f"agents:\n  root:\n    model: amazon-bedrock/x{MODELS}")
    assert [(line, key) for line, key, _ in found] == [(3, "agents.root.model")]


@pytest.mark.requirement("models.ref.forms")
@pytest.mark.parametrize("ref", ["fast,a/b", "fast, openai/gpt", "auto,fast"])
def test_several_models_with_commas_are_a_reference(ref: str) -> None:
    assert read(f"agents:\n  root:\n    model: '{ref}'{MODELS}").default_agent.model == ref
    assert warnings(f"agents:\n  root:\n    model: '{ref}'{MODELS}") == []


def test_a_provider_that_is_not_built_is_warned_about_inside_a_choice_too() -> None:
    text = (
        "agents: {root: {model: m}}\nmodels:\n  m:\n    first_available: [amazon-bedrock/x, openai/y]\n"
        "  n:\n    model: openai/a,chatgpt/b\n    description: both\n    temperature: 1\n"
    )
    assert [(line, key) for line, key, _ in warnings(text)] == [
        (4, "models.m.first_available[0]"),
        (6, "models.n.model"),
        (8, "models.n.temperature"),
    ]


@pytest.mark.parametrize(
    ("models", "line", "key", "message"),
    [
        (
            "m: {first_available: [opnai/x]}",
            3,
            ".first_available[0]",
            'unknown provider "opnai"; did you mean "openai"?',
        ),
        (
            "m: {first_available: ['a,b']}",
            3,
            ".first_available[0]",
            "an alloy cannot be one of first_available; name single models",
        ),
        (
            "m: {first_available: [n]}\n  n: {model: 'openai/a,openai/b'}",
            3,
            ".first_available[0]",
            "an alloy cannot be one of first_available; name single models",
        ),
        (
            "m: {first_available: [openai/x], temperature: 1}",
            3,
            ".temperature",
            "first_available stands alone; set this on the models it names",
        ),
        ("m: {first_available: []}", 3, ".model", "a model needs the provider's name for it"),
        ("m: {model: 'm,openai/x'}", 3, "", "chooses itself, through its members"),
        ("m: {first_available: [n]}\n  n: {first_available: [m]}", 3, "", "chooses itself, through its members"),
        ("m: {model: 'openai/x,'}", 3, ".model", 'unknown model ""; write a name from models or provider/model'),
    ],
)
def test_a_choice_among_models_that_cannot_be_made_is_an_error(
    models: str, line: int, key: str, message: str
) -> None:
    found = error(f"agents: {{root: {{model: m}}}}\nmodels:\n  {models}\n")
    assert (found.line, found.key, found.message) == (line, f"models.m{key}", message)


@pytest.mark.requirement("models.credentials.missing-named")
@pytest.mark.parametrize(
    "line",
    [
        "model: ${K}",
        "model: ${env.K}/x",
        "model: openai/x\n    safety: ${env.K}",
        "model: auto\n    max_iterations: ${env.K}",
    ],
)
def test_an_error_shows_what_was_written_and_never_the_value_of_a_variable(line: str) -> None:
    found = error(f"agents:\n  root:\n    {line}\n", {"K": "sk-hush"})
    assert "hush" not in str(found)
    assert "K}" in found.message


def test_all_built_providers_have_an_address_or_say_that_the_file_gives_it() -> None:
    without = {name for name, provider in PROVIDERS.items() if provider.base_url is None}
    assert without == {"azure", "local", "scripted"}
    assert not set(PROVIDERS) & set(NOT_BUILT)
