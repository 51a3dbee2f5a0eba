"""The agent file: YAML to frozen values, with errors that name file, line and key."""
