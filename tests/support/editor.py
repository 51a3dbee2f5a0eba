"""What an editor does with `fs/*` requests: it serves texts from buffers, and keeps what it was asked."""

from __future__ import annotations

from typing import Any

from tests.support.wire import Client

__all__ = ["FS", "Editor"]

Json = dict[str, Any]

FS = {"readTextFile": True, "writeTextFile": True}
"""The value of `clientCapabilities.fs` of a client that offers both."""


class Editor:
    """Answers the file requests of a client from `texts`; `errors` maps a path to the members of another answer."""

    def __init__(self, client: Client, texts: dict[str, str] | None = None) -> None:
        self.texts = dict(texts or {})
        self.errors: dict[str, Json] = {}
        self.asked: list[tuple[str, Json]] = []
        client.responders["fs/read_text_file"] = lambda message: self._read(message["params"])
        client.responders["fs/write_text_file"] = lambda message: self._write(message["params"])

    def paths(self) -> list[str]:
        """The paths asked for, in order."""
        return [params["path"] for _, params in self.asked]

    def methods(self) -> list[str]:
        """The requests, in order: read or write."""
        return [what for what, _ in self.asked]

    def _read(self, params: Json) -> Json:
        self.asked.append(("read", params))
        if (odd := self.errors.get(params["path"])) is not None:
            return odd
        text = self.texts.get(params["path"])
        if text is None:
            return {"error": {"code": -32002, "message": "no such file"}}
        start = (params.get("line") or 1) - 1
        lines = text.splitlines(keepends=True)[start:][: params.get("limit")]
        return {"result": {"content": "".join(lines)}}

    def _write(self, params: Json) -> Json:
        self.asked.append(("write", params))
        if (odd := self.errors.get(params["path"])) is not None:
            return odd
        self.texts[params["path"]] = params["content"]
        return {"result": {}}
