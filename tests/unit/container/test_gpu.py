"""What the table of vendors answers."""

from typing import Optional

import pytest

from sifmod.container.gpu import SETUPS, VENDORS, vendor_of

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
    ("driver", "rocm", "is_near"),
    [
        ("6.3.6", "6.0.2", True),
        ("6.3.6", "5.6", True),
        ("6.3.6", "5.5", False),
        ("6.3.6", "9.9", None),
        ("1", "6.0", None),
        ("6.16.6", "6.4.1", True),
        ("6.16.6", "6.3", False),
        ("6.16.13", "6.3.4", True),  # of 30.30, further back than two releases
        ("6.16.13", "6.2", False),
        ("6.10.5", "7.2", False),
    ],
)
def test_a_driver_supports_releases_near_its_own(driver: str, rocm: str, is_near: Optional[bool]) -> None:
    assert AMD.is_near(driver, rocm) is is_near


def test_a_site_s_way_to_give_gpus_is_the_vendor_s_option_where_it_has_no_other() -> None:
    assert SETUPS == ("rocm", "nv", "cdi", "nvccli")
    assert [AMD.setup(name).variable for name in ("", "rocm", "nv", "nvccli")] == ["_ROCM"] * 4
    assert [NVIDIA.setup(name).variable for name in ("", "nv", "rocm", "nvccli")] == ["_NV", "_NV", "_NV", "_NVCCLI"]
    for vendor in (AMD, NVIDIA):
        setup = vendor.setup("cdi")
        assert (setup.variable, setup.device.endswith("/gpu=all"), vendor.key in setup.device) == ("", True, True)
        assert "--device" in vendor.switch("cdi")


def test_every_entry_is_whole() -> None:
    for key, vendor in VENDORS.items():
        assert key == vendor.key
        assert vendor.device.startswith("/dev/")
        assert vendor.visibility
        assert vendor.tool
        assert vendor.queries
        assert {*vendor.driver_releases.values(), *vendor.oldest_releases.values()} <= {*vendor.releases}
        assert {*vendor.oldest_releases} <= {*vendor.driver_releases.values()}


def test_of_drivers_that_differ_between_the_gpus_of_a_node_the_oldest_counts() -> None:
    said = "NVIDIA A100, 580.82.07, 8.0\nNVIDIA A100, 535.104.05, 8.0\nNVIDIA A100, [N/A], 8.0\n"
    assert NVIDIA.read(said)[0] == "535.104.05"
    assert NVIDIA.read("NVIDIA A100, [N/A]\n") == ("", (("NVIDIA A100", ""),))
