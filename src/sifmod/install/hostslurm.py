"""The host's Slurm: what a site file has to say to submit jobs from inside containers, and which images it fits."""

from __future__ import annotations

import os
import posixpath
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Callable, Optional

from sifmod import names
from sifmod.container.bind import Bind, is_bindable
from sifmod.container.spec import ContainerSpec
from sifmod.errors import CommandError, ParameterError, SifmodError
from sifmod.host.command import LOOK, run
from sifmod.host.features import bound
from sifmod.host.files import content_of
from sifmod.image.elf import read_library
from sifmod.image.files import SandboxFiles
from sifmod.image.inspection import Inspection
from sifmod.image.system import glibc_problem
from sifmod.install.discovery import Discovery, cached_libraries, glibc_of, linked
from sifmod.site.feature import chosen
from sifmod.site.settings import Site

# Where commands and libraries are in the container: nothing else is there.
_FOLDER = "/host/slurm"

_COMMANDS = (
    *("sbatch", "srun", "salloc", "squeue", "scancel", "sinfo", "sacct", "scontrol", "sattach", "sbcast"),
    *("sprio", "sreport", "sshare", "sstat", "scrontab"),
)

# The plugins that commands load and that may need libraries, by the key of Slurm that names them. That of the switch,
# without which srun ends, needs libcurl and json-c on Slingshot.
_PLUGINS = {
    "AuthType": "auth",
    "CredType": "cred",
    "MpiDefault": "mpi",
    "CliFilterPlugins": "cli_filter",
    "SwitchType": "switch",
}

# Paths that Slurm and munge were built with: the file of settings, what slurmd has got from the controller on nodes
# without one, and where munge listens.
_CONF = re.compile(rb"/[\w./+-]*/slurm\.conf(?=\0)")
_SOCKET = re.compile(rb"/[\w./+-]*/munge\.socket\.\d+(?=\0)")
NSSWITCH = Path("/etc/nsswitch.conf")
_SACKD = "/run/slurm/sack.socket"  # of Slurm's own authentication, where that of munge is not used

# What tells a folder of theirs from one with other things, such as a home or /opt, which a bind path would hide.
_OF_SLURM = re.compile(r"slurm|munge", re.IGNORECASE)

# What commands may have set otherwise than the controller, which answers `scontrol show config`.
_KEYS = (*_PLUGINS, "AuthInfo", "PluginDir", "PlugStackConfig")
_CANONICAL = {key.lower(): key for key in _KEYS}
_SETTING = re.compile(r"""(\w+)\s*=\s*("[^"]*"|\S+)""")
_INCLUDE = re.compile(r"\s*include\s+(\S+)\s*", re.IGNORECASE)
_MOST_FILES = 32
# What a site file gives a meaning in bind paths.
_SPECIAL = re.compile(r"[,:*?\[\]]")

# Where modules of the C library ask for users' names, by the module (nsswitch.conf).
_NAMES = {"sss": ("/var/lib/sss/pipes", "/var/lib/sss/mc"), "ldap": ("/run/nslcd", "/var/run/nslcd")}


def discover_slurm(environ: Mapping[str, str]) -> Discovery:
    """Return what a site file has to say to bring the Slurm of this host into containers.

    `ldd` is run on its commands and plugins.

    Raises:
        SifmodError: this host has no Slurm, or its controller does not answer.
    """
    folder = _commands_folder(environ)
    commands = [folder / name for name in _COMMANDS if (folder / name).is_file()]
    _bindable(str(folder))
    libraries, missing = _libraries(commands)
    built = _named(_CONF, libraries, "libslurm")
    own, files = _settings_of_commands([environ.get("SLURM_CONF", ""), *built])
    of_controller = _config(folder / "scontrol", environ)
    config = {**of_controller, **({"AuthInfo": ""} if files else {}), **own}  # without it they have a default
    plugin_folders = [path for path in config.get("PluginDir", "").split(":") if path and Path(path).is_dir()]
    if not plugin_folders:
        raise SifmodError(f"this host lacks the folder of Slurm's plugins, '{config.get('PluginDir', '')}' (PluginDir)")
    plugins = [path for name in _plugin_names(config) for path in _in(plugin_folders, name)]
    libraries = {**_libraries(plugins)[0], **libraries}
    users, modules, unknown = _users(environ)
    libraries = {**libraries, **modules}
    programs = {f"{_FOLDER}/bin/{path.name}": str(path) for path in commands}
    programs.update({f"{_FOLDER}/lib/{name}": source for name, source in libraries.items()})
    socket = _munge_socket(config, libraries)
    binds = [Bind(source, destination, "ro") for destination, source in sorted(programs.items())]
    required = [*plugin_folders, *([_place(socket)] if socket else []), *users]
    binds += [Bind(path, path, "ro") for path in map(_bindable, required)]
    conf = [environ.get("SLURM_CONF", ""), *built, config.get("SLURM_CONF", ""), config.get("PlugStackConfig", "")]
    optional = {path: path for path in map(_bindable, _conf_places([*conf, *files]))}
    optional.update((path, path) for path in (*_conf_cache(config), *([] if socket else [_SACKD])))
    # the settings that a job has are those of slurmd
    other = _munge_socket(of_controller, libraries)
    optional.update((path, path) for path in [_place(other)] if other and path not in required)
    optional.update((path, path) for name in modules for path in _NAMES[_service(name)])
    named, usual = environ.get("SLURM_CONF", ""), next(iter(built), "")
    is_elsewhere = named.startswith("/") and usual not in ("", config.get("SLURM_CONF"))
    if is_elsewhere and (_place(named) == named) == (_place(usual) == usual):  # two folders, or two files
        # commands find the file without the variable too, as where a program takes Slurm's variables away
        optional[_place(usual)] = _place(named)
    notes = [f"ldd does not find {name} on this host: load its module, and discover again." for name in sorted(missing)]
    notes += [f"Names of users that {name} knows are numbers in containers." for name in unknown]
    table: dict[str, object] = {
        "help": "commands of Slurm: submit jobs from inside",
        "binds": [bind.argument for bind in binds],
        "optional_binds": [Bind(source, destination, "ro").argument for destination, source in optional.items()],
        "library_path": [f"{_FOLDER}/lib"],
        "container_env": {"APPEND_PATH": f"{names.SLURM_RUNSCRIPTS}:{_FOLDER}/bin"},
        "exists": str(folder / "sbatch"),
    }
    words = f"Slurm {config.get('SLURM_VERSION', '(of unknown version)')}, {folder}/sbatch"
    glibc = glibc_of([*programs.values(), *map(str, plugins)])
    return Discovery(names.SLURM_FEATURE, words, glibc, table, tuple(notes))


