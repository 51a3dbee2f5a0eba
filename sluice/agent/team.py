"""The agents of one session: each with its model and its tools, started together and stopped together."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from sluice.agent.hooks import Hooks
from sluice.agent.lineup import Alloy, Fallback, in_turn
from sluice.agent.outcome import TurnFailure
from sluice.agent.ports import AnswerCache, Model, Tool, ToolFailure, Toolset
from sluice.config.schema import AgentConfig

__all__ = ["Agent", "Team", "TeamStopError"]

log = logging.getLogger(__name__)


THRESHOLD = 0.9
"""The share of the window above which a conversation is compacted, unless the agent file says another."""


class TeamStopError(Exception):
    """A toolset could not be stopped, so the session's close fails (session.close.toolset-stop-error)."""


@dataclass(slots=True)
class Agent:
    """One agent that can take a turn. `toolsets` keep the order of the file: the first tool of a name wins.

    Attributes:
        model: the model in force; a change of configuration replaces the object as a whole, between turns.
        model_ref: the model that was chosen in place of the file's, "" when none was; stored with the session.
        compaction_model: the model that compacts, None for `model`.
        threshold: the share of the window above which the conversation is compacted before the next call.
        fallback: what is asked when the model fails.
        answers: the response cache, None when the agent has none.
        extra: toolsets that others started, such as the client's servers; their tools come last.
        hooks: what runs at the events of its turns.
        effort: the reasoning effort that was chosen, "" for the configured one; it ends with this object.
    """

    config: AgentConfig
    model: Model
    toolsets: Sequence[Toolset] = ()
    tools: Mapping[str, Tool] = field(default_factory=dict)
    model_ref: str = ""
    effort: str = ""
    compaction_model: Model | None = None
    threshold: float = THRESHOLD
    fallback: Fallback = field(default_factory=Fallback)
    answers: AnswerCache | None = None
    extra: Sequence[Toolset] = ()
    hooks: Hooks = field(default_factory=Hooks)

    @property
    def name(self) -> str:
        """The agent's name in the file."""
        return self.config.name

    def begin_turn(self) -> Model:
        """The model that answers in one turn or task: of an alloy, a member that is picked now (models.ref.alloy)."""
        if isinstance(self.model, Alloy):
            self.model.pick()
        return in_turn(self.model)

    def refresh(self, extra: Sequence[Toolset] = ()) -> None:
        """Take the tools of the started toolsets, then those of `extra`; the first of a name wins."""
        self.extra = tuple(extra)
        self.list_tools()

    def list_tools(self) -> None:
        """Ask all toolsets again for their tools. Raises what a toolset raises; the tools stay as they were then."""
        tools: dict[str, Tool] = {}
        for toolset in (*self.toolsets, *self.extra):
            for tool in toolset.tools():
                if self.config.readonly and not tool.read_only:
                    continue
                tools.setdefault(tool.name, tool)
        self.tools = tools

    def list_for_turn(self) -> None:
        """List the tools as a turn begins; without them it would only mislead the model.

        Raises:
            TurnFailure: tool_failed.
        """
        try:
            self.list_tools()
        except ToolFailure as failure:
            raise TurnFailure("tool_failed", f"The tools could not be listed: {failure}") from failure
        except Exception as error:
            log.exception("the tools could not be listed")
            text = "The tools could not be listed; the agent's log has the details."
            raise TurnFailure("tool_failed", text) from error

    def system_prompt(self) -> str:
        """Instruction of the agent, then those of its toolsets, joined by blank lines."""
        texts = [self.config.instruction, *(toolset.instruction for toolset in self.toolsets)]
        return "\n\n".join(text.strip() for text in texts if text and text.strip())


@dataclass(slots=True)
class Team:
    """All agents of a session and the one that holds the conversation now."""

    agents: Mapping[str, Agent]
    current: str
    started: list[Toolset] = field(default_factory=list)

    @property
    def agent(self) -> Agent:
        """The agent that takes the next turn."""
        return self.agents[self.current]

    def reachable(self) -> list[Agent]:
        """The agent that takes the next turn, then all that it can bring to work, directly or through others."""
        found = [self.current]
        for name in found:  # which grows meanwhile
            config = self.agents[name].config
            others = (*config.sub_agents, *config.handoffs, *filter(None, [config.force_handoff]))
            found += [one for one in dict.fromkeys(others) if one not in found]
        return [self.agents[name] for name in found]

    async def start(self) -> None:
        """Start every toolset; what was started before a failure is stopped by `stop`."""
        for agent in self.agents.values():
            for toolset in agent.toolsets:
                self.started.append(toolset)
                await toolset.start()
            agent.refresh()

    async def stop(self) -> None:
        """Stop every started toolset in reverse order, then close the models.

        All are tried whatever fails; raises TeamStopError at the end when one failed.
        """
        failed = False
        while self.started:
            toolset = self.started.pop()
            try:
                await toolset.stop()
            except Exception:
                log.exception("a toolset could not be stopped")
                failed = True
        models = ((agent.model, agent.compaction_model, *agent.fallback.models) for agent in self.agents.values())
        for model in [model for several in models for model in several if model is not None]:
            try:
                await model.aclose()
            except Exception:
                log.exception("a model connection could not be closed")
        if failed:
            raise TeamStopError("a toolset could not be stopped")
