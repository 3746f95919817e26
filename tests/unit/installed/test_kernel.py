import json
import os
import re
import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner
from tests.programs import write_program

from sifmod.cli import cli
from sifmod.eb.space import SoftwareSpace
from sifmod.errors import KernelError
from sifmod.installed.installation import Installation, find_installation
from sifmod.installed.kernel import kernel_of, require_ipykernel, write_kernel

from ..support import SQUASHFS, make_installation, snapshot

MODULE = "Demo/1.0-x"
ENVIRON = {"HOME": "/home/me"}


@pytest.fixture
def installation(space: SoftwareSpace) -> Installation:
    root = make_installation(space, MODULE)
    set_python(root, "exit 0")
    return find_installation(space, MODULE)


def set_python(root: Path, body: str) -> None:
    write_program(root / "bin" / "python", f"#!/bin/bash\n{body}\n")


def test_the_kernel_starts_the_installation_s_own_python(installation: Installation, tmp_path: Path) -> None:
    kernel = kernel_of(installation, environ={**ENVIRON, "JUPYTER_RUNTIME_DIR": "/run/user/1/jupyter"})
    assert kernel.spec["argv"][:-1] == [
        *(f"{installation.root}/bin/python", "-m", "ipykernel_launcher", "-f", "{connection_file}")
    ]
    assert (kernel.name, kernel.spec["display_name"]) == ("demo-1.0-x", MODULE)
    assert str(kernel.directory) == "/home/me/.local/share/jupyter/kernels/demo-1.0-x"
    assert "env" not in kernel.spec
    kernel = kernel_of(installation, name="N", display_name="D", jupyter_prefix=tmp_path, environ=ENVIRON)
    assert kernel.directory == tmp_path / "share/jupyter/kernels/N"
    assert kernel.spec["display_name"] == "D"


@pytest.mark.parametrize(
    ("environ", "folder"),
    [
        ({"XDG_DATA_HOME": "/home/me/data"}, "/home/me/data/jupyter/kernels"),
        ({"XDG_DATA_HOME": "/home/me/data", "JUPYTER_DATA_DIR": "/home/me/j"}, "/home/me/j/kernels"),
        ({"HOME": ""}, "/.local/share/jupyter/kernels"),
    ],
)
def test_it_is_in_the_user_s_folder(installation: Installation, environ: dict[str, str], folder: str) -> None:
    assert str(kernel_of(installation, environ={**ENVIRON, **environ}).directory.parent) == folder


@pytest.mark.parametrize("name", ["a b", "a/b", "$(id)", "é", "a\n", ".", "..", "../x"])
def test_a_name_that_jupyter_refuses_is_refused(installation: Installation, name: str) -> None:
    with pytest.raises(KernelError, match="--name"):
        kernel_of(installation, name=name, environ=ENVIRON)


def test_a_python_that_is_missing_or_does_not_start_is_said_with_its_words(installation: Installation) -> None:
    (installation.root / "bin/python").unlink()
    with pytest.raises(KernelError, match="lacks the command python"):
        kernel_of(installation, environ=ENVIRON)
    set_python(installation.root, "echo 'the image is gone' >&2; exit 126")
    with pytest.raises(KernelError, match=r"failed with exit status 126: the image is gone"):
        require_ipykernel(installation)


def test_the_command_that_installs_what_is_missing_is_said(installation: Installation) -> None:
    set_python(installation.root, "exit 41")
    with pytest.raises(KernelError, match=f"ipykernel, .*: {installation.root}/bin/pip install ipykernel$"):
        require_ipykernel(installation)
    shutil.rmtree(installation.root / "user-software")
    (installation.root / "user-software.squashfs").write_bytes(SQUASHFS)
    with pytest.raises(KernelError, match=r"with: eb --module-only --rebuild EASYCONFIG, .*; .*add-layer"):
        require_ipykernel(installation)  # of a sifmod before layers
    (installation.root / "bin" / "add-layer").touch()
    bin_ = re.escape(f"{installation.root}/bin/")
    layer = f"{bin_}add-layer; {bin_}pip install ipykernel; {bin_}make-squashfs$"
    with pytest.raises(KernelError, match=f"with: {layer}"):
        require_ipykernel(installation)
    (installation.root / "user-software").mkdir()  # not in use, and in the way of add-layer
    with pytest.raises(KernelError, match=f"with: {bin_}make-squashfs --remove-directory; {layer}"):
        require_ipykernel(installation)


@pytest.mark.skipif(os.geteuid() == 0, reason="root writes everywhere")
def test_in_somebody_else_s_module_it_is_for_a_module_on_top(installation: Installation) -> None:
    set_python(installation.root, "exit 41")
    installation.root.chmod(0o555)
    with pytest.raises(KernelError, match=f"a module of your own, .*: sifmod on {MODULE} --name NAME$"):
        require_ipykernel(installation)
    installation.root.chmod(0o755)


def test_an_existing_kernel_stays_unless_it_is_to_be_replaced(installation: Installation, tmp_path: Path) -> None:
    first = kernel_of(installation, jupyter_prefix=tmp_path, environ=ENVIRON)
    write_kernel(first)
    (first.directory / "logo-64x64.png").touch()
    before = snapshot(tmp_path / "share")
    second = kernel_of(installation, display_name="é", jupyter_prefix=tmp_path, environ=ENVIRON)
    with pytest.raises(KernelError, match="--replace"):
        write_kernel(second)
    assert snapshot(tmp_path / "share") == before
    write_kernel(second, replace=True)
    assert json.loads((first.directory / "kernel.json").read_text(encoding="utf-8")) == second.spec
    assert [path.name for path in first.directory.parent.iterdir()] == [first.name]
    assert [path.name for path in first.directory.iterdir()] == ["kernel.json"]
    result = CliRunner().invoke(cli, ["kernel", "Demo", "--user", "--jupyter-prefix", "/x"])
    assert result.exit_code == 2
    assert "exclude each other" in result.output


def test_a_folder_that_can_not_be_written_is_named(installation: Installation, tmp_path: Path) -> None:
    (tmp_path / "share").write_text("")
    with pytest.raises(KernelError, match=f"kernel can't be written: '{tmp_path}/share/jupyter"):
        write_kernel(kernel_of(installation, jupyter_prefix=tmp_path, environ=ENVIRON))
