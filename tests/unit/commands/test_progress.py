"""Long work on a terminal: a bar or a spinner while it lasts, and nothing of it afterwards."""

import contextlib
import io
import os
import sys
from pathlib import Path
from unittest import mock

import pytest

from sifmod.commands.progress import shown_progress
from sifmod.eb.space import software_space
from sifmod.text.printable import columns
from sifmod.text.progress import Lines

from ..support import make_installation
from ..terminal import on_a_terminal, without_colour


@pytest.mark.parametrize("width", [80, 40])
def test_verify_shows_what_it_does_and_clears_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, width: int) -> None:
    monkeypatch.setenv("EASYBUILD_PREFIX", str(tmp_path / "eb"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "nothing"))
    make_installation(software_space(), "Demo/1")
    shown = on_a_terminal("verify", columns=width)
    assert "Demo/1: hashing" in shown
    assert "Demo/1: starting" in shown
    last = shown.rpartition("\x1b[2K")[2]
    assert "1 of 1 installation in order" in last
    for line in without_colour(shown).replace("\r", "\n").splitlines():
        text = line
        for control in ("\x1b[?25l", "\x1b[?25h", "\x1b[2K", "\x1b[1A"):
            text = text.replace(control, "")
        assert columns(text) <= width, line


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_step_shows_its_title_size_and_line_as_they_are() -> None:
    terminal = Terminal()
    with mock.patch.dict(os.environ, {"TERM": "xterm", "COLUMNS": "100"}), mock.patch.object(sys, "stderr", terminal):
        progress = shown_progress()
        with progress.step("copying [red]x\x1b]0;owned\x07", size=8_000_000) as step:
            step.advance(2_000_000)
        with contextlib.suppress(KeyboardInterrupt), progress.step("pulling") as step:
            step.tell("INFO: [bold]layer\x07")
            raise KeyboardInterrupt
    shown = without_colour(terminal.getvalue())
    assert r"copying [red]x\x1b]0;owned\x07" in shown
    assert "2.0/8.0 MB" in shown
    assert r"INFO: [bold]layer\x07" in shown
    assert shown.endswith("\x1b[?25h\r\x1b[1A\x1b[2K")


@pytest.mark.parametrize("environ", [{"NO_COLOR": "1", "TERM": "xterm"}, {"TERM": "dumb"}])
def test_a_plain_terminal_has_lines(environ: dict[str, str]) -> None:
    with mock.patch.dict(os.environ, environ), mock.patch.object(sys, "stderr", Terminal()):
        assert isinstance(shown_progress(), Lines)


def test_without_a_terminal_there_are_lines() -> None:
    with mock.patch.object(sys, "stderr", io.StringIO()):
        assert isinstance(shown_progress(), Lines)
