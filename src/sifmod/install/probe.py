"""What an installation needs to know from inside an image: its Python's version and packages."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from packaging.utils import InvalidName, canonicalize_name
from packaging.version import InvalidVersion, Version

from sifmod.container.spec import PythonLayout
from sifmod.errors import ImageError, InstallError
from sifmod.host.command import LOOK_IN_CONTAINER
from sifmod.host.runtime import ContainerRuntime
from sifmod.resources import program
from sifmod.text.package import PYTHON_VERSION, is_package

# pip's isolated build environments read PIP_CONSTRAINT too: a package that asks for a newer one of these must get it.
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
    """The Python of an image as it was found.

    Attributes:
        version: `major.minor`.
        packages: name and version of each distribution, sorted by name, each name once.
    """

    version: str
    packages: tuple[tuple[str, str], ...]

    @property
    def constraints(self) -> str:
        """The text of a pip constraints file that pins every package of the image but build tools."""
        return "".join(
            f"{name}=={version}\n"
            for name, version in self.packages
            if canonicalize_name(name) not in _BUILD_TOOLS and _is_pinnable(name, version)
        )


def _is_pinnable(name: str, version: str) -> bool:
    """Return whether pip understands `name==version`; distributions of Linux have versions such as 1.1build1."""
    try:
        Version(version)
        canonicalize_name(name, validate=True)
    except (InvalidName, InvalidVersion):
        return False
    return True


def facts_from_answer(answer: str) -> PythonFacts:
    """Return what `inside/probe.py` printed, each package once: the first found is the one that Python imports.

    The answer is the image's word. Its version becomes part of file names, so another form than `major.minor` is
    refused; a package whose name or version has no usual form is left out, because nothing could be said of it to pip.

    Raises:
        ValueError: this is no answer of that program.
    """
    try:
        facts = json.loads(answer)
        python, packages = facts["version"], [(name, version) for name, version in facts["packages"]]
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise ValueError(f"{_shortened(answer)} was printed, not what was asked for") from error
    if not isinstance(python, str) or not PYTHON_VERSION.fullmatch(python):
        raise ValueError(f"its version is {_shortened(python)}, not a number such as 3.11")
    first: dict[str, tuple[str, str]] = {}
    for name, version in packages:
        if is_package(name, version):
            first.setdefault(canonicalize_name(name), (name, version))
    return PythonFacts(version=python, packages=tuple(first[key] for key in sorted(first)))


def _shortened(value: object) -> str:
    """Return a value as a message can show it: without control characters, and not too long."""
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:77]}..."


def probe_python(runtime: ContainerRuntime, image: Path, python: PythonLayout) -> PythonFacts:
    """Ask the Python of an image for its version and packages.

    Raises:
        ImageError: the image has no such Python; the message says where it was looked for.
    """
    try:
        # -I: neither the user's own packages nor PYTHONPATH are the image's.
        command = [python.executable, "-I", "-"]
        facts = facts_from_answer(runtime.run(image, command, stdin=program("probe"), time_limit=LOOK_IN_CONTAINER))
    except (InstallError, ValueError) as error:
        parameter = "conda_root and conda_env" if python.conda_env else "python_prefix"
        raise ImageError(
            f"the image '{image.name}' has no working Python at {python.executable}, where {parameter} of the "
            f"easyconfig say that it is: {error}"
        ) from error
    return facts
