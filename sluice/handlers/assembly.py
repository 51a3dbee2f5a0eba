"""What the operator gave this process: the agent file, the credential sources, the store; and teams made of them.

The agent file is read again for each session that is set up, so an edit reaches the next one and no live one
(workspace.config.reloaded-per-session). Nothing here belongs to a session.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, cast

import anyio
import anyio.to_thread

from sluice.handlers.agent_parts import AnswerCaches, Embedded, fallback, hooks_of
from sluice.handlers.agent_rules import rules_of, user_hooks, user_rules
from sluice.handlers.answers import unusable, wire_error
from sluice.wire.errors import BackendError

if TYPE_CHECKING:
    from random import Random

    from sluice.acp import AgentCapabilities
    from sluice.agent.ports import Model, Toolset
    from sluice.agent.team import Agent
    from sluice.config.environment import Environment
    from sluice.config.hook_events import HookConfig
    from sluice.config.schema import AgentConfig, AgentFile, ThinkingBudget
    from sluice.handlers.team_setup import Built, ClientSide
    from sluice.outbound import AddressPolicy
    from sluice.persistence.store import Store
    from sluice.wire.tracing import Spans

__all__ = ["Assembly", "MissingCredentials", "Options"]

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Options:
    """What the command line said. `environment` reads the credential sources as they were found at start.

    `busy_timeout` is how many seconds a write waits for another process's lock on the store. `capabilities` is what
    is offered to clients, None for everything this agent can do; what is not offered does not exist. `addresses` says
    what may be reached where a client or a model names the address, None for public addresses only. `flavors` are the
    patches of the agent file that are applied, in order. `hooks` are the last ones of every agent. `rng` picks the
    members of alloys, None for one of its own. `spans` makes spans of what is done, None for none.
    """

    agent_file: Path
    session_db: Path
    environment: Callable[[], Environment]
    busy_timeout: float = 5.0
    capabilities: AgentCapabilities | None = None
    addresses: AddressPolicy | None = None
    flavors: tuple[str, ...] = ()
    hooks: tuple[HookConfig, ...] = ()
    rng: Random | None = None
    spans: Spans | None = None


class MissingCredentials(Exception):
    """The agents' models need keys that no credential source has.

    Attributes:
        text: what to set, as one line for a person; names of variables, never values.
    """

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.text = text


class Assembly:
    """Reads, checks and builds. One per process; every method may be called while others are under way.

    Attributes:
        missing: what the newest check found missing, as one line for a person; "" for nothing.
    """

    def __init__(self, options: Options) -> None:
        self.options = options
        self._environment: Environment | None = None
        self._validation: list[Model] = []
        self._store: Store | None = None
        self._opening = anyio.Lock()
        self.missing = ""
        self._embedded = Embedded()
        self._caches = AnswerCaches(options.agent_file.resolve().parent)
        self._warned: set[str] = set()

    # --- configuration and credentials ------------------------------------------------------------------------

    async def check(self) -> str:
        """Read the agent file and say which credentials are missing; "" when nothing is missing.

        Raises:
            BackendError: the file is broken; data {file, line, key, error} says where.
        """
        file = await self.load()
        self.missing = await anyio.to_thread.run_sync(self._missing, file)
        return self.missing

    async def reload(self) -> str:
        """Re-read the credential sources, then load the team and validate it with them (auth.authenticate.*).

        The process environment stays as it was at start; no provider is asked and no tool is started.
        """
        self._environment = await anyio.to_thread.run_sync(self._reloaded)
        missing = await self.check()
        if missing:
            return missing
        await self.stop_validation()
        file = await self.load()
        self._validation = await anyio.to_thread.run_sync(self._models, file)
        return ""

    async def stop_validation(self) -> None:
        """Release what `reload` made to validate."""
        models, self._validation = self._validation, []
        for model in models:
            await model.aclose()

    def _reloaded(self) -> Environment:
        from sluice.config.environment import EnvFileError

        try:
            return self.environment.reload() if self._environment is not None else self.options.environment()
        except EnvFileError as error:
            log.error("credential sources: %s", error)
            raise BackendError("The credential sources could not be read") from error

    @property
    def addresses(self) -> AddressPolicy:
        """What may be reached where a client or a model names the address."""
        from sluice.outbound import AddressPolicy

        return self.options.addresses or AddressPolicy()

    @property
    def environment(self) -> Environment:
        """The credential sources, read when first needed."""
        if self._environment is None:
            self._environment = self.options.environment()
        return self._environment

    async def load(self) -> AgentFile:
        """The agent file as it is now. Raises BackendError, whose data says what is wrong where."""
        return await anyio.to_thread.run_sync(self._read)

    def _read(self) -> AgentFile:
        from sluice.config.environment import EnvFileError
        from sluice.config.errors import ConfigError

        try:
            return self.read()
        except ConfigError as error:
            raise unusable("The agent file is not usable", error) from error
        except EnvFileError as error:
            log.error("credential sources: %s", error)
            raise BackendError("The credential sources could not be read") from error

    def read(self) -> AgentFile:
        """The same for a command that tells a person what is wrong; blocks. Each warning is logged once.

        Raises:
            ConfigError: the file is broken.
            EnvFileError: a credential source cannot be read.
        """
        from sluice.config.load import load

        file = load(self.options.agent_file, self.environment, self.options.flavors)
        for warning in file.warnings:
            self._warn(f"{self.options.agent_file}: {warning}")
        return file

    def _warn(self, text: str) -> None:
        """Log a warning, once in the life of the process."""
        if text not in self._warned:
            self._warned.add(text)
            log.warning("%s", text)

    def _missing(self, file: AgentFile) -> str:
        from sluice.config.models import missing_text

        return missing_text(file, self.environment)

    def _models(self, file: AgentFile) -> list[Model]:
        return [self._model(file, agent.model) for agent in file.agents.values()]

    async def model(self, file: AgentFile, reference: str, effort: str = "") -> Model:
        """A model for a session that is open; nothing is connected.

        Args:
            file: the agent file as it was when the session was opened.
            reference: a name from `models`, or what an agent may name as its model.
            effort: the reasoning effort instead of the configured budget; "" keeps that.

        Raises:
            BackendError: it cannot be used.
        """
        return await anyio.to_thread.run_sync(self._model, file, reference, effort)

    def _model(self, file: AgentFile, reference: str, effort: str = "") -> Model:
        from sluice import models
        from sluice.agent.ports import ModelError
        from sluice.config.errors import ConfigError
        from sluice.config.models import MissingCredentials as Missing
        from sluice.config.models import ModelUnavailable, resolve_all
        from sluice.config.values import replace

        made = []
        try:
            for resolved in resolve_all(file, reference, self.environment):
                if effort:
                    resolved = replace(
                        resolved, options=replace(resolved.options, thinking_budget=cast("ThinkingBudget", effort))
                    )
                self._embedded.tell(reference, resolved.ref)
                directory = self.options.agent_file.resolve().parent
                made.append(models.build(resolved, directory=directory, engines=self._embedded.engines()))
        except ConfigError as error:
            raise unusable("The model is not usable", error) from error
        except (ModelUnavailable, ModelError, Missing) as unavailable:
            log.error("model %s: %s", reference, unavailable)
            data = {"model": reference, "error": str(unavailable)}
            raise BackendError("The model is not usable", data) from unavailable
        if len(made) == 1:
            return made[0]
        from sluice.agent.lineup import Alloy

        return Alloy(made, self.options.rng)

    # --- teams ------------------------------------------------------------------------------------------------

    async def team(
        self,
        cwd: str,
        roots: Sequence[str],
        client: ClientSide | None = None,
        overrides: Mapping[str, str] | None = None,
    ) -> Built:
        """A new team from the agent file as it is now; nothing of it is started.

        Args:
            cwd: the session's directory, absolute.
            roots: its further directories, absolute.
            client: what its tools use at the client; None for a session without one, whose tools use the host.
            overrides: agent -> the model that was chosen for it, stored with the session. One that cannot be used
                any more is an error, never replaced in silence (config-options.persist.stale-override).

        Raises:
            MissingCredentials: keys are missing.
            BackendError: the file, a model or a toolset is not usable.
        """
        from sluice.handlers.team_setup import ClientSide

        file = await self.load()
        make = partial(self._build, file, cwd, tuple(roots), client or ClientSide(), overrides or {})
        return await anyio.to_thread.run_sync(make)

    def _build(
        self, file: AgentFile, cwd: str, roots: tuple[str, ...], client: ClientSide, overrides: Mapping[str, str]
    ) -> Built:
        from sluice.agent.ports import ToolFailure
        from sluice.agent.team import Team
        from sluice.config.models import selectable
        from sluice.handlers.mcp_servers import configured_server
        from sluice.handlers.team_setup import Built
        from sluice.tools import ToolsetSetup, build
        from sluice.tools.colleagues import ColleaguesToolset
        from sluice.tools.deferred import discoverable
        from sluice.tools.skills import SkillsToolset

        if missing := self._missing(file):
            raise MissingCredentials(missing)
        setup = ToolsetSetup(
            cwd=cwd,
            env=os.environ,
            roots=roots,
            config_dir=self.options.agent_file.resolve().parent,
            files=client.files,
            can_read=client.can_read,
            can_write=client.can_write,
            terminal=client.terminal,
            elicitation=client.elicitation,
            addresses=self.addresses,
            background_agents=client.background_agents,
        )
        further = user_hooks(self.environment, self._warn) + self.options.hooks
        agents, about = {}, {one.name: one.description for one in file.agents.values()}
        for name, config in file.agents.items():
            sub_agents, handoffs = (
                {one: about[one] for one in names if one != name} for names in (config.sub_agents, config.handoffs)
            )
            own = replace(setup, sub_agents=sub_agents)
            try:
                toolsets = [
                    configured_server(toolset, own, client) if toolset.type == "mcp" else build(toolset, setup=own)
                    for toolset in config.toolsets
                ]
            except ToolFailure as error:
                raise BackendError("A toolset is not usable", {"agent": name, "error": str(error)}) from error
            if sub_agents or handoffs:
                toolsets.append(ColleaguesToolset(sub_agents, handoffs))
            if config.skills:
                names = config.skills if isinstance(config.skills, tuple) else None
                toolsets.append(SkillsToolset(Path(cwd), Path("~").expanduser(), names))
            offered, deferred = discoverable(toolsets, config.readonly)
            agents[name] = self._agent(file, config, offered, overrides.get(name, ""))
            agents[name].hooks = hooks_of(config, further)
            if deferred is not None:
                deferred.on_change = agents[name].list_tools
        team = Team(agents, file.default_agent.name)
        choices = selectable(file, self.environment)
        return Built(file, team, rules_of(file.permissions), user_rules(self.environment), choices)

    def _agent(self, file: AgentFile, config: AgentConfig, toolsets: Sequence[Toolset], chosen: str) -> Agent:
        from sluice.agent.team import Agent

        made = Agent(config, self._model(file, chosen or config.model), toolsets, model_ref=chosen)
        if config.compaction_model is not None:
            made.compaction_model = self._model(file, config.compaction_model)
        made.threshold = threshold(file, config, chosen)
        made.fallback = fallback(file, config, self.environment, self._model)
        made.answers = self._caches.of(config)
        return made

    # --- the store --------------------------------------------------------------------------------------------

    async def store(self) -> Store:
        """The open store; opened by whoever needs it first, so that initialize never waits for it.

        Raises:
            BackendError: it cannot be opened; the text names the file and says what to do.
        """
        async with self._opening:
            if self._store is None:
                self._store = await self._open()
            return self._store

    async def _open(self) -> Store:
        store_module = await anyio.to_thread.run_sync(_import_store)
        try:
            opened: Store = await store_module.open(self.options.session_db, busy_timeout=self.options.busy_timeout)
        except Exception as error:
            raise wire_error(error) from error
        return opened

    async def aclose(self) -> None:
        """End the engines and close the store, after everything that uses them has ended."""
        await self._embedded.aclose()
        if self._store is not None:
            store, self._store = self._store, None
            await store.aclose()


def threshold(file: AgentFile, config: AgentConfig, chosen: str) -> float:
    """The share of the window at which an agent compacts, with the model that was chosen ("" for the file's)."""
    from sluice.agent.team import THRESHOLD
    from sluice.config.models import compaction_threshold

    return compaction_threshold(file, config, chosen or config.model) or THRESHOLD


def _import_store() -> type[Store]:
    from sluice.persistence.store import Store

    return Store
