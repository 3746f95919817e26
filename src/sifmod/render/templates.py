"""Rendering: a spec and a site in, artefacts out; the same bytes for the same input, and nothing written.

A file that needs no value of the installation is in `wrappers/` or `inside/` and is installed unchanged.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Mapping
from functools import lru_cache
from pathlib import PurePosixPath
from typing import Any, Optional

import jinja2

from sifmod import __version__, names
from sifmod.artefact import Artefact
from sifmod.container.bind import Bind, escape
from sifmod.container.gpu import VENDORS
from sifmod.container.spec import Base, ContainerSpec, image_is_gone
from sifmod.container.variables import is_for_host
from sifmod.image import sif, superblock
from sifmod.inside.trees import FOLDER_MODES, SEEDED
from sifmod.render.environment import (
    cache_folders,
    injected_variables,
    plain_variables,
    setting_variables,
    structural_variables,
)
from sifmod.render.features import RECORD, rendered_features
from sifmod.resources import data_path, program
from sifmod.site import cache
from sifmod.site.settings import Site
from sifmod.text import pattern, quoting


@lru_cache(maxsize=1)
def _templates() -> jinja2.Environment:
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader([data_path(name) for name in ("wrappers", "modulefiles", "jobs")]),
        undefined=jinja2.StrictUndefined,
        keep_trailing_newline=True,
        trim_blocks=True,
        lstrip_blocks=True,
        comment_start_string="<#--",  # the usual "{#" is bash: ${#array[@]}
        comment_end_string="--#>",
        autoescape=False,  # noqa: S701 - shell and Lua, not HTML: the filters below quote
    )
    environment.filters.update(sh=quoting.shell, lua=quoting.lua, tcl=quoting.tcl, comment=quoting.comment)
    environment.filters.update(bind_escape=escape)
    environment.filters.update(
        sh_expanding=quoting.shell_expanding, lua_expanding=quoting.lua_expanding, tcl_expanding=quoting.tcl_expanding
    )
    environment.filters.update(
        sh_pattern=pattern.shell, lua_pattern=pattern.lua, lua_path_pattern=pattern.lua_path, tcl_pattern=pattern.tcl
    )
    return environment


def render_template(template: str, /, **facts: Any) -> str:
    """Return the text of a template that is not part of an installation.

    Args:
        template: its path below the template folders, without `.j2`.
        facts: the names that it refers to.
    """
    return _templates().get_template(f"{template}.j2").render(facts)


def render(spec: ContainerSpec, site: Site) -> tuple[Artefact, ...]:
    """Return the files of an installation, sorted by path.

    Args:
        spec: the container.
        site: the settings of the cluster.
    """
    facts = _facts(spec, site)

    def plain(folder: str, name: str, *, executable: bool = True) -> Artefact:
        text = (data_path("wrappers") / folder / name).read_text(encoding="utf-8")
        return Artefact(PurePosixPath(folder, name), text, executable)

    def artefact(folder: str, name: str, *, executable: bool = True, template: str = "", **more: Any) -> Artefact:
        text = _templates().get_template(f"{folder}/{template or name}.j2").render({**facts, **more})
        return Artefact(PurePosixPath(folder, name), text, executable)

    commands: dict[str, list[str]] = {}
    # what is named itself before the versioned names that come with `python` and `pip`
    for command in (*spec.wrapped, *spec.wrappers):
        for name, arguments in _commands(spec, command).items():
            commands.setdefault(name, arguments)
    artefacts = [
        artefact("bin", "in-container"),
        artefact("bin", "start-shell"),
        plain("bin", "broadcast-image"),
        artefact("share", "container.sh", executable=False),
        plain("share", "hold-container"),
        plain("share", "node-copies.sh", executable=False),
        plain("share", "node-copy"),
        plain("share", "share-container.sh", executable=False),
        artefact("runscripts", "get-master"),
        artefact("runscripts", "mpi-check"),
        Artefact(PurePosixPath("runscripts", names.MPI_CHECK), program("mpi_check")),
    ]
    for name, arguments in commands.items():
        more: dict[str, Any] = {"command": name, "arguments": arguments, "installing": _installing(spec, name)}
        artefacts.append(artefact("bin", name, template="wrapper", **more))
    if spec.python:
        artefacts += [
            artefact("bin", "list-packages"),
            artefact("runscripts", "conda-python-distributed"),
            artefact("runscripts", "conda-python-simple"),
            artefact("runscripts", "init-conda-venv", executable=False),
            artefact("runscripts", "list-packages"),
            artefact("runscripts", "run-tool"),
            artefact("runscripts", "torchrun-distributed"),
            Artefact(PurePosixPath("runscripts", names.CONSISTENCY), program("consistency")),
        ]
    if spec.venv:
        artefacts += [
            plain("bin", "add-layer"),
            plain("bin", "carry-over"),
            plain("bin", "flatten-layers"),
            plain("bin", "make-squashfs"),
            plain("bin", "refresh-commands"),
            plain("bin", "remove-layer"),
            plain("bin", "unmake-squashfs"),
            plain("share", "layering.sh", executable=False),
            plain("share", "packing.sh", executable=False),
            plain("share", "user-command"),
            plain("share", "user-commands.sh", executable=False),
            *(
                Artefact(PurePosixPath("share", "inside", f"{name}.py"), program(name))
                for name in ("imports", "merge", "trees", "venv")
            ),
            Artefact(PurePosixPath("runscripts", names.PLAIN_FILES), program("plain_files")),
            Artefact(PurePosixPath("runscripts", names.INSTALLERS), program("installers")),
            *(
                artefact("runscripts", name, template="installer", arguments=arguments)
                for name, arguments in {**_commands(spec, "pip"), **_commands(spec, "uv")}.items()
            ),
        ]
    if spec.squashfs:
        artefacts += [
            artefact("runscripts", "with-environment", commands=commands),
            artefact("share", "enroot.sh", executable=False),
            artefact("share", "pyxis.sh", executable=False, passed=_passed(spec, site)),
            plain("share", "binds.sh", executable=False),
            plain("share", "hold-mount"),
            plain("share", "mount-in-job"),
            plain("share", "mounts.sh", executable=False),
        ]
    return tuple(sorted(artefacts, key=lambda item: item.path))


def render_module(spec: ContainerSpec, site: Site, syntax: str = "Lua") -> str:
    """Return the container part of the modulefile, which follows the header that EasyBuild writes.

    Args:
        spec: the container.
        site: the settings of the cluster.
        syntax: `Lua`, for Lmod, or `Tcl`, for environment-modules and Lmod: EasyBuild's `--module-syntax`.
    """
    return _templates().get_template(f"container.{syntax.lower()}.j2").render(_facts(spec, site))


def settings_facts(spec: ContainerSpec, site: Site) -> dict[str, Any]:
    """Return what the modules of all images refer to: bind paths, features, GPU support, variables and caches.

    Args:
        spec: the container.
        site: the settings of the cluster.
    """
    caches = cache_folders(spec, site)
    root = site.cache.get(cache.ROOT, "")
    plain, injected = plain_variables(spec, site), injected_variables(spec, site)
    features = rendered_features(
        site,
        plain=plain,
        injected=injected,
        changes=spec.feature_changes(site.feature),
        overridden=spec.container_env,
        env_name=spec.env_name,
        misfits=spec.misfits,
        switched_on=(spec.runtime_gpu.variable,) if spec.runtime_gpu else (),
    )
    return {
        "spec": spec,
        "sifmod_version": __version__,
        "required_binds": [bind.argument for bind in (*site.binds, *spec.binds)],
        "optional_binds": [(bind.source, bind.argument) for bind in site.optional_binds],
        "structural": {},
        "injected": {name: value for name, value in injected.items() if f"ENV_{name}" not in features.twins},
        "plain": {name: value for name, value in plain.items() if name not in features.plain},
        "features": features,
        "features_record": RECORD,
        "caches": caches,
        "loaded_caches": {name: folder for name, folder in caches.items() if not is_for_host(name)},
        "cache_root": root,
        "cache_parts": cache.parts(root),
        "cache_unclean": cache.UNCLEAN,
        "cache_missing": cache.MISSING,
        "cache_unusable": cache.UNUSABLE,
        "cache_advice": f"so `singularity exec` uses default places for caches. The site has them in {root}",
    }


def _facts(spec: ContainerSpec, site: Site) -> dict[str, Any]:
    """Return what templates refer to for an installation."""
    settings = settings_facts(spec, site)
    structural = structural_variables(spec)
    installdir = PurePosixPath(spec.installdir)

    def own(name: str, destination: str, options: str = "") -> str:
        return Bind(str(installdir / name), destination, options).argument

    def own_path(name: str) -> str:
        return str(installdir / name)

    packed = own_path(names.USER_SOFTWARE_PACKED)
    readable = f"chmod ug+r {quoting.shell(packed)}"
    return {
        **settings,
        "site": site,
        "names": names,
        "superblock": superblock,
        "sif_format": sif,
        "shareable": (*names.SHAREABLE, *(vendor.variable for vendor in VENDORS.values())),
        "central": _central_images(spec, site),
        "copies_key": hashlib.sha256(spec.installdir.encode()).hexdigest()[:12],
        "required_binds": [own("runscripts", names.RUNSCRIPTS, "ro"), *settings["required_binds"]],
        "directory_bind": own(names.USER_SOFTWARE_DIRECTORY, names.USER_SOFTWARE),
        "packed_bind": own(names.USER_SOFTWARE_PACKED, names.USER_SOFTWARE, "ro,image-src=/"),
        "own_path": own_path,
        "bases": [_base_facts(spec, base) for base in spec.bases_below],
        "too_many_layers": "is left out, and its packages are missing: containers have at most "
        f"{names.MOST_LAYERS} layers",
        "layer_is_left_out": "is left out, and its packages are missing: it can't be read, or it is damaged. "
        "Its owner can restore it from a backup, or make it readable with chmod ug+r",
        # the search path up to the commands of user software, and what follows
        "search_path": _split_after(structural["PREPEND_PATH"], f"{spec.venv_path}/bin"),
        "layer_variables": {
            name: folder for name, folder in names.LAYER_VARIABLES.items() if name not in settings["injected"]
        },
        "image_is_gone": f"{image_is_gone(spec.image if spec.bases else own_path(spec.sif))}. Reinstall the module "
        "with: eb --rebuild",
        "squashfs_is_gone": f"the image for enroot, {own_path(spec.squashfs)}, is gone: reinstall the module with: "
        "eb --rebuild",
        "enroot_gpu": spec.runtime_gpu.enroot if spec.runtime_gpu else {},
        "unreadable_beside_directory": f"{packed} can't be read, so {own_path(names.USER_SOFTWARE_DIRECTORY)} is used. "
        f"Its owner can allow it with: {readable}",
        "unreadable_alone": f"{packed} can't be read, and your packages are in it. "
        f"Its owner can allow it with: {readable}",
        "damaged_beside_directory": f"{packed} is damaged, so {own_path(names.USER_SOFTWARE_DIRECTORY)} is used. "
        f"Pack it again with: rm {quoting.shell(packed)}; make-squashfs",
        "damaged_alone": f"{packed} is damaged, and your packages are in it. Restore it from a backup, or begin anew "
        f"with: rm {quoting.shell(packed)}; eb --rebuild",
        "missing": f"the user software is missing: neither {own_path(names.USER_SOFTWARE_DIRECTORY)} nor {packed} "
        "exists. Make it again, without your packages, with: eb --rebuild",
        "stale": f"this shell loaded {spec.module} before its user software was packed, so singularity here still "
        f"uses the old directory. Run: module load {spec.module}",
        "escaped_installdir": escape(spec.installdir),
        "hides_python": any(re.fullmatch("python[0-9.]*", command) for command in spec.wrappers),
        "visible": spec.vendor.visibility[0] if spec.vendor else "",
        "structural": structural,
        "uv_command": uv_command(spec) if spec.venv else [],
        "seeded": SEEDED,
        "folder_modes": FOLDER_MODES,
        "advisories": list(_shown_at_load(spec, site)),
        "advised": names.ADVISED,
        "absent": [name for name in names.RESERVED_VARIABLES if name not in structural],
    }


def _base_facts(spec: ContainerSpec, base: Base) -> dict[str, str]:
    """Return what templates refer to for an installation whose user software is below that of a container.

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
        "missing. Ask its owner for that one, or install your packages in a new version of the module with carry-over",
        "is_missing": f"{described} has no user software now, so its packages are missing. Ask its owner",
        "is_gone": f"{described} is gone or can't be read, so its packages are missing. Ask its owner",
        "other_image": f"{described} has another image now than when {spec.module} was installed, with the same "
        "Python. To see what does not fit: list-packages --check",
    }


