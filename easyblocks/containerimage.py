##
# Copyright the sifmod developers
#
# This file is part of sifmod, and derives from EasyBuild's EasyBlock class: it is free software under the GNU General
# Public License, version 2, as published by the Free Software Foundation. See the file LICENSE.
##
"""EasyBuild support for container images as modules, implemented as an easyblock.

An install copies and hashes the image, inspects its Python, writes scripts, and creates a virtual environment on top of
the image with the container runtime. Loading the module runs nothing: it sets variables. Everything else happens in the
container or in the scripts of the installation.

The sifmod library does the work; this class maps EasyBuild's steps and parameters to it.
"""

import contextlib
import os
import re
import shlex
import stat
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any, Optional

from easybuild.framework import easyblock as framework
from easybuild.framework.easyblock import EasyBlock, StopException
from easybuild.framework.easyconfig import CUSTOM
from easybuild.framework.easyconfig.easyconfig import ActiveMNS, letter_dir_for
from easybuild.tools.build_log import EasyBuildError, print_warning
from easybuild.tools.config import (
    FORCE_DOWNLOAD_ALL,
    FORCE_DOWNLOAD_SOURCES,
    build_option,
    install_path,
    log_path,
    source_paths,
)
from easybuild.tools.filetools import adjust_permissions, convert_name, mkdir, read_file
from easybuild.tools.module_naming_scheme.utilities import det_full_ec_version
from easybuild.tools.utilities import trace_msg
from easybuild.tools.version import VERSION

# For a sifmod outside EasyBuild's own environment: `sifmod env` and sifmod's module set the variable. Its folders go
# first, because EasyBuild's Python may have older libraries than sifmod needs, such as those of its Linux distribution.
sys.path[:0] = [path for path in os.environ.get("SIFMOD_PYTHONPATH", "").split(":") if path and path not in sys.path]

from sifmod.advice.advisory import Advisory
from sifmod.container.inheritance import BUILDS_ON, OF_THE_IMAGE, inherited
from sifmod.container.naming import Naming
from sifmod.container.spec import (
    Base,
    ContainerSpec,
    file_names,
    image_is_gone,
    spec_from_parameters,
    squashfs_name,
)
from sifmod.eb.progress import easybuild_progress
from sifmod.eb.space import SoftwareSpace
from sifmod.errors import ParameterError, RuntimeMissingError, SifmodError
from sifmod.fetch.credentials import take_from_environment
from sifmod.fetch.definition import Definition, build_arguments, build_target
from sifmod.fetch.repository import image_in_repositories
from sifmod.fetch.store import ImageStore, StoredImage
from sifmod.fetch.uri import image_uri
from sifmod.finding import WARNING
from sifmod.host.files import remove_tree
from sifmod.host.interruption import Interruption
from sifmod.host.runtime import ContainerRuntime, release_here
from sifmod.image.inspection import contents_of, has_shell
from sifmod.image.sif import check_is_sif, sif_id
from sifmod.install.advice import advised_versions, known_problems
from sifmod.install.commands import check_commands
from sifmod.install.installer import Installer, check_files, check_writable, refresh_scripts, write_artefact
from sifmod.install.manifest import Manifest, image_of, read_manifest
from sifmod.install.modulefiles import ModuleFiles, record_module_files
from sifmod.install.oldimages import remove_old_images
from sifmod.install.packages import check_packages, installed_packages
from sifmod.install.rollback import forget, settle, undo
from sifmod.install.starter import find_starter
from sifmod.installed.base import bases_of, find_base
from sifmod.installed.consistency import packages_in_container
from sifmod.installed.installation import Installation
from sifmod.names import CONTAINED, ENROOT, USER_COMMANDS, USER_COMMANDS_LOCK
from sifmod.render.helptext import examples, usage, whatis
from sifmod.render.templates import render, render_module
from sifmod.site.advisories import load_advisories
from sifmod.site.settings import Site, load_site
from sifmod.text.printable import printable
from sifmod.usersoftware.commands import refresh_commands
from sifmod.usersoftware.tree import restore_modes, split_installation, user_modes

# Credentials must not stay in the environment: EasyBuild logs and reports it.
take_from_environment()

_MOST_ANSWERS = 5  # in the trace output; the log has all
_MOST_LISTED = 100  # files; EasyBuild prints a line for each that it checks
_WRITE = stat.S_IWUSR | stat.S_IWGRP | stat.S_IWOTH


