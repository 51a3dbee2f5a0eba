from __future__ import annotations

from tests.requirements.manifest import area

AREA = area(
    "slash-commands",
    {
        "slash-commands.advertise.moments": "The list is sent when a session opens, when a turn begins and when it changes.",
        "slash-commands.advertise.metadata-only": "Making the list starts and expands nothing.",
        "slash-commands.advertise.shape": "Entries have no slash, and each update is the whole list.",
        "slash-commands.advertise.builtins": "compact and usage are offered.",
        "slash-commands.advertise.no-new": "new is not.",
        "slash-commands.reserved.new-refused": "Typing /new is an error and starts nothing.",
        "slash-commands.reserved.names": "A configured command cannot take a built-in name.",
        "slash-commands.usage.no-arguments": "/usage takes none.",
        "slash-commands.builtin.no-attachments": "The built-ins take none and drop none silently.",
        "slash-commands.builtin.not-in-history": "Built-ins leave nothing in the history.",
        "slash-commands.compact.success": "/compact shortens the root session and says so once.",
        "slash-commands.compact.skipped": "When nothing was done it says that.",
        "slash-commands.compact.failure": "A compaction that was asked for and fails, fails the turn.",
        "slash-commands.parse.leading-text-only": "Only text typed at the start is parsed.",
        "slash-commands.parse.not-in-resources": "Text inside a resource is never a command.",
        "slash-commands.parse.unknown-is-chat": "An unknown word goes to the model.",
        "slash-commands.unsupported.explicit-error": "A command we cannot run is not offered and refused when typed.",
        "slash-commands.configured.literal": "A configured command sends its text and the arguments.",
        "slash-commands.configured.agent-switch": "A command can switch the agent, which refreshes options and commands.",
    },
)
