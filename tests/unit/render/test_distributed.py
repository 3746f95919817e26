"""The runscript conda-python-distributed, with an interpreter that prints what it gets."""

import os
import re
import stat
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Optional

import pytest
from tests.programs import ran

from sifmod.container.gpu import VENDORS
from sifmod.site import cache as site_cache

from .running import AS_ANOTHER, STEP, VISIBLE, Runscript, variables_of


@pytest.mark.parametrize(("tasks", "count"), [("5", 1), ("4,5", 2), ("1,3,5", 3), ("0,2,4,5,6,8,10", 7)])
def test_the_tasks_of_this_node_are_counted(distributed: Runscript, tasks: str, count: int) -> None:
    """Slurm's list of tasks per node is in the order of the node list, which is not always that of the tasks."""
    step = {**STEP, "SLURM_GTIDS": tasks, "SLURM_STEP_TASKS_PER_NODE": "9,8"}
    assert variables_of(distributed(**step))["LOCAL_WORLD_SIZE"] == str(count)


@pytest.mark.parametrize("job", ["1", "1234", "99999999", "4294967295", "0123"])
@pytest.mark.parametrize("step", ["0", "63", "4294967291"])
def test_the_port_is_below_the_ephemeral_range(distributed: Runscript, job: str, step: str) -> None:
    port = int(variables_of(distributed(**{**STEP, "SLURM_JOB_ID": job, "SLURM_STEP_ID": step}))["MASTER_PORT"])
    assert 20000 <= port < 32000


def test_two_steps_have_two_ports_and_all_tasks_of_one_the_same(distributed: Runscript) -> None:
    def port(**changes: str) -> str:
        return variables_of(distributed(**{**STEP, **changes}))["MASTER_PORT"]

    assert port() == port(SLURM_PROCID="0", SLURM_LOCALID="0", SLURM_NODEID="0")
    assert len({port(), port(SLURM_STEP_ID="4"), port(SLURM_JOB_ID="1235")}) == 3


@pytest.mark.parametrize("step", ["64", "127", "640"])
def test_no_step_of_a_job_has_the_port_of_another_job(distributed: Runscript, step: str) -> None:
    """There are as many blocks of ports as fit below the ephemeral range."""

    def port(job: int, step: str) -> str:
        return variables_of(distributed(**{**STEP, "SLURM_JOB_ID": str(job), "SLURM_STEP_ID": step}))["MASTER_PORT"]

    others = {port(job, other) for job in (1233, 1235, 1236, 1234 + 186) for other in ("0", "32", "63")}
    assert port(1234, step) not in others


def test_the_user_s_own_port_is_kept_and_what_happens_can_be_shown(distributed: Runscript) -> None:
    assert variables_of(distributed(**STEP, MASTER_PORT="29500"))["MASTER_PORT"] == "29500"
    done = distributed.run(**STEP, SIFMOD_VERBOSE="1")
    assert "rank 5 of 8 (local 1 of 4 on node 1), master nid001:" in done.stderr


def test_outside_of_slurm_it_is_one_process_of_one_and_a_batch_script_is_told_so(distributed: Runscript) -> None:
    done = distributed.run("x.py")
    variables = variables_of(done.stdout.split("\0"))
    assert (variables["RANK"], variables["WORLD_SIZE"], variables["MASTER_ADDR"]) == ("0", "1", "127.0.0.1")
    assert "this is a single process" in done.stderr
    # slurm sets the variables of a task in batch scripts too, but for those of a step
    done = distributed.run(**{name: value for name, value in STEP.items() if name != "SLURM_STEP_ID"})
    assert done.returncode == 1
    assert "put srun in front of the command" in done.stderr


@pytest.mark.parametrize(
    "name", ["SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_LOCALID", "SLURM_NODEID", "SLURM_JOB_ID", "SLURM_STEP_ID"]
)
@pytest.mark.parametrize("value", ["", "x", "a[$(touch y)]", "1;2", "-1"])
def test_a_variable_without_a_number_is_named(distributed: Runscript, tmp_path: Path, name: str, value: str) -> None:
    done = distributed.run(**{**STEP, name: value})
    assert done.returncode == 1
    assert f"{name} should be a number but is '{value}'" in done.stderr
    assert done.stdout == ""
    assert not list(tmp_path.rglob("y"))


