"""The container part of a module, in Lua and in Tcl."""

import os
import re
import shutil
import stat
import subprocess
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Optional

import pytest
from tests.programs import write_file

from sifmod.container.bind import Bind
from sifmod.container.spec import ContainerSpec
from sifmod.image.unpacked import LABELS

from ..support import SQUASHFS, a_site
from .cases import CASES, write_out
from .running import Load, Wrapper, binds_of, put_into_state


def test_sh_gets_no_function_and_a_module_without_a_family_none(installed: ContainerSpec, load: Load) -> None:
    assert "family" not in load(replace(installed, module_family=""))
    # a name with a hyphen is no function name in dash: its `eval` of the whole module would fail
    assert not [name for name in load(installed, calling="sh") if name.startswith("function")]


@pytest.mark.parametrize(("gpu", "flag"), [("", None), ("amd", "ROCM"), ("nvidia", "NV")])
def test_the_gpu_has_its_own_variable(installed: ContainerSpec, load: Load, gpu: str, flag: Optional[str]) -> None:
    variables = load(replace(installed, gpu=gpu))
    on = {name for name in ("ROCM", "NV") if variables.get(f"SINGULARITY_{name}") == "1"}
    assert on == ({flag} if flag else set())


@pytest.mark.parametrize("syntax", ["Lua", "Tcl"])
@pytest.mark.parametrize("gpu", ["amd", "nvidia"])
def test_the_image_s_gpu_libraries_come_first(installed: ContainerSpec, load: Load, gpu: str, syntax: str) -> None:
    variables = load(replace(installed, gpu=gpu, gpu_libraries="image"), syntax=syntax)
    assert not {f"{tool}_{name}" for tool in ("SINGULARITY", "APPTAINER") for name in ("ROCM", "NV")} & set(variables)


def test_the_packed_file_is_bound_unless_the_directory_is_in_use(installed: ContainerSpec, load: Load) -> None:
    binds = binds_of(load(installed))
    assert binds["/user-software"] == (f"{installed.installdir}/user-software", "")
    assert binds["/runscripts"] == (f"{installed.installdir}/runscripts", "ro")
    Path(installed.installdir, "user-software.squashfs").write_bytes(SQUASHFS)
    source, options = binds_of(load(installed))["/user-software"]
    assert source == f"{installed.installdir}/user-software.squashfs"
    assert set(options.split(",")) == {"ro", "image-src=/"}
    Path(installed.installdir, "user-software.squashfs").write_bytes(SQUASHFS)
    Path(installed.installdir, "user-software.unpacked").write_text("")
    assert binds_of(load(installed))["/user-software"][0] == f"{installed.installdir}/user-software"
    Path(installed.installdir, "user-software.squashfs").write_bytes(SQUASHFS)
    Path(installed.installdir, "user-software.unpacked").write_text("")
    Path(installed.installdir, "user-software").rmdir()
    assert binds_of(load(installed))["/user-software"][0] == f"{installed.installdir}/user-software.squashfs"


@pytest.mark.parametrize("ask", ["Lua", "Tcl", "bash"])
def test_optional_binds(installed: ContainerSpec, load: Load, wrapper: Wrapper, tmp_path: Path, ask: str) -> None:
    """What a link leads to decides: runtimes refuse a source that is a link to nowhere, and mount any other kind."""
    (tmp_path / "there").mkdir()
    (tmp_path / "file,1").write_text("")
    os.mkfifo(tmp_path / "fifo")
    os.mknod(tmp_path / "socket", stat.S_IFSOCK | 0o600)
    links = {
        "to folder": "there",
        "to socket": "socket",
        "to device": "/dev/null",
        "to link": "to gone",
        "to gone": "gone",
    }
    for name, target in links.items():
        (tmp_path / name).symlink_to(target)
    there = ["there", "file,1", "fifo", "socket", "to folder", "to socket", "to device"]
    sources = [*there, "gone", "to gone", "to link", "file,1/below"]
    binds = [Bind(str(tmp_path / name), f"/of/{number}") for number, name in enumerate(sources)]
    site = a_site(optional_binds=tuple(binds))
    variables = wrapper("python", site=site)["env"] if ask == "bash" else load(installed, site, syntax=ask)
    bound = {place for place in binds_of(variables) if place.startswith("/of/")}
    assert bound == {f"/of/{number}" for number in range(len(there))}


