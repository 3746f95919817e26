"""The manifest: the contents of an installation, their origin, and the tools that made it."""

from __future__ import annotations

import contextlib
import json
import posixpath
import re
import stat
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, Optional

from sifmod import names
from sifmod.artefact import path_problem
from sifmod.container.bind import is_bindable
from sifmod.container.naming import MODULE_NAME
from sifmod.container.parameters import MPIS
from sifmod.container.spec import Base, ContainerSpec
from sifmod.container.variables import check_variable
from sifmod.errors import InstallError, os_errors
from sifmod.host.files import content_of, held_folder, inside
from sifmod.host.writing import put_in_place, write_whole
from sifmod.image.unpacked import MOST_LABELS
from sifmod.site.feature import NAME as FEATURE_NAME
from sifmod.text.digest import DIGEST, SHA256
from sifmod.text.package import PYTHON_VERSION

# Raised for an incompatible change only; a new key doesn't need it. Since 2, user software may have layers, made by the
# module's own commands, and may be on top of other installations': an earlier sifmod would reinstall without them.
_FORMAT = 2
_FORMAT_WITHOUT_LAYERS = 1

VENV = re.compile(r"(?!\.{1,2}$)[A-Za-z0-9_.+-]+")


@dataclass(frozen=True)
class Manifest:
    """What was installed."""

    module: str  # name of the module, as for `module load`
    image: str  # file name of the SIF in the installation
    image_source: str  # absolute path that it was installed from
    image_sha256: str  # its SHA-256, in hexadecimal; empty if the image was linked and not read
    image_size: int  # its size in bytes; 0 for an unpacked image, a directory, whose files were not read
    python_version: str  # `major.minor` of the image's Python; empty if the module offers no Python
    files: tuple[str, ...]  # paths of all files that the installation wrote, relative to it, sorted
    tools: Mapping[str, str]  # name and version of each tool that took part
    # URI that it was pulled from, or name and hash of its definition file; empty for other images
    image_origin: str = ""
    image_digest: str = ""  # its digest in the registry, as `sha256:...`; empty if it has none
    image_id: str = ""  # the identifier in the header of the SIF, or `unpacked_id`, in hexadecimal
    image_labels: str = ""  # the labels of an unpacked image; empty if modules can't compare them
    venv: str = ""  # name of the virtual environment; empty if there is no user software
    # SHA-256, in hexadecimal, of each text file that the installation wrote except the manifest, by path
    hashes: Mapping[str, str] = field(default_factory=dict)
    # names and exact versions of packages that the container's Python must have
    expected_packages: Mapping[str, str] = field(default_factory=dict)
    # file names of images of the installation before this one, which stay for those who still use them
    old_images: tuple[str, ...] = ()
    features: tuple[str, ...] = ()  # names of the site's features in use, unless a user changes that
    name: str = ""  # name of the software; this and all that follow are empty in manifests of an earlier sifmod
    version: str = ""  # its full version
    full_module: str = ""  # EasyBuild's full module name
    install_subdir: str = ""  # path of the installation in the software folder
    mpi: str = ""  # whose MPI programs use: `host`, `image`, or empty
    # variables that MPI needs with the runtime that was there at the install
    mpi_env: Mapping[str, str] = field(default_factory=dict)
    # the site's features that programs of the image can't use, each with the reason
    misfits: Mapping[str, str] = field(default_factory=dict)
    locales: tuple[str, ...] = ()  # the image's locales in UTF-8; empty if these are not known
    has_drivers: bool = True  # whether the image has, or may have, driver libraries of its own
    # file name of its SquashFS, for runtimes that start no SIFs, which the SIF's own partition is, or absolute path
    # of that of a base; empty if there is none
    squashfs: str = ""
    squashfs_sha256: str = ""  # its SHA-256, in hexadecimal
    squashfs_size: int = 0  # its size in bytes
    bases: tuple[Base, ...] = ()  # the installations that it builds on, the nearest first
    # the easyconfig parameters that a module which builds on this one takes over
    parameters: Mapping[str, Any] = field(default_factory=dict)
    # SHA-256, in hexadecimal, of each module file that EasyBuild wrote for this installation, by its absolute path;
    # empty for a link to one, and until the install is complete
    module_files: Mapping[str, str] = field(default_factory=dict)

    @property
    def is_unpacked(self) -> bool:
        """Whether the image is a directory."""
        return not self.image_size

    @property
    def text(self) -> str:
        """The manifest as JSON."""
        number = _FORMAT if self.venv or self.bases else _FORMAT_WITHOUT_LAYERS
        return json.dumps({"format": number, **asdict(self)}, indent=2, sort_keys=True) + "\n"

    def added_to(self, spec: ContainerSpec) -> ContainerSpec:
        """Return a description with what the install found out about the image."""
        return replace(
            spec,
            is_unpacked=self.is_unpacked,
            image_labels=self.image_labels,
            image_size=self.image_size,
            image_id=self.image_id,
            image_sha256=self.image_sha256,
            squashfs=self.squashfs,
            mpi=spec.mpi or self.mpi,
            mpi_env=self.mpi_env,
            unusable_features=self.misfits,
            locales=self.locales,
            has_drivers=self.has_drivers,
        )


