"""The changing lines at the bottom of a terminal, as an emulated terminal shows them."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from sluice.client.region import Region
from tests.support.screen import seen

LINES = st.lists(st.text("abc", max_size=9), max_size=5)


class Drawn:
    def __init__(self, columns: int = 20, rows: int = 8) -> None:
        self.output: list[str] = []
        self.columns, self.rows = columns, rows
        self.region = Region(self.output.append, lambda: (self.columns, self.rows), len)

    @property
    def whole(self) -> str:
        return "".join(self.output)


@settings(deadline=None, max_examples=150)
@given(st.lists(st.tuples(LINES, LINES), max_size=8))
def test_final_lines_stay_in_order_and_the_region_is_what_was_drawn_last(
    steps: list[tuple[list[str], list[str]]],
) -> None:
    drawn = Drawn()
    final: list[str] = []
    last: list[str] = []
    for above, lines in steps:
        drawn.region.draw(lines, "".join(f"{line}\n" for line in above))
        final += above
        last = lines
    expected = [*final, *last]
    while expected and not expected[-1]:
        expected.pop()
    assert seen(drawn.whole, 20, 8) == expected


def test_what_did_not_change_is_not_written_again() -> None:
    drawn = Drawn()
    drawn.region.draw(["one", "two", "three"])
    drawn.region.draw(["one", "2", "three"])
    assert "one" not in drawn.output[1]
    assert "three" not in drawn.output[1]
    drawn.region.draw(["one", "2", "three"])
    assert len(drawn.output) == 2


def test_without_a_region_output_is_plain_text() -> None:
    drawn = Drawn()
    drawn.region.draw([], "just text\nand more\n")
    assert drawn.whole == "just text\nand more\n"


def test_nothing_is_blanked_before_it_is_drawn() -> None:
    drawn = Drawn()
    drawn.region.draw(["one", "two"])
    drawn.region.draw(["ONE", "TWO"])
    assert drawn.output[1] == "\x1b[2AONE\x1b[K\nTWO\x1b[K\n"


def test_a_narrower_terminal_is_taken_into_account() -> None:
    drawn = Drawn(columns=20)
    drawn.region.draw(["a" * 15, "b"])
    drawn.columns = 10
    drawn.region.draw(["c"])
    assert drawn.output[1].startswith("\x1b[3A")
