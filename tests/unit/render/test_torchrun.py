"""The runscript torchrun-distributed, with an interpreter that prints what it gets."""

from pathlib import Path

import pytest

from sifmod.inside.installers import AS_MODULE

from .running import STEP, Runscript

TORCHRUN_STEP = {**STEP, "SLURM_PROCID": "1", "SLURM_GTIDS": "1", "SLURM_STEP_NUM_NODES": "2"}


def test_torchrun_is_told_the_nodes_of_the_step_and_the_gpus_granted(torchrun: Runscript) -> None:
    words = torchrun("--nproc-per-node=9", "a b.py", gpu="amd", **TORCHRUN_STEP, ROCR_VISIBLE_DEVICES="4,6")
    arguments = ["--nnodes=2", "--node_rank=1", "--master_addr=nid001"]
    assert words[:6] == ["-c", AS_MODULE, "torch.distributed.run", *arguments]
    assert words[6].startswith("--master_port=")
    assert words[7:10] == ["--nproc_per_node=2", "--nproc-per-node=9", "a b.py"]


def test_torchrun_counts_the_gpus_of_the_node_where_no_list_says_them(torchrun: Runscript) -> None:
    assert "--nproc_per_node=4" in torchrun("x.py", **TORCHRUN_STEP, SLURM_GPUS_ON_NODE="4")
    assert "--nproc_per_node=1" in torchrun("x.py", **TORCHRUN_STEP, SLURM_GPUS_ON_NODE="a[$(touch y)]")


@pytest.mark.parametrize("name", ["SLURM_PROCID", "SLURM_STEP_NUM_NODES", "SLURM_JOB_ID", "SLURM_STEP_ID"])
@pytest.mark.parametrize("value", ["", "a[$(touch y)]", "`touch y`"])
def test_torchrun_never_evaluates_a_variable(torchrun: Runscript, tmp_path: Path, name: str, value: str) -> None:
    done = torchrun.run("x.py", **{**TORCHRUN_STEP, name: value})
    assert done.returncode == 1
    assert f"{name} should be a number but is '{value}'" in done.stderr
    assert done.stdout == ""
    assert not list(tmp_path.rglob("y"))


def test_the_node_of_task_0_is_node_0_whatever_slurm_calls_it(torchrun: Runscript) -> None:
    """torchrun listens on the master as node 0, and task 0 may run on any node with `--distribution=arbitrary`."""
    words = torchrun("x.py", **{**TORCHRUN_STEP, "SLURM_PROCID": "0", "SLURM_GTIDS": "0", "SLURM_NODEID": "1"})
    assert "--node_rank=0" in words


def test_several_tasks_on_a_node_are_refused(torchrun: Runscript) -> None:
    done = torchrun.run("x.py", **{**TORCHRUN_STEP, "SLURM_GTIDS": "1,3"})
    assert (done.returncode, done.stdout) == (1, "")
    assert "this node has 2 tasks, but torchrun needs exactly one" in done.stderr
