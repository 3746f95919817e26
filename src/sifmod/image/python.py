"""The Pythons of an image and their packages, read from files."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any, Optional

from packaging.utils import canonicalize_name

from sifmod.image.files import ImageFiles
from sifmod.inside.trees import origin

Files = ImageFiles[Any]
Packages = tuple[tuple[str, str], ...]

CONDA, VENV, SYSTEM, OTHER = "conda", "venv", "system", "other"

# Where images have Pythons: in directories directly below these, and in the last one also one level deeper.
_PARENTS = ("/", "/usr", "/root", "/home", "/srv", "/app", "/workspace", "/opt")
_MOST_PLACES = 5000
_MOST_PYTHONS = 100
_MOST_PACKAGES = 20_000  # in one Python
_MOST_SITE_DIRECTORIES = 1000  # in one Python: each line of a .pth file adds one
_DISTRIBUTION_OR_LINK = re.compile(r"\.(dist-info|egg-info|egg|egg-link)$")
_METADATA = 32_768  # bytes; name and version are in the first lines
_INTERPRETER = re.compile(r"python(3\.\d+)?t?")
_DISTRIBUTION = re.compile(r"(?P<name>[^-]+)(-(?P<version>[^-]+))?(-.*)?\.(dist-info|egg-info|egg)")


@dataclass(frozen=True)
class ImagePython:
    """A Python of an image."""

    prefix: str  # its `sys.prefix` in the image
    kind: str  # `conda`, `venv`, `system` (`/usr`) or `other`
    version: str  # full version such as `3.11.2` if it can be read, else `3.11`
    packages: Packages = field(repr=False)  # name and version of each distribution, as in `pip list`, sorted by name
    origins: Packages = field(default=(), repr=False)  # in user software: name and address of what came from no index
    conda_packages: Packages = field(default=(), repr=False)  # name and version of each conda package, Python or not
    conda_root: str = ""  # root of its conda installation; empty if it is not a conda environment
    conda_env: str = ""  # name of the conda environment, `base` for the root; empty if it is not a conda environment
    site_directories: tuple[str, ...] = ()  # directories of its packages, in the order in which Python searches them
    commands: tuple[str, ...] = field(default=(), repr=False)  # names of the files in its `bin` directory
    makes_venvs: bool = False  # whether it can make virtual environments: it has `venv`, and `ensurepip` or `pip`

    @property
    def minor_version(self) -> str:
        """The version as `major.minor`."""
        return ".".join(self.version.split(".")[:2])

    def version_of(self, package: str) -> str:
        """Return the version of a package; empty if it is not installed."""
        return _lookup(self.packages, package)

    def conda_version_of(self, package: str) -> str:
        """Return the version of a conda package; empty if it is not installed."""
        return _lookup(self.conda_packages, package)


def _lookup(packages: Packages, wanted: str) -> str:
    wanted = canonicalize_name(wanted)
    return next((version for name, version in packages if canonicalize_name(name) == wanted), "")


def find_pythons(
    files: Files, *, search_path: Iterable[str] = (), system_packages: Mapping[str, str] = MappingProxyType({})
) -> tuple[ImagePython, ...]:
    """Return the Pythons of an image, sorted by prefix."""
    pythons: dict[str, ImagePython] = {}
    for place in _places(files, search_path):
        prefix = posixpath.dirname(files.resolved(f"{place}/bin")) or "/"
        if prefix not in pythons and len(pythons) < _MOST_PYTHONS:
            python = _python(files, prefix, system_packages)
            if python:
                pythons[prefix] = python
    return tuple(pythons[prefix] for prefix in sorted(pythons))


def user_software_pythons(files: Files) -> tuple[ImagePython, ...]:
    """Return the virtual environments of user software, without the packages of their image."""
    found = filter(None, (_python(files, f"/venv/{name}", {}) for name in files.names("/venv")[:_MOST_PYTHONS]))
    return tuple(replace(python, origins=tuple(_origins(files, python.site_directories))) for python in found)


def _origins(files: Files, folders: Iterable[str]) -> Iterator[tuple[str, str]]:
    for folder in folders:
        for entry in files.names(folder):
            path = f"{folder}/{entry}/direct_url.json"
            if entry.endswith(".dist-info") and files.is_file(path):
                distribution = _distribution(files, folder, entry)
                if distribution:
                    yield distribution[0], origin(files.text(path, limit=_METADATA))


def _places(files: Files, search_path: Iterable[str]) -> Iterator[str]:
    places = ["/usr", "/usr/local", *(posixpath.dirname(folder.rstrip("/")) for folder in search_path)]
    for parent in _PARENTS:
        places += [posixpath.join(parent, name) for name in files.names(parent)]
    for name in files.names("/opt")[:_MOST_PYTHONS]:
        places += [f"/opt/{name}/{inner}" for inner in files.names(f"/opt/{name}")[:_MOST_PYTHONS]]
    for place in list(dict.fromkeys(places))[:_MOST_PLACES]:
        if files.is_directory(f"{place}/bin"):
            yield place
        if files.is_directory(f"{place}/conda-meta"):
            yield from (f"{place}/envs/{name}" for name in files.names(f"{place}/envs")[:_MOST_PYTHONS])


def _python(files: Files, prefix: str, system_packages: Mapping[str, str]) -> Optional[ImagePython]:
    libraries = [name for name in files.names(f"{prefix}/lib") if re.fullmatch(r"python3\.\d+t?", name)]
    config = _settings(files.text(f"{prefix}/pyvenv.cfg"))
    is_conda = files.is_directory(f"{prefix}/conda-meta")
    if not libraries or not (config or files.is_file(f"{prefix}/bin/python3")):
        return None
    interpreter = _INTERPRETER.fullmatch(posixpath.basename(files.resolved(f"{prefix}/bin/python3")))
    library = f"python{interpreter[1]}" if interpreter and interpreter[1] else ""
    if library not in libraries:
        library = max(libraries, key=lambda name: int(re.sub(r"\D", "", name[len("python3.") :])))
    version = library[len("python") :].rstrip("t")
    conda_packages = _conda_packages(files.names(f"{prefix}/conda-meta")) if is_conda else ()
    root, env = _conda_place(files, prefix) if is_conda else ("", "")
    folders = _site_directories(files, prefix, library, config)
    packages = _distributions(files, folders)
    commands = files.names(f"{prefix}/bin") + (files.names("/usr/local/bin") if prefix == "/usr" else [])
    return ImagePython(
        prefix=prefix,
        kind=VENV if config else CONDA if is_conda else SYSTEM if prefix == "/usr" else OTHER,
        version=_full_version(files, prefix, version, config, conda_packages, system_packages),
        packages=packages,
        conda_packages=conda_packages,
        conda_root=root,
        conda_env=env,
        site_directories=tuple(folders),
        commands=tuple(sorted(set(commands))),
        makes_venvs=_makes_venvs(files, _base(prefix, config), library, packages),
    )


def _base(prefix: str, config: Mapping[str, str]) -> str:
    """Return the prefix of the Python that a virtual environment was made with; for other Pythons their own prefix."""
    return posixpath.dirname(config.get("home", "").rstrip("/")) or prefix


def _makes_venvs(files: Files, base: str, library: str, packages: Packages) -> bool:
    for folder in (f"{base}/lib/{library}", f"{base}/lib64/{library}"):
        if files.is_file(f"{folder}/venv/__init__.py"):
            return files.is_directory(f"{folder}/ensurepip") or bool(_lookup(packages, "pip"))
    return False


def _settings(text: str) -> dict[str, str]:
    """Return the settings of a pyvenv.cfg, parsed as by Python's `site`."""
    pairs = (line.partition("=") for line in text.splitlines())
    return {key.strip().lower(): value.strip() for key, equals, value in pairs if equals}