@pytest.mark.parametrize("syntax", ["Lua", "Tcl"])
def test_a_broken_link_is_no_image(installed: ContainerSpec, load: Load, tmp_path: Path, syntax: str) -> None:
    image = Path(installed.installdir, installed.sif)
    image.unlink()
    image.symlink_to(tmp_path / "gone")
    done = load.run(installed, syntax=syntax)
    assert (done.returncode, b"eb --rebuild" in done.stderr) == (1, True)
    (tmp_path / installed.sif).write_text("size")
    site = a_site(image_repositories=(str(tmp_path),))
    assert load(replace(installed, image_size=4, image_id=""), site, syntax=syntax)["SIF"] == str(
        tmp_path / installed.sif
    )


def test_no_list_of_binds_has_an_empty_element(installed: ContainerSpec, load: Load) -> None:
    for spec in (installed, replace(installed, venv="", python=None)):
        for environ in ({}, {"SINGULARITY_BINDPATH": ""}):
            assert not re.search(r"^,|,,|,$", load(spec, environ=environ)["SINGULARITY_BINDPATH"])


# An image's beginning: what has no identifier differs by its size, what has one by that.
IDENTIFIER = bytes(range(16))
CENTRAL: dict[str, tuple[bytes, bytes, str]] = {
    "size": (b"longer", b"size", ""),
    "identifier": (bytes(48) + b"x" * 16 + b"\n" * 16, bytes(48) + IDENTIFIER + b"\n" * 16, IDENTIFIER.hex()),
}


@pytest.mark.parametrize("syntax", ["Lua", "Tcl"])
@pytest.mark.parametrize("differs", CENTRAL)
def test_another_central_image(installed: ContainerSpec, load: Load, tmp_path: Path, syntax: str, differs: str) -> None:
    Path(installed.installdir, installed.sif).unlink()
    other, same, identifier = CENTRAL[differs]
    for name, content in (("other", other), ("same", same)):
        (tmp_path / name).mkdir()
        (tmp_path / name / installed.sif).write_bytes(content)
    spec = replace(installed, image_size=len(same), image_id=identifier)
    site = a_site(image_repositories=(str(tmp_path / "other"), str(tmp_path / "same")))
    assert load(spec, site, syntax=syntax)["SIF"] == f"{tmp_path}/same/demo.sif"
    (tmp_path / "same" / installed.sif).unlink()
    assert load.run(spec, site, syntax=syntax).returncode != 0


UNPACKED = {
    "as installed": ("", ""),
    "other labels": ('{"a": "$x[1] \\n"}\n', "is another one now than when Demo/1.0-x was installed"),
    "no labels": (None, "is another one now than when Demo/1.0-x was installed"),
    "a FIFO": ("fifo", "is another one now than when Demo/1.0-x was installed"),
    "gone": ("gone", "is not there: its file system may not be mounted on this node"),
}


@pytest.mark.parametrize("syntax", ["Lua", "Tcl"])
@pytest.mark.parametrize("state", UNPACKED)
def test_another_unpacked_image(installed: ContainerSpec, load: Load, tmp_path: Path, syntax: str, state: str) -> None:
    change, said = UNPACKED[state]
    labels = '{\n"a": "it\'s $x[1] \\\\n"\n}\n'
    image = tmp_path / "un packed"
    path = write_file(image / LABELS, labels)
    spec = replace(installed, image=str(image), image_mode="central", is_unpacked=True, image_labels=labels)
    if change != "":
        path.unlink()
    if change == "fifo":
        os.mkfifo(path)
    elif change == "gone":
        shutil.rmtree(image)
    elif change:
        path.write_text(change)
    done = load.run(spec, a_site(image_repositories=(str(tmp_path),)), syntax=syntax)
    assert said in done.stderr.decode()
    assert (done.returncode == 0) == (not said)
    assert load.run(spec, a_site(), mode="unload", syntax=syntax).returncode == 0
    if not said:
        assert load(spec, a_site(), syntax=syntax)["SIF"] == str(image)


@pytest.mark.parametrize("syntax", ["Lua", "Tcl"])
def test_without_an_image_only_unloading_works(installed: ContainerSpec, load: Load, syntax: str) -> None:
    Path(installed.installdir, installed.sif).unlink()
    done = load.run(installed, syntax=syntax)
    assert done.returncode == 1
    assert done.stderr.count(b"\n") == 1
    assert os.fsencode(f"{installed.installdir}/demo.sif") in done.stderr
    assert b"eb --rebuild" in done.stderr
    assert load.run(installed, mode="unload", syntax=syntax).returncode == 0


