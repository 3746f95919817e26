import shlex
import subprocess

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from sifmod import quoting

# A shell word can't hold NUL; everything else goes, line breaks included. Many values a process keep this fast.
NASTY = ["", " ", "a b", "$(touch x)", "`id`", "${HOME}", "it's", '"', "\\", "a\nb", "-n", "~", "*", "!!", "é☃", "#"]
WORDS = st.lists(st.text(st.characters(exclude_characters="\0", exclude_categories=("Cs",))), min_size=20, max_size=60)
TEXTS = st.lists(st.text(st.characters(exclude_categories=("Cs",))), min_size=20, max_size=60)


@settings(max_examples=40)
@given(WORDS)
@example(NASTY)
def test_bash_reads_a_quoted_value_as_exactly_one_word(words):
    script = "printf '%s\\0' " + " ".join(quoting.shell(word) for word in words)
    done = subprocess.run(["bash", "-c", script], capture_output=True, check=True)
    assert done.stdout == b"".join(word.encode() + b"\0" for word in words)
    assert done.stderr == b""


@settings(max_examples=40)
@given(WORDS)
@example(NASTY)
def test_a_plain_posix_shell_reads_the_same_word(words):
    script = "printf '%s\\0' " + " ".join(quoting.shell(word) for word in words)
    done = subprocess.run(["sh", "-c", script], capture_output=True, check=True)
    assert done.stdout == b"".join(word.encode() + b"\0" for word in words)


def lua_reads(lua, texts):
    """Return what Lua makes of the literals, each with its length before it."""
    script = "".join(f'local text = {quoting.lua(text)} io.write(#text, ":", text)\n' for text in texts)
    done = subprocess.run([lua, "-"], input=script.encode(), capture_output=True, check=False)
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout


@settings(max_examples=40)
@given(texts=TEXTS)
@example(texts=[*NASTY, "]]", "--[[", '\\"', "\r\n", "\t\x1b\x7f", "\\n", "%d", "\0"])
@example(texts=["\x001", "\x0099"])
def test_lua_reads_a_quoted_value_as_the_same_string(need, texts):
    expected = b"".join(b"%d:%s" % (len(text.encode()), text.encode()) for text in texts)
    assert lua_reads(need("lua5.3", "lua"), texts) == expected


@pytest.mark.parametrize("quote", [quoting.shell, quoting.lua, quoting.comment])
def test_a_value_that_is_no_string_is_quoted_as_its_text(quote):
    assert "42" in quote(42)


@given(st.text())
def test_a_comment_is_one_line_without_control_characters(text):
    line = quoting.comment(text)
    assert all(ord(character) >= 32 and ord(character) != 127 for character in line)
    assert line == line.strip()


@settings(max_examples=40)
@given(WORDS)
@example(["x\ntouch /tmp/pwned", "x\rtouch", "\\", "\\\n", "$(id)"])
def test_bash_never_runs_what_is_in_a_comment(texts):
    script = "".join(f"# {quoting.comment(text)}\n" for text in texts) + "printf end"
    done = subprocess.run(["bash", "-s"], input=script.encode(), capture_output=True, check=True)
    assert (done.stdout, done.stderr) == (b"end", b"")


def test_a_comment_keeps_the_words_of_the_text():
    assert quoting.comment("PyTorch/2.2.0\tsecond\n\n line ") == "PyTorch/2.2.0 second  line"


def test_a_harmless_word_is_not_quoted():
    assert quoting.shell("/opt/venv/bin/python3") == "/opt/venv/bin/python3"
    assert shlex.split(quoting.shell("a b")) == ["a b"]
