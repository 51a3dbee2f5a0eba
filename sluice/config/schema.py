"""The agent file as frozen values: what the rest of the program sees of it.

Everything here has been checked: references resolve, limits are in range, `${env.X}` is expanded. A mapping is
read-only. Source: requirements of the area config-file.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal

from msgspec import Meta, field

from sluice.config.errors import ConfigWarning
from sluice.config.hook_events import HookConfig
from sluice.config.values import Frozen, nothing

__all__ = [
    "EXPAND",
    "AgentConfig",
    "AgentFile",
    "ApiConfig",
    "Backoff",
    "BudgetConfig",
    "CacheConfig",
    "Capabilities",
    "CommandConfig",
    "Cost",
    "FallbackConfig",
    "Lifecycle",
    "Metadata",
    "ModelConfig",
    "PathEntry",
    "PermissionRules",
    "PostEditCommand",
    "ProviderConfig",
    "Reference",
    "RemoteMcp",
    "RuntimeConfig",
    "SafetyMode",
    "ScriptCommand",
    "StructuredOutput",
    "Text",
    "ThinkingBudget",
    "ToolsetConfig",
    "Verbatim",
]

SafetyMode = Literal["strict", "balanced", "restricted", "autonomous"]

ThinkingBudget = (
    int
    | Literal[
        "none",
        "minimal",
        "low",
        "medium",
        "high",
        "xhigh",
        "max",
        "adaptive",
        "adaptive/low",
        "adaptive/medium",
        "adaptive/high",
        "adaptive/xhigh",
        "adaptive/max",
    ]
)

EXPAND = "expand"
"""In the `extra` of a text's Meta: `never` (as written), `bare` (`${X}` besides `${env.X}`) or `path` (only
`${env.X}`, while `${X}` and `$X` are left to the toolset). Without it only `${env.X}` is expanded."""

Variable = Annotated[str, Meta(min_length=1, extra={EXPAND: "never"})]
Verbatim = Annotated[str, Meta(extra={EXPAND: "never"})]
Reference = Annotated[str, Meta(min_length=1, extra={EXPAND: "bare"})]
PathEntry = Annotated[str, Meta(min_length=1, extra={EXPAND: "path"})]
Text = Annotated[str, Meta(min_length=1)]
Count = Annotated[int, Meta(ge=0, le=2**53)]
Positive = Annotated[int, Meta(ge=1, le=2**53)]
Duration = Annotated[str, Meta(pattern=r"^[0-9]+(\.[0-9]+)?(ms|s|m|h)$")]
Dollars = Annotated[float, Meta(ge=0)]
Share = Annotated[float, Meta(gt=0, le=1)]
Penalty = Annotated[float, Meta(ge=-2, le=2)]


class Metadata(Frozen, frozen=True):
    """Who wrote the file and what for; shown to people, used for nothing."""

    author: str = ""
    license: str = ""
    description: str = ""
    readme: str = ""
    version: str = ""
    tags: tuple[str, ...] = ()


class PermissionRules(Frozen, frozen=True):
    """The team's rules as patterns in their order; their syntax belongs to the permission checker."""

    allow: tuple[Text, ...] = ()
    ask: tuple[Text, ...] = ()
    deny: tuple[Text, ...] = ()


class PostEditCommand(Frozen, frozen=True):
    """A command that runs after a matching file was written; `${file}` in `cmd` is a variable of the shell."""

    path: Text
    cmd: Annotated[str, Meta(min_length=1, extra={EXPAND: "never"})]


class ScriptCommand(Frozen, frozen=True):
    """A command line as a tool. `$name` in `cmd` is an argument, which the shell reads from its environment.

    `args` maps a name to its JSON schema (`type`, `description`, `enum`); `required` None means all of them.
    `working_dir` is relative to the session's directory, None that directory itself.
    """

    cmd: Annotated[str, Meta(min_length=1, extra={EXPAND: "never"})]
    description: str = ""
    args: Mapping[str, Mapping[str, Any]] = field(default_factory=nothing)
    required: tuple[Text, ...] | None = None
    env: Mapping[str, str] = field(default_factory=nothing)
    working_dir: PathEntry | None = None


class ApiConfig(Frozen, frozen=True):
    """One HTTP endpoint as a tool. `${name}` in the path or the query of `endpoint` is an argument.

    `args` maps a name to its JSON schema, `required` None means all of them. `instruction` is what the model is told.
    """

    HIDDEN: ClassVar[frozenset[str]] = frozenset({"headers"})

    name: Text
    endpoint: PathEntry
    method: Literal["GET", "POST", "PUT", "PATCH", "DELETE"] = "GET"
    args: Mapping[str, Mapping[str, Any]] = field(default_factory=nothing)
    required: tuple[Text, ...] | None = None
    headers: Mapping[str, str] = field(default_factory=nothing)
    instruction: str = ""