@pytest.mark.parametrize("syntax", ["Lua", "Tcl"])
@pytest.mark.parametrize("fault", ["closed", "unreadable", "image", "moved"])
def test_a_closed_or_moved_one(installed: ContainerSpec, load: Load, tmp_path: Path, syntax: str, fault: str) -> None:
    """Also if the site has a copy of its image: commands would be the host's."""
    (tmp_path / installed.sif).write_text("")
    site = a_site(image_repositories=(str(tmp_path),))
    root = Path(installed.installdir)
    closed = {"closed": root, "unreadable": root / "share/container.sh", "image": root / installed.sif}.get(fault)
    if closed:
        mode = closed.stat().st_mode
        closed.chmod(0)
    else:
        root.rename(tmp_path / "elsewhere")
    try:
        done = load.run(installed, site, syntax=syntax)
        assert load.run(installed, site, mode="unload", syntax=syntax).returncode == 0
    finally:
        if closed:
            closed.chmod(mode)
    assert done.returncode != 0
    assert b"Permissions? Moved?" in done.stderr
    assert b"eb --rebuild" not in done.stderr


@pytest.mark.parametrize(("syntax", "again"), [("Lua", "load"), ("Tcl", "switch Demo/1.0-x")])
@pytest.mark.parametrize("shell", ["bash", "zsh"])
def test_packing_reloads_the_module(installed: ContainerSpec, load: Load, shell: str, syntax: str, again: str) -> None:
    variables = load(installed, calling=shell, syntax=syntax)
    for command in ("make-squashfs", "unmake-squashfs", "add-layer", "remove-layer", "flatten-layers"):
        call = f'env SIFMOD_RELOADS=1 {command} "$@" && module {again} Demo/1.0-x'
        assert f"{command} () {{ {call}; }}" in variables[f"function {command}"]
    undone = load(installed, calling=shell, mode="unload", syntax=syntax)
    both = "".join(
        f"{found[name]}\n" for found in (variables, undone) for name in found if name.startswith("function ")
    )
    # -p: without the functions of this shell, such as Lmod's
    assert subprocess.run(["bash", "-pc", f"{both}declare -F"], capture_output=True, check=True).stdout == b""


@pytest.mark.parametrize("mode", ["load", "unload"])
def test_the_functions_do_not_end_a_script_of_sh_as_bash(installed: ContainerSpec, load: Load, mode: str) -> None:
    """In POSIX mode, a function with a hyphen in its name ends a script, whether it is defined or undone."""
    for name, text in load(installed, calling="bash", mode=mode).items():
        if name.startswith("function "):
            done = subprocess.run(["bash", "--posix", "-uc", f"{text}\necho here"], capture_output=True, check=False)
            assert (done.stdout, done.stderr) == (b"here\n", b"")


LAYERED = ["layered", "layered, packed", "layered, one damaged"]


@pytest.mark.some(22)
@pytest.mark.parametrize(
    "state", ["directory", "packed", "both", "unpacked", "empty", "text", "short", "central", *LAYERED]
)
@pytest.mark.parametrize("case", CASES)
def test_both_syntaxes_have_the_same_effect(load: Load, tmp_path: Path, case: str, state: str) -> None:
    spec, site = CASES[case]
    top = tmp_path / "a b,c'd$e{["
    spec = replace(spec, installdir=str(top), image_size=4, image_id="")
    write_out(spec, site)
    (top / "user-software").mkdir()
    put_into_state(top, state)
    central = tmp_path / "cen'tral $[x]"
    central.mkdir()
    ((central if state == "central" else top) / spec.sif).write_text("size")
    (tmp_path / "dangling").symlink_to("/gone")
    optional = {str(central): "/c", "/gone": "/g", str(tmp_path / "dangling"): "/d", "/dev/null": "/n"}
    site = replace(
        site,
        image_repositories=(str(central),),
        optional_binds=tuple(Bind(source, place) for source, place in optional.items()),
    )
    for environ in (
        {},
        {"SINGULARITY_BINDPATH": "/mine"},
        {"__SIFMOD_CONTAINER": "Demo/1.0-x", "SIFMOD_USER_BINDPATH": "/a,/b", "APPTAINER_BINDPATH": "/x"},
        {"__SIFMOD_CONTAINER": "Other/2", "APPTAINER_BINDPATH": "/x"},
        {"SINGULARITYENV_MANPATH": "/my $man", "APPTAINERENV_JUPYTER_PATH": "/a"},
        *(
            {"SLURMD_NODENAME": "n1", "TMPDIR": one}
            for one in (f"{Path(__file__).parent}/", "/usr", "/tmp", "/a:b", "x")
        ),
        {
            "SLURMD_NODENAME": "n1",
            "TMPDIR": "/tmp",
            "TMP": f"{Path(__file__).parent}",
            "TEMPDIR": f"{Path(__file__).parent}/.",
        },
        {
            "SINGULARITY_ENVIRONMENT": "x",
            "USER_PATH": "/b:/c",
            "APPTAINER_BIND": "/runscripts",
            "__SIFMOD_BIND": "/mine",
        },
    ):
        lua = load(spec, site, environ)
        tcl = load(spec, site, environ, syntax="Tcl")
        functions = [name for name in tcl if name.startswith("function")]
        assert [name in lua for name in functions] == [bool(spec.venv)] * len(functions)
        for name in functions:
            assert tcl.pop(name) == lua.pop(name).replace("module load", f"module switch {spec_name(lua)}")
        assert tcl == lua
    assert len(lua) > 8
    assert optional.values() & binds_of(lua).keys() == {"/c", "/n"}
    assert ("/user-layers/1" in binds_of(lua)) == (state in LAYERED and bool(spec.venv))