def read_manifest(installdir: Path) -> Optional[Manifest]:
    """Return the manifest of an installation; None if sifmod has not installed anything there.

    A manifest is not trusted: anyone who may write to the installation can change it, so it can name files inside the
    installation only.

    Raises:
        InstallError: the manifest can't be read, or was written by a newer sifmod.
    """
    path = installdir / names.MANIFEST
    try:
        data = json.loads(content_of(path, most=names.MOST_MANIFEST).decode())
        newer = _newer_format(data)
        manifest = None if newer else _checked(data)
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise InstallError(f"the manifest '{path}' can't be read ({error}): move it away and reinstall") from error
    if newer:
        raise InstallError(
            f"the installation '{installdir}' was written by a newer sifmod ({newer}; this one knows up to format "
            f"{_FORMAT}): use that sifmod for it. Nothing was changed"
        )
    return manifest


def image_of(installdir: Path, manifest: Manifest) -> Path:
    """Return the path of the image of an installation: its own, or the original if that is used in place."""
    return installdir / manifest.image if manifest.image in manifest.files else Path(manifest.image_source)


def rewrite_manifest(installdir: Path, manifest: Manifest) -> None:
    """Replace the manifest of an installation that nobody else is changing, also where eb has left it read-only."""
    path = inside(installdir, names.MANIFEST)
    draft = installdir / f"{names.OURS}manifest"  # where the next run removes what a killed one has left
    problem = os_errors(InstallError, f"the manifest '{path}' can't be written")
    with problem, writable(installdir), writable(path.parent):
        write_whole(draft, manifest.text, mode=stat.S_IMODE(path.stat().st_mode))
        put_in_place(draft, path)


@contextlib.contextmanager
def writable(folder: Path) -> Iterator[None]:
    """Let the owner write to a folder that eb has left read-only, as long as the block takes."""
    with held_folder(folder) as (place, mode):
        if mode & stat.S_IWUSR:
            yield
            return
        place.chmod(mode | stat.S_IWUSR)
        try:
            yield
        finally:
            place.chmod(mode)


def _newer_format(data: Mapping[str, Any]) -> str:
    """Return format and writer of a manifest if this sifmod doesn't know the format; empty otherwise."""
    number = data["format"]
    if type(number) is not int or number < 1:
        raise TypeError(f"its format is {number!r}")
    if number <= _FORMAT:
        return ""
    tools = data.get("tools")
    version = tools.get("sifmod") if isinstance(tools, dict) else None
    return f"sifmod {version!r}, format {number}" if isinstance(version, str) else f"format {number}"


def _checked(data: Mapping[str, Any]) -> Manifest:
    """Return the manifest if every value has the right type; unknown keys are ignored."""
    known = {key.name for key in fields(Manifest)}
    lists = {key: tuple(data.get(key, ())) for key in ("old_images", "features", "locales")}
    lists["files"] = tuple(data["files"])
    lists["bases"] = tuple(_base(one) for one in data.get("bases", ()))
    manifest = Manifest(**{**{key: data[key] for key in data if key in known}, **lists})
    tables = ("tools", "hashes", "expected_packages", "mpi_env", "misfits", "module_files")
    kinds = {"image_size": int, "squashfs_size": int, "has_drivers": bool, **dict.fromkeys(lists, tuple)}
    kinds.update(dict.fromkeys((*tables, "parameters"), dict))  # whose values a spec checks
    for name, value in vars(manifest).items():
        if not isinstance(value, kinds.get(name, str)):
            raise TypeError(f"its {name} is {value!r}")
    values = (text for name in tables for text in getattr(manifest, name).values())
    for text in (*manifest.files, *manifest.old_images, *manifest.features, *manifest.locales, *values):
        if not isinstance(text, str):
            raise TypeError(f"it has {text!r} where a string is expected")
    _check_files(manifest)
    _check_forms(manifest, "its {}")
    _check_findings(manifest)
    return manifest


