"""docs/cli.md against the parser, and the manuals of `--help`."""

from __future__ import annotations

import re

import pytest

from sluice.cli.local_commands import HELP
from sluice.cli.main import main
from tests.cli.reference import PAGE, commands, sections, tables_of, with_tables


@pytest.mark.requirement("cli.docs.reference")
def test_every_argument_of_every_command_is_in_the_reference_with_its_default() -> None:
    documented = tables_of(PAGE.read_text("utf-8"))
    assert documented == sections(), "run `python -m tests.cli.reference` and describe what is new"


@pytest.mark.requirement("cli.docs.reference")
def test_the_comparison_notices_a_missing_a_changed_and_an_unknown_argument() -> None:
    page = PAGE.read_text("utf-8")
    for old, new in (
        ("| `--plain` | off | write line", "| `--plain` | on | write line"),
        ("| `--yes` | off | allow everything the agent asks for, once each, without asking |\n", ""),
        ("| `--json` | off | as JSON |", "| `--json` | off | as JSON |\n| `--xml` | off | as XML |"),
    ):
        assert page.count(old) == 1
        changed = page.replace(old, new)
        assert tables_of(changed) != sections()
        assert with_tables(changed) == page


def test_every_command_has_a_manual_with_its_arguments(capsys: pytest.CaptureFixture[str]) -> None:
    for name, parser in commands():
        assert main([*name.split(" ")[1:], "--help"]) == 0
        shown = capsys.readouterr().out
        for action in parser._actions:
            assert (action.option_strings or [str(action.metavar)])[-1] in shown
            assert action.help


@pytest.mark.parametrize("command", ["run", "check-config", "sessions list", "export"])
def test_manuals_have_examples_that_parse_and_name_the_exit_status(
    command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    from sluice.cli.main import build_parser

    assert main([*command.split(" "), "--help"]) == 0
    shown = capsys.readouterr().out
    assert "exit status:" in shown
    examples = re.findall(r"^  (sluice .*?)(?:   +.*| [|>].*)?$", shown.split("examples:")[1], re.MULTILINE)
    assert examples
    for example in examples:
        words = [word.strip('"') for word in re.findall(r'"[^"]*"|\S+', example)]
        build_parser().parse_known_args(words[1:])


def test_the_local_commands_are_the_same_in_help_in_the_page_and_in_the_program(
    capsys: pytest.CaptureFixture[str],
) -> None:
    main(["run", "--help"])
    shown, page = capsys.readouterr().out, PAGE.read_text("utf-8")
    for name in HELP:
        assert f"  {name} " in shown
        assert f"| `{name}` |" in page
