from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

import pytest

from sifmod.doctor.runtime import check_runtime
from sifmod.finding import NOTE, OK, PROBLEM, WARNING, Finding

from ..support import Stubs, a_site


def found(
    folder: Path, version: str, said: str = "", environ: Mapping[str, str] = MappingProxyType({})
) -> list[Finding]:
    """Return what is found with a runtime that prints this version, and this as its build configuration."""
    script = f"case $1 in --version) echo '{version}' ;; buildcfg) echo '{said}' ;; esac"
    command = Stubs(folder)("singularity", script)
    return list(check_runtime(a_site(runtime=str(command)), environ))


@pytest.fixture(autouse=True)
def no_squashfuse(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Let a test find only the squashfuse that it makes."""
    for name in ("sh", "cat"):
        (tmp_path / "tools").mkdir(exist_ok=True)
        (tmp_path / "tools" / name).symlink_to(f"/bin/{name}")
    monkeypatch.setenv("PATH", str(tmp_path / "tools"))


def test_singularityce_without_its_execution_control_list_starts_no_sif(tmp_path: Path) -> None:
    file, said = tmp_path / "ecl.toml", f"SINGULARITY_CONFDIR={tmp_path}"
    (finding,) = found(tmp_path, "singularity-ce version 4.5.0", said)
    assert finding.severity == PROBLEM
    assert f"'{file}' does not exist" in finding.what
    assert found(tmp_path, "singularity-ce version 4.4.2", said) == []
    assert found(tmp_path, "singularity-ce version 4.5.0", "nothing") == []
    file.write_text("activated = false\n")
    assert found(tmp_path, "singularity-ce version 4.5.0", said) == []


@pytest.mark.parametrize(("version", "severity"), [("0.1.105", NOTE), ("0.2.0", OK), ("0.10.1", OK), ("unknown", None)])
@pytest.mark.parametrize("place", ["libexec/apptainer/bin", "path"])
def test_what_mounts_packed_files_is_named_and_whether_a_newer_one_is_faster(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: str, severity: str | None, place: str
) -> None:
    (tmp_path / place).mkdir(parents=True)
    program = Stubs(tmp_path / place)("squashfuse_ll", f"echo 'squashfuse {version} (c) 2012' >&2; exit 254")
    monkeypatch.setenv("PATH", f"{tmp_path / 'path'}:{tmp_path / 'tools'}")
    findings = found(tmp_path, "apptainer version 1.4.5", f"LIBEXECDIR={tmp_path / 'libexec'}")
    assert [finding.severity for finding in findings] == ([severity] if severity else [])
    assert all(f"'{program}' {version}" in finding.what for finding in findings)


@pytest.mark.parametrize(("version", "count"), [("1.4.5", 0), ("1.5.0", 1)])
def test_variables_that_the_user_keeps_out_of_containers_are_named(tmp_path: Path, version: str, count: int) -> None:
    findings = found(tmp_path, f"apptainer version {version}", environ={"APPTAINER_NOENV": "NCCL_DEBUG"})
    assert [finding.severity for finding in findings] == [WARNING] * count
    assert all("NCCL_DEBUG" in finding.what for finding in findings)
