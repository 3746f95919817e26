"""The order of version strings."""

from sifmod.text.version import natural_order, version_order


def test_natural_order_compares_numbers_in_any_text() -> None:
    wanted = ["1.9-rocm", "1.10-rocm-5.6", "1.10-rocm-5.10", "2", "10", "9" * 5000, "1" + "0" * 5000]
    assert sorted([*wanted[3:], *wanted[:3]], key=natural_order) == wanted


def test_every_text_has_a_place_in_the_orders() -> None:
    assert min(["2", "", "x1", "²", "007"], key=natural_order) == ""
    assert natural_order("007") == natural_order("7")
    assert max(["", "²", "9" * 5000, "1.9", "1.10"], key=version_order) == "1.10"
