"""Text of foreign origin, and how wide it is."""

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sifmod.text.printable import columns, one_line, printable


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain [red]text[/red]", "plain [red]text[/red]"),
        ("\x1b[2J", r"\x1b[2J"),
        ("\x9b31m\x7f\x00", r"\x9b31m\x7f\x00"),
        ("a\u202eb\u2028c", r"a\u202eb\u2028c"),
        ("\udcff", r"\udcff"),
        ("a\tb\nc", "a\tb\nc"),
        ("Grüße, 漢字", "Grüße, 漢字"),
    ],
)
def test_what_steers_a_terminal_is_shown(text: str, shown: str) -> None:
    assert printable(text) == shown


@given(st.text(st.characters()))
def test_no_control_character_is_left(text: str) -> None:
    shown = printable(text)
    assert not any(unicodedata.category(character) in ("Cc", "Cs") for character in shown if character not in "\n\t")
    assert shown.encode().decode() == shown
    assert printable(shown) == shown


def test_a_name_stays_on_one_line() -> None:
    assert one_line("a\nwrote it\t\x1b[2J") == r"a\nwrote it\t\x1b[2J"


@pytest.mark.parametrize(("text", "width"), [("", 0), ("abc", 3), ("漢字", 4), ("e\u0301", 1), ("\uff46", 2)])
def test_wide_characters_count_double(text: str, width: int) -> None:
    assert columns(text) == width
