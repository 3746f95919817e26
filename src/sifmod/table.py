"""A table as aligned text."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

_GAP = "  "


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    """Give the lines of a table, the header first; what is in the last column is not padded.

    A cell may have several lines: the others of its row are empty beside them.

    Args:
        header: titles of the columns.
        rows: the cells of each row.
    """
    lines = [tuple(header)]
    for row in rows:
        cells = [cell.split("\n") for cell in row]
        for number in range(max(map(len, cells))):
            lines.append(tuple(cell[number] if number < len(cell) else "" for cell in cells))
    widths = [max(map(len, column)) for column in zip(*lines)]
    for line in lines:
        yield _GAP.join(cell.ljust(width) for cell, width in zip(line, widths)).rstrip()
