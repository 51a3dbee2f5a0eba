"""Patterns of form fields: what is understood, what it means, and that it ends."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluice.acp.patterns import Pattern, PatternError


@pytest.mark.parametrize(
    ("pattern", "value", "fits"),
    [
        ("^[a-z]+$", "abc", True),
        ("^[a-z]+$", "abc\n", False),
        ("b", "abc", True),
        ("", "anything", True),
        (r"^\$$", "$", True),
        (r"a\\$", "a\\", True),
        (r"^v?\d+\.\d+\.\d+$", "1.20.3", True),
        (r"^v?\d+\.\d+\.\d+$", "1.20", False),
        (r"^[\w.-]+@[\w.-]+$", "a.b@c", True),
        (r"^\d{2,4}$", "12345", False),
        (r"^\d$", "\u0663", False),  # a digit in Unicode, none in ECMAScript
        ("^.$", "\u2028", False),  # the end of a line in ECMAScript
        ("^a{3}$", "aaa", True),
        ("^a{2,}$", "aaa", True),
    ],
)
def test_a_pattern_means_what_it_means_to_a_client(pattern: str, value: str, fits: bool) -> None:
    assert Pattern.read(pattern).fits(value) is fits


@pytest.mark.parametrize(
    "pattern",
    [
        "(a)",
        "a|b",
        "a**",
        "a++",
        "a*?",
        "[z-a]",
        "[",
        r"\1",
        r"\p{L}",
        "(?i)a",
        r"\b",
        r"\S",
        r"[^\s]",
        "a{2,1}",
        "a{,2}",
        "[a--b]",
        "[a&&b]",
        "a^b",
        "a$b",
        "x" * 1001,
        r"\u0041",
        "\\",
    ],
)
def test_what_may_be_read_in_two_ways_or_never_end_is_not_understood(pattern: str) -> None:
    with pytest.raises(PatternError):
        Pattern.read(pattern)


@pytest.mark.parametrize(
    ("pattern", "value"), [("a?" * 30 + "a" * 30, "a" * 30), ("x*" * 9 + "y", "x" * 500), (".*.*=", "x" * 100_000)]
)
def test_a_search_that_would_not_end_counts_as_no_fit(pattern: str, value: str) -> None:
    assert not Pattern.read(pattern).fits(value)


@given(st.text("ab.\\^$[]{}()*+?|-,12dws", max_size=20), st.text("ab1 \n", max_size=20))
def test_every_text_is_understood_or_refused_and_fits_no_more_than_re_says(pattern: str, value: str) -> None:
    try:
        read = Pattern.read(pattern)
    except PatternError:
        return
    assert not read.fits(value) or re.search(pattern, value)
