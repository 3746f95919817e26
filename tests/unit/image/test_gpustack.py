"""GPU and MPI libraries."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Optional

import pytest

from sifmod.image.files import SandboxFiles
from sifmod.image.gpustack import Component, Torch, demanded, find_compat, find_components, find_drivers, find_torch
from sifmod.image.python import find_pythons
from sifmod.image.system import system_packages

from ..imagetrees import distribution, link, python_prefix, write
from .test_fatbin import SASS, container, library

SITE = "/opt/conda/lib/python3.11/site-packages"


def look(top: Path, **environment: str) -> tuple[list[Torch], tuple[Component, ...]]:
    files = SandboxFiles(top)
    pythons = find_pythons(files)
    torches = [one for one in (find_torch(files, python, environment) for python in pythons) if one]
    packages = system_packages(files)
    components = find_components(files, pythons=pythons, torches=torches, environment=environment, packages=packages)
    return torches, components


def versions(components: Iterable[Component], name: str) -> list[tuple[str, str]]:
    return [(one.version, one.where) for one in components if one.name == name]


def test_cuda_by_nvidias_files_and_variables(top: Path) -> None:
    write(top, "/usr/local/cuda-12.4/version.json", '{"cuda": {"name": "CUDA SDK", "version": "12.4.1"}}')
    write(
        top,
        "/usr/include/nccl.h",
        '#define NCCL_MAJOR 2\n#define NCCL_MINOR 21\n#define NCCL_PATCH 5\n#define NCCL_SUFFIX ""\n',
    )
    _, components = look(top, CUDA_VERSION="12.4.1", NCCL_VERSION="2.21.5-1")
    assert versions(components, "CUDA") == [
        ("12.4.1", "$CUDA_VERSION"),
        ("12.4.1", "/usr/local/cuda-12.4/version.json"),
    ]
    assert versions(components, "NCCL") == [("2.21.5-1", "$NCCL_VERSION"), ("2.21.5", "/usr/include/nccl.h")]


def test_old_cuda_and_conda(top: Path) -> None:
    write(top, "/usr/local/cuda/version.txt", "CUDA Version 10.2.89\n")
    python_prefix(top, "/opt/conda", conda=["cudatoolkit-10.2.89-h8f6ccaa_8", "mpich-4.1.1-h846660c_100"])
    _, components = look(top)
    assert ("10.2.89", "conda package cudatoolkit of /opt/conda") in versions(components, "CUDA")
    assert ("4.1.1", "conda package mpich of /opt/conda") in versions(components, "MPICH")
    assert ("4.0.2", "system package mpich") in versions(components, "MPICH")


def test_pytorch_for_rocm_with_its_architectures(top: Path) -> None:
    python_prefix(top, "/opt/conda", conda=["x-1-0"], packages=[("torch", "2.2.0+rocm5.6")])
    write(
        top,
        f"{SITE}/torch/version.py",
        "cuda: Optional[str] = None\nhip: Optional[str] = '5.6.31061-8c743ae5d'\n",
    )
    for name in (
        "TensileLibrary_gfx90a.co",
        "Kernels.so-000-gfx942.hsaco",
        "TensileLibrary_lazy_gfx90a.dat",
        "gfx1100x.co",
    ):
        write(top, f"{SITE}/torch/lib/rocblas/library/{name}")
    write(top, "/opt/rocm-5.6.1/.info/version", "5.6.1-93\n")
    write(top, "/opt/rocm/include/rccl/rccl.h", "#define NCCL_MAJOR 2\n#define NCCL_MINOR 15\n#define NCCL_PATCH 5\n")
    (torch,), components = look(top)
    assert (torch.prefix, torch.version, torch.cuda, torch.hip) == (
        "/opt/conda",
        "2.2.0+rocm5.6",
        "",
        "5.6.31061-8c743ae5d",
    )
    assert torch.architectures == ("gfx90a", "gfx942")
    assert ("5.6.1", "/opt/rocm-5.6.1/.info/version") in versions(components, "ROCm")
    assert ("2.15.5", "/opt/rocm/include/rccl/rccl.h") in versions(components, "RCCL")


def test_pytorch_for_cuda_in_a_virtual_environment_on_the_system(top: Path) -> None:
    python_prefix(top, "/opt/venv", config="home = /usr/bin\ninclude-system-site-packages = true\n")
    folder = "/usr/local/lib/python3.11/dist-packages"
    distribution(top, folder, "torch", "2.3.0a0+40ec155e58.nv24.3")
    distribution(top, folder, "nvidia-nccl-cu12", "2.20.5")
    write(top, f"{folder}/torch/version.py", "cuda = '12.4'\nhip = None\n")
    torches, components = look(top, TORCH_CUDA_ARCH_LIST="5.2 6.0 8.6 9.0+PTX nonsense")
    assert {torch.architectures_from for torch in torches} == {"$TORCH_CUDA_ARCH_LIST"}
    assert [torch.prefix for torch in torches] == ["/opt/venv", "/usr"]
    assert {torch.architectures for torch in torches} == {("5.2", "6.0", "8.6", "9.0+PTX")}
    assert ("2.20.5", "pip package nvidia-nccl-cu12 of /usr") in versions(components, "NCCL")


@pytest.mark.parametrize(
    ("version", "cuda", "hip"), [("2.2.0+cu121", "12.1", ""), ("2.2.0+rocm5.6", "", "5.6"), ("2.2.0", "", "")]
)
def test_without_its_files_pytorchs_version_says_what_it_is_for(top: Path, version: str, cuda: str, hip: str) -> None:
    python_prefix(top, "/opt/conda", packages=[("torch", version)])
    (torch,), _ = look(top)
    assert (torch.cuda, torch.hip, torch.architectures) == (cuda, hip, ())


def test_open_mpi_by_its_header(top: Path) -> None:
    write(
        top,
        "/opt/ompi/include/mpi.h",
        "#define OMPI_MAJOR_VERSION 4\n#define OMPI_MINOR_VERSION 1\n#define OMPI_RELEASE_VERSION 6\n",
    )
    _, components = look(top)
    assert versions(components, "Open MPI") == [("4.1.6", "/opt/ompi/include/mpi.h")]


@pytest.mark.parametrize(
    ("cuda", "hip", "stack", "built_for"),
    [("12.1", "", "CUDA", "CUDA 12.1"), ("", "5.6.3", "ROCm", "HIP 5.6.3"), ("", "", "", "")],
)
def test_pytorch_is_built_for_one_stack(cuda: str, hip: str, stack: str, built_for: str) -> None:
    torch = Torch("/usr", "2.2.0", cuda, hip, (), "")
    assert (torch.stack, torch.built_for) == (stack, built_for)


@pytest.mark.parametrize("text", ["", "{", "[]", '{"cuda": 3}', "[" * 100_000])
def test_a_version_file_that_is_none_does_no_harm(top: Path, text: str) -> None:
    write(top, "/usr/local/cuda/version.json", text)
    assert versions(look(top)[1], "CUDA") == []


def test_what_pytorchs_library_was_compiled_for_counts_before_variables(top: Path) -> None:
    python_prefix(top, "/opt/conda", packages=[("torch", "2.2.0+cu121")])
    write(top, f"{SITE}/torch/version.py", "cuda = '12.1'\n")
    path = write(top, f"{SITE}/torch/lib/libtorch_cuda.so")
    path.write_bytes(library(container((SASS, 80, b"x" * 8), (SASS, 90, b"x" * 8))))
    (torch,), _ = look(top, TORCH_CUDA_ARCH_LIST="5.2")
    assert (torch.architectures, torch.architectures_from) == (("8.0", "9.0"), f"{SITE}/torch/lib/libtorch_cuda.so")


def test_compat_libraries_are_found_once_by_whatever_name_the_newest_first(top: Path) -> None:
    for folder, version in (("cuda-12.4/compat", "550.54.15"), ("cuda-12.8/compat/lib.real", "570.86.15")):
        write(top, f"/usr/local/{folder}/libcuda.so.{version}")
        link(top, f"/usr/local/{folder}/libcuda.so.1", f"libcuda.so.{version}")
    link(top, "/usr/local/cuda", "cuda-12.8")
    link(top, "/usr/local/cuda-12.8/compat/lib", "lib.real")
    found = find_compat(SandboxFiles(top))
    assert [one.version for one in found] == ["570.86.15", "550.54.15"]
    assert [one.where.split("/")[-1] for one in found] == ["lib", "compat"]


@pytest.mark.parametrize(
    "name", ["libcuda.so." + "5" * 1000, "libcuda.so.570.1;touch evil", "libcuda.so.570.$(id)", "libcuda.so.57.1", "x"]
)
def test_other_names_are_no_compat_libraries(top: Path, name: str) -> None:
    folder = "/usr/local/cuda/compat"
    if len(name) < 255:
        write(top, f"{folder}/{name}")
    write(top, f"{folder}/libcuda.so.1")
    assert find_compat(SandboxFiles(top)) == ()


ENV = "/.singularity.d/env/90-environment.sh"
LIBRARY = "/opt/x/libnvidia-ml.so.1"


@pytest.mark.parametrize(
    ("files", "drivers"),
    [
        ({LIBRARY: "", "/usr/local/cuda/compat/libcuda.so.1": "", "/usr/lib/libcudart.so.12": ""}, ()),
        ({LIBRARY: "", ENV: "export LD_LIBRARY_PATH=/opt/x:$LD_LIBRARY_PATH"}, (LIBRARY,)),
        ({LIBRARY: "", ENV: 'export LD_LIBRARY_PATH="${LD_LIBRARY_PATH:-"/opt/x:/opt/y"}"'}, (LIBRARY,)),
        ({LIBRARY: "", "/environment": "LD_LIBRARY_PATH=/opt/x"}, (LIBRARY,)),
        ({LIBRARY: "", ENV: "LD_LIBRARY_PATH=$(find-cuda)"}, None),
        ({LIBRARY: "", ENV: "LD_LIBRARY_PATH=/opt/x${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"}, None),
        ({LIBRARY: "", ENV: ". /opt/conda/etc/profile.d/conda.sh"}, None),
        ({LIBRARY: "", "/etc/ld.so.conf": "/opt/x # of NVIDIA\n"}, (LIBRARY,)),
        ({LIBRARY: "", "/etc/ld.so.conf": "include a/*.conf /b\n", "/etc/a/x.conf": "/opt/x"}, (LIBRARY,)),
        ({LIBRARY: "", "/etc/ld.so.conf": "include a/*.conf\n", "/etc/a/x.conf": "include ../ld.so.conf"}, ()),
        ({LIBRARY: "", "/etc/ld.so.conf.d/x.conf": "/opt/x"}, ()),
        *(
            ({f"/usr/lib/x86_64-linux-gnu/{name}": ""}, (f"/usr/lib/x86_64-linux-gnu/{name}",))
            for name in ("libcuda.so", "libnvcuvid.so.1", "libEGL_nvidia.so.0", "libGLX_nvidia.so.470.1")
        ),
        ({"/usr/lib64/libnvidia-container.so.1": "", "/usr/lib64/libnvidia-container-go.so.1": ""}, ()),
        ({"/usr/lib64/libGLdispatch.so.0": "", "/usr/lib64/libEGL.so.1": ""}, ()),
    ],
)
def test_drivers_on_search_paths(tmp_path: Path, files: Mapping[str, str], drivers: Optional[tuple[str, ...]]) -> None:
    for path, text in files.items():
        write(tmp_path, path, text)
    assert find_drivers(SandboxFiles(tmp_path)) == drivers


def test_compat_libraries_behind_a_link_out_of_the_image_are_none_of_its_own(top: Path, tmp_path: Path) -> None:
    """Links end in the image, as in the container."""
    outside = tmp_path / "outside"
    for name in ("libcuda.so.1", "libcuda.so.570.86.15"):
        write(outside, name)
    link(top, "/usr/local/cuda/compat", outside)
    link(top, "/usr/local/cuda-12/compat", f"{'../' * 20}{str(outside)[1:]}")
    assert find_compat(SandboxFiles(top)) == ()


def test_the_image_s_own_demand_in_words() -> None:
    brands = "brand=tesla,driver>=470,driver<471 brand=nvidia,driver>=470,driver<471 brand=tesla,driver>=535,driver<536"
    expected = "a driver for CUDA 12.8, or of branch 470, 535 with its compat libraries"
    assert demanded({"NVIDIA_REQUIRE_CUDA": f"cuda>=12.8 {brands}"}) == expected
    assert demanded({"NVIDIA_REQUIRE_CUDA": "cuda>=13.0"}) == "a driver for CUDA 13.0"
    assert demanded({"NVIDIA_REQUIRE_CUDA": f"{brands} cuda>=12.8"}) == expected
    assert demanded({"NVIDIA_REQUIRE_CUDA": "arch>=7.0 cuda>=13"}) == "a driver for CUDA 13"
    for text in ("", "cuda>=" + "1" * 5000, "brand=tesla", "cuda>=\x1b[31m"):
        assert demanded({"NVIDIA_REQUIRE_CUDA": text}) == ""


def test_cudart_by_the_name_of_its_file(top: Path) -> None:
    write(top, "/usr/local/cuda-12.8/targets/x86_64-linux/lib/libcudart.so.12.8.90")
    link(top, "/usr/local/cuda-12.8/lib64", "targets/x86_64-linux/lib")
    _, components = look(top)
    assert versions(components, "cudart") == [("12.8.90", "/usr/local/cuda-12.8/lib64/libcudart.so.12.8.90")]
