from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Optional

import pytest

from sifmod.doctor.gpu import check_gpus, runs_on
from sifmod.finding import NOTE, OK, PROBLEM, WARNING, Finding
from sifmod.host.gpus import Gpu, HostGpus
from sifmod.host.runtime import Release
from sifmod.image.gpustack import CUDA, ROCM, Component, Torch
from sifmod.image.inspection import Inspection

A100 = HostGpus("nvidia", "535.104.05", (Gpu("NVIDIA A100", "8.0"), Gpu("NVIDIA A100", "8.0")))
K40 = HostGpus("nvidia", "440.33.01", (Gpu("Tesla K40m", "3.5"),))
MI250 = HostGpus("amd", "6.3.6", (Gpu("AMD Instinct MI250X", "gfx90a"),))


def an_image(*, cuda: str = "", rocm: str = "", built: Collection[str] = ()) -> Inspection:
    components = [Component(name, version, "x") for name, version in ((CUDA, cuda), (ROCM, rocm)) if version]
    torch = (Torch("/opt/conda", "2.2.0", cuda, rocm, tuple(built), "x"),) if built else ()
    return Inspection("x.sif", "SIF", components=tuple(components), torch=torch)


def check(
    hosts: Sequence[HostGpus],
    image: Inspection,
    vendor: Optional[str] = None,
    libraries: str = "",
    uses_compat: bool = True,
) -> dict[str, Finding]:
    found = check_gpus(hosts, image, vendor=vendor, libraries=libraries, uses_compat=uses_compat)
    return {finding.topic: finding for finding in found}


@pytest.mark.parametrize(
    ("image", "libraries", "severity", "says"),
    [
        (an_image(rocm="6.2"), "host", OK, "'host': --rocm brings the host's"),
        (an_image(rocm="6.2"), "", OK, "'image': --rocm is off"),
        (an_image(cuda="12.4"), "", OK, "'host': --nv brings the host's"),
        (an_image(cuda="12.4"), "image", WARNING, "'image': --nv is off"),
    ],
)
def test_whose_libraries_are_used_is_said(image: Inspection, libraries: str, severity: str, says: str) -> None:
    finding = check([], image, libraries=libraries)["GPU libraries"]
    assert (finding.severity, says in finding.what) == (severity, True)
    assert ("libcuda.so.1" in finding.why) == (severity == WARNING)


def test_a_container_that_is_stated_to_be_for_no_gpus_is_not_taken_for_one_of_its_image() -> None:
    assert "driver" in check([A100], an_image(cuda="12.4.1"))["GPU driver"].what
    found = check([A100], an_image(cuda="12.4.1"), vendor="")
    assert [(one.severity, "(gpu = '')" in one.what) for one in found.values()] == [(NOTE, True)]


@pytest.mark.parametrize(("number", "severity"), [("1.4.5", OK), ("1.5.0", NOTE)])
def test_a_runtime_that_puts_the_image_s_libraries_first_is_told_not_to(number: str, severity: str) -> None:
    (finding,) = [
        finding
        for finding in check_gpus([], an_image(cuda="12.4"), vendor="nvidia", release=Release("apptainer", number))
        if finding.topic == "GPU libraries"
    ]
    assert (finding.severity, "PREPEND_LD_LIBRARY_PATH" in finding.why) == (severity, severity == NOTE)


@pytest.mark.parametrize(
    ("number", "libc", "drivers", "is_named"),
    [
        ("1.4.5", "glibc 2.17", (), True),
        ("1.4.5", "glibc 9.9", (), False),
        ("1.4.5", "glibc 2.17", ("/usr/lib64/libcuda.so.1",), False),
        ("1.4.5", "glibc 2.17", None, False),
        ("1.5.0", "glibc 2.17", (), False),
    ],
)
def test_an_image_older_than_host(number: str, libc: str, drivers: Optional[tuple[str, ...]], is_named: bool) -> None:
    image = replace(an_image(cuda="12.4"), libc=libc, drivers=drivers, os_id="rocky")
    found = check_gpus([], image, vendor="nvidia", release=Release("apptainer", number))
    finding = next(one for one in found if one.topic == "GPU libraries")
    assert (finding.severity == WARNING, libc in finding.what) == (is_named, is_named)
    assert ("export SINGULARITYENV_PREPEND_LD_LIBRARY_PATH=/usr/lib64; " in finding.remedy) == is_named