def _conda_place(files: Files, prefix: str) -> tuple[str, str]:
    root, _, env = prefix.rpartition("/envs/")
    if root and "/" not in env and files.is_directory(f"{root}/conda-meta"):
        return root, env
    return (prefix, "base") if files.is_file(f"{prefix}/bin/activate") else ("", "")


def _conda_packages(names: Iterable[str]) -> Packages:
    """Return name and version from file names `NAME-VERSION-BUILD.json`, because the files themselves are large."""
    parts = (name[: -len(".json")].rsplit("-", 2) for name in names if name.endswith(".json"))
    return tuple(sorted((part[0], part[1]) for part in parts if len(part) == 3))


def _full_version(
    files: Files,
    prefix: str,
    version: str,
    config: Mapping[str, str],
    conda_packages: Packages,
    system_packages: Mapping[str, str],
) -> str:
    header = files.text(f"{prefix}/include/python{version}/patchlevel.h")
    match = re.search(r'#define PY_VERSION\s+"([^"+]+)', header)
    system = system_packages.get(f"python{version}", "") if prefix == "/usr" else ""
    candidates = [
        config.get("version", ""),
        ".".join(config.get("version_info", "").split(".")[:3]),
        _lookup(conda_packages, "python"),
        match[1] if match else "",
        system.partition("-")[0],
    ]
    return next((one for one in candidates if one.startswith(f"{version}.")), version)


