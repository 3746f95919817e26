"""What a module sees of the installations that it builds on: Python, bash, Lua and Tcl answer the same."""

import json
import os
import stat
import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from sifmod import names
from sifmod.container.spec import Base, ContainerSpec
from sifmod.render.module import render_module
from sifmod.usersoftware.layers import layers

from ..support import SQUASHFS, Need, a_site
from .running import Load, Wrapper, binds_of

# An installation that one builds on: what it has, and what containers see of it, in order.
PARTS: dict[str, tuple[dict[str, bytes], list[str]]] = {
    "nothing": ({}, []),
    "a link to nothing": ({"user-software": b"@elsewhere"}, []),
    "a directory": ({"user-software/": b""}, ["user-software"]),
    "a packed file": ({"user-software.squashfs": SQUASHFS}, ["user-software.squashfs"]),
    "a packed file, and a directory that was packed": (
        {"user-software/": b"", "user-software.squashfs": SQUASHFS},
        ["user-software.squashfs"],
    ),
    "a directory that was unpacked": (
        {"user-software/": b"", "user-software.squashfs": SQUASHFS, "user-software.unpacked": b""},
        ["user-software"],
    ),
    "a damaged file beside its directory": (
        {"user-software/": b"", "user-software.squashfs": SQUASHFS[:-1]},
        ["user-software"],
    ),
    "a damaged file": ({"user-software.squashfs": SQUASHFS[:-1]}, []),
    "layers below a directory": (
        {
            "user-software/": b"",
            "user-software.layers/1.squashfs": SQUASHFS,
            "user-software.layers/2.squashfs": SQUASHFS,
        },
        ["user-software", "user-software.layers/2.squashfs", "user-software.layers/1.squashfs"],
    ),
    "a gap between layers": (
        {
            "user-software.squashfs": SQUASHFS,
            "user-software.layers/1.squashfs": SQUASHFS,
            "user-software.layers/3.squashfs": SQUASHFS,
        },
        ["user-software.squashfs", "user-software.layers/1.squashfs"],
    ),
    "a damaged layer": (
        {
            "user-software/": b"",
            "user-software.layers/1.squashfs": SQUASHFS,
            "user-software.layers/2.squashfs": b"hsqs",
        },
        ["user-software", "user-software.layers/1.squashfs"],
    ),
    "nine layers": (
        {"user-software/": b"", **{f"user-software.layers/{number}.squashfs": SQUASHFS for number in range(1, 10)}},
        ["user-software", *(f"user-software.layers/{number}.squashfs" for number in range(8, 1, -1))],
    ),
}
# What its manifest has: what is said of it, and whether it is used, if it can be loaded at all.
MANIFESTS: dict[str, tuple[dict[str, Any], str, bool]] = {
    "unchanged": ({}, "", True),
    "another image": ({"image_id": "ff"}, "has another image now", True),
    "another environment": ({"venv": "other"}, "has another virtual environment now", True),
    "only in a parameter": ({"venv": "other", "parameters": {"venv": "demo"}}, "another virtual environment", True),
    "another Python": ({"python_version": "3.12"}, "has another Python now", False),
    "as one of its own bases": (
        {"python_version": "3.12", "bases": [{"python_version": "3.11"}]},
        "has another Python now",
        False,
    ),
    "none": ({"files": None}, "is gone or can't be read", False),
}
SAYING = {
    **dict.fromkeys(("nothing", "a link to nothing"), "has no user software now"),
    "a damaged file": "is left out",
    "a damaged layer": "is left out",
    "nine layers": "at most 8 layers",
}

Ask = Callable[[ContainerSpec], tuple[list[str], str, int]]


@pytest.fixture
def below(tmp_path: Path, installed: ContainerSpec) -> Base:
    """What `installed` builds on."""
    root = tmp_path / "team's, $HOME [x]"
    root.mkdir()
    return Base("Team/1", str(root), installed.venv, "3.11", "00")


@pytest.fixture(params=["bash", "Lua", "Tcl"])
def ask(request: pytest.FixtureRequest, load: Load, wrapper: Wrapper) -> Ask:
    """Return what asks a language: the sources of the layers in order, what it says, and how it ended."""

    def bash(spec: ContainerSpec) -> tuple[list[str], str, int]:
        done = wrapper.run("python", spec=spec)
        return (sources(wrapper.fake.calls[-1]["env"]) if done.returncode == 0 else []), done.stderr, done.returncode

    def module(spec: ContainerSpec) -> tuple[list[str], str, int]:
        done = load.run(spec, syntax=request.param)
        return (sources(load.variables(done)) if done.returncode == 0 else []), done.stderr.decode(), done.returncode

    return bash if request.param == "bash" else module


def sources(variables: dict[str, str]) -> list[str]:
    found = {place: source for place, (source, _options) in binds_of(variables).items()}
    layered = [found[f"/user-layers/{number}"] for number in range(1, 10) if f"/user-layers/{number}" in found]
    assert sum(place.startswith("/user-layers") for place in found) == len(layered)
    return layered


def make(root: Path, parts: dict[str, bytes], **changes: object) -> None:
    for name, content in parts.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if content.startswith(b"@"):
            path.symlink_to(content[1:].decode())
        elif name.endswith("/"):
            path.mkdir()
        else:
            path.write_bytes(content)
    manifest = {"files": [], "image_id": "00", "python_version": "3.11", "venv": "demo", "version": "1", **changes}
    if manifest["files"] is not None:
        (root / "share").mkdir()
        (root / names.MANIFEST).write_text(json.dumps(manifest, indent=2, sort_keys=True) + "\n")


