from __future__ import annotations

from tests.requirements.manifest import area

AREA = area(
    "capability-matrix",
    {
        "capability-matrix.agent.fixed-in-all-cells": "What the agent advertises is the same for all 32 kinds of client.",
        "capability-matrix.agent.every-advertised-works": "Every advertised method and block type works.",
        "capability-matrix.agent.unadvertised-method": "A method that is not advertised does not exist.",
        "capability-matrix.agent.not-offered": "Forking, editor-supplied models, document sync, edit suggestions and tunnelled MCP are not there.",
        "capability-matrix.agent.no-modality-claim": "The docs say that taking a picture or sound does not mean the model understands it.",
        "capability-matrix.client.file-tools": "Client file tools follow the client's two file capabilities; search and listing are always there.",
        "capability-matrix.client.shell-tool": "The shell is always offered, and its description names the client's terminal exactly when there is one.",
        "capability-matrix.client.no-ungated-call": "A client without capabilities is never asked for files, terminals or forms.",
        "capability-matrix.client.discovery-quiet": "Opening a session asks the client for nothing.",
        "capability-matrix.tests.wire-and-behaviour": "Each row of the agent's matrix has a test of the wire and one of what it does.",
        "capability-matrix.tests.single-gate-table": "One table says which capability gates which method, for dispatch, own calls and tests.",
    },
)
