"""What the connected client can do, read with the leniency real clients need.

ACP encodes capabilities in two ways: booleans count only when literally true, and object markers count only when an
object is there. A client that sends nonsense is a client without that capability, never a failed `initialize`.

Source: ACP "Initialization"; requirements initialize.client.missing-capabilities and
initialize.client.unknown-capabilities.
"""

from __future__ import annotations

from typing import Any

import msgspec

__all__ = ["ClientCapabilities"]


class ClientCapabilities(msgspec.Struct, frozen=True):
    """A flat view of `clientCapabilities`.

    Attributes:
        fs_read: `fs.readTextFile`.
        fs_write: `fs.writeTextFile`.
        terminal: `terminal`.
        elicitation_form: `elicitation.form`.
        elicitation_url: `elicitation.url`.
        boolean_options: `session.configOptions.boolean`.
        notices: `session.notices`.
        compaction: `session.compaction`.
        auth_terminal: `auth.terminal`.
    """

    fs_read: bool = False
    fs_write: bool = False
    terminal: bool = False
    elicitation_form: bool = False
    elicitation_url: bool = False
    boolean_options: bool = False
    notices: bool = False
    compaction: bool = False
    auth_terminal: bool = False

    @classmethod
    def from_wire(cls, value: object) -> ClientCapabilities:
        """Read a `clientCapabilities` value of any shape; never raises."""
        found = {name: _lookup(value, path) for name, path in _PATHS.items()}
        return cls(
            **{name: (item is True if name in _BOOLEANS else isinstance(item, dict)) for name, item in found.items()}
        )

    def to_wire(self) -> dict[str, Any]:
        """The JSON object that `from_wire` reads back as this view."""
        wire: dict[str, Any] = {}
        for name, path in _PATHS.items():
            if not getattr(self, name):
                continue
            *parents, last = path
            target = wire
            for key in parents:
                target = target.setdefault(key, {})
            target[last] = True if name in _BOOLEANS else {}
        return wire

    def allows(self, gate: str | None) -> bool:
        """Whether a method or update behind this gate may be sent to the client.

        Args:
            gate: a dotted path such as "fs.readTextFile"; "elicitation" means either of its modes; None is open.

        Raises:
            KeyError: no such gate; that is a bug in the caller.
        """
        if gate is None:
            return True
        if gate == "elicitation":
            return self.elicitation_form or self.elicitation_url
        return bool(getattr(self, _GATES[gate]))


_PATHS: dict[str, tuple[str, ...]] = {
    "fs_read": ("fs", "readTextFile"),
    "fs_write": ("fs", "writeTextFile"),
    "terminal": ("terminal",),
    "elicitation_form": ("elicitation", "form"),
    "elicitation_url": ("elicitation", "url"),
    "boolean_options": ("session", "configOptions", "boolean"),
    "notices": ("session", "notices"),
    "compaction": ("session", "compaction"),
    "auth_terminal": ("auth", "terminal"),
}
_BOOLEANS = frozenset({"fs_read", "fs_write", "terminal", "auth_terminal"})
_GATES = {".".join(path): name for name, path in _PATHS.items()}


def _lookup(value: object, path: tuple[str, ...]) -> object:
    for key in path:
        if not isinstance(value, dict):
            return None
        value = value.get(key)
    return value
