"""docs/agent-file.md names every key, type and provider, and the example loads."""

import re
from pathlib import Path

import pytest

from sluice.config.agents import AGENT_SHAPE, COMMAND_SHAPE, FALLBACK_SHAPE
from sluice.config.endpoints import MODEL_SHAPE, PROVIDER_SHAPE
from sluice.config.keys import KNOWN_NOT_BUILT, NEWEST_VERSION, TOOLSET_OPTIONS
from sluice.config.load import RUNTIME_SHAPE, TOP_SHAPE, load
from sluice.config.models import missing_credentials, resolve
from sluice.config.providers import AUTO_ORDER, PROVIDERS
from sluice.config.toolsets import COMMON_SHAPE

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "docs" / "agent-file.md").read_text(encoding="utf-8")

SECTIONS = {
    "## Top level": {*TOP_SHAPE, *RUNTIME_SHAPE},
    "## `agents.<name>`": {*AGENT_SHAPE, *COMMAND_SHAPE},
    "## When a model fails": set(FALLBACK_SHAPE) - {"models"},
    "## Toolsets": {*COMMON_SHAPE, *TOOLSET_OPTIONS, *(key for keys in TOOLSET_OPTIONS.values() for key in keys)},
    "## `models.<name>`": set(MODEL_SHAPE),
    "## `providers.<name>`": set(PROVIDER_SHAPE),
    "## Providers that are built": {*PROVIDERS, *(f"{provider}/{model}" for provider, model in AUTO_ORDER)},
}

SCOPES = {
    "": "Top level",
    "runtime": "`runtime`",
    "agents.*": "An agent",
    "hooks": "Events of hooks",
    "hook types": "Types of hooks",
    "a hook": "A hook",
    "models.*": "A model",
    "providers.*": "A provider",
    "toolsets.*": "Any toolset",
    "toolsets.mcp": "An `mcp` toolset",
    "toolsets.shell": "A `shell` toolset",
    "toolsets.background_jobs": "A `background_jobs` toolset",
    "toolset types": "Toolset types",
    "providers": "Providers",
}


def section(heading: str) -> str:
    return TEXT.split(f"{heading}\n", 1)[1].split("\n## ", 1)[0]


@pytest.mark.parametrize("heading", SECTIONS)
def test_every_key_is_named_in_its_section(heading: str) -> None:
    named = set(re.findall(r"`([^`\n]+)`", section(heading)))
    assert SECTIONS[heading] - named == set()


@pytest.mark.parametrize("scope", SCOPES)
def test_what_is_known_but_not_built_is_listed_exactly(scope: str) -> None:
    rows = section("## Known, but not built yet").splitlines()
    (row,) = (row for row in rows if row.startswith(f"| {SCOPES[scope]} |"))
    assert set(re.findall(r"`([^`]+)`", row.split("|")[2])) == set(KNOWN_NOT_BUILT[scope])


def test_every_scope_is_listed() -> None:
    assert set(SCOPES) | {"values"} == set(KNOWN_NOT_BUILT)
    for words in KNOWN_NOT_BUILT["values"].values():
        assert words in TEXT


def test_the_providers_table_is_the_data() -> None:
    for provider in PROVIDERS.values():
        (row,) = (line for line in TEXT.splitlines() if line.startswith(f"| `{provider.id}` |"))
        assert provider.base_url is None or provider.base_url in row
        assert row.endswith(f"| `{provider.key}` |" if provider.key else "| none |")


def test_the_newest_version_is_the_one_named() -> None:
    assert f"up to {NEWEST_VERSION};" in TEXT


@pytest.mark.requirement("auth.outside.setup-documented", "auth.authenticate.process-environment-fixed")
def test_the_docs_say_how_to_give_credentials_and_when_to_start_again() -> None:
    credentials = " ".join(section("## Credentials").split())
    for words in ("--env-from-file", "process environment", "/run/secrets/NAME", ".env", "authenticate again"):
        assert words in credentials
    assert "start Sluice again" in credentials


def test_the_yaml_of_the_docs_loads(tmp_path: Path) -> None:
    found = re.findall(r"```yaml\n(.*?)```", TEXT, re.DOTALL)
    assert found
    for text in found:
        path = tmp_path / "agent.yaml"
        path.write_text(text, encoding="utf-8")
        assert load(path, {}).warnings == ()


def test_the_example_loads_without_a_warning_and_runs_with_one_key() -> None:
    file = load(ROOT / "examples" / "assistant.yaml", {})
    assert file.warnings == ()
    assert [toolset.type for toolset in file.default_agent.toolsets] == ["filesystem", "shell", "think", "todo"]
    assert missing_credentials(file, {})
    assert resolve(file, file.default_agent.model, {"OPENAI_API_KEY": "k"}).provider == "openai"
