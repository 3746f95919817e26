##
# Copyright the sifmod developers
#
# This file is part of sifmod, an add-on to EasyBuild; it derives from EasyBuild's EasyBlock class.
#
# https://github.com/easybuilders/easybuild
#
# EasyBuild and sifmod are free software: you can redistribute them and/or modify
# them under the terms of the GNU General Public License as published by
# the Free Software Foundation v2.
#
# They are distributed in the hope that they will be useful,
# but WITHOUT ANY WARRANTY; without even the implied warranty of
# MERCHANTABILITY or FITNESS FOR A PARTICULAR PURPOSE.  See the
# GNU General Public License for more details.
#
# You should have received a copy of the GNU General Public License
# along with this file.  If not, see <http://www.gnu.org/licenses/>.
##
"""EasyBuild support for container images as modules, implemented as an easyblock.

An install copies and hashes the image, inspects its Python, writes scripts, and creates a virtual environment on top of
the image with the container runtime. Loading the module runs nothing: it sets variables. Everything else happens in the
container or in the scripts of the installation.

The sifmod library does the work; this class maps EasyBuild's steps and parameters to it.

@author: the sifmod developers
"""

from __future__ import annotations

import contextlib
import os
import re
import stat
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, Optional

from easybuild.framework.easyblock import EasyBlock, StopException
from easybuild.framework.easyconfig import CUSTOM
from easybuild.framework.easyconfig.easyconfig import ActiveMNS, letter_dir_for
from easybuild.tools.build_log import EasyBuildError, print_warning
from easybuild.tools.config import (
    FORCE_DOWNLOAD_ALL,
    FORCE_DOWNLOAD_SOURCES,
    build_option,
    install_path,
    source_paths,
)
from easybuild.tools.filetools import adjust_permissions, convert_name, read_file
from easybuild.tools.module_naming_scheme.utilities import det_full_ec_version
from easybuild.tools.modules import get_software_root
from easybuild.tools.utilities import trace_msg
from easybuild.tools.version import VERSION

# For a sifmod outside EasyBuild's own environment: `sifmod env` and sifmod's module set the variable. Its folders go
# first, because EasyBuild's Python may have older libraries than sifmod needs, such as those of its Linux distribution.
if os.environ.get("SIFMOD_PYTHONPATH"):
    sys.path[:0] = [path for path in os.environ["SIFMOD_PYTHONPATH"].split(":") if path and path not in sys.path]

# EasyBuild imports each easyblock when it lists them, with a Python that need not have sifmod.
_IS_MISSING = ""
try:
    from sifmod.container.inheritance import BUILDS_ON, inherited
    from sifmod.container.naming import Naming
    from sifmod.container.parameters import BUILD_SETTINGS, IMAGE_SOURCES, OF_THE_IMAGE, OWN, image_source
    from sifmod.container.spec import Base, ContainerSpec, image_is_gone, spec_from_parameters, squashfs_name
    from sifmod.eb.progress import easybuild_progress
    from sifmod.eb.space import SoftwareSpace
    from sifmod.eb.steps import check_is_not_loaded, make_room_for_easyconfig, whole_module_files
    from sifmod.errors import InstallError, ParameterError, RuntimeMissingError, SifmodError
    from sifmod.fetch.credentials import take_from_environment
    from sifmod.fetch.definition import Definition, beside
    from sifmod.fetch.records import StoredImage
    from sifmod.fetch.repository import image_in_repositories, unpacked_image
    from sifmod.fetch.store import ImageStore
    from sifmod.fetch.uri import image_uri
    from sifmod.host.interruption import Interruption
    from sifmod.host.runtime import ContainerRuntime
    from sifmod.host.writing import remove_tree
    from sifmod.image.inspection import has_shell
    from sifmod.image.sif import check_is_sif, sif_id
    from sifmod.install.advice import problems_of_installed
    from sifmod.install.commands import Started, check_commands, first_line
    from sifmod.install.installer import Installer, check_files, check_writable, refresh_scripts, write_artefact
    from sifmod.install.manifest import image_of, read_manifest
    from sifmod.install.modulefiles import ModuleFiles, record_module_files
    from sifmod.install.oldimages import remove_old_images
    from sifmod.install.packages import check_packages, python_facts
    from sifmod.install.rollback import forget, settle, undo
    from sifmod.install.starter import find_install_runtime
    from sifmod.installed.base import bases_of, find_base
    from sifmod.installed.consistency import problems_after_install
    from sifmod.installed.installation import Installation
    from sifmod.installed.modulepath import announce
    from sifmod.names import USER_COMMANDS, USER_COMMANDS_LOCK
    from sifmod.render.helptext import examples, usage, whatis
    from sifmod.render.module import render_module
    from sifmod.render.templates import render
    from sifmod.site.advisories import load_advisories
    from sifmod.site.settings import Site, load_site
    from sifmod.text.digest import sha256_in
    from sifmod.text.printable import printable
    from sifmod.usersoftware.commands import refresh_commands
    from sifmod.usersoftware.tree import restore_modes, split_installation, user_modes
