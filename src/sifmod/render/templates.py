"""Rendering: a spec and a site in, artefacts out; the same bytes for the same input, and nothing written.

Scripts are in `wrappers/` and `inside/` and are installed as they lie there; their values are in one file.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import replace
from functools import lru_cache
from pathlib import PurePosixPath
from typing import Any

import jinja2

from sifmod import names
from sifmod.artefact import Artefact
from sifmod.container.runtime import squashfs_runtimes
from sifmod.container.spec import ContainerSpec
from sifmod.inside.installers import AS_MODULE, OTHERS
from sifmod.render.environment import cache_folders
from sifmod.render.facts import installation_facts
from sifmod.render.values import Values, more_constants, more_values, script_constants, script_values
from sifmod.resources import data_path, program
from sifmod.site.settings import Site
from sifmod.text import quoting, tables


@lru_cache(maxsize=1)
def _templates() -> jinja2.Environment:
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader([data_path(name) for name in ("wrappers", "jobs")]),
        undefined=jinja2.StrictUndefined,
        keep_trailing_newline=True,
        trim_blocks=True,
        lstrip_blocks=True,
        comment_start_string="<#--",  # the usual "{#" is bash: ${#array[@]}
        comment_end_string="--#>",
        autoescape=False,  # noqa: S701 - shell, not HTML: the filters below quote
    )
    environment.filters.update(sh=quoting.shell, comment=quoting.comment)
    return environment


def render_template(template: str, /, **facts: Any) -> str:
    """Return the text of a template that is not part of an installation."""
    return _templates().get_template(f"{template}.j2").render(facts)


def render(spec: ContainerSpec, site: Site) -> tuple[Artefact, ...]:
    """Return the files of an installation, sorted by path."""
    facts = installation_facts(spec, site)
    known = {"spec": spec, "names": names, "script": facts.path(names.CONTAINER_SCRIPT)}
    known["is_closed"] = facts.messages["is_closed"]

    def artefact(folder: str, name: str, *, template: str = "", **more: Any) -> Artefact:
        text = _templates().get_template(f"{folder}/{template or name}.j2").render({**known, **more})
        return Artefact(PurePosixPath(folder, name), text, text.startswith("#!"))

    commands: dict[str, list[str]] = {}
    # what is named itself before the versioned names that come with `python` and `pip`
    for command in (*spec.wrapper_commands, *spec.wrappers):
        for name, arguments in _commands(spec, command).items():
            commands.setdefault(name, arguments)
    artefacts = [
        artefact("bin", "in-container"),
        artefact("bin", "start-shell"),
        _values(spec, names.VALUES, script_values(spec, site), script_constants()),
        _values(spec, names.MORE_VALUES, more_values(spec, site), more_constants()),
        *map(_static, _static_files(spec, site)),
        # in the container too
        replace(_static("share/on-node.sh"), path=PurePosixPath("runscripts/on-node.sh")),
        *(
            artefact("bin", name, template="wrapper", command=name, arguments=words, installer=_installer(spec, name))
            for name, words in commands.items()
        ),
    ]
    if spec.python:
        artefacts += [artefact("bin", "list-packages"), artefact("runscripts", "init-conda-venv")]
    if spec.venv:
        for name in {**_commands(spec, "pip"), **_commands(spec, "uv"), **OTHERS}:
            artefacts.append(replace(_static("runscripts/installer"), path=PurePosixPath("runscripts", name)))
    on_host = names.ON_HOST if spec.python else ()
    for name in (*on_host, *(names.ON_HOST_WITH_USER_SOFTWARE if spec.venv else ())):
        artefacts.append(replace(_static("runscripts/on-host"), path=PurePosixPath("runscripts", name)))
    for name in names.ON_HOST_WITH_SLURM if spec.python and names.SLURM_FEATURE in site.feature else ():
        artefacts.append(replace(_static("runscripts/on-host"), path=PurePosixPath("runscripts/slurm", name)))
    if spec.squashfs:
        text = "".join(f"{shlex.join([name, *words])}\n" for name, words in commands.items())
        artefacts.append(Artefact(PurePosixPath("runscripts", names.WRAPPED), text, executable=False))
    return tuple(sorted(artefacts, key=lambda item: item.path))


def _values(spec: ContainerSpec, name: str, own: Values, constants: Values) -> Artefact:
    head = f"# Values of {quoting.comment(spec.module)}, which the scripts in bin, share and runscripts read.\n"
    head += "# shellcheck shell=bash disable=SC2016,SC2034,SC2054,SC2191,SC2209\n"
    texts = (tables.bash(values, "sifmod_") for values in (own, constants))
    return Artefact(PurePosixPath("runscripts", name), head + "\n# the same in every installation\n".join(texts), False)


def _static_files(spec: ContainerSpec, site: Site) -> Iterator[str]:
    """Yield the files of an installation that have no value of it, by their path there."""
    yield from (f"share/{name}.sh" for name in ("central", "command", "container", "expand", "held-files"))
    yield from (f"share/{name}.sh" for name in ("on-node", "paths", "share-container"))
    yield "share/hold-container"
    yield from ("runscripts/get-master", "runscripts/mpi-check", f"runscripts/{names.MPI_CHECK}")
    yield from ("runscripts/serve", "runscripts/slurm.sh")
    if site.feature:
        yield "share/features.sh"
    if cache_folders(spec, site):
        yield "runscripts/caches.sh"
    if spec.runtime_gpu and spec.runtime_gpu.setup(site.gpu_setup).device:
        yield "share/gpus.sh"
    if spec.python:
        yield from ("runscripts/conda-python-distributed", "runscripts/conda-python-simple", "runscripts/list-packages")
        yield from ("runscripts/batch.py", "runscripts/run-tool", "runscripts/torchrun-distributed")
        yield f"runscripts/{names.CONSISTENCY}"
    if spec.venv:
        yield from (f"bin/{name}" for name in (*names.RELOADING, "carry-over", "refresh-commands"))
        yield from (f"share/{name}.sh" for name in ("layering", "layers", "lend", "packed", "packing"))
        yield from ("share/user-command", "share/user-commands.sh", "share/user-software.sh")
        yield from (f"share/inside/{name}.py" for name in ("imports", "merge", "trees", "venv"))
        yield from (f"runscripts/{name}" for name in (names.PLAIN_FILES, names.INSTALLERS, names.INSTALLING))
    if spec.venv or spec.runtime_gpu:
        yield f"runscripts/{names.AT_START}"
    if spec.squashfs:
        runtimes = squashfs_runtimes()
        plugins = (one.plugin.script for one in runtimes if one.plugin)
        yield from {*plugins, *(file for one in runtimes for file in (one.starter, *one.files))}


def _static(path: str) -> Artefact:
    """Return a file that is in `wrappers/` or `inside/` as it is installed."""
    where = PurePosixPath(path)
    text = program(where.stem) if where.suffix == ".py" else (data_path("wrappers") / where).read_text(encoding="utf-8")
    return Artefact(where, text, text.startswith("#!"))


def _commands(spec: ContainerSpec, command: str) -> dict[str, list[str]]:
    """Return the host commands for one name in `wrappers`, each with the command that it runs in the container."""
    if not spec.python:
        return {command: [*spec.command_of(command)]}
    if command in spec.wrapper_commands:
        return {command: [f"{names.RUNSCRIPTS}/run-tool", *spec.command_of(command)]}
    if command == "uv" and spec.venv:
        return {"uv": uv_command(spec)}
    family = re.fullmatch(r"(python|pip)([0-9.]*)", command)
    if not family:
        return {command: [f"{names.RUNSCRIPTS}/run-tool", command]}
    pip = [*_installer_words(spec), "pip"] if spec.venv else [spec.interpreter, "-c", AS_MODULE, "pip"]
    arguments = [spec.interpreter] if family[1] == "python" else pip
    version = spec.python_version
    versions = (family[2],) if family[2] else ("", version.partition(".")[0], version)
    commands = {family[1] + suffix: arguments for suffix in versions}
    return {**commands, **_commands(spec, "uv")} if command == "pip" and spec.venv else commands


def uv_command(spec: ContainerSpec) -> list[str]:
    """Return the command that runs uv for the user software of a container, in the container."""
    return [*_installer_words(spec), "uv"]


def _installer_words(spec: ContainerSpec) -> list[str]:
    return [spec.interpreter, "-I", f"{names.RUNSCRIPTS}/{names.INSTALLERS}"]


def _installer(spec: ContainerSpec, command: str) -> str:
    """Return which installer of packages a wrapper is, for `launch_installer` in container.sh; empty if it is none."""
    if not spec.user_commands or not spec.python or command in spec.wrapper_commands:
        return ""
    found = re.fullmatch(r"(python|pip)[0-9.]*|uv", command)
    return (found[1] or "uv") if found else ""
