"""Compare the host with an image: what will not work here, and why."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Optional

from sifmod import names
from sifmod.advice.advisory import Advisory
from sifmod.advice.subject import Subject
from sifmod.container.bind import Bind
from sifmod.container.gpu import LIBRARIES, VENDORS, uses_compat, vendor_of
from sifmod.container.spec import image_is_gone
from sifmod.doctor.advisories import container_advisories, node_advisories
from sifmod.doctor.gpu import check_gpus
from sifmod.doctor.gpuneeds import Scene, check_gpu_needs
from sifmod.doctor.gpusetup import check_gpu_setup
from sifmod.doctor.host import check_host
from sifmod.doctor.mpi import check_mpi
from sifmod.doctor.site import is_seen, unseen, with_binds
from sifmod.eb.space import SoftwareSpace
from sifmod.errors import ImageError, RuntimeMissingError
from sifmod.finding import NOTE, OK, PROBLEM, WARNING, Finding
from sifmod.host.architecture import why_not_here
from sifmod.host.features import bound, feature_states
from sifmod.host.gpus import HostGpus, described_gpus, host_gpus
from sifmod.host.runtime import Release, find_runtime, has_minimal_dev, release_here
from sifmod.host.versions import host_versions
from sifmod.image.elf import read_library
from sifmod.image.files import SandboxFiles
from sifmod.image.inspection import Inspection, inspect_image, open_image
from sifmod.image.system import glibc_problem
from sifmod.inside.consistency import Package, hidden, hidden_modules, of_name, of_pythonpath, shown
from sifmod.install.advice import container_subject, node_subject
from sifmod.install.hostslurm import slurm_misfit
from sifmod.installed.consistency import editable_packages, packages_on_disk, recorded_packages
from sifmod.installed.installation import Installation
from sifmod.site.advisories import load_advisories
from sifmod.site.feature import chosen
from sifmod.site.settings import Settings, Site
from sifmod.text import quoting
from sifmod.text.printable import few
from sifmod.text.size import counted, size_text
from sifmod.usersoftware.comparison import compare_with_packed
from sifmod.usersoftware.layers import layer_findings
from sifmod.usersoftware.state import (
    DIRECTORY,
    PACK_AGAIN,
    PACKED,
    UserSoftware,
    problems,
    tree_files,
    tree_size,
    unowned,
)

_MANY_FILES = (
    10_000  # above it, imports from a parallel file system take longer than from a packed file (docs/explanation)
)


_MOST_LOST = 8
_ON_NODES = "see where it is mounted, with srun sifmod doctor on a compute node, or mount its file system here"


@dataclass(frozen=True)
class Target:
    """What to examine besides the host."""

    image: Optional[Path] = None  # path of the image; None to examine only the host, or if the image is missing
    # vendor of the GPUs that the container is for, a key of `VENDORS`; empty for none, None if that was not said:
    # then the site or the image decides
    gpu: Optional[str] = None
    gpu_libraries: str = ""  # whose libraries its programs use, one of `LIBRARIES`; empty for those of the site
    compat: Optional[bool] = None  # whether the image's compat libraries may be used; None if that was not said
    binds: tuple[Bind, ...] = ()  # bind paths of the container, in addition to the site's
    mpi: str = ""  # whose MPI it uses, one of `MPIS`; empty if that is not said
    features: tuple[str, ...] = ()  # names of the site's features that it changes
    installation: Optional[Installation] = None  # the installation, if there is one
    missing_image: str = ""  # message if the image is missing
    names: tuple[str, ...] = ()  # file names and URI of the image, in addition to that of its path
    digests: tuple[str, ...] = ()  # SHA-256 of the image and its digest in a registry


@dataclass(frozen=True)
class Host:
    """What containers are compared with, looked at once for all; the node is the facts that advisories name."""

    settings: Settings
    gpus: tuple[HostGpus, ...]
    release: Release
    advisories: tuple[Advisory, ...]
    node: Subject

    @property
    def site(self) -> Site:
        """The settings in force."""
        return self.settings.site


def this_host(settings: Settings) -> Host:
    """Return what containers on this host are compared with; SiteError if a file of advisories can't be used."""
    gpus = host_gpus()
    drivers = {host.vendor: host.driver for host in gpus if host.driver}
    site = settings.site
    release = release_here(site)
    node = node_subject(site, host_versions(release), drivers)
    return Host(settings, gpus, release, load_advisories(site), node)


