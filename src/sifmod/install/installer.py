"""Installing a container: everything is prepared beside the old files, then moved into place by renames.

A failure before the first rename leaves an earlier installation unchanged. User software is made once; afterwards
only the user's own commands rename it.
"""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path, PurePosixPath
from typing import Any, Callable, Optional

from sifmod import __version__, names
from sifmod.advice.advisory import Advisory
from sifmod.artefact import Artefact
from sifmod.container.bind import Bind
from sifmod.container.inheritance import BUILDS_ON
from sifmod.container.runtime import squashfs_image, squashfs_users
from sifmod.container.spec import ContainerSpec, squashfs_name
from sifmod.errors import ImageError, InstallError, ParameterError, os_errors
from sifmod.fetch.definition import kept_definition
from sifmod.fetch.records import StoredImage
from sifmod.fetch.signature import check_signature
from sifmod.host.command import run
from sifmod.host.files import content_of, folders_below, inside, lacking_space, sha256_of, size_of
from sifmod.host.owners import no_permission, other_writers
from sifmod.host.runtime import ContainerRuntime
from sifmod.host.writing import remove_tree, scratch_folder
from sifmod.image.inspection import Inspection, contents_of, inspect_image
from sifmod.image.sif import Descriptor, check_is_sif, sif_id, squashfs_partition
from sifmod.image.unpacked import unpacked_id, unpacked_labels
from sifmod.install import advice
from sifmod.install.hostslurm import with_slurm
from sifmod.install.manifest import Manifest, read_manifest
from sifmod.install.mpi import with_mpi
from sifmod.install.oldimages import is_complete, remove_old_images, superseded_images
from sifmod.install.pip import pip_settings, scratch_binds
from sifmod.install.placement import HARD_LINK, copy_image, link_image
from sifmod.install.probe import probe_python
from sifmod.install.rollback import remember, remember_renames
from sifmod.install.starter import find_install_runtime
from sifmod.install.uv import host_uv, uv_settings
from sifmod.install.wrappers import check_wrappers
from sifmod.render.environment import setting_variables, structural_variables
from sifmod.render.templates import render, uv_command
from sifmod.site.advisories import load_advisories
from sifmod.site.settings import Site
from sifmod.text import quoting
from sifmod.text.progress import QUIET, Progress
from sifmod.usersoftware.commands import refresh_commands, remove_commands
from sifmod.usersoftware.layers import layer_binds, trees_below
from sifmod.usersoftware.tree import (
    PARTS,
    dangling_link,
    has_user_software,
    layers_in,
    make_user_software,
    packed_is_active,
    python_version,
    set_aside,
    split_installation,
)

# Bytes that a new virtual environment takes at most: pip and setuptools, and while they are installed, their wheels.
_OF_A_VENV = 32 << 20


@dataclass(frozen=True)
class _SquashFs:
    """The image's SquashFS: its file name or path, empty if there is none, its SHA-256 and its size in bytes."""

    name: str = ""
    sha256: str = ""
    size: int = 0