def _commands_folder(environ: Mapping[str, str]) -> Path:
    """Return the folder of Slurm's programs in the search path; a site may have scripts of their names before it."""
    files = SandboxFiles(Path("/"))
    for folder in filter(None, environ.get("PATH", "").split(":")):
        path = Path(os.path.abspath(folder), "sbatch")  # noqa: PTH100 - a link is named, not its target
        if path.is_file() and read_library(files, str(path)):
            return path.parent
    raise SifmodError(
        "no program sbatch is in the search path: load the module of Slurm first, or use a host from which jobs are "
        "submitted"
    )


def _config(scontrol: Path, environ: Mapping[str, str]) -> dict[str, str]:
    """Return Slurm's settings by their keys, as the controller has them."""
    try:
        done = run([scontrol, "show", "config"], env={**environ, "LC_ALL": "C"}, time_limit=LOOK)
    except CommandError as error:
        raise SifmodError(f"Slurm's settings are not known: {error}") from error
    if done.status:
        raise SifmodError(f"Slurm's settings are not known: scontrol show config failed: {done.last_lines}")
    found = re.findall(r"^(\w+) *= (.*)$", done.stdout, re.MULTILINE)
    return {key: value.strip() for key, value in found if value.strip() != "(null)"}


def _libraries(programs: Iterable[Path]) -> tuple[dict[str, str], set[str]]:
    """Return the libraries of programs and plugins by name, as the first has them, and those that the host lacks."""
    files, libraries, missing = SandboxFiles(Path("/")), dict[str, str](), set[str]()
    for path in programs:
        if read_library(files, str(path)):
            found, lacking = linked(path)
            libraries = {**found, **libraries}
            missing |= {*lacking}
    return libraries, missing


def _settings_of_commands(places: Iterable[str]) -> tuple[dict[str, str], list[str]]:
    """Return what the commands of this host have set, from the first of these files that is there, and all its files.

    A host without a file has the controller's settings.
    """
    top = next((path for path in places if path.startswith("/") and os.access(path, os.R_OK)), "")
    settings, files = dict[str, str](), list[str]()
    for line in _lines(top, posixpath.dirname(top), files) if top else ():
        for key, value in _SETTING.findall(line):
            if key.lower() in _CANONICAL:
                settings[_CANONICAL[key.lower()]] = value.strip('"')
    return settings, files


def _lines(path: str, folder: str, files: list[str]) -> Iterator[str]:
    """Yield the lines of a file of settings and of those that it includes, and note the files."""
    if len(files) >= _MOST_FILES:
        return
    try:
        text = content_of(Path(path)).decode(errors="replace")
    except OSError:
        return
    files.append(path)
    for line in re.sub(r"\\\n", "", text).splitlines():
        line = re.sub(r"(?<!\\)#.*", "", line)
        included = _INCLUDE.fullmatch(line)
        if included:
            yield from _lines(posixpath.normpath(posixpath.join(folder, included[1])), folder, files)
        yield line


def _plugin_names(config: Mapping[str, str]) -> Iterator[str]:
    for key, kind in _PLUGINS.items():
        for value in filter(None, config.get(key, "").split(",")):
            yield f"{kind}_{value.removeprefix(f'{kind}/').removeprefix(f'{kind}_')}.so"