def test_a_minimal_dev_keeps_the_gpus_out_where_the_runtime_s_option_is_off() -> None:
    for vendor, libraries, is_named in (("amd", "", True), ("amd", "host", False), ("nvidia", "", False)):
        found = check_gpus([], an_image(), vendor=vendor, libraries=libraries, minimal_dev=True)
        assert any("/dev/kfd" in finding.why for finding in found) == is_named


@pytest.mark.parametrize(
    ("host", "image", "severity", "says"),
    [
        (A100, an_image(cuda="12.4.1"), OK, "needs 525.60.13"),
        (K40, an_image(cuda="10.2.89"), OK, "needs 440.33"),
        (K40, an_image(cuda="11.6"), PROBLEM, "needs 450.80.02 or later"),
        (A100, an_image(cuda="13.0"), PROBLEM, "needs 580 or later"),
        (A100, an_image(cuda="99.0"), NOTE, "is unknown"),
        (MI250, an_image(rocm="5.6.1"), OK, "belongs to ROCm 6.0"),
        (MI250, an_image(rocm="6.2.4"), OK, "belongs to ROCm 6.0"),
        (MI250, an_image(rocm="5.4.5"), WARNING, "the image has ROCm 5.4.5"),
        (replace(MI250, driver="6.16.13"), an_image(rocm="6.3"), OK, "belongs to ROCm 7.2"),
        (replace(MI250, driver="6.16.13"), an_image(rocm="6.2"), WARNING, "belongs to ROCm 7.2"),
        (MI250, an_image(rocm="9.9"), NOTE, "is unknown"),
    ],
)
def test_the_driver_is_compared_with_the_image(host: HostGpus, image: Inspection, severity: str, says: str) -> None:
    finding = check([host], image)["GPU driver"]
    assert finding.severity == severity
    assert says in finding.what
    assert bool(finding.why and finding.remedy) == (severity in (PROBLEM, WARNING))


GEFORCE = HostGpus("nvidia", "535.104.05", (Gpu("NVIDIA GeForce RTX 4090", "8.9"),))
UNSAID = HostGpus("nvidia", "535.104.05", ())


@pytest.mark.parametrize(
    ("host", "cuda", "compat", "severity", "says"),
    [
        (A100, "12.4", "", OK, "fits: driver 535.104.05 runs CUDA 12.4, which needs 525.60.13"),
        (A100, "12.4", "550.54.15", OK, "fits: driver 535.104.05 runs CUDA 12.4, which needs 525.60.13; the image's"),
        (A100, "12.4", "525.60.13", OK, "fits: driver 535.104.05 runs CUDA 12.4, which needs 525.60.13"),
        (
            A100,
            "13.0",
            "580.65.06",
            OK,
            "fits by compat: CUDA 13.0 needs 580, and beside driver 535.104.05 the image's",
        ),
        (A100, "13.0", "", PROBLEM, "the image has no compat libraries"),
        (A100, "13.0", "570.86.15", PROBLEM, "its compat libraries 570.86.15 are older than that"),
        (A100, "13.0", "525.60.13", PROBLEM, "525.60.13 are not used: they are not newer than the driver, 535.104.05"),
        (GEFORCE, "13.0", "580.65.06", PROBLEM, "NVIDIA GeForce RTX 4090 is not known to be a GPU for data centres"),
        (UNSAID, "13.0", "580.65.06", PROBLEM, "which GPU it is was not said: see --gpu"),
        (replace(A100, driver="545.23.08"), "13.0", "580.65.06", PROBLEM, "NVIDIA does not support them on driver 545"),
        (replace(A100, driver="470.82.01"), "13.0", "580.65.06", PROBLEM, "NVIDIA does not support them on driver 470"),
        (replace(A100, driver="470.82.01"), "12.8", "570.86.15", OK, "fits by compat: CUDA 12.8 needs 525.60.13"),
    ],
)
def test_compat_makes_up_for_an_old_driver(host: HostGpus, cuda: str, compat: str, severity: str, says: str) -> None:
    libraries = (Component(CUDA, compat, "/usr/local/cuda/compat"),) if compat else ()
    finding = check([host], replace(an_image(cuda=cuda), compat=libraries))["GPU driver"]
    assert finding.severity == severity
    assert says in finding.what
    assert finding.what.startswith(("fits", "does not fit, because"))


@pytest.mark.parametrize(
    ("host", "cuda", "would_do"),
    [
        (A100, "13.0", "580 or later"),
        (replace(A100, driver="470.82.01"), "12.8", "525.60.13 or later"),
        (replace(A100, driver="470.82.01"), "13.0", ""),
        (GEFORCE, "13.0", ""),
        (UNSAID, "13.0", ""),
        (K40, "11.6", ""),
    ],
)
def test_compat_libraries_are_a_remedy_where_they_would_do(host: HostGpus, cuda: str, would_do: str) -> None:
    remedy = check([host], an_image(cuda=cuda))["GPU driver"].remedy
    assert ("compat libraries" in remedy, f"with compat libraries {would_do}" in remedy) == (bool(would_do),) * 2


