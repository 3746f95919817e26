"""What people see on a terminal: no line is wider than it, nothing is cut, and no foreign text steers it."""

import fcntl
import json
import os
import pty
import struct
import subprocess
import sys
import termios
from collections import Counter
from collections.abc import Callable
from importlib import metadata
from pathlib import Path

import pytest
from click.testing import CliRunner
from packaging.version import Version

from sifmod.cli import cli
from sifmod.eb.space import software_space
from sifmod.text.printable import columns

from ..imagetrees import linux, python_prefix, write
from ..support import make_installation
from ..terminal import on_a_terminal, without_colour

Place = Callable[[str], list[str]]
HOSTILE = "\x1b]0;owned\x07[red]\u202eEvil\x9b31m"
SHOWN = r"\x1b]0;owned\x07[red]\u202eEvil\x9b31m"


# rich before 13.7 loses letters of two columns where it breaks a long word
WIDE = "漢字" if Version(metadata.version("rich")) >= Version("13.7") else "xy"


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    """Set up a site, two installations and an image, and return the words of each verb that shows them."""
    monkeypatch.setenv("EASYBUILD_PREFIX", str(tmp_path / "eb"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "nothing"))
    site = tmp_path / "site.toml"
    site.write_text(f'optional_binds = ["/project/{WIDE * 10}"]\n[container_env]\nX = "1"\n')
    monkeypatch.setenv("SIFMOD_SITE", str(site))
    for module in ("Python/3.11-demo", "PyTorch/2.2.0-rocm-5.6.1-python-3.10-singularity-20240315"):
        make_installation(software_space(), module)
    box = linux(tmp_path / "box")
    python_prefix(box, "/opt/venv", config="home = /usr/bin\n", packages=[("torch", "2.2.0+cu121"), ("b", "1")])
    verbs = {
        "list": ["list", "--fast"],
        "show": ["show", "PyTorch"],
        "site show": ["site", "show"],
        "site check": ["site", "check"],
        "doctor": ["doctor", str(box)],
        "inspect": ["inspect", str(box)],
        "verify": ["verify"],
    }
    return verbs.__getitem__


VERBS = ["list", "show", "site show", "site check", "doctor", "inspect", "verify"]


def letters(text: str) -> Counter[str]:
    return Counter(character for character in text if character.isalpha())


@pytest.mark.some(7)
@pytest.mark.usefixtures("fake")
@pytest.mark.parametrize("width", [80, 60, 40])
@pytest.mark.parametrize("verb", VERBS)
def test_no_line_is_wider_than_the_terminal_and_nothing_is_cut(place: Place, verb: str, width: int) -> None:
    shown = without_colour(on_a_terminal(*place(verb), columns=width, with_errors=False))
    assert max(columns(line) for line in shown.splitlines()) <= width
    assert letters(shown) == letters(CliRunner().invoke(cli, place(verb)).output)


@pytest.mark.parametrize("environ", [{"NO_COLOR": "1"}, {"TERM": "dumb"}])
@pytest.mark.parametrize("verb", ["list", "site show"])
def test_a_plain_terminal_has_what_a_pipe_has(place: Place, verb: str, environ: dict[str, str]) -> None:
    shown = on_a_terminal(*place(verb), environ=environ, columns=40)
    assert shown == CliRunner().invoke(cli, place(verb)).output


def test_the_window_s_size_counts_without_columns_too(place: Place) -> None:
    ours, terminal = pty.openpty()
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 44, 0, 0))
    command = [sys.executable, "-c", "from sifmod.cli import main; main()", *place("site show")]
    environ = {**os.environ, "TERM": "xterm"}
    environ.pop("COLUMNS", None)
    with subprocess.Popen(command, env=environ, stdin=terminal, stdout=terminal, stderr=terminal) as process:
        os.close(terminal)
        printed = b""
        try:
            while part := os.read(ours, 65536):
                printed += part
        except OSError:
            assert process.wait() == 0
    os.close(ours)
    assert 30 < max(map(columns, without_colour(printed.decode()).splitlines())) <= 44


def test_names_in_a_table_are_no_markup_and_no_escapes(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("platform.machine", lambda: "aarch64")  # that of the image
    box = Path(place("doctor")[-1])
    write(box, "/etc/os-release", f'PRETTY_NAME="{HOSTILE}"\n')
    for words in (place("doctor"), place("inspect")):
        shown = on_a_terminal(*words)
        assert SHOWN in without_colour(shown)
        assert not any(character in shown for character in "\x07\u202e\x9b")
        assert "\x1b]" not in shown
        piped = CliRunner().invoke(cli, words).output
        assert SHOWN in piped
        assert "\x1b" not in piped


def test_packages_and_json_are_no_escapes_in_a_pipe(place: Place) -> None:
    box = Path(place("inspect")[-1])
    python_prefix(box, "/opt/other", config="home = /usr/bin\n", packages=[("demo", f"1{HOSTILE}")])
    packages = CliRunner().invoke(cli, ["inspect", str(box), "--packages", "--python", "/opt/other"]).output
    assert packages == f"demo==1{SHOWN}\n"
    printed = CliRunner().invoke(cli, ["inspect", str(box), "--json", "--python", "/opt/other"]).output
    assert json.loads(printed) == [{"name": "demo", "version": f"1{HOSTILE}"}]
    assert not any(character in printed for character in "\x1b\x07\u202e\x9b")


def test_names_in_an_error_are_no_escapes(place: Place) -> None:
    box = place("inspect")[-1]
    python_prefix(Path(box), f"/opt/{HOSTILE}", config="home = /usr/bin\n", packages=[("b", "1")])
    shown = on_a_terminal("inspect", box, "--python", "nosuch")
    assert shown.startswith("sifmod: ")
    assert SHOWN in shown
    assert not any(character in shown for character in "\x1b\x07\u202e\x9b")


def test_a_message_that_may_be_copied_is_one_line() -> None:
    assert on_a_terminal("show", "Nothing/1.0-of-a-long-name", columns=40).count("\n") == 1


@pytest.mark.parametrize("words", [["--help"], ["list"], ["list", "--json"], ["site", "show"]])
def test_what_draws_on_terminals_is_loaded_on_terminals_only(place: Place, words: list[str]) -> None:
    assert place("list")
    assert "rich" not in loaded_by(*words)


def test_the_list_of_the_verbs_loads_none_of_them() -> None:
    modules = loaded_by("--help")
    assert {name for name in modules if name.startswith("sifmod.")} <= {
        "sifmod.cli",
        "sifmod.commands",
        "sifmod.commands.stream",
        "sifmod.errors",
    }
    assert not modules & {"jinja2", "json", "packaging", "rich", "tomllib", "tomli"}


def loaded_by(*words: str) -> set[str]:
    """Return the modules that are loaded when `sifmod` ends."""
    code = (
        "import atexit, sys\nfrom sifmod.cli import main\n"
        "atexit.register(lambda: print(*sys.modules, file=sys.stderr))\nmain()"
    )
    done = subprocess.run([sys.executable, "-c", code, *words], capture_output=True, text=True, check=True)
    return set(done.stderr.split())


def test_each_verb_has_its_summary_on_one_line_of_80_columns() -> None:
    from sifmod.cli import _VERBS

    lines = on_a_terminal("--help", columns=80).splitlines()
    assert max(map(len, lines)) <= 80
    for verb, summary in _VERBS.items():
        assert any(line.split(maxsplit=1) == [verb, summary] for line in lines)
        assert summary.endswith(".")
    group = on_a_terminal("site", "--help", columns=80)
    assert "..." not in group.partition("Commands:")[2]
