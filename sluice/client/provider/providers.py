"""Chat providers and their registry: what a host lists, detects, picks from and starts.

`create_acp_provider(spec)` makes a provider of an ACP agent. A host may also build a `ChatProvider` by hand, around
the backend of an agent or around one of its own; the registry tells none of them apart.
"""

from __future__ import annotations

import subprocess
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import anyio

from sluice.client.errors import ClientError
from sluice.client.provider.backend import ChatBackend, create_acp_backend
from sluice.client.provider.spec import AcpProviderSpec, ChatCapabilities, Detection, ModelCatalog, PromptArgs

__all__ = ["ChatProvider", "ProviderRegistry", "create_acp_provider", "detect_by_version"]

VERSION_TIME = 10.0
"""Seconds a program gets to say its version; launchers that look for updates take a few."""


@dataclass(frozen=True)
class ChatProvider:
    """A provider of chats.

    Attributes:
        kind: identifies it in a registry.
        name: what a person reads.
        command: the program, for the command lines below; looked up in PATH when it is a bare name.
        create_backend: makes its chat backend.

    The other members are those of `AcpProviderSpec`.
    """

    kind: str
    name: str
    command: str
    create_backend: Callable[[], ChatBackend]
    catalog: ModelCatalog = field(default_factory=ModelCatalog)
    resume_command: Callable[[str], Sequence[str]] | None = None
    home: Path | None = None
    detect: Callable[[], Awaitable[Detection]] | None = None
    one_shot_args: PromptArgs | None = None
    one_shot_stdin_args: Sequence[str] | None = None
    first_prompt_args: PromptArgs | None = None
    enabled: bool = True
    ignores_project_config: bool = False

    @property
    def capabilities(self) -> ChatCapabilities:
        """What a host can expect of its chats."""
        return self.create_backend().capabilities

    @property
    def chat_only(self) -> bool:
        """Whether it offers chats, but no start of its own interface with a first prompt."""
        return self.first_prompt_args is None

    def first_prompt_command(self, prompt: str) -> list[str]:
        """The command line that starts the program's own interface with a first prompt.

        Raises:
            ClientError: this provider is for chats only.
        """
        if self.first_prompt_args is None:
            raise ClientError(f"{self.name} is offered as a chat only")
        return [self.command, *self.first_prompt_args(prompt)]

    def one_shot_command(self, prompt: str) -> tuple[list[str], str | None]:
        """The command line that runs one prompt, and what it gets on standard input (None: nothing).

        Standard input is preferred where the program takes it: an argument has a limit and is seen by everybody.

        Raises:
            ClientError: the program has no such way.
        """
        if self.one_shot_stdin_args is not None:
            return [self.command, *self.one_shot_stdin_args], prompt
        if self.one_shot_args is not None:
            return [self.command, *self.one_shot_args(prompt)], None
        raise ClientError(f"{self.name} has no way to run a single prompt")

    async def find(self) -> Detection:
        """Look for the program: by `detect`, else by asking it for its version."""
        return await (self.detect() if self.detect is not None else detect_by_version(self.command))


class ProviderRegistry:
    """Providers by kind, in the order in which they were added."""

    def __init__(self, *providers: ChatProvider) -> None:
        self._providers: dict[str, ChatProvider] = {}
        for provider in providers:
            self.add(provider)

    def __iter__(self) -> Iterator[ChatProvider]:
        return iter(self._providers.values())

    def add(self, provider: ChatProvider) -> None:
        """Add a provider.

        Raises:
            ClientError: there is one of this kind.
        """
        if provider.kind in self._providers:
            raise ClientError(f"there already is a provider of the kind {provider.kind!r}")
        self._providers[provider.kind] = provider

    def get(self, kind: str) -> ChatProvider:
        """The provider of a kind.

        Raises:
            ClientError: there is none.
        """
        try:
            return self._providers[kind]
        except KeyError:
            raise ClientError(f"there is no provider of the kind {kind!r}") from None

    def enabled(self) -> list[ChatProvider]:
        """Those that are offered to a person."""
        return [provider for provider in self if provider.enabled]


def create_acp_provider(spec: AcpProviderSpec) -> ChatProvider:
    """Make a provider of an ACP agent."""
    return ChatProvider(
        kind=spec.kind,
        name=spec.name,
        command=spec.command,
        create_backend=lambda: create_acp_backend(spec),
        catalog=spec.catalog,
        resume_command=spec.resume_command,
        home=spec.home,
        detect=spec.detect,
        one_shot_args=spec.one_shot_args,
        one_shot_stdin_args=spec.one_shot_stdin_args,
        first_prompt_args=spec.first_prompt_args,
        enabled=spec.enabled,
        ignores_project_config=spec.ignores_project_config,
    )


async def detect_by_version(command: str) -> Detection:
    """Run a program with `--version`; found when it ends well, with the first line it says as its version."""
    try:
        with anyio.move_on_after(VERSION_TIME):
            done = await anyio.run_process([command, "--version"], stdin=subprocess.DEVNULL, check=False)
            said = (done.stdout or done.stderr).decode("utf-8", "replace").strip()
            return Detection(done.returncode == 0, said.splitlines()[0] if said and done.returncode == 0 else None)
    except (OSError, ValueError):
        pass
    return Detection(found=False)
