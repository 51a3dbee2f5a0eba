"""Lines typed by a person: readline where Python has it, with completion of commands.

readline and not a library: it is part of Python, knows the user's own key bindings (~/.inputrc), pastes several lines
as one where the terminal can, and costs nothing at start. Reading blocks the event loop on purpose: between turns an
agent has nothing to say that cannot wait, and a permission asked in the background must not fight with the line
editor for the keys.
"""

from __future__ import annotations

import signal
from collections.abc import Callable, Sequence
from contextlib import suppress

__all__ = ["Completions", "LineEditor"]

Completions = Callable[[str], Sequence[str]]
"""From the line up to the cursor to what the whole line may become."""


class LineEditor:
    """Reads lines from the terminal.

    Args:
        completions: what TAB offers.
    """

    def __init__(self, completions: Completions) -> None:
        self._completions = completions
        self._offered: list[str] = []
        with suppress(ImportError):
            import readline

            readline.set_completer(self._complete)
            # Only a blank ends a word: "/", ":" and "-" belong to the words completed here.
            readline.set_completer_delims(" ")
            libedit = "libedit" in (readline.__doc__ or "")
            readline.parse_and_bind("bind ^I rl_complete" if libedit else "tab: complete")

    def read(self, prompt: str = "> ") -> str:
        """Ask for a line.

        Raises:
            EOFError: the user ended the input.
            KeyboardInterrupt: the user interrupted it.
        """
        # An interrupt must reach `input`; the event loop's own handler would make it wait for the end of the line.
        before = signal.signal(signal.SIGINT, signal.default_int_handler)
        try:
            return input(prompt)
        finally:
            signal.signal(signal.SIGINT, before)

    def _complete(self, word: str, number: int) -> str | None:
        """Readline's protocol: called with 0, 1, 2, … until it returns None; each is what the word may become."""
        if number == 0:
            import readline

            begin = readline.get_begidx()
            line = readline.get_line_buffer()[: readline.get_endidx()]
            self._offered = [whole[begin:] for whole in self._completions(line) if whole.startswith(line)]
        return self._offered[number] if number < len(self._offered) else None
