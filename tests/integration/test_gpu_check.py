"""The script for a machine with a card, without one: all that it does before the driver, and then with a stand-in."""

import os
import re
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest
from tests.lacking import lacking
from tests.programs import ran, write_program
from tests.standins_gpu import A100, GEFORCE, write_cuda, write_driver

from conftest import ROOT

Done = subprocess.CompletedProcess[str]


@pytest.fixture(scope="module")
def packed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return what was packed, in a folder to which it was moved."""
    top = tmp_path_factory.mktemp("gpu")
    # quicker, and what it packs is larger
    done = call(ROOT / "testbed/gpu-check", "pack", str(top / "first"), path=os.environ["PATH"], XZ_OPT="-1")
    assert done.returncode == 0, done.stdout + done.stderr
    return (top / "first").rename(top / "gpu check")


def call(script: Path, *words: str, path: str = "/usr/bin:/bin", **environ: str) -> Done:
    known = {name: os.environ[name] for name in ("HOME", "SIFMOD_TESTBED") if name in os.environ}
    return ran([script, *words], env={**known, "PATH": path, "LANG": "C.UTF-8", **environ})


def with_card(folder: Path, packed: Path, driver: str, cards: Sequence[str], *, ends: int = 0) -> Done:
    """Run it with STAND-INS for the driver's files, nvidia-smi and libcuda, which a runtime between brings in."""
    if not shutil.which("cc"):
        lacking("missing: cc, which compiles the stand-in for libcuda")
    runtime, tools = shutil.which("singularity"), folder / "tools"
    write_driver(folder / "driver", driver, *cards)
    write_cuda(tools, driver, cards, ends=ends)
    write_program(
        tools / "singularity",
        f'#!/bin/bash\nif [[ $1 != exec ]]; then exec {runtime} "$@"; fi\n'
        f"exec {runtime} exec -B {folder}/driver:/proc/driver -B {tools}/nvidia-smi:/usr/bin/nvidia-smi"
        f' -B {tools}/libcuda.so.1:/.singularity.d/libs/libcuda.so.1 "${{@:2}}"\n',
    )
    return call(packed / "gpu-check", "run", "--as-user", path=f"{tools}:/usr/bin:/bin", LD_LIBRARY_PATH=str(tools))


@pytest.mark.slow
def test_what_was_packed_installs_a_module_and_runs_up_to_the_driver(packed: Path, tmp_path: Path) -> None:
    assert sum(path.stat().st_size for path in packed.iterdir()) <= 60 << 20
    for _time in range(2):
        done = call(packed / "gpu-check", "run", "--dry")
        assert (done.returncode, "\n8 held, 0 not held, 26 not run\n" in done.stdout) == (0, True), (
            done.stdout + done.stderr
        )
    broken = shutil.copytree(packed, tmp_path / "broken")
    (broken / "gpu_probe.py").write_text("import sys; sys.exit('broken')")
    done = call(broken / "gpu-check", "run", "--dry")
    assert (done.returncode, "NOT HELD  so does the wrapper\n          broken\n" in done.stdout) == (1, True)
    done = call(packed / "gpu-check", "run", "--dry", LMOD_INIT="/nowhere")
    assert (done.returncode, done.stderr[:45]) == (3, "gpu-check: there is no Lmod in '/nowhere': se")


@pytest.mark.slow
def test_a_machine_with_a_card_reports_what_holds_and_its_first_call(packed: Path, tmp_path: Path) -> None:
    done = with_card(tmp_path / "a", packed, "570.86.15", [A100, A100])
    assert (done.returncode, "\n20 held, 0 not held, 14 not run\n" in done.stdout) == (0, True), (
        done.stdout + done.stderr
    )
    assert f"driver 570.86.15, 2 x {A100}, apptainer version " in done.stdout
    assert re.search(r"held +the first CUDA call of a process on the host takes: [0-9]+ ms\n", done.stdout)
    assert re.search(r"held +the first CUDA call of a process in the container takes: [0-9]+ ms\n", done.stdout)
    assert "the next branch (a stand-in), as doctor says: first\n" in done.stdout
    assert "the branch before (a stand-in), as doctor says: not used: they are not newer than" in done.stdout


@pytest.mark.slow
def test_a_card_of_another_kind_holds_and_a_failing_driver_does_not(packed: Path, tmp_path: Path) -> None:
    done = with_card(tmp_path / "a", packed, "570.86.15", [GEFORCE], ends=2)
    assert (done.returncode, "\n19 held, 1 not held, 14 not run\n" in done.stdout) == (1, True), (
        done.stdout + done.stderr
    )
    assert "RTX 4090 is not known to be a GPU for data centres" in done.stdout
    assert "share a card by CUDA_VISIBLE_DEVICES\n          cuLaunchKernel ends with error 2\n" in done.stdout
    done = with_card(tmp_path / "b", packed, "NVIDIA-SMI has failed", [])
    assert (done.returncode, done.stderr) == (3, "gpu-check: nvidia-smi shows no GPU: NVIDIA-SMI has failed\n")


@pytest.mark.parametrize("words", [[], ["pack"], ["run", "--dry", "x"], ["run", "dry"], ["show"]])
def test_wrong_arguments_are_refused(words: list[str]) -> None:
    done = call(ROOT / "testbed/gpu-check", *words)
    assert (done.returncode, done.stderr.startswith("gpu-check: ")) == (2, True)