class RuntimeConfig(Frozen, frozen=True):
    """File-wide defaults. `safety` is None when the file chooses no mode."""

    safety: SafetyMode | None = None


class CommandConfig(Frozen, frozen=True):
    """A slash command. At least one of instruction, agent and url is set; the instruction is not expanded."""

    name: str
    description: str = ""
    instruction: Verbatim = ""
    agent: str = ""
    url: Verbatim = ""


class ToolsetConfig(Frozen, frozen=True):
    """One built-in toolset of an agent.

    `tools` is the allow-list of tool names, None for all. `defer` hides all tools, or the named ones, until the model
    looks for them. `instruction` replaces the built-in text, None keeps it;
    `{ORIGINAL_INSTRUCTIONS}` in it stands for the built-in text. `options` holds the keys of this type, only those
    that were written. `line` is where the toolset stands in the agent file.
    """

    HIDDEN: ClassVar[frozenset[str]] = frozenset({"options"})

    type: str
    name: str = ""
    tools: tuple[Text, ...] | None = None
    readonly: bool = False
    defer: bool | tuple[Text, ...] = False
    instruction: str | None = None
    options: Mapping[str, Any] = field(default_factory=nothing)
    line: int = 0


class RemoteMcp(Frozen, frozen=True):
    """An MCP server over HTTP. `headers` are sent literally once `${env.X}` is put in; `oauth` is not built yet."""

    HIDDEN: ClassVar[frozenset[str]] = frozenset({"headers", "oauth"})

    url: Text
    transport_type: Literal["streamable", "sse"] = "streamable"
    headers: Mapping[str, str] = field(default_factory=nothing)
    oauth: Mapping[str, Any] = field(default_factory=nothing)


class Backoff(Frozen, frozen=True):
    """Waits between restarts, as durations; each is `multiplier` times the one before, up to `max`."""

    initial: Duration = "1s"
    max: Duration = "32s"
    multiplier: Annotated[float, Meta(ge=1)] = 2.0
    jitter: Annotated[float, Meta(ge=0, le=1)] = 0.0


class Lifecycle(Frozen, frozen=True):
    """How an MCP server is supervised; None = as the profile says."""

    profile: Literal["resilient", "strict", "best-effort"] = "resilient"
    restart: bool | None = None
    max_restarts: Count = 5
    backoff: Backoff = field(default_factory=Backoff)
    required: bool | None = None
    startup_timeout: Duration | None = None
    call_timeout: Duration | None = None


class BudgetConfig(Frozen, frozen=True):
    """A ceiling; None = no such limit. `path` is where it stands, `max_cost` in USD, `max_time` in seconds."""

    path: str
    max_cost: Annotated[float, Meta(gt=0)] | None = None
    max_tokens: Positive | None = None
    max_time: float | None = None


class Capabilities(Frozen, frozen=True):
    """What a model takes besides text; None = not said."""

    image: bool | None = None
    pdf: bool | None = None
    audio: bool | None = None


class Cost(Frozen, frozen=True):
    """US dollars per million tokens. All zero means priced, and free."""

    input: Dollars = 0.0
    output: Dollars = 0.0
    cache_read: Dollars = 0.0
    cache_write: Dollars = 0.0


class FallbackConfig(Frozen, frozen=True):
    """What to do when a model fails.

    `models` are references, tried in order. `retries` is how often one model is asked again after a passing failure;
    -1 and 0 mean never. `cooldown` is how many seconds a fallback that worked stays in the first model's place.
    """

    models: tuple[Reference, ...] = ()
    retries: Annotated[int, Meta(ge=-1, le=100)] = 2
    cooldown: float = 60.0


class StructuredOutput(Frozen, frozen=True):
    """The form of an agent's final answer: JSON that fits `schema`, a JSON schema. `strict` goes to the provider."""

    name: str
    schema: Mapping[str, Any]
    description: str = ""
    strict: bool = False


class CacheConfig(Frozen, frozen=True):
    """The response cache. `path` is its file, relative to the agent file; None keeps it in memory."""

    enabled: bool = False
    case_sensitive: bool = False
    trim_spaces: bool = False
    path: PathEntry | None = None


