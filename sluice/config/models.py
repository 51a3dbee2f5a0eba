"""From a model reference to what a provider client needs. Nothing here talks to a provider.

Address: the model's base URL, else that of its provider's entry, else the models gateway, else the one built in. Key:
the model's token_key, else that of its provider's entry, else the variable of the built-in provider. An address
written in the agent file comes with the key that the file names, or with none: the key of a built-in provider is only
sent to that provider's own address (or to the one its URL variable names). Source: requirements models.ref.*,
models.providers.aliases, models.credentials.missing-named.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from types import MappingProxyType
from typing import Any, ClassVar

from sluice.config.choices import candidates, is_choice, is_nested, members
from sluice.config.expand import Environ
from sluice.config.gateway import GATEWAY, LOGIN, at_gateway, gateway_of
from sluice.config.providers import AUTO_ORDER, NOT_BUILT, PROVIDERS, Api, Provider
from sluice.config.references import address_problem, base_provider
from sluice.config.schema import AgentConfig, AgentFile, Cost, ModelConfig, ProviderConfig
from sluice.config.suggest import did_you_mean
from sluice.config.unusable import MissingCredentials, ModelUnavailable
from sluice.config.values import Frozen, replace
from sluice.config.weights import WEIGHTS, models_dir, weights_file, weights_present

__all__ = [
    "MissingCredentials",
    "ModelUnavailable",
    "ResolvedModel",
    "compaction_threshold",
    "missing_credentials",
    "missing_text",
    "resolve",
    "resolve_all",
    "selectable",
]

PULL = "fetch a model for this machine with `sluice model pull`"
"""The other way to a model for `auto`."""

_VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")


class ResolvedModel(Frozen, frozen=True):
    """Everything a client of a provider needs.

    `provider` is the name the file uses. `base_url` is None for an api without an address. `key` is None when none is
    sent; the repr does not show it. `key_name` is the variable it comes from, or would come from; "" for none.
    `options` has the defaults of the provider's entry filled in. `file` is the agent file, and relative paths among
    the options start from its `directory`. `weights` is the file of the embedded model, "" for every other.
    `behind_gateway` is the provider built in that a models gateway stands for, "" when none does.
    """

    HIDDEN: ClassVar[frozenset[str]] = frozenset({"key"})

    provider: str
    model: str
    api: Api
    base_url: str | None
    key: str | None
    options: ModelConfig
    file: str = ""
    key_name: str = ""
    weights: str = ""
    behind_gateway: str = ""

    @property
    def directory(self) -> str:
        """The directory of the agent file."""
        return str(Path(self.file).parent)

    @property
    def ref(self) -> str:
        """The reference shown to people, `provider/model`."""
        return f"{self.provider}/{self.model}"


class _Need(Frozen, frozen=True):
    """Where a model is and which variables it reads. `missing` are those without a value."""

    HIDDEN: ClassVar[frozenset[str]] = frozenset({"key"})

    base_url: str | None
    key: str | None
    missing: tuple[str, ...] = ()
    key_name: str = ""
    behind_gateway: str = ""


def resolve(file: AgentFile, ref: str, env: Environ) -> ResolvedModel:
    """What a reference stands for: a name from `models`, `provider/model`, `auto` or `local`.

    Args:
        file: the agent file.
        ref: the reference, of an agent or of a stored choice.
        env: the credential sources.

    Raises:
        MissingCredentials: the model needs a variable that is not set.
        ModelUnavailable: the reference is unknown here, its provider is not built, or its weights are not here.
    """
    if _is_auto(file, ref):
        return _auto(file, env)
    if ref == "local" and ref not in file.models:
        return _local(file, ref, ModelConfig(name=ref, provider=ref), env)
    if listed := candidates(file.models, ref):
        return _first_available(file, ref, listed, env)
    options = _options(file, ref)
    if base_provider(options.provider, file.providers) == "local":
        return _local(file, ref, options, env)
    need = _need(file, ref, options, env)
    if need.missing:
        raise MissingCredentials(need.missing, f"set {' and '.join(need.missing)} to use the model {ref}")
    entry = file.providers.get(options.provider)
    api = (entry.api_type if entry is not None else None) or _built_in(file, ref, options.provider).api
    return ResolvedModel(
        options.provider,
        options.model,
        api,
        need.base_url,
        need.key,
        options,
        file.path,
        key_name=need.key_name,
        behind_gateway=need.behind_gateway,
    )


def resolve_all(file: AgentFile, ref: str, env: Environ) -> tuple[ResolvedModel, ...]:
    """The members of an alloy; one model for every other reference.

    Raises:
        MissingCredentials: variables are not set; those of all members are named.
        ModelUnavailable: a member cannot be used.
    """
    found: list[ResolvedModel] = []
    missing: list[MissingCredentials] = []
    for member in members(file.models, ref):
        try:
            found.append(resolve(file, member, env))
        except MissingCredentials as lacking:
            missing.append(lacking)
    if len(missing) == 1:
        raise missing[0]
    if missing:
        variables = tuple(dict.fromkeys(name for lacking in missing for name in lacking.variables))
        raise MissingCredentials(variables, "; ".join(lacking.text for lacking in missing))
    return tuple(found)


def selectable(file: AgentFile, env: Environ) -> tuple[str, ...]:
    """The named models that a session can change to now, in name order: their provider is built and their key set.

    An alloy that holds an alloy is none of them. Nothing is asked and nothing is made
    (config-options.model.local-only).
    """
    plain = (name for name in sorted(file.models) if not is_nested(file.models, name))
    return tuple(name for name in plain if _usable(file, name, env))


def _usable(file: AgentFile, ref: str, env: Environ) -> bool:
    try:
        resolve_all(file, ref, env)
    except (MissingCredentials, ModelUnavailable):
        return False
    return True


def compaction_threshold(file: AgentFile, agent: AgentConfig, ref: str) -> float | None:
    """The share of the window at which an agent on this model compacts: the model's own word, else the agent's."""
    entry = file.models.get(ref)
    own = entry.compaction_threshold if entry is not None else None
    return own if own is not None else agent.compaction_threshold


def missing_credentials(file: AgentFile, env: Environ) -> tuple[str, ...]:
    """The variables that the agents' models need and that are not set, each once, in the order of the agents.

    For `auto` and `first_available` these are the key variables of which any one would do. A model that cannot be
    used for another reason counts as nothing missing: that is an error of the session that needs it.
    """
    return tuple(dict.fromkeys(name for _, missing in _missing(file, env) for name in missing.variables))


def missing_text(file: AgentFile, env: Environ) -> str:
    """What to set, as one line for a person; "" when nothing is missing. Never holds a value."""
    wanted = []
    for ref, missing in _missing(file, env):
        joined = f"one of {', '.join(missing.variables)}" if missing.any_of else " and ".join(missing.variables)
        instead = f", or {missing.instead}" if missing.instead else ""
        wanted.append(f"{joined}{instead} (model {ref})")
    wanted = list(dict.fromkeys(wanted))
    return f"credentials are missing: set {'; '.join(wanted)}" if wanted else ""


def _is_auto(file: AgentFile, ref: str) -> bool:
    return ref == "auto" and ref not in file.models


def _missing(file: AgentFile, env: Environ) -> Iterator[tuple[str, MissingCredentials]]:
    """What each model lacks, the members of an alloy one by one. A fallback that lacks its key is no fallback."""
    named = [
        ref for agent in file.agents.values() for ref in (agent.model, agent.compaction_model) if ref is not None
    ]
    refs = (member for ref in named for member in members(file.models, ref))
    for ref in dict.fromkeys(refs):
        try:
            resolve(file, ref, env)
        except MissingCredentials as missing:
            yield ref, missing
        except ModelUnavailable:
            continue


def _auto(file: AgentFile, env: Environ) -> ResolvedModel:
    """The first of the order whose credentials exist, else the weights that are here; no provider is asked.

    No other model comes in later.
    """
    variables: list[str] = []
    for provider, model in AUTO_ORDER:
        try:
            return resolve(file, f"{provider}/{model}", env)
        except MissingCredentials as missing:
            variables += missing.variables
        except ModelUnavailable:
            continue  # the file gives this provider's name to something that is not built
    if weights_present(models_dir(env)):
        return _local(file, "auto", ModelConfig(name="auto", provider="local"), env)
    text = f"the model auto found no credentials: set one of {', '.join(variables)}, or {PULL}"
    raise MissingCredentials(tuple(dict.fromkeys(variables)), text, any_of=True, instead=PULL)


def _local(file: AgentFile, ref: str, options: ModelConfig, env: Environ) -> ResolvedModel:
    """The embedded model: the weights that are named, else the largest that are here. It is priced, and free."""
    directory = models_dir(env)
    wanted = options.model or next((weights.id for weights in weights_present(directory)), next(iter(WEIGHTS)))
    if wanted not in WEIGHTS:
        raise ModelUnavailable(file, ref, f'unknown local model "{wanted}"; there are {" and ".join(WEIGHTS)}')
    path = weights_file(directory, WEIGHTS[wanted])
    if path is None:
        text = f"the weights of local/{wanted} are not on this machine; fetch them with `sluice model pull {wanted}`"
        raise ModelUnavailable(file, ref, text)
    options = replace(options, model=wanted, cost=options.cost or Cost())
    return ResolvedModel(options.provider, wanted, "local", None, None, options, file.path, weights=str(path))


def _first_available(file: AgentFile, ref: str, listed: tuple[str, ...], env: Environ) -> ResolvedModel:
    """The first whose credentials exist; what is not built is passed over, for it was warned about at load."""
    variables: list[str] = []
    unavailable: ModelUnavailable | None = None
    for candidate in listed:
        try:
            return resolve(file, candidate, env)
        except MissingCredentials as missing:
            variables += missing.variables
        except ModelUnavailable as error:
            unavailable = unavailable or error
    if not variables and unavailable is not None:
        raise ModelUnavailable(file, ref, unavailable.message)
    named = tuple(dict.fromkeys(variables))
    raise MissingCredentials(named, f"set one of {', '.join(named)} to use the model {ref}", any_of=True)


def _options(file: AgentFile, ref: str) -> ModelConfig:
    """The model's entry, or one made from `provider/model`, with its provider's defaults."""
    model = file.models.get(ref)
    if model is None:
        provider, slash, name = ref.partition("/")
        if "," in ref:
            raise ModelUnavailable(file, ref, f"{ref} names several models; name one")
        if ref in NOT_BUILT:
            raise ModelUnavailable(file, ref, _not_built(ref))
        if not (slash and provider and name):
            near = did_you_mean(ref, {*file.models, "auto", "local"})
            raise ModelUnavailable(file, ref, f'unknown model "{ref}"{near or "; the agent file has no such model"}')
        model = ModelConfig(name=ref, provider=provider, model=name)
    if is_choice(model):
        raise ModelUnavailable(file, ref, f"{ref} names several models; name one")
    entry = file.providers.get(model.provider)
    return model if entry is None else _with_defaults(model, entry)


def _with_defaults(model: ModelConfig, entry: ProviderConfig) -> ModelConfig:
    """The model with what its provider's entry sets and it does not; address and key have rules of their own."""
    shared = {*ModelConfig.__struct_fields__} & {*ProviderConfig.__struct_fields__}
    shared -= {"name", "provider", "base_url", "token_key", "provider_opts", "line"}
    filled: dict[str, Any] = {
        name: getattr(entry, name)
        for name in shared
        if getattr(model, name) is None and getattr(entry, name) is not None
    }
    options = MappingProxyType({**entry.provider_opts, **model.provider_opts})
    return replace(model, provider_opts=options, **filled)