def _site_directories(files: Files, prefix: str, library: str, config: Mapping[str, str]) -> list[str]:
    """Return the directories of packages in the order of `sys.path`."""
    folders = []
    if prefix == "/usr":  # Debian's dist-packages, Fedora's lib64
        folders = [
            f"/usr/local/lib/{library}/dist-packages",
            "/usr/lib/python3/dist-packages",
            f"/usr/lib/{library}/dist-packages",
            f"/usr/local/lib64/{library}/site-packages",
            f"/usr/local/lib/{library}/site-packages",
        ]
    folders += [f"{prefix}/lib64/{library}/site-packages", f"{prefix}/lib/{library}/site-packages"]
    if config.get("include-system-site-packages", "").lower() == "true":
        base = _base(prefix, config)
        if base != prefix:
            base_config = _settings(files.text(f"{base}/pyvenv.cfg"))
            folders += _site_directories(files, base, library, {**base_config, "include-system-site-packages": ""})
    for folder in list(folders):
        for name in files.names(folder):
            if name.endswith(".pth") and len(folders) < _MOST_SITE_DIRECTORIES:
                lines = files.text(f"{folder}/{name}", limit=65_536).splitlines()
                folders += [
                    posixpath.join(folder, line) for line in lines if line and not line.startswith(("#", "import"))
                ]
    resolved = (files.resolved(folder) for folder in folders[:_MOST_SITE_DIRECTORIES])
    return [folder for folder in dict.fromkeys(resolved) if folder]


def _distributions(files: Files, folders: Iterable[str]) -> Packages:
    """Return name and version of the distributions without duplicates: Python imports the first one found."""
    distributions: dict[str, tuple[str, str]] = {}
    for folder in folders:
        for entry in filter(_DISTRIBUTION_OR_LINK.search, files.names(folder)):
            if len(distributions) >= _MOST_PACKAGES:
                break
            distribution = _distribution(files, folder, entry)
            if distribution:
                distributions.setdefault(canonicalize_name(distribution[0]), distribution)
    return tuple(distributions[key] for key in sorted(distributions))


def _distribution(files: Files, folder: str, entry: str) -> Optional[tuple[str, str]]:
    named = _DISTRIBUTION.fullmatch(entry)
    if entry.endswith(".egg-link"):
        target = files.text(f"{folder}/{entry}", limit=4096).split("\n")[0].strip()
        links = [name for name in files.names(target) if name.endswith(".egg-info")] if target.startswith("/") else []
        return _distribution(files, target, links[0]) if links else None
    if not named:
        return None
    path = f"{folder}/{entry}"
    metadata = {".dist-info": "/METADATA", ".egg-info": "/PKG-INFO", ".egg": "/EGG-INFO/PKG-INFO"}
    suffix = metadata[posixpath.splitext(entry)[1]]
    # distutils installed the metadata as a file
    text = files.text(path if files.is_file(path) else path + suffix, limit=_METADATA).partition("\n\n")[0]
    fields = dict(re.findall(r"^(Name|Version):[ \t]*(\S+)[ \t]*\r?$", text, re.M))
    name, version = fields.get("Name", ""), fields.get("Version", "")
    return (name, version) if name and version else None
