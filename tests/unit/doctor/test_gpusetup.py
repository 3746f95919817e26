"""What a site's way to give containers GPUs needs. Device files of GPUs are stand-ins: files in a folder."""

from dataclasses import replace
from pathlib import Path
from types import MappingProxyType

import pytest

from sifmod.container.gpu import VENDORS
from sifmod.doctor import gpusetup
from sifmod.doctor.gpusetup import check_gpu_setup
from sifmod.finding import NOTE, OK, PROBLEM, WARNING
from sifmod.host.runtime import Release

from ..support import Stubs, a_site

OLD, NEW = Release("apptainer", "1.4.5"), Release("apptainer", "1.5.1")
CE = Release("singularity-ce", "4.5.1")
FILE = """kind: nvidia.com/gpu
devices:
- name: all
  containerEdits: {{deviceNodes: [{{path: {dev}/nvidia0}}, {{path: {dev}/nvidia1}}]}}
containerEdits:
  deviceNodes: [{{path: {dev}/nvidiactl}}]
  hooks: [{{hookName: createContainer, path: /usr/bin/nvidia-cdi-hook}}]
  mounts:
  - {{hostPath: {dev}/libcuda.so.580.82.07, containerPath: /usr/lib64/{library}}}
"""

Found = list[tuple[str, str]]


@pytest.fixture
def node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A node with two GPUs, whose CDI files lie in `cdi`."""
    dev = tmp_path / "dev"
    dev.mkdir()
    (tmp_path / "cdi").mkdir()
    for name in ("nvidiactl", "nvidia0", "nvidia1", "libcuda.so.580.82.07"):
        (dev / name).touch()
    row = replace(VENDORS["nvidia"], device=f"{dev}/nvidiactl", gpus=f"{dev}/nvidia[0-9]*")
    monkeypatch.setattr(gpusetup, "VENDORS", MappingProxyType({**VENDORS, "nvidia": row}))
    return tmp_path


def found(node: Path, setup: str, release: Release = NEW, gpu: str = "nvidia") -> Found:
    findings = check_gpu_setup(a_site(gpu=gpu, gpu_setup=setup), release, [node / "cdi"])
    return [(one.severity, one.what) for one in findings]


def write(node: Path, text: str = FILE, name: str = "nvidia.yaml", library: str = "libcuda.so.1") -> None:
    (node / "cdi" / name).write_text(text.format(dev=node / "dev", library=library))


@pytest.mark.parametrize("setup", ["", "nv", "rocm"])
def test_the_usual_options_need_nothing(node: Path, setup: str) -> None:
    assert found(node, setup) == []


def test_nvccli_needs_its_command_and_an_image_that_can_be_written(node: Path, tools: Stubs) -> None:
    ((severity, what),) = found(node, "nvccli", CE)
    assert (severity, what) == (PROBLEM, "there is no command nvidia-container-cli on PATH")
    (node / "dev/nvidiactl").unlink()
    assert [severity for severity, _what in found(node, "nvccli", CE)] == [WARNING]
    path = tools("nvidia-container-cli", "")
    assert found(node, "nvccli", CE) == [(OK, str(path))]
    assert [severity for severity, _what in found(node, "nvccli", OLD)] == [OK, WARNING]


@pytest.mark.parametrize(("release", "severity"), [(OLD, WARNING), (CE, WARNING), (NEW, NOTE)])
def test_a_runtime_without_device_is_named(node: Path, release: Release, severity: str) -> None:
    write(node)
    first = found(node, "cdi", release)[0]
    assert first[0] == severity
    assert "--device" in first[1]


def test_a_file_that_fits_is_fine_and_one_whose_library_a_hook_makes_is_not(node: Path) -> None:
    write(node)
    note, fits = found(node, "cdi")
    assert fits == (OK, f"'{node}/cdi/nvidia.yaml': 1 devices, 1 files, as they are on this host")
    write(node, library="libcuda.so.580.82.07")
    assert found(node, "cdi") == [
        note,
        fits,
        (WARNING, f"'{node}/cdi/nvidia.yaml' mounts no libcuda.so.1"),
    ]


def test_a_file_of_an_earlier_driver_or_of_fewer_gpus_is_named(node: Path) -> None:
    write(node)
    (node / "dev/libcuda.so.580.82.07").unlink()
    (node / "dev/nvidia2").touch()
    assert found(node, "cdi")[1:] == [
        (PROBLEM, f"'{node}/cdi/nvidia.yaml' names '{node}/dev/libcuda.so.580.82.07', which this host lacks"),
        (WARNING, f"'{node}/cdi/nvidia.yaml' does not name '{node}/dev/nvidia2'"),
    ]


def test_no_file_two_files_a_file_without_all_and_an_unreadable_one_are_named(node: Path) -> None:
    assert found(node, "cdi")[1][1] == "no file of /etc/cdi and /var/run/cdi has the device nvidia.com/gpu=all"
    write(node, FILE.replace("name: all", "name: '0'"))
    assert found(node, "cdi")[1] == (PROBLEM, f"'{node}/cdi/nvidia.yaml' has no 'all'")
    write(node)
    write(node, name="other.yaml")
    assert "is in several files" in found(node, "cdi")[1][1]
    (node / "cdi/other.yaml").write_text("kind: [")
    assert [severity for severity, _what in found(node, "cdi")] == [NOTE, WARNING, OK]


def test_a_file_of_the_later_folder_replaces_that_of_the_earlier_and_is_the_one_to_write_anew(node: Path) -> None:
    """The toolkit's service writes to /var/run/cdi, while an administrator once wrote to /etc/cdi."""
    write(node)
    later = node / "later folder"
    later.mkdir()
    site, folders = a_site(gpu="nvidia", gpu_setup="cdi"), [node / "cdi", later]
    (node / "cdi/nvidia.yaml").rename(later / "nvidia.yaml")
    write(node, FILE.replace("nvidia1", "nvidia9"))
    assert [one.severity for one in check_gpu_setup(site, NEW, folders)] == [NOTE, OK]
    (later / "nvidia.yaml").rename(node / "cdi/kept")
    (node / "cdi/nvidia.yaml").rename(later / "nvidia.yaml")
    (node / "cdi/kept").rename(node / "cdi/nvidia.yaml")
    _note, gone, lacking = check_gpu_setup(site, NEW, folders)
    assert (gone.severity, lacking.severity) == (PROBLEM, WARNING)
    assert gone.remedy == lacking.remedy == f"as root: nvidia-ctk cdi generate --output='{later}/nvidia.yaml'"


def test_what_this_user_can_not_see_is_not_called_gone(node: Path) -> None:
    closed = node / "dev/closed"
    closed.mkdir()
    write(node, FILE.partition("  mounts:")[0] + "  mounts: [{{hostPath: {dev}/closed/socket}}]\n")
    closed.chmod(0)
    assert [severity for severity, _what in found(node, "cdi")] == [NOTE, OK, WARNING]
    closed.chmod(0o700)
    assert "/closed/socket', which this host lacks" in found(node, "cdi")[1][1]
    (node / "cdi").chmod(0)
    listed = found(node, "cdi")[1]
    (node / "cdi").chmod(0o700)
    assert listed == (WARNING, f"'{node}/cdi': Permission denied")


def test_a_login_node_without_gpus_can_not_tell(node: Path) -> None:
    (node / "dev/nvidiactl").unlink()
    assert [severity for severity, _what in found(node, "cdi")] == [NOTE, NOTE]
    assert found(node, "cdi", gpu="amd")[0][0] == NOTE  # its own kind of device
