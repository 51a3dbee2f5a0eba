"""The turn: model and tools in a loop, permissions, accounting. Knows no peer."""