def gpu_of(parameters: Mapping[str, Any]) -> Optional[str]:
    """Return the vendor that `gpu` of a module states; None if it states none, or one that is not known."""
    found = parameters.get("gpu")
    return found if found in ("", *VENDORS) else None


def libraries_of(parameters: Mapping[str, Any]) -> str:
    """Return whose libraries programs use, as `gpu_libraries` of a module states it; empty if it does not."""
    found = parameters.get("gpu_libraries")
    return found if found in LIBRARIES else ""


def target_of(item: Installation, site: Site) -> Target:
    """Return what to examine of an installation: its image, or the site's copy if that is gone."""
    image = item.image if item.has_image else item.stand_in(site)
    manifest = item.manifest
    return Target(
        image=image,
        gpu=gpu_of(manifest.parameters),
        gpu_libraries=libraries_of(manifest.parameters),
        compat=uses_compat(manifest.parameters),
        installation=item,
        missing_image="" if image else image_is_gone(item.image, is_unpacked=manifest.is_unpacked),
        names=(manifest.image, Path(manifest.image_source).name, manifest.image_origin),
        digests=(manifest.image_sha256, manifest.image_digest),
    )


def examine(
    target: Target, settings: Settings, space: SoftwareSpace, *, gpus: Optional[tuple[HostGpus, ...]] = None
) -> Iterator[Finding]:
    """Yield the findings on the host and its software space, and on the host together with a container.

    With GPUs of other nodes, the container is compared with these in place of those of the host.
    """
    host = this_host(settings)
    size = target.image.stat().st_size if target.image and target.image.is_file() else 0
    yield from examine_host(host, space, image_size=0 if target.installation else size)
    if gpus is not None:
        drivers = {one.vendor: one.driver for one in gpus} if len(gpus) == 1 else {}
        host = replace(host, gpus=gpus, node=replace(host.node, drivers=drivers))
    yield from examine_container(target, host)


def examine_host(host: Host, space: SoftwareSpace, *, image_size: int = 0) -> Iterator[Finding]:
    """Yield the findings on the host alone, with a size in bytes of the image to install; 0 if there is none."""
    yield from check_host(host.settings, space, image_size=image_size)
    for gpus in host.gpus:
        for gpu in {gpu.name: gpu for gpu in gpus.gpus}.values():
            count = sum(other.name == gpu.name for other in gpus.gpus)
            yield Finding(OK, "GPU", f"{count} x {gpu.name}, driver {gpus.driver or 'of unknown version'}")
    yield from check_gpu_setup(host.site, host.release)
    for vendor in VENDORS.values():
        if os.path.exists(vendor.device):  # noqa: PTH110 - without an error where a folder above is not ours
            yield from check_gpu_needs(Scene(vendor, os.environ))
    yield from node_advisories(host.advisories, host.node)


def examine_container(target: Target, host: Host) -> Iterator[Finding]:
    """Yield the findings on a container on a host."""
    site = host.site
    image = None
    if target.missing_image:
        is_unpacked = target.installation is not None and target.installation.manifest.is_unpacked
        severity, remedy = (WARNING, _ON_NODES) if is_unpacked else (NOTE, "")
        yield Finding(severity, "image", target.missing_image, "it is not compared with this host", remedy)
    if target.image:
        loaded = os.environ.get("SIF")
        if loaded and not target.installation and target.image.absolute() != Path(loaded):
            what, why = (
                f"the module of '{loaded}' is loaded",
                "containers of any image get its variables and bind paths",
            )
            yield Finding(WARNING, "image", what, why, "module unload")
        try:
            image = inspect_image(target.image)
        except ImageError as error:
            yield Finding(PROBLEM, "image", str(error), "no container starts from it", "fetch or build it again")
        else:
            yield from _image(image)
            minimal = has_minimal_dev(site)
            yield from _fit(
                host.gpus, target, image, site, vendor=target.gpu, release=host.release, minimal_dev=minimal
            )
            vendor = VENDORS.get(vendor_of(image.stacks) if target.gpu is None else target.gpu)
            if vendor:
                yield from check_gpu_needs(Scene(vendor, os.environ, image, lambda path: _lacks(target, path, site)))
            misfit = slurm_misfit(site, image)
            compared = _of_features(target, site, without=names.SLURM_FEATURE if misfit else "")
            yield from check_libraries(image, [*site.binds, *site.optional_binds, *target.binds, *compared])
            if misfit and names.SLURM_FEATURE in _in_use(target, site):
                yield _of_slurm(misfit, is_installed=target.installation is not None)
            yield from _mpi(target, site, image)
    if target.image or target.names:
        yield from container_advisories(host.advisories, _subject(target, image, host), site, target.installation)
    if target.installation:
        for path in target.installation.foreign_module_files:
            what = f"'{path}' names another folder than '{target.installation.root}': was the installation moved?"
            why, remedy = "loading it does not load this container", "move it back, or: eb --module-only --rebuild"
            yield Finding(PROBLEM, "module file", what, why, remedy)
        yield from _features(target.installation, site)
        yield from _user_software(target.installation)
        yield from packages_on_disk(target.installation)
        yield from _of_the_host(target.installation, site)