except ImportError as error:
    _IS_MISSING = str(error)
else:
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


class ContainerImage(EasyBlock):  # type: ignore[misc] # EasyBuild is untyped
    """Support for installing a container image as a module.

    EasyBuild's releases pass different arguments to a method, so each method accepts any and passes them on.
    """

    @staticmethod
    def extra_options(extra_vars: Optional[dict[str, Any]] = None) -> dict[str, Any]:
        """Define the easyconfig parameters of this easyblock: those of the library's table."""
        if _IS_MISSING:
            raise EasyBuildError(
                "the easyblock ContainerImage needs sifmod, which this Python can't import (%s): pip install sifmod "
                "into the environment of eb, load sifmod's module, or eval the output of 'sifmod env'",
                _IS_MISSING,
            )
        own = {name: [None, one.help_text, CUSTOM] for name, one in OWN.items()}
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
        # before EasyBuild holds the lock, another run may be installing into the directory
        self._has_lock = False
        self._is_new = False
        self._is_running = False  # without steps, an easyconfig is only evaluated
        self._interruption = Interruption()
        self._module_files = ModuleFiles()
        self._stored: Optional[StoredImage] = None
        self._definitions: tuple[Path, ...] = ()
        self._description: Optional[tuple[ContainerSpec, Site]] = None
        self._found_base: Optional[Installation] = None
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
                site = load_site()
                self._description = replace(self._described(site), naming=self.naming()), site
        return self._description

    def _described(self, site: Site) -> ContainerSpec:
        """Return what the parameters, the present installation and the image in a repository say of the container."""
        manifest = read_manifest(Path(self.installdir))
        keep_image = manifest and (build_option("module_only") or build_option("sanity_check_only"))
        spec = spec_from_parameters(
            name=self.name,
            version=det_full_ec_version(self.cfg),
            env_name=convert_name(self.name, upper=True),
            installdir=self.installdir,
            sif=manifest.image if manifest and keep_image else self._image_file_name(),
            parameters={**site.easyconfig_defaults, **self._parameters()},
        )
        site.features_of(spec.feature_changes(site.feature))
        if self._syntax != "Lua" and not re.fullmatch(r"[\w/.,:+@=^-]+", self.installdir):
            raise ParameterError(
                "module-syntax",
                self._syntax,
                f"EasyBuild can't write '{self.installdir}' into a Tcl module: choose another path",
            )
        if manifest:
            spec = manifest.added_to(replace(spec, image=manifest.image_source))
            if keep_image or not self._is_running:
                spec = replace(spec, advisories=problems_of_installed(spec, site, manifest))
        else:
            image = self._in_repositories(spec, site)
            if image and image.is_file() and os.access(image, os.R_OK):
                spec = replace(spec, image_size=image.stat().st_size, image_id=sif_id(image))
        if manifest and keep_image:
            return replace(spec, bases=manifest.bases)
        # the file name of a new one, or the path of that of the base
        squashfs = str(self._base.squashfs or "") if self._base else squashfs_name(spec.sif)
        return replace(spec, squashfs=squashfs if site.squashfs_runtimes else "", bases=self._bases)

    def _parameters(self) -> dict[str, Any]:
        """Return the parameters of the easyconfig, with those that a base hands down."""
        given = {key: self.cfg[key] for key in self.extra_options() if self.cfg.get(key) is not None}
        if not self._base:
            return given
        of_image = {key: self.cfg[key] for key in OF_THE_IMAGE if self.cfg[key]}
        handed_down = inherited(self._bases[0], self._base.manifest.parameters, {**of_image, **given})
        return {**handed_down, "image_mode": "central"}

    @property
    def _bases(self) -> tuple[Base, ...]:
        """The installations whose user software is below."""
        return bases_of(self._base, Path(self.installdir)) if self._base else ()

    @property
    def spec(self) -> ContainerSpec:
        """The description of the container; see `describe`."""
        return self.describe()[0]

    @property
    def site(self) -> Site:
        """The settings of the cluster; see `describe`."""
        return self.describe()[1]

    def naming(self) -> Naming:
        """Return the names that EasyBuild's module naming scheme and its other settings make."""
        path, links = self.module_generator.get_module_filepath, ActiveMNS().det_module_symlink_paths(self.cfg)
        return Naming(
            module=self.short_mod_name,
            full_module=self.full_mod_name,
            install_subdir=self.install_subdir,
            module_files=tuple(map(os.path.abspath, (path(), *(path(mod_path_suffix=link) for link in links)))),
        )

    @property
    def _base(self) -> Optional[Installation]:
        """The installation that the easyconfig builds on; None if it has an image of its own."""
        wanted = self.cfg[BUILDS_ON]
        if wanted and self._found_base is None:
            self._found_base = self._find_base(wanted)
        return self._found_base

    def _find_base(self, wanted: str) -> Installation:
        for one in self.cfg["dependencies"]:
            if wanted in (one["short_mod_name"], one["full_mod_name"]):
                raise ParameterError(
                    "dependencies",
                    wanted,
                    "this module has the image and the packages of that one, and is not loaded beside it: write it in "
                    "builddependencies, which eb --robot installs first",
                )
        return find_base(wanted, self._space(), os.environ, Path(self.installdir), ask_owner=load_site().ask_owner)

    @staticmethod
    def _space() -> SoftwareSpace:
        """Return the folders that this run installs into."""
        return SoftwareSpace(software=Path(install_path()), modules=Path(install_path("mod")))

    def _image_file_name(self) -> str:
        """Return the file name of the image, from the parameter that says where the image comes from."""
        if self._base:
            return self._base.manifest.image
        if build_option("module_only") and build_option("force") and not any(map(self.cfg.get, IMAGE_SOURCES)):
            # EasyBuild writes such a module for any easyconfig, and its test suite does so for every easyblock
            _warn(f"nothing is installed in '{self.installdir}', and the easyconfig names no image: name one, run eb")
            return f"{self._stem()}.sif"
        source, name = image_source({name: self.cfg[name] for name in (*IMAGE_SOURCES, *BUILD_SETTINGS)})
        if source == "image_uri":
            return image_uri(self.cfg[source]).file_name
        return self._definition().file_name(self._stem()) if source == "definition" else name

    def _stem(self) -> str:
        return f"{self.name}-{self.version}{self.cfg['versionsuffix']}"

    def _beside(self, parameter: str, name: Any) -> Path:
        return beside(Path(self.cfg.path), parameter, name)

    def _definition(self) -> Definition:
        """Return what the image is built from."""
        arguments, target, names = (OWN[name].read(self.cfg[name]) for name in (*BUILD_SETTINGS, "definition_files"))
        return Definition(
            path=self._beside("definition", self.cfg["definition"]),
            build_args=arguments,
            target=target,
            files=tuple(self._beside("definition_files", name) for name in names),
        )

    def definitions(self) -> tuple[Path, ...]:
        """Return the paths of the definition files that are kept with the installation.

        Raises:
            ParameterError: one does not exist.
        """
        files = tuple(self._beside("definition_files", name) for name in self.spec.definition_files)
        return self._definition().kept if self.cfg["definition"] else tuple(dict.fromkeys(files))

    def module_text(self) -> str:
        """Return the module as an install writes it, changes by hooks included, from a temporary module tree."""
        self.make_module_step(fake=True)
        return str(read_file(self.module_generator.get_module_filepath(fake=True)))

    def run_all_steps(self, *args: Any, **kwargs: Any) -> bool:
        """Run the steps; if they fail, remove a new installation, or restore an earlier one."""
        self._is_running = True
        restore_modes(Path(self.installdir), self._modes)
        try:
            done = bool(super().run_all_steps(*args, **kwargs))
            self._module_files.keep()
            make_room_for_easyconfig(self)
            self._make_read_only()
        except BaseException:
            self._take_back()  # between two steps, such as where a line can't be printed on a terminal that is gone
            raise
        finally:
            self._interruption.stop()
        return done

    def check_readiness_step(self, *args: Any, **kwargs: Any) -> None:
        """Say how to unload what EasyBuild does not install again while it is loaded."""
        with _easybuild_errors():
            check_is_not_loaded(self.name, get_software_root(self.name), self.short_mod_name, self.full_mod_name)
        super().check_readiness_step(*args, **kwargs)

    def post_init(self, *args: Any, **kwargs: Any) -> None:
        """Deal with what an earlier run has left, as soon as EasyBuild holds the lock."""
        super().post_init(*args, **kwargs)
        installdir = Path(self.installdir)
        if installdir.is_dir() and not self.dry_run and not build_option("sanity_check_only"):
            with _easybuild_errors():
                folders = (Path(path).parent for path in self.naming().module_files)
                check_writable(installdir, folders, ask_owner=load_site().ask_owner)
                left = settle(installdir)
            if left:
                _warn(left)
            elif not any(installdir.iterdir()):
                installdir.rmdir()  # a first install was killed before it had put anything in place
        self._is_new = not installdir.exists()
        self._has_lock = True

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
                elif self._has_lock:
                    undo(installdir)
                    if not build_option("module_only"):  # which leaves user software alone
                        refresh_commands(installdir)

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
        """Return the path of the image in the site's repositories, or unpacked; None if it comes from elsewhere."""
        sources = self.cfg["sources"]
        return (unpacked_image(sources[0]) or image_in_repositories(site, spec.sif)) if sources else None

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
        site = self.site
        with _easybuild_errors():
            self._definitions = self.definitions()
            load_advisories(site)
            runtime = None if self.dry_run else find_install_runtime(site)
        # the image is hashed while it is copied: hashing the source here would read it once more
        super().fetch_step(True, *args, **kwargs)
        if runtime is None:
            return
        with _easybuild_errors():
            if not self.cfg["sources"]:
                self._fetch_image(runtime, site)
            image = Path(self.src[0]["path"])
            if not image.is_dir():
                check_is_sif(image)
        # `eb --job` skips checksums too; only with --inject-checksums is the easyconfig not validated
        if skip_checksums and not self.cfg["sources"] and build_option("validate") and not self.cfg.validation:
            raise EasyBuildError(
                "a pulled or built image has different bytes each time, so only this copy would have the checksum: pin "
                "the image instead: image_uri = '...@%s'",
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
        checksum = self.get_checksum_for(checksums=self.cfg["checksums"], filename=self._image_file_name(), index=0)
        sha256 = "" if build_option("ignore_checksums") else sha256_in(checksum)
        if self.cfg["image_uri"]:
            path, self._stored = store.pull(image_uri(self.cfg["image_uri"]), again=again, sha256=sha256)
        else:
            path, self._stored = store.build(self._definition(), stem=self._stem(), again=again, sha256=sha256)
        source = {"name": path.name, "path": str(path), "cmd": None, "checksum": checksum, "finalpath": self.builddir}
        self.src.append(source)

    def checksum_step(self, *args: Any, **kwargs: Any) -> None:
        """Leave SHA-256 to the copy; let EasyBuild verify other checksums and report missing ones."""
        # a dry run neither pulls nor builds, so there may be no image
        if not self.src or not self._expected_sha256():
            super().checksum_step(*args, **kwargs)

    def _expected_sha256(self) -> str:
        return sha256_in(self.src[0]["checksum"])

    def stated_image(self) -> tuple[str, str, str]:
        """Return the URI of the image, its digest in the registry and its SHA-256; empty if the easyconfig has none."""
        found = self.get_checksum_for(checksums=self.cfg["checksums"], filename=self._image_file_name(), index=0)
        uri = self.cfg["image_uri"] or ""
        return uri, image_uri(uri).digest if uri else "", sha256_in(found)

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
            self._description = manifest.added_to(spec), site

    def sanity_check_step(self, *args: Any, **kwargs: Any) -> None:
        """Check the files, and start the container; sanity checks of the easyconfig run it as a user will."""
        self._refresh_scripts()  # first: those of the installation may be of an earlier sifmod, or changed by somebody
        spec, site = self.describe()
        files = [str(artefact.path) for artefact in render(spec, site)]
        with _easybuild_errors():
            runtime = find_install_runtime(site)
        listed = files if self.dry_run else files[:_MOST_LISTED]
        kwargs.setdefault("custom_paths", {"files": listed, "dirs": ["bin", "runscripts"]})
        manifest = None if self.dry_run else read_manifest(Path(self.installdir))
        shell = manifest is None or has_shell(image_of(Path(self.installdir), manifest))
        started, problem = Started(), None
        if not self.dry_run:
            with _easybuild_errors():
                try:
                    started = check_commands(spec, shell=shell)
                except InstallError as error:  # EasyBuild's own checks, which come first, may say more
                    problem = error
        commands = [] if started.container else first_line(spec, runtime, shell=shell)
        kwargs.setdefault("custom_commands", commands)
        super().sanity_check_step(*args, **kwargs)
        if not self.dry_run:
            with _easybuild_errors():
                check_files(Path(self.installdir), files[_MOST_LISTED:])
                if problem:
                    raise problem
            for number, (name, answer) in enumerate(started.versions.items()):
                self.log.info("%s", printable(f"{name} --version: {answer}"))
                if number < _MOST_ANSWERS:
                    _trace(f"{name} --version: {answer}")
            for name, answer in started.broken.items():
                _warn(f"the command of the wrapper {name} does not start in the container: {answer}")
        if spec.venv and manifest:
            for sentence in problems_after_install(Installation(Path(self.installdir), manifest, self._space())):
                _warn(sentence)
        if spec.expected_packages and not self.dry_run:
            with _easybuild_errors():
                facts = python_facts(Path(self.installdir), spec.module, spec.interpreter)
                check_packages(facts, spec.expected_packages)

    def bin_lib_subdirs(self, *_args: Any, **_kwargs: Any) -> list[str]:
        """Return a folder that does not exist: EasyBuild would look for linked libraries in each script, 10 ms each."""
        return ["lib"]

    def make_module_step(self, fake: bool = False, *args: Any, **kwargs: Any) -> str:
        """Write the module; with --module-only also the scripts, so that changes of the site reach both."""
        if fake or self.dry_run:
            return str(super().make_module_step(fake, *args, **kwargs))
        self._refresh_scripts()  # with --force there was no sanity check
        with _easybuild_errors(), whole_module_files(self, self._module_files):
            path = str(super().make_module_step(fake, *args, **kwargs))
        spec, site = self.describe()
        if spec.bases:
            try:
                announce(Path(self.installdir), site)
            except InstallError as error:
                _warn(str(error))
        if build_option("module_only"):  # there are no further steps
            self._keep()
            with _easybuild_errors():
                record_module_files(Path(self.installdir))
        return path

    def _refresh_scripts(self) -> None:
        """With --module-only, write the scripts as this sifmod and the site have them now."""
        if build_option("module_only") and not self.dry_run:
            with _easybuild_errors():
                refresh_scripts(self.spec, self.site)

    def _keep(self) -> None:
        """Let what this run has installed stay, whatever comes."""
        self._module_files.keep()
        forget(Path(self.installdir))

    @contextmanager
    def _installdir_as(self, folder: str) -> Iterator[None]:
        """Let a step of EasyBuild's work on another folder than the installation."""
        installdir, self.installdir = self.installdir, folder
        try:
            yield
        finally:
            self.installdir = installdir

    def make_module_req(self, *args: Any, **kwargs: Any) -> str:
        """Add the search paths that exist; before an install, those that will exist."""
        if self.dry_run or Path(self.installdir).is_dir():
            return str(super().make_module_req(*args, **kwargs))
        with tempfile.TemporaryDirectory() as folder:
            for artefact in render(self.spec, self.site):
                write_artefact(Path(folder), artefact)
            if self.spec.user_commands:
                Path(folder, USER_COMMANDS).mkdir()
                Path(folder, USER_COMMANDS, USER_COMMANDS_LOCK).touch()
            with self._installdir_as(folder):
                return str(super().make_module_req(*args, **kwargs))

    def make_module_extra(self, *args: Any, **kwargs: Any) -> str:
        """Add the container's part to the module."""
        return str(super().make_module_extra(*args, **kwargs)) + render_module(self.spec, self.site, self._syntax)

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
        return [*super().make_extension_list(*args, **kwargs), *self.spec.expected_packages.items()]

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
            if self.site.replaced_image == "remove":
                remove_old_images(Path(installdir))
        for entry in split_installation(Path(installdir))[1]:
            with self._installdir_as(str(entry)):
                super().permissions_step(*args, **kwargs)
        if self.group is not None:
            adjust_permissions(installdir, stat.S_IRWXO, add=False, recursive=False, group_id=self.group[1])
        if build_option("group_writable_installdir") and not build_option("read_only_installdir"):
            adjust_permissions(installdir, stat.S_IWGRP, recursive=False)
