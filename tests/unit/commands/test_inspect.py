"""`sifmod inspect`: what is printed, for people and for programs."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from tests.standins_gpu import write_compat

from sifmod.cli import cli
from sifmod.errors import ImageError

from ..image.elfs import mpich
from ..imagetrees import linux, python_prefix, write


@pytest.fixture
def top(tmp_path: Path) -> Path:
    top = linux(tmp_path / "box")
    python_prefix(top, "/opt/venv", config="home = /usr/bin\n", packages=[("torch", "2.2.0+cu121"), ("b", "1")])
    return top


def call(*words: object) -> Result:
    return CliRunner().invoke(cli, ["inspect", *map(str, words)])


def test_tables_for_people(top: Path) -> None:
    output = call(top).output
    rows = [line.split() for line in output.splitlines()]
    assert ["libc", "glibc", "2.36"] in rows
    assert ["/opt/venv*", "venv", "3.11", "2", "torch", "2.2.0+cu121"] in rows
    assert ["/usr", "system", "3.11.2", "2"] in rows
    assert any(row[:2] == ["CUDA", "12.1"] for row in rows)
    assert "NVIDIA 525.60.13 or later" in output
    assert "  exec python3" in output.splitlines()


def test_packages_of_user_software_that_came_from_no_index_have_their_address(tmp_path: Path) -> None:
    python_prefix(tmp_path, "/venv/demo", config="home = /usr/bin\n", packages=[("mine", "1"), ("b", "1")])
    (noted,) = tmp_path.glob("venv/demo/lib/*/site-packages/mine-1.dist-info")
    (noted / "direct_url.json").write_text('{"url": "file:///mine"}')
    assert call(tmp_path, "--packages").output.splitlines() == ["b==1", "mine @ file:///mine  # 1"]


def test_compat_libraries_and_what_the_image_demands(top: Path) -> None:
    write_compat(top / "usr/local/cuda-12.8/compat", "570.86.15")
    write(top, "/.singularity.d/env/10-docker2singularity.sh", 'export NVIDIA_REQUIRE_CUDA="cuda>=12.8"\n')
    output = call(top).output
    assert "570.86.15 in /usr/local/cuda-12.8/compat" in output
    assert "a driver for CUDA 12.8" in output
    found = json.loads(call(top, "--json").output)
    assert found["compat"] == [{"name": "CUDA", "version": "570.86.15", "where": "/usr/local/cuda-12.8/compat"}]
    assert found["demand"] == "a driver for CUDA 12.8"


def test_mpi_libraries_with_their_abi(top: Path) -> None:
    write(top, "/usr/local/lib/libmpi.so.12").write_bytes(mpich("4.0.2"))
    row = ["MPICH", "4.0.2", "MPICH", "libmpi.so.12", "glibc", "2.34", "/usr/local/lib/libmpi.so.12"]
    assert row in [line.split() for line in call(top).output.splitlines()]
    (found,) = json.loads(call(top, "--json").output)["mpi"]
    assert (found["abi"], found["version"], found["glibc"], found["ucx"]) == ("MPICH", "4.0.2", "2.34", True)


def test_packages_for_scripts_and_json_with_everything(top: Path) -> None:
    assert call(top, "--packages").output.splitlines() == ["b==1", "torch==2.2.0+cu121"]
    assert call(top, "--packages", "--python", "/usr").output.splitlines() == [
        "demo-vendor==1.2.3+site",
        "Local.Package==2.0",
    ]
    found = json.loads(call(top, "--json").output)
    assert (found["kind"], found["architecture"], found["default_python"]) == ("sandbox", "arm64", "/opt/venv")
    (venv,) = (python for python in found["pythons"] if python["kind"] == "venv")
    assert {"name": "b", "version": "1"} in venv["packages"]
    assert found["torch"][0]["cuda"] == "12.1"
    packages = json.loads(call(top, "--json", "--packages").output)
    assert packages == [{"name": "b", "version": "1"}, {"name": "torch", "version": "2.2.0+cu121"}]


def test_an_image_can_not_steer_the_terminal(top: Path) -> None:
    write(top, "/.singularity.d/labels.json", '{"evil": "\\u001b[2J\\u0007 \\ud800"}')
    write(top, "/.singularity.d/runscript", "echo \x1b[31m\u202e\n")
    output = call(top).output
    assert "evil: " in output
    assert not any(char in output for char in "\x1b\x07\u202e\ud800")
    assert json.loads(call(top, "--json").output)["runscript"].startswith("echo \x1b")


@pytest.mark.parametrize("flags", [[], ["--json"], ["--packages"]])
def test_what_is_no_image_is_an_error_of_its_own(tmp_path: Path, flags: list[str]) -> None:
    (tmp_path / "x.sif").write_bytes(b"")
    result = call(tmp_path / "x.sif", *flags)
    assert isinstance(result.exception, ImageError)
    assert (result.output, result.exception.exit_code) == ("", 5)


def test_commands_of_the_programs(tmp_path: Path) -> None:
    top = linux(tmp_path / "image")
    for name in ("gmx", "ls", "odd \x1b[2J\nline"):
        write(top, f"/usr/local/bin/{name}").chmod(0o755)
    done = call("--commands", top)
    assert done.exit_code == 0, done.output
    assert "\x1b" not in done.stdout
    gmx, host, odd = done.stdout.splitlines()[1:]
    assert gmx.split() == ["gmx", "/usr/local/bin/gmx"]
    assert host.endswith("the host needs its own")
    assert odd.endswith("the name can't be a wrapper's")
    found = json.loads(call("--commands", "--json", top).stdout)
    assert found[0] == {"name": "gmx", "path": "/usr/local/bin/gmx", "package": "", "no_wrapper": ""}


@pytest.mark.parametrize(
    ("uri", "said"),
    [
        (
            "dokcer://x/y:1",
            "'dokcer://x/y:1' is neither a file nor the URI of an image: 'dokcer' is not an image scheme",
        ),
        ("docker:/x/y:1", "write it as docker://..."),
        ("debian:12", "perhaps you meant 'docker://debian:12'"),
    ],
)
def test_a_mistyped_uri_is_named_as_it_was_typed(uri: str, said: str) -> None:
    result = call(uri)
    assert isinstance(result.exception, ImageError)
    assert said in str(result.exception)
