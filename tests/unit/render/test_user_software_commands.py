"""The host commands for user software, which are the same files in every installation."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from sifmod import names
from sifmod.container.bind import escape
from sifmod.container.spec import ContainerSpec

from ..imagetrees import squashfs
from ..support import SQUASHFS, Need, a_site
from .cases import text_of, write_out
from .running import Wrapper


@pytest.mark.parametrize("command", ["make-squashfs", "unmake-squashfs", "carry-over", "refresh-commands"])
def test_they_find_their_installation_through_links(installed: ContainerSpec, tmp_path: Path, command: str) -> None:
    top = write_out(installed, a_site())
    link = tmp_path / "link"
    link.symlink_to(top / "bin" / command)
    (tmp_path / "linked").symlink_to(top)
    for path in (link, tmp_path / "linked" / "bin" / command):
        done = subprocess.run([path, "--help"], capture_output=True, text=True, check=False)
        assert (done.returncode, done.stderr) == (0, "")
        assert done.stdout.startswith(f"Usage: {command} ")
    for words, folder in (
        ([f"./{command}"], top / "bin"),
        (["bash", "-p", command], top / "bin"),
        ([f"bin/{command}"], top),
    ):
        done = subprocess.run([*words, "--help"], capture_output=True, text=True, check=False, cwd=folder)
        assert (done.returncode, done.stderr) == (0, "")


def test_a_tool_that_is_missing_is_named_where_coreutils_are_too(installed: ContainerSpec) -> None:
    top = write_out(installed, a_site())
    done = subprocess.run(
        ["/bin/bash", "-p", top / "bin" / "make-squashfs"],
        env={"PATH": "/nowhere"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 4
    assert "squashfs-tools" in done.stderr


def test_what_every_virtual_environment_has_is_not_carried_over(
    wrapper: Wrapper, installed: ContainerSpec, tmp_path: Path
) -> None:
    Path(installed.installdir, "user-software", "venv", "demo").mkdir(parents=True)
    lines = [
        "# a list",
        "",
        "pip==24",
        "Pip @ file:///x",
        "Setuptools==69.0",
        "WHEEL==1",
        "a_b==1",
        "setuptools-scm==8",
    ]
    (tmp_path / "list.txt").write_text("\n".join(lines) + "\n")
    done = wrapper.run("carry-over", str(tmp_path / "list.txt"))
    assert (done.returncode, done.stdout) == (0, "Carrying over 2 packages.\nAll packages were carried over.\n")
    (call,) = wrapper.fake.calls
    assert call["argv"][2:] == [
        "/user-software/venv/demo/bin/python",
        *("-m", "pip", "--disable-pip-version-check", "install", "a_b==1", "setuptools-scm==8"),
    ]


def test_a_list_of_nothing_else_has_nothing_to_carry_over(wrapper: Wrapper, tmp_path: Path) -> None:
    (tmp_path / "list.txt").write_text("pip==24\nsetuptools==69\n")
    done = wrapper.run("carry-over", str(tmp_path / "list.txt"))
    assert done.returncode == 2
    assert wrapper.fake.calls == []


def test_other_commands_leave_variables_of_the_user_alone(wrapper: Wrapper) -> None:
    """A variable that is exported and set anew would be another one in the container."""
    set_there = re.findall(
        r"(?<![$\w-])([a-z_]+)\+?=|\bfor ([a-z_]+) in", text_of("share/container.sh", wrapper.installed)
    )
    names_set = {one or other for one, other in set_there} | {"root", "sif", "directory", "packed", "runtime", "magic"}
    assert {"binds", "module", "previous"} < names_set
    mine = dict.fromkeys((name for name in names_set if not name.startswith("sifmod_")), "mine")
    environ = wrapper("python", environ=mine)["env"]
    assert mine.items() <= environ.items()


def test_they_hold_the_lock_that_removal_takes(wrapper: Wrapper, installed: ContainerSpec) -> None:
    wrapper.run("unmake-squashfs")
    assert Path(installed.installdir, names.USER_SOFTWARE_LOCK).exists()


@pytest.mark.parametrize("link", [os.symlink, os.link])
def test_a_lock_that_leads_to_another_file_does_not_empty_it(
    wrapper: Wrapper, installed: ContainerSpec, tmp_path: Path, link: Callable[[Path, Path], None]
) -> None:
    victim = tmp_path / "victim"
    victim.write_text("years of work")
    lock = Path(installed.installdir, names.USER_SOFTWARE_LOCK)
    link(victim, lock)
    done = wrapper.run("unmake-squashfs")
    assert victim.read_text() == "years of work"
    if lock.is_symlink():
        assert done.returncode == 5
        assert f"'{lock}' is no plain file" in done.stderr


@pytest.mark.parametrize("make", [os.mkfifo, Path.mkdir, lambda path: path.symlink_to("nowhere")])
def test_a_lock_that_is_no_file_is_named(
    wrapper: Wrapper, installed: ContainerSpec, make: Callable[[Path], None]
) -> None:
    lock = Path(installed.installdir, names.USER_SOFTWARE_LOCK)
    make(lock)
    done = wrapper.run("make-squashfs")
    assert done.returncode == 5
    assert f"'{lock}' is no plain file" in done.stderr
    assert not Path(installed.installdir, "nowhere").exists()


@pytest.mark.parametrize(
    "line",
    [
        *("--index-url=http://evil/", "-r/etc/passwd", "../x", "./x", "/x", ".x", "a @ file:///x", "http://evil/x.whl"),
        *(
            "a==1 --pre",
            "$(touch x)",
            "a[$(touch x)]",
            "a;b",
            "\x1b[31m",
            "a==1 ; python_version > '3'",
            "x.whl",
            "x-1.Tar.gz",
        ),
    ],
)
def test_what_is_no_package_never_reaches_pip(
    wrapper: Wrapper, installed: ContainerSpec, tmp_path: Path, line: str
) -> None:
    Path(installed.installdir, "user-software", "venv", "demo").mkdir(parents=True)
    (tmp_path / "list.txt").write_text(f"{line}\na==1\nb[x,y]>=2,<3\n\r\n")
    done = wrapper.run("carry-over", str(tmp_path / "list.txt"))
    assert done.returncode == 10
    assert "Left out, because it is not the name of a package" in done.stdout
    assert "\x1b" not in done.stdout
    assert len(wrapper.fake.calls) == 1, (done, wrapper.fake.calls)
    (call,) = wrapper.fake.calls
    assert call["argv"][-3:] == ["install", "a==1", "b[x,y]>=2,<3"]


@pytest.mark.parametrize("status", [126, 127, 255])
def test_a_container_that_does_not_start_ends_it(
    wrapper: Wrapper, installed: ContainerSpec, tmp_path: Path, status: int
) -> None:
    Path(installed.installdir, "user-software", "venv", "demo").mkdir(parents=True)
    (tmp_path / "list.txt").write_text("a==1\nb==2\n")
    (wrapper.fake.bin / "singularity").write_text(f"#!/bin/sh\necho no container >&2\nexit {status}\n")
    done = wrapper.run("carry-over", str(tmp_path / "list.txt"))
    assert (done.returncode, done.stderr) == (status, "no container\n")


def test_nothing_is_tried_if_the_user_software_is_packed(
    wrapper: Wrapper, installed: ContainerSpec, tmp_path: Path
) -> None:
    Path(installed.installdir, "user-software.squashfs").write_bytes(SQUASHFS)
    (tmp_path / "list.txt").write_text("a==1\n")
    done = wrapper.run("carry-over", str(tmp_path / "list.txt"))
    assert (done.returncode, "run add-layer or unmake-squashfs first" in done.stderr) == (9, True)
    assert wrapper.fake.calls == []


@pytest.mark.parametrize(("mode", "is_named"), [(0o644, False), (0o664, False), (0o646, True), (0o666, True)])
def test_a_layer_that_everybody_may_change_is_named_when_it_is_added(
    wrapper: Wrapper, installed: ContainerSpec, need: Need, mode: int, is_named: bool
) -> None:
    packed = Path(installed.installdir, "user-software.squashfs")
    squashfs(need("mksquashfs"), packed.with_name("user-software"), packed)
    packed.with_name("user-software").rmdir()
    packed.chmod(mode)
    done = wrapper.run("add-layer")
    layer = Path(installed.installdir, "user-software.layers/1.squashfs")
    assert (done.returncode, layer.samefile(packed)) == (0, True), done.stderr
    quoted = str(layer).replace("'", "'\\''")
    said = f"add-layer: everybody may change '{layer}', and so run code as each user of the module. To end that: "
    assert done.stderr == (f"{said}chmod o-w '{quoted}'\n" if is_named else "")


@pytest.mark.parametrize("command", ["make-squashfs", "make-squashfs --replace", "unmake-squashfs"])
def test_a_packed_file_that_is_none_is_named(wrapper: Wrapper, installed: ContainerSpec, command: str) -> None:
    packed = Path(installed.installdir, "user-software.squashfs")
    packed.mkdir()
    done = wrapper.run(*command.split())
    assert done.returncode == 3
    assert f"'{packed}' is a directory, but should be a SquashFS file: move it away" in done.stderr
    packed.rmdir()
    if os.geteuid() == 0:
        return  # root reads every file
    packed.write_bytes(SQUASHFS)
    packed.chmod(0)
    done = wrapper.run(*command.split())
    assert done.returncode == 9
    quoted = str(packed).replace("'", "'\\''")
    assert f"chmod ug+r '{quoted}'" in done.stderr


def test_a_stale_shell_is_told_so_once(wrapper: Wrapper, installed: ContainerSpec) -> None:
    Path(installed.installdir, "user-software.squashfs").write_bytes(SQUASHFS)
    stale = {"SINGULARITY_BINDPATH": f"/a,{escape(installed.installdir)}/user-software:/user-software,/b"}
    assert f"this shell loaded {installed.module} before" in wrapper.run("python", environ=stale).stderr
    assert wrapper.run("python", environ={**stale, "SLURM_PROCID": "1"}).stderr == ""


def test_a_link_to_nowhere_is_named(wrapper: Wrapper, installed: ContainerSpec) -> None:
    directory = Path(installed.installdir, "user-software")
    if directory.exists():
        directory.rmdir()
    directory.symlink_to("/nowhere/us")
    done = wrapper.run("python")
    assert done.returncode == 126
    assert "is a link to '/nowhere/us', which does not exist" in done.stderr
    assert "is a link to '/nowhere/us', which does not exist" in wrapper.run("make-squashfs").stderr
