"""The runscript get-master, which reads Slurm's node lists and finds rank 0."""

import os
from pathlib import Path
from typing import Optional

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tests.programs import ran

from ..support import Need, a_site, a_spec
from .cases import text_of
from .running import GetMaster, put_runscript

NODE_LISTS = [
    ("nid[001,003-005]", "nid001"),
    ("a[1-2],b3", "a1"),
    ("nid[001-002]-ib", "nid001-ib"),
    ("rack[1-2]n[01-04]", "rack1n01"),
    ("rack[1-2]n[01-04],b7-ib", "rack1n01"),
    ("x1000c[0-1]s0b0n0", "x1000c0s0b0n0"),
    ("nid001", "nid001"),
    ("nid001,nid[002-004]", "nid001"),
    ("node-1.cluster.example", "node-1.cluster.example"),
    ("n[10-12,7]", "n10"),
    ("[1-4]", "1"),
    ("gpu_a[007]", "gpu_a007"),
    ("n[1,3]-ib,m7", "n1-ib"),
]


@pytest.mark.parametrize(("nodelist", "first"), NODE_LISTS)
def test_the_master_is_the_first_node_of_the_list(get_master: GetMaster, nodelist: str, first: str) -> None:
    done = get_master(nodelist)
    assert (done.returncode, done.stdout, done.stderr) == (0, f"{first}\n", "")


HOSTILE = [
    "$(touch x)",
    "`touch x`",
    "nid[",
    "[]",
    "nid[]",
    "nid]",
    "a b",
    "'",
    '"',
    "a[$(touch x)]",
    "a;touch x",
    "-n[",
    "é",
]


@pytest.mark.parametrize(
    "nodelist", [*HOSTILE, "nid[a-b]", "nid[001", "nid[-3]", "*", "a\nb", "~", "\\", ",", "a,", "a,,b", "a,$(touch x)"]
)
def test_a_bad_list_is_refused(get_master: GetMaster, tmp_path_factory: pytest.TempPathFactory, nodelist: str) -> None:
    done = get_master(nodelist)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("get-master: ")
    assert nodelist in done.stderr
    assert not list(tmp_path_factory.getbasetemp().glob("runscripts*/x"))


@pytest.mark.parametrize("words", [[], [""]])
def test_no_node_list_is_refused_with_the_remedy(get_master: GetMaster, words: list[str]) -> None:
    done = get_master(*words)
    assert (done.returncode, done.stdout) == (1, "")
    assert "pass one as argument, or run this in a Slurm step" in done.stderr


def test_the_step_s_node_list_beats_the_job_s(get_master: GetMaster) -> None:
    job = {"SLURM_JOB_NODELIST": "job[1-4]", "SLURM_NODELIST": "old[1-4]"}
    assert get_master(**job, SLURM_STEP_NODELIST="step[3-4]").stdout == "step3\n"
    assert get_master(**job).stdout == "job1\n"
    assert get_master(SLURM_NODELIST="old[1-4]").stdout == "old1\n"
    assert get_master("argument", **job).stdout == "argument\n"
    step = {"SLURM_STEP_NODELIST": "nid[001-004]", "SLURM_GTIDS": "0", "SLURMD_NODENAME": "nid004"}
    assert get_master("nid[002-003]", **step).stdout == "nid002\n"


def test_the_site_s_suffix_is_appended_to_the_master(tmp_path: Path) -> None:
    path = tmp_path / "get-master"
    site = a_site(master_suffix="-hsn0 'q'$x")
    put_runscript(path, text_of("runscripts/get-master", a_spec(), site))
    put_runscript(path.with_name("values.sh"), text_of("runscripts/values.sh", a_spec(), site))
    done = ran(["bash", path, "nid[001-002]"], check=True)
    assert done.stdout == "nid001-hsn0 'q'$x\n"


