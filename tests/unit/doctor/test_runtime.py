from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

import pytest

from sifmod.doctor import runtime
from sifmod.doctor.runtime import check_runtime
from sifmod.finding import NOTE, PROBLEM, WARNING, Finding

from ..support import Stubs, a_site


def found(
    folder: Path, version: str, said: str = "", environ: Mapping[str, str] = MappingProxyType({})
) -> list[Finding]:
    """Return what is found with a runtime that prints this version, and this as its build configuration."""
    script = f"case $1 in --version) echo '{version}' ;; buildcfg) echo '{said}' ;; esac"
    command = Stubs(folder)("singularity", script)
    return list(check_runtime(a_site(runtime=str(command)), environ))


def test_singularityce_without_its_execution_control_list_starts_no_sif(tmp_path: Path) -> None:
    file, said = tmp_path / "ecl.toml", f"SINGULARITY_CONFDIR={tmp_path}"
    (finding,) = found(tmp_path, "singularity-ce version 4.5.0", said)
    assert finding.severity == PROBLEM
    assert f"'{file}' does not exist" in finding.what
    assert found(tmp_path, "singularity-ce version 4.4.2", said) == []
    assert found(tmp_path, "singularity-ce version 4.5.0", "nothing") == []
    file.write_text("activated = false\n")
    assert found(tmp_path, "singularity-ce version 4.5.0", said) == []


@pytest.mark.parametrize(("version", "count"), [("1.4.5", 0), ("1.5.0", 1)])
def test_variables_that_the_user_keeps_out_of_containers_are_named(tmp_path: Path, version: str, count: int) -> None:
    findings = found(tmp_path, f"apptainer version {version}", environ={"APPTAINER_NOENV": "NCCL_DEBUG"})
    assert [finding.severity for finding in findings] == [WARNING] * count
    assert all("NCCL_DEBUG" in finding.what for finding in findings)


@pytest.mark.parametrize(("version", "count"), [("1.4.5", 0), ("1.5.0", 1)])
def test_devices_of_cdi_are_named_where_the_runtime_takes_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: str, count: int
) -> None:
    monkeypatch.setattr(runtime, "_CDI_FOLDERS", (tmp_path, tmp_path / "none"))
    findings = found(tmp_path, f"apptainer version {version}")
    assert [finding.severity for finding in findings] == [NOTE] * count
    assert all("--device" in finding.remedy for finding in findings)