def _need(file: AgentFile, ref: str, options: ModelConfig, env: Environ) -> _Need:
    """The address and the key of a model."""
    built_in = _built_in(file, ref, options.provider)
    if built_in.api == "scripted":
        return _Need(None, None)
    entry = file.providers.get(options.provider)
    written = options.base_url or (entry.base_url if entry is not None else None)
    token_key = options.token_key or (entry.token_key if entry is not None else None)
    problem = address_problem(options.provider, file.providers, options.base_url)
    if problem is not None:
        raise ModelUnavailable(file, ref, problem)
    gateway = gateway_of(built_in, env)
    if gateway is not None and written is None and not options.bypass_models_gateway:
        return _at_gateway(file, ref, built_in, gateway, env)
    url_from_env = _value(env, built_in.url_variable) if written is None else None
    if url_from_env is not None:
        url_from_env = url_from_env.rstrip("/") + built_in.url_suffix if built_in.url_suffix else url_from_env
    base_url, missing = _filled(written or url_from_env or built_in.base_url or "", built_in, written, env)
    if token_key is not None:
        key = _value(env, token_key)
        return _Need(base_url, key, missing if key else (token_key, *missing), token_key)
    if written is not None and built_in.base_url is not None:
        return _Need(base_url, None)
    name = next((one for one in (built_in.key, *built_in.other_keys) if _value(env, one)), built_in.key)
    key = _value(env, name)
    needed = built_in.key is not None and url_from_env is None and not key
    return _Need(base_url, key, (str(built_in.key), *missing) if needed else missing, name or "")


