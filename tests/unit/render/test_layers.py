"""Which layers containers see: Python, bash, Lua and Tcl are asked the same questions, and answer the same."""

import os
import re
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Optional

import pytest

from sifmod.container.spec import ContainerSpec
from sifmod.usersoftware.layers import layers

from ..support import SQUASHFS, Need
from .cases import ROOT
from .running import Load, Wrapper, binds_of, put_into_state
from .test_packed_file import DAMAGED, FILES, NONE, UNREADABLE, WHOLE, make_link

LANGUAGES = ["Python", "bash", "Lua", "Tcl"]
# where programs look for what is beside packages and commands
FOLDERS_OF = {
    "CMAKE_PREFIX_PATH": "",
    "JUPYTER_PATH": "/share/jupyter",
    "MANPATH": "/share/man",
    "PKG_CONFIG_PATH": "/lib/pkgconfig",
}


@dataclass(frozen=True)
class Answer:
    """What a language says.

    Attributes:
        seen: numbers of the layers that containers see, by their place.
        said: the words on standard error, or the problems.
    """

    seen: dict[str, int]
    said: str

    @property
    def left_out(self) -> list[int]:
        """The numbers of the layers that are named, in that order."""
        return [int(number) for number in re.findall(r"user-software\.layers/(\d+)\.squashfs", self.said)]


Ask = Callable[..., Answer]


@pytest.fixture(params=LANGUAGES)
def ask(request: pytest.FixtureRequest, load: Load, wrapper: Wrapper) -> Ask:
    """Return what asks one of the languages."""

    def python(spec: ContainerSpec, **_environ: str) -> Answer:
        found = layers(Path(spec.installdir))
        assert all(one.path.parent.name == "user-software.layers" for one in found)
        seen = {one.place: int(one.path.stem) for one in found if not one.problem}
        return Answer(seen, "\n".join(f"{one.path} {one.problem}" for one in found if one.problem))

    def bash(spec: ContainerSpec, **environ: str) -> Answer:
        done = wrapper.run("python", environ=environ)
        assert done.returncode == 0, done.stderr
        found: dict[str, str] = wrapper.fake.calls[-1]["env"]
        return Answer(seen_in(spec, found), done.stderr)

    def module(spec: ContainerSpec, **environ: str) -> Answer:
        done = load.run(spec, environ=environ, syntax=request.param)
        found = load.variables(done)
        return Answer(seen_in(spec, found), done.stderr.decode())

    def seen_in(spec: ContainerSpec, variables: Mapping[str, str]) -> dict[str, int]:
        found = {}
        for place, (source, options) in binds_of(variables).items():
            if place.startswith("/user-layers"):
                assert options == "ro,image-src=/"
                assert Path(source).parent == Path(spec.installdir, "user-software.layers")
                found[place] = int(Path(source).stem)
        script = str(Path(spec.installdir, "runscripts/at-start.sh"))
        assert binds_of(variables).get("/.singularity.d/env/99-sifmod.sh") == ((script, "ro") if found else None)
        return found

    asked: Ask = {"Python": python, "bash": bash}.get(request.param, module)
    return asked


def put(spec: ContainerSpec, *numbers: int) -> Path:
    """Write layers, and return the folder of them."""
    folder = Path(spec.installdir, "user-software.layers")
    folder.mkdir(exist_ok=True)
    for number in numbers:
        (folder / f"{number}.squashfs").write_bytes(SQUASHFS)
    return folder


def places(*numbers: int) -> dict[str, int]:
    """Return what containers see of layers, the newest first."""
    return {f"/user-layers/{place}": number for place, number in enumerate(numbers, 1)}


@pytest.mark.some(30)
@pytest.mark.parametrize("top", ["directory", "packed", "unpacked"])
@pytest.mark.parametrize(
    ("there", "seen"),
    [
        ([], []),
        ([1], [1]),
        ([1, 2], [2, 1]),
        (range(1, 9), range(8, 0, -1)),
        (range(1, 10), range(8, 0, -1)),
        ([1, 3], [1]),
        ([2, 3], []),
        ([0], []),
        ([1, 10], [1]),
    ],
)
def test_layers_end_at_a_gap(installed: ContainerSpec, ask: Ask, there: list[int], seen: list[int], top: str) -> None:
    put(installed, *there)
    put_into_state(Path(installed.installdir), top)
    answer = ask(installed)
    assert (answer.seen, answer.said) == (places(*seen), "")


@pytest.mark.parametrize(
    ("marked", "seen"),
    [([1, 2, 3], []), ([2, 3], [1]), ([3], [2, 1]), ([2], [1]), ([4], [3, 2, 1]), ([0, 10], [3, 2, 1])],
)
def test_a_marked_layer_is_left_out(installed: ContainerSpec, ask: Ask, marked: list[int], seen: list[int]) -> None:
    folder = put(installed, 1, 2, 3)
    for number in marked:
        (folder / f"{number}.unused").touch()
    answer = ask(installed)
    assert (answer.seen, answer.said) == (places(*seen), "")


