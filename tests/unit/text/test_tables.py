"""A nested table of any strings is the same table for real Lua, real Tcl and real bash."""

import subprocess
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Literal, Union

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from sifmod.text import tables
from sifmod.text.tables import Value

from ..support import Need

Path_ = tuple[Union[int, str], ...]

# Tcl 8.6 keeps what is beyond the basic multilingual plane as two characters
HALVES: tuple[Literal["Cs"]] = ("Cs",)
TEXTS = st.text(st.characters(max_codepoint=0xFFFF, exclude_categories=HALVES))
KEYS = st.from_regex(r"[a-z]_[a-z_]{0,8}", fullmatch=True)
VALUES: st.SearchStrategy[Value] = st.recursive(
    TEXTS | st.integers(0, 2**53), lambda inner: st.lists(inner) | st.dictionaries(KEYS, inner), max_leaves=40
)
TABLES = st.dictionaries(KEYS, VALUES, min_size=1)
NASTY = {
    "a_b": ["", " ", "a b", "$(touch x)", "[exit]", "${HOME}", "it's", '"', "\\", "a\nb", "#", "{", "}", "]]", "--[["],
    "c_d": [["x" * 200, {"e_f": ["\\", "}{", "\0", "\x1a", "\r\n", "a;b", "\\\n", "%d"]}], [], {}],
}


def leaves(value: Value, path: Path_ = ()) -> Iterator[tuple[Path_, str]]:
    """Yield each text and number of a table with the keys and indexes that lead to it."""
    if isinstance(value, Mapping):
        for key, item in value.items():
            yield from leaves(item, (*path, key))
    elif isinstance(value, (str, int)):
        yield path, str(value)
    else:
        for index, item in enumerate(value):
            yield from leaves(item, (*path, index))


def as_lua(table: Value) -> str:
    """Return a program that prints the leaves of a table, each with its length before it."""
    places = [
        "v" + "".join(f"[{key + 1}]" if isinstance(key, int) else f".{key}" for key in path)
        for path, _ in leaves(table)
    ]
    lines = (f"do local text = tostring({place}) io.write(#text, ':', text) end\n" for place in places)
    return f"local v = {tables.lua(table)}\n" + "".join(lines)


def as_tcl(table: Value) -> str:
    script = f"fconfigure stdout -translation binary -encoding utf-8\narray set v {tables.tcl(table)}\n"
    for (first, *path), _leaf in leaves(table):
        script += f"set text $v({first})\n"
        for key in path:
            script += (
                f"set text [lindex $text {key}]\n" if isinstance(key, int) else f"set text [dict get $text {key}]\n"
            )
        script += 'puts -nonewline "[string length $text]:$text"\n'
    return script


@settings(max_examples=15)
@given(table=TABLES)
@example(table=NASTY)
def test_lua_reads_the_same_table(need: Need, tmp_path: Path, table: dict[str, Value]) -> None:
    (tmp_path / "table.lua").write_bytes(as_lua(table).encode())
    done = subprocess.run([need("lua5.3", "lua"), tmp_path / "table.lua"], capture_output=True, check=False)
    assert (done.returncode, done.stderr) == (0, b"")
    assert done.stdout == b"".join(b"%d:%s" % (len(leaf.encode()), leaf.encode()) for _path, leaf in leaves(table))


@settings(max_examples=15)
@given(table=TABLES)
@example(table=NASTY)
def test_tcl_reads_the_same_table(need: Need, tmp_path: Path, table: dict[str, Value]) -> None:
    (tmp_path / "table.tcl").write_bytes(as_tcl(table).encode())
    done = subprocess.run(
        [need("tclsh"), "-encoding", "utf-8", tmp_path / "table.tcl"], capture_output=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, b"")
    assert done.stdout == b"".join(f"{len(leaf)}:{leaf}".encode() for _path, leaf in leaves(table))


@pytest.mark.parametrize("printed", [tables.lua, tables.tcl])
def test_a_line_is_short_or_has_one_item(printed: Callable[[Value], str]) -> None:
    lines = printed({"short": ["a", "b"], "long": ["x" * 60, "y" * 60], "flag": True}).splitlines()
    assert len(lines) == 8
    assert "    short" in lines[1]


WORDS = st.text(st.characters(exclude_categories=HALVES, exclude_characters="\0"))
ROWS = st.integers(1, 4).flatmap(lambda size: st.lists(st.lists(WORDS | st.integers(), min_size=size, max_size=size)))
FLAT = WORDS | st.integers() | st.lists(WORDS) | ROWS | st.dictionaries(KEYS, WORDS)


@settings(max_examples=25)
@given(table=st.dictionaries(KEYS, FLAT, min_size=1))
@example(
    table={"a_b": NASTY["a_b"], "c_d": {"x_y": "$(id) it's\n", "z_": "]"}, "e_f": [["'", "\r"], ["a\nb", ""]], "g_": []}
)
def test_bash_reads_what_was_written(table: dict[str, Value]) -> None:
    script, expected = tables.bash(table, "own_"), []
    for key, value in table.items():
        if isinstance(value, Mapping):
            words = [f"[{inner}]" for inner in value]
        else:
            words = [""] if isinstance(value, (str, int)) else ["[@]"]
        script += "printf '%s\\0' \"of $#\" " + " ".join(f'"${{own_{key}{word}}}"' for word in words) + "\n"
        expected += ["of 0", *(text for _path, text in leaves(value))]
    exported = {f"own_{key}": "of the user" for key in table}
    done = subprocess.run(["bash", "-eu"], input=script.encode(), env=exported, capture_output=True, check=True)
    assert done.stdout.decode().split("\0")[:-1] == expected
