from __future__ import annotations

from tests.requirements.manifest import area

AREA = area(
    "config-file",
    {
        "config-file.format.yaml": "A file is plain YAML, and errors name their line.",
        "config-file.format.version": "Versions are read, migrated or refused.",
        "config-file.format.unknown-key": "An unknown key is an error.",
        "config-file.agents.required": "There is at least one agent.",
        "config-file.agents.core-keys": "The main keys work.",
        "config-file.agents.instruction-file": "Instructions can stand in files of their own.",
        "config-file.agents.welcome-message": "A welcome is for people only.",
        "config-file.agents.readonly": "A read-only agent has read-only tools.",
        "config-file.agents.safety": "The author can choose a mode.",
        "config-file.agents.context-extras": "Date, place and files can be added to turns.",
        "config-file.agents.limits": "The limits hold.",
        "config-file.agents.structured-output": "A schema for the answer is enforced.",
        "config-file.agents.cache": "The answer cache can be set.",
        "config-file.permissions.team-rules": "Rules allow, ask and deny.",
        "config-file.permissions.user-level": "The user's rules are added.",
        "config-file.agents.harness": "An external agent can take a model's place.",
        "config-file.runtime.safety": "The file can choose a mode.",
        "config-file.budget.limits": "A budget stops a run and says which.",
        "config-file.commands.forms": "Commands have two forms.",
        "config-file.toolsets.shared-maps": "Toolsets can be named and shared.",
        "config-file.expand.env": "Variables are expanded where documented.",
        "config-file.expand.token-key-literal": "The name of a key is not expanded.",
        "config-file.flavors.patches": "Flavors patch the file in order.",
        "config-file.errors.before-start": "Errors show before anything starts.",
    },
    deferred={
        "config-file.agents.harness": "agent file: no test carries it yet",
    },
)