@dataclass(frozen=True)
class Installer:
    """Installs the SIF of a container into its installation directory.

    The SHA-256 is that of the easyconfig, empty if it has none; the tools are those that call sifmod. `say` is called
    with one line when a step begins, `warn` with a sentence that the user must see.
    """

    spec: ContainerSpec
    site: Site
    image: Path
    expected_sha256: str
    tools: Mapping[str, str]
    say: Callable[[str], None]
    warn: Callable[[str], None]
    stored: Optional[StoredImage] = None
    definitions: tuple[Path, ...] = ()
    progress: Progress = QUIET

    def install(self) -> ContainerSpec:
        """Install the container, or reinstall it over an earlier installation, and return what is known of it now.

        The replaced files are kept until `forget` is called: `undo` restores them if a later check fails.

        Raises:
            SifmodError: a step failed; an earlier installation still works, and nothing is left of a new one.
        """
        runtime = find_install_runtime(self.site)
        if self.spec.bases and not runtime.starts_sifs and not self.spec.squashfs:
            raise InstallError(
                f"{self.spec.bases[0].module} has no image for {runtime.path.name}, the only runtime here: ask its "
                "owner to install it again with eb --rebuild, or install on a node with Apptainer or SingularityCE"
            )
        if self.image.is_dir():
            self._check_unpacked()
        if self._needs_squashfs:
            self._squashfs_partition(self.image)  # refuse an unfit image before anything is written
        check_wrappers(self.spec, self.site, self.image)
        installdir = self._installdir
        with _stage(installdir) as stage:
            before = self._make_space(installdir, read_manifest(installdir))
            spec, manifest, outdated = self._prepare(stage, runtime, before)
            is_new = (stage / names.USER_SOFTWARE_DIRECTORY).exists()
            changed = {*manifest.files, *(before.files if before else ())} - {*manifest.old_images}
            remember(installdir, changed, manifest=manifest.text)
            if outdated:
                self._set_aside(outdated)
            elif is_new:
                remember_renames(installdir, (), PARTS)
            _commit(stage, installdir, manifest, before)
        if self.spec.pack_user_software and is_new:
            self._pack()
        if self.spec.venv:
            for line in refresh_commands(installdir):
                self.say(line)
        else:
            remove_commands(installdir)
        return spec

    @property
    def _installdir(self) -> Path:
        return Path(self.spec.installdir)

    @property
    def _needs_squashfs(self) -> bool:
        """Whether the installation has a SquashFS of its own; with the image of another one it has none."""
        return bool(self.site.squashfs_runtimes) and not self.spec.bases

    def _prepare(
        self, stage: Path, runtime: ContainerRuntime, before: Optional[Manifest]
    ) -> tuple[ContainerSpec, Manifest, str]:
        """Prepare everything in the stage.

        Return the spec with what the image has shown, the manifest, and the Python version of outdated user software.
        """
        image, digest = self._bring_image(stage, runtime)
        is_unpacked = image.is_dir()
        size = 0 if is_unpacked else image.stat().st_size
        identifier = unpacked_id(image) if is_unpacked else sif_id(image)
        self._compare_stand_ins((size, identifier), digest)
        squashfs = self._write_squashfs(stage, image) if self._needs_squashfs else self._squashfs_of_base()
        started = image if runtime.starts_sifs else stage / squashfs.name
        contents = contents_of(image)
        facts = None
        if self.spec.python:
            self.say(f"looking at the Python of the image in {self.spec.python.prefix}")
            facts = probe_python(runtime, started, self.spec.python)
        spec = replace(
            self.spec,
            is_unpacked=is_unpacked,
            image_labels=unpacked_labels(image) if is_unpacked else "",
            image_size=size,
            image_id=identifier,
            image_sha256=digest,
            squashfs=squashfs.name,
            locales=contents.locales if contents else (),
            has_drivers=contents is None or contents.drivers is None or bool(contents.drivers),
            python_version=facts.version if facts else self.spec.python_version,
        )
        advice.tell_of_gpus(spec, contents, runtime, say=self.say, warn=self.warn)
        spec = with_mpi(spec, self.site, contents, runtime, say=self.say, warn=self.warn)
        spec = with_slurm(spec, self.site, contents, say=self.say)
        spec = replace(spec, advisories=self._known_problems(spec, runtime, contents, digest))
        artefacts = [*render(spec, self.site), *map(kept_definition, self.definitions)]
        if facts and spec.pip_constraints:
            artefacts.append(Artefact(PurePosixPath("runscripts", names.CONSTRAINTS), facts.constraints))
        for artefact in artefacts:
            write_artefact(stage, artefact)
        outdated = self._outdated_python(spec.python_version, before) if spec.venv else ""
        self._check_user_software(spec, before, outdated)
        if spec.venv and (outdated or not has_user_software(Path(spec.installdir))):
            self._check_link(outdated)
            # what is packed on top may have been lost, and the layers below it are still there
            has_layers = not outdated and bool(layers_in(Path(spec.installdir)))
            self._make_user_software(stage, started, runtime, spec, has_layers=has_layers)
            check_wrappers(spec, self.site, image, user_software=stage / names.USER_SOFTWARE_DIRECTORY)
        images = [spec.sif] if image.parent == stage else []
        images += [squashfs.name] if self._needs_squashfs else []
        manifest = self._manifest(spec, artefacts, images, before, squashfs, runtime)
        write_artefact(stage, Artefact(PurePosixPath(names.MANIFEST), manifest.text))
        return spec, manifest, outdated

    def _check_user_software(self, spec: ContainerSpec, before: Optional[Manifest], outdated: str) -> None:
        """Refuse what would lose packages of users, or make some that do not work."""
        if before and spec.bases and before.venv and not spec.venv and has_user_software(Path(spec.installdir)):
            raise ParameterError(
                "venv",
                "",
                f"{spec.bases[0].module} has no virtual environment any more, and this module has packages in one: set "
                f"venv = '{before.venv}'",
            )
        if spec.venv and before and not outdated:
            self._check_venv(before)
            self._check_bases(before)
        if spec.venv and not outdated:
            self._check_environment()

    def _manifest(
        self,
        spec: ContainerSpec,
        artefacts: Sequence[Artefact],
        images: Sequence[str],
        before: Optional[Manifest],
        squashfs: _SquashFs,
        runtime: ContainerRuntime,
    ) -> Manifest:
        """Return the record of the new installation, which has these images of its own."""
        hashes = {str(artefact.path): artefact.sha256 for artefact in artefacts}
        old_images = superseded_images(Path(spec.installdir), before, (spec.sif, *images))
        return Manifest(
            image=spec.sif,
            image_source=str(self.image),
            image_origin=self.stored.origin if self.stored else "",
            image_digest=self.stored.digest if self.stored else "",
            image_sha256=spec.image_sha256,
            image_size=spec.image_size,
            image_id=spec.image_id,
            image_labels=spec.image_labels,
            python_version=spec.python_version,
            venv=spec.venv,
            hashes=hashes,
            expected_packages=dict(spec.expected_packages),
            files=tuple(sorted([names.MANIFEST, *hashes, *images, *old_images])),
            tools={**self.tools, "sifmod": __version__, "runtime": runtime.version},
            old_images=old_images,
            mpi=spec.mpi,
            mpi_env=dict(spec.mpi_env),
            locales=spec.locales,
            has_drivers=spec.has_drivers,
            misfits=dict(spec.unusable_features),
            features=_features(spec, self.site),
            squashfs=squashfs.name,
            squashfs_sha256=squashfs.sha256,
            squashfs_size=squashfs.size,
            bases=spec.bases,
            parameters=dict(spec.inheritable),
            **_manifest_of_names(spec, before),
        )

    def _known_problems(
        self, spec: ContainerSpec, runtime: ContainerRuntime, contents: Optional[Inspection], digest: str
    ) -> tuple[Advisory, ...]:
        """Return the advisories that the module tells; tell of these, and of those about this host or a GPU driver."""
        versions = advice.advised_versions(self.site, runtime.release)
        origin, registry = (self.stored.origin, self.stored.digest) if self.stored else ("", "")
        called = (spec.sif, self.image.name, origin)
        found = advice.known_problems(spec, self.site, versions, contents, names=called, digests=(digest, registry))
        told = advice.told_by_module(found)
        settings = setting_variables(replace(spec, advisories=told), self.site)
        for advisory in (
            *found,
            *advice.about_node(load_advisories(self.site), advice.node_subject(self.site, versions)),
        ):
            advice.tell(advisory, settings, say=self.say, warn=self.warn)
        return told

    def _make_space(self, installdir: Path, before: Optional[Manifest]) -> Optional[Manifest]:
        """Remove images that no module file names if the new image needs their space, and return the manifest then."""
        needed = size_of(self.image) if self.spec.image_mode == "copy" else 0
        needed += self._squashfs_partition(self.image).size if self._needs_squashfs else 0
        if not before or not is_complete(before) or shutil.disk_usage(installdir).free >= needed:
            return before
        removed = remove_old_images(installdir)
        if removed:
            self.say(f"removing {', '.join(removed)}: the new image needs the space")
        return read_manifest(installdir)

    def _check_link(self, outdated: str) -> None:
        """Refuse to make user software in the place of a link whose target is missing, perhaps only on this host."""
        problem = dangling_link(self._installdir)
        if problem and not outdated:
            raise InstallError(
                f"{problem}: is its file system mounted here? If the user software is lost, remove the link"
            )

    def _check_venv(self, before: Manifest) -> None:
        """Refuse to rename the virtual environment while user software has it under another name."""
        if not has_user_software(self._installdir) or before.venv == self.spec.venv:
            return
        folder = self._installdir / names.USER_SOFTWARE_DIRECTORY / "venv"
        # an install without `venv` may have come in between, and the packed file is not read here
        present = [before.venv] if before.venv else sorted(path.name for path in folder.glob("*"))
        if present and not (folder / self.spec.venv).is_dir():
            raise ParameterError(
                "venv",
                self.spec.venv,
                f"the user software in '{self._installdir}' has the virtual environment '{', '.join(present)}': keep "
                "that name, or give this module another version",
            )

    def _check_bases(self, before: Manifest) -> None:
        """Refuse to put user software on a base, or to take it off one: its environment was made for what it has."""
        if has_user_software(self._installdir) and bool(before.bases) != bool(self.spec.bases):
            below = ", ".join(base.module for base in before.bases) or "no other module"
            raise ParameterError(
                BUILDS_ON,
                self.spec.bases[0].module if self.spec.bases else None,
                f"the user software in '{self.spec.installdir}' was made on {below}: keep that, or give this module "
                "another version, and install the packages there with carry-over",
            )

    def _check_environment(self) -> None:
        """Refuse user software without the virtual environment, in which containers find their Python."""
        directory = self._installdir / names.USER_SOFTWARE_DIRECTORY
        if not directory.is_dir() or packed_is_active(self._installdir):
            return
        if not (directory / "venv" / self.spec.venv).is_dir():
            raise InstallError(
                f"'{directory}' has no virtual environment '{self.spec.venv}', so containers would not find their "
                "Python. Restore it from a backup. To begin with a new one, move the directory away, and install again"
            )

    def _outdated_python(self, version: str, before: Optional[Manifest]) -> str:
        """Return the Python version of the present user software if it differs from the image's; empty otherwise."""
        if not has_user_software(self._installdir):
            return ""
        venv = before.venv if before and before.venv else self.spec.venv
        present = python_version(self._installdir, venv=venv, recorded=before.python_version if before else "")
        return present if present != version else ""

    def _bring_image(self, stage: Path, runtime: ContainerRuntime) -> tuple[Path, str]:
        """Return the path of the image of this install, and its SHA-256; empty if the image was not read.

        What is checked is what is installed, not where it came from, which others may replace meanwhile.
        """
        target = stage / self.spec.sif
        digest, how = "", self.spec.image_mode
        if self.image.is_dir():
            self.say(f"using the unpacked image {self.image} where it is: its files are not hashed")
            self._warn_of_writers()
            return self.image, ""
        if how == "central":
            self.say(f"using the image {self.image} where it is")
            target = self.image
        elif how == "link":
            self.say(f"linking the image {self.image}")
            how = link_image(self.image, target)
            if not how:
                self.say("the file systems support no link between them: copying the image")
                digest = self._copy(target)
        else:
            self.say(f"copying the image {self.image}")
            digest = self._copy(target)
        if not digest and (how == HARD_LINK or self.stored or self.expected_sha256):
            digest = self._hash(target)
        self._check_sha256(digest)
        check_is_sif(target)
        check_signature(runtime, target, self.site, source=self.image)
        if how in (HARD_LINK, "central"):
            self._warn_of_writers()
        return target, digest

    def _check_unpacked(self) -> None:
        """Refuse what can't be promised of a directory."""
        how = self.spec.image_mode
        if how != "central":
            raise ParameterError("image_mode", how, f"'{self.image}' is a directory, so write image_mode = 'central'")
        if self.expected_sha256 and not self.spec.bases:
            raise ParameterError("checksums", self.expected_sha256, "a directory has none: remove this parameter")
        if self.site.signatures == "required":
            raise ImageError(
                f"the site '{self.site.name}' requires signed images, and the directory '{self.image}' has no signature"
            )
        inspect_image(self.image)

    def _squashfs_partition(self, image: Path) -> Descriptor:
        return squashfs_partition(image, user=self.site.squashfs_runtimes[0].key)

    def _write_squashfs(self, stage: Path, image: Path) -> _SquashFs:
        """Write the SquashFS, the root file system of the SIF that was placed."""
        name = squashfs_name(self.spec.sif)
        partition = self._squashfs_partition(image)
        self.say(f"writing {name}, the {squashfs_image()}")
        path = stage / name
        with self.progress.step(f"writing {name}", size=partition.size) as step:
            digest = copy_image(image, path, offset=partition.offset, size=partition.size, progress=step.advance)
            path.chmod(path.stat().st_mode & ~0o111)
        return _SquashFs(name, digest, partition.size)

    def _squashfs_of_base(self) -> _SquashFs:
        """Return that of the installation that this one builds on."""
        if not (self.spec.bases and self.site.squashfs_runtimes):
            return _SquashFs()
        below = read_manifest(Path(self.spec.bases[0].root))
        if below is None or not self.spec.squashfs:
            self.warn(
                f"{self.spec.bases[0].module} has no {squashfs_image()}, so this module can't be used with "
                f"{' or '.join(squashfs_users())}: its owner makes one with eb --rebuild"
            )
            return _SquashFs()
        return _SquashFs(self.spec.squashfs, below.squashfs_sha256, below.squashfs_size)

    def _check_sha256(self, digest: str) -> None:
        """Refuse an image that is not the one that the easyconfig names, or not the one that was pulled or built."""
        if self.spec.bases and self.expected_sha256 and digest != self.expected_sha256:
            raise ImageError(
                f"the image '{self.image}' has the SHA-256 {digest}, but {self.expected_sha256} was recorded when "
                f"{self.spec.bases[0].module} was installed: its owner finds out more with sifmod verify"
            )
        if self.expected_sha256 and digest != self.expected_sha256.lower():
            raise ImageError(
                f"the image '{self.image}' has the SHA-256 {digest}, but checksums in the easyconfig expects "
                f"{self.expected_sha256}: fetch the image again, or correct the easyconfig"
            )
        if self.stored and digest != self.stored.sha256:
            raise ImageError(
                f"the image '{self.image}' has the SHA-256 {digest}, but {self.stored.sha256} was recorded when it was "
                "fetched: somebody or something has changed it since. Fetch it again with: eb --rebuild "
                "--force-download=sources"
            )

    def _compare_stand_ins(self, header: tuple[int, str], digest: str) -> None:
        """Warn of an image in the site's repositories that a module would take for this one, but is another."""
        for folder in self.site.image_repositories if digest else ():
            path = Path(folder, self.spec.sif)
            with contextlib.suppress(OSError):  # it is not there, or not ours to read
                if path.samefile(self.image) or (path.stat().st_size, sif_id(path)) != header:
                    continue
                found = self._hash(path)
                if found != digest:
                    self.warn(
                        f"the site's image '{path}' looks like the installed one, but has the SHA-256 {found}: the "
                        "module would use it if its own image is gone. Find out who changed it, and copy it anew"
                    )

    def _warn_of_writers(self) -> None:
        """Say who may change the image after this install, without this installation being touched."""
        try:
            paths = [self.image]
            if self.spec.image_mode == "central":
                paths.append(self.image.parent)
            if self.image.is_dir():
                paths += [one for one in sorted(self.image.iterdir()) if one.is_dir() and not one.is_symlink()]
            writers = next(filter(None, map(other_writers, paths)), "")
        except OSError:
            return  # it was read a moment ago
        if writers:
            instead = "" if self.image.is_dir() else ", or use image_mode = 'copy'"
            self.warn(
                f"{writers} may change the image '{self.image}', which this module uses: what they put there runs as "
                f"everybody who loads the module. Take their write permission away{instead}"
            )

    def _copy(self, target: Path) -> str:
        with self.progress.step(f"copying {self.image.name}", size=size_of(self.image)) as step:
            return copy_image(self.image, target, progress=step.advance)

    def _hash(self, path: Path) -> str:
        with self.progress.step(f"hashing {path.name}", size=size_of(path)) as step:
            return sha256_of(path, progress=step.advance)

    def _make_user_software(
        self, stage: Path, image: Path, runtime: ContainerRuntime, spec: ContainerSpec, *, has_layers: bool
    ) -> None:
        self.say(f"making the virtual environment {spec.venv_path}")
        directory = stage / names.USER_SOFTWARE_DIRECTORY
        try:
            below = layer_binds(trees_below([base.root for base in spec.bases_below]))
            binds = make_user_software(
                directory, stage / "runscripts", image, runtime, spec, below=below, has_layers=has_layers
            )
        except InstallError as error:
            # ensurepip does not say that space was lacking
            problem = lacking_space(stage, _OF_A_VENV)
            if not problem:
                raise
            raise InstallError(
                f"making the virtual environment in '{spec.installdir}' failed: {problem}. Make space there, or "
                "install elsewhere: eb --installpath"
            ) from error
        if spec.pip_requirements:
            uses_uv = self.site.installer == "uv" and self._has_uv(image, runtime, spec, binds)
            self.say(f"installing {', '.join(spec.pip_requirements)} with {'uv' if uses_uv else 'pip'}")
            self._install_requirements(image, runtime, spec, binds, uses_uv=uses_uv)

    def _has_uv(
        self, image: Path, runtime: ContainerRuntime, spec: ContainerSpec, user_software: tuple[Bind, ...]
    ) -> bool:
        """Return whether the image or the host has uv."""
        command = [*uv_command(spec), "--version"]
        try:
            runtime.run(image, command, binds=[*host_uv(os.environ), *user_software], env=structural_variables(spec))
        except InstallError:
            self.say("neither the image nor this host has a uv that works in the image")
            return False
        return True

    def _install_requirements(
        self,
        image: Path,
        runtime: ContainerRuntime,
        spec: ContainerSpec,
        user_software: tuple[Bind, ...],
        *,
        uses_uv: bool,
    ) -> None:
        """Install `pip_requirements`; the container sees what pip or uv is set to use, and writes nowhere else."""
        pip = [spec.interpreter, "-m", "pip", "--disable-pip-version-check"]
        command, settings_of = ([*uv_command(spec), "pip"], uv_settings) if uses_uv else (pip, pip_settings)
        lent = host_uv(os.environ) if uses_uv else ()
        with scratch_folder("pip") as scratch:
            settings, binds = settings_of(scratch, spec.pip_requirements, os.environ)
            present = [bind for bind in self.site.optional_binds if Path(bind.source).exists()]
            others = [bind.read_only for bind in (*self.site.binds, *present, *spec.binds)]
            runtime.run(
                image,
                [*command, "install", "-r", "/dev/stdin"],
                binds=[*scratch_binds(scratch), *others, *binds, *lent, *user_software],
                env={**settings, **setting_variables(spec, self.site), **structural_variables(spec)},
                stdin="\n".join(spec.pip_requirements) + "\n",
            )

    def _set_aside(self, version: str) -> None:
        """Set user software of another Python aside, and warn the user where it is now."""
        note = partial(remember_renames, self._installdir, names=PARTS)
        renames = set_aside(self._installdir, version, note=note)
        renamed = {old.name: new for old, new in renames}
        if renamed:
            packed, listed = renamed.get(names.USER_SOFTWARE_PACKED), renamed.get(names.USER_SOFTWARE_LIST)
            remedy = f"carry-over {quoting.shell(listed)}" if listed else ""
            if packed and not listed:
                new = quoting.shell(packed.with_suffix(".txt"))
                remedy = f"sifmod inspect {quoting.shell(packed)} --packages >{new} && carry-over {new}"
            self.warn(
                f"the image's Python is no longer {version}: the user software for it was renamed to "
                + ", ".join(str(path) for path in renamed.values())
                + (f"; load the module and install its packages again with: {remedy}" if remedy else "")
            )

    def _pack(self) -> None:
        self.say("packing the user software")
        done = run([self._installdir / "bin" / "make-squashfs", "--remove-directory"])
        if done.status:
            raise InstallError(f"packing the user software failed with exit status {done.status}: {done.last_lines}")


