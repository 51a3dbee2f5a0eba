"""`sluice check-config FILE...`: what is wrong with agent files, one line each, as compilers write them."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from sluice.client.wording import one_line
from sluice.config.errors import ConfigError

if TYPE_CHECKING:
    from sluice.config.environment import Environment
    from sluice.config.schema import AgentFile

__all__ = ["check_config"]


def check_config(options: argparse.Namespace) -> int:
    """Check files and print what was found.

    Returns:
        0 when every file can be used, 1 when one cannot; with `--strict` a warning is an error.
    """
    from sluice.cli.serve_acp import credentials

    environment = credentials(options)
    status = 0
    for name in options.files:
        found = list(_check(name, environment, tuple(options.flavor or ())))
        for kind, line in found:
            print(line, file=sys.stdout)
            if kind == "error" or options.strict:
                status = 1
        if not found and not options.quiet:
            print(f"{one_line(name, 1000)}: ok")
    return status


def _check(name: str, environment: Environment, flavors: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    """(kind, line) of everything there is to say about a file; kind is error or warning."""
    from sluice.config.load import load
    from sluice.config.models import missing_text

    shown = one_line(name, 1000)
    try:
        file = load(Path(name), environment, flavors)
    except ConfigError as error:
        yield "error", one_line(str(error), 2000)
        return
    for warning in file.warnings:
        yield "warning", one_line(f"{shown}:{warning.line}: {warning.key}: warning: {warning.message}", 2000)
    try:
        _check_models(file, environment)
    except ConfigError as error:
        yield "error", one_line(str(error), 2000)
    if missing := missing_text(file, environment):
        yield "warning", one_line(f"{shown}: warning: {missing}", 2000)


def _check_models(file: AgentFile, environment: Environment) -> None:
    """Make what the agents name as models, as a session would; nothing is connected.

    Raises:
        ConfigError: a model is described wrongly, or a script it plays is.
    """
    from sluice import models
    from sluice.agent.ports import ModelError
    from sluice.config.models import MissingCredentials, ModelUnavailable, resolve_all

    for agent in file.agents.values():
        try:
            for resolved in resolve_all(file, agent.model, environment):
                models.build(resolved, directory=Path(file.path).resolve().parent)
        except (ModelUnavailable, ModelError, MissingCredentials):
            # Not the file's fault: a key, a package or a download is missing here.
            continue