def _of_the_host(item: Installation, site: Site) -> Iterator[Finding]:
    """Name packages that this shell's PYTHONPATH hides, whose sources are not there, or that would run jobs here."""
    ahead = [
        (folder, package)
        for folder, package in of_pythonpath(os.environ.get("PYTHONPATH", ""))
        if is_seen(Path(folder), site, os.environ)
    ]
    own = (Package(*text.partition("==")[::2], ()) for text in item.user_software.packages)
    known = of_name((*own, *recorded_packages(item.root)))
    seen = (one for one in os.environ.get("PYTHONPATH", "").split(":") if one and is_seen(Path(one), site, os.environ))
    for line in sorted({*hidden(ahead, known), *hidden_modules(":".join(seen), known)}):
        yield Finding(WARNING, "PYTHONPATH", line, "programs in the container import that of the host")
    for package, source in editable_packages(item):
        what = f"{shown(package.name)} {shown(package.version)} is an editable install of '{shown(source)}'"
        lacking = unseen([source], item.binds, site, os.environ)
        if not os.path.isdir(source):  # noqa: PTH112 - without an error where a folder above is not ours
            yield Finding(WARNING, "packages", f"{what}, which is gone", "imports fail", "pip uninstall it")
        elif lacking:
            yield Finding(WARNING, "packages", what, "no bind path contains that, so imports fail", lacking.way)
    home = os.environ.get("HOME", "/")
    has_cache = "NUMBA_CACHE_DIR" in {*os.environ, *site.cache, *site.container_env}
    if "numba" in known and not os.access(home, os.W_OK) and not has_cache:
        what, why = f"numba can't write its cache: '{home}' is closed", "packages that cache with it can't be imported"
        yield Finding(WARNING, "numba", what, why, "export NUMBA_CACHE_DIR, or name it in [cache] of the site file")
    binds = (*site.binds, *site.optional_binds, *_of_features(Target(installation=item), site))
    if "submitit" in known and not any(Path(bind.destination).name == "srun" for bind in binds):
        what = "submitit finds no srun in the container, so its AutoExecutor runs jobs on this host, not in Slurm"
        feature = names.SLURM_FEATURE
        remedy = f"to submit from inside: the site's feature '{feature}', which sifmod site discover slurm writes"
        if feature in site.feature:
            remedy = f"to submit from inside: export SIFMOD_FEATURES={feature}, then load the module"
        remedy += (
            ". Without it, start it on the host with sifmod sbatch or srun; cluster='slurm' makes it end with an error"
        )
        yield Finding(NOTE, "submitit", what, "login nodes are not for that", remedy)


def _of_slurm(misfit: str, *, is_installed: bool) -> Finding:
    """Name a Slurm of the host that does not fit: an install leaves it out, if the host of the install has it."""
    if is_installed:
        why, remedy = "its commands do not start in the container", "eb --rebuild on this host"
        return Finding(PROBLEM, "Slurm", misfit, why, remedy)
    return Finding(NOTE, "Slurm", misfit, f"so a module of the image does without the feature '{names.SLURM_FEATURE}'")


