import pytest

from sifmod.text.suggest import perhaps


@pytest.mark.parametrize(
    ("word", "meant"), [("optional_bind", "optional_binds"), ("bind", "binds"), ("runtme", "runtime")]
)
def test_the_nearest_known_word_is_named(word: str, meant: str) -> None:
    assert perhaps(word, ["runtime", "binds", "optional_binds"]) == f" (perhaps you meant '{meant}')"


def test_nothing_is_suggested_when_no_word_is_near_or_known() -> None:
    assert perhaps("colour", ["runtime", "binds"]) == ""
    assert perhaps("binds", []) == ""
    assert "'lumi'" in perhaps("lumy", iter(["generic", "lumi"]))