JOB = {"SLURM_JOB_ID": "7", "SLURM_JOB_NODELIST": "nid[004-005]"}
BATCH = {**JOB, "SLURM_PROCID": "0", "SLURM_NTASKS": "4"}
ONE_TASK = {
    **BATCH,
    "SLURM_LOCALID": "0",
    "SLURM_NODEID": "0",
    "SLURM_GTIDS": "0",
    "SLURM_STEP_ID": "0",
    "SLURM_STEP_NUM_TASKS": "1",
}
TORCHRUN = {
    "RANK": "3",
    "WORLD_SIZE": "4",
    "LOCAL_RANK": "1",
    "LOCAL_WORLD_SIZE": "2",
    "GROUP_RANK": "1",
    "MASTER_ADDR": "a",
    "MASTER_PORT": "9",
}
HYDRA = {"PMI_RANK": "3", "PMI_SIZE": "4", "MPI_LOCALRANKID": "1", "MPI_LOCALNRANKS": "2"}
OPEN_MPI = {
    f"OMPI_COMM_WORLD_{name}": value for name, value in zip(("RANK", "SIZE", "LOCAL_RANK", "LOCAL_SIZE"), "3412")
}
PLACE = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "NODE_RANK", "MASTER_ADDR")


@pytest.mark.parametrize(
    ("given", "place"),
    [
        (TORCHRUN, "3 4 1 2 1 a"),
        ({**STEP, **TORCHRUN, **HYDRA}, "3 4 1 2 1 a"),
        ({**ONE_TASK, **HYDRA, "SLURM_NODEID": "1"}, "3 4 1 2 1 nid004"),
        ({**BATCH, **OPEN_MPI}, "3 4 1 2 1 nid004"),
        ({**OPEN_MPI, "OMPI_COMM_WORLD_LOCAL_SIZE": "4", "MASTER_PORT": "9"}, "3 4 1 4 0 127.0.0.1"),
        ({**STEP, "PMI_RANK": "5", "PMI_SIZE": "8"}, "5 8 1 4 1 nid001"),  # Slurm's own plugins
        ({**STEP, "PMIX_RANK": "5"}, "5 8 1 4 1 nid001"),
        ({**ONE_TASK, "PMIX_RANK": "0", "PMIX_NAMESPACE": "slurm.pmix.7.0"}, "0 1 0 1 0 nid004"),
        ({**STEP, "RANK": "0", "WORLD_SIZE": "1"}, "5 8 1 4 1 nid001"),  # left from an earlier start
        ({**STEP, **TORCHRUN, "RANK": "0", "WORLD_SIZE": "1", "TORCHELASTIC_RUN_ID": "x"}, "0 1 0 1 1 a"),
    ],
)
def test_the_starting_launcher_gives_the_rank(distributed: Runscript, given: dict[str, str], place: str) -> None:
    variables = variables_of(distributed(**given))
    assert " ".join(variables[name] for name in PLACE) == place


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({**ONE_TASK, "PMIX_RANK": "0"}, "start the ranks with srun"),
        ({"PMIX_RANK": "0"}, "start the ranks with srun"),
        (
            {**ONE_TASK, "PMI_RANK": "1", "PMI_SIZE": "4"},
            "MPI_LOCALRANKID and MPI_LOCALNRANKS are not: set them too, or start the ranks with srun",
        ),
        ({**HYDRA}, "MASTER_ADDR or MASTER_PORT is missing"),
        ({**OPEN_MPI, "MASTER_ADDR": "a"}, "MASTER_ADDR or MASTER_PORT is missing"),
        ({**HYDRA, "MPI_LOCALNRANKS": "0"}, "MPI_LOCALRANKID is '1', but should be less than MPI_LOCALNRANKS, '0'"),
        ({**HYDRA, "PMI_SIZE": "a[$(touch y)]"}, "PMI_SIZE should be a number"),
        ({**HYDRA, "MASTER_ADDR": "a", "SLURM_JOB_ID": "a[$(touch y)]"}, "SLURM_JOB_ID should be a number"),
    ],
)
def test_half_named_ranks(distributed: Runscript, tmp_path: Path, given: dict[str, str], message: str) -> None:
    done = distributed.run(**given)
    assert (done.returncode, done.stdout) == (1, "")
    assert message in done.stderr
    assert not list(tmp_path.rglob("y"))


