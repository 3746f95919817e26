"""The stand-ins for enroot and pyxis accept what these document, and nothing else."""

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.standins import Mount, RefusedError, StandIns, read_enroot, read_srun, write_stand_ins


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Work in a folder with an image and a SIF."""
    (tmp_path / "demo.sqsh").write_bytes(b"hsqs" + bytes(92))
    (tmp_path / "demo.sif").write_bytes(b"#!/usr/bin/env run-singularity")
    monkeypatch.chdir(tmp_path)
    return tmp_path


# From the documentation of enroot (doc/cmd/*.md, doc/usage.md), and what sifmod needs.
ACCEPTED = [
    "version",
    "start demo.sqsh --help",
    "start ./demo.sqsh python3 -c pass",
    "start -e A=1 --env=B= --env EDITOR -m /tmp:/tmp --mount=/tmp:/a:rbind,ro,x-create=auto -- ./demo.sqsh sudoedit /a",
]
REFUSED = [
    "",
    "run demo.sqsh",
    "version now",
    "start",
    "start gone",
    "start ./gone.sqsh",
    "start ./demo.sif",
    "start -B /tmp demo.sqsh",
    "start --root demo.sqsh",
    "start --env",
    "start --mount demo.sqsh",
    "start --mount= demo.sqsh",
    "start --mount /tmp: demo.sqsh",
    "start --mount :/tmp demo.sqsh",
    "start --mount /tmp demo.sqsh",
    "start --mount /gone:/a demo.sqsh",
    "start --mount tmp:/a demo.sqsh",
    "start --mount /tmp:/a:readonly demo.sqsh",
    "start --mount /tmp:/a:ro demo.sqsh",
    "start --mount /tmp:/a:rbind,hidden demo.sqsh",
    "start --mount /tmp:/a:rbind:0 demo.sqsh",
    "start --env 1A=x demo.sqsh",
    "start --env A-B demo.sqsh",
]


@pytest.mark.parametrize("line", ACCEPTED)
def test_what_enroot_documents_is_accepted(line: str) -> None:
    assert read_enroot(line.split()).command == line.split()[0]


@pytest.mark.parametrize("mount", ["/tmp:/a b", "/tmp:/a\n/b:/b"])
def test_white_space_in_a_mount_of_enroot_is_refused(mount: str) -> None:
    with pytest.raises(RefusedError, match="white space"):
        read_enroot(["start", "-m", mount, "demo.sqsh"])


def test_a_call_of_enroot_is_taken_apart() -> None:
    line = "start -m /tmp:/a:ro,rbind -m /tmp:/tmp -e A=1=2 -e B demo.sqsh python3 -m x"
    call = read_enroot(line.split())
    assert call.mounts == (Mount("/tmp", "/a", ("ro", "rbind")), Mount("/tmp", "/tmp"))
    assert call.env == {"A": "1=2", "B": None}
    assert call.words == ("demo.sqsh", "python3", "-m", "x")


# From the documentation and the tests of pyxis (README.md, tests/*.bats), and what sifmod needs.
SRUN_ACCEPTED = [
    "hostname",
    "-N1 hostname",
    "-N 1 -n 2 hostname",
    "--kill-on-bad-exit --cpu-bind=mask_cpu:0x1 hostname",
    "--container-image=./demo.sqsh --container-mounts=/tmp:/mnt:rbind+ro,/tmp,/usr:/a:ro true",
    "--container-image ./demo.sqsh --container-mounts /tmp:/a --container-mounts /tmp:/b true",
    "--container-image=./demo.sqsh --container-env CUDA_VERSION,LD_LIBRARY_PATH true",
    "--container-image=./demo.sqsh --container-workdir=/tmp --container-mount-home --no-container-remap-root true",
]
SRUN_REFUSED = [
    "",
    "--kill-on-bad-exit",
    "--unknown hostname",
    "--kill-on-bad-exit=1x --kill hostname",
    "--container-images=x true",
    "--container-image= true",
    "--container-image=demo.sqsh true",
    "--container-image=./gone.sqsh true",
    "--container-image=./demo.sif true",
    "--container-image=./demo.sqsh --container-image=./other.sqsh true",
    "--container-mounts=/tmp:/a true",
    "--container-image=./demo.sqsh --container-mounts= true",
    "--container-image=./demo.sqsh --container-mounts=: true",
    "--container-image=./demo.sqsh --container-mounts=/tmp: true",
    "--container-image=./demo.sqsh --container-mounts=/tmp:/a, true",
    "--container-image=./demo.sqsh --container-mounts=/tmp:/a:read true",
    "--container-image=./demo.sqsh --container-mounts=/tmp:/a:ro,rw true",
    "--container-image=./demo.sqsh --container-mounts=/gone:/a true",
    "--container-image=./demo.sqsh --container-mounts=tmp:/a true",
    "--container-image=./demo.sqsh --container-mounts=/tmp:a true",
    "--container-image=./demo.sqsh --container-mounts=/tmp:/$HOME true",
    "--container-image=./demo.sqsh --container-env= true",
    "--container-image=./demo.sqsh --container-env FOO, true",
    "--container-image=./demo.sqsh --container-env=FOO=1 true",
    "--container-image=./demo.sqsh --container-workdir= true",
    "--container-image=./demo.sqsh --container-workdir=tmp true",
    "--container-image=./demo.sqsh --container-mount-home=yes true",
    "--container-image=./demo.sqsh --no-container-mount-home true",
]


@pytest.mark.parametrize("line", SRUN_ACCEPTED)
def test_what_pyxis_documents_is_accepted(line: str) -> None:
    assert read_srun(line.split()).words[0] == line.split()[-1] or line.split()[-1] in read_srun(line.split()).words


@pytest.mark.parametrize(
    ("read", "line"), [*((read_enroot, line) for line in REFUSED), *((read_srun, line) for line in SRUN_REFUSED)]
)
def test_what_enroot_and_pyxis_do_not_know_is_refused(read: Callable[[list[str]], object], line: str) -> None:
    with pytest.raises(RefusedError):
        read(line.split())


def test_a_call_of_srun_is_taken_apart() -> None:
    line = "-N 2 --container-image=./demo.sqsh --container-mounts=/tmp:/a:ro,/tmp --container-env=A,B a --container-x"
    call = read_srun(line.split())
    assert (call.image, call.env, call.options) == ("./demo.sqsh", ("A", "B"), (("-N", "2"),))
    assert call.mounts == (Mount("/tmp", "/a", ("ro",)), Mount("/tmp", "/tmp"))
    assert (call.words, call.others) == (("a", "--container-x"), ())


@pytest.fixture
def stand_ins(tmp_path: Path) -> StandIns:
    return write_stand_ins(tmp_path / "stand-ins")


def test_the_programs_note_what_they_accept(stand_ins: StandIns) -> None:
    def run(line: str) -> tuple[int, str]:
        environ = {"PATH": f"{stand_ins.folder}:{os.environ['PATH']}"}
        done = subprocess.run(line.split(), env=environ, capture_output=True, text=True, check=False)
        return done.returncode, done.stdout + done.stderr

    assert run("enroot version") == (0, "4.1.2\n")
    assert run("enroot start demo.sqsh true")[0] == 0
    assert run("srun --container-image=./demo.sqsh --container-env=HOME, true")[0] == 1
    assert run("srun --container-image=./demo.sqsh true")[0] == 0
    assert [call["program"] for call in stand_ins.calls] == ["enroot"] * 2 + ["srun"]
    assert stand_ins.calls[-1]["image"] == "./demo.sqsh"
