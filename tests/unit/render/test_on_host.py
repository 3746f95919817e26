"""The scripts in a container that stand for commands of the host."""

import subprocess
from pathlib import Path

import pytest

from ..support import Stubs
from .cases import ROOT

PROGRAM = "/user-software/venv/demo/bin/python"
# The words before the program, with which it is srun's command.
COMMAND = [
    "",
    "-n1",
    "-n 1",
    "-N 1 -n 2 -l",
    "-lJ test",
    "-J test -p sort --exclusive",
    "--job-name test",
    "--mpi pmix --ntasks=2",
    "--nodelist nid[001-002] -u",
    "--label",
    "-D /tmp --",
]
# With these it is an argument of another command.
ARGUMENT = [
    "sh",
    "-n1 sh",
    "-n 1 sh -c",
    "--label sh",
    "--ntasks=1 --exclusive sh -x",
    "-n1 in-container",
    "-- sh",
    "-J test sh",
    "/bin/sh",
    "-n1 sh -n 1",
]


@pytest.mark.parametrize(("words", "is_command"), [*((w, True) for w in COMMAND), *((w, False) for w in ARGUMENT)])
def test_srun_starts_user_software_in_its_container(tools: Stubs, tmp_path: Path, words: str, is_command: bool) -> None:
    folder = tools("srun", 'printf "%s\\n" "$@"').parent
    tools("in-container", "")
    program = tmp_path / PROGRAM[1:]
    program.parent.mkdir(parents=True)
    program.touch(0o755)
    script = tmp_path / "slurm/srun"
    script.parent.mkdir()
    text = (ROOT / "wrappers/runscripts/on-host").read_text()
    script.write_text(text.replace("/user-software/", f"{tmp_path}/user-software/"))
    environ = {"PATH": f"{folder}:/usr/bin:/bin"}
    called = [*words.split(), str(program), "-c", "1", str(program)]
    done = subprocess.run(["bash", script, *called], env=environ, capture_output=True, text=True, check=True)
    if is_command:
        called.insert(len(words.split()), "in-container")
    assert done.stdout.splitlines() == called
