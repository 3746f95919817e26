"""mpi-check without MPI: what it concludes, and that nothing hangs; tests/integration/test_mpi.py uses libraries."""

import ctypes
import json
import os
import select
import signal
import time
from collections.abc import Callable
from typing import Any

import pytest

from sifmod import names
from sifmod.inside import mpi_check
from sifmod.inside.mpi_check import BROKEN, MPICH, OPEN_MPI, UNUSABLE, WORKS, Watched

NAMESPACE = "         0       1001          1\n"
NO_NAMESPACE = "         0          0 4294967295\n"
STEP = {"SLURM_STEP_ID": "0", "SLURM_PROCID": "1", "SLURM_STEP_NUM_TASKS": "4"}

# As MPICH 5.0.2 and UCX print them in unprivileged containers.
CMA = "copy_iovs(224)........................: process_vm_readv failed (errno 1)"
POSIX = "mm_posix.c:238  UCX  ERROR   open(file_name=/proc/27625/fd/17 flags=0x0) failed: Permission denied"
UCX_CMA = "cma_ep.c:95   process_vm_readv(pid=1 {0x1,1}-->{0x2,1}) returned -1: Operation not permitted"


def test_it_has_the_names_of_the_installation() -> None:
    assert names.USER_SOFTWARE == mpi_check.USER_SOFTWARE


@pytest.mark.parametrize(
    ("environ", "tasks", "task"),
    [
        ({}, 1, 0),
        (STEP, 4, 1),
        ({"SLURM_STEP_ID": "0", "SLURM_PROCID": "3", "SLURM_NTASKS": "8"}, 8, 3),
        ({"SLURM_NTASKS": "8"}, 1, 0),  # in a job script, without srun
        ({"PMI_RANK": "2", "PMI_SIZE": "3"}, 3, 2),
        ({"SLURM_STEP_NUM_TASKS": "a[$(id)]", "SLURM_PROCID": "-1"}, 1, 0),
    ],
)
def test_slurm_and_hydra_say_how_many_tasks_there_are(environ: dict[str, str], tasks: int, task: int) -> None:
    assert mpi_check.tasks_of(environ) == tasks
    assert mpi_check.task_of(environ) == task


def test_ranks_that_are_alone_are_told_how_to_start() -> None:
    assert mpi_check.why_ranks_are_alone(4, STEP, MPICH) == ""
    assert mpi_check.why_ranks_are_alone(1, {}, MPICH) == ""
    said = mpi_check.why_ranks_are_alone(1, STEP, MPICH)
    assert said.startswith("4 tasks were started, but MPI sees 1 rank in each: they were started without PMI")
    assert "srun --mpi=pmi2" in said
    said = mpi_check.why_ranks_are_alone(1, {**STEP, "PMI_FD": "9"}, OPEN_MPI)
    assert said.endswith("the library does not understand PMI-1 or PMI-2. Use srun --mpi=pmix")


@pytest.mark.parametrize(
    ("output", "abi", "remedy"),
    [
        (CMA, MPICH, "Set UCX_POSIX_USE_PROC_LINK=n and MPIR_CVAR_CH4_CMA_ENABLE=0"),
        (POSIX, MPICH, "Set UCX_POSIX_USE_PROC_LINK=n and MPIR_CVAR_CH4_CMA_ENABLE=0"),
        (UCX_CMA, MPICH, "UCX_TLS=^cma"),
        (POSIX, OPEN_MPI, "OMPI_MCA_btl_vader_single_copy_mechanism=none"),
    ],
)
def test_what_the_library_prints_is_recognised(output: str, abi: str, remedy: str) -> None:
    (said,) = mpi_check.advice(output, {**STEP, "PMI_FD": "9"}, NAMESPACE, abi)
    assert "a user namespace of its own" in said
    assert remedy in said


def test_what_is_unset_explains_a_hang_and_what_is_set_is_not_advised_again() -> None:
    (said,) = mpi_check.advice("", {**STEP, "PMI_FD": "9"}, NAMESPACE, MPICH)
    assert "shared memory may fail. Set UCX_POSIX_USE_PROC_LINK=n and MPIR_CVAR_CH4_CMA_ENABLE=0" in said
    assert mpi_check.advice("", {**STEP, "PMI_FD": "9"}, NO_NAMESPACE, MPICH) == []
    (said,) = mpi_check.advice("", STEP, NO_NAMESPACE, MPICH)
    assert said.startswith("the tasks were started without PMI")
    environ = {**STEP, "PMI_FD": "9", "UCX_POSIX_USE_PROC_LINK": "n"}
    (said,) = mpi_check.advice(CMA, environ, NAMESPACE, MPICH)
    assert said.endswith("Set MPIR_CVAR_CH4_CMA_ENABLE=0")
    environ["MPIR_CVAR_CH4_CMA_ENABLE"] = "0"
    assert mpi_check.advice("", environ, NAMESPACE, MPICH) == []


