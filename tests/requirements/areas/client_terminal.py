from __future__ import annotations

from tests.requirements.manifest import area

AREA = area(
    "client-terminal",
    {
        "client-terminal.gate.negotiated": "With the capability shell calls run in the client, otherwise here.",
        "client-terminal.gate.no-local-fallback": "A failing client is no reason to run it here.",
        "client-terminal.gate.same-safety": "The same permissions and hooks apply.",
        "client-terminal.command.interpreter": "The system shell runs the line, found by no variable.",
        "client-terminal.command.environment-info": "The environment tool names that shell.",
        "client-terminal.command.same-platform": "The docs ask for one platform on both sides.",
        "client-terminal.env.overrides-only": "Only configured variables are sent.",
        "client-terminal.env.referenced-secrets": "A secret named there is sent.",
        "client-terminal.cwd.absolute": "The directory is absolute.",
        "client-terminal.sudo.unsupported": "Asking for a sudo password is an error there.",
        "client-terminal.timeout.default-and-longer": "Thirty seconds unless told otherwise.",
        "client-terminal.output.64k-tail": "The last 64 KiB are shown.",
        "client-terminal.output.final-only": "Only the final text is shown.",
        "client-terminal.output.cancel-omits-partial": "A cancelled call shows no half output.",
        "client-terminal.output.exit-text": "Exit codes read as they do here.",
        "client-terminal.own.until-release": "A terminal belongs to its session until it is released.",
        "client-terminal.own.exactly-one-release": "Every way it can end releases it once.",
        "client-terminal.own.kill-output-release": "Ending it early kills, collects and releases, whatever fails.",
        "client-terminal.own.close-signals-first": "Closing tells the terminals first and tries once more at the end.",
        "client-terminal.own.unresolved-blocks": "One that is not released blocks new work and deleting.",
        "client-terminal.own.no-transfer": "A closed session passes none on.",
        "client-terminal.create.late-id-released": "An id that comes late is released.",
        "client-terminal.create.ambiguous-poisons": "A start that may have happened is a kept failure.",
        "client-terminal.create.definite-refusal": "A clear refusal is none.",
        "client-terminal.create.no-retry": "A start is not tried again.",
        "client-terminal.cleanup.five-seconds": "Each cleanup step has five seconds.",
        "client-terminal.scope.local-rest": "Scripts, jobs, Git and hooks run on the host.",
    },
)
