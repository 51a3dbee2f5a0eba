"""The nearest known word: turns a typo into a hint."""

from __future__ import annotations

from collections.abc import Iterable

__all__ = ["did_you_mean", "nearest"]

LONGEST_WORD = 100
"""Characters. A longer word is no typo of a key, and comparing it costs time that grows with its square."""


def nearest(word: str, known: Iterable[str]) -> str | None:
    """The known word most like `word`, ignoring case, else one that holds it; None when nothing comes close.

    Args:
        word: what was written.
        known: what could have been written.
    """
    if len(word) > LONGEST_WORD:
        return None
    import difflib  # only a file with a mistake needs it

    folded = word.casefold()
    by_fold = {candidate.casefold(): candidate for candidate in sorted(known)}
    found = difflib.get_close_matches(folded, by_fold, n=1, cutoff=0.6)
    if not found and len(word) >= 3:
        found = sorted((candidate for candidate in by_fold if folded in candidate), key=len)
    return by_fold[found[0]] if found else None


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """The end of an error text: `; did you mean "model"?`, or "" when nothing comes close."""
    found = nearest(word, known)
    return f'; did you mean "{found}"?' if found is not None else ""
