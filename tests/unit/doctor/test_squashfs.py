from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from sifmod.container.runtime import RUNTIMES
from sifmod.doctor import squashfs
from sifmod.doctor.squashfs import check_squashfs_runtimes
from sifmod.finding import NOTE, OK, PROBLEM, WARNING, Finding

from ..support import Stubs, a_site

ENROOT = a_site(runtimes=("enroot",))


def change_row(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, folders: Mapping[str, tuple[str, int]]) -> None:
    changed = replace(RUNTIMES["enroot"], configuration=str(tmp_path / "enroot.conf"), folders=folders)
    monkeypatch.setattr("sifmod.site.settings.RUNTIME_ROWS", {**RUNTIMES, "enroot": changed})


@pytest.fixture
def node(tools: Stubs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Stubs:
    """A node where all is well: enroot, its tools, pyxis, local folders; PATH has nothing else."""
    monkeypatch.setattr(squashfs, "_KERNEL", tmp_path / "sys")
    monkeypatch.setattr(squashfs, "_MOUNTINFO", tmp_path / "mountinfo")
    for key in ("kernel", "user"):
        (tmp_path / "sys" / key).mkdir(parents=True)
    (tmp_path / "sys/user/max_user_namespaces").write_text("96365\n")
    (tmp_path / "mountinfo").write_text("1 0 0:1 / / rw shared:1 - ext4 /dev/sda rw\n")
    folders = {name: (text, 1) for name, (text, _needed) in RUNTIMES["enroot"].folders.items()}
    change_row(monkeypatch, tmp_path, folders)
    tools("enroot", "echo 4.1.2")
    tools("squashfuse", "")
    tools("fuse-overlayfs", "")
    tools("srun", "echo '--container-image=IMAGE'; echo '--container-mounts=SRC:DST'")
    return tools


def found(tmp_path: Path, **environ: str) -> dict[str, Finding]:
    """Return topic -> finding, the worst of each."""
    findings = check_squashfs_runtimes(ENROOT, {"HOME": str(tmp_path), "XDG_RUNTIME_DIR": str(tmp_path), **environ})
    order = [OK, NOTE, WARNING, PROBLEM]
    return {one.topic: one for one in sorted(findings, key=lambda one: order.index(one.severity))}


@pytest.mark.usefixtures("node")
def test_a_node_that_has_all_is_fine_and_a_site_without_enroot_not_asked(tmp_path: Path) -> None:
    assert list(check_squashfs_runtimes(a_site(), {})) == []
    findings = found(tmp_path)
    assert {finding.severity for finding in findings.values()} == {OK}
    assert findings["enroot"].what == "enroot 4.1.2"
    assert findings["ENROOT_DATA_PATH"].what.startswith(f"{tmp_path}/.local/share/enroot: ext4, ")
    assert list(findings) == [
        *("enroot", "squashfuse", "fuse-overlayfs"),
        *("ENROOT_RUNTIME_PATH", "ENROOT_CACHE_PATH", "ENROOT_DATA_PATH", "pyxis"),
    ]


@pytest.mark.parametrize(
    ("key", "value", "severity"),
    [
        ("kernel/unprivileged_userns_clone", "0", PROBLEM),
        ("user/max_user_namespaces", "0", PROBLEM),
        ("kernel/apparmor_restrict_unprivileged_userns", "1", WARNING),
    ],
)
@pytest.mark.usefixtures("node")
def test_a_kernel_that_forbids_user_namespaces_is_named(tmp_path: Path, key: str, value: str, severity: str) -> None:
    (tmp_path / "sys" / key).write_text(f"{value}\n")
    finding = found(tmp_path)["user namespaces"]
    assert finding.severity == severity
    assert finding.what == f"{key.replace('/', '.')} is {value}"


@pytest.mark.parametrize(
    ("tool", "script", "topic", "severity", "what"),
    [
        ("enroot", "", "enroot", WARNING, "there is no command enroot on PATH"),
        ("enroot", "echo 3.4.1", "enroot", WARNING, "enroot 3.4.1 is older than 4.0"),
        ("enroot", "echo broken; exit 1", "enroot", PROBLEM, "'enroot version' fails: broken"),
        ("squashfuse", "", "squashfuse", WARNING, "there is no command squashfuse on PATH"),
        ("fuse-overlayfs", "", "fuse-overlayfs", WARNING, "there is no command fuse-overlayfs on PATH"),
        ("srun", "echo --cpus-per-task", "pyxis", WARNING, "srun has no option --container-image"),
        ("srun", "echo --container-image", "pyxis", PROBLEM, "srun has no option --container-mounts"),
    ],
)
def test_what_is_missing_or_old_is_named(
    node: Stubs, tmp_path: Path, tool: str, script: str, topic: str, severity: str, what: str
) -> None:
    if script:
        node(tool, script)
    else:
        (node.folder / tool).unlink()
    finding = found(tmp_path)[topic]
    assert (finding.severity, finding.what) == (severity, what)
    assert finding.why


@pytest.mark.parametrize("kind", ["nfs4", "lustre", "gpfs", "beegfs_nodev", "fuse.sshfs"])
@pytest.mark.usefixtures("node")
def test_folders_on_a_shared_file_system_are_a_warning(tmp_path: Path, kind: str) -> None:
    (tmp_path / "sha red").mkdir()
    escaped = str(tmp_path / "sha red").replace(" ", r"\040")
    (tmp_path / "mountinfo").write_text(f"1 0 0:1 / / rw - ext4 x rw\n2 1 0:2 / {escaped} rw shared:2 - {kind} x rw\n")
    findings = found(tmp_path, XDG_DATA_HOME=str(tmp_path / "sha red"))
    finding = findings["ENROOT_DATA_PATH"]
    assert finding.severity == WARNING
    assert finding.what == f"'{tmp_path}/sha red/enroot' is on a shared file system, {kind}"
    assert findings["ENROOT_CACHE_PATH"].severity == OK


@pytest.mark.usefixtures("node")
def test_the_configuration_of_enroot_says_where_folders_are(tmp_path: Path) -> None:
    (tmp_path / "enroot.conf").write_text(
        f"#ENROOT_DATA_PATH /no\nENROOT_DATA_PATH  {tmp_path}/data-$(id -u)/${{USER}}\nENROOT_CACHE_PATH=$(pwd)/c\n"
    )
    findings = found(tmp_path, USER="me")
    assert findings["ENROOT_DATA_PATH"].what.startswith(f"{tmp_path}/data-")
    assert "/me: ext4" in findings["ENROOT_DATA_PATH"].what
    assert findings["ENROOT_CACHE_PATH"].severity == NOTE
    assert found(tmp_path, ENROOT_CACHE_PATH=str(tmp_path))["ENROOT_CACHE_PATH"].severity == OK


@pytest.mark.usefixtures("node")
def test_too_little_space_is_a_warning(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    change_row(monkeypatch, tmp_path, {"ENROOT_DATA_PATH": ("${HOME}", 10**18)})
    finding = found(tmp_path)["ENROOT_DATA_PATH"]
    assert finding.severity == WARNING
    assert "may be needed" in finding.what
