"""Runtimes with and without setuid."""

from pathlib import Path

import pytest

from sifmod.host import namespaces
from sifmod.host.namespaces import makes_user_namespaces
from sifmod.host.runtime import ContainerRuntime


def runtime(folder: Path, package: str = "apptainer", *, fails: bool = False) -> ContainerRuntime:
    """Make a runtime that answers `buildcfg` as Apptainer 1.4.5 and SingularityCE 4 do."""
    short = package.removesuffix("-ce")
    (folder / "libexec" / short / "bin").mkdir(parents=True)
    conf = folder / "conf"
    path = folder / "singularity"
    lines = [f"PACKAGE_NAME={package}", f"LIBEXECDIR={folder}/libexec", f"{short.upper()}_CONF_FILE={conf}"]
    path.write_text("#!/bin/sh\n" + ("exit 1\n" if fails else "".join(f"echo '{line}'\n" for line in lines)))
    path.chmod(0o755)
    return ContainerRuntime(path)


def starter(folder: Path, package: str, mode: int) -> Path:
    path = folder / "libexec" / package / "bin" / "starter-suid"
    path.touch()
    path.chmod(mode)
    return path


def test_without_the_program_with_setuid_there_is_a_namespace(tmp_path: Path) -> None:
    assert makes_user_namespaces(runtime(tmp_path))


@pytest.mark.parametrize(
    ("mode", "conf", "makes"),
    [
        (0o4755, "", False),
        (0o4755, "allow setuid = yes\n", False),
        (0o4755, "# allow setuid = yes\nallow setuid = no\n", True),
        (0o755, "allow setuid = yes\n", True),
    ],
)
@pytest.mark.parametrize("package", ["apptainer", "singularity-ce"])
def test_program_and_configuration_decide(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, package: str, mode: int, conf: str, makes: bool
) -> None:
    found = runtime(tmp_path, package)
    (tmp_path / "conf").write_text(conf)
    path = starter(tmp_path, package.removesuffix("-ce"), mode)
    if path.stat().st_uid != 0:
        is_setuid = bool(mode & 0o4000)
        monkeypatch.setattr(namespaces, "_is_setuid", lambda asked: asked == path and is_setuid)
    assert makes_user_namespaces(found) == makes


def test_a_program_of_another_user_is_not_trusted(tmp_path: Path) -> None:
    found = runtime(tmp_path)
    path = starter(tmp_path, "apptainer", 0o4755)
    if path.stat().st_uid == 0:
        pytest.skip("root's files are root's")
    assert makes_user_namespaces(found)


def test_a_runtime_that_does_not_answer_is_assumed_to_make_one(tmp_path: Path) -> None:
    assert makes_user_namespaces(runtime(tmp_path, fails=True))