@pytest.mark.parametrize(
    ("there", "listed", "marked", "gone"),
    [([1], 2, 0, 2), ([], 1, 0, 1), ([1, 3], 2, 0, 2), ([1], 2, 2, 0), ([1], 3, 0, 0)],
)
def test_a_layer_that_is_gone_is_named(
    request: pytest.FixtureRequest,
    installed: ContainerSpec,
    ask: Ask,
    there: list[int],
    listed: int,
    marked: int,
    gone: int,
) -> None:
    folder = put(installed, *there)
    (folder / f"{listed}.txt").write_text("lost==1\n")
    (folder / f"{marked}.unused").touch()
    answer = ask(installed)
    assert answer.seen == places(*there[:1])
    if "Python" not in request.node.name:  # sifmod tells it elsewhere
        assert answer.left_out == ([gone] if gone else [])
        assert answer.said.count("is gone") == bool(gone)


@pytest.mark.some(60)
@pytest.mark.parametrize("number", [1, 2, 3])
@pytest.mark.parametrize("name", FILES)
def test_all_languages_use_the_same_layers(installed: ContainerSpec, ask: Ask, name: str, number: int) -> None:
    kind, make = FILES[name]
    folder = put(installed, 1, 2, 3)
    path = folder / f"{number}.squashfs"
    path.unlink()
    make(path)
    answer = ask(installed)
    if kind == NONE:
        assert (answer.seen, answer.said) == (places(*range(number - 1, 0, -1)), "")
        return
    # what is left out keeps its place
    used = places(3, 2, 1) if kind == WHOLE else {place: one for place, one in places(3, 2, 1).items() if one != number}
    assert answer.seen == used
    assert answer.left_out[:1] == ([] if kind == WHOLE else [number])
    assert len(answer.said.splitlines()) == (kind in (DAMAGED, UNREADABLE))


def test_several_that_can_not_be_used_are_all_named(installed: ContainerSpec, ask: Ask) -> None:
    folder = put(installed, 1, 2, 3, 4)
    (folder / "2.squashfs").write_bytes(b"")
    (folder / "4.squashfs").write_bytes(SQUASHFS[:-1])
    answer = ask(installed)
    assert answer.seen == {"/user-layers/2": 3, "/user-layers/4": 1}
    assert [int(Path(line.split(".squashfs ")[0]).name) for line in answer.said.splitlines()] == [4, 2]


def test_layers_stay_without_user_software_on_top(installed: ContainerSpec, load: Load, wrapper: Wrapper) -> None:
    """A module warns; a command ends, because Python is in what is on top."""
    put(installed, 1)
    top = Path(installed.installdir)
    (top / "user-software").rmdir()
    for content in (b"", None):
        if content is not None:
            (top / "user-software.squashfs").write_bytes(content)
        for syntax in ("Lua", "Tcl"):
            assert "/user-layers/1" in binds_of(load(installed, syntax=syntax))
        assert wrapper.run("python").returncode == 126
    assert wrapper.fake.calls == []


def make_folder_unreadable(folder: Path) -> None:
    if os.geteuid() == 0:
        pytest.skip("root enters every folder")
    folder.chmod(0)


FOLDERS: dict[str, tuple[list[int], Callable[[Path], object]]] = {
    "a file": ([], lambda path: path.write_bytes(SQUASHFS)),
    "a dangling link": ([], lambda path: path.symlink_to("nowhere")),
    "a loop of links": ([], lambda path: path.symlink_to(path.name)),
    "a link to a folder": ([1], lambda path: path.symlink_to(path.rename(path.with_name("else, where")))),
    "closed": ([], make_folder_unreadable),
}


@pytest.mark.parametrize("name", FOLDERS)
def test_the_folder_of_layers_may_be_anything(installed: ContainerSpec, ask: Ask, name: str) -> None:
    seen, make = FOLDERS[name]
    folder = put(installed, *([1] if name in ("a link to a folder", "closed") else []))
    if name not in ("a link to a folder", "closed"):
        folder.rmdir()
    make(folder)
    try:
        answer = ask(installed)
    finally:
        if name == "closed":
            folder.chmod(0o700)
    assert (answer.seen, answer.said) == (places(*seen), "")


def test_a_layer_may_be_a_link(installed: ContainerSpec, ask: Ask) -> None:
    folder = put(installed, 1, 3)
    make_link(folder / "2.squashfs")
    assert ask(installed).seen == places(3, 2, 1)


OFF = {
    "SIFMOD_FEATURES": "none",
    "SIFMOD_SHARE_CONTAINER": "0",
    "SIFMOD_CACHE_DIR": "",
    "SIFMOD_RUNTIME_OPTIONS": "--quiet",
    "SIFMOD_USER_BINDPATH": "",
}


