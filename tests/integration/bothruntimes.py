"""What a command gets with Apptainer and with enroot: containers, variables of the shell, and what may differ."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from conftest import IMAGES
from sifmod.container.spec import spec_from_parameters
from sifmod.image.sif import squashfs_partition
from sifmod.install.installer import write_artefact
from sifmod.render.templates import render
from sifmod.site.settings import Site

SITE = Site(
    "test",
    runtimes=("apptainer", "enroot"),
    container_env={"OMP_NUM_THREADS": "4", "NCCL_DEBUG": "INFO", "SIFMOD_TASK_GPUS": "own"},
)

# What differs, and why that is right.
ALLOWED = {
    "LD_LIBRARY_PATH": "a folder that Apptainer alone mounts, for the libraries of --nv and --rocm",
    "PROMPT_COMMAND": "Apptainer's prompt",
    "PS1": "Apptainer's prompt",
    "SHLVL": "enroot starts commands by a shell",
    "SIFMOD_RUNTIMES": "how the test chooses",
    "USER_PATH": "Apptainer tells the host's PATH",
    "_": "the shell's own",
}
# What Apptainer tells of itself, and settings for it and for enroot.
OF_RUNTIMES = ("APPTAINER", "SINGULARITY", "ENROOT")

VALUES = {
    "BASH_ENV": "/no/such/file",
    "BASH_FUNC_hello%%": '() {  echo "it\'s"\n}',
    "EMPTY": "",
    "LINES": "a\n'b' \"c\"\n$HOME\\n",
    "QUOTED": '"x"',
    "SHELL": "/bin/bash",
    "LD_LIBRARY_PATH": "/host/lib",
    "SINGULARITYENV_MINE": "it's",
    "APPTAINERENV_APPEND_PATH": "/last/bin",
    "OLDPWD": "/usr",
    "TERM": "xterm",
    "SIFMOD_TASK_GPUS": "all",  # the user's wins
}

CONTAINERS: dict[str, tuple[str, dict[str, object]]] = {
    "a Python": ("demo.sif", {"python_prefix": "/usr", "venv": "demo", "container_env": {"OWN": "a b"}}),
    "conda": ("conda-demo.sif", {"conda_env": "pytorch", "venv": "pytorch"}),
    "no Python": ("demo.sif", {"wrappers": ["tool"]}),
}


def variables(text: str) -> dict[str, str]:
    return dict(entry.split("=", 1) for entry in text.split("\0")[:-1])


def install(folder: Path, case: str) -> None:
    """Write the files of an installation whose image is one of the testbed's; `case` is a key of `CONTAINERS`."""
    name, parameters = CONTAINERS[case]
    image = IMAGES / name
    fields = {"name": "Demo", "version": "1", "env_name": "DEMO", "installdir": str(folder), "sif": "demo.sif"}
    spec = replace(spec_from_parameters(**fields, parameters=parameters), squashfs="demo.sqsh")
    for item in render(spec, SITE):
        write_artefact(folder, item)
    (folder / "user-software").mkdir()
    (folder / "demo.sif").symlink_to(image)
    part = squashfs_partition(image, user="enroot")
    with image.open("rb") as source, (folder / "demo.sqsh").open("wb") as target:
        source.seek(part.offset)
        target.write(source.read(part.size))


def host_variables(*folders: Path) -> dict[str, str]:
    """Return what the shell exports on the host, with folders before the others of PATH."""
    return {
        "PATH": ":".join([*map(str, folders), os.environ["PATH"]]),
        **{name: os.environ[name] for name in ("HOME", "USER", "LANG") if name in os.environ},
        **VALUES,
    }


def with_runtime(folder: Path, runtime: str, host: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that a command of the installation has with a runtime that is on PATH."""
    command = [str(folder / "bin/in-container"), "env", "-0"]
    environ = {**host, "SIFMOD_RUNTIMES": runtime}
    done = subprocess.run(command, env=environ, cwd=folder, capture_output=True, text=True, check=True)
    return variables(done.stdout)


def differing(apptainer: Mapping[str, str], enroot: Mapping[str, str]) -> dict[str, tuple[str | None, str | None]]:
    """Return the variables that differ and need not: name -> with Apptainer, with enroot."""
    return {
        name: (apptainer.get(name), enroot.get(name))
        for name in apptainer.keys() | enroot.keys()
        if apptainer.get(name) != enroot.get(name) and name not in ALLOWED and not name.startswith(OF_RUNTIMES)
    }


def changed(found: Mapping[str, str]) -> dict[str, str | None]:
    """Return those of `VALUES`, and of the site's variables, that a command does not have as they were given.

    Functions of the host stay out of containers.
    """
    given: dict[str, str | None] = {name: VALUES[name] for name in ("BASH_ENV", "EMPTY", "LINES", "QUOTED", "SHELL")}
    given |= {"BASH_FUNC_hello%%": None, "MINE": VALUES["SINGULARITYENV_MINE"], "OMP_NUM_THREADS": "4"}
    last = VALUES["APPTAINERENV_APPEND_PATH"]
    given["PATH"] = f"{found['PATH'].removesuffix(f':{last}')}:{last}"
    return {name: found.get(name) for name, value in given.items() if found.get(name) != value}
