"""Sluice: agents from YAML files, served to editors, with every lifecycle decision in a state machine."""

__version__ = "0.1.0"
