"""Where things are kept: the data directory with the store, and the configuration directory.

A flag outranks the environment variable, that outranks XDG, and that the default under the home directory
(cli.env.directories). An empty variable counts as unset. Nothing here looks at the file system or at the process's
own environment.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

__all__ = ["config_dir", "data_dir", "models_dir", "store_path"]


def data_dir(env: Mapping[str, str], flag: str | None = None) -> Path:
    """Give the data directory.

    Args:
        env: the environment; SLUICE_DATA_DIR, XDG_DATA_HOME and HOME are looked at.
        flag: the value of `--data-dir`, None when not given.

    Raises:
        ValueError: nothing says where; the text says what to set.
    """
    return _directory(env, flag, "DATA", ".local/share")


def config_dir(env: Mapping[str, str], flag: str | None = None) -> Path:
    """Give the configuration directory.

    Args:
        env: the environment; SLUICE_CONFIG_DIR, XDG_CONFIG_HOME and HOME are looked at.
        flag: the value of `--config-dir`, None when not given.

    Raises:
        ValueError: nothing says where; the text says what to set.
    """
    return _directory(env, flag, "CONFIG", ".config")


def store_path(env: Mapping[str, str], session_db: str | None = None, data_dir_flag: str | None = None) -> Path:
    """Give the store's file: `session_db` when named, else `session.db` in the data directory (store.path.default).

    Args:
        env: the environment, as for `data_dir`.
        session_db: the value of `-s`/`--session-db`, None when not given.
        data_dir_flag: the value of `--data-dir`, None when not given.

    Raises:
        ValueError: nothing says where; the text says what to set.
    """
    if session_db:
        return _expanded(env, session_db)
    return data_dir(env, data_dir_flag) / "session.db"


def models_dir(env: Mapping[str, str], data_dir_flag: str | None = None) -> Path:
    """Give the directory of the embedded model's weights: SLUICE_MODELS_DIR, else `models` in the data directory.

    Args:
        env: the environment, as for `data_dir`, and SLUICE_MODELS_DIR.
        data_dir_flag: the value of `--data-dir`, None when not given.

    Raises:
        ValueError: nothing says where; the text says what to set.
    """
    named = env.get("SLUICE_MODELS_DIR")
    return _expanded(env, named) if named else data_dir(env, data_dir_flag) / "models"


def _directory(env: Mapping[str, str], flag: str | None, what: str, under_home: str) -> Path:
    named = flag or env.get(f"SLUICE_{what}_DIR")
    if named:
        return _expanded(env, named)
    base = env.get(f"XDG_{what}_HOME", "")
    # XDG base directory specification: a relative path is invalid and to be ignored.
    if base.startswith("/"):
        return Path(base) / "sluice"
    home = env.get("HOME")
    if not home:
        raise ValueError(f"no home directory is known; set HOME or SLUICE_{what}_DIR, or pass --{what.lower()}-dir")
    return Path(home) / under_home / "sluice"


def _expanded(env: Mapping[str, str], named: str) -> Path:
    """Replace a leading `~/`, which a shell leaves alone in `--data-dir=~/x` and editors never expand."""
    home = env.get("HOME")
    if home and (named == "~" or named.startswith("~/")):
        return Path(home, named[2:])
    return Path(named)