def _features(spec: ContainerSpec, site: Site) -> tuple[str, ...]:
    return tuple(feature.name for feature in site.features_of(spec.feature_changes(site.feature)))


def refresh_scripts(spec: ContainerSpec, site: Site) -> None:
    """Rewrite the scripts of an installation with the current site settings, and remove those that it no longer has.

    Image and user software stay unchanged. Do nothing if sifmod has not installed anything there.

    Raises:
        InstallError: a script can't be written, or the manifest can't be read.
    """
    installdir = Path(spec.installdir)
    manifest = read_manifest(installdir)
    if manifest is None:
        return
    artefacts = render(replace(spec, python_version=manifest.python_version), site)
    rendered = {str(artefact.path): artefact.sha256 for artefact in artefacts}
    # scripts of an earlier sifmod, site or easyconfig
    gone = {
        name
        for name in manifest.hashes
        if name.startswith(("bin/", "runscripts/", "share/"))
        and not (name in rendered or name.startswith(names.OF_THE_IMAGE))
    }
    manifest = replace(
        manifest,
        files=tuple(sorted({*manifest.files, *rendered} - gone)),
        hashes={**{name: digest for name, digest in manifest.hashes.items() if name not in gone}, **rendered},
        tools={**manifest.tools, "sifmod": __version__},
        venv=manifest.venv or spec.venv,  # sifmod 0.1.0 did not record it
        features=_features(spec, site),
        parameters=dict(spec.inheritable),
        **_manifest_of_names(spec, manifest),
    )
    record = Artefact(PurePosixPath(names.MANIFEST), manifest.text)
    changed = [
        artefact
        for artefact in (*artefacts, record)
        if _content(inside(installdir, str(artefact.path))) != artefact.text.encode()
    ]
    if not changed:
        return
    with _stage(installdir) as stage:
        for artefact in changed:
            write_artefact(stage, artefact)
        remember(installdir, [*gone, *(str(artefact.path) for artefact in changed)], manifest=manifest.text)
        for artefact in changed:
            _move_into_place(stage, installdir, str(artefact.path))
        for name in gone:
            inside(installdir, name).unlink(missing_ok=True)
    if spec.venv:
        refresh_commands(installdir)