def _check_files(manifest: Manifest) -> None:
    for name, paths in (("files", manifest.files), ("hashes", manifest.hashes), ("image", [manifest.image])):
        for path in paths:
            problem = path_problem(path) or ("it is not a file name" if "/" in path and name == "image" else "")
            if problem:
                raise ValueError(f"its {name} has {path!r}: {problem}")
    if re.search(r"[\0\ud800-\udc7f\udd00-\udfff]", manifest.image_source):  # no path has them
        raise ValueError(f"its image_source is {manifest.image_source!r}")
    for name, size in (("image_size", manifest.image_size), ("squashfs_size", manifest.squashfs_size)):
        if not 0 <= size < 1 << 63:
            raise ValueError(f"its {name} is not that of a file")
    for name in manifest.old_images:
        if "/" in name or name not in manifest.files or name in (manifest.image, manifest.squashfs):
            raise ValueError(f"its old_images has {name!r}, which can't be an old image")
    is_borrowed = manifest.bases and manifest.squashfs.startswith("/") and not path_problem(manifest.squashfs[1:])
    if manifest.squashfs and not is_borrowed and ("/" in manifest.squashfs or manifest.squashfs not in manifest.files):
        raise ValueError(f"its squashfs is {manifest.squashfs!r}, which is not among its files")
    if manifest.squashfs and manifest.squashfs == manifest.image:
        raise ValueError(f"its squashfs is {manifest.squashfs!r}, which is the image")
    if not re.fullmatch(r"[0-9a-f]{64}" if manifest.squashfs else "", manifest.squashfs_sha256):
        raise ValueError(f"its squashfs_sha256 is {manifest.squashfs_sha256!r}")
    for path in manifest.module_files:
        problem = path_problem(path[1:]) if path.startswith("/") else "the path is not absolute"
        if problem:
            raise ValueError(f"its module_files has {path!r}: {problem}")


def _check_findings(manifest: Manifest) -> None:
    """Check what the install found out about the image."""
    for key, features in (("features", manifest.features), ("misfits", manifest.misfits)):
        for name in features:
            if not FEATURE_NAME.fullmatch(name):
                raise ValueError(f"its {key} has {name!r}")
    for reason in manifest.misfits.values():
        if not reason.isprintable():
            raise ValueError(f"its misfits has {reason!r}")
    for name, value in manifest.mpi_env.items():
        check_variable(name, value)


# What texts of a manifest, or of one of its bases, must be; they may be empty.
_FORMS: Mapping[str, Callable[[str], object]] = MappingProxyType(
    {
        "module": MODULE_NAME.fullmatch,
        "full_module": MODULE_NAME.fullmatch,
        "name": lambda text: text.isprintable() and not path_problem(text) and "/" not in text,
        "version": str.isprintable,
        "install_subdir": lambda text: not path_problem(text),
        "image_labels": lambda text: text.isascii() and len(text) <= MOST_LABELS,
        "image_id": re.compile(r"[0-9a-f]*").fullmatch,
        "image_sha256": SHA256.fullmatch,
        "image_digest": DIGEST.fullmatch,
        "mpi": MPIS.__contains__,
        "python_version": PYTHON_VERSION.fullmatch,
        "venv": VENV.fullmatch,
        "root": lambda text: posixpath.normpath(text) == text and text.startswith("/") and is_bindable(text),
    }
)


def _check_forms(record: object, whose: str) -> None:
    for name, is_right in _FORMS.items():
        text = getattr(record, name, "")
        if text and not is_right(text):
            raise ValueError(f"{whose.format(name)} is {text!r}")


def _base(data: Mapping[str, Any]) -> Base:
    """Return an installation that another one builds on, checked."""
    base = Base(**{key.name: data[key.name] for key in fields(Base) if key.name != "settings" or "settings" in data})
    for name, value in vars(base).items():
        if not isinstance(value, str) or not value.isprintable():
            raise TypeError(f"the {name} of one of its bases is {value!r}")
    if not base.root:
        raise ValueError("one of its bases has no root")
    _check_forms(base, "the {} of one of its bases")
    return base
