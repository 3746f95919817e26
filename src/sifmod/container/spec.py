"""The validated description of one container: the parameters of an easyconfig, checked before anything is written."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any, Optional

from sifmod import names
from sifmod.advice.advisory import Advisory
from sifmod.container.bind import UNBINDABLE, Bind, is_bindable
from sifmod.container.gpu import COMPATS, LIBRARIES, VENDORS, Vendor, uses_compat
from sifmod.container.naming import Naming
from sifmod.container.parameters import INHERITED, read_parameters
from sifmod.container.wrappers import read_wrappers
from sifmod.errors import ParameterError
from sifmod.text import quoting

DEFAULT_CONDA_ROOT = "/opt/miniconda3"
DEFAULT_WRAPPERS = ("python", "pip")


def conda_prefix(root: str, env: str) -> str:
    """Return the prefix in the image of an environment of a conda installation."""
    return root if env == "base" else f"{root}/envs/{env}"


@dataclass(frozen=True)
class PythonLayout:
    """The Python of the image that the module provides."""

    prefix: str  # its `sys.prefix` in the image, such as `/usr` or `/opt/miniconda3/envs/pytorch`
    conda_root: str = ""  # root of the conda installation; empty if the Python is not a conda environment
    conda_env: str = ""  # name of the conda environment; empty if the Python is not one

    @property
    def executable(self) -> str:
        """Path of the interpreter in the image."""
        return f"{self.prefix}/bin/python3"

    @property
    def activation(self) -> str:
        """The command that activates the conda environment in a shell of the container; empty if there is none."""
        return f"source {self.conda_root}/bin/activate {self.conda_env}" if self.conda_env else ""


@dataclass(frozen=True)
class Base:
    """An installation whose user software is below that of a container, as it was when the container was installed."""

    module: str  # name of its module
    root: str  # its installation directory
    venv: str  # name of its virtual environment; empty if it has no user software
    python_version: str  # `major.minor` of its Python; empty if it has none
    image_id: str  # the identifier in the header of its image
    settings: str = ""  # SHA-256 of its parameters that others take over; empty if it was not recorded


@dataclass(frozen=True)
class ContainerSpec:
    """One container as a module, independent of the site."""

    name: str  # name of the software
    version: str  # its full version, including prefix and suffix
    env_name: str  # EasyBuild's conversion of the name, as in `EBROOT<NAME>` and `SIF<NAME>`
    installdir: str  # absolute path of the installation directory
    sif: str  # file name of the image in it
    image_mode: str = "copy"  # `copy`, `link` (reflink, else hard link, else copy) or `central` (used where it is)
    image: str = ""  # absolute path of the source image; empty until EasyBuild has found it
    is_unpacked: bool = False  # whether the image is a directory, which is used where it is
    image_labels: str = ""  # the labels of such an image; empty if modules can't compare them
    image_size: int = 0  # its size in bytes; 0 until it was installed
    image_id: str = ""  # the identifier in its header; empty until it was installed
    image_sha256: str = ""  # its SHA-256; empty until it was installed, and if it was linked and not read
    # file name of its SquashFS, for runtimes that start no SIFs, in the installation, or absolute path of that of a
    # base; empty if there is none
    squashfs: str = ""
    definition_files: tuple[str, ...] = ()  # files kept in share/docker-defs/ for reference
    # names and exact versions of distributions that the container's Python must have
    expected_packages: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    python: Optional[PythonLayout] = None  # the Python of the image; None if the module provides no Python
    python_version: str = ""  # `major.minor` of that Python; empty until it was read from the image
    venv: str = ""  # name of the virtual environment; empty if there is no user software
    wrappers: tuple[str, ...] = ()  # names of host commands that run a command in the container
    # the words of that command by name; without an entry it has the same name, and no arguments
    wrapper_commands: Mapping[str, tuple[str, ...]] = field(default_factory=lambda: MappingProxyType({}))
    bases: tuple[Base, ...] = ()  # the installations that it builds on, the nearest first
    # values of `INHERITED`, for modules that build on it
    inheritable: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}))
    user_commands: bool = True  # whether commands that users install are host commands too
    binds: tuple[Bind, ...] = ()  # bind paths for this container, in addition to the site's
    # variables for this container, in addition to the site's; None removes one of the site's
    container_env: Mapping[str, Optional[str]] = field(default_factory=lambda: MappingProxyType({}))
    # names of the site's features, in addition to its default ones; `-NAME` takes one away
    features: tuple[str, ...] = ()
    gpu: str = ""  # GPU vendor, a key of `VENDORS`; empty for a container without GPU support
    # whose libraries programs use on its GPUs: `host`, for which the runtime brings them, or `image`
    gpu_libraries: str = "host"
    # whether the image has driver libraries of its own where its programs search; true if that is not known
    has_drivers: bool = True
    # whether CUDA's compat libraries in the image are used where they can be: `auto`, or `never`
    cuda_compat: str = "auto"
    mpi: str = ""  # whose MPI programs use, one of `MPIS`; empty if that was not said, or if there is none
    # variables that MPI needs with the runtime of this host; empty until it was installed
    mpi_env: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    # the site's features that its programs can't use, each with the reason; empty until installed
    unusable_features: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    # the image's locales in UTF-8; empty if these are not known, or until it was installed
    locales: tuple[str, ...] = ()
    # whether the tasks of a Slurm step on a node share one container; a variable overrides it
    share_container: bool = False
    launch: str = "exec"  # `exec`, or `run` for images that need their entry point
    # requirements that pip installs into the virtual environment at install time
    pip_requirements: tuple[str, ...] = ()
    pack_user_software: bool = False  # whether to pack the user software at the end of the install
    pip_constraints: bool = True  # whether pip must keep the versions of the image's own packages
    module_family: str = "container"  # Lmod family of the module; empty if several such modules may be loaded together
    naming: Optional[Naming] = None  # EasyBuild's names for it; None if EasyBuild has not named it
    advisories: tuple[Advisory, ...] = ()  # known problems of it that modules tell; empty until the image was read

    @property
    def module(self) -> str:
        """Name of the module, as for `module load`."""
        return self.naming.module if self.naming else f"{self.name}/{self.version}"

    @property
    def image_path(self) -> str:
        """Absolute path of the image that modules and scripts name first."""
        return self.image if self.is_unpacked else f"{self.installdir}/{self.sif}"

    @property
    def vendor(self) -> Optional[Vendor]:
        """The vendor of its GPUs; None if `gpu` is empty."""
        return VENDORS.get(self.gpu)

    @property
    def runtime_gpu(self) -> Optional[Vendor]:
        """The vendor whose support in the runtime is turned on; None if no GPU or no library of the host is needed."""
        return self.vendor if self.gpu_libraries == "host" else None

    @property
    def host_libraries_first(self) -> bool:
        """Whether the host's libraries for GPUs must hide the image's; not with a site's module, for any image.

        Where the image has no driver of its own, they would only hide its other libraries, such as OpenGL's.
        """
        vendor = self.runtime_gpu
        return bool(vendor and self.sif and (self.has_drivers or not vendor.driver_library))

    @property
    def uses_compat(self) -> bool:
        """Whether the image's compat libraries may be used, where node and vendor allow it."""
        return uses_compat(vars(self))

    def command_of(self, wrapper: str) -> tuple[str, ...]:
        """Return the words of the command that a wrapper runs in the container."""
        return self.wrapper_commands.get(wrapper, (wrapper,))

    def feature_changes(self, known: Collection[str]) -> tuple[str, ...]:
        """Return `features`, with what `mpi` says of the site's feature of this name, and without the unusable ones."""
        changes = [*self.features]
        if self.mpi:
            changes.append(names.MPI_FEATURE if self.mpi == "host" else f"-{names.MPI_FEATURE}")
        changes += [f"-{name}" for name in self.unusable_features]
        return tuple(change for change in changes if change in self.features or change.lstrip("-") in known)

    @property
    def bases_below(self) -> tuple[Base, ...]:
        """The installations whose user software containers see below their own."""
        return tuple(base for base in self.bases if self.venv and base.venv == self.venv)

    @property
    def venv_path(self) -> str:
        """Path of the virtual environment in the container; empty if there is none."""
        return f"{names.USER_SOFTWARE}/venv/{self.venv}" if self.venv else ""

    @property
    def interpreter(self) -> str:
        """Path of the users' interpreter in the container; empty if there is none."""
        if self.venv:
            return f"{self.venv_path}/bin/python"
        return self.python.executable if self.python else ""


