"""The script for a machine with a card, without the card: all that it does before the driver."""

import subprocess
from pathlib import Path

import pytest

from conftest import ROOT


@pytest.mark.slow
def test_what_was_packed_installs_a_module_and_runs_up_to_the_driver(tmp_path: Path) -> None:
    folder = tmp_path / "gpu check"
    done = subprocess.run([ROOT / "testbed/gpu-check", "pack", folder], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert sum(path.stat().st_size for path in folder.iterdir()) <= 60 << 20
    environ = {"PATH": "/usr/bin:/bin", "HOME": str(tmp_path), "LANG": "C.UTF-8"}
    done = subprocess.run(
        [folder / "gpu-check", "run", "--dry"], capture_output=True, text=True, check=False, env=environ
    )
    print(done.stdout, done.stderr)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "\n5 held, 0 not held, 10 not run\n" in done.stdout
    (folder / "gpu_probe.py").write_text("import sys; sys.exit('broken')")
    done = subprocess.run(
        [folder / "gpu-check", "run", "--dry"], capture_output=True, text=True, check=False, env=environ
    )
    assert done.returncode == 1
    assert "NOT HELD  so does the wrapper\n          broken\n" in done.stdout


@pytest.mark.parametrize("words", [[], ["pack"], ["run", "--dry", "x"], ["run", "dry"], ["show"]])
def test_wrong_arguments_are_refused(words: list[str]) -> None:
    done = subprocess.run([ROOT / "testbed/gpu-check", *words], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr.startswith("gpu-check: ")) == (2, True)
