"""What a host says: about an agent (the spec), about one chat (the launch), and about the model it wants.

An `AcpAgentSpec` is what the chat backend needs; `AcpProviderSpec` adds what makes a provider of it that can be
listed, detected and picked from.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, TypeAlias

from sluice.client.process import Ladder
from sluice.client.provider.events import ChatEvent
from sluice.client.provider.policy import ModeMap, RuntimeMode
from sluice.client.questions import Questions
from sluice.client.session import Choice
from sluice.client.updates import ConfigOption

__all__ = [
    "ACP_CAPABILITIES",
    "AcpAgentSpec",
    "AcpClientInfo",
    "AcpProviderSpec",
    "AcpSessionInfo",
    "ChatCapabilities",
    "Detection",
    "Launch",
    "Model",
    "ModelCatalog",
    "PromptArgs",
    "Selection",
]


@dataclass(frozen=True)
class Model:
    """A model a person may pick.

    Attributes:
        slug: what identifies it; the agent's own id for it unless the spec's `model` says otherwise.
        efforts: the reasoning efforts it takes, or none.
    """

    slug: str
    name: str
    efforts: tuple[str, ...] = ()


class ModelCatalog:
    """The models a person picks from, in order. A host ships it, or fills it from what a session offers."""

    def __init__(self, models: Sequence[Model] = ()) -> None:
        self._models = tuple(models)

    def __iter__(self) -> Iterator[Model]:
        return iter(self._models)

    def __len__(self) -> int:
        return len(self._models)

    def get(self, slug: str) -> Model | None:
        """The model of this slug, or None when it is not listed."""
        return next((model for model in self._models if model.slug == slug), None)

    def fill(self, models: Sequence[Model]) -> None:
        """Replace the whole list, for example from `AcpSessionInfo.models`."""
        self._models = tuple(models)


@dataclass(frozen=True)
class Selection:
    """The model a person picked.

    Attributes:
        effort: the reasoning effort, or None for the agent's own.
    """

    slug: str
    effort: str | None = None


@dataclass(frozen=True)
class ChatCapabilities:
    """What a host can expect of a chat.

    Attributes:
        reports_cost: whether the cost of a session is told.
        reports_context_window: whether the size of the context is told.
        compaction: how the context can be folded: not at all, or by a prompt (`Chat.compact`).
    """

    reports_cost: bool = False
    reports_context_window: bool = False
    compaction: Literal["none", "prompt"] = "none"


ACP_CAPABILITIES = ChatCapabilities()
"""What is true of every ACP agent. Many report more, which their specs say."""


@dataclass(frozen=True)
class AcpClientInfo:
    """How the host names itself to the agent (`clientInfo`)."""

    name: str = "sluice"
    version: str = "0"
    title: str | None = None


@dataclass(frozen=True)
class AcpSessionInfo:
    """What an opened session offers.

    Attributes:
        models: (id, name) of each model on offer; empty when the agent offers none.
        model: the id of the present one, or None when it does not say.
        modes: the agent's own modes; `mode` is the present one.
        options: every setting of the session, those of models and modes among them.
    """

    session_id: str
    models: tuple[Choice, ...]
    model: str | None
    modes: tuple[Choice, ...]
    mode: str | None
    options: tuple[ConfigOption, ...]


def _its_slug(selection: Selection) -> str | None:
    return selection.slug


@dataclass(frozen=True)
class AcpAgentSpec:
    """What it takes to chat with an ACP agent.

    Attributes:
        kind: identifies the provider; any word the host picks.
        name: what a person reads, in notes and errors too.
        command: the program; started without a shell.
        args: the arguments that make it an ACP agent on its standard input and output.
        env: variables laid over those of the launch.
        modes: the agent's own mode ids per runtime mode, best first.
        model: the agent's model id for a selection; None from it leaves the agent its own model.
        auth_method: the method to log in by when the agent asks for it, or None.
        login_hint: what the error says when there is no such method.
        client: how the host names itself.
        on_session: told what each opened session offers, before the first turn.
        capabilities: what is true of this agent beyond `ACP_CAPABILITIES`.
        compact_command: the slash command that folds the context, without its slash, or None.
        cancel_grace: seconds the agent gets to answer an interrupted prompt before it is killed; None for ever.
        ladder: the budgets of its shutdown.
    """

    kind: str
    name: str
    command: str
    args: Sequence[str] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    modes: ModeMap = field(default_factory=dict)
    model: Callable[[Selection], str | None] = _its_slug
    auth_method: str | None = None
    login_hint: str | None = None
    client: AcpClientInfo = AcpClientInfo()
    on_session: Callable[[AcpSessionInfo], None] | None = None
    capabilities: ChatCapabilities = ACP_CAPABILITIES
    compact_command: str | None = None
    cancel_grace: float | None = 30.0
    ladder: Ladder = field(default_factory=Ladder)


@dataclass(frozen=True)
class Detection:
    """Whether a provider's program is there, and which version it says it is."""

    found: bool
    version: str | None = None


PromptArgs: TypeAlias = Callable[[str], Sequence[str]]
"""The arguments that run the program with this prompt."""


@dataclass(frozen=True)
class AcpProviderSpec(AcpAgentSpec):
    """An agent, and what makes a provider of it.

    Attributes:
        catalog: the models to pick from.
        resume_command: the command line by which a person goes on with a session in a terminal, from its id.
        home: the directory where the program keeps its own things, or None when that is not known.
        detect: looks for the program; None runs it with `--version`.
        one_shot_args: runs the program for one prompt, which is among the arguments.
        one_shot_stdin_args: the same with the prompt on standard input.
        first_prompt_args: starts the program's own interface with a first prompt; None: it is offered as a chat only.
        enabled: whether it is offered at all.
        ignores_project_config: whether the program leaves a project's own settings aside.
    """

    catalog: ModelCatalog = field(default_factory=ModelCatalog)
    resume_command: Callable[[str], Sequence[str]] | None = None
    home: Path | None = None
    detect: Callable[[], Awaitable[Detection]] | None = None
    one_shot_args: PromptArgs | None = None
    one_shot_stdin_args: Sequence[str] | None = None
    first_prompt_args: PromptArgs | None = None
    enabled: bool = True
    ignores_project_config: bool = False


@dataclass(frozen=True)
class Launch:
    """One chat.

    Attributes:
        cwd: the directory to work in; made absolute.
        on_event: takes each event, in order. It is called by the reader of the connection and must not block; what
            it raises is logged.
        mode: how much the agent may do unasked.
        selection: the model to use, or None for the agent's own.
        session_id: an agent session to go on with, or None for a new one.
        folders: more directories, for agents that take them.
        env: variables laid over the host's own environment.
        instructions: stands in front of the first prompt of a new session.
        resume_instructions: stands in front of the first prompt of a session gone on with; `resume_note` follows it.
        questions: answers what the agent asks the person besides approvals, or None.
        terminals: whether the agent may run commands on this machine through the chat; they end with it.
    """

    cwd: str | Path
    on_event: Callable[[ChatEvent], None]
    mode: RuntimeMode = "supervised"
    selection: Selection | None = None
    session_id: str | None = None
    folders: Sequence[str | Path] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    instructions: str | None = None
    resume_instructions: str | None = None
    resume_note: str | None = None
    terminals: bool = False
    questions: Questions | None = None
