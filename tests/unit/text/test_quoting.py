import shlex
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Literal

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from sifmod.text import quoting

from ..support import Need

Quote = Callable[[object], str]

# A shell word can't hold NUL; everything else goes, line breaks included. Many values a process keep this fast.
NASTY = ["", " ", "a b", "$(touch x)", "`id`", "${HOME}", "it's", '"', "\\", "a\nb", "-n", "~", "*", "!!", "é☃", "#"]
HALVES: tuple[Literal["Cs"]] = ("Cs",)
WORDS = st.lists(st.text(st.characters(exclude_characters="\0", exclude_categories=HALVES)), min_size=20, max_size=60)
TEXTS = st.lists(st.text(st.characters(exclude_categories=HALVES)), min_size=20, max_size=60)


@settings(max_examples=40)
@pytest.mark.parametrize("shell", ["bash", "sh"])
@given(words=WORDS)
@example(words=NASTY)
def test_a_shell_reads_a_quoted_value_as_exactly_one_word(shell: str, words: list[str]) -> None:
    script = "printf '%s\\0' " + " ".join(quoting.shell(word) for word in words)
    done = subprocess.run([shell, "-c", script], capture_output=True, check=True)
    assert done.stdout == b"".join(word.encode() + b"\0" for word in words)
    assert done.stderr == b""


def lua_reads(lua: str, texts: list[str]) -> bytes:
    """Return what Lua makes of the literals, each with its length before it."""
    script = "".join(f'local text = {quoting.lua(text)} io.write(#text, ":", text)\n' for text in texts)
    done = subprocess.run([lua, "-"], input=script.encode(), capture_output=True, check=False)
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout


@settings(max_examples=40)
@given(texts=TEXTS)
@example(texts=[*NASTY, "]]", "--[[", '\\"', "\r\n", "\t\x1b\x7f", "\\n", "%d", "\0"])
@example(texts=["\x001", "\x0099"])
def test_lua_reads_a_quoted_value_as_the_same_string(need: Need, texts: list[str]) -> None:
    expected = b"".join(b"%d:%s" % (len(text.encode()), text.encode()) for text in texts)
    assert lua_reads(need("lua5.3", "lua"), texts) == expected


TCL = [
    *NASTY,
    "}",
    "{",
    "]",
    "[exit]",
    "${x}",
    "a;b",
    "\\\n",
    "\x1a after the end",
    "\r\n",
    "\t\x7f",
    "\0",
    "\x009",
    "\\u0041",
    "😀",
]


def tcl_reads(tclsh: str, path: Path, words: list[str]) -> bytes:
    script = """fconfigure stdout -translation binary -encoding utf-8
    proc emit {text} { puts -nonewline "[string length $text]:$text" }
    """
    path.write_text(script + "".join(f"if {{1}} {{ emit {quoting.tcl(word)} }}\n" for word in words), encoding="utf-8")
    done = subprocess.run([tclsh, "-encoding", "utf-8", path], capture_output=True, check=False)
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout


# Tcl 8.6 keeps what is beyond the basic multilingual plane as two characters
@settings(max_examples=40)
@given(
    words=st.lists(st.text(st.characters(max_codepoint=0xFFFF, exclude_categories=HALVES)), min_size=20, max_size=60)
)
@example(words=TCL[:-1])
def test_tcl_reads_a_quoted_value_as_one_word_also_within_braces(need: Need, tmp_path: Path, words: list[str]) -> None:
    expected = b"".join(f"{len(word)}:{word}".encode() for word in words)
    assert tcl_reads(need("tclsh"), tmp_path / "words.tcl", words) == expected


def test_tcl_passes_on_what_it_counts_differently(need: Need, tmp_path: Path) -> None:
    assert tcl_reads(need("tclsh"), tmp_path / "words.tcl", TCL[-1:]).endswith(":😀".encode())


@pytest.mark.parametrize("quote", [quoting.shell, quoting.lua, quoting.tcl, quoting.comment])
def test_a_value_that_is_no_string_is_quoted_as_its_text(quote: Quote) -> None:
    assert "42" in quote(42)


@given(st.text())
def test_a_comment_is_one_line_without_control_characters(text: str) -> None:
    line = quoting.comment(text)
    assert all(ord(character) >= 32 and ord(character) != 127 for character in line)
    assert line == line.strip()


@settings(max_examples=40)
@given(WORDS)
@example(["x\ntouch /tmp/pwned", "x\rtouch", "\\", "\\\n", "$(id)"])
def test_bash_never_runs_what_is_in_a_comment(texts: list[str]) -> None:
    script = "".join(f"# {quoting.comment(text)}\n" for text in texts) + "printf end"
    done = subprocess.run(["bash", "-s"], input=script.encode(), capture_output=True, check=True)
    assert (done.stdout, done.stderr) == (b"end", b"")


def test_a_harmless_word_is_not_quoted_and_a_comment_keeps_the_words() -> None:
    assert quoting.shell("/opt/venv/bin/python3") == "/opt/venv/bin/python3"
    assert shlex.split(quoting.shell("a b")) == ["a b"]
    assert quoting.comment("PyTorch/2.2.0\tsecond\n\n line ") == "PyTorch/2.2.0 second  line"


LINES = st.lists(st.text(st.characters(min_codepoint=32, max_codepoint=126)), min_size=20, max_size=60)
NASTY_LINES = [word for word in NASTY if "\n" not in word]


@pytest.mark.parametrize(("shell", "quote"), [("csh", quoting.csh), ("fish", quoting.fish)])
@settings(max_examples=20)
@given(words=LINES)
@example(words=[*NASTY_LINES, "'", "\\'", "\\\\", "a!b", "!$", "'!'", "\\!", "{a,b}", "[", "a  b"])
def test_csh_and_fish_read_a_quoted_value_as_a_word(need: Need, shell: str, quote: Quote, words: list[str]) -> None:
    script = "/usr/bin/printf '%s\\0' " + " ".join(quote(word) for word in words)
    flags = ["-f"] if shell == "csh" else ["--no-config"]
    done = subprocess.run([need(shell), *flags, "-c", script], capture_output=True, check=True)
    assert done.stdout == b"".join(word.encode() + b"\0" for word in words)