def check_writable(installdir: Path, others: Iterable[Path] = (), *, ask_owner: str) -> None:
    """Refuse an installation, and other folders that exist, that this user can't change, user software apart."""
    inner = (folder for top in split_installation(installdir)[1] for folder in folders_below(top))
    for folder in (installdir, *inner, *filter(Path.is_dir, others)):
        if os.access(folder, os.W_OK | os.X_OK):
            continue
        if folder.stat().st_uid == os.geteuid():
            if folder != installdir:  # its owner may open it where that is needed
                continue
            raise InstallError(
                f"'{folder}' is read-only, as eb leaves it with --read-only-installdir. To change it, type: "
                "eb --rebuild --read-only-installdir EASYCONFIG (with --module-only it can't be changed)"
            )
        raise no_permission(folder, ask_owner)


def check_files(installdir: Path, paths: Iterable[str]) -> None:
    """Refuse an installation that lacks files."""
    lacking = [path for path in paths if not Path(installdir, path).is_file()]
    if lacking:
        count = f"{len(lacking)} files, the first of them" if len(lacking) > 1 else "the file"
        raise InstallError(f"'{installdir}' lacks {count} '{lacking[0]}': reinstall it with: eb --rebuild")


def write_artefact(top: Path, artefact: Artefact) -> None:
    """Write one artefact below `top`, with permissions from the umask; InstallError if that can't be done."""
    path = inside(top, str(artefact.path))
    with os_errors(InstallError, f"writing '{path}' failed"):
        path.parent.mkdir(parents=True, exist_ok=True)
        mode = 0o777 if artefact.executable else 0o666
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, mode)
        with os.fdopen(descriptor, "w", encoding="utf-8") as stream:
            stream.write(artefact.text)