class ModelConfig(Frozen, frozen=True):
    """A model and its options; None = not set, so nothing is sent to the provider.

    `name` is the key under `models`, or the reference itself for a model that has no entry. `token_key` is the name
    of a variable. `first_available` are references, and then nothing else is set: the first with credentials is used.
    `max_tokens` bounds one answer, in tokens. `provider_opts` may hold headers with secrets, so it is
    not part of the repr. `line` is 0 for a model that has no entry.
    """

    HIDDEN: ClassVar[frozenset[str]] = frozenset({"provider_opts"})

    name: str
    provider: str = ""
    model: Annotated[str, Meta(extra={EXPAND: "bare"})] = ""
    description: str = ""
    base_url: Reference | None = None
    token_key: Variable | None = None
    first_available: tuple[Reference, ...] = ()
    temperature: Annotated[float, Meta(ge=0, le=2)] | None = None
    max_tokens: Positive | None = None
    top_p: Annotated[float, Meta(ge=0, le=1)] | None = None
    frequency_penalty: Penalty | None = None
    presence_penalty: Penalty | None = None
    thinking_budget: ThinkingBudget | None = None
    parallel_tool_calls: bool | None = None
    provider_opts: Mapping[str, Any] = field(default_factory=nothing)
    compaction_threshold: Share | None = None
    cost: Cost | None = None
    capabilities: Capabilities = Capabilities()
    bypass_models_gateway: bool = False
    line: int = 0

    @property
    def context_size(self) -> int | None:
        """The context window in tokens, from `provider_opts.context_size`; None = not said."""
        size = self.provider_opts.get("context_size")
        return size if isinstance(size, int) else None


class ProviderConfig(Frozen, frozen=True):
    """A reusable endpoint with defaults for the models that name it. `provider` is a provider built in."""

    HIDDEN: ClassVar[frozenset[str]] = frozenset({"provider_opts"})

    name: str
    provider: str = "openai"
    api_type: Literal["openai_chatcompletions", "openai_responses"] | None = None
    base_url: Reference | None = None
    token_key: Variable | None = None
    temperature: Annotated[float, Meta(ge=0, le=2)] | None = None
    max_tokens: Positive | None = None
    top_p: Annotated[float, Meta(ge=0, le=1)] | None = None
    frequency_penalty: Penalty | None = None
    presence_penalty: Penalty | None = None
    thinking_budget: ThinkingBudget | None = None
    parallel_tool_calls: bool | None = None
    provider_opts: Mapping[str, Any] = field(default_factory=nothing)
    line: int = 0


class AgentConfig(Frozen, frozen=True):
    """One agent.

    `model` is a reference: a name from `models`, `provider/model`, `auto`, or several of these with commas.
    `instruction` already holds the text of the instruction files. `welcome_message` is for people and never sent to a
    model. `force_handoff` is the agent that goes on behind each answer, None = nobody. `skills` True = all that are
    found. `safety` is the author's default mode, None = not chosen. `max_iterations` 0 = unlimited.
    `num_history_items` None = all. `commands` holds the groups of `use_commands` already. `compaction_threshold` is a
    share of the window, None = the usual one; a model's own wins. `compaction_model` None = the agent's model. `line`
    is where the agent stands in the file.
    """

    name: str
    model: Reference
    description: str = ""
    instruction: str = ""
    welcome_message: str = ""
    toolsets: tuple[ToolsetConfig, ...] = ()
    sub_agents: tuple[Text, ...] = ()
    handoffs: tuple[Text, ...] = ()
    force_handoff: Text | None = None
    skills: bool | tuple[Text, ...] = False
    readonly: bool = False
    safety: SafetyMode | None = None
    add_date: bool = False
    add_environment_info: bool = False
    add_prompt_files: tuple[Text, ...] = ()
    add_prompt_files_depth: Count = 0
    max_iterations: Count = 0
    max_consecutive_tool_calls: Positive = 5
    num_history_items: Count | None = None
    max_tool_result_tokens: Positive | None = None
    max_old_tool_call_tokens: Positive | None = None
    budgets: tuple[Text, ...] = ()
    session_compaction: bool = True
    compaction_threshold: Share | None = None
    compaction_model: Reference | None = None
    commands: Mapping[str, CommandConfig] = field(default_factory=nothing)
    fallback: FallbackConfig = FallbackConfig()
    structured_output: StructuredOutput | None = None
    cache: CacheConfig = CacheConfig()
    hooks: tuple[HookConfig, ...] = ()
    redact_secrets: bool = True
    line: int = 0


class AgentFile(Frozen, frozen=True):
    """A whole agent file. `path` is as the caller named it; `agents` keeps the order of the file."""

    path: str
    agents: Mapping[str, AgentConfig]
    version: int | None = None
    metadata: Metadata = Metadata()
    models: Mapping[str, ModelConfig] = field(default_factory=nothing)
    providers: Mapping[str, ProviderConfig] = field(default_factory=nothing)
    permissions: PermissionRules = PermissionRules()
    runtime: RuntimeConfig = RuntimeConfig()
    toolsets: Mapping[str, tuple[ToolsetConfig, ...]] = field(default_factory=nothing)
    budget: BudgetConfig | None = None
    budgets: Mapping[str, BudgetConfig] = field(default_factory=nothing)
    commands: Mapping[str, Mapping[str, CommandConfig]] = field(default_factory=nothing)
    warnings: tuple[ConfigWarning, ...] = ()

    @property
    def default_agent(self) -> AgentConfig:
        """The agent called `root` wherever it stands, else the first."""
        return self.agents.get("root") or next(iter(self.agents.values()))
