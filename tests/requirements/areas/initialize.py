from __future__ import annotations

from tests.requirements.manifest import area

AREA = area(
    "initialize",
    {
        "initialize.version.one": "The smallest handshake succeeds with version 1, and a prompt works after it.",
        "initialize.version.newer-requested": "Whatever newer version is asked for, the answer is 1 without a trace of anything newer.",
        "initialize.version.zero": "Version 0 is answered with 1.",
        "initialize.version.malformed": "A version that is no small whole number is a params error, and the next try works.",
        "initialize.client.missing-capabilities": "Capabilities that are absent, null or of the wrong type count as none.",
        "initialize.client.unknown-capabilities": "Capabilities we do not know are ignored.",
        "initialize.agent.info": "The agent gives its name, title and version.",
        "initialize.agent.capability-values": "What is advertised is exactly what this agent can do.",
        "initialize.agent.one-auth-method": "One authentication method is offered, never a terminal or environment one.",
        "initialize.order.required-first": "Every other request before initialize is refused and does nothing.",
        "initialize.order.early-notifications": "Notifications before initialize are ignored.",
        "initialize.order.pipelined": "Requests right behind initialize are admitted after it.",
        "initialize.order.repeated": "A second initialize repeats the answer and disturbs nothing.",
        "initialize.failure.missing-credentials": "Missing credentials do not fail the handshake.",
        "initialize.failure.bad-config": "A broken agent file fails it, with an error that is not about authentication.",
    },
)
