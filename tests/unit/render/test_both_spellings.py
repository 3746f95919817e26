"""The examples of the tutorial on GPU containers with Slurm, which has each with Apptainer and with enroot.

Jobs are the scripts of `sifmod sbatch` with and without `--pyxis`; commands on a node are those of the module, with
either runtime. What the tutorial does and these don't: builds of images, and `enroot import` and `create` before a
start (an install does that from a definition or a URI, with Apptainer), and writes into an image (user software is
beside it).
"""

import subprocess
from pathlib import Path
from typing import Any

import pytest
from tests.standins import write_stand_ins

from sifmod.container.spec import ContainerSpec
from sifmod.render.job import Job, render_job

from ..support import SQUASHFS, FakeRuntime, a_site, a_spec
from .cases import write_out
from .running import Load
from .test_pyxis import RunJob

BOTH = a_site(runtimes=("apptainer", "enroot"), runtime="apptainer")
IN = "/runscripts/with-environment"
PYTHON = "/user-software/venv/demo/bin/python"

# What the example is for: the job, and the command that runs in the container with either spelling.
JOBS: dict[str, tuple[dict[str, Any], list[str]]] = {
    "show the GPU of the node": (
        {"command": ("nvidia-smi",), "launcher": "program", "gpus_per_node": 1, "processes_per_node": 1},
        ["nvidia-smi"],
    ),
    "run the n-body simulation on one GPU": (
        {"command": ("nbody", "-benchmark", "-numbodies=2000000"), "launcher": "program", "gpus_per_node": 1},
        ["nbody", "-benchmark", "-numbodies=2000000"],
    ),
    "measure NCCL between two nodes, one task for each GPU": (
        {"command": ("all_reduce_perf_mpi", "-b", "1G"), "launcher": "program", "nodes": 2, "gpus_per_node": 2},
        ["all_reduce_perf_mpi", "-b", "1G"],
    ),
    "train with torchrun on two nodes": (
        {"command": ("pt_ddp_example.py", "-N", "8"), "launcher": "torchrun", "nodes": 2, "gpus_per_node": 2},
        ["torchrun-distributed", "--nproc_per_node=2", "pt_ddp_example.py", "-N", "8"],
    ),
    "train with Lightning on two nodes, one task for each GPU": (
        {"command": ("ptl_ddp_example.py",), "nodes": 2, "gpus_per_node": 2},
        ["conda-python-distributed", "-u", "ptl_ddp_example.py"],
    ),
}

# What the example is for: the command of the module with its arguments, and the command that runs in the container.
COMMANDS: dict[str, tuple[list[str], list[str]]] = {
    "show the GPU of the node": (["in-container", "nvidia-smi"], ["nvidia-smi"]),
    "look around in a shell": (["start-shell"], ["/bin/bash", "--norc"]),
    "run a script of the working directory": (["python", "self_contained.py"], [PYTHON, "self_contained.py"]),
    "install a package without replacing the image's": (
        ["pip", "install", "lightning"],
        [PYTHON, "-I", "/runscripts/installers.py", "pip", "install", "lightning"],
    ),
    "install the package in a folder for development": (
        ["pip", "install", "-e", "python_dev/"],
        [PYTHON, "-I", "/runscripts/installers.py", "pip", "install", "-e", "python_dev/"],
    ),
}


@pytest.fixture
def installed(tmp_path: Path) -> ContainerSpec:
    spec: ContainerSpec = a_spec(installdir=str(tmp_path / "installed"), squashfs="demo.sqsh", user_commands=False)
    top = write_out(spec, BOTH)
    (top / "demo.sif").touch()
    (top / "demo.sqsh").write_bytes(SQUASHFS)
    (top / "user-software/venv/demo").mkdir(parents=True)
    (tmp_path / "work dir").mkdir()
    return spec


@pytest.mark.parametrize("purpose", JOBS)
def test_a_job_runs_the_same_command(installed: ContainerSpec, load: Load, tmp_path: Path, purpose: str) -> None:
    values, command = JOBS[purpose]
    run = RunJob(load, write_stand_ins(tmp_path / "stand-ins"), tmp_path)
    jobs = {pyxis: Job("Demo/1.0-x", pyxis=pyxis, **values) for pyxis in (False, True)}
    for job in jobs.values():
        assert run.run(job, installed, BOTH).stderr == ""
    plain, pyxis = run.stand_ins.calls
    assert plain["words"] == ["in-container", *command]
    assert pyxis["words"] == [IN, *command]
    assert pyxis["image"] == f"{installed.installdir}/demo.sqsh"
    assert plain["options"] == pyxis["options"]
    lines = [[line for line in render_job(job, BOTH).splitlines() if "#SBATCH" in line] for job in jobs.values()]
    assert lines[0] == lines[1]


def call(installed: ContainerSpec, tmp_path: Path, words: list[str], **environ: str) -> dict[str, Any]:
    """Return how a command of the module has called its runtime: `argv`, or the fields of a call of enroot."""
    fake, stand_ins = FakeRuntime(tmp_path / "fake", "apptainer"), write_stand_ins(tmp_path / "stand-ins")
    path = f"{fake.bin}:{stand_ins.folder}:/usr/bin:/bin"
    work = tmp_path / "work"
    work.mkdir()
    command = [f"{installed.installdir}/bin/{words[0]}", *words[1:]]
    subprocess.run(command, env={"PATH": path, **environ}, cwd=work, check=True, stdin=subprocess.DEVNULL)
    found: list[dict[str, Any]] = fake.calls or stand_ins.calls
    assert len(found) == 1
    return found[0]


@pytest.mark.parametrize("runtime", ["apptainer", "enroot"])
@pytest.mark.parametrize("purpose", COMMANDS)
def test_a_command_runs_with_both(installed: ContainerSpec, tmp_path: Path, purpose: str, runtime: str) -> None:
    words, command = COMMANDS[purpose]
    found = call(installed, tmp_path, words, SIFMOD_RUNTIMES=runtime)
    if runtime == "apptainer":
        assert found["argv"] == ["exec", f"{installed.installdir}/demo.sif", *command]
    else:
        assert found["words"] == [f"{installed.installdir}/demo.sqsh", IN, "--in", str(tmp_path / "work"), *command]
        targets = [mount["target"] for mount in found["mounts"]]
        assert str(tmp_path / "work") in targets
        assert found["environ"]["ENROOT_MOUNT_HOME"] == "yes"


def test_a_shell_without_the_home_in_both_spellings(installed: ContainerSpec, tmp_path: Path) -> None:
    (tmp_path / "1").mkdir()
    (tmp_path / "2").mkdir()
    options = {"SIFMOD_RUNTIMES": "apptainer", "SIFMOD_RUNTIME_OPTIONS": "--no-home"}
    assert "--no-home" in call(installed, tmp_path / "1", ["start-shell"], **options)["argv"]
    found = call(installed, tmp_path / "2", ["start-shell"], SIFMOD_RUNTIMES="enroot", ENROOT_MOUNT_HOME="no")
    assert found["environ"]["ENROOT_MOUNT_HOME"] == "no"