@contextlib.contextmanager
def _stage(installdir: Path) -> Iterator[Path]:
    """Yield a temporary folder inside the installation, on its file system, and remove it in any case."""
    stage = installdir / names.STAGE
    with os_errors(InstallError, f"can't write to the installation directory '{installdir}'"):
        is_new = not installdir.exists()
        installdir.mkdir(parents=True, exist_ok=True)
        remove_tree(stage)
        stage.mkdir()
    try:
        yield stage
    finally:
        with contextlib.suppress(OSError):
            remove_tree(stage)
        if is_new and not any(installdir.iterdir()):
            installdir.rmdir()


def _manifest_of_names(spec: ContainerSpec, before: Optional[Manifest]) -> dict[str, Any]:
    """Return what the manifest says of a container's names: that of its module alone if EasyBuild has not named it.

    A module file that an earlier run wrote elsewhere, by another naming scheme or into another tree, still loads this
    installation, so it stays in the list as long as it exists.
    """
    if spec.naming is None:
        return {"module": spec.module}
    earlier = before.module_files.items() if before else ()
    return {
        "module": spec.naming.module,
        "name": spec.name,
        "version": spec.version,
        "full_module": spec.naming.full_module,
        "install_subdir": spec.naming.install_subdir,
        "module_files": {
            **{path: digest for path, digest in earlier if os.path.islink(path) or os.path.isfile(path)},  # noqa: PTH113, PTH114 - False where it can't be seen
            **dict.fromkeys(spec.naming.module_files, ""),  # not written yet
        },
    }


