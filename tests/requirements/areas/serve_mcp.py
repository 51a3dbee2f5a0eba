from __future__ import annotations

from tests.requirements.manifest import area

AREA = area(
    "serve-mcp",
    {
        "serve-mcp.stdio.default": "It is a server on stdio unless told otherwise.",
        "serve-mcp.http.listen": "HTTP listens on the loopback, elsewhere when asked.",
        "serve-mcp.http.paths": "It answers at /mcp and at the root.",
        "serve-mcp.http.stateless-sse": "Each answer is one event, and there are no session ids.",
        "serve-mcp.http.version-from-server": "The server says which revision it speaks.",
        "serve-mcp.http.method-table": "Other HTTP methods are refused.",
        "serve-mcp.server-info.capabilities": "It gives its name, version and capabilities.",
        "serve-mcp.tools.one-per-agent": "Each agent is a tool, or the one that was named.",
        "serve-mcp.tools.tool-name": "The one tool can be renamed.",
        "serve-mcp.tools.input": "A tool takes a message and, if wanted, a session.",
        "serve-mcp.tools.output": "The answer is structured and repeated as text.",
        "serve-mcp.tools.annotations": "Hints hold only when they hold for every tool behind it.",
        "serve-mcp.tools.list-metadata": "Cache fields appear where the revision has them.",
        "serve-mcp.call.after-whole-turn": "The answer comes after the turn, progress only when asked for.",
        "serve-mcp.call.fresh-session": "Each call is a new session unless one is named.",
        "serve-mcp.call.failure": "Errors are tool errors, and a cancelled call stops its turn.",
        "serve-mcp.safety.http-default": "Over HTTP the mode is restricted unless set.",
        "serve-mcp.safety.stdio": "On stdio the configured mode holds, and the docs say what holds without one.",
        "serve-mcp.flags.http-only": "Flags of HTTP are errors without it.",
        "serve-mcp.flags.keepalive-stdio-only": "The keepalive is for stdio only.",
        "serve-mcp.auth.bearer": "A token is asked for when there is one, and needed beyond the loopback.",
        "serve-mcp.attach.running-session": "It can attach to a running session of the same user.",
        "serve-mcp.attach.conflicts": "Attaching excludes the other flags.",
        "serve-mcp.docs.client-registration": "The docs show how to register it.",
    },
)
