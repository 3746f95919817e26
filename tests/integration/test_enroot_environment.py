"""A command of the module has the same variables with enroot as with Apptainer, variable for variable.

Apptainer is the real one. enroot's part is imitated: the stand-in checks the call, and its variables alone are given to
`with-environment`, which reads the image's own files. `test_enroot_real.py` does the same with the real enroot.
"""

import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest
from bothruntimes import CONTAINERS, changed, differing, host_variables, install, variables, with_runtime
from tests.programs import ran
from tests.standins import StandIns, write_stand_ins


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
    done = ran(["/bin/sh", str(script), *call["words"][2:]], env=given, check=True)
    return variables(done.stdout)


@pytest.mark.parametrize("case", CONTAINERS)
def test_a_command_has_the_same_variables_with_either_runtime(tmp_path: Path, case: str) -> None:
    folder = tmp_path / "installed"
    install(folder, case)
    stand_ins = write_stand_ins(tmp_path / "stand-ins")
    host = host_variables(stand_ins.folder)
    enroot = with_enroot(folder, stand_ins, host)
    assert differing(with_runtime(folder, "apptainer", host), enroot) == {}
    assert changed(enroot) == {}
