from sifmod.commands.output import table


def test_columns_are_aligned_and_the_last_one_is_not_padded() -> None:
    assert list(table(("A", "B"), [("long word", "x"), ("y", "more")])) == [
        "A          B",
        "long word  x",
        "y          more",
    ]


def test_a_cell_with_several_lines_leaves_the_others_empty_beside_it() -> None:
    assert list(table(("A", "B", "C"), [("k", "1\n2", "o")])) == ["A  B  C", "k  1  o", "   2"]


def test_a_table_without_rows_is_its_header() -> None:
    assert list(table(("A", "B"), [])) == ["A  B"]


def test_wide_characters_count_double() -> None:
    assert list(table(("A", "B"), [("漢字", "x"), ("y", "z")])) == ["A     B", "漢字  x", "y     z"]