@pytest.mark.parametrize("name", PARTS)
def test_all_languages_see_the_same_layers(installed: ContainerSpec, below: Base, ask: Ask, name: str) -> None:
    root = Path(below.root)
    files, seen = PARTS[name]
    make(root, files)
    spec = replace(installed, bases=(below,))
    found, said, status = ask(spec)
    assert status == 0
    assert found == [str(root / one) for one in seen]
    assert [str(one.path) for one in layers(Path(spec.installdir), [below.root]) if not one.problem] == found
    assert SAYING.get(name, "") in said
    assert bool(said) == (name in SAYING)


@pytest.mark.parametrize("name", MANIFESTS)
def test_all_languages_compare_the_manifest(
    installed: ContainerSpec, below: Base, ask: Ask, name: str, request: pytest.FixtureRequest
) -> None:
    root = Path(below.root)
    changes, saying, is_used = MANIFESTS[name]
    make(root, {"user-software/": b""}, **changes)
    found, said, status = ask(replace(installed, bases=(below,)))
    if name == "another image" and request.node.callspec.params["ask"] == "bash":
        saying = ""  # once, when the module is loaded, is enough
    assert found == ([str(root / "user-software")] if is_used else [])
    assert saying in said
    assert bool(said) == bool(saying)
    assert (status != 0) == ("Python" in saying)


def test_those_of_the_nearest_come_first(installed: ContainerSpec, below: Base, ask: Ask, tmp_path: Path) -> None:
    own, last = Path(installed.installdir), Base("Last/1", str(tmp_path / "last"), installed.venv, "3.11", "00")
    layer = {"user-software.layers/1.squashfs": SQUASHFS}
    (own / "user-software.layers").mkdir()
    (own / "user-software.layers" / "1.squashfs").write_bytes(SQUASHFS)
    make(Path(below.root), {"user-software/": b"", **layer})
    Path(last.root).mkdir()
    make(Path(last.root), {"user-software.squashfs": SQUASHFS})
    other = replace(last, venv="other")
    found, said, status = ask(replace(installed, bases=(below, last, other)))
    assert (said, status) == ("", 0)
    assert found == [
        str(own / "user-software.layers" / "1.squashfs"),
        f"{below.root}/user-software",
        f"{below.root}/user-software.layers/1.squashfs",
        f"{last.root}/user-software.squashfs",
    ]


def test_a_manifest_that_is_no_file_is_not_waited_for(installed: ContainerSpec, below: Base, ask: Ask) -> None:
    path = Path(below.root, names.MANIFEST)
    path.parent.mkdir()
    os.mkfifo(path)
    found, said, status = ask(replace(installed, bases=(below,)))
    assert (found, status) == ([], 0)
    assert "is gone or can't be read" in said


# The owner of a base replaces a file by a FIFO as soon as it has been looked at.
SWAPS = {
    "Lua": """local look = lfs.attributes
lfs.attributes = function(path, name)
    local kind = look(path, name)
    if path == "%s" and kind == "file" then os.execute('rm "' .. path .. '"; mkfifo "' .. path .. '"') end
    return kind
end
""",
    "Tcl": """rename file look
proc file {what args} {
    set found [uplevel 1 look $what $args]
    if {$what eq {isfile} && [lindex $args 0] eq {%s} && $found} { exec rm {%s}; exec mkfifo {%s} }
    return $found
}
""",
}


@pytest.mark.parametrize("syntax", ["Lua", "Tcl"])
@pytest.mark.parametrize("name", [names.MANIFEST, "user-software.squashfs"])
def test_a_fifo_that_is_swapped_in_is_not_waited_for(
    installed: ContainerSpec, load: Load, tmp_path: Path, need: Need, syntax: str, name: str
) -> None:
    if syntax == "Lua":
        libraries = [need("lua5.3", "lua"), "-e", "require('posix'); require('lfs')"]  # as Lmod has them
        if subprocess.run(libraries, capture_output=True, check=False).returncode:
            pytest.skip("Lua has no posix here")
    root = tmp_path / "base"
    make(root, {"user-software.squashfs": SQUASHFS, "user-software/": b""})
    spec = replace(installed, bases=(Base("Team/1", str(root), installed.venv, "3.11", "00"),))
    module = tmp_path / f"module.{syntax.lower()}"
    swap = SWAPS[syntax].replace("%s", str(root / name))
    module.write_text(swap + render_module(spec, a_site(), syntax), encoding="utf-8")
    done = load.run_file(module, syntax=syntax)
    assert stat.S_ISFIFO((root / name).stat().st_mode)
    assert b"Team/1" in done.stderr or done.returncode == 0


@pytest.mark.parametrize(("size", "is_used"), [(1 << 32, True), (0, False)])
def test_a_manifest_of_any_size(installed: ContainerSpec, below: Base, ask: Ask, size: int, is_used: bool) -> None:
    make(Path(below.root), {"user-software/": b""})
    os.truncate(Path(below.root, names.MANIFEST), size)
    found, said, status = ask(replace(installed, bases=(below,)))
    assert (found, status == 0) == ([f"{below.root}/user-software"] if is_used else [], is_used)
    assert ("has another Python now" in said) == (not is_used)
    assert "null byte" not in said


def test_a_closed_directory_is_left_out(installed: ContainerSpec, below: Base, ask: Ask) -> None:
    if os.geteuid() == 0:
        pytest.skip("root reads every folder")
    make(Path(below.root), {"user-software/": b""})
    Path(below.root, "user-software").chmod(0)
    found, said, status = ask(replace(installed, bases=(below,)))
    Path(below.root, "user-software").chmod(0o700)
    assert (found, status) == ([], 0)
    assert "is left out" in said or "has no user software now" in said
