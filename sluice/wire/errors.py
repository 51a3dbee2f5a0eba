"""The error tree, by blame. Every error knows its JSON-RPC code; only `wire/peer.py` writes one to the wire.

    RpcError                     an error with a JSON-RPC code
      PeerError                  the peer broke a rule of the protocol
        ParseError       -32700
        InvalidRequest   -32600
        MethodNotFound   -32601
        InvalidParams    -32602
      RefusedError               legal, but not now (code from the refusal table)
        RequestCancelled -32800
      BackendError       -32603  a model, a tool, the store or the configuration failed

Any other exception becomes -32603 with a fixed text at the boundary; its detail goes to the log only.

Source: JSON-RPC 2.0 section 5.1; ACP "Errors".
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

__all__ = [
    "BackendError",
    "InvalidParams",
    "InvalidRequest",
    "MethodNotFound",
    "ParseError",
    "PeerError",
    "RefusedError",
    "RequestCancelled",
    "RpcError",
]


class RpcError(Exception):
    """An error that may be written to the wire.

    Attributes:
        code: the JSON-RPC error code.
        message: one non-empty line for a person; never an exception's text, a secret or a traceback.
        data: JSON-safe detail, or None for none.
    """

    default_code: ClassVar[int] = -32603

    def __init__(self, message: str, data: Mapping[str, Any] | None = None, *, code: int | None = None) -> None:
        super().__init__(message)
        self.code = self.default_code if code is None else code
        self.message = message
        self.data = dict(data) if data is not None else None


class PeerError(RpcError):
    """The peer broke a rule of the protocol."""

    default_code = -32600


class ParseError(PeerError):
    """The bytes are not JSON."""

    default_code = -32700


class InvalidRequest(PeerError):
    """JSON, but no valid request envelope."""

    default_code = -32600


class MethodNotFound(PeerError):
    """The method does not exist here, or was not advertised."""

    default_code = -32601


class InvalidParams(PeerError):
    """The parameters do not have the shape or the value the method needs."""

    default_code = -32602


class RefusedError(RpcError):
    """The call is legal, but not in the present state; `data["reason"]` says which refusal it is."""

    default_code = -32600


class RequestCancelled(RefusedError):
    """The request was cancelled before it had a result (ACP "$/cancel_request")."""

    default_code = -32800


class BackendError(RpcError):
    """A model, a tool, the store or the configuration failed."""

    default_code = -32603
