"""What the table of vendors answers."""

import pytest

from sifmod.container.gpu import VENDORS, vendor_of

AMD, NVIDIA = VENDORS["amd"], VENDORS["nvidia"]


@pytest.mark.parametrize(
    ("stacks", "vendor"),
    [((), ""), (("MPICH",), ""), (("CUDA", "NCCL"), "nvidia"), (("ROCm",), "amd"), (("CUDA", "ROCm"), "amd")],
)
def test_a_stack_tells_the_vendor(stacks: tuple[str, ...], vendor: str) -> None:
    assert vendor_of(stacks) == vendor


@pytest.mark.parametrize(
    ("cuda", "driver"), [("12", "525.60.13"), ("11.8.0", "450.80.02"), ("9.0", "384.81"), ("3.0", ""), ("", "")]
)
def test_the_oldest_driver_of_a_release(cuda: str, driver: str) -> None:
    assert NVIDIA.oldest_driver(cuda) == driver
    assert AMD.oldest_driver(cuda) == ""


def test_the_driver_that_an_image_needs_in_words() -> None:
    assert NVIDIA.driver_for("12.4.1") == "NVIDIA 525.60.13 or later, for CUDA 12.4.1"
    assert NVIDIA.driver_for("99.0") == ""
    assert AMD.driver_for("5.6.1") == (
        "amdgpu of ROCm 5.6.1 or of a release near it, as AMD's compatibility matrix says"
    )
    assert AMD.driver_for("") == NVIDIA.driver_for("") == ""


@pytest.mark.parametrize(
    ("driver", "rocm", "between"), [("6.3.6", "6.0.2", 0), ("6.3.6", "5.7", 1), ("6.3.6", "9.9", -1), ("1", "6.0", -1)]
)
def test_releases_between_a_driver_and_programs(driver: str, rocm: str, between: int) -> None:
    assert AMD.releases_between(driver, rocm) == between


def test_every_entry_is_whole() -> None:
    for key, vendor in VENDORS.items():
        assert key == vendor.key
        assert vendor.device.startswith("/dev/")
        assert vendor.visibility
        assert vendor.tool
        assert vendor.queries
        assert set(vendor.driver_releases.values()) <= set(vendor.releases)


def test_of_drivers_that_differ_between_the_gpus_of_a_node_the_oldest_counts() -> None:
    said = "NVIDIA A100, 580.82.07, 8.0\nNVIDIA A100, 535.104.05, 8.0\nNVIDIA A100, [N/A], 8.0\n"
    assert NVIDIA.read(said)[0] == "535.104.05"
    assert NVIDIA.read("NVIDIA A100, [N/A]\n") == ("", (("NVIDIA A100", ""),))
