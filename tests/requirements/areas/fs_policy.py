from __future__ import annotations

from tests.requirements.manifest import area

AREA = area(
    "fs-policy",
    {
        "fs-policy.check.before-client-io": "The lists are checked before the client is asked.",
        "fs-policy.check.roots-in-addition": "A root overrides no rule.",
        "fs-policy.check.invalid-config-disables": "A broken list disables the tools.",
        "fs-policy.check.symlink-and-dangling": "Links are followed to what exists, and dangling ones refused.",
        "fs-policy.check.not-atomic": "The docs say that the check is no sandbox.",
        "fs-policy.links.separate": "A linked resource is judged by the session's roots alone.",
        "fs-policy.post-edit.after-success-only": "Hooks run after a write that worked.",
        "fs-policy.post-edit.local-cwd": "They run on the host in the toolset's directory.",
        "fs-policy.post-edit.checked-target": "They see the checked target.",
        "fs-policy.post-edit.failure": "A failing hook does not undo the write.",
        "fs-policy.post-edit.no-mirroring": "The client's buffer is not copied for them.",
    },
)