def _commit(stage: Path, installdir: Path, manifest: Manifest, before: Optional[Manifest]) -> None:
    """Rename each staged file into place, the manifest last, and remove files that only the old installation had.

    A command that starts meanwhile finds what `container.sh` sources.
    """
    try:
        files = set(manifest.files) - {names.MANIFEST, *manifest.old_images}
        for name in sorted(files, key=lambda name: (name == names.CONTAINER_SCRIPT, name)):
            _move_into_place(stage, installdir, name)
        user_software = stage / names.USER_SOFTWARE_DIRECTORY
        if user_software.exists():
            user_software.rename(installdir / names.USER_SOFTWARE_DIRECTORY)
        _move_into_place(stage, installdir, names.MANIFEST)
        for name in set(before.files) - set(manifest.files) if before else ():
            inside(installdir, name).unlink(missing_ok=True)
    except OSError as error:
        raise InstallError(f"moving the installation into '{installdir}' failed: {error}") from error


def _content(path: Path) -> Optional[bytes]:
    try:
        return content_of(path)
    except FileNotFoundError:
        return None


def _move_into_place(stage: Path, installdir: Path, name: str) -> None:
    target = inside(installdir, name)
    with os_errors(InstallError, f"moving '{target}' into place failed"):
        target.parent.mkdir(parents=True, exist_ok=True)
        inside(stage, name).replace(target)