@pytest.mark.parametrize(
    ("script", "lacking"),
    [("conda-python-distributed", "1 of the 4 tasks"), ("torchrun-distributed", "1 of the 2 nodes")],
)
def test_a_step_smaller_than_its_job(launcher: Callable[[str], Runscript], script: str, lacking: str) -> None:
    done = launcher(script).run(**ONE_TASK, SLURM_STEP_NUM_NODES="1", SLURM_NNODES="2")
    assert done.returncode == 0
    assert f"{script}: this step has {lacking} of the job: put srun in front" in done.stderr


@pytest.mark.parametrize("script", ["conda-python-distributed", "torchrun-distributed"])
@pytest.mark.parametrize("tasks", ["", "x", "4,", "4-7", "$(id)", "a[$(touch y)]"])
def test_a_wrong_list_of_tasks(launcher: Callable[[str], Runscript], tmp_path: Path, script: str, tasks: str) -> None:
    done = launcher(script).run(**{**STEP, "SLURM_GTIDS": tasks})
    assert done.returncode == 1
    assert f"SLURM_GTIDS should list the tasks of this node but is '{tasks}'" in done.stderr
    assert done.stdout == ""
    assert not list(tmp_path.rglob("y"))


# What Slurm granted (None: it manages no GPUs), how many GPUs the node has, what else Slurm says; what each task sees.
SHARES: dict[str, tuple[Optional[str], int, dict[str, str], list[Optional[str]]]] = {
    "as many tasks as GPUs": ("2,3,6,7", 8, {}, ["2", "3", "6", "7"]),
    "as many, named": ("GPU-a,GPU-b", 2, {}, ["GPU-a", "GPU-b"]),
    "fewer tasks": ("4,5,6,7", 8, {}, ["4,5", "6,7"]),
    "fewer tasks, with a rest": ("0,1,2,3", 4, {}, ["0", "1", "2"]),
    "a single task": ("4,5,6,7", 8, {}, ["4,5,6,7"]),
    "more tasks": ("4,5", 8, {}, ["4", "4", "5", "5"]),
    "more tasks, with a rest": ("4,5", 8, {}, ["4", "4", "5"]),
    "one GPU for all": ("3", 8, {}, ["3", "3"]),
    "to each task": ("4,5", 8, {"SLURM_GPUS_PER_TASK": "2"}, ["4,5"] * 2),
    "to each task, by a resource": ("4,5", 8, {"SLURM_TRES_PER_TASK": "cpu=2,gres/gpu=2"}, ["4,5"] * 2),
    "to each task, by their number": ("4", 8, {"SLURM_NTASKS_PER_GPU": "2"}, ["4"] * 2),
    "to each task, by binding": ("4", 8, {"SLURM_GPU_BIND": "map_gpu:4,5"}, ["4"] * 2),
    "to the node, without binding": ("4,5", 8, {"SLURM_GPU_BIND": "none"}, ["4", "5"]),
    "nothing, with GPUs": (None, 4, {}, ["0", "1", "2", "3"]),
    "nothing, with more GPUs": (None, 4, {}, ["0", "1"]),
    "nothing, with fewer GPUs": (None, 2, {}, ["0", "0", "1", "1"]),
    "nothing, a single task": (None, 4, {}, [None]),
    "nothing, without GPUs": (None, 0, {}, [None, None]),
    "an empty list": ("", 4, {}, ["", ""]),
    "none, in the words of old releases": ("NoDevFiles", 4, {}, ["NoDevFiles", "NoDevFiles"]),
    "MIG instances": ("MIG-a,MIG-b", 2, {}, ["MIG-a", "MIG-b"]),
    "more MIG instances": ("MIG-a,MIG-b,MIG-c,MIG-d", 2, {}, ["MIG-a,MIG-b", "MIG-c,MIG-d"]),
}
SHARED = ("more tasks", "more tasks, with a rest", "one GPU for all", "nothing, with fewer GPUs")
# unless SIFMOD_TASK_GPUS is own, each task sees what the node's tasks have
ALL = (
    "as many tasks as GPUs",
    "as many, named",
    "fewer tasks",
    "fewer tasks, with a rest",
    "to the node, without binding",
)


