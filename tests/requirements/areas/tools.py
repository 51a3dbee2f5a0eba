from __future__ import annotations

from tests.requirements.manifest import area

AREA = area(
    "tools",
    {
        "tools.registry.first-wins": "The first toolset with a name wins.",
        "tools.registry.filter": "Filters work on every toolset.",
        "tools.registry.deferred": "Deferred tools are found and added.",
        "tools.registry.instruction": "A toolset's text can be replaced or wrapped.",
        "tools.registry.result-bound": "Results are cut at 50 KiB.",
        "tools.registry.parallel": "Calls of a batch run side by side.",
        "tools.filesystem.full-set": "The file toolset has nine tools.",
        "tools.filesystem.native-without-acp": "They work on disk too.",
        "tools.filesystem.edit-rules": "An edit needs a text that is there.",
        "tools.filesystem.search-bounds": "Searching is bounded.",
        "tools.filesystem.remove-empty-only": "Only empty directories are removed.",
        "tools.shell.semantics": "A shell call is a new process with a time limit.",
        "tools.shell.classifier": "Commands are safe, destructive or unknown.",
        "tools.git.read-only-set": "The Git tools only read.",
        "tools.think.one-argument": "think changes nothing.",
        "tools.todo.typed-metadata": "Todos come as a list.",
        "tools.memory.crud": "Memory is kept in a file.",
        "tools.fetch.guarded": "Fetching is guarded.",
        "tools.api.configured-call": "An HTTP call can be a tool.",
        "tools.script.entries": "So can a script.",
        "tools.background-jobs.lifecycle": "Jobs live as long as the session.",
        "tools.mcp.toolset": "Configured servers give tools.",
        "tools.user-prompt.via-elicitation": "Questions go to the person.",
        "tools.skills.discovery": "Skills are found and offered.",
        "tools.openapi.operations": "An API description gives tools.",
        "tools.shell.cancel-kills-group": "A cancel ends the whole process group.",
        "tools.environment.info": "The environment can be asked for.",
        "tools.unknown.name": "An unknown tool is an error with help.",
    },
)