def test_what_is_said_of_gpus_fits_those_of_other_nodes() -> None:
    said = [check([A100], an_image(rocm="6.2"))["GPU"].what, check([A100], an_image())["GPU"].what]
    assert said == ["the image is for amd GPUs, not for NVIDIA A100", "the image is not for GPUs: no GPUs are used"]


def test_compat_libraries_that_are_switched_off_make_up_for_nothing() -> None:
    image = replace(an_image(cuda="13.0"), compat=(Component(CUDA, "580.65.06", "/usr/local/cuda/compat"),))
    for found in (check([A100], image, uses_compat=False), check([A100], image, libraries="image")):
        assert "its compat libraries are switched off" in found["GPU driver"].what


def test_the_newest_cuda_of_several_and_the_default_python_s_count() -> None:
    image = Inspection("x", "SIF", components=(Component(CUDA, "9.2", "a"), Component(CUDA, "12.1", "b")))
    assert check([K40], image)["GPU driver"].severity == PROBLEM
    several = an_image(cuda="12.1", rocm="6.0")
    torch = Torch("/usr", "2.2.0", "12.1", "", (), "")
    assert "driver 535" in check([A100], replace(several, torch=(torch,), default_python="/usr"))["GPU driver"].what
    assert "driver 6.3.6" in check([MI250], several)["GPU driver"].what


NGC_2203 = ("5.2", "6.0", "6.1", "7.0", "7.5", "8.0", "8.6+PTX")


@pytest.mark.parametrize(
    ("host", "image", "severity"),
    [
        (A100, an_image(cuda="11.6.1", built=NGC_2203), OK),
        (K40, an_image(cuda="11.6.1", built=NGC_2203), PROBLEM),
        (K40, an_image(cuda="10.2", built=("3.5", "3.7", "5.0")), OK),
        (K40, an_image(cuda="12.1"), PROBLEM),
        (MI250, an_image(rocm="6.0", built=("gfx906", "gfx90a")), OK),
        (MI250, an_image(rocm="6.0", built=("gfx906", "gfx942")), PROBLEM),
        (MI250, an_image(rocm="6.0"), OK),
    ],
)
def test_the_model_is_compared_with_what_torch_was_built_for(host: HostGpus, image: Inspection, severity: str) -> None:
    finding = check([host], image)["GPU model"]
    assert finding.severity == severity
    assert ("no kernel image" in finding.why) == (severity == PROBLEM)


@pytest.mark.parametrize(
    ("architecture", "built", "runs"),
    [
        ("8.6", ("8.0",), True),
        ("8.0", ("8.6",), False),
        ("9.0", ("8.0",), False),
        ("9.0", ("8.0+PTX",), True),
        ("3.5", ("5.2+PTX",), False),
        ("gfx90a", ("gfx90a:xnack-",), True),
        ("gfx90a", ("gfx906",), False),
        ("8.0", ("gfx90a", "nonsense"), False),
    ],
)
def test_code_runs_where_nvidia_and_amd_say(architecture: str, built: tuple[str, ...], runs: bool) -> None:
    assert runs_on(architecture, built) == runs


def test_gpus_of_another_vendor_none_and_unknown_ones_are_told_apart() -> None:
    rocm = an_image(rocm="6.0")
    assert check([A100], rocm)["GPU"].severity == PROBLEM
    assert "NVIDIA A100" in check([A100], rocm)["GPU"].what
    assert check([], rocm)["GPU"].severity == NOTE
    assert "srun" in check([], rocm)["GPU"].remedy
    assert check([A100], an_image())["GPU"].severity == NOTE
    assert check([], an_image()) == {}
    broken = HostGpus("nvidia", "", (), "No devices were found")
    assert check([broken], an_image(cuda="12.1"))["GPU"].severity == PROBLEM
    assert check([broken], an_image())["GPU"].severity == NOTE
    unknown = HostGpus("nvidia", "", (Gpu("New Card", ""),))
    found = check([unknown], an_image(cuda="12.1"))
    assert (found["GPU driver"].severity, found["GPU model"].severity) == (NOTE, NOTE)
    assert check([A100], an_image(), vendor="nvidia")["GPU driver"].severity == NOTE
