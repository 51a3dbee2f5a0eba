"""The agent file: YAML to frozen dataclasses, with errors that name file, line and key."""