@contextmanager
def _easybuild_errors() -> Iterator[None]:
    """Report sifmod's errors the way EasyBuild reports its own."""
    try:
        yield
    except SifmodError as error:
        raise EasyBuildError("%s", printable(str(error))) from error


def _trace(line: str) -> None:
    """Print a line of trace output, which may hold text of the runtime or the image."""
    trace_msg(printable(line))


def _warn(sentence: str) -> None:
    """Print a warning, which may hold names of files that somebody else has chosen."""
    print_warning("%s", printable(sentence))


def _seen(spec: ContainerSpec, manifest: Manifest) -> ContainerSpec:
    """Return a description with what the install found out about the image."""
    return replace(
        spec,
        image_size=manifest.image_size,
        image_id=manifest.image_id,
        image_sha256=manifest.image_sha256,
        squashfs=manifest.squashfs,
        mpi=spec.mpi or manifest.mpi,
        mpi_env=manifest.mpi_env,
        misfits=manifest.misfits,
    )


class ContainerImage(EasyBlock):  # type: ignore[misc] # EasyBuild is untyped
    """Support for installing a container image as a module.

    EasyBuild's releases pass different arguments to a method, so each method accepts any and passes them on.
    """

    @staticmethod
    def extra_options(extra_vars: Optional[dict[str, Any]] = None) -> dict[str, Any]:
        """Define the easyconfig parameters of this easyblock; docs/reference/parameters.md explains them."""
        own = {
            "binds": [None, "Bind paths (source[:destination[:options]]), in addition to the site's", CUSTOM],
            "builds_on": [
                None,
                "Module whose image, settings and user software this one takes over: user software goes on top",
                CUSTOM,
            ],
            "build_args": [None, "Build arguments for the definition", CUSTOM],
            "build_target": [None, "Stage of the Dockerfile to build (default: the last one)", CUSTOM],
            "conda_env": [None, "Conda environment in the image whose Python is used", CUSTOM],
            "conda_root": [None, "Root of the conda installation in the image (default: /opt/miniconda3)", CUSTOM],
            "container_env": [
                None,
                "Variables for the container, in addition to the site's; None removes one of the site's",
                CUSTOM,
            ],
            "definition": [
                None,
                "Definition file or Dockerfile beside the easyconfig, to build the image from",
                CUSTOM,
            ],
            "definition_files": [
                None,
                "Files beside the easyconfig: what a Dockerfile may copy; kept in share/docker-defs",
                CUSTOM,
            ],
            "expected_packages": [None, "Names and exact versions of Python packages, for the sanity check", CUSTOM],
            "features": [
                None,
                "Names of the site's features, in addition to its default ones; '-NAME' takes one away",
                CUSTOM,
            ],
            "gpu": [
                None,
                "GPUs that the image is made for: 'amd' or 'nvidia' (default: the site's); '' for none",
                CUSTOM,
            ],
            "gpu_libraries": [
                None,
                "Whose libraries programs use on GPUs: 'host' or 'image' (default: the site's, else 'host')",
                CUSTOM,
            ],
            "image_mode": [
                None,
                "How the image gets into the installation: 'copy' (default), 'link' or 'central'",
                CUSTOM,
            ],
            "image_uri": [None, "URI to pull the image from, such as docker://debian:12", CUSTOM],
            "launch": [None, "Run commands with 'exec', or with 'run' through the image's entry point", CUSTOM],
            "mpi": [
                None,
                "Whose MPI programs use: 'host' or 'image' (default: as the image and the site have it)",
                CUSTOM,
            ],
            "module_family": [None, "Lmod family of the module (default: container); '' for none", CUSTOM],
            "pack_user_software": [None, "Pack the user software after installing pip_requirements", CUSTOM],
            "pip_constraints": [
                None,
                "Constrain pip to the versions of the image's packages (default: True)",
                CUSTOM,
            ],
            "pip_requirements": [None, "Requirements that pip installs into the virtual environment", CUSTOM],
            "python_prefix": [None, "Prefix of the Python in the image, such as /usr", CUSTOM],
            "share_container": [
                None,
                "Let the tasks of a Slurm step on a node share one container (default: the site's, else False)",
                CUSTOM,
            ],
            "user_commands": [
                None,
                "Make commands that users install commands on the host too (default: the site's, else True)",
                CUSTOM,
            ],
            "venv": [None, "Name of the virtual environment for user software (default: none)", CUSTOM],
            "wrappers": [None, "Host commands that run a command in the container: a list, or a map", CUSTOM],
        }
        options: dict[str, Any] = EasyBlock.extra_options({**own, **(extra_vars or {})})
        return options

    installdir: str

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        """Keep only PATH of a module's usual search paths: the host uses nothing else of the tree."""
        super().__init__(*args, **kwargs)
        if isinstance(self.cfg.easyblock, type):  # elsewhere than in a bundle it is the name in the easyconfig
            raise EasyBuildError(
                "%s %s: a container image can't be a component of a bundle, because a module is one container. Write "
                "an easyconfig for it, and name it in dependencies of the bundle",
                self.name,
                self.version,
            )
        for variable in list(self.module_load_environment.vars):
            if variable != "PATH":
                delattr(self.module_load_environment, variable)
        # each is prepended, so the last one is the first in PATH
        self.module_load_environment.PATH = [USER_COMMANDS, "bin"]
        # user software is in the installation directory, so EasyBuild must not empty it
        self.cfg["keeppreviousinstall"] = True
        # set once EasyBuild holds the lock: before that, another run may be installing into the directory
        self._is_new: Optional[bool] = None
        self._is_running = False  # without steps, an easyconfig is only evaluated
        self._interruption = Interruption()
        self._module_files = ModuleFiles()
        self._stored: Optional[StoredImage] = None
        self._definitions: tuple[Path, ...] = ()
        self._description: Optional[tuple[ContainerSpec, Site]] = None
        # before a reinstall of a read-only installation, EasyBuild makes all of it writable
        opened = build_option("read_only_installdir") and (build_option("rebuild") or build_option("force"))
        self._modes = user_modes(Path(self.installdir)) if opened and not self.dry_run else {}

    def describe(self) -> tuple[ContainerSpec, Site]:
        """Return the validated description of the container and the site; it is computed once.

        Raises:
            EasyBuildError: an easyconfig parameter or the site is wrong.
        """
        if self._description is None:
            with _easybuild_errors():
                manifest = read_manifest(Path(self.installdir))
                keep_image = manifest and (build_option("module_only") or build_option("sanity_check_only"))
                site = load_site()
                given = {key: self.cfg[key] for key in self.extra_options() if self.cfg.get(key) is not None}
                bases: tuple[Base, ...] = ()
                if self._base:
                    bases = bases_of(self._base, Path(self.installdir))
                    of_image = {key: self.cfg[key] for key in OF_THE_IMAGE if self.cfg[key]}
                    given = {
                        **inherited(bases[0], self._base.manifest.parameters, {**of_image, **given}),
                        "image_mode": "central",
                    }
                spec = spec_from_parameters(
                    name=self.name,
                    version=det_full_ec_version(self.cfg),
                    env_name=convert_name(self.name, upper=True),
                    installdir=self.installdir,
                    sif=manifest.image if manifest and keep_image else self._image_file_name(),
                    parameters={**site.easyconfig_defaults, **given},
                )
                site.features_of(spec.feature_changes(site.feature))
                if self._syntax != "Lua" and not re.fullmatch(r"[\w/.,:+@=^-]+", self.installdir):
                    raise ParameterError(
                        "module-syntax",
                        self._syntax,
                        f"EasyBuild can't write '{self.installdir}' into a Tcl module: choose another path",
                    )
                if manifest:
                    spec = _seen(replace(spec, image=manifest.image_source), manifest)
                    if keep_image or not self._is_running:
                        spec = replace(spec, advisories=self._known_problems(spec, site, manifest))
                else:
                    image = self._in_repositories(spec, site)
                    if image and os.access(image, os.R_OK):
                        spec = replace(spec, image_size=image.stat().st_size, image_id=sif_id(image))
                if not keep_image:
                    spec = replace(spec, squashfs=self._squashfs(spec.sif) if site.has_enroot else "", bases=bases)
                elif manifest:
                    spec = replace(spec, bases=manifest.bases)
                self._description = replace(spec, naming=self.naming()), site
        return self._description

    def _known_problems(self, spec: ContainerSpec, site: Site, manifest: Manifest) -> tuple[Advisory, ...]:
        """Return the advisories about an installed container, of which its image or a copy of it is read again."""
        own = Path(self.installdir, manifest.image)
        return known_problems(
            spec,
            site,
            advised_versions(site, release_here(site)),
            contents_of(own if manifest.image in manifest.files else Path(manifest.image_source)),
            names=(manifest.image, Path(manifest.image_source).name, manifest.image_origin),
            digests=(manifest.image_sha256, manifest.image_digest),
        )

    def naming(self) -> Naming:
        """Return the names that EasyBuild's module naming scheme and its other settings make."""
        path, links = self.module_generator.get_module_filepath, ActiveMNS().det_module_symlink_paths(self.cfg)
        return Naming(
            module=self.short_mod_name,
            full_module=self.full_mod_name,
            install_subdir=self.install_subdir,
            module_files=tuple(map(os.path.abspath, (path(), *(path(mod_path_suffix=link) for link in links)))),
        )

    @cached_property
    def _base(self) -> Optional[Installation]:
        """The installation that the easyconfig builds on; None if it has an image of its own."""
        wanted = self.cfg[BUILDS_ON]
        if not wanted:
            return None
        return find_base(wanted, self._space(), os.environ, Path(self.installdir))

    def _squashfs(self, sif: str) -> str:
        """Return the image for enroot: the file name of a new one, or the path of that of the base."""
        if self._base:
            return str(self._base.squashfs or "")
        return squashfs_name(sif)

    @staticmethod
    def _space() -> SoftwareSpace:
        """Return the folders that this run installs into."""
        return SoftwareSpace(software=Path(install_path()), modules=Path(install_path("mod")))

    def _image_file_name(self) -> str:
        """Return the file name of the image, from the parameter that says where the image comes from."""
        if self._base:
            return self._base.manifest.image
        sources, uri, definition = self.cfg["sources"], self.cfg["image_uri"], self.cfg["definition"]
        given = [name for name in ("sources", "image_uri", "definition") if self.cfg[name]]
        if len(given) != 1:
            found = " and ".join(given) if given else "none"
            raise ParameterError(
                "sources", sources, f"give one of sources, image_uri, definition and builds_on; found {found}"
            )
        for name in ("build_args", "build_target"):
            if self.cfg[name] and not definition:
                raise ParameterError(
                    name, self.cfg[name], "only a definition is built: add one or remove this parameter"
                )
        if uri:
            return image_uri(uri).file_name
        if definition:
            return self._definition().file_name(self._stem())
        if len(sources) != 1:
            raise ParameterError("sources", sources, "give exactly one: the file name of the SIF")
        filename = sources[0].get("filename") if isinstance(sources[0], dict) else sources[0]
        if not isinstance(filename, str):
            raise ParameterError("sources", sources[0], "give the file name of the SIF")
        return Path(filename).name

    def _stem(self) -> str:
        return f"{self.name}-{self.version}{self.cfg['versionsuffix']}"

    def _beside(self, parameter: str, name: Any) -> Path:
        """Return the path of a file beside the easyconfig."""
        if not isinstance(name, str) or "/" in name or not name.strip(". "):
            raise ParameterError(parameter, name, "give the name of a file beside the easyconfig, without a folder")
        path = Path(self.cfg.path).resolve().parent / name
        if not path.is_file():
            raise ParameterError(parameter, name, f"there is no such file beside the easyconfig, in '{path.parent}'")
        return path

    def _definition(self) -> Definition:
        """Return what the image is built from.

        Raises:
            ParameterError: a parameter for it is wrong.
        """
        names = file_names("definition_files", self.cfg["definition_files"] or ())
        return Definition(
            path=self._beside("definition", self.cfg["definition"]),
            build_args=build_arguments(self.cfg["build_args"]),
            target=build_target(self.cfg["build_target"]),
            files=tuple(self._beside("definition_files", name) for name in names),
        )

    def definitions(self) -> tuple[Path, ...]:
        """Return the paths of the definition files that are kept with the installation.

        Raises:
            ParameterError: one does not exist.
        """
        files = tuple(self._beside("definition_files", name) for name in self.describe()[0].definition_files)
        return self._definition().kept if self.cfg["definition"] else tuple(dict.fromkeys(files))

    def module_text(self) -> str:
        """Return the module as an install writes it, changes by hooks included; nothing need be installed yet.

        EasyBuild writes it into a temporary module tree, as for its sanity check.
        """
        self.make_module_step(fake=True)
        return str(read_file(self.module_generator.get_module_filepath(fake=True)))

    def run_all_steps(self, *args: Any, **kwargs: Any) -> bool:
        """Run the steps; if they fail, remove a new installation, or restore an earlier one."""
        self._is_running = True
        restore_modes(self._modes)
        try:
            done = bool(super().run_all_steps(*args, **kwargs))
            self._module_files.keep()
            self._make_room_for_easyconfig()
            self._make_read_only()
        except BaseException:
            self._take_back()  # between two steps, such as where a line can't be printed on a terminal that is gone
            raise
        finally:
            self._interruption.stop()
        return done

    def post_init(self, *args: Any, **kwargs: Any) -> None:
        """Deal with what an earlier run has left, as soon as EasyBuild holds the lock."""
        super().post_init(*args, **kwargs)
        installdir = Path(self.installdir)
        if installdir.is_dir() and not self.dry_run and not build_option("sanity_check_only"):
            with _easybuild_errors():
                check_writable(installdir)
                left = settle(installdir)
            if left:
                _warn(left)
            elif not any(installdir.iterdir()):
                installdir.rmdir()  # a first install was killed before it had put anything in place
        self._is_new = not installdir.exists()

    def run_step(self, *args: Any, **kwargs: Any) -> None:
        """Run a step; when it fails or is interrupted, take back what this run has done while the lock is held."""
        self._interruption.start()  # not before: who waits for the lock can be interrupted
        try:
            with self._interruption.delivered():
                super().run_step(*args, **kwargs)
        except StopException:
            raise
        except BaseException:
            self._take_back()
            raise

    def _take_back(self) -> None:
        """Undo what this run has changed; a second time there is nothing to undo."""
        installdir = Path(self.installdir)
        with _easybuild_errors():
            try:
                self._module_files.undo()
            finally:
                if self._is_new:
                    remove_tree(installdir)
                    with contextlib.suppress(OSError):
                        installdir.parent.rmdir()  # the folder of the software's name, unless it has other versions
                elif self._is_new is False:
                    undo(installdir)
                    refresh_commands(installdir)

    def _make_room_for_easyconfig(self) -> None:
        """Remove the copy of the easyconfig of the last install if EasyBuild can't write over it.

        A copy has the mode of its original, so that of another member of a group can't be written, and one's own can be
        read-only. EasyBuild itself removes the whole installation before a rebuild.
        """
        if self.dry_run or self.cfg["stop"] or build_option("sanity_check_only"):
            return
        kept = Path(self.installdir, log_path(ec=self.cfg), self.cfg.filename())
        with contextlib.suppress(OSError):
            if kept.stat().st_uid != os.geteuid() or not os.access(kept, os.W_OK):
                kept.unlink()

    def _make_read_only(self) -> None:
        """With --read-only-installdir, remove write permission from everything but user software.

        EasyBuild would remove it from user software too, but leaves alone a directory that is read-only already.
        """
        if build_option("read_only_installdir") and not self.dry_run and Path(self.installdir).is_dir():
            for entry in split_installation(Path(self.installdir))[1]:
                adjust_permissions(str(entry), _WRITE, add=False)
            adjust_permissions(self.installdir, _WRITE, add=False, recursive=False)

    def remove_module_file(self, *_args: Any, **_kwargs: Any) -> None:
        """Keep the module of an earlier installation until the new one overwrites it."""

    def _in_repositories(self, spec: ContainerSpec, site: Site) -> Optional[Path]:
        """Return the path of the image in the site's repositories; None if it comes from elsewhere."""
        return image_in_repositories(site, spec.sif) if self.cfg["sources"] else None

    def fetch_source(self, source: Any, checksum: Any = None, *args: Any, **kwargs: Any) -> dict[str, Any]:
        """Take the image from the site's repositories, else look for it as EasyBuild does."""
        spec, site = self.describe()
        path = self._in_repositories(spec, site)
        if path and source == self.cfg["sources"][0]:
            return {
                "name": spec.sif,
                "path": str(path),
                "cmd": None,
                "checksum": checksum,
                "finalpath": self.builddir,
            }
        try:
            found: dict[str, Any] = super().fetch_source(source, checksum, *args, **kwargs)
        except EasyBuildError as error:
            searched = ", ".join(site.image_repositories) or "none set"
            raise EasyBuildError(
                "easyconfig parameter 'sources' = %r: no such image, neither in the image repositories of the "
                "site '%s' (%s) nor where EasyBuild keeps sources (%s). Put it there, or name its directory with "
                "--sourcepath",
                spec.sif,
                site.name,
                searched,
                ", ".join(source_paths()),
            ) from error
        return found

    def fetch_step(self, skip_checksums: bool = False, *args: Any, **kwargs: Any) -> None:
        """Check what can be checked before anything is written, and find, pull or build the image."""
        site = self.describe()[1]
        with _easybuild_errors():
            self._definitions = self.definitions()
            load_advisories(site)
            runtime = None if self.dry_run else find_starter(site)
        # the image is hashed while it is copied: hashing the source here would read it once more
        super().fetch_step(True, *args, **kwargs)
        if runtime is None:
            return
        with _easybuild_errors():
            if not self.cfg["sources"]:
                self._fetch_image(runtime, site)
            check_is_sif(Path(self.src[0]["path"]))
        # `eb --job` skips checksums too; only with --inject-checksums is the easyconfig not validated
        if skip_checksums and not self.cfg["sources"] and build_option("validate") and not self.cfg.validation:
            raise EasyBuildError(
                "a pulled or built image has different bytes each time, so its checksum is useless; pin the image "
                "instead: image_uri = '...@%s'",
                self._stored.digest if self._stored and self._stored.digest else "sha256:...",
            )

    def _fetch_image(self, runtime: ContainerRuntime, site: Site) -> None:
        """Pull or build the image into EasyBuild's source path, unless it is there, or take that of the base."""
        if self._base:
            path = self._base.image if self._base.has_image else self._base.stand_in(site)
            if path is None:
                raise ParameterError(BUILDS_ON, self.cfg[BUILDS_ON], image_is_gone(self._base.image))
            checksum = self._base.manifest.image_sha256 or None
            self.src.append(
                {"name": path.name, "path": str(path), "cmd": None, "checksum": checksum, "finalpath": self.builddir}
            )
            return
        if not runtime.starts_sifs:
            raise RuntimeMissingError(
                f"{site.runtime_is_missing}. {runtime.path.name} neither pulls nor builds SIFs: give one in sources"
            )
        folder = Path(source_paths()[0], letter_dir_for(self.name), self.name)
        store = ImageStore(folder=folder, runtime=runtime, site=site, say=_trace, progress=easybuild_progress())
        again = build_option("force_download") in (FORCE_DOWNLOAD_ALL, FORCE_DOWNLOAD_SOURCES)
        if self.cfg["image_uri"]:
            path, self._stored = store.pull(image_uri(self.cfg["image_uri"]), again=again)
        else:
            path, self._stored = store.build(self._definition(), stem=self._stem(), again=again)
        checksum = self.get_checksum_for(checksums=self.cfg["checksums"], filename=path.name, index=0)
        source = {"name": path.name, "path": str(path), "cmd": None, "checksum": checksum, "finalpath": self.builddir}
        self.src.append(source)

    def checksum_step(self, *args: Any, **kwargs: Any) -> None:
        """Leave SHA-256 to the copy; let EasyBuild verify other checksums and report missing ones."""
        # a dry run neither pulls nor builds, so there may be no image
        if not self.src or not self._expected_sha256():
            super().checksum_step(*args, **kwargs)

    def _expected_sha256(self) -> str:
        return self._sha256_in(self.src[0]["checksum"])

    def stated_image(self) -> tuple[str, str, str]:
        """Return the URI of the image, its digest in the registry and its SHA-256; empty if the easyconfig has none."""
        found = self.get_checksum_for(checksums=self.cfg["checksums"], filename=self._image_file_name(), index=0)
        uri = self.cfg["image_uri"] or ""
        return uri, image_uri(uri).digest if uri else "", self._sha256_in(found).lower()

    @staticmethod
    def _sha256_in(checksum: object) -> str:
        """Return the SHA-256 in a checksum of EasyBuild; empty if it is another or none."""
        if isinstance(checksum, tuple) and len(checksum) == 2 and checksum[0] == "sha256":
            checksum = checksum[1]
        return checksum if isinstance(checksum, str) and re.fullmatch(r"[0-9a-fA-F]{64}", checksum) else ""

    def extract_step(self, *_args: Any, **_kwargs: Any) -> None:
        """Do nothing: an image is not unpacked."""

    def configure_step(self, *_args: Any, **_kwargs: Any) -> None:
        """Do nothing: there is nothing to configure."""

    def build_step(self, *_args: Any, **_kwargs: Any) -> None:
        """Do nothing: there is nothing to build."""

    def install_step(self, *_args: Any, **_kwargs: Any) -> None:
        """Install the image, the scripts and the virtual environment."""
        spec, site = self.describe()
        if self.dry_run:
            for artefact in render(spec, site):
                self.dry_run_msg(" * %s", Path(self.installdir, artefact.path))
            return
        expected = self._expected_sha256()
        if expected and build_option("ignore_checksums"):
            _warn(f"Ignoring the checksum of {spec.sif}")
            expected = ""
        image = Path(self.src[0]["path"])
        spec = replace(spec, image=str(image))
        with _easybuild_errors():
            spec = Installer(
                spec=spec,
                site=site,
                image=image,
                stored=self._stored,
                definitions=self._definitions,
                expected_sha256=expected,
                tools={"easybuild": str(VERSION)},
                say=_trace,
                warn=_warn,
                progress=easybuild_progress(),
            ).install()
            manifest = read_manifest(Path(self.installdir))
        if manifest:
            self._description = _seen(spec, manifest), site

    def sanity_check_step(self, *args: Any, **kwargs: Any) -> None:
        """Check the files, and start the container; sanity checks of the easyconfig run it as a user will."""
        spec, site = self.describe()
        files = [str(artefact.path) for artefact in render(spec, site)]
        with _easybuild_errors():
            runtime = find_starter(site)
        # an image's own Python need not be called python, that of a virtual environment is
        command = "python --version" if spec.venv else f"{spec.interpreter} --version" if spec.python else "true"
        listed = files if self.dry_run else files[:_MOST_LISTED]
        kwargs.setdefault("custom_paths", {"files": listed, "dirs": ["bin", "runscripts"]})
        manifest = None if self.dry_run else read_manifest(Path(self.installdir))
        shell = manifest is None or has_shell(image_of(Path(self.installdir), manifest))
        # an image that holds nothing but its program has no `true` either; that program is started below
        options = " ".join(CONTAINED)
        call = f"SIFMOD_RUNTIMES={ENROOT} SIFMOD_RUNTIME_OPTIONS='{options}' in-container {command}"
        if runtime.starts_sifs:
            call = f'{shlex.quote(str(runtime.path))} exec {options} "$SIF" {command}'
        commands = [call] if shell or spec.python else []
        kwargs.setdefault("custom_commands", commands)
        super().sanity_check_step(*args, **kwargs)
        if not self.dry_run:
            with _easybuild_errors():
                check_files(Path(self.installdir), files[_MOST_LISTED:])
                started = check_commands(spec, shell=shell)
            for number, (name, answer) in enumerate(started.versions.items()):
                self.log.info("%s", printable(f"{name} --version: {answer}"))
                if number < _MOST_ANSWERS:
                    _trace(f"{name} --version: {answer}")
            for name, answer in started.broken.items():
                _warn(f"the command of the wrapper {name} does not start in the container: {answer}")
        if spec.bases and spec.venv and manifest:
            # of a base that has changed since a member's own packages were installed
            own = Installation(Path(self.installdir), manifest, self._space())
            for finding in packages_in_container(own):
                if finding.severity == WARNING:
                    _warn(f"{finding.what}: install it anew on what is below, with carry-over or pip")
        if spec.expected_packages and not self.dry_run:
            with _easybuild_errors():
                check_packages(installed_packages(spec), spec.expected_packages)

    def bin_lib_subdirs(self, *_args: Any, **_kwargs: Any) -> list[str]:
        """Return a folder that does not exist: EasyBuild would look for linked libraries in each script, 10 ms each."""
        return ["lib"]

    def make_module_step(self, fake: bool = False, *args: Any, **kwargs: Any) -> str:
        """Write the module; with --module-only also the scripts, so that changes of the site reach both."""
        if fake or self.dry_run:
            return str(super().make_module_step(fake, *args, **kwargs))
        if build_option("module_only"):
            with _easybuild_errors():
                refresh_scripts(*self.describe())
        with _easybuild_errors(), self._whole_module_files():
            path = str(super().make_module_step(fake, *args, **kwargs))
        if build_option("module_only"):  # there are no further steps
            self._keep()
            with _easybuild_errors():
                record_module_files(Path(self.installdir))
        return path

    @contextmanager
    def _whole_module_files(self) -> Iterator[None]:
        """Let EasyBuild's step write the module file and the links to it through `ModuleFiles`.

        EasyBuild empties a module file before it writes it, and removes a link before it makes it, for which it has no
        setting. Everything else of its step (hooks, caches, defaults, its trace) stays as it is.
        """
        generator, write_file = self.module_generator, framework.write_file

        def write(path: str, text: Any, *args: Any, **kwargs: Any) -> None:
            if path != self.mod_filepath:
                write_file(path, text, *args, **kwargs)
                return
            mkdir(str(Path(path).parent), parents=True)
            self._module_files.write(Path(path), text)

        def create_symlinks(suffixes: list[str], *_args: Any, **_kwargs: Any) -> None:
            for suffix in suffixes:
                path = Path(generator.get_module_filepath(mod_path_suffix=suffix))
                mkdir(str(path.parent), parents=True)
                self._module_files.link(path, Path(self.mod_filepath))

        framework.write_file, generator.create_symlinks = write, create_symlinks
        try:
            yield
        finally:
            framework.write_file = write_file
            del generator.create_symlinks

    def _keep(self) -> None:
        """Let what this run has installed stay, whatever comes."""
        self._module_files.keep()
        forget(Path(self.installdir))

    def make_module_req(self, *args: Any, **kwargs: Any) -> str:
        """Add the search paths that exist; before an install, those that will exist."""
        installdir = self.installdir
        if self.dry_run or Path(installdir).is_dir():
            return str(super().make_module_req(*args, **kwargs))
        with tempfile.TemporaryDirectory() as folder:
            for artefact in render(*self.describe()):
                write_artefact(Path(folder), artefact)
            if self.describe()[0].user_commands:
                Path(folder, USER_COMMANDS).mkdir()
                Path(folder, USER_COMMANDS, USER_COMMANDS_LOCK).touch()
            self.installdir = folder
            try:
                return str(super().make_module_req(*args, **kwargs))
            finally:
                self.installdir = installdir

    def make_module_extra(self, *args: Any, **kwargs: Any) -> str:
        """Add the container's part to the module."""
        return str(super().make_module_extra(*args, **kwargs)) + render_module(*self.describe(), self._syntax)

    @property
    def _syntax(self) -> str:
        """Syntax of the module as EasyBuild names it: Lua or Tcl."""
        return str(self.module_generator.SYNTAX)

    def make_module_description(self, *args: Any, **kwargs: Any) -> str:
        """Add facts about the container to the help and the whatis lines of the easyconfig."""
        spec, site = self.describe()
        given = {key: self.cfg[key] for key in ("usage", "examples", "whatis")}
        lines = given["whatis"] or [f"Description: {self.cfg['description']}", f"Homepage: {self.cfg['homepage']}"]
        try:
            self.cfg["usage"] = "\n\n".join(filter(None, [given["usage"], usage(spec, site)]))
            self.cfg["examples"] = given["examples"] or examples(spec, site)
            self.cfg["whatis"] = whatis(spec, lines)
            return str(super().make_module_description(*args, **kwargs))
        finally:
            for key, value in given.items():
                self.cfg[key] = value

    def make_extension_list(self, *args: Any, **kwargs: Any) -> list[tuple[str, ...]]:
        """Let `module spider` find the module by the names of its packages, as by those of EasyBuild's extensions."""
        return [*super().make_extension_list(*args, **kwargs), *self.describe()[0].expected_packages.items()]

    def permissions_step(self, *args: Any, **kwargs: Any) -> None:
        """Apply EasyBuild's permissions to everything but user software."""
        installdir = self.installdir
        # the checks have passed, and nothing could be restored in read-only folders
        if self._is_new:
            forget(Path(installdir))  # if a later step fails, all of a first install is removed, its module too
        else:
            self._keep()
        with _easybuild_errors():
            record_module_files(Path(installdir))
            if self.describe()[1].replaced_image == "remove":
                remove_old_images(Path(installdir))
        try:
            for entry in split_installation(Path(installdir))[1]:
                self.installdir = str(entry)
                super().permissions_step(*args, **kwargs)
        finally:
            self.installdir = installdir
        if self.group is not None:
            adjust_permissions(installdir, stat.S_IRWXO, add=False, recursive=False, group_id=self.group[1])
        if build_option("group_writable_installdir") and not build_option("read_only_installdir"):
            adjust_permissions(installdir, stat.S_IWGRP, recursive=False)