@pytest.mark.parametrize("mode", ["", "all", "own"])
@pytest.mark.parametrize("gpu", VISIBLE)
@pytest.mark.parametrize("case", SHARES)
def test_the_tasks_of_a_node_share_its_gpus(
    distributed: Runscript, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, gpu: str, case: str, mode: str
) -> None:
    granted, there, more, expected = SHARES[case]
    if mode != "own" and (case in ALL or (granted is None and there >= len(expected))):
        expected = [granted] * len(expected)
    stand_in = replace(VENDORS[gpu], gpus=f"{tmp_path}/gpu[0-9]*")
    monkeypatch.setattr("sifmod.container.spec.VENDORS", {gpu: stand_in})
    for number in range(there):
        (tmp_path / f"gpu{number}").touch()
    tasks = len(expected)
    step = {**STEP, **more, "SLURM_STEP_NUM_TASKS": str(tasks), "SLURM_GTIDS": ",".join(map(str, range(tasks)))}
    step["SIFMOD_TASK_GPUS"] = mode
    if granted is not None:
        step[VISIBLE[gpu]] = granted
    seen, said = [], ""
    for rank in range(tasks):
        done = distributed.run(gpu=gpu, **{**step, "SLURM_PROCID": str(rank), "SLURM_LOCALID": str(rank)})
        assert done.returncode == 0, done.stderr
        seen.append(variables_of(done.stdout.split("\0")).get(VISIBLE[gpu]))
        said += done.stderr
    assert seen == expected
    assert said.count("tasks share them") == (case in SHARED)
    fewer = any(gpus and gpus != "NoDevFiles" and gpus.count(",") + 1 < tasks for gpus in expected)
    assert said.count("GPU numbers begin at 0 in each task") == fewer
    assert said.count("a task has 2 MIG instances, but a process uses one") == (case == "more MIG instances")


AMD = ["ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES", "GPU_DEVICE_ORDINAL"]


@pytest.mark.parametrize("script", ["conda-python-distributed", "torchrun-distributed"])
@pytest.mark.parametrize(
    ("granted", "seen"),
    [
        (["4,5", None, None, None], ["4,5", "0,1", None, None]),
        (["4,5", "4,5", "4,5", "4,5"], ["4,5", "0,1", None, None]),
        (["4,5,6", "2,0", None, None], ["6,4", "0,1", None, None]),  # the user's choice
        (["6", "0", None, None], ["6", "0", None, None]),
        ([None, "2,3", "7", None], ["2,3", "0,1", None, None]),
        ([None, None, "1", "1"], ["1", "0", None, None]),
        ([None, None, None, None], [None, None, None, None]),
        (["4,5", "2", None, None], None),
        (["4,5", "a[$(touch y)]", None, None], None),
    ],
)
def test_variables_that_select_gpus_agree(
    launcher: Callable[[str], Runscript],
    tmp_path: Path,
    script: str,
    granted: list[Optional[str]],
    seen: Optional[list[Optional[str]]],
) -> None:
    """ROCm applies them one after the other, and frameworks refuse lists that differ (Ray 2.45 and later)."""
    values = {name: value for name, value in zip(AMD, granted) if value is not None}
    done = launcher(script).run(gpu="amd", **{**STEP, "SLURM_GTIDS": "5", "SLURM_NNODES": "2", **values})
    if seen is None:
        assert (done.returncode, done.stdout) == (1, "")
        assert "write places in ROCR_VISIBLE_DEVICES, '4,5', counted from 0" in done.stderr
    else:
        variables = variables_of(done.stdout.split("\0"))
        assert [variables.get(name) for name in AMD] == seen
    assert not list(tmp_path.rglob("y"))


def test_an_unknown_way_to_share_gpus_is_refused(distributed: Runscript) -> None:
    done = distributed.run(gpu="nvidia", **STEP, SIFMOD_TASK_GPUS="mine")
    assert (done.returncode, done.stdout) == (1, "")
    assert "SIFMOD_TASK_GPUS is 'mine': set it to 'all'" in done.stderr


