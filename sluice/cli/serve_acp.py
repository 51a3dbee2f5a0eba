"""`sluice serve acp FILE`: one connection on standard input and output."""

from __future__ import annotations

import argparse
import logging
import os
import signal
from pathlib import Path
from typing import TYPE_CHECKING

import anyio

from sluice.cli.parsers import HOOK_FLAGS
from sluice.cli.telemetry import exporting
from sluice.handlers.assembly import Assembly, Options
from sluice.handlers.connection import Connection
from sluice.handlers.table import NOTIFICATIONS, REQUESTS
from sluice.persistence import paths
from sluice.wire import log, stdio
from sluice.wire.peer import Peer
from sluice.wire.transport import Transport

if TYPE_CHECKING:
    from sluice.config.environment import Environment
    from sluice.config.hook_events import HookConfig
    from sluice.handlers.journaling import Journaling
    from sluice.outbound import AddressPolicy
    from sluice.wire.tracing import Spans

__all__ = ["credentials", "make_assembly", "serve_acp"]

FORCED_EXIT = 130
"""Exit status after a second signal, which does not wait for anything."""


def serve_acp(options: argparse.Namespace) -> int:
    """Serve until end of input or a signal. Returns the exit status: 0 only when everything was cleaned up."""
    transport = stdio.claim()
    log_file = Path(options.log_file) if options.log_file else None
    log.set_up(logging.DEBUG if options.debug else logging.WARNING, log_file)
    notes = _journaling(options)  # its path is relative to where the command was started
    runs = paths.data_dir(os.environ, options.data_dir) if options.attachable else None
    with exporting(options.otel) as spans:
        return anyio.run(_serve, transport, make_assembly(options, spans), notes, runs)


def make_assembly(options: argparse.Namespace, spans: Spans | None = None) -> Assembly:
    """What the shared flags describe; changes into the working directory when one is named.

    Every path on the command line is relative to where the command was started, so they are made absolute before.

    `spans` makes spans of what is done, None for none.

    Raises:
        ValueError: a network of `--allow-address` is none, or nothing says where data is kept.
        OSError: the working directory cannot be entered.
    """
    agent_file = Path(options.agent_file).absolute()
    for name in ("session_db", "data_dir", "config_dir"):
        if (value := getattr(options, name)) is not None:
            setattr(options, name, str(Path(value).absolute()))
    options.env_from_file = [str(Path(name).absolute()) for name in options.env_from_file or ()]
    if options.working_dir:
        os.chdir(options.working_dir)
    return Assembly(
        Options(
            agent_file=agent_file,
            session_db=paths.store_path(os.environ, options.session_db, options.data_dir),
            environment=lambda: credentials(options),
            flavors=tuple(options.flavor or ()),
            hooks=_hooks(options),
            addresses=_addresses(options),
            spans=spans,
        )
    )


def credentials(options: argparse.Namespace) -> Environment:
    """The credential sources the shared flags name.

    Raises:
        EnvFileError: one of them cannot be read.
    """
    from sluice.config.environment import Environment
    from sluice.config.gateway import GATEWAY
    from sluice.config.weights import MODELS_DIR

    env_files = [Path(name) for name in options.env_from_file or ()]
    # Where the weights are, and the gateway, is looked up like a key: whoever resolves a model needs one source only.
    process = {**os.environ, MODELS_DIR: str(paths.models_dir(os.environ, options.data_dir))}
    if options.models_gateway:
        process[GATEWAY] = options.models_gateway
    return Environment.read(process, env_files, paths.config_dir(os.environ, options.config_dir))


def _hooks(options: argparse.Namespace) -> tuple[HookConfig, ...]:
    """The hooks of the flags, in the order of the events."""
    from sluice.config.hook_events import HookConfig

    return tuple(
        HookConfig(event, line, file=f"--hook-{event.replace('_', '-')}")
        for event in HOOK_FLAGS
        for line in getattr(options, f"hook_{event}") or ()
    )


def _addresses(options: argparse.Namespace) -> AddressPolicy | None:
    if not options.allow_address:
        return None
    from sluice.outbound import AddressPolicy, networks

    return AddressPolicy(networks(options.allow_address))


def _journaling(options: argparse.Namespace) -> Journaling | None:
    if not options.journal:
        return None
    from sluice.handlers.journaling import Journaling
    from sluice.persistence.journal import Journal

    return Journaling(Journal(Path(options.journal), bodies=options.journal_bodies))


async def _serve(transport: Transport, assembly: Assembly, notes: Journaling | None, runs: Path | None) -> int:
    """Serve one client; with `runs`, the data directory, other processes of the same user may attach."""
    peer = Peer(transport, tap=notes.tap if notes else None)
    connection = Connection(peer, assembly, REQUESTS, NOTIFICATIONS, notes.record if notes else None)
    status = 1
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(_signals, connection)
        if runs is not None:
            from sluice.handlers.attachable import serve_attachable

            tasks.start_soon(serve_attachable, connection, runs.absolute())
        status = await connection.serve()
        tasks.cancel_scope.cancel()
    return status


async def _signals(connection: Connection) -> None:
    """The first signal ends like end of input; a second one waits for nothing (shutdown.signal.first-clean)."""
    with anyio.open_signal_receiver(signal.SIGTERM, signal.SIGINT, signal.SIGHUP) as received:
        first = True
        async for _ in received:
            if not first:
                os._exit(FORCED_EXIT)
            first = False
            connection.end_of_input()