def _split_after(path: str, folder: str) -> tuple[str, str]:
    """Return a search path up to a folder, and what follows it with its colon."""
    head, found, tail = path.partition(folder)
    return head + found, tail


def _shown_at_load(spec: ContainerSpec, site: Site) -> Iterator[dict[str, Any]]:
    """Yield the severe advisories whose remedy the module does not apply, with what decides about each at load.

    `drivers` are the files that show a driver's version, each with the range that the version must be in. `variables`
    are those of the remedy that the module itself does not set: if all are as the remedy says, nothing is shown.
    """
    settings = setting_variables(spec, site)
    for advisory in spec.advisories:
        others = {name: value for name, value in advisory.variables.items() if name not in settings}
        is_spoilt = any(settings[name] != value for name, value in advisory.variables.items() if name in settings)
        is_applied = bool(advisory.variables) and not others and not is_spoilt
        if advisory.is_severe and not is_applied:
            yield {
                "id": advisory.identifier,
                "text": f"Known problem ({advisory.identifier}): {advisory.sentences}",
                "drivers": [
                    (VENDORS[key].driver_file, [(one.operator, one.version) for one in sorted(clauses, key=str)])
                    for key, clauses in advisory.match.drivers.items()
                ],
                "variables": [] if is_spoilt else _as_set(others),
            }