def squashfs_name(sif: str) -> str:
    """Return the file name of the SquashFS that belongs to a SIF: `demo.sqsh` to `demo.sif`."""
    return f"{sif[:-4] if sif.endswith('.sif') and sif != '.sif' else sif}.sqsh"


def reinstalling(installdir: object) -> str:
    """Return the command that installs a container again, from the easyconfig in its installation directory."""
    return f"eb --rebuild {quoting.shell(installdir)}/easybuild/*.eb"


def image_is_gone(image: object, *, is_unpacked: bool = False) -> str:
    """Return the message for an image that is neither in the installation nor in the site's repositories."""
    if is_unpacked:
        return f"the directory '{image}', the image, is not there: its file system may not be mounted on this node"
    return f"the image '{image}' is gone, and the site has no copy of it"


def spec_from_parameters(
    *, name: str, version: str, env_name: str, installdir: str, sif: str, parameters: Mapping[str, Any]
) -> ContainerSpec:
    """Validate the parameters of an easyconfig and return the description of its container.

    The other arguments are fields of `ContainerSpec`. A parameter that is None is not set.

    Raises:
        ParameterError: a value is invalid; the message names parameter, value and remedy.
    """
    _check_names(name=name, version=version, env_name=env_name, installdir=installdir, sif=sif)
    values = read_parameters(parameters)
    python = _python(values)
    _check_together(values, python)
    gpu = values["gpu"]
    wrappers = values["wrappers"]
    if wrappers is None:
        wrappers = read_wrappers(DEFAULT_WRAPPERS if python else ())
    return ContainerSpec(
        name=name,
        version=version,
        env_name=env_name,
        installdir=installdir,
        sif=sif,
        image_mode=values["image_mode"],
        definition_files=values["definition_files"],
        expected_packages=values["expected_packages"],
        python=python,
        venv=values["venv"],
        wrappers=tuple(wrappers),
        wrapper_commands=MappingProxyType({name: words for name, words in wrappers.items() if words != (name,)}),
        inheritable=MappingProxyType(
            {name: parameters[name] for name in INHERITED if parameters.get(name) is not None}
        ),
        user_commands=values["user_commands"] and bool(values["venv"]),
        binds=values["binds"],
        container_env=values["container_env"],
        features=values["features"],
        gpu=gpu,
        gpu_libraries=values["gpu_libraries"] or (VENDORS[gpu].libraries if gpu else LIBRARIES[0]),
        cuda_compat=values["cuda_compat"] or COMPATS[0],
        mpi=values["mpi"],
        share_container=values["share_container"],
        launch=values["launch"],
        pip_requirements=values["pip_requirements"],
        pack_user_software=values["pack_user_software"],
        pip_constraints=values["pip_constraints"],
        module_family=values["module_family"],
    )