def _at_gateway(file: AgentFile, ref: str, built_in: Provider, gateway: str, env: Environ) -> _Need:
    """The gateway's address and login; no key of a provider is sent there."""
    base_url = at_gateway(gateway, built_in.api)
    if base_url is None:
        raise ModelUnavailable(file, ref, f"the variable {GATEWAY} is no http or https URL")
    login = _value(env, LOGIN)
    return _Need(base_url, login, () if login else (LOGIN,), LOGIN, built_in.id)


def _filled(url: str, built_in: Provider, written: str | None, env: Environ) -> tuple[str, tuple[str, ...]]:
    """A built-in address with its account put in, and the variables that were not set. Others stay as they are."""
    if written is not None or url != built_in.base_url:
        return url, ()
    names = tuple(dict.fromkeys(_VARIABLE.findall(url)))
    values = {name: _value(env, name) for name in names}
    return _VARIABLE.sub(lambda found: values[found.group(1)] or "", url), tuple(n for n in names if not values[n])


def _built_in(file: AgentFile, ref: str, name: str) -> Provider:
    base = base_provider(name, file.providers)
    if base in NOT_BUILT:
        raise ModelUnavailable(file, ref, _not_built(base))
    if base not in PROVIDERS:
        near = did_you_mean(base, {*file.providers, *PROVIDERS})
        raise ModelUnavailable(file, ref, f'unknown provider "{base}"{near}')
    return PROVIDERS[base]


def _not_built(provider: str) -> str:
    return f"provider {provider} is not built yet; use openai or another OpenAI-compatible provider"


def _value(env: Environ, name: str | None) -> str | None:
    """A variable's value without blanks around it; None when it is unset or empty."""
    value = env.get(name) if name is not None else None
    return (value or "").strip() or None
