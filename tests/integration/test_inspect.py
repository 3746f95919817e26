"""`sifmod inspect` against what the runtime and pip say in the same image."""

import json
from pathlib import Path
from typing import Any

import pytest
from tests.programs import ran

from conftest import IMAGES, User

DEMO, CONDA = IMAGES / "demo.sif", IMAGES / "conda-demo.sif"
CONDA_PREFIX = "/opt/miniconda3/envs/pytorch"


def output(*words: object) -> str:
    return ran([*map(str, words)], check=True).stdout


def inspect(image: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(output("sifmod", "inspect", image, "--json"))
    return found


@pytest.fixture(scope="module")
def sandbox(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The conda image as a directory, as `singularity build --sandbox` makes it."""
    top = tmp_path_factory.mktemp("sandbox") / "box"
    output("singularity", "build", "--sandbox", top, CONDA)
    return top


@pytest.fixture(scope="module")
def small(sandbox: Path) -> Path:
    """What the reader looks at: packing all of it with every compressor would take minutes."""
    top = sandbox.parent / "small"
    env, lib = CONDA_PREFIX[1:], "usr/lib/x86_64-linux-gnu"
    names = [".singularity.d", "etc", "bin", "lib", "lib64", "opt/miniconda3/bin", "opt/miniconda3/conda-meta"]
    names += [f"{env}/conda-meta", "usr/lib/os-release"]
    for folder in (f"{env}/lib/python3.11/site-packages", "usr/lib/python3/dist-packages"):
        names += [str(path.relative_to(sandbox)) for path in (sandbox / folder).glob("*.*-info")]
    names += ["usr/local", "var/lib/dpkg/status", f"{lib}/libc.so.6", "usr/bin/sh", "usr/bin/dash", "usr/bin/python3"]
    for library in (f"{env}/lib/python3.11", "usr/lib/python3.11"):
        names += [f"{library}/venv/__init__.py", f"{library}/ensurepip"]
    for name in names:
        (top / name).parent.mkdir(parents=True, exist_ok=True)
        output("cp", "-a", sandbox / name, top / name)
    for name in (f"{env}/bin/python3", "usr/bin/python3.11", "usr/lib/python3.11/os.py"):
        (top / name).parent.mkdir(parents=True, exist_ok=True)
        (top / name).touch()
    return top


@pytest.mark.parametrize(("image", "prefix"), [(DEMO, "/usr"), (CONDA, CONDA_PREFIX), (CONDA, "/usr")])
def test_packages_are_those_that_pip_lists(image: Path, prefix: str) -> None:
    pip = ["singularity", "exec", image, f"{prefix}/bin/python3", "-I", "-m", "pip", "list", "--format=freeze"]
    listed = output(*pip).splitlines()
    assert output("sifmod", "inspect", image, "--packages", "--python", prefix).splitlines() == listed
    assert listed


@pytest.mark.parametrize("image", [DEMO, CONDA], ids=["demo", "conda"])
def test_the_facts_are_those_that_the_runtime_gives(image: Path) -> None:
    found = inspect(image)
    attributes = json.loads(output("singularity", "inspect", "--all", image))["data"]["attributes"]
    assert found["labels"] == attributes["labels"]
    assert found["runscript"] == attributes["runscript"].strip()
    assert found["startscript"] == attributes["startscript"].strip()
    assert found["definition"] == attributes["deffile"].strip()
    script = """
        . /etc/os-release; echo "$PRETTY_NAME"; getconf GNU_LIBC_VERSION; uname -m
        command -v python3; python3 -c 'import platform; print(platform.python_version())'; echo "$LANG"
    """
    system, libc, machine, python, version, lang = output("singularity", "exec", image, "sh", "-c", script).splitlines()
    assert (found["os"], found["libc"], found["environment"]["LANG"]) == (system, libc, lang)
    assert (found["architecture"], machine) == ("amd64", "x86_64")
    (usr,) = (one for one in found["pythons"] if one["prefix"] == "/usr")
    assert (f"{usr['prefix']}/bin/python3", usr["version"]) == (python, version)


def test_the_default_python_is_the_one_that_the_image_activates() -> None:
    found = inspect(CONDA)
    activated = output(
        "singularity", "exec", CONDA, "bash", "-c", "$WITH_CONDA; python -c 'import sys; print(sys.prefix)'"
    )
    assert found["default_python"] == activated.strip() == CONDA_PREFIX
    assert output("sifmod", "inspect", CONDA, "--packages").splitlines()[-1] == "torch==2.2.0+rocm5.6"
    assert inspect(DEMO)["default_python"] == "/usr"


def test_no_runtime_is_started_and_little_is_read(tmp_path: Path) -> None:
    log = tmp_path / "log"
    tracer = ["strace", "-f", "-y", "-e", "trace=execve,pread64", "-o", log]
    output(*tracer, "sifmod", "inspect", CONDA, "--packages")
    lines = log.read_text(errors="replace").splitlines()
    assert not any("execve" in line and ("singularity" in line or "apptainer" in line) for line in lines)
    read = [line for line in lines if "pread64" in line and "conda-demo.sif" in line]
    assert 0 < sum(int(line.rpartition("= ")[2]) for line in read) < CONDA.stat().st_size / 5


def test_a_signed_image_names_its_key(tmp_path: Path, user: User) -> None:
    image = tmp_path / "x.sif"
    image.write_bytes(DEMO.read_bytes())
    home = f"export HOME={user.prefix}"
    key = "--name A --email a@example.org --comment c --password '' --push=false"
    user.run(f"{home}; printf '\\n' | singularity key newpair {key}")
    user.run(f"{home}; printf '\\n' | singularity sign {image}")
    (signature,) = inspect(image)["signatures"]
    listed = user.out(f"{home}; singularity key list --secret")
    assert signature["fingerprint"] in listed
    assert signature["hash"] == "sha256"


@pytest.mark.parametrize("words", [[], ["--json"], ["--packages"]])
def test_what_is_no_image_is_one_line_and_exit_status_5(tmp_path: Path, words: list[str]) -> None:
    (tmp_path / "x.sif").write_bytes(DEMO.read_bytes()[:40_000])
    done = ran(["sifmod", "inspect", tmp_path / "x.sif", *words])
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (5, "", 1)
    assert done.stderr.startswith("sifmod: ")
    assert "damaged" in done.stderr
