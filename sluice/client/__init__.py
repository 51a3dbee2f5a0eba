"""A client for ACP agents, and what the command line builds on it."""