@pytest.mark.parametrize(
    ("text", "version", "device"),
    [
        (
            "MPICH Version:      5.0.2\nMPICH ABI:          18:2:6\nMPICH Device:       ch4:ucx ofi\n",
            "MPICH 5.0.2",
            "ch4:ucx ofi",
        ),
        ("MPICH Version:\t4.0.2\nMPICH Device:\tch4:ucx\n", "MPICH 4.0.2", "ch4:ucx"),
        ("Open MPI v5.0.11, package: Open MPI root@x, ident: 5.0.11", "Open MPI 5.0.11", ""),
        ("MPI VERSION    : CRAY MPICH version 8.1.29.26 (ANL base 3.4a2)\n", "CRAY MPICH version 8.1.29.26", ""),
        ("Intel(R) MPI Library 2021.11 for Linux* OS\n", "Intel(R) MPI Library 2021.11", ""),
        ("something else\nmore", "something else", ""),
    ],
)
def test_libraries_say_what_they_are(text: str, version: str, device: str) -> None:
    assert mpi_check.version_of(text) == (version, device)


MOUNTS = [
    "1 0 0:1 / / ro,nosuid - overlay overlay ro",
    "2 1 0:2 / /user-software ro - squashfs squashfuse ro",
    "3 1 0:3 /x /host/mpi\\040lib/libmpi.so.12 ro - ext4 /dev/vda ro",
    "malformed",
]


@pytest.mark.parametrize(
    ("path", "origin"),
    [
        ("/usr/lib/libmpi.so.12", "image"),
        ("/user-software/venv/demo/lib/libmpi.so.12", "user software"),
        ("/host/mpi lib/libmpi.so.12", "host"),
        ("/host/mpi lib/libmpi.so.120", "image"),
    ],
)
def test_the_mount_says_whose_a_library_is(path: str, origin: str) -> None:
    assert mpi_check.origin_of(path, MOUNTS) == origin


def test_a_library_is_chosen_as_mpi4py_does_and_a_missing_one_is_named() -> None:
    assert mpi_check.candidates("/a", {"MPI4PY_LIBMPI": "/b"}) == ["/a"]
    assert mpi_check.candidates("", {"MPI4PY_LIBMPI": "/b"}) == ["/b"]
    assert mpi_check.candidates("", {})[:2] == ["libmpi.so.12", "libmpi.so.40"]
    with pytest.raises(mpi_check.UnusableError, match=r"can't be loaded: /nowhere/libmpi\.so"):
        mpi_check.load("/nowhere/libmpi.so", {})


Rank = Callable[[str, Any], None]


def watched(monkeypatch: pytest.MonkeyPatch, rank: Rank, seconds: float = 30) -> Watched:
    monkeypatch.setattr(mpi_check, "rank_of_mpi", rank)
    found = Watched("")
    select.select([found._told], [], [], 240)  # a busy machine starts it late
    found.watch(seconds)
    return found


def test_what_a_rank_tells_arrives(monkeypatch: pytest.MonkeyPatch) -> None:
    def rank(_library: str, tell: Any) -> None:
        tell({"stage": "MPI_Init"})
        tell({"done": True})

    found = watched(monkeypatch, rank)
    assert mpi_check.outcome(found, 30, {}) == (WORKS, "", [])


@pytest.mark.parametrize("library", [ctypes.CDLL, ctypes.PyDLL], ids=["free", "with Python's lock"])
def test_a_rank_that_hangs_in_c_is_ended_at_the_time_limit(monkeypatch: pytest.MonkeyPatch, library: Any) -> None:
    def rank(_library: str, tell: Any) -> None:
        tell({"stage": "MPI_Init", "abi": MPICH})
        library(None).sleep(600)

    begun = time.monotonic()
    found = watched(monkeypatch, rank, 0.5)
    assert time.monotonic() - begun < 240
    status, problem, _ = mpi_check.outcome(found, 0.5, {})
    assert (status, problem) == (BROKEN, "no answer within 0.5 seconds; it hangs in: MPI_Init")


