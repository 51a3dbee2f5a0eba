from __future__ import annotations

from tests.requirements.manifest import area

AREA = area(
    "workspace",
    {
        "workspace.config.reloaded-per-session": "An edited agent file reaches the next session, not the ones that are open.",
        "workspace.config.relative-to-file": "Paths in the agent file begin at the file.",
        "workspace.cwd.independent-of-launch": "Tools work in the session's directory, wherever the process was started.",
        "workspace.cwd.embedder-fallback-new": "Python callers may leave the cwd out; such a session stores no workspace.",
        "workspace.cwd.no-sandbox": "A cwd confines nobody, and shared storage stays shared.",
        "workspace.match.same-directory": "A session is reopened in its own directory or not at all.",
        "workspace.match.aliases-accepted": "Another name of the same directory is accepted.",
        "workspace.match.saved-path-kept": "The stored path does not change by that.",
        "workspace.match.legacy-without-path": "A session stored without a workspace takes none later.",
        "workspace.roots.full-replacement": "Load and resume replace the extra directories as a whole.",
        "workspace.roots.invalid-leaves-state": "A refused path or directory changes nothing of the session.",
        "workspace.roots.confine-client-paths": "Client files outside the directory and the extra roots are out of reach.",
    },
)
