import os
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Optional

import pytest

from sifmod.doctor.host import check_host
from sifmod.eb.robot import DEMO_EASYCONFIG
from sifmod.eb.space import SoftwareSpace
from sifmod.finding import NOTE, OK, PROBLEM, WARNING, Finding
from sifmod.host import command
from sifmod.site.settings import Site

from ..support import Stubs, a_site, settings_of

Found = dict[str, list[Finding]]
Check = Callable[..., Found]
SetFree = Callable[..., None]


@pytest.fixture(autouse=True)
def eb(stub: Stubs) -> None:
    """Let `eb` find what it is asked for; the real one takes its time."""
    stub("eb", 'echo " * [ ] /robot/path/$2 (module: X)"')


@pytest.fixture
def check(space: SoftwareSpace) -> Check:
    """Check this host: topic -> findings."""

    def run(site: Optional[Site] = None, **more: Any) -> Found:
        found: Found = {}
        for finding in check_host(settings_of(site or a_site()), space, **more):
            found.setdefault(finding.topic, []).append(finding)
        return found

    return run


def test_every_finding_that_is_not_fine_says_why_or_what_to_do(check: Check) -> None:
    for findings in check().values():
        for finding in findings:
            assert finding.severity == OK or finding.why or finding.remedy or finding.severity == NOTE


@pytest.mark.parametrize(
    ("version", "is_problem"),
    [
        ("apptainer version 1.4.5", False),
        ("singularity version 3.5.3", True),
        ("singularity-ce version 4.1.0-1.el8", False),
        ("singularity version 3.8.7-1", False),
        ("something else", False),
    ],
)
def test_an_old_runtime_is_a_problem(check: Check, stub: Stubs, version: str, is_problem: bool) -> None:
    stub("singularity", f"echo '{version}'")
    findings = check(a_site(runtime="singularity"))["runtime"]
    assert any(finding.severity == PROBLEM for finding in findings) == is_problem


def test_user_namespaces_are_needed_without_setuid(check: Check, stub: Stubs, monkeypatch: pytest.MonkeyPatch) -> None:
    stub("singularity", "echo 'apptainer version 1.4.5'")
    stub("unshare", "echo 'unshare: unshare failed: Operation not permitted' >&2; exit 1")
    (finding,) = check(a_site(runtime="singularity"))["user namespaces"]
    assert finding.severity == PROBLEM
    assert "Operation not permitted" in finding.what
    stub("unshare", "exit 0")
    assert check(a_site(runtime="singularity"))["user namespaces"][0].severity == OK
    stub("unshare", "exit 1")
    stub("singularity", "echo singularity version 3.11.4")
    monkeypatch.setattr("sifmod.doctor.host.makes_user_namespaces", lambda _runtime: False)
    found = check(a_site(runtime="singularity"))
    assert found["user namespaces"][0].severity == OK
    assert found["FUSE"][0].severity in (OK, NOTE)


def test_variables_that_harm_programs_in_containers_are_named(check: Check, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"LD_PRELOAD": "/tmp/seen.so /opt/xalt.so", "UV_SYSTEM_PYTHON": "1", "UV_PYTHON": ""}.items():
        monkeypatch.setenv(name, value)
    found = check()
    assert [one.what for one in (*found["LD_PRELOAD"], *found["uv"])] == [
        "containers lack '/opt/xalt.so'",
        "UV_SYSTEM_PYTHON is '1'",
    ]
    assert "LD_PRELOAD" not in check(a_site(container_env={"LD_PRELOAD": ""}))


