"""Recorded output of nvidia-smi and rocm-smi, printed by commands of that name on PATH."""

import pytest

from sifmod.host.gpus import Gpu, HostGpus, described_gpus, host_gpus

from ..support import Stubs

ROCM_6 = """

============================ ROCm System Management Interface ============================
================================= Version of System Component ==================================
Driver version: 6.3.6
==========================================================================================
====================================== Product Info ======================================
GPU[0]\t\t: Card Series: \t\tAMD Instinct MI250X
GPU[0]\t\t: Card Model: \t\t0x7408
GPU[0]\t\t: Card Vendor: \t\tAdvanced Micro Devices, Inc. [AMD/ATI]
GPU[0]\t\t: Card SKU: \t\tD65209
GPU[0]\t\t: GFX Version: \t\tgfx90a
GPU[1]\t\t: Card Series: \t\tAMD Instinct MI250X
GPU[1]\t\t: Card Model: \t\t0x7408
GPU[1]\t\t: GFX Version: \t\tgfx90a
==========================================================================================
================================== End of ROCm SMI Log ===================================
"""
ROCM_5 = """
======================= ROCm System Management Interface =======================
============================= Driver Version =============================
Driver version: 5.18.13
================================================================================
GPU[0]\t\t: Card series: \t\tAMD INSTINCT MI200 (MCM) OAM LC MBA HPE C2
GPU[0]\t\t: Card model: \t\t0x0b0c
GPU[1]\t\t: Card series: \t\tInstinct MI100
================================================================================
"""


def says(text: str, status: int = 0) -> str:
    return f"/bin/cat <<'END'\n{text}\nEND\nexit {status}"


@pytest.mark.usefixtures("tools")
def test_a_host_without_tools_has_no_gpus() -> None:
    assert host_gpus() == ()


def test_nvidia_tells_model_driver_and_compute_capability(tools: Stubs) -> None:
    tools("nvidia-smi", says("NVIDIA A100-SXM4-40GB, 535.104.05, 8.0\nNVIDIA A100-SXM4-40GB, 535.104.05, 8.0"))
    gpu = Gpu("NVIDIA A100-SXM4-40GB", "8.0")
    assert host_gpus() == (HostGpus("nvidia", "535.104.05", (gpu, gpu)),)


def test_an_old_driver_s_compute_capability_is_that_of_the_model(tools: Stubs) -> None:
    tools(
        "nvidia-smi",
        """
            case $1 in *compute_cap*) echo 'Field "compute_cap" is not a valid field to query.'; exit 2 ;; esac
            echo 'Tesla K40m, 440.33.01'; echo 'Some Card, 440.33.01'""",
    )
    (host,) = host_gpus()
    assert host == HostGpus("nvidia", "440.33.01", (Gpu("Tesla K40m", "3.5"), Gpu("Some Card", "")))


@pytest.mark.parametrize(
    ("text", "status"),
    [
        ("NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver.", 9),
        ("Failed to initialize NVML: Driver/library version mismatch", 18),
        ("No devices were found", 6),
        ("", 3),
        ("", 0),
    ],
)
def test_what_nvidia_s_tool_complains_of_is_passed_on(tools: Stubs, text: str, status: int) -> None:
    tools("nvidia-smi", says(text, status))
    (host,) = host_gpus()
    assert (host.gpus, host.driver) == ((), "")
    assert host.problem == (text or f"nvidia-smi failed with exit status {status}")


def test_amd_tells_model_driver_and_architecture(tools: Stubs) -> None:
    tools("rocm-smi", says(ROCM_6))
    gpu = Gpu("AMD Instinct MI250X", "gfx90a")
    assert host_gpus() == (HostGpus("amd", "6.3.6", (gpu, gpu)),)


def test_an_old_rocm_smi_tells_the_model_only(tools: Stubs) -> None:
    tools("rocm-smi", says(ROCM_5))
    (host,) = host_gpus()
    assert host.driver == "5.18.13"
    assert [gpu.architecture for gpu in host.gpus] == ["", "gfx908"]


def test_what_amd_s_tool_complains_of_is_passed_on(tools: Stubs) -> None:
    tools("rocm-smi", says("ERROR:root:Driver not initialized (amdgpu not found in modules)", 0))
    (host,) = host_gpus()
    assert host == HostGpus("amd", "", (), "ERROR:root:Driver not initialized (amdgpu not found in modules)")


def test_a_tool_that_does_not_start_is_a_problem(tools: Stubs) -> None:
    tools("nvidia-smi", "exit").write_text("#!/nowhere/interpreter\n")
    (host,) = host_gpus()
    assert "No such file" in host.problem


def test_nodes_can_be_described_in_words() -> None:
    assert described_gpus("535.104.05", "A100") == (HostGpus("nvidia", "535.104.05", (Gpu("A100", "8.0"),)),)
    assert described_gpus("6.3.6", "AMD Instinct MI250X") == (
        HostGpus("amd", "6.3.6", (Gpu("AMD Instinct MI250X", "gfx90a"),)),
    )
    for written in ("a100", "nvidia_a100-sxm4-80gb", "a100_3g.20gb"):
        (found,) = described_gpus("535.104.05", written)
        assert (found.vendor, found.gpus[0].architecture) == ("nvidia", "8.0")
    assert [one.vendor for one in described_gpus("1", "New Card")] == ["amd", "nvidia"]
    assert {one.gpus for one in described_gpus("1", "")} == {()}
    for model, architecture in (("NVIDIA GB300", "10.3"), ("NVIDIA B300 SXM6", "10.3"), ("NVIDIA RTX A6000", "8.6")):
        assert described_gpus("580.82.07", model)[0].gpus == (Gpu(model, architecture),)