def spec_name(variables: Mapping[str, str]) -> str:
    return variables["__SIFMOD_CONTAINER"]


@pytest.mark.parametrize("syntax", ["Lua", "Tcl"])
@pytest.mark.parametrize("state", ["empty", "text", "short"])
def test_a_damaged_packed_file_is_named(installed: ContainerSpec, load: Load, syntax: str, state: str) -> None:
    top = Path(installed.installdir)
    put_into_state(top, state)
    done = load.run(installed, syntax=syntax)
    assert done.returncode == 0
    assert os.fsencode(f"{top}/user-software.squashfs is damaged") in done.stderr
    assert done.stderr.endswith(b"; make-squashfs\n")
    assert binds_of(load(installed, syntax=syntax))["/user-software"][0] == f"{top}/user-software"
    (top / "user-software").rmdir()
    done = load.run(installed, syntax=syntax)
    assert done.returncode == 0
    assert b"Restore it from a backup" in done.stderr
    assert "/user-software" not in binds_of(load(installed, syntax=syntax))
    assert load.run(installed, syntax=syntax, mode="unload").stderr == b""


def test_unloading_an_earlier_container_loads_the_last_again(installed: ContainerSpec, load: Load) -> None:
    last = {"__SIFMOD_CONTAINER": "Other/2"}
    assert '*:"Other/2":*) module load "Other/2"' in load(installed, environ=last, mode="unload")["execute"]
    assert "execute" not in load(installed, environ={"__SIFMOD_CONTAINER": "Demo/1.0-x"}, mode="unload")
    assert "execute" not in load(installed, environ=last)
    assert "execute" not in load(installed, environ=last, mode="unload", calling="fish")


def test_a_member_of_the_family_is_unloaded_first(installed: ContainerSpec, load: Load) -> None:
    member = {"LMOD_FAMILY_CONTAINER": "Other"}
    assert load(installed, environ=member)["unload"] == "Other"
    for environ in ({}, {"LMOD_FAMILY_CONTAINER": "Demo"}, {**member, "LMOD_AUTO_SWAP": "no"}):
        assert "unload" not in load(installed, environ=environ)
    assert "unload" not in load(installed, environ=member, mode="unload")
    assert "unload" not in load(replace(installed, module_family="mpi"), environ=member)
    assert load(replace(installed, module_family="mpi"), environ={"LMOD_FAMILY_MPI": "Other"})["unload"] == "Other"


@pytest.mark.parametrize("syntax", ["Lua", "Tcl"])
def test_eb_keeps_the_python_that_it_had(installed: ContainerSpec, load: Load, tmp_path: Path, syntax: str) -> None:
    """`eb` looks for python3 in PATH, where the container's is first, unless EB_INSTALLPYTHON names one."""
    for name in ("first", "second"):
        write_file(tmp_path / name / "python3")
    path = {"PATH": f"{installed.installdir}/bin:{tmp_path}/none:{tmp_path}/first:{tmp_path}/second:/usr/bin:/bin"}
    assert load(installed, environ=path, syntax=syntax)["EB_INSTALLPYTHON"] == f"{tmp_path}/first/python3"
    chosen = {**path, "EB_INSTALLPYTHON": "/mine"}
    assert load(installed, environ=chosen, syntax=syntax)["EB_INSTALLPYTHON"] == "/mine"
    nothing = {"PATH": f"{installed.installdir}/bin:{tmp_path}/none"}
    assert "EB_INSTALLPYTHON" not in load(installed, environ=nothing, syntax=syntax)
    assert "EB_INSTALLPYTHON" not in load(replace(installed, wrappers=("pip",)), environ=path, syntax=syntax)