def test_a_rank_its_library_ends_is_told(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    def rank(_library: str, tell: Any) -> None:
        tell({"stage": "MPI_Init", "abi": MPICH})
        mpi_check.write_all(2, CMA.encode() + b"\n")
        os.kill(os.getpid(), signal.SIGKILL)

    found = watched(monkeypatch, rank)
    status, problem, hints = mpi_check.outcome(found, 30, STEP)
    assert (status, problem) == (BROKEN, "MPI was ended by signal 9 in: MPI_Init")
    assert hints[0].startswith("a rank may not read the memory of another rank")
    assert CMA in capfd.readouterr().err  # passed on


@pytest.mark.parametrize(
    ("mpi", "device", "stage", "is_known"),
    [
        ("MPICH 4.0.2", "ch4:ucx", "MPI_Finalize", True),
        ("MPICH 4.2.0", "ch4:ucx", "MPI_Finalize", False),
        ("MPICH 4.0.2", "ch4:ofi", "MPI_Finalize", False),
        ("MPICH 4.0.2", "ch4:ucx", "MPI_Init", False),
        ("Open MPI 4.1.4", "", "MPI_Finalize", False),
    ],
)
def test_a_hang_of_mpich(monkeypatch: pytest.MonkeyPatch, mpi: str, device: str, stage: str, is_known: bool) -> None:
    def rank(_library: str, tell: Any) -> None:
        tell({"stage": stage, "abi": MPICH, "mpi": mpi, "device": device})
        ctypes.CDLL(None).sleep(600)

    _status, problem, hints = mpi_check.outcome(watched(monkeypatch, rank, 0.5), 0.5, STEP)
    assert problem.endswith(f"it hangs in: {stage}")
    assert ("also without a container" in " ".join(hints)) is is_known


@pytest.mark.parametrize(
    ("error", "status"), [(mpi_check.UnusableError("no MPI"), UNUSABLE), (ValueError("other data"), BROKEN)]
)
def test_an_error_of_a_rank_is_a_sentence(monkeypatch: pytest.MonkeyPatch, error: Exception, status: int) -> None:
    def rank(_library: str, _tell: Any) -> None:
        raise error

    assert mpi_check.outcome(watched(monkeypatch, rank), 30, {}) == (status, str(error), [])


class Pair:
    """The other rank of a ping-pong, which may damage what it receives."""

    def __init__(self, *, damages: bool = False) -> None:
        self.rank, self.size = 0, 2
        self.damages = damages
        self.data = b""

    def barrier(self) -> None:
        pass

    def send(self, data: Any, _other: int) -> None:
        self.data = b"\xff" + data.raw[1:] if self.damages else data.raw

    def receive(self, data: Any, _other: int) -> None:
        data.raw = self.data


def test_a_ping_pong_measures_and_compares() -> None:
    told: list[dict[str, Any]] = []
    found = mpi_check.ping_pong(Pair(), told.append)
    assert found["neighbour"] == 1
    assert found["latency_us"] > 0
    assert found["bandwidth_MBs"] > 0
    assert told == [{"stage": "exchanging messages with rank 1"}]
    with pytest.raises(ValueError, match="other data"):
        mpi_check.ping_pong(Pair(damages=True), told.append)


REPORT: dict[str, Any] = {
    "mpi": "MPICH 5.0.2",
    "abi": MPICH,
    "library": "/host/libmpi.so.12",
    "origin": "host",
    "device": "ch4:ucx",
    "loaded": ["libucp"],
    "settings": {"UCX_TLS": "^cma"},
    "started_by": "PMI-1 or PMI-2",
    "ranks": [
        {"rank": 0, "host": "nid001", "neighbour": 1, "latency_us": 0.5, "bandwidth_MBs": 9000.0},
        {"rank": 1, "host": "nid002"},
    ],
}


@pytest.mark.parametrize("as_json", [False, True])
def test_task_0_reports(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], as_json: bool) -> None:
    def rank(_library: str, tell: Any) -> None:
        tell({"stage": "MPI_Finalize", **REPORT})
        tell({"done": True})

    monkeypatch.setattr(mpi_check, "rank_of_mpi", rank)
    assert mpi_check.main(["--json"] if as_json else []) == WORKS
    printed = capsys.readouterr().out
    if as_json:
        assert json.loads(printed) == {**REPORT, "works": True, "problem": "", "advice": []}
    else:
        assert "/host/libmpi.so.12, the host's" in printed
        assert "ch4:ucx; libucp; UCX_TLS=^cma" in printed
        assert printed.splitlines()[-2].split() == ["0", "nid001", "1", "0.50", "us", "9000.0", "MB/s"]


@pytest.mark.parametrize("limit", ["0", "-1", "inf", "nan", "soon"])
def test_a_wrong_time_limit_is_refused(limit: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        mpi_check.main(["--time-limit", limit])
    assert ended.value.code == UNUSABLE
    assert "--time-limit" in capsys.readouterr().err
