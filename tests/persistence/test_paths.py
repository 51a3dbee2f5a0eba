"""Where things are kept, from flags and environment alone."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from sluice.persistence.paths import config_dir, data_dir, store_path

HOME = {"HOME": "/home/ada"}
DIRECTORIES = [
    pytest.param(data_dir, "DATA", "/home/ada/.local/share/sluice", id="data"),
    pytest.param(config_dir, "CONFIG", "/home/ada/.config/sluice", id="config"),
]


@pytest.mark.requirement("cli.env.directories")
@pytest.mark.parametrize(("directory", "what", "default"), DIRECTORIES)
def test_flag_beats_variable_beats_xdg_beats_home(directory: Callable[..., Path], what: str, default: str) -> None:
    env = {**HOME, f"SLUICE_{what}_DIR": "/variable", f"XDG_{what}_HOME": "/xdg"}
    assert directory(env, "/flag") == Path("/flag")
    assert directory(env) == Path("/variable")
    del env[f"SLUICE_{what}_DIR"]
    assert directory(env) == Path("/xdg/sluice")
    assert directory(HOME) == Path(default)


@pytest.mark.parametrize(("directory", "what", "default"), DIRECTORIES)
def test_empty_variables_and_relative_xdg_count_as_unset(
    directory: Callable[..., Path], what: str, default: str
) -> None:
    for value in ("", "relative/place"):
        assert directory({**HOME, f"SLUICE_{what}_DIR": "", f"XDG_{what}_HOME": value}, "") == Path(default)


@pytest.mark.parametrize(("directory", "what", "default"), DIRECTORIES)
def test_a_tilde_stands_for_the_home_directory(directory: Callable[..., Path], what: str, default: str) -> None:
    assert directory(HOME, "~/there") == Path("/home/ada/there")
    assert directory(HOME, "~") == Path("/home/ada")
    assert directory({**HOME, f"SLUICE_{what}_DIR": "~/there"}) == Path("/home/ada/there")
    assert directory({}, "~/there") == Path("~/there")


@pytest.mark.parametrize(("directory", "what", "default"), DIRECTORIES)
def test_without_any_hint_the_error_says_what_to_set(directory: Callable[..., Path], what: str, default: str) -> None:
    with pytest.raises(ValueError, match=f"HOME or SLUICE_{what}_DIR, or pass --{what.lower()}-dir"):
        directory({})


@pytest.mark.requirement("store.path.default")
def test_the_store_is_session_db_in_the_data_directory_unless_named() -> None:
    assert store_path(HOME) == Path("/home/ada/.local/share/sluice/session.db")
    assert store_path(HOME, data_dir_flag="/flag") == Path("/flag/session.db")
    assert store_path(HOME, "/other.db", "/flag") == Path("/other.db")
    assert store_path(HOME, "~/other.db") == Path("/home/ada/other.db")
    assert store_path({}, "other.db") == Path("other.db")