def _in(folders: list[str], name: str) -> list[Path]:
    return [path for path in (Path(folder, name) for folder in folders) if path.is_file()][:1]


def _named(pattern: re.Pattern[bytes], libraries: Mapping[str, str], stem: str) -> list[str]:
    """Return the paths of a pattern in the libraries whose names begin so."""
    texts = (Path(source).read_bytes() for name, source in libraries.items() if name.startswith(stem))
    return [path.decode() for text in texts for path in dict.fromkeys(pattern.findall(text))]


def _munge_socket(config: Mapping[str, str], libraries: Mapping[str, str]) -> str:
    """Return where munge listens; empty if Slurm does not use it."""
    if not any("munge" in config.get(key, "") for key in ("AuthType", "CredType")):
        return ""
    said = re.search(r"socket=([^,\s]+)", config.get("AuthInfo", ""))
    return said[1] if said else next(iter(_named(_SOCKET, libraries, "libmunge.")), "/run/munge/munge.socket.2")


def _conf_places(paths: Iterable[str]) -> Iterator[str]:
    """Yield where the files are that commands read, on this host and on others.

    In a job SLURM_CONF names the file of slurmd, which may be another one than that of login nodes, or in its cache.
    """
    for path in paths:
        if path.startswith("/") and not path.startswith("/proc/"):
            yield _place(path)
            # the file may be a link, also one in a folder that is none
            target = _place(os.path.realpath(path))
            if target != os.path.realpath(_place(path)):
                yield target


def _conf_cache(config: Mapping[str, str]) -> list[str]:
    """Return the folder in which slurmd keeps the controller's files, as a pattern."""
    spool = config.get("SlurmdSpoolDir", "").replace("%n", "*").replace("%h", "*")
    return [f"{spool}/conf-cache"] if spool.startswith("/") else []


def _place(path: str) -> str:
    """Return the folder of a file, so that a new file in it is seen too; the file itself if there are other things."""
    folder = posixpath.dirname(path)
    return folder if any(map(_OF_SLURM.search, folder.split("/")[-2:])) else path


def _bindable(path: str) -> str:
    """Return a path that PATH, SLURM_CONF or Slurm's settings name, which may be anything.

    Raises:
        SifmodError: it can't be a bind path of a site file.
    """
    if path.startswith("/") and posixpath.normpath(path) == path and is_bindable(path) and not _SPECIAL.search(path):
        return path
    raise SifmodError(
        f"the Slurm of this host has {path!r}, which can't be a bind path: it must be absolute, without '..' and "
        "without characters that separate or match paths. Name it otherwise in Slurm's settings, SLURM_CONF or PATH"
    )


def _users(environ: Mapping[str, str]) -> tuple[list[str], dict[str, str], list[str]]:
    """Return the files with users' names, the libraries that know others, and the services that containers can't ask.

    Slurm's commands end if they don't know SlurmUser, and the runtime's own file has the user of the container alone.
    """
    files = ["/etc/passwd", "/etc/group"]
    try:
        services = re.findall(r"^passwd:(.*)$", NSSWITCH.read_text(), re.MULTILINE)
    except OSError:
        return files, {}, []
    asked = [word for line in services for word in line.split() if word not in ("files", "compat", "systemd")]
    asked = [word for word in asked if re.fullmatch(r"\w+", word)]
    cache = cached_libraries(environ) if asked else {}
    modules = {name: cache[name] for name in (f"libnss_{word}.so.2" for word in asked) if name in cache}
    known = {name: source for name, source in modules.items() if _service(name) in _NAMES}
    unknown = [word for word in asked if f"libnss_{word}.so.2" not in known]
    return [*files, *(["/etc/nsswitch.conf"] if known else [])], known, unknown


def _service(name: str) -> str:
    return name.removeprefix("libnss_").partition(".")[0]


def slurm_misfit(site: Site, image: Inspection) -> str:
    """Return why an image can't use the Slurm that a site binds; empty if it may, or if none is seen on this host."""
    feature = site.feature.get(names.SLURM_FEATURE)
    needed = glibc_of(source for bind in feature.binds for source in bound(bind)) if feature else ""
    problem = glibc_problem(needed, image.libc)
    return f"Slurm of the host {problem}" if problem else ""


def with_slurm(
    spec: ContainerSpec, site: Site, image: Optional[Inspection], *, say: Callable[[str], None]
) -> ContainerSpec:
    """Return the description without the host's Slurm if the image's C library is too old, or refuse the easyconfig."""
    feature = site.feature.get(names.SLURM_FEATURE)
    reason = slurm_misfit(site, image) if image else ""
    if feature is None or not reason:
        return spec
    if feature.name in chosen(spec.features, site.feature)[0]:
        raise ParameterError(
            "features", list(spec.features), f"{reason}. Leave out '{feature.name}', or use a newer image"
        )
    if feature in site.features_of(spec.features):
        say(f"not using the feature '{feature.name}': {reason}")
    return replace(spec, unusable_features={**spec.unusable_features, feature.name: reason})