@st.composite
def node_lists(draw: st.DrawFn) -> str:
    """Write node lists as Slurm 22.05 accepts them: names, and names with up to three groups of brackets at the end."""
    letters = st.text("abcdefgnrx-_", min_size=0, max_size=4)

    def element() -> str:
        text = draw(st.sampled_from("abcnrx")) + draw(letters)
        groups = draw(st.integers(0, 3))
        for index in range(groups):
            width = draw(st.integers(1, 4))
            ranges = []
            for _ in range(draw(st.integers(1, 3))):
                low = draw(st.integers(0, 99))
                high = low + draw(st.integers(0, 2))
                ranges.append(f"{low:0{width}}" if high == low else f"{low:0{width}}-{high:0{width}}")
            text += f"[{','.join(ranges)}]"
            if index + 1 < groups:
                text += draw(st.sampled_from("abcnrx")) + draw(letters)
        if not groups:
            text += draw(st.sampled_from(["", "1", "007", "1n2", "1-ib", "12.local"]))
        return text

    return ",".join(element() for _ in range(draw(st.integers(1, 3))))


@pytest.mark.integration
@settings(max_examples=150)
@given(nodelist=node_lists())
@example(nodelist="nid[001,003-005]")
@example(nodelist="rack[1-2]n[01-04],b7-ib")
@example(nodelist="r[1-2]s[08-11]n[001,005]")
def test_the_master_is_the_first_node_that_scontrol_shows(get_master: GetMaster, need: Need, nodelist: str) -> None:
    if not os.environ.get("SLURM_CONF"):
        pytest.skip("SLURM_CONF is not set")
    shown = ran([need("scontrol"), "show", "hostnames", nodelist], check=True).stdout.splitlines()
    assert get_master(nodelist).stdout.splitlines() == shown[:1]


@pytest.mark.parametrize("variable", ["SLURM_STEP_NODELIST", "SLURM_JOB_NODELIST"])
def test_an_empty_node_list_of_slurm_is_refused(get_master: GetMaster, variable: str) -> None:
    done = get_master(**{"SLURM_JOB_NODELIST": "job[1-2]", variable: ""})
    assert done.returncode == 1
    assert done.stdout == ""
    assert "no node list" in done.stderr


# The nodes of a step in the order of their tasks, Slurm's list of them, and the master: None if it can't be known.
STEPS: dict[str, tuple[list[str], str, Optional[str]]] = {
    "one node": (["nid003"], "nid003", "nid003"),
    "in order": (["nid001", "nid002", "nid003"], "nid[001-003]", "nid001"),
    "round robin": (["nid001", "nid002", "nid001", "nid002"], "nid[001-002]", "nid001"),
    "two nodes, the last first": (["nid003", "nid001", "nid001"], "nid[001,003]", "nid003"),
    "two nodes, named apart": (["b7-ib", "a1", "b7-ib"], "a1,b7-ib", "b7-ib"),
    "two nodes, two groups": (["rack2n04", "rack1n04"], "rack[1-2]n[04]", "rack2n04"),
    "first, then in any order": (["nid001", "nid004", "nid002"], "nid[001-002,004]", "nid001"),
    "three nodes, another first": (["nid004", "nid002", "nid001"], "nid[001-002,004]", None),
    "four nodes, another first": (["nid002", "nid001", "nid003", "nid004"], "nid[001-004]", None),
}


@pytest.mark.parametrize("case", STEPS)
def test_the_master_of_a_step_is_the_node_of_rank_0_or_rank_0_fails(get_master: GetMaster, case: str) -> None:
    nodes, nodelist, master = STEPS[case]
    for rank, node in enumerate(nodes):
        done = get_master(
            SLURM_STEP_NODELIST=nodelist,
            SLURM_STEP_NUM_NODES=str(len(set(nodes))),
            SLURM_GTIDS=",".join(str(other) for other, its in enumerate(nodes) if its == node),
            SLURMD_NODENAME=node,
        )
        if master:
            assert (done.returncode, done.stdout, done.stderr) == (0, f"{master}\n", "")
        elif rank == 0:
            assert (done.returncode, done.stdout) == (1, "")
            assert f"run 'export MASTER_ADDR={node}' before srun" in done.stderr
