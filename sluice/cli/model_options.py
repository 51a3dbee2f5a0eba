"""The options of `sluice model`. Imported for every command, so it imports nothing but argparse."""

from __future__ import annotations

import argparse

__all__ = ["MODELS", "add_model"]

MODELS = ("0.5b", "1.5b")
"""The models that can be fetched; written down here because nothing is imported that has the list."""


def add_model(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command with its actions."""
    model = commands.add_parser("model", help="fetch, list or remove the model that runs on this machine")
    actions = model.add_subparsers(title="actions", metavar="ACTION", required=True)
    shared = argparse.ArgumentParser(add_help=False)
    shared.add_argument("-d", "--debug", action="store_true", help="show a traceback when something fails")
    shared.add_argument(
        "--data-dir",
        metavar="DIR",
        help="keep data here (default: $XDG_DATA_HOME/sluice, else ~/.local/share/sluice)",
    )
    pulling = actions.add_parser(
        "pull",
        parents=[shared],
        help="fetch a model",
        description=(
            "Say what is fetched, how large it is, under which licence and from whom; ask; fetch it. A pull that\n"
            "was cut short goes on where it was. Only the file with the published SHA-256 is accepted."
        ),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    names = f"{' or '.join(MODELS)} (default: {MODELS[0]})"
    pulling.add_argument("name", metavar="NAME", nargs="?", choices=MODELS, default=MODELS[0], help=names)
    pulling.add_argument("--yes", action="store_true", help="agree without being asked")
    pulling.add_argument(
        "--from", dest="source", metavar="FILE_OR_URL", help="take the file from here and nowhere else"
    )
    pulling.set_defaults(command=_pull)
    listing = actions.add_parser("list", parents=[shared], help="say which models there are, and which are here")
    listing.set_defaults(command=_list)
    removing = actions.add_parser("remove", parents=[shared], help="remove a model from this machine")
    removing.add_argument("name", metavar="NAME", choices=MODELS, help=" or ".join(MODELS))
    removing.set_defaults(command=_remove)


def _pull(options: argparse.Namespace) -> int:
    from sluice.cli.model import model_pull

    return model_pull(options)


def _list(options: argparse.Namespace) -> int:
    from sluice.cli.model import model_list

    return model_list(options)


def _remove(options: argparse.Namespace) -> int:
    from sluice.cli.model import model_remove

    return model_remove(options)
