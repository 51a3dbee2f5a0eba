"""A person's own settings: absent, empty, right and wrong."""

from pathlib import Path

import pytest

from sluice.config.errors import ConfigError
from sluice.config.schema import PermissionRules
from sluice.config.user_settings import UserSettings, load_settings


def settings(directory: Path, text: str) -> UserSettings:
    (directory / "settings.yaml").write_text(text, "utf-8")
    return load_settings(directory, {})


def test_no_directory_no_file_and_an_empty_file_say_nothing(tmp_path: Path) -> None:
    assert load_settings(None, {}) == load_settings(tmp_path, {}) == UserSettings()
    assert settings(tmp_path, "# nothing\n") == settings(tmp_path, "permissions:\n") == UserSettings()


def test_rules_are_read(tmp_path: Path) -> None:
    found = settings(tmp_path, "permissions:\n  deny: ['shell:cmd=sudo *']\n  ask: [write_file]\n")
    assert found.permissions == PermissionRules(ask=("write_file",), deny=("shell:cmd=sudo *",))


@pytest.mark.parametrize(
    ("text", "line", "key"),
    [
        ("permission: {}\n", 1, "permission"),
        ("permissions:\n  dney: []\n", 2, "permissions.dney"),
        ("permissions:\n  deny: shell\n", 2, "permissions.deny"),
        ("- a\n", 1, ""),
        ("a: [\n", 2, ""),
    ],
)
def test_what_is_wrong_is_an_error_with_its_place(tmp_path: Path, text: str, line: int, key: str) -> None:
    with pytest.raises(ConfigError) as found:
        settings(tmp_path, text)
    assert (found.value.line, found.value.key) == (line, key)
    assert found.value.file == str(tmp_path / "settings.yaml")