def _in_use(target: Target, site: Site) -> tuple[str, ...]:
    """Return the features of a container."""
    if target.installation:
        return target.installation.manifest.features
    return chosen((*site.default_features, *target.features), site.feature)[0]


def _of_features(target: Target, site: Site, *, without: str = "") -> Iterator[Bind]:
    """Yield what the features of a container bind here, but for that of MPI, which is only bound if it fits."""
    in_use = _in_use(target, site)
    for state in feature_states(site):
        name = state.feature.name
        if not state.problem and name in in_use and name not in (names.MPI_FEATURE, without):
            for bind in (*state.feature.binds, *state.feature.optional_binds):
                yield from (Bind(path, path) for path in bound(bind))


def _features(item: Installation, site: Site) -> Iterator[Finding]:
    """Compare the features that a module has in use with those of the site, which may have changed since."""
    for name in item.manifest.features:
        if name not in site.feature:
            what = f"the site no longer has the feature '{name}'"
            yield Finding(WARNING, "features", what, "the module still uses it", "eb --module-only --rebuild")


def advisories_of(item: Installation, host: Host) -> Iterator[Finding]:
    """Yield the known problems of an installation on a host, without other findings."""
    target = target_of(item, host.site)
    yield from advisories_for(target, inspection_of(target), host)


def inspection_of(target: Target) -> Optional[Inspection]:
    """Return what is in the image; None if there is none, or if it can't be read."""
    try:
        return inspect_image(target.image) if target.image else None
    except ImageError:
        return None


def advisories_for(target: Target, image: Optional[Inspection], host: Host) -> Iterator[Finding]:
    """Yield only the known problems of a container on a host; without an image only names and digests are compared."""
    yield from container_advisories(host.advisories, _subject(target, image, host), host.site, target.installation)


def gpus_fit(target: Target, image: Optional[Inspection], site: Site) -> Iterator[tuple[str, tuple[Finding, ...]]]:
    """Yield each partition whose GPUs the site describes, with the findings on these for a container.

    Nothing is said of a container without GPUs, nor of one whose image can't be read.
    """
    vendor = site.gpu if target.gpu is None else target.gpu
    if not (vendor and image):
        return
    for partition, text in site.partition_gpus.items():
        driver, _, model = text.partition(" ")
        found = _fit(described_gpus(driver, model.strip()), target, image, site, vendor=vendor)
        yield partition, tuple(one for one in found if one.topic in ("GPU", "GPU driver", "GPU model"))


def _fit(
    gpus: Sequence[HostGpus],
    target: Target,
    image: Inspection,
    site: Site,
    *,
    vendor: Optional[str],
    release: Release = Release(),  # noqa: B008 - it is frozen
    minimal_dev: bool = False,
) -> Iterator[Finding]:
    compat = uses_compat(site.easyconfig_defaults) if target.compat is None else target.compat
    libraries = target.gpu_libraries or site.gpu_libraries
    return check_gpus(
        gpus, image, vendor=vendor, libraries=libraries, uses_compat=compat, release=release, minimal_dev=minimal_dev
    )


def _lacks(target: Target, path: str, site: Site) -> bool:
    """Return whether a path is missing in a container; not if its image can't be read."""
    here = with_binds(site, target.installation.binds if target.installation else (), os.environ)
    binds = (*here.binds, *here.optional_binds, *target.binds, *_of_features(target, site))
    here = replace(here, binds=tuple(Bind(bind.destination, bind.destination) for bind in binds))
    if not target.image or is_seen(Path(path), here, os.environ):
        return False
    with open_image(target.image) as (_known, files):
        return files is not None and not files.resolved(path)


def _subject(target: Target, image: Optional[Inspection], host: Host) -> Subject:
    vendor = target.gpu
    if vendor is None:
        vendor = host.site.gpu or (vendor_of(image.stacks) if image else "")
    usual = VENDORS[vendor].libraries if vendor else ""
    return container_subject(
        host.node,
        image,
        names=(*target.names, target.image.name if target.image else ""),
        digests=target.digests,
        gpu=vendor,
        gpu_libraries=target.gpu_libraries or host.site.gpu_libraries or usual,
    )