def test_torchrun_refuses_several_mig_instances(torchrun: Runscript) -> None:
    step = {**STEP, "SLURM_GTIDS": "5", "SLURM_STEP_NUM_NODES": "2"}
    done = torchrun.run("x.py", gpu="nvidia", **step, CUDA_VISIBLE_DEVICES="MIG-a,MIG-b")
    assert (done.returncode, done.stdout) == (1, "")
    assert "this task has 2: start one task for each, with conda-python-distributed" in done.stderr
    assert "--nproc_per_node=1" in torchrun("x.py", gpu="nvidia", **step, CUDA_VISIBLE_DEVICES="MIG-a")


def test_the_cache_of_an_amd_gpu_is_the_job_s_own_and_private(distributed: Runscript, tmp_path: Path) -> None:
    variables = variables_of(distributed(gpu="amd", **STEP))
    cache = Path(variables["MIOPEN_USER_DB_PATH"])
    assert cache.parent == tmp_path
    assert "1234" in cache.name
    assert stat.S_IMODE(cache.stat().st_mode) == 0o700
    assert variables["MIOPEN_CUSTOM_CACHE_DIR"] == str(cache)


@pytest.mark.parametrize("script", ["conda-python-distributed", "torchrun-distributed"])
@pytest.mark.parametrize("gpu", VISIBLE)
@pytest.mark.parametrize("asked", ["SLURM_GPUS", "SLURM_GPUS_PER_NODE", "SLURM_GPUS_PER_TASK"])
@pytest.mark.parametrize("granted", ["", "NoDevFiles"])
def test_gpus_that_were_asked_for_and_not_granted_are_missed(
    launcher: Callable[[str], Runscript], script: str, gpu: str, asked: str, granted: str
) -> None:
    step = {**STEP, "SLURM_GTIDS": "5", "SLURM_NNODES": "2"}
    done = launcher(script).run("x.py", gpu=gpu, **step, **{asked: "mi250:8", VISIBLE[gpu]: granted})
    assert done.returncode == 1
    assert done.stdout == ""
    assert f"asked for GPUs, but Slurm granted none to this task ({VISIBLE[gpu]} is '{granted}')" in done.stderr


@pytest.mark.parametrize("asked", [{}, {"SLURM_GPUS_PER_NODE": "0"}])
def test_a_job_that_asked_for_no_gpu_misses_none(distributed: Runscript, asked: dict[str, str]) -> None:
    distributed("x.py", gpu="amd", **STEP, **asked, ROCR_VISIBLE_DEVICES="")


def test_the_cache_outside_of_slurm_is_one_for_all_runs(distributed: Runscript, tmp_path: Path) -> None:
    for _ in range(2):
        done = distributed.run("x.py", gpu="amd")
        assert f"TRITON_CACHE_DIR={tmp_path}/sifmod-{os.getuid()}\0" in done.stdout
    assert len(list(tmp_path.glob("sifmod-*"))) == 1


@pytest.mark.parametrize("target", ["folder", "/usr"])
def test_a_cache_folder_that_is_a_link_is_not_used(distributed: Runscript, tmp_path: Path, target: str) -> None:
    guessed = tmp_path / f"sifmod-{os.getuid()}-1234"
    (tmp_path / "folder").mkdir(mode=0o700)
    guessed.symlink_to(target)
    done = distributed.run("x.py", gpu="amd", **STEP)
    assert done.returncode == 0, done.stderr
    cache = Path(variables_of(done.stdout.split("\0"))["TRITON_CACHE_DIR"])
    assert cache.parent == tmp_path
    assert re.fullmatch(rf"{guessed.name}\.\d+", cache.name)
    assert stat.S_IMODE(cache.stat().st_mode) == 0o700
    assert f"'{guessed}' is a link that is not followed: name the folder itself; caches are in '{cache}'" in done.stderr


MOUNT = 'mount -t tmpfs -o "$1" x "$2" || exit 99; exec bash "$3" x.py'