def _check_names(*, name: str, version: str, env_name: str, installdir: str, sif: str) -> None:
    """Check what becomes part of paths and of names of variables."""
    for parameter, value in (("name", name), ("version", version)):
        if {".", ".."} & set(value.split("/")) or re.search(r"[\x00-\x1f\x7f]", value):
            raise ParameterError(
                parameter, value, "it becomes part of paths: use neither '.' or '..' as a folder nor control characters"
            )
    if not re.fullmatch(r"[A-Za-z0-9_]+", env_name):
        raise ParameterError(
            "name", name, f"'SIF{env_name}' can't be the name of a variable: use letters, digits, '_', '.', '+' and '-'"
        )
    if not Path(installdir).is_absolute() or not is_bindable(installdir):
        raise ParameterError("installdir", installdir, f"choose another installation path: {UNBINDABLE}")
    if not sif or re.search(r"[/\\\x00-\x1f\x7f-\x9f]", sif) or sif.startswith(("-", ".")):
        raise ParameterError("sources", sif, "use the file name of a SIF, without folders or a leading dot or dash")
    if sif in names.INSTALLED or sif.startswith(names.USERS):
        raise ParameterError("sources", sif, "sifmod uses this name for another file: rename the image")


def _check_together(values: Mapping[str, Any], python: Optional[PythonLayout]) -> None:
    """Check what a parameter needs of others."""
    venv, requirements, packages = values["venv"], values["pip_requirements"], values["expected_packages"]
    if venv and not python:
        raise ParameterError("venv", venv, "a virtual environment needs a Python: set conda_env or python_prefix")
    if requirements and not venv:
        raise ParameterError("pip_requirements", list(requirements), "set venv, the virtual environment for them")
    if values["pack_user_software"] and not venv:
        raise ParameterError(
            "pack_user_software", True, "there is nothing to pack without venv: set venv, or remove this parameter"
        )
    if packages and not python:
        raise ParameterError(
            "expected_packages", dict(packages), "packages need a Python: set conda_env or python_prefix"
        )


def _python(values: Mapping[str, Any]) -> Optional[PythonLayout]:
    root, env, prefix = values["conda_root"], values["conda_env"], values["python_prefix"]
    if prefix and (root or env):
        raise ParameterError("python_prefix", prefix, "remove conda_root and conda_env, or remove this parameter")
    if prefix:
        return PythonLayout(prefix=prefix)
    if root and not env:
        raise ParameterError("conda_root", root, "also set the conda environment, such as conda_env = 'base'")
    if not env:
        return None
    root = root or DEFAULT_CONDA_ROOT
    return PythonLayout(prefix=conda_prefix(root, env), conda_root=root, conda_env=env)
