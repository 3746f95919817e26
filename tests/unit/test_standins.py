"""The stand-ins for enroot and pyxis accept what these document, and nothing else."""

import os
import subprocess
from pathlib import Path

import pytest
from tests.standins import Mount, RefusedError, StandIns, read_enroot, read_srun, write_stand_ins


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Work in a folder with an image, a SIF, a script and a container."""
    (tmp_path / "demo.sqsh").write_bytes(b"hsqs" + bytes(92))
    (tmp_path / "demo.sif").write_bytes(b"#!/usr/bin/env run-singularity")
    (tmp_path / "rc").touch()
    (tmp_path / "data" / "made").mkdir(parents=True)
    monkeypatch.setenv("ENROOT_DATA_PATH", str(tmp_path / "data"))
    monkeypatch.chdir(tmp_path)
    return tmp_path


# From the documentation of enroot (doc/cmd/*.md, doc/usage.md), and what sifmod needs.
ACCEPTED = [
    "version",
    "create demo.sqsh",
    "create --name demo demo.sqsh",
    "create -f --name=demo -- ./demo.sqsh",
    "list",
    "list -f",
    "list --fancy",
    "remove made",
    "remove -f made made",
    "import docker://alpine",
    "import --output demo.sqsh docker://nvidia/cuda:10.0-base",
    "import -o x.sqsh -a aarch64 docker://$oauthtoken@nvcr.io#nvidia/pytorch:24.03-py3",
    "import dockerd://ubuntu",
    "start made",
    "start ./demo.sqsh python3 -c pass",
    "start --root --rw --env EDITOR --mount .:mnt made sudoedit /mnt/foo",
    "start -e A=1 --env=B= -m /tmp:/tmp -m /tmp:/a:rbind,ro --mount=/tmp:/b:none:x-create=dir,rbind,ro:0:-1 demo.sqsh",
    "start -m tmpfs:/scratch:tmpfs -m /tmp:bind made",
    "start --rc rc --conf=rc -- made --help",
    "exec 1234 ls -l",
    "exec -e A=1 1234 ls",
]
REFUSED = [
    "",
    "run demo.sqsh",
    "version now",
    "create",
    "create demo.sqsh other",
    "create --nam=x demo.sqsh",
    "create -nx demo.sqsh",
    "create --force=yes demo.sqsh",
    "create --name",
    "create --name= demo.sqsh",
    "create --name a/b demo.sqsh",
    "create demo.sif",
    "create gone.sqsh",
    "list made",
    "list -v",
    "remove",
    "remove gone",
    "remove ../data/made",
    "import alpine",
    "import oras://alpine",
    "import docker://",
    "import docker://alpine extra",
    "import --format=sif docker://alpine",
    "start",
    "start gone",
    "start ./gone.sqsh",
    "start ./demo.sif",
    "start -B /tmp made",
    "start --mount made",
    "start --mount= made",
    "start --mount /tmp: made",
    "start --mount :/tmp made",
    "start --mount /gone:/a made",
    "start --mount tmp:/a made",
    "start --mount /tmp:/a:readonly made",
    "start --mount /tmp:/a:ro made",
    "start --mount /tmp:/a:ro,hidden made",
    "start --mount /tmp:/a:none:ro:0:-1:x made",
    "start --env 1A=x made",
    "start --env A-B made",
    "start --rc gone made",
    "start --conf gone made",
    "exec 1234",
    "exec made ls",
    "exec -m /tmp:/a 1234 ls",
]


@pytest.mark.parametrize("line", ACCEPTED)
def test_what_enroot_documents_is_accepted(line: str) -> None:
    assert read_enroot(line.split()).command == line.split()[0]


@pytest.mark.parametrize("line", REFUSED)
def test_what_enroot_does_not_know_is_refused(line: str) -> None:
    with pytest.raises(RefusedError):
        read_enroot(line.split())


@pytest.mark.parametrize("mount", ["/tmp:/a b", "/tmp:/a\n/b:/b"])
def test_white_space_in_a_mount_of_enroot_is_refused(mount: str) -> None:
    with pytest.raises(RefusedError, match="white space"):
        read_enroot(["start", "-m", mount, "made"])


def test_a_call_of_enroot_is_taken_apart() -> None:
    line = "start -m /tmp:/a:ro,rbind -m /tmp -e A=1=2 -e B demo.sqsh python3 -m x"
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
    "--container-image=almalinux:9 grep PRETTY /etc/os-release",
    "--container-image nvcr.io#nvidia/pytorch:21.12-py3 python",
    "--container-image=./demo.sqsh --container-mounts=/tmp:/mnt:unbindable+ro,/tmp,./rc:/rc true",
    "--container-image=./demo.sqsh --container-mounts /tmp:/a --container-mounts /tmp:/b true",
    "--container-image=./demo.sqsh --container-mounts=tmpfs:/a,umount:/proc true",
    "--container-image=./demo.sqsh --container-env CUDA_VERSION,LD_LIBRARY_PATH true",
    "--container-image=./demo.sqsh --container-workdir=/tmp --container-readonly true",
    "--container-image=./demo.sqsh --no-container-mount-home --container-remap-root true",
    "--container-image=./demo.sqsh --container-name=test:no_exec --container-save=./x.sqsh true",
    "--container-image=./demo.sqsh --container-unshare=net,ipc true",
    "--container-name=test true",
]
SRUN_REFUSED = [
    "",
    "--kill-on-bad-exit",
    "--unknown hostname",
    "--kill-on-bad-exit=1x --kill hostname",
    "--container-images=x true",
    "--container-image= true",
    "--container-image=demo@x@y true",
    "--container-image=./gone.sqsh true",
    "--container-image=./demo.sif true",
    "--container-image=./demo.sqsh --container-image=alpine true",
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
    "--container-image=./demo.sqsh --container-readonly --container-writable true",
    "--container-image=./demo.sqsh --container-mount-home --no-container-mount-home true",
    "--container-image=./demo.sqsh --no-container-writable true",
    "--container-image=./demo.sqsh --container-mount-home=yes true",
    "--container-image=./demo.sqsh --container-name=/tmp/foo true",
    "--container-image=./demo.sqsh --container-name=:exec true",
    "--container-image=./demo.sqsh --container-name=x:attach true",
    "--container-image=./demo.sqsh --container-save=/tmp/ true",
    "--container-image=./demo.sqsh --container-unshare=pid true",
]


@pytest.mark.parametrize("line", SRUN_ACCEPTED)
def test_what_pyxis_documents_is_accepted(line: str) -> None:
    assert read_srun(line.split()).words[0] == line.split()[-1] or line.split()[-1] in read_srun(line.split()).words


@pytest.mark.parametrize("line", SRUN_REFUSED)
def test_what_pyxis_does_not_know_is_refused(line: str) -> None:
    with pytest.raises(RefusedError):
        read_srun(line.split())


def test_a_call_of_srun_is_taken_apart() -> None:
    line = "-N 2 --container-image=./demo.sqsh --container-mounts=/tmp:/a:ro,/tmp --container-env=A,B a --container-x"
    call = read_srun(line.split())
    assert (call.image, call.env, call.options) == ("./demo.sqsh", ("A", "B"), (("-N", "2"),))
    assert call.mounts == (Mount("/tmp", "/a", ("ro",)), Mount("/tmp", "/tmp"))
    assert (call.words, call.others) == (("a", "--container-x"), ())


@pytest.fixture
def stand_ins(tmp_path: Path) -> StandIns:
    return write_stand_ins(tmp_path / "stand-ins")


def test_the_programs_note_what_they_accept_and_imitate_containers(stand_ins: StandIns, place: Path) -> None:
    def run(line: str, said: str = "") -> tuple[int, str]:
        environ = {"PATH": f"{stand_ins.folder}:{os.environ['PATH']}", "ENROOT_DATA_PATH": str(place / "data")}
        done = subprocess.run(line.split(), env=environ, input=said, capture_output=True, text=True, check=False)
        return done.returncode, done.stdout + done.stderr

    assert run("enroot version") == (0, "4.1.2\n")
    assert run("enroot create demo.sqsh")[0] == 0
    assert run("enroot create demo.sqsh") == (1, f"enroot: file already exists: {place}/data/demo\n")
    assert run("enroot create --force demo.sqsh")[0] == 0
    assert run("enroot start demo true")[0] == 0
    assert run("enroot list") == (0, "demo\nmade\n")
    assert run("enroot remove demo", "n\n")[0] == 0
    assert run("enroot remove demo", "y\n")[0] == 0
    assert run("enroot list") == (0, "made\n")
    assert run("srun --container-image=./demo.sqsh --container-env=HOME, true")[0] == 1
    assert run("srun --container-image=./demo.sqsh true")[0] == 0
    assert [call["program"] for call in stand_ins.calls] == ["enroot"] * 8 + ["srun"]
    assert stand_ins.calls[-1]["image"] == "./demo.sqsh"