def test_a_tree_not_searched_is_named(check: Check, space: SoftwareSpace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LMOD_VERSION", "8.7")
    tree = space.modules / space.suffix
    there, elsewhere = (f"/else:{tree}", f"{tree}/Core"), (f"{tree}-2:/else", "")
    for folders in (*there, *elsewhere):
        monkeypatch.setenv("MODULEPATH", folders)
        found = check().get("MODULEPATH", [])
        wanted = [(WARNING, f"module use {tree}")] if folders in elsewhere else []
        assert [(one.severity, one.remedy) for one in found] == wanted, folders


@pytest.mark.parametrize(
    ("variables", "severity"),
    [
        ({"LMOD_VERSION": "8.6.19"}, OK),
        ({"LMOD_VERSION": "6.5"}, PROBLEM),
        ({"MODULES_CMD": "{folder}/modulecmd"}, OK),
        ({"MODULES_CMD": "{folder}/oldcmd"}, PROBLEM),
        ({}, WARNING),
    ],
)
def test_the_module_tool_is_looked_at(
    check: Check,
    stub: Stubs,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    variables: dict[str, str],
    severity: str,
) -> None:
    for name in ("LMOD_VERSION", "MODULES_CMD"):
        monkeypatch.delenv(name, raising=False)
    stub("modulecmd", "echo 'Modules Release 5.2.0 (2022-11-08)' >&2")
    stub("oldcmd", "echo 'VERSION=3.2.10' >&2; exit 1")
    for name, value in variables.items():
        monkeypatch.setenv(name, value.format(folder=tmp_path / "stubs"))
    assert check()["modules"][0].severity == severity


def test_easybuild_finds_sifmod_s_easyconfigs(check: Check, stub: Stubs, monkeypatch: pytest.MonkeyPatch) -> None:
    stub(
        "eb", '[ "$1$3" = --dry-run--output-style=basic ] && [ "$PWD" = / ] && echo " * [ ] /robot/path/$2 (module: X)"'
    )
    (finding,) = check()["easyconfigs"]
    assert (finding.severity, finding.remedy) == (OK, "")
    assert DEMO_EASYCONFIG in finding.what
    assert check()["EasyBuild"][0].severity == OK
    monkeypatch.setenv("EBVERSIONEASYBUILD", "4.9.4")
    assert check()["EasyBuild"][0].severity == PROBLEM
    monkeypatch.setenv("PATH", "/nowhere")
    assert check()["EasyBuild"][0].severity == WARNING
    monkeypatch.setenv("PATH", "/nowhere")
    assert "easyconfigs" not in check()


@pytest.mark.parametrize(
    ("script", "said", "remedy"),
    [
        ("echo == log; echo 'ERROR: One or more files not found: X.eb' >&2; exit 4", "files not found", "sifmod env"),
        ("echo \"ERROR: No module named 'sifmod'\"; exit 1", "No module named 'sifmod'", "sifmod env"),
        ("echo 'ERROR: Lmod modules tool can not be used'; echo == done; exit 1", "Lmod modules tool", "try again: eb"),
        ("echo 'Segmentation fault'; exit 139", "Segmentation fault", "try again: eb"),
        ("exit 0", "prints nothing", "try again: eb"),
    ],
)
def test_an_easybuild_without_it_is_quoted(check: Check, stub: Stubs, script: str, said: str, remedy: str) -> None:
    stub("eb", script)
    (finding,) = check()["easyconfigs"]
    assert finding.severity == WARNING
    assert said in finding.what
    assert remedy in finding.remedy


def test_an_easybuild_that_hangs_is_not_waited_for(check: Check, stub: Stubs, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command, "LOOK", 0.2)
    stub("eb", "exec sleep 60")
    (finding,) = check()["easyconfigs"]
    assert finding.severity == WARNING
    assert "did not end within 0.2 seconds" in finding.what


def test_binds_and_general_password_are_named(check: Check, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from sifmod.container.bind import Bind

    site = a_site(binds=(Bind.parse(f"{tmp_path}/gone"),), optional_binds=(Bind.parse(f"{tmp_path}/other"),))
    found = check(site)
    assert found["binds"][0].severity == PROBLEM
    assert found["optional_binds"][0].severity == NOTE
    monkeypatch.setenv("APPTAINER_DOCKER_PASSWORD", "secret")
    assert "CREDENTIAL_REGISTRIES" in check()["passwords"][0].remedy
    assert "passwords" not in check(a_site(credential_registries=("a.org",)))


@pytest.fixture
def full(monkeypatch: pytest.MonkeyPatch) -> SetFree:
    def set_free(*, blocks: int = 10**9, inodes: int = 10**9, limit: int = 10**9) -> None:
        result = SimpleNamespace(
            f_blocks=10**9, f_bfree=blocks, f_bavail=blocks, f_frsize=4096, f_files=limit, f_favail=inodes
        )
        monkeypatch.setattr("os.statvfs", lambda _path: result)

    return set_free


def test_want_of_space_and_of_inodes_is_a_warning(check: Check, full: SetFree) -> None:
    full()
    assert check()["space: install and packing"][0].severity == OK
    full(blocks=1000)
    assert "4.1 MB free" in check()["space: install and packing"][0].what
    full(inodes=200)
    assert "only 200 inodes free" in check()["space: install and packing"][0].what
    full(inodes=0)
    assert "only 0 inodes free" in check()["space: install and packing"][0].what
    full(inodes=0, limit=0)  # of file systems that make them as they are needed
    assert check()["space: install and packing"][0].severity == OK
    full(blocks=10**6)
    assert check(image_size=10**10)["space: install and packing"][0].severity == WARNING


@pytest.mark.skipif(os.geteuid() == 0, reason="root may do everything")
def test_a_place_that_may_not_be_written_to_is_named(check: Check, space: SoftwareSpace) -> None:
    space.software.parent.mkdir()
    space.software.parent.chmod(0o555)
    finding = check()["space: install and packing"][0]
    space.software.parent.chmod(0o755)
    assert (finding.severity, "may not write" in finding.what) == (PROBLEM, True)


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("/scratch 990* 0 1000 - 5 0 100 -", "990 of 1000 kB of the "),
        ("/a/long/path\n   [990]* 900 0 6d 5 0 100 -", "990 of 900 kB"),
        ("/scratch 10 0 1000 - 99 90 100 -", "99 of 100 files"),
        ("/scratch 10 0 1000 - 5 0 100 -", ""),
        ("/scratch 10 0 0 - 5 0 0 -", ""),
        ("nothing", ""),
    ],
)
def test_lustre_s_quota_is_read(check: Check, stub: Stubs, line: str, says: str) -> None:
    stub("lfs", f"echo '{line}'")
    stub("quota", "exit 0")
    found = check().get("quota", [])
    assert bool(found) == bool(says)
    assert all(says in finding.what for finding in found)


