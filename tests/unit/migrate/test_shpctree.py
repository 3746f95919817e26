"""The modules that SHPC has installed, in the form in which its 0.1.32 writes them."""

from collections.abc import Callable
from pathlib import Path

import pytest

from sifmod.errors import RecipeError
from sifmod.migrate.recipe import Alias
from sifmod.migrate.shpctree import installed_modules, read_module

OPTIONS = "-B <wrapperDir>/99-shpc.sh:/.singularity.d/env/99-shpc.sh "
ENVIRONMENT = '#!/bin/sh\n\n# variables\nexport TOOL_THREADS="4"\nexport TOOL_HOME=""\n'
Make = Callable[..., Path]


def lua(sif: str, commands: dict[str, str], options: str) -> str:
    lines = [
        f' - {name}:\n       singularity exec {options}<container> {command}"$@"' for name, command in commands.items()
    ]
    return "\n".join(
        [
            "-- Created by singularity-hpc (https://github.com/singularityhub/singularity-hpc)",
            "help(\n[[\nCommands include:\n",
            " - tool-run:\n       singularity run <container>",
            *lines,
            "]])",
            f"local containerPath = '{sif}'",
            'whatis("Version     : " .. myModuleVersion())',
            'whatis("Url         : https://tool.example.org/")',
        ]
    )


def tcl(sif: str, commands: dict[str, str], options: str) -> str:
    lines = []
    for name, command in commands.items():
        escaped = command.replace("$", "\\$")
        lines += [
            f'    puts stderr " - {name}:"',
            f'    puts stderr "       singularity exec {options}<container> {escaped}\\"\\$@\\""',
        ]
    return "\n".join(
        [
            "#%Module",
            "# Created by singularity-hpc (https://github.com/singularityhub/singularity-hpc)",
            "proc ModulesHelp { } {",
            *lines,
            "}",
            f"set containerPath {sif}",
        ]
    )


@pytest.fixture(params=["lua", "tcl"])
def make(request: pytest.FixtureRequest, tmp_path: Path) -> Make:
    def made(commands: dict[str, str], *, options: str = OPTIONS, name: str = "quay.io/example/tool/1.0") -> Path:
        images = tmp_path / "containers" / name
        images.mkdir(parents=True)
        sif = images / "tool-1.0-sha256:ab.sif"
        sif.write_bytes(b"sif")
        folder = tmp_path / "modules" / name
        folder.mkdir(parents=True)
        (folder / "99-shpc.sh").write_text(ENVIRONMENT)
        path = folder / f"module.{request.param}"
        write = lua if request.param == "lua" else tcl
        path.write_text(write(str(sif), {"tool-exec": "", **commands}, options))
        return path

    return made


def test_variables_lie_where_the_module_says(make: Make, tmp_path: Path) -> None:
    """With module_base, and wrapper_base left as it is."""
    path = make({"tool": "tool "})
    elsewhere = tmp_path / "wrappers/tool"
    elsewhere.mkdir(parents=True)
    path.with_name("99-shpc.sh").rename(elsewhere / "99-shpc.sh")
    said = f'local wrapperDir = "{elsewhere}"' if path.suffix == ".lua" else f'set wrapperDir "{elsewhere}"'
    path.write_text(f"{path.read_text()}\n{said}\n")
    assert read_module(path, tmp_path / "modules")[0].env == (("TOOL_THREADS", "4"), ("TOOL_HOME", ""))


def test_a_module(make: Make, tmp_path: Path) -> None:
    path = make({"tool": "/usr/local/bin/tool ", "count": "sh -c 'echo $HOME' "})
    tool, sif = read_module(path, tmp_path / "modules")
    assert (tool.path, tool.tag) == ("quay.io/example/tool", "1.0")
    assert tool.aliases == (Alias("tool", "/usr/local/bin/tool"), Alias("count", "sh -c 'echo $HOME'"))
    assert tool.env == (("TOOL_THREADS", "4"), ("TOOL_HOME", ""))
    assert tool.image == {"sources": ["tool-1.0-sha256:ab.sif"], "image_mode": "link"}
    assert sif == tmp_path / "containers/quay.io/example/tool/1.0/tool-1.0-sha256:ab.sif"
    assert tool.features == ()


def test_gpus_home_and_x11_are_in_the_options_of_the_runtime(make: Make, tmp_path: Path) -> None:
    path = make({"tool": "tool "}, options=f"--rocm -B /scratch --home /scratch -B ~/.Xauthority {OPTIONS}")
    tool, _sif = read_module(path, tmp_path / "modules")
    assert tool.features == ("gpu", "home", "x11")
    assert tool.image["gpu"] == "amd"


def test_an_image_that_is_gone_or_can_not_be_looked_at(make: Make, tmp_path: Path) -> None:
    path = make({})
    _tool, sif = read_module(path, tmp_path / "modules")
    sif.unlink()
    with pytest.raises(RecipeError, match=r"its image '.*sha256:ab\.sif' is not there"):
        read_module(path, tmp_path / "modules")
    path.write_text(path.read_text().replace(str(sif), f"/{'x' * 300}"))
    with pytest.raises(RecipeError, match=r"its image '/x+' can't be read: File name too long"):
        read_module(path, tmp_path / "modules")


def test_module_files_of_others_are_named(make: Make, tmp_path: Path) -> None:
    path = make({})
    path.write_text("local containerPath = '/x.sif'\n")
    with pytest.raises(RecipeError, match="is not a module of SHPC with a SIF"):
        read_module(path, tmp_path / "modules")
    path.write_bytes(b"\xff")
    with pytest.raises(RecipeError, match="it is not UTF-8"):
        read_module(path, tmp_path / "modules")


def test_views_are_left_out_because_they_are_links(make: Make, tmp_path: Path) -> None:
    path = make({})
    view = tmp_path / "modules/view/tool/1.0"
    view.mkdir(parents=True)
    (view / path.name).symlink_to(path)
    assert installed_modules(tmp_path / "modules") == [path]


def test_a_folder_without_modules(tmp_path: Path) -> None:
    with pytest.raises(RecipeError, match=r"has no module\.lua or module\.tcl: name SHPC's module_base"):
        installed_modules(tmp_path)


@pytest.mark.timeout(240)
def test_a_line_without_end_takes_no_time(make: Make, tmp_path: Path) -> None:
    path = make({})
    path.write_text(path.read_text() + "\n - a:\n singularity exec " + "<container> x" * 20_000)
    assert read_module(path, tmp_path / "modules")[0].aliases == ()
