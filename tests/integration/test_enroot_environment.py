"""A command of the module has the same variables with enroot as with Apptainer, variable for variable.

Apptainer is the real one. enroot's part is imitated: the stand-in checks the call, and its variables alone are given to
`with-environment`, which reads the image's own files.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest
from tests.standins import StandIns, write_stand_ins

from conftest import IMAGES
from sifmod.container.spec import spec_from_parameters
from sifmod.image.sif import squashfs_partition
from sifmod.render.templates import render
from sifmod.site.settings import Site

SITE = Site("test", runtimes=("apptainer", "enroot"), container_env={"OMP_NUM_THREADS": "4", "NCCL_DEBUG": "INFO"})

# What differs, and why that is right.
ALLOWED = {
    "LD_LIBRARY_PATH": "a folder that Apptainer alone mounts, for the libraries of --nv and --rocm",
    "PROMPT_COMMAND": "Apptainer's prompt",
    "PS1": "Apptainer's prompt",
    "SIFMOD_RUNTIMES": "how the test chooses",
    "USER_PATH": "Apptainer tells the host's PATH",
    "_": "the shell's own",
}
# What Apptainer tells of itself, and settings for it and for enroot.
OF_RUNTIMES = ("APPTAINER", "SINGULARITY", "ENROOT")

VALUES = {
    "EMPTY": "",
    "LINES": "a\n'b' \"c\"\n$HOME\\n",
    "QUOTED": '"x"',
    "SHELL": "/bin/bash",
    "LD_LIBRARY_PATH": "/host/lib",
    "SINGULARITYENV_MINE": "it's",
    "APPTAINERENV_APPEND_PATH": "/last/bin",
    "OLDPWD": "/usr",
}

CONTAINERS: dict[str, tuple[str, dict[str, object]]] = {
    "a Python": ("demo.sif", {"python_prefix": "/usr", "venv": "demo", "container_env": {"OWN": "a b"}}),
    "conda": ("conda-demo.sif", {"conda_env": "pytorch", "venv": "pytorch"}),
    "no Python": ("demo.sif", {"wrappers": ["tool"]}),
}


def variables(text: str) -> dict[str, str]:
    return dict(entry.split("=", 1) for entry in text.split("\0")[:-1])


def install(folder: Path, image: Path, parameters: Mapping[str, object]) -> None:
    """Write the files of an installation whose image is one of the testbed's."""
    fields = {"name": "Demo", "version": "1", "env_name": "DEMO", "installdir": str(folder), "sif": "demo.sif"}
    spec = replace(spec_from_parameters(**fields, parameters=dict(parameters)), squashfs="demo.sqsh")
    for item in render(spec, SITE):
        path = folder / item.path
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(item.text)
        path.chmod(0o755 if item.executable else 0o644)
    (folder / "user-software").mkdir()
    (folder / "demo.sif").symlink_to(image)
    part = squashfs_partition(image)
    with image.open("rb") as source, (folder / "demo.sqsh").open("wb") as target:
        source.seek(part.offset)
        target.write(source.read(part.size))


def with_enroot(folder: Path, stand_ins: StandIns, words: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that a command of the installation has with enroot."""
    command = [str(folder / "bin/in-container"), "env", "-0"]
    subprocess.run(command, env={**words, "SIFMOD_RUNTIMES": "enroot"}, cwd=folder, check=True)
    (call,) = stand_ins.calls
    assert isinstance(call["env"], dict)
    assert isinstance(call["environ"], dict)
    assert isinstance(call["words"], list)
    given = {name: call["environ"][name] if value is None else value for name, value in call["env"].items()}
    image = folder / "image"
    unpack = ["unsquashfs", "-q", "-n", "-d", str(image), str(folder / "demo.sqsh"), ".singularity.d/env"]
    subprocess.run(unpack, check=True, capture_output=True)
    script = folder / "runscripts/with-environment"
    script.write_text(script.read_text().replace("/.singularity.d/env", f"{image}/.singularity.d/env"))
    done = subprocess.run(
        ["/bin/sh", str(script), *call["words"][2:]], env=given, capture_output=True, text=True, check=True
    )
    return variables(done.stdout)


@pytest.mark.parametrize("case", CONTAINERS)
def test_a_command_has_the_same_variables_with_either_runtime(tmp_path: Path, case: str) -> None:
    image, parameters = CONTAINERS[case]
    folder = tmp_path / "installed"
    install(folder, IMAGES / image, parameters)
    stand_ins = write_stand_ins(tmp_path / "stand-ins")
    host = {
        "PATH": f"{stand_ins.folder}:{os.environ['PATH']}",
        **{name: os.environ[name] for name in ("HOME", "USER", "LANG") if name in os.environ},
        **VALUES,
    }
    command = [str(folder / "bin/in-container"), "env", "-0"]
    environ = {**host, "SIFMOD_RUNTIMES": "apptainer"}
    done = subprocess.run(command, env=environ, cwd=folder, capture_output=True, text=True, check=True)
    apptainer, enroot = variables(done.stdout), with_enroot(folder, stand_ins, host)
    differing = {
        name: (apptainer.get(name), enroot.get(name))
        for name in apptainer.keys() | enroot.keys()
        if apptainer.get(name) != enroot.get(name) and name not in ALLOWED and not name.startswith(OF_RUNTIMES)
    }
    assert differing == {}
    assert {name: enroot.get(name) for name in ("EMPTY", "LINES", "QUOTED", "SHELL", "MINE", "OMP_NUM_THREADS")} == {
        **{name: VALUES[name] for name in ("EMPTY", "LINES", "QUOTED", "SHELL")},
        "MINE": "it's",
        "OMP_NUM_THREADS": "4",
    }
    assert enroot["PATH"].endswith(":/last/bin")
