"""`sifmod new`: what it writes installs with `eb` as it is."""

import runpy
from pathlib import Path

import pytest
from smallimage import SMALL_URI, small_image

from conftest import IMAGES, QUICK_BUILDS, REGISTRY, User, registry_password

PASSWORD = registry_password()

OPT_VENV = """Bootstrap: localimage
From: {base}
%post
    python3 -m venv --without-pip /opt/venv
    site=$(/opt/venv/bin/python -c 'import site; print(site.getsitepackages()[0])')
    mkdir $site/mpi4py-4.0.1.dist-info
    printf 'Name: mpi4py\\nVersion: 4.0.1\\n' >$site/mpi4py-4.0.1.dist-info/METADATA
    printf '#!/opt/venv/bin/python\\nimport sys\\nprint(sys.prefix)\\n' >/opt/venv/bin/ipython
    chmod 755 /opt/venv/bin/ipython
%environment
    export PATH=/opt/venv/bin:$PATH
"""


def new(user: User, words: str) -> tuple[str, str]:
    """Call `sifmod new` in the prefix; return the file that it wrote, and the command that it names."""
    first, last = user.out(f"sifmod new {words}").splitlines()
    assert first.startswith("wrote ")
    return first.partition(" ")[2], last.partition("install it with: ")[2]


def installed(user: User, words: str) -> str:
    """Write an easyconfig, install it by the command that is named, and return the module's name."""
    easyconfig, command = new(user, words)
    user.run(command)
    name, _, version = easyconfig.removesuffix(".eb").partition("-")
    return f"{name}/{version}"


PREFIX = "python -c 'import sys; print(sys.prefix, sys.base_prefix)'"


@pytest.mark.slow
def test_a_conda_environment_in_another_folder(user: User) -> None:
    module = installed(user, str(IMAGES / "conda-demo.sif"))
    assert module.startswith("PyTorch/2.2.0-rocm-5.6-python-3.11-singularity-20")
    version = "python -c 'import torch; print(torch.__version__)'"
    script = f"module load {module}; {PREFIX}; {version}; echo rocm=$SINGULARITY_ROCM"
    assert user.out(script).splitlines() == [
        "/user-software/venv/pytorch /opt/miniconda3/envs/pytorch",
        "2.2.0+rocm5.6",
        "rocm=",  # the image's libraries
    ]


def test_what_is_written_passes_the_checks_of_eb_for_contributions(user: User) -> None:
    easyconfig, _command = new(user, str(IMAGES / "conda-demo.sif"))
    said = user.out(f"eb --check-contrib {easyconfig}")
    assert (said.count("[PASS]"), "FAIL" in said) == (2, False)


@pytest.fixture(scope="module")
def opt_venv(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("opt-venv")
    (folder / "x.def").write_text(OPT_VENV.format(base=IMAGES / "demo.sif"))
    User(folder, QUICK_BUILDS).run("singularity build x.sif x.def")
    return folder / "x.sif"


@pytest.mark.slow
def test_a_virtual_environment_of_the_image_with_a_tool(user: User, opt_venv: Path) -> None:
    (user.prefix / "other.eb").write_text(
        "easyblock = 'ContainerImage'\nname = 'other'\nvenv = 'ours'\ncontainer_env = {'OURS': \"it's\"}\n"
        "wrappers = ['python', 'pip', 'ipython']\nversion = '0'\n"
    )
    module = installed(user, f"{opt_venv} --like other.eb --name mpi4py")
    assert module.startswith("mpi4py/4.0.1-python-3.11-singularity-20")
    script = f"module load {module}; {PREFIX}; ipython; singularity exec $SIF printenv OURS"
    assert user.out(script).splitlines() == ["/user-software/venv/ours /usr", "/user-software/venv/ours", "it's"]


def test_a_uri_is_pulled_once_pinned_and_found_again_by_eb(registry_user: User, tmp_path: Path) -> None:
    user = registry_user
    (tmp_path / "small").mkdir()
    small_image(tmp_path / "small")
    words = f"{SMALL_URI} --commands greet --version 1.0"
    easyconfig, command = new(user, words)
    text = (user.prefix / easyconfig).read_text()
    uri = runpy.run_path(str(user.prefix / easyconfig), {"SYSTEM": {}})["image_uri"]
    assert uri.startswith(f"docker://{REGISTRY}/demo/small:1@sha256:")
    assert PASSWORD not in text
    (image,) = (user.prefix / "sources").rglob("*.sif")
    assert "greet" in user.out(f"sifmod inspect {SMALL_URI} --commands").split()
    again = user.run(f"sifmod new {words} --force")
    assert "was pulled before" in again.stderr
    done = user.run(command)
    assert "was pulled before" in done.stdout
    assert [path.name for path in (user.prefix / "sources").rglob("*.sif")] == [image.name]
