"""What can go wrong between a client and an agent, by blame.

    ClientError              anything this package raises about an agent
      AgentStartError        the program could not be started at all
      AgentExited            the agent's process or its stream ended; carries the exit status and the tail of stderr
      ProtocolMismatch       the agent answered `initialize` with something that is not ACP version 1
      NotAdvertised          the call needs a capability the agent has not advertised; nothing was sent
      TurnInProgress         a second prompt for a session that already runs one; nothing was sent
      ListingError           `session/list` repeats a cursor and would never end
      ChatStartError         a chat (`sluice.client.provider`) could not be opened; its cause says why

An error the agent itself answers is `sluice.wire.peer.RemoteError` and is passed on as it came.
"""

from __future__ import annotations

__all__ = [
    "AgentExited",
    "AgentStartError",
    "ChatStartError",
    "ClientError",
    "ListingError",
    "NotAdvertised",
    "ProtocolMismatch",
    "TurnInProgress",
]


class ClientError(Exception):
    """Something is wrong between this client and its agent; the text is one readable line."""


class AgentStartError(ClientError):
    """The agent's program could not be started."""


class AgentExited(ClientError):
    """The agent is gone.

    Attributes:
        returncode: the exit status, negative for a signal, or None when the process never ended by itself or there
            is no process behind the connection.
        stderr: the last lines the agent wrote to stderr, oldest first.
    """

    def __init__(self, message: str, *, returncode: int | None = None, stderr: tuple[str, ...] = ()) -> None:
        super().__init__(message)
        self.returncode = returncode
        self.stderr = stderr


class ProtocolMismatch(ClientError):
    """The agent does not speak ACP version 1."""


class NotAdvertised(ClientError):
    """The agent has not advertised what this call needs, so nothing was sent.

    Attributes:
        capability: the missing capability as a dotted path below `agentCapabilities`.
    """

    def __init__(self, call: str, capability: str) -> None:
        super().__init__(f"{call}: the agent does not advertise {capability}")
        self.capability = capability


class TurnInProgress(ClientError):
    """The session already runs a prompt; an ACP session has one at a time."""


class ListingError(ClientError):
    """The agent's session listing does not end."""


class ChatStartError(ClientError):
    """A chat could not be opened, and the agent's process has been ended.

    The text begins with the name of the agent; the cause is the error it came from.
    """