def _passed(spec: ContainerSpec, site: Site) -> list[str]:
    """Return the names of the variables that a module may set in the shell for its container."""
    settings = settings_facts(spec, site)
    of_gpu = spec.runtime_gpu.enroot if spec.runtime_gpu else {}
    return sorted({*settings["plain"], *settings["loaded_caches"], *settings["features"].plain, *of_gpu})


def _as_set(variables: Mapping[str, Optional[str]]) -> list[tuple[str, Optional[str]]]:
    """Return variables under the names that users set for the container."""
    return [(f"SINGULARITYENV_{name}" if is_for_host(name) else name, value) for name, value in variables.items()]


def _central_images(spec: ContainerSpec, site: Site) -> list[tuple[str, int, str]]:
    """Return other paths of the image, each with the size and the identifier that it must have there; 0: any.

    These are its original path in the mode `central`, then the site's repositories. All of a stand-in is read at the
    install and by `sifmod verify`: at load that would take minutes.
    """
    same = spec.image_size, spec.image_id if spec.image_size else ""
    own = {spec.image: (0, "")} if spec.image_mode == "central" and spec.image else {}
    repositories = {str(PurePosixPath(folder, spec.sif)): same for folder in site.image_repositories}
    return [(path, *expected) for path, expected in {**own, **repositories, **own}.items()]