def _mpi(target: Target, site: Site, image: Inspection) -> Iterator[Finding]:
    try:
        runtime = find_runtime(site)
    except RuntimeMissingError:
        runtime = None  # the site's own check says so
    manifest = target.installation.manifest if target.installation else None
    mpi, settings = (manifest.mpi, manifest.mpi_env) if manifest else (target.mpi, None)
    yield from check_mpi(site, image, runtime, mpi=mpi, features=target.features, settings=settings)


def _image(image: Inspection) -> Iterator[Finding]:
    what = why_not_here(image.architecture)
    if what:
        yield Finding(PROBLEM, "image", what, "nothing in it runs here", "use an image for this architecture")
        return
    described = ", ".join(filter(None, (image.os, image.libc, image.architecture)))
    yield Finding(OK, "image", f"{image.path}: {described or image.kind}")
    if image.unread:
        yield Finding(WARNING, "image", image.unread, "only part of it is compared with this host")


def check_libraries(image: Inspection, binds: Sequence[Bind]) -> Iterator[Finding]:
    """Compare the host's libraries that are bound into the container with the image's C library."""
    libraries = [bind for bind in binds if ".so" in Path(bind.source).name and os.path.isfile(bind.source)]  # noqa: PTH113 - without an error where a folder above is not ours
    if not libraries:
        return
    if not image.libc:
        what = f"libraries of the host are bound ({len(libraries)}), and the image's C library is unknown"
        yield Finding(NOTE, "host libraries", what, "can't tell whether they work there")
        return
    fine = 0
    files = SandboxFiles(Path("/"))
    for bind in libraries:
        library = read_library(files, bind.source)
        problem = glibc_problem(library.glibc, image.libc) if library else ""
        if library and problem:
            yield Finding(
                PROBLEM,
                "host libraries",
                f"'{bind.source}' of the host {problem}",
                f"programs that load it fail, for example with: version `GLIBC_{library.glibc}' not found",
                "use an image with that glibc, of a newer Linux distribution, or remove the bind",
            )
        else:
            fine += 1
    if fine:
        yield Finding(OK, "host libraries", f"{fine} bound, compatible with the image's {image.libc}")


def _user_software(item: Installation) -> Iterator[Finding]:
    state = item.user_software
    topic, packages = "user software", counted(len(state.packages), "package")
    yield from problems(state)
    yield from layer_findings(item.root, item.bases_below, sums=False, venv=item.manifest.venv)
    lost = list(unowned(state.directory)) if state.state == DIRECTORY else []
    if lost:
        size = size_text(sum(tree_size(path) if path.is_dir() else path.lstat().st_size for path in lost))
        what = f"{size} in '{lost[0].parent}' that no package owns: {few([path.name for path in lost], _MOST_LOST)}"
        remedy = "if you have not put it there yourself: rm -r " + " ".join(map(quoting.shell, lost[:_MOST_LOST]))
        yield Finding(NOTE, topic, what, "pip leaves such files behind if it is ended, as by a full disk", remedy)
    if state.state == DIRECTORY and not state.packed_problem:
        files = tree_files(state.directory)
        if files > _MANY_FILES:
            what = f"{counted(files, 'file')} in '{state.directory}'"
            why = "each start reads many of them, which is slow on parallel file systems"
            yield Finding(NOTE, topic, what, why, "make-squashfs")
        else:
            yield Finding(OK, topic, f"a directory with {counted(files, 'file')}, {packages}")
    elif state.state == PACKED:
        yield Finding(OK, topic, f"{state.state}, {packages}")
        if state.has_directory:
            yield _unused_directory(state)


def _unused_directory(state: UserSoftware) -> Finding:
    """Compare the directory beside a packed file in use with it; only `sifmod verify` reads the contents."""
    topic = "user software"
    try:
        text = compare_with_packed(state.directory, state.packed).text
    except (ImageError, OSError) as error:
        return Finding(NOTE, topic, f"'{state.directory}' is not in use, and can't be compared with what is: {error}")
    if text:
        what = f"'{state.directory}' is not in use, and differs from the packed file: {text}"
        return Finding(WARNING, topic, what, "containers do not see what only the directory has", PACK_AGAIN)
    what = f"'{state.directory}' is not in use; it has the same files as the packed file"
    return Finding(NOTE, topic, what, "it takes space", "make-squashfs --remove-directory, which compares all contents")