def test_quotas_of_projects_and_what_quota_complains_of_are_read(check: Check, stub: Stubs) -> None:
    stub("quota", "echo 'Disk quotas for user x (uid 1): In block grace period on /dev/sda1'; exit 1")
    assert "/quota says: Disk quotas for user x (uid 1): In block grace period" in check()["quota"][0].what
    stub("quota", "echo '/home  38 GiB of 100 GiB'")
    assert "quota" not in check()
    answers = "project*) echo '462000265 P /x' ;; quota-p) echo \"/x 10 0 0 - $4 0 462000270 -\" ;;"
    stub("lfs", f"case $1$3 in {answers} esac")
    assert [finding.what.partition(" of the ")[2][:7] for finding in check()["quota"]] == ["project"]


def test_scripts_without_module_are_named(check: Check, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As on most clusters: bash reads BASH_ENV, and sh nothing at all."""
    (tmp_path / "init").write_text("module() { :; }\n")
    monkeypatch.delenv("BASH_FUNC_module%%", raising=False)
    for name, value in (("LMOD_VERSION", "8.7"), ("LMOD_PKG", "/lmod"), ("BASH_ENV", str(tmp_path / "init"))):
        monkeypatch.setenv(name, value)
    said = "scripts that begin with #!/bin/{} do not know the command module"
    _lmod, *notes = check()["modules"]
    assert [(one.severity, one.what, one.remedy) for one in notes] == [
        (NOTE, said.format("sh"), "let them begin with: . /lmod/init/sh")
    ]
    monkeypatch.delenv("BASH_ENV")
    assert [one.what for one in check()["modules"][1:]] == [said.format("bash"), said.format("sh")]
