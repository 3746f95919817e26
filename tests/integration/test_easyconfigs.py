"""The easyconfigs that come with sifmod, with the real EasyBuild and runtime.

LUMI's are installed as they are, from an image that stands in under the names of LUMI's. The others need images that
are not here, of a registry or built on such an image: here they are only looked for, tests/unit reads and renders them.
"""

import ast
import os
import re
import shlex
from pathlib import Path
from typing import Any

import pytest

from conftest import DEMO_EASYCONFIG, IMAGES, LUMI_EASYCONFIG, User, make_user

ROOT = Path(__file__).resolve().parents[2]
# sifmod's own easyconfig is no container: test_sites.py has it
EASYCONFIGS = {path.name: path for path in sorted((ROOT / "easyconfigs").rglob("*.eb")) if path.parent.name != "sifmod"}

# Environments and packages of LUMI's images, as the easyconfigs say that they have them, on the testbed's conda image.
STAND_IN = """\
Bootstrap: localimage
From: {image}

%post
    cd /opt/miniconda3/envs
    for environment in {environments}; do
        [ -e "$environment" ] || ln -s pytorch "$environment"
    done
    cd pytorch/lib/python3.11/site-packages
    for package in {packages}; do
        name=${{package%%=*}} version=${{package#*=}}
        info=$name-$version.dist-info
        mkdir "$info"
        printf 'Metadata-Version: 2.1\\nName: %s\\nVersion: %s\\n' "$name" "$version" >"$info/METADATA"
    done
    cd /opt/miniconda3/envs/pytorch/bin
    for command in {commands}; do
        printf '#!/bin/sh\\necho "%s of the image"\\n' "$command" >"$command"
        chmod 755 "$command"
    done
"""


def values_of(easyconfig: str) -> dict[str, Any]:
    """The parameters of an easyconfig that are plain values."""
    values = {}
    for statement in ast.parse(EASYCONFIGS[easyconfig].read_text()).body:
        if isinstance(statement, ast.Assign) and not isinstance(statement.value, ast.Name):
            values[ast.unparse(statement.targets[0])] = ast.literal_eval(statement.value)
    return values


def module_of(easyconfig: str) -> str:
    values = values_of(easyconfig)
    return f"{values['name']}/{values['version']}{values['versionsuffix']}"


LUMI = {name: values_of(name) for name in EASYCONFIGS if "-dockerhash-" in values_of(name).get("sources", [""])[0]}
# The first is installed for most tests of this folder, the second in test_user_software.py.
INSTALLED_ELSEWHERE = {LUMI_EASYCONFIG, LUMI_EASYCONFIG.replace("singularity-", "singularity-exampleVenv-")}
LATEST = "PyTorch-2.7.1-rocm-6.2.4-python-3.12-singularity-20250827.eb"
TOOLS = ("accelerate", "huggingface-cli", "ray", "torchrun")
RUNSCRIPTS_ONLY = "PyTorch-2.2.0-rocm-5.6.1-python-3.10-singularity-20240209.eb"


