"""Which packed file can be used: Python, bash, Lua and Tcl are asked the same questions, and answer the same."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from sifmod.container.spec import ContainerSpec
from sifmod.usersoftware.state import PACKED, user_software

from ..support import SQUASHFS
from .running import Load, Wrapper, binds_of

WHOLE, DAMAGED, UNREADABLE, NONE = "whole", "damaged", "unreadable", "none"


def length_of(length: int) -> bytes:
    """Return a file that says that it is so long."""
    return SQUASHFS[:40] + length.to_bytes(8, "little") + SQUASHFS[48:]


def make_unreadable(path: Path) -> None:
    if os.geteuid() == 0:
        pytest.skip("root reads every file")
    path.write_bytes(SQUASHFS)
    path.chmod(0)


def make_link(path: Path) -> None:
    target = path.with_name("elsewhere")
    target.write_bytes(SQUASHFS)
    path.symlink_to(target)


FILES: dict[str, tuple[str, Callable[[Path], object]]] = {
    "missing": (NONE, lambda _path: None),
    "a directory": (NONE, Path.mkdir),
    "a dangling link": (NONE, lambda path: path.symlink_to("nowhere")),
    "whole": (WHOLE, lambda path: path.write_bytes(SQUASHFS)),
    "whole, and padded": (WHOLE, lambda path: path.write_bytes(SQUASHFS + bytes(4000))),
    "a link to a whole one": (WHOLE, make_link),
    "empty": (DAMAGED, Path.touch),
    "zeros": (DAMAGED, lambda path: path.write_bytes(bytes(200))),
    "of another magic": (DAMAGED, lambda path: path.write_bytes(b"sqsh" + SQUASHFS[4:])),
    "with a zero in its magic": (DAMAGED, lambda path: path.write_bytes(b"hs\0qs" + SQUASHFS[4:])),
    "its magic alone": (DAMAGED, lambda path: path.write_bytes(b"hsqs")),
    "cut off before its length": (DAMAGED, lambda path: path.write_bytes(SQUASHFS[:40])),
    "cut off within its length": (DAMAGED, lambda path: path.write_bytes(length_of(96)[:44])),
    "cut off": (DAMAGED, lambda path: path.write_bytes(SQUASHFS[:-1])),
    "of length zero": (DAMAGED, lambda path: path.write_bytes(length_of(0))),
    "of a length below its superblock's": (DAMAGED, lambda path: path.write_bytes(length_of(95))),
    "of the greatest length": (DAMAGED, lambda path: path.write_bytes(length_of(2**64 - 1))),
    "of the greatest length with a sign": (DAMAGED, lambda path: path.write_bytes(length_of(2**63))),
    "unreadable": (UNREADABLE, make_unreadable),
}

Ask = Callable[[ContainerSpec], tuple[str, str]]


@pytest.fixture(params=["Python", "bash", "Lua", "Tcl"])
def ask(request: pytest.FixtureRequest, load: Load, wrapper: Wrapper) -> Ask:
    """Return what asks one of the languages: what it binds, and what it says."""

    def python(spec: ContainerSpec) -> tuple[str, str]:
        state = user_software(Path(spec.installdir), venv=spec.venv)
        source = {PACKED: "user-software.squashfs", "directory": "user-software"}.get(state.state, "")
        return source, f"{state.packed_problem} {state.packed_remedy}" if state.packed_problem else ""

    def bash(_spec: ContainerSpec) -> tuple[str, str]:
        done = wrapper.run("python")
        return (source_of(wrapper.fake.calls[-1]["env"]) if done.returncode == 0 else ""), done.stderr

    def module(spec: ContainerSpec) -> tuple[str, str]:
        said = load.run(spec, syntax=request.param).stderr.decode()
        return source_of(load(spec, syntax=request.param)), said

    def source_of(variables: dict[str, str]) -> str:
        return Path(binds_of(variables).get("/user-software", ("", ""))[0]).name

    asked: Ask = {"Python": python, "bash": bash}.get(request.param, module)
    return asked


@pytest.mark.some(40)
@pytest.mark.parametrize("has_directory", [True, False], ids=["beside the directory", "alone"])
@pytest.mark.parametrize("name", FILES)
def test_all_languages_use_the_same_packed_files(
    installed: ContainerSpec, ask: Ask, name: str, has_directory: bool, request: pytest.FixtureRequest
) -> None:
    answer, make = FILES[name]
    top = Path(installed.installdir)
    if not has_directory:
        (top / "user-software").rmdir()
    make(top / "user-software.squashfs")
    source, said = ask(installed)
    assert source == ("user-software.squashfs" if answer == WHOLE else "user-software" if has_directory else "")
    if answer == WHOLE or (answer == NONE and has_directory):
        assert said == ""
    if answer == UNREADABLE:
        assert "can't be read" in said
        assert "chmod ug+r" in said
    if answer == NONE and not has_directory and request.node.callspec.params["ask"] != "Python":
        assert "user software is missing" in said
        assert len(said.splitlines()) == 1
    # never the advice to remove what may be whole
    assert ("rm " in said or "backup" in said) == (answer == DAMAGED)
