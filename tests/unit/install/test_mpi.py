"""The variables for MPI in user namespaces: set for the families that are used, and only without setuid."""

from pathlib import Path
from typing import Any

import pytest

from sifmod.container.spec import ContainerSpec
from sifmod.host.runtime import ContainerRuntime
from sifmod.image.inspection import contents_of
from sifmod.image.mpi import MpiLibrary
from sifmod.inside.mpi_check import MPICH, OPEN_MPI, STANDARD
from sifmod.install import mpi
from sifmod.install.mpi import namespace_variables, with_mpi
from sifmod.render.environment import plain_variables

from ..image.elfs import mpich, open_mpi
from ..imagetrees import linux, write
from ..support import a_site, a_spec

UCX = {"UCX_POSIX_USE_PROC_LINK": "n"}
CMA = {"MPIR_CVAR_CH4_CMA_ENABLE": "0"}
NO_CMA = {"UCX_TLS": "^cma"}
VADER = {"OMPI_MCA_btl_vader_single_copy_mechanism": "none"}


def library(abi: str, version: str, *, ucx: bool = True, ucx_version: str = "1.20.1") -> MpiLibrary:
    return MpiLibrary("/usr/lib/libmpi.so", "libmpi.so", abi, version, "", "2.34", ucx, ucx_version)


@pytest.mark.parametrize(
    ("libraries", "families", "variables"),
    [
        ([library(MPICH, "5.0.2")], [MPICH], {**UCX, **CMA}),
        ([library(MPICH, "4.1", ucx=False)], [MPICH], CMA),
        ([library(STANDARD, "5.0.2")], [STANDARD], {**UCX, **CMA}),
        ([library(OPEN_MPI, "5.0.11")], [OPEN_MPI], UCX),
        ([library(OPEN_MPI, "4.0.2", ucx=False)], [OPEN_MPI], {}),
        ([library(OPEN_MPI, "4.0.1", ucx=False)], [OPEN_MPI], VADER),
        ([library(OPEN_MPI, "3.1.6", ucx=False)], [OPEN_MPI], {}),
        ([library(OPEN_MPI, "3.0.4", ucx=False)], [OPEN_MPI], VADER),
        ([library(OPEN_MPI, "", ucx=False)], [OPEN_MPI], VADER),
        ([library(MPICH, "4.0.2", ucx_version="1.13.1")], [MPICH], {**UCX, **CMA, **NO_CMA}),
        ([library(MPICH, "4.0.2", ucx_version="")], [MPICH], {**UCX, **CMA, **NO_CMA}),
        ([library(OPEN_MPI, "4.1.4", ucx_version="1.15.0")], [OPEN_MPI], {**UCX, **NO_CMA}),
        ([], [MPICH, OPEN_MPI], {**UCX, **CMA}),
        ([], [], {}),
    ],
)
def test_each_family_gets_its_own(libraries: list[MpiLibrary], families: list[str], variables: dict[str, str]) -> None:
    assert namespace_variables(libraries, families) == variables


@pytest.fixture
def top(tmp_path: Path) -> Path:
    return linux(tmp_path / "box")


def settled(
    monkeypatch: pytest.MonkeyPatch, top: Path, *, namespaces: bool = True, **fields: Any
) -> tuple[ContainerSpec, list[str]]:
    said: list[str] = []
    monkeypatch.setattr(mpi, "makes_user_namespaces", lambda _runtime: namespaces)
    return with_mpi(
        a_spec(**fields),
        a_site(),
        contents_of(top),
        ContainerRuntime(Path("/nowhere")),
        say=said.append,
        warn=pytest.fail,
    ), said


def test_an_image_with_mpich_gets_the_variables_of_mpich(monkeypatch: pytest.MonkeyPatch, top: Path) -> None:
    write(top, "/usr/lib/libmpi.so.12").write_bytes(mpich("5.0.2"))
    spec, said = settled(monkeypatch, top)
    assert (spec.mpi, spec.mpi_env) == ("image", {**CMA, **UCX, **NO_CMA})
    assert said == [
        "setting MPIR_CVAR_CH4_CMA_ENABLE=0, UCX_POSIX_USE_PROC_LINK=n, UCX_TLS=^cma, which MPI needs in the user "
        "namespaces of a runtime without setuid"
    ]
    variables = plain_variables(spec, a_site(container_env={"UCX_POSIX_USE_PROC_LINK": "y"}))
    assert variables["MPIR_CVAR_CH4_CMA_ENABLE"] == "0"
    assert variables["UCX_POSIX_USE_PROC_LINK"] == "y"  # the site has the last word


def test_nothing_is_set_without_need(monkeypatch: pytest.MonkeyPatch, top: Path) -> None:
    spec, said = settled(monkeypatch, top)
    assert (spec.mpi, spec.mpi_env, said) == ("", UCX, [])  # users may install what uses UCX
    write(top, "/usr/lib/libmpi.so.12").write_bytes(mpich())
    spec, said = settled(monkeypatch, top, namespaces=False)
    assert (spec.mpi, spec.mpi_env, said) == ("image", {}, [])


def test_open_mpi_gets_nothing_of_mpich(monkeypatch: pytest.MonkeyPatch, top: Path) -> None:
    write(top, "/usr/lib/libmpi.so.40").write_bytes(open_mpi("4.0.1"))
    assert settled(monkeypatch, top)[0].mpi_env == {**UCX, **VADER}


@pytest.mark.parametrize("requirement", ["mpich==5.0.2", "MPICH", "mpich[x] >=4 ; python_version > '3'"])
def test_mpi_among_the_requirements_counts(monkeypatch: pytest.MonkeyPatch, top: Path, requirement: str) -> None:
    spec, _ = settled(monkeypatch, top, pip_requirements=("--no-index", requirement))
    assert (spec.mpi, spec.mpi_env) == ("", {**CMA, **UCX})


def test_the_easyconfig_may_speak_of_an_mpi_that_users_install(monkeypatch: pytest.MonkeyPatch, top: Path) -> None:
    spec, _ = settled(monkeypatch, top, mpi="image")
    assert (spec.mpi, spec.mpi_env) == ("image", {**CMA, **UCX})


def test_an_image_that_can_t_be_read_is_not_guessed_at(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert settled(monkeypatch, tmp_path / "none.sif")[0].mpi_env == UCX
