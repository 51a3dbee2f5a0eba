from __future__ import annotations

from tests.requirements.manifest import area

AREA = area(
    "message-ids",
    {
        "message-ids.chunk.always": "Every chunk of a message carries one id of ours.",
        "message-ids.chunk.thought-differs": "Thought and answer have different ids.",
        "message-ids.chunk.fresh-per-attempt": "Another attempt is another message.",
        "message-ids.cache.hit-identified": "A cached answer has an id for each hit.",
        "message-ids.cache.xml-tool-miss": "A cached answer that hides a tool call counts as no hit.",
        "message-ids.persist.logical-id": "The logical id is stored with its message.",
        "message-ids.persist.stable-display": "The shown id is derived, so it is the same live and after every load.",
        "message-ids.persist.copied-differs": "A copy in another session has another id.",
        "message-ids.persist.nested-owner": "Nested messages belong to their child session.",
        "message-ids.user.agent-made": "Ids a client sends are neither used nor echoed.",
        "message-ids.legacy.position-based": "Messages stored without an id get one from their position.",
        "message-ids.transient.fresh": "Passing notices get fresh ids, stored errors one from their position.",
        "message-ids.durability.documented": "The docs say that an id promises nothing about storage.",
        "message-ids.tool-name.everywhere": "The tool's programmatic name stands in every report that knows it.",
        "message-ids.tool-name.client-mcp-alias": "Tools of client servers show their alias, and a name approves nothing.",
        "message-ids.tool-name.omitted": "A name that is unknown or unfit is left out, not guessed.",
        "message-ids.tool-name.no-carrier": "No private key carries the name.",
        "message-ids.tool-name.replay-no-arguments": "A replayed name brings nothing else back.",
    },
)
