"""Wrappers as a list and as a map: names, commands, and what is refused."""

from typing import Any

import pytest

from sifmod.container.wrappers import read_wrappers, why_not_a_wrapper
from sifmod.errors import ParameterError


def test_a_list_and_a_map() -> None:
    assert dict(read_wrappers(["gmx", "gmx_mpi", "gmx"])) == {"gmx": ("gmx",), "gmx_mpi": ("gmx_mpi",)}
    found = read_wrappers({"gmx": "/usr/local/gromacs/bin/gmx -quiet", "x": "tool 'two words' \"$HOME\" *.txt"})
    assert dict(found) == {
        "gmx": ("/usr/local/gromacs/bin/gmx", "-quiet"),
        "x": ("tool", "two words", "$HOME", "*.txt"),
    }


@pytest.mark.parametrize(
    ("command", "remedy"),
    [
        ("", "put a command in quotes"),
        ("  ", "put a command in quotes"),
        (7, "put a command in quotes"),
        (None, "put a command in quotes"),
        (["gmx"], "put a command in quotes"),
        ("gmx 'x", "close them"),
        ("''", "begin with the name"),
        ("bin/gmx", "begin with the name"),
        ("./gmx", "begin with the name"),
        ("-x", "begin with the name"),
        ("$(which gmx)", "begin with the name"),
        ("gmx | head", "without a shell"),
        ("gmx && true", "without a shell"),
        ("A=1 gmx", "container_env"),
        ("gmx\nrm", "on one line"),
        ("gmx \0", "on one line"),
        ("gmx \x1b[31m", "on one line"),
    ],
)
def test_a_command_that_needs_a_shell_is_refused(command: Any, remedy: str) -> None:
    with pytest.raises(ParameterError, match="'wrappers'") as caught:
        read_wrappers({"gmx": command})
    assert remedy in str(caught.value)


@pytest.mark.parametrize(
    "name",
    ["ls", "bash", "singularity", "sudo", "scontrol", "eb", "start-shell", "a/b", "", "-x", "a b", "x\n", "\x1b"],
)
def test_names_that_the_host_needs_are_refused_in_both_forms(name: str) -> None:
    assert why_not_a_wrapper(name)
    for value in ([name], {name: "/bin/true"}):
        with pytest.raises(ParameterError, match="'wrappers'"):
            read_wrappers(value)


@pytest.mark.parametrize("value", ["gmx", 1, {1: "gmx"}, [["gmx"]], [None]])
def test_other_types_are_refused(value: Any) -> None:
    with pytest.raises(ParameterError, match="'wrappers'"):
        read_wrappers(value)
