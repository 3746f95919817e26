"""What is known of an installation when its files are rendered; `values.py` makes the tables of it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath

from sifmod import names
from sifmod.container.bind import Bind, escape
from sifmod.container.runtime import squashfs_image
from sifmod.container.spec import Base, ContainerSpec, image_is_gone, reinstalling
from sifmod.container.variables import is_for_host
from sifmod.render.environment import (
    cache_folders,
    injected_variables,
    plain_variables,
    proxies,
    structural_variables,
)
from sifmod.render.features import Features, rendered_features
from sifmod.site.settings import Site
from sifmod.text import quoting


@dataclass(frozen=True)
class SettingsFacts:
    """What the modules of all images refer to."""

    binds: tuple[str, ...]  # bind paths that are always used
    optional_binds: tuple[tuple[str, str], ...]  # sources and bind paths of those that are used where the source exists
    exported: Mapping[str, str]  # variables of the shell that features leave alone
    injected: Mapping[str, str]  # variables of the container only that features leave alone
    features: Features
    proxies: Sequence[tuple[str, str, str]]  # see `environment.proxies`
    caches: Mapping[str, str]  # the folder below the root of the caches by variable

    @property
    def loaded_caches(self) -> dict[str, str]:
        """Those of the caches whose variables a module sets."""
        return {name: folder for name, folder in self.caches.items() if not is_for_host(name)}


@dataclass(frozen=True)
class InstallationFacts:
    """What the files of an installation refer to."""

    settings: SettingsFacts  # what those of all images do
    installdir: PurePosixPath
    binds: tuple[str, ...]  # bind paths that are always used
    directory_bind: str  # that of user software as a directory
    packed_bind: str  # that of packed user software
    at_start: str  # the bind path of what decides at each start, where there are layers; empty if it is among `binds`
    # other paths of the image, each with the size and the identifier that it must have there; 0: any
    central: tuple[tuple[str, int, str], ...]
    bases: tuple[Mapping[str, str], ...]  # what is known of each installation whose user software is below
    structural: Mapping[str, str]  # the variables that make the container's Python and user software work
    messages: Mapping[str, str]  # what is said when something is missing, by a name that scripts and modules know

    def path(self, name: str) -> str:
        """Return the path of a file of the installation."""
        return str(self.installdir / name)


def settings_facts(spec: ContainerSpec, site: Site) -> SettingsFacts:
    """Return what the modules of all images refer to: bind paths, features, variables and caches."""
    exported, injected = plain_variables(spec, site), injected_variables(spec, site)
    features = rendered_features(
        site,
        exported=exported,
        injected=injected,
        changes=spec.feature_changes(site.feature),
        overridden=spec.container_env,
        env_name=spec.env_name,
        unusable=spec.unusable_features,
        switched_on=(spec.runtime_gpu.setup(site.gpu_setup).variable,) if spec.runtime_gpu else (),
    )
    of_features = features.runtime_variables
    return SettingsFacts(
        binds=tuple(bind.argument for bind in (*site.binds, *spec.binds)),
        optional_binds=tuple((bind.source, bind.argument) for bind in site.optional_binds),
        exported={name: value for name, value in exported.items() if name not in features.exported},
        injected={name: value for name, value in injected.items() if f"ENV_{name}" not in of_features},
        features=features,
        proxies=proxies(spec, site),
        caches=cache_folders(spec, site),
    )


def installation_facts(spec: ContainerSpec, site: Site) -> InstallationFacts:
    """Return what the files of an installation refer to."""
    settings, installdir = settings_facts(spec, site), PurePosixPath(spec.installdir)

    def bind(name: str, destination: str, options: str = "") -> str:
        return Bind(str(installdir / name), destination, options).argument

    at_start = bind(f"runscripts/{names.AT_START}", names.READ_AT_START, "ro")
    always = (at_start,) if spec.runtime_gpu else ()
    return InstallationFacts(
        settings=settings,
        installdir=installdir,
        binds=(bind("runscripts", names.RUNSCRIPTS, "ro"), *always, *settings.binds),
        directory_bind=bind(names.USER_SOFTWARE_DIRECTORY, names.USER_SOFTWARE),
        packed_bind=bind(names.USER_SOFTWARE_PACKED, names.USER_SOFTWARE, "ro,image-src=/"),
        at_start="" if always else at_start,
        central=_central_images(spec, site),
        bases=tuple(_base_facts(spec, base, site.ask_owner) for base in spec.bases_below),
        structural=structural_variables(spec),
        messages=_messages(spec, site, installdir),
    )


def _messages(spec: ContainerSpec, site: Site, installdir: PurePosixPath) -> dict[str, str]:
    def own_path(name: str) -> str:
        return str(installdir / name)

    packed = own_path(names.USER_SOFTWARE_PACKED)
    readable = f"chmod ug+r {quoting.shell(packed)}"
    rebuild = f"module unload {quoting.shell(spec.module)}; {reinstalling(spec.installdir)}"
    listed = own_path(names.USER_SOFTWARE_LIST)
    again = f"Then, if {listed} is there, load the module and type: carry-over {quoting.shell(listed)}"
    rollback = f"if {own_path(names.USER_SOFTWARE_PREVIOUS)} is there, with: make-squashfs --rollback"
    return {
        # after a path
        "is_closed": f"can't be read, so {spec.module} can't be used. Permissions? Moved? 'namei -l' with this path "
        f"shows what is closed or gone: {site.ask_owner}",
        "image_is_gone": f"{image_is_gone(spec.image_path, is_unpacked=True)}; if it is gone on all, {site.ask_owner}"
        if spec.is_unpacked
        else f"{image_is_gone(spec.image if spec.bases else own_path(spec.sif))}. Reinstall the module "
        "with: eb --rebuild",
        "image_has_changed": f"the image '{spec.image_path}' is another one now than when {spec.module} was installed: "
        f"{site.ask_owner}, who can look at it and install the module again with eb --rebuild",
        "squashfs_is_gone": f"the {squashfs_image()}, {own_path(spec.squashfs)}, is gone: reinstall the module with: "
        "eb --rebuild",
        "unreadable_beside_directory": f"{packed} can't be read, so {own_path(names.USER_SOFTWARE_DIRECTORY)} is used. "
        f"Its owner can allow it with: {readable}",
        "unreadable_alone": f"{packed} can't be read, and your packages are in it. "
        f"Its owner can allow it with: {readable}",
        "damaged_beside_directory": f"{packed} is damaged, so {own_path(names.USER_SOFTWARE_DIRECTORY)} is used. "
        f"Pack it again with: rm {quoting.shell(packed)}; make-squashfs",
        "damaged_alone": f"{packed} is damaged, and your packages are in it. Restore it from a backup, or, "
        f"{rollback}. Otherwise begin anew with: rm {quoting.shell(packed)}; {rebuild}. {again}",
        "missing": f"the user software is missing: neither {own_path(names.USER_SOFTWARE_DIRECTORY)} nor {packed} "
        f"exists. Restore the file, {rollback}. Otherwise make it again, without your packages, with: {rebuild}. "
        f"{again}",
        "own_environment": "this environment works in the container only (start-shell): on the host, its python is the "
        "host's"
        + (
            f". To add packages to {spec.module}: pip install NAME. For a separate set of packages: sifmod on "
            f"{quoting.shell(spec.module)} --name NAME"
            if spec.venv
            else ""
        ),
        "own_kernel": "Jupyter on the host can't start this kernel. For one that it can start: sifmod kernel "
        f"{quoting.shell(spec.module)}",
        # after a path and its owner
        "may_not_write": f"for group write permission, {site.ask_owner}. For a module of your own on top: sifmod on "
        f"{quoting.shell(spec.module)} --name NAME",
        "stale": f"this shell loaded {spec.module} before its user software was packed, so singularity here still "
        f"uses the old directory. Run: module load {spec.module}",
    }


def _base_facts(spec: ContainerSpec, base: Base, ask_owner: str) -> dict[str, str]:
    """Return what is known of an installation whose user software is below that of a container.

    Its manifest has these lines as long as it fits. Only keys of the manifest itself are indented so little.
    """

    def line(key: str, value: str) -> str:
        return f"\n  {json.dumps(key)}: {json.dumps(value)},\n"

    described = f"{base.root} ({base.module})"
    return {
        "root": base.root,
        "source": escape(base.root),
        "manifest": f"{base.root}/{names.MANIFEST}",
        "python_line": line("python_version", base.python_version),
        "venv_line": line("venv", base.venv),
        "image_line": line("image_id", base.image_id),
        "other_python": f"{described} has another Python now than {base.python_version}, and {spec.module} "
        "builds on it with packages for that one: reinstall it with eb --rebuild, and install your packages anew "
        "with carry-over",
        "other_venv": f"{described} has another virtual environment now than {base.venv}, so its packages are "
        f"missing: {ask_owner}, for that one, or install your packages in a new version of the module with carry-over",
        "is_missing": f"{described} has no user software now, so its packages are missing: {ask_owner}",
        "is_gone": f"{described} is gone or can't be read, so its packages are missing: {ask_owner}",
        "other_image": f"{described} has another image now than when {spec.module} was installed, with the same "
        "Python. To see what does not fit: list-packages --check",
    }


def _central_images(spec: ContainerSpec, site: Site) -> tuple[tuple[str, int, str], ...]:
    """Return the image's original path in the mode `central`, then its paths in the site's repositories.

    All of a stand-in is read at the install and by `sifmod verify`: at load that would take minutes.
    """
    if spec.is_unpacked:
        return ()
    same = spec.image_size, spec.image_id if spec.image_size else ""
    own = {spec.image: (0, "")} if spec.image_mode == "central" and spec.image else {}
    repositories = {str(PurePosixPath(folder, spec.sif)): same for folder in site.image_repositories}
    return tuple((path, *expected) for path, expected in {**own, **repositories, **own}.items())