def _commands(spec: ContainerSpec, command: str) -> dict[str, list[str]]:
    """Return the host commands for one name in `wrappers`, each with the command that it runs in the container."""
    if not spec.python:
        return {command: [*spec.command_of(command)]}
    if command in spec.wrapped:
        return {command: [f"{names.RUNSCRIPTS}/run-tool", *spec.command_of(command)]}
    if command == "uv" and spec.venv:
        return {"uv": uv_command(spec)}
    family = re.fullmatch(r"(python|pip)([0-9.]*)", command)
    if not family:
        return {command: [f"{names.RUNSCRIPTS}/run-tool", command]}
    pip = [*_installer(spec), "pip"] if spec.venv else [spec.interpreter, "-m", "pip"]
    arguments = [spec.interpreter] if family[1] == "python" else pip
    version = spec.python_version
    versions = (family[2],) if family[2] else ("", version.partition(".")[0], version)
    commands = {family[1] + suffix: arguments for suffix in versions}
    return {**commands, **_commands(spec, "uv")} if command == "pip" and spec.venv else commands


def uv_command(spec: ContainerSpec) -> list[str]:
    """Return the command that runs uv for the user software of a container, in the container."""
    return [*_installer(spec), "uv"]


def _installer(spec: ContainerSpec) -> list[str]:
    return [spec.interpreter, "-I", f"{names.RUNSCRIPTS}/{names.INSTALLERS}"]


def _installing(spec: ContainerSpec, command: str) -> str:
    """Return the bash patterns of a wrapper's arguments that install or remove packages; empty if none do."""
    if not spec.user_commands or not spec.python or command in spec.wrapped:
        return ""
    if re.fullmatch(r"pip[0-9.]*", command):
        return '*" install "* | *" uninstall "*'
    if command == "uv":
        return '*" pip "*"install "* | *" pip "*" sync "*'
    return '*" -m pip "*"install "*' if re.fullmatch(r"python[0-9.]*", command) else ""