@pytest.fixture(scope="module")
def stand_in(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An image with the conda environments and the packages that LUMI's easyconfigs ask for."""
    folder = tmp_path_factory.mktemp("stand-in")
    packages = [f"{package}={version}" for values in LUMI.values() for package, version in expected(values).items()]
    definition = STAND_IN.format(
        image=IMAGES / "conda-demo.sif",
        environments=" ".join(sorted({values["conda_env"] for values in LUMI.values() if "conda_env" in values})),
        packages=" ".join(sorted(set(packages))),
        commands=" ".join(TOOLS),
    )
    (folder / "stand-in.def").write_text(definition)
    make_user(folder / "eb").run("singularity build stand-in.sif stand-in.def", cwd=folder)
    return folder / "stand-in.sif"


@pytest.fixture
def lumi_user(user: User, stand_in: Path) -> User:
    """A user on LUMI, whose repository of images has the stand-in under each of the names."""
    repository = user.prefix / "images"
    repository.mkdir()
    for values in LUMI.values():
        (sif,) = values["sources"]
        if not (repository / sif).exists():
            os.link(stand_in, repository / sif)
    user.env.update(SIFMOD_SITE="lumi", SIFMOD_IMAGE_REPOSITORIES=str(repository))
    return user


def expected(values: dict[str, Any]) -> dict[str, str]:
    packages: dict[str, str] = values.get("expected_packages", {})
    return packages


def prefix_of(values: dict[str, Any]) -> str:
    """Where the Python that users get lives in the container."""
    if "venv" in values:
        return f"/user-software/venv/{values['venv']}"
    return f"/opt/miniconda3/envs/{values['conda_env']}"


def test_eb_finds_every_easyconfig_and_what_it_depends_on(user: User) -> None:
    done = user.run(f"eb -D --robot {' '.join(EASYCONFIGS)}")
    for easyconfig in EASYCONFIGS:
        line = rf"^ \* \[ \] \S*/{re.escape(easyconfig)} \(module: {re.escape(module_of(easyconfig))}\)$"
        assert re.search(line, done.stdout, re.M)
    assert len(re.findall(r"^ \* \[.\] ", done.stdout, re.M)) == len(EASYCONFIGS)


def test_evaluating_easyconfigs_leaves_no_log_open(user: User) -> None:
    """Each line of the next one would go to all of them."""
    script = (
        "import logging, sys; from pathlib import Path; from sifmod.eb.evaluation import container_of\n"
        "for _ in range(2): container_of(Path(sys.argv[1]))\n"
        "print([one.handlers for one in logging.root.manager.loggerDict.values() if getattr(one, 'handlers', ())])"
    )
    assert user.out(f"python -c {shlex.quote(script)} {EASYCONFIGS[DEMO_EASYCONFIG]}") == "[]"


def test_every_easyconfig_passes_the_checks_of_eb_for_contributions(user: User) -> None:
    """The style of all; and checksums, of those with sources for which they are known."""
    paths = sorted((ROOT / "easyconfigs").rglob("*.eb"))
    style = user.out(f"eb --check-style {' '.join(map(str, paths))}")
    assert {line for line in style.splitlines() if line.startswith("[")} == {f"[PASS] {path}" for path in paths}
    known = [path for path in paths if "\nsources = " not in path.read_text() or "\nchecksums = " in path.read_text()]
    contribution = user.out(f"eb --check-contrib {' '.join(map(str, known))}")
    assert contribution.count("[PASS]") == 2 * len(known)
    assert "FAIL" not in contribution


@pytest.mark.slow
@pytest.mark.parametrize("easyconfig", sorted(set(LUMI) - INSTALLED_ELSEWHERE), ids=lambda name: name[:-3])
def test_lumis_easyconfigs_install_as_they_are(lumi_user: User, easyconfig: str) -> None:
    values, module = LUMI[easyconfig], module_of(easyconfig)
    lumi_user.eb(easyconfig)
    installdir = lumi_user.installdir(module)
    script = f"""
        module load {module}
        echo "$SIF$SINGULARITY_ROCM"
        singularity exec "$SIF" printenv NCCL_SOCKET_IFNAME
        start-shell -c 'echo started'
    """
    assert lumi_user.out(script).splitlines() == [
        f"{installdir}/{values['sources'][0]}",
        "hsn0,hsn1,hsn2,hsn3",
        "started",
    ]
    commands = {path.name for path in (installdir / "bin").iterdir()}
    wanted = set(values.get("wrappers", ["python", "pip"] if "conda_env" in values else []))
    assert wanted <= commands
    assert ("python" in commands) == ("python" in wanted)
    assert ("make-squashfs" in commands) == ("venv" in values)
    if "conda_env" not in values:
        return
    code = "import sys, importlib.metadata as m; print(sys.prefix, *(m.version(name) for name in sys.argv[1:]))"
    python = f"module load {module}; singularity exec $SIF python -c '{code}' {' '.join(expected(values))}"
    assert lumi_user.out(python).split() == [prefix_of(values), *expected(values).values()]


@pytest.mark.slow
def test_an_image_without_the_expected_packages_is_refused_and_nothing_stays(lumi_user: User) -> None:
    (sif,) = LUMI[LATEST]["sources"]
    other = lumi_user.prefix / "other-images"
    other.mkdir()
    (other / sif).symlink_to(IMAGES / "conda-demo.sif")
    lumi_user.env["SIFMOD_IMAGE_REPOSITORIES"] = str(other)
    # the image lacks the wrappers' commands too, which is seen first
    easyconfig = lumi_user.prefix / LATEST
    easyconfig.write_text(f"{EASYCONFIGS[LATEST].read_text()}\nwrappers = []\n")
    done = lumi_user.eb(str(easyconfig), check=False)
    output = done.stdout + done.stderr
    assert done.returncode != 0
    assert "expected_packages" in output
    for package, version in expected(LUMI[LATEST]).items():
        assert f"{package} {version}" in output
    assert not lumi_user.installdir(module_of(LATEST)).exists()
    assert not lumi_user.modulefile(module_of(LATEST)).exists()


@pytest.mark.slow
def test_the_documented_use_of_containers_with_runscripts_only(lumi_user: User) -> None:
    """LUMI's user instructions for containers up to 20240209: $WITH_CONDA, and the runscripts for programs."""
    lumi_user.eb(RUNSCRIPTS_ONLY)
    code = "import sys, torch; print(sys.prefix, torch.cuda.device_count())"
    script = f"""
        module load {module_of(RUNSCRIPTS_ONLY)}
        srun -N1 -n1 singularity exec $SIF conda-python-simple -c '{code}'
        singularity exec $SIF bash -c '$WITH_CONDA ; pip list'
    """
    first, *packages = lumi_user.out(script).splitlines()
    assert first == "/opt/miniconda3/envs/pytorch 0"
    assert any(line.split()[:1] == ["torch"] for line in packages)
