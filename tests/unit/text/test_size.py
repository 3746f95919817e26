import pytest

from sifmod.text.size import counted, size_text


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (0, "0 B"),
        (999, "999 B"),
        (1000, "1 kB"),
        (53579776, "53.6 MB"),
        (999_600, "1 MB"),
        (4_000_000_000, "4 GB"),
        (10**18, "1e+03 PB"),
    ],
)
def test_sizes_are_read_easily(count: int, text: str) -> None:
    assert size_text(count) == text


def test_only_one_thing_has_no_plural() -> None:
    assert [counted(count, "package") for count in (0, 1, 2)] == ["0 packages", "1 package", "2 packages"]
