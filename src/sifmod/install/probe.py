"""Version and packages of an image's Python, found by running it."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from packaging.utils import canonicalize_name
from packaging.version import Version

from sifmod.container.spec import PythonLayout
from sifmod.errors import ImageError, InstallError
from sifmod.host.command import LOOK_IN_CONTAINER
from sifmod.host.runtime import ContainerRuntime
from sifmod.resources import program
from sifmod.text.package import PYTHON_VERSION, is_package
from sifmod.text.printable import shortened

# pip's isolated build environments read PIP_CONSTRAINT too, and a package may need a newer version of one of these.
_BUILD_TOOLS = frozenset(
    {
        "build",
        "cmake",
        "cython",
        "flit-core",
        "hatchling",
        "maturin",
        "meson",
        "meson-python",
        "ninja",
        "packaging",
        "pdm-backend",
        "pip",
        "poetry-core",
        "pybind11",
        "scikit-build",
        "scikit-build-core",
        "setuptools",
        "setuptools-rust",
        "setuptools-scm",
        "versioneer",
        "wheel",
    }
)


@dataclass(frozen=True)
class PythonFacts:
    """The Python of an image: `major.minor`, and name and version of each distribution, sorted, without duplicates."""

    version: str
    packages: tuple[tuple[str, str], ...]

    @property
    def constraints(self) -> str:
        """The text of a pip constraints file that pins every package of the image except build tools."""
        return _pins(one for one in self.packages if canonicalize_name(one[0]) not in _BUILD_TOOLS)

    @property
    def all_constraints(self) -> str:
        """The same with build tools, for pip runs that build nothing."""
        return _pins(self.packages)


def _pins(packages: Iterable[tuple[str, str]]) -> str:
    return "".join(f"{name}=={version}\n" for name, version in packages if _is_pinnable(name, version))


def _is_pinnable(name: str, version: str) -> bool:
    """Return whether pip understands `name==version`; distributions of Linux have versions such as 1.1build1."""
    try:
        Version(version)
    except ValueError:  # a number with thousands of digits is one too
        return False
    return is_package(name, version)


def facts_from_answer(answer: str) -> PythonFacts:
    """Parse the output of `inside/probe.py`; of several versions of a package, Python imports the first.

    The output comes from the image and is not trusted. The version becomes part of file names, so it must have the
    form `major.minor`. A package whose name or version is malformed is left out, because pip could not use it.
    """
    try:
        facts = json.loads(answer)
        python, packages = facts["version"], [(name, version) for name, version in facts["packages"]]
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise ValueError(f"its output is {shortened(repr(answer), 80)}, not version and packages") from error
    if not isinstance(python, str) or not PYTHON_VERSION.fullmatch(python):
        raise ValueError(f"its version is {shortened(repr(python), 80)}, not a number such as 3.11")
    first: dict[str, tuple[str, str]] = {}
    for name, version in packages:
        if is_package(name, version):
            first.setdefault(canonicalize_name(name), (name, version))
    return PythonFacts(version=python, packages=tuple(first[key] for key in sorted(first)))


def probe_python(runtime: ContainerRuntime, image: Path, python: PythonLayout) -> PythonFacts:
    """Return version and packages of the Python of an image; ImageError names a path where there is none."""
    try:
        # -I: the user's own packages and PYTHONPATH don't belong to the image.
        command = [python.executable, "-I", "-"]
        facts = facts_from_answer(runtime.run(image, command, stdin=program("probe"), time_limit=LOOK_IN_CONTAINER))
    except (InstallError, ValueError) as error:
        parameter = "conda_root and conda_env" if python.conda_env else "python_prefix"
        raise ImageError(
            f"the image '{image.name}' has no working Python at {python.executable} (from {parameter} in the "
            f"easyconfig): {error}"
        ) from error
    return facts