@pytest.mark.parametrize(
    ("option", "own", "task"),
    [("noexec", {}, "0"), ("noexec", {}, "1"), ("nodev", {}, "0"), ("noexec", {"TRITON_CACHE_DIR": "/mine"}, "0")],
)
def test_a_tmpdir_noexec(distributed: Runscript, tmp_path: Path, option: str, own: dict[str, str], task: str) -> None:
    distributed.run(gpu="nvidia", **STEP)
    place, home = tmp_path / "a place", tmp_path / "home"
    for folder in (place, home):
        folder.mkdir(mode=0o700)
    (tmp_path / "link").symlink_to(place)
    environ = {**STEP, **own, "TMPDIR": f"{tmp_path}/link", "HOME": str(home), "SLURM_LOCALID": task}
    words = map(str, (option, place, distributed.folder / distributed.name))
    done = ran(["unshare", "-Urm", "bash", "-c", MOUNT, "sh", *words], env={"PATH": "/usr/bin:/bin", **environ})
    if done.returncode == 99 or "unshare:" in done.stderr:
        pytest.skip(f"no file system can be mounted in a user namespace here: {done.stderr}")
    variables = variables_of(done.stdout.split("\0"))
    node, kept = variables["CUDA_CACHE_PATH"], f"{home}/.cache/sifmod"
    assert node.startswith(f"{place}/")
    is_moved = option == "noexec"
    assert {name: variables[f"{name}_CACHE_DIR"] for name in ("TRITON", "TORCHINDUCTOR")} == {
        "TRITON": own.get("TRITON_CACHE_DIR", f"{kept}/triton" if is_moved else node),
        "TORCHINDUCTOR": f"{kept}/torchinductor" if is_moved else node,
    }
    assert done.stderr.count("mounted without exec, so compiled code is kept below") == (is_moved and task == "0")
    if is_moved:
        assert stat.S_IMODE(Path(kept).stat().st_mode) == 0o700


@pytest.mark.parametrize("task", ["0", "1"])
@pytest.mark.parametrize(
    ("mode", "problem"), [(0o775, site_cache.SHARED), (0o777, site_cache.SHARED), (0o500, site_cache.UNUSABLE)]
)
def test_an_open_tmpdir_has_none(distributed: Runscript, tmp_path: Path, task: str, mode: int, problem: str) -> None:
    place = tmp_path / "tmp"
    place.mkdir()
    place.chmod(mode)
    done = distributed.run("x.py", gpu="amd", **{**STEP, "TMPDIR": str(place), "SLURM_LOCALID": task})
    assert done.returncode == 0, done.stderr
    assert "TRITON_CACHE_DIR" not in variables_of(done.stdout.split("\0"))
    assert done.stderr.count("\n") == (task == "0")
    assert (problem in done.stderr) == (task == "0")
    assert list(place.iterdir()) == []


# Another user alternates a folder of hers and a link to a folder of the user's under the name that can be guessed.
ALTERNATE = """import ctypes, os, sys
guessed, hers, link, stop = sys.argv[1:]
os.setgid(1), os.setuid(1)
os.mkdir(guessed), os.symlink(link, hers)
print("ready", flush=True)
exchange = ctypes.CDLL(None).renameat2
while not os.path.exists(stop):
    exchange(-100, guessed.encode(), -100, hers.encode(), 2)
"""
CALLS = """source "$1/values.sh"; source "$1/slurm.sh"
for call in {1..200}; do
    unset "${sifmod_node_caches[@]}"
    use_node_cache 1234 2>/dev/null
    printf '%s\\n' "$TRITON_CACHE_DIR"
done
"""


def test_another_user_who_alternates_folders_never_gets_the_caches(distributed: Runscript, tmp_path: Path) -> None:
    distributed.run(gpu="amd", **STEP)
    place = Path(tempfile.mkdtemp(dir="/tmp"))
    guessed, hers, own = place / f"sifmod-{os.getuid()}-1234", place / "hers", tmp_path / "own"
    place.chmod(0o1777)
    own.mkdir()
    attack = [*AS_ANOTHER, sys.executable, "-c", ALTERNATE, *map(str, (guessed, hers, own, place / "stop"))]
    try:
        with subprocess.Popen(attack, stdout=subprocess.PIPE) as attacker:
            if not attacker.stdout or attacker.stdout.readline() != b"ready\n":
                pytest.skip("this user has no other user's number: see /etc/subuid")
            done = ran(["bash", "-c", CALLS, "sh", distributed.folder], env={**os.environ, "TMPDIR": str(place)})
            (place / "stop").touch()
    finally:
        subprocess.run([*AS_ANOTHER, "rm", "-rf", place], check=True)
    assert done.stdout.count(f"{guessed}.") == 200
    assert done.stdout.count(f"{guessed}\n") == 0
