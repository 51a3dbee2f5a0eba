"""The model providers as data: where each answers, and which variable holds its key.

Most speak OpenAI's chat completions. `scripted` plays a script and `local` runs on this machine; these two need
nothing from outside.
Source: requirements models.providers.aliases, models.ref.auto.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from sluice.config.keys import KNOWN_NOT_BUILT
from sluice.config.values import Frozen

__all__ = ["AUTO_ORDER", "NOT_BUILT", "PROVIDERS", "Api", "Provider", "known_providers"]

Api = Literal["openai_chatcompletions", "openai_responses", "anthropic", "gemini", "scripted", "local"]


class Provider(Frozen, frozen=True):
    """A provider that is built.

    `base_url` is None when the agent file has to give one; it may hold `${X}`, and then X has to be set like a key.
    `key` is the variable with the key, None for a provider that needs none. `url_variable` names the variable that
    replaces the base URL, and with it the need for a key; `url_suffix` is put behind its value. `other_keys` are
    variables that do in place of `key`, in this order.
    """

    id: str
    base_url: str | None
    key: str | None
    api: Api = "openai_chatcompletions"
    url_variable: str | None = None
    url_suffix: str = ""
    other_keys: tuple[str, ...] = ()


_CLOUDFLARE = "https://api.cloudflare.com/client/v4/accounts/${CLOUDFLARE_ACCOUNT_ID}/ai/v1"
_CLOUDFLARE_GATEWAY = "https://gateway.ai.cloudflare.com/v1/${CLOUDFLARE_ACCOUNT_ID}/${CLOUDFLARE_GATEWAY_ID}/compat"

_ROWS = (
    Provider("openai", "https://api.openai.com/v1", "OPENAI_API_KEY", url_variable="OPENAI_BASE_URL"),
    Provider(
        "anthropic",
        "https://api.anthropic.com",
        "ANTHROPIC_API_KEY",
        api="anthropic",
        url_variable="ANTHROPIC_BASE_URL",
    ),
    Provider(
        "google",
        "https://generativelanguage.googleapis.com/v1beta",
        "GOOGLE_API_KEY",
        api="gemini",
        other_keys=("GEMINI_API_KEY",),
    ),
    Provider("azure", None, "AZURE_API_KEY"),
    Provider("xai", "https://api.x.ai/v1", "XAI_API_KEY"),
    Provider("mistral", "https://api.mistral.ai/v1", "MISTRAL_API_KEY"),
    Provider("nebius", "https://api.studio.nebius.com/v1", "NEBIUS_API_KEY"),
    Provider("nvidia", "https://integrate.api.nvidia.com/v1", "NVIDIA_API_KEY"),
    Provider("openrouter", "https://openrouter.ai/api/v1", "OPENROUTER_API_KEY"),
    Provider("requesty", "https://router.requesty.ai/v1", "REQUESTY_API_KEY"),
    Provider("minimax", "https://api.minimax.io/v1", "MINIMAX_API_KEY"),
    Provider("baseten", "https://inference.baseten.co/v1", "BASETEN_API_KEY"),
    Provider("ovhcloud", "https://oai.endpoints.kepler.ai.cloud.ovh.net/v1", "OVH_AI_ENDPOINTS_ACCESS_TOKEN"),
    Provider("groq", "https://api.groq.com/openai/v1", "GROQ_API_KEY"),
    Provider("fireworks", "https://api.fireworks.ai/inference/v1", "FIREWORKS_API_KEY"),
    Provider("deepseek", "https://api.deepseek.com/v1", "DEEPSEEK_API_KEY"),
    Provider("cerebras", "https://api.cerebras.ai/v1", "CEREBRAS_API_KEY"),
    Provider("together", "https://api.together.xyz/v1", "TOGETHER_API_KEY"),
    Provider("huggingface", "https://router.huggingface.co/v1", "HF_TOKEN"),
    Provider("moonshot", "https://api.moonshot.ai/v1", "MOONSHOT_API_KEY"),
    Provider("vercel", "https://ai-gateway.vercel.sh/v1", "AI_GATEWAY_API_KEY"),
    Provider("cloudflare-workers-ai", _CLOUDFLARE, "CLOUDFLARE_API_TOKEN"),
    Provider("cloudflare-ai-gateway", _CLOUDFLARE_GATEWAY, "CLOUDFLARE_API_TOKEN"),
    Provider("opencode-go", "https://opencode.ai/zen/go/v1", "OPENCODE_API_KEY"),
    Provider("opencode-zen", "https://opencode.ai/zen/v1", "OPENCODE_API_KEY"),
    Provider("ollama", "http://localhost:11434/v1", None),
    Provider(
        "dmr", "http://localhost:12434/engines/v1", None, url_variable="MODEL_RUNNER_HOST", url_suffix="/engines/v1"
    ),
    Provider("local", None, None, api="local"),
    Provider("scripted", None, None, api="scripted"),
)

PROVIDERS: Mapping[str, Provider] = {row.id: row for row in _ROWS}
"""The providers that are built, by id."""

NOT_BUILT: Mapping[str, str] = KNOWN_NOT_BUILT["providers"]
"""The providers of the format that are not built yet."""

AUTO_ORDER: tuple[tuple[str, str], ...] = (
    ("anthropic", "claude-sonnet-5-5"),
    ("openai", "gpt-5-mini"),
    ("google", "gemini-3.8-flash"),
    ("mistral", "mistral-small-latest"),
    ("deepseek", "deepseek-chat"),
    ("openrouter", "openrouter/auto"),
)
"""What `auto` tries, in order: provider and model. The first provider with a key is taken; none is asked. After them
come the weights of the embedded model that are on this machine."""


def known_providers() -> set[str]:
    """Every provider id of the format, built or not."""
    return {*PROVIDERS, *NOT_BUILT}
