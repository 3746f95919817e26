"""What doctor expects of MPI in a container, before it is run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from sifmod.container.bind import Bind
from sifmod.doctor import mpi as library
from sifmod.doctor.mpi import check_mpi
from sifmod.finding import NOTE, OK, PROBLEM, WARNING
from sifmod.host.runtime import ContainerRuntime
from sifmod.image.inspection import inspect_image
from sifmod.inside.mpi_check import leaves_ranks_behind
from sifmod.site.feature import Feature
from sifmod.site.settings import Site

from ..image.elfs import mpich, open_mpi
from ..imagetrees import linux, write
from ..support import a_site

SETTINGS = {"MPIR_CVAR_CH4_CMA_ENABLE": "0", "UCX_POSIX_USE_PROC_LINK": "n", "UCX_TLS": "^cma"}
# as Slurm 22.05 says it
NOT_LOADED = """srun: error:  mpi/pmix_v4: init: (null) [0]: mpi_pmix.c:195: pmi/pmix: can not load PMIx library
srun: error: Couldn't load specified plugin name for mpi/pmix: Plugin init() callback failed
srun: error: Invalid MPI type '{}', --mpi=list for acceptable types"""
LISTED = "MPI plugin types are...\n\tpmix\n\tnone\n\tcray_shasta\n\tpmi2\n"


@pytest.fixture
def top(tmp_path: Path) -> Path:
    return linux(tmp_path / "box")


def said(
    monkeypatch: pytest.MonkeyPatch,
    top: Path,
    *,
    site: Site | None = None,
    namespaces: bool = True,
    slurm: tuple[int, str] = (0, LISTED),
    unloadable: tuple[str, ...] = (),
    **options: Any,
) -> list[tuple[str, str]]:
    def srun(command: list[str]) -> tuple[int, str]:
        if command == ["srun", "--mpi=list"]:
            return slurm
        plugin = command[1].removeprefix("--mpi=")
        assert command == ["srun", f"--mpi={plugin}", "--test-only", "true"]
        return (1, NOT_LOADED.format(plugin)) if plugin in unloadable else (0, "srun: Job 7 to start at ...")

    monkeypatch.setattr(library, "makes_user_namespaces", lambda _runtime: namespaces)
    monkeypatch.setattr(library, "ask", srun)
    runtime = ContainerRuntime(Path("/nowhere"))
    findings = check_mpi(site or a_site(), inspect_image(top), runtime, **options)
    return [(one.severity, f"{one.what} | {one.why} | {one.remedy}") for one in findings]


def put(top: Path, data: bytes) -> None:
    write(top, "/usr/lib/libmpi.so").write_bytes(data)


def bound(tmp_path: Path, data: bytes) -> Site:
    write(tmp_path, "/host/libmpi.so.12").write_bytes(data)
    feature = Feature("mpi", binds=(Bind(f"{tmp_path}/host/libmpi.so.12", "/host/mpi/libmpi.so.12"),))
    return a_site(feature={"mpi": feature}, default_features=("mpi",))


def test_only_the_process_manager_counts_with_setuid(monkeypatch: pytest.MonkeyPatch, top: Path) -> None:
    assert said(monkeypatch, top) == []
    put(top, mpich("5.0.2"))
    assert len(said(monkeypatch, top, namespaces=False)) == 2
    assert len(said(monkeypatch, top, namespaces=False, slurm=(1, "no srun"))) == 1


def test_an_image_falls_into_row_2_until_its_module_is_installed(monkeypatch: pytest.MonkeyPatch, top: Path) -> None:
    put(top, mpich())
    (library, start, _end, rows) = said(monkeypatch, top)
    assert library == (OK, "programs use the image's MPICH 4.0.2, /usr/lib/libmpi.so |  | ")
    assert start[0] == OK
    assert "srun --mpi=pmi2 | row 1" in start[1]
    assert rows[0] == NOTE
    assert "MPIR_CVAR_CH4_CMA_ENABLE=0 UCX_POSIX_USE_PROC_LINK=n UCX_TLS=^cma" in rows[1]
    assert "row 2 of 'sifmod help run-mpi'; with them, row 3" in rows[1]


@pytest.mark.parametrize(
    ("settings", "severity", "row"),
    [
        (SETTINGS, OK, "row 3"),
        ({**SETTINGS, "MORE": "x"}, OK, "row 3"),
        ({}, WARNING, "row 2"),
        ({"UCX_TLS": "^cma"}, WARNING, "row 2"),
    ],
)
def test_an_installation_is_compared_with_what_it_needs(
    monkeypatch: pytest.MonkeyPatch, top: Path, settings: dict[str, str], severity: str, row: str
) -> None:
    put(top, mpich())
    found = said(monkeypatch, top, settings=settings)[-1]
    assert found[0] == severity
    assert row in found[1]


@pytest.mark.parametrize("device", ["ch4:ucx", "ch4:ofi"])
@pytest.mark.parametrize("version", ["3.4.3", "4.0.2", "4.1.3", "4.2.0", "4.10.0"])
@pytest.mark.parametrize("namespaces", [True, False])
def test_an_mpi_that_hangs_at_its_end_is_named_as_mpi_check_does(
    monkeypatch: pytest.MonkeyPatch, top: Path, version: str, device: str, namespaces: bool
) -> None:
    """It also hangs without a container, so user namespaces do not count."""
    put(top, mpich(version).replace(b"ch4:ucx", device.encode()))
    hangs = [one for one in said(monkeypatch, top, namespaces=namespaces) if "row 7" in one[1]]
    assert bool(hangs) is leaves_ranks_behind({"mpi": f"MPICH {version}", "device": device, "stage": "MPI_Finalize"})
    for severity, text in hangs:
        assert severity == NOTE
        assert f"MPICH {version} may hang in MPI_Finalize over UCX's tcp" in text


def test_a_missing_plugin_is_named_and_the_next_recommended(monkeypatch: pytest.MonkeyPatch, top: Path) -> None:
    put(top, open_mpi())
    assert "srun --mpi=pmix |" in said(monkeypatch, top)[1][1]
    severity, text = said(monkeypatch, top, slurm=(0, "none\npmi2\n"))[1]
    assert severity == PROBLEM
    assert "Slurm offers none of pmix, which Open MPI 4.1.4 understands" in text
    severity, text = said(monkeypatch, top, unloadable=("pmix",))[1]
    assert severity == PROBLEM
    assert "Slurm lists pmix, which Open MPI 4.1.4 understands, and can't load it" in text
    assert "mpi_pmix.c:195: pmi/pmix: can not load PMIx library |" in text
    put(top, mpich("4.2.0"))
    assert "srun --mpi=cray_shasta |" in said(monkeypatch, top, unloadable=("pmi2",))[1][1]


def test_the_site_s_mpi_falls_into_rows_5_and_6(monkeypatch: pytest.MonkeyPatch, top: Path, tmp_path: Path) -> None:
    put(top, mpich("5.0.2"))
    site = bound(tmp_path, mpich())
    found = said(monkeypatch, top, site=site)
    assert "programs use the host's MPICH 4.0.2" in found[0][1]
    assert "row 5 of 'sifmod help run-mpi'; with them, row 6" in found[-1][1]
    assert "row 6" in said(monkeypatch, top, site=site, mpi="host", settings=SETTINGS)[-1][1]


@pytest.mark.parametrize("data", [mpich("5.0.2"), open_mpi()], ids=["fits", "does not"])
def test_an_mpi_of_compute_nodes_only(monkeypatch: pytest.MonkeyPatch, top: Path, tmp_path: Path, data: bytes) -> None:
    put(top, data)
    site = bound(tmp_path, mpich())
    library = tmp_path / "host" / "libmpi.so.12"
    library.rename(tmp_path / "elsewhere")
    unseen = said(monkeypatch, top, site=site, mpi="host", settings=SETTINGS)
    assert unseen[0][0] == WARNING
    assert "no bind path of the feature 'mpi' has an MPI library on this host" in unseen[0][1]
    assert "run sifmod doctor on a compute node" in unseen[0][1]
    assert not any("programs use" in text or "row 2" in text for _severity, text in unseen)
    (tmp_path / "elsewhere").rename(library)  # on the compute node
    seen = said(monkeypatch, top, site=site, mpi="host", settings=SETTINGS)
    assert seen[0][0] == (OK if data == mpich("5.0.2") else PROBLEM)


def test_an_mpi_that_does_not_fit_is_named(monkeypatch: pytest.MonkeyPatch, top: Path, tmp_path: Path) -> None:
    put(top, open_mpi())
    site = bound(tmp_path, mpich())
    severity, text = said(monkeypatch, top, site=site)[0]
    assert severity == NOTE
    assert "the image has that of Open MPI | so the image's MPI is used" in text
    severity, text = said(monkeypatch, top, site=site, mpi="host")[0]
    assert severity == PROBLEM
    assert "Use mpi = 'image'" in text