@pytest.mark.parametrize("environ", [OFF, {**OFF, "SLURM_JOB_ID": "7"}], ids=["off", "off, in a job"])
def test_other_variables_do_not_turn_layers_off(installed: ContainerSpec, ask: Ask, environ: dict[str, str]) -> None:
    put(installed, 1, 2)
    assert ask(installed, **environ).seen == places(2, 1)


OWN, TWO = "/user-software/venv/a+b/bin", ("/user-layers/1/venv/a+b", "/user-layers/3/venv/a+b")
NASTY = """/a b:"$HOME" `id`*'\n"""


def of_both(folder: str) -> str:
    return ":".join(layer + folder for layer in TWO)


@pytest.mark.parametrize("shell", ["dash", "bash"])
@pytest.mark.parametrize(
    ("given", "found"),
    [
        ({"PATH": f"/runscripts:{OWN}:/bin"}, {"PATH": f"/runscripts:{OWN}:{of_both('/bin')}:/bin"}),
        ({"PATH": f"{OWN}:/bin:{OWN}"}, {"PATH": f"{OWN}:{of_both('/bin')}:/bin:{OWN}"}),
        ({"PATH": f"/bin:{OWN}"}, {"PATH": f"/bin:{OWN}:{of_both('/bin')}"}),
        # the user's own, without that of the virtual environment
        ({"PATH": f"/bin:/x{OWN}:{OWN}x"}, {"PATH": f"/bin:/x{OWN}:{OWN}x"}),
        # by a runtime that has not yet put what is injected into PATH
        ({"PATH": "/bin", "SING_USER_DEFINED_PREPEND_PATH": OWN}, {"PATH": f"{OWN}:{of_both('/bin')}:/bin"}),
        # an empty entry: where man looks by itself
        ({}, {"MANPATH": f"{of_both('/share/man')}:", "CMAKE_PREFIX_PATH": of_both("")}),
        ({}, {"JUPYTER_PATH": of_both("/share/jupyter"), "PKG_CONFIG_PATH": of_both("/lib/pkgconfig")}),
        *(({name: NASTY}, {name: f"{of_both(folder)}:{NASTY}"}) for name, folder in FOLDERS_OF.items()),
        ({"VIRTUAL_ENV": ""}, {"MANPATH": None, "PATH": f"/runscripts:{OWN}:/bin"}),
    ],
)
def test_programs_find_what_is_in_the_layers(
    need: Need, tmp_path: Path, shell: str, given: dict[str, str], found: dict[str, Optional[str]]
) -> None:
    """What is injected or the image's own stays, behind the layers: one that can't be used leaves a gap."""
    for number in (1, 3):
        (tmp_path / "user-layers" / str(number)).mkdir(parents=True)
    script = (
        (ROOT / "wrappers/runscripts/at-start.sh").read_text().replace("/user-layers", str(tmp_path / "user-layers"))
    )
    (tmp_path / "script").write_text(script)
    environ = {"VIRTUAL_ENV": "/user-software/venv/a+b", "PATH": f"/runscripts:{OWN}:/bin", **given}
    words = [need(shell), "-uc", '. "$0"; exec /usr/bin/env -0', str(tmp_path / "script")]
    done = subprocess.run(words, env=environ, capture_output=True, text=True, check=True)
    got = dict(word.split("=", 1) for word in done.stdout.replace(str(tmp_path), "").split("\0")[:-1])
    assert {name: got.get(name) for name in found} == found
    assert not [name for name in got if name.startswith(("sifmod", "SING"))]


@pytest.mark.parametrize("syntax", ["Lua", "Tcl"])
def test_a_later_layer_is_seen_by_commands(installed: ContainerSpec, load: Load, wrapper: Wrapper, syntax: str) -> None:
    """Its bind list is that of the module, which is taken out, and what the user has added."""
    put(installed, 1)
    loaded = load(installed, environ={"SINGULARITY_BINDPATH": "/mine"}, syntax=syntax)
    put(installed, 2)
    variables = {name: value for name, value in loaded.items() if name.isidentifier() and "\n" not in value}
    binds = binds_of(wrapper("python", environ=variables)["env"])
    assert [Path(binds[f"/user-layers/{place}"][0]).name for place in (1, 2)] == ["2.squashfs", "1.squashfs"]
    assert "/mine" in binds
    assert "/user-layers/3" not in binds


@pytest.mark.parametrize("syntax", ["Lua", "Tcl"])
def test_unloading_says_nothing(installed: ContainerSpec, load: Load, syntax: str) -> None:
    (put(installed, 1) / "1.squashfs").write_bytes(b"")
    assert load.run(installed, mode="unload", syntax=syntax).stderr == b""
