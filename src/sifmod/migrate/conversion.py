"""Convert an easyconfig that installs a container with MakeCp and shell commands to one of `ContainerImage`.

The style is that of LUMI's containers: the SIF is the source, `postinstallcmds` writes scripts with here documents, and
the module sets variables by `modextravars` and a function of the site in `modluafooter`.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import Any

from sifmod import names
from sifmod.container.bind import Bind
from sifmod.container.gpu import VENDORS
from sifmod.container.parameters import OWN, USER_SOFTWARE
from sifmod.container.spec import DEFAULT_CONDA_ROOT, DEFAULT_WRAPPERS, spec_from_parameters
from sifmod.easyconfig.proposal import checked_name
from sifmod.easyconfig.text import conversion_comments, easyconfig_text
from sifmod.errors import EasyconfigError, ParameterError
from sifmod.site.settings import Site
from sifmod.text import quoting
from sifmod.text.printable import short_line

# Parameters of EasyBuild with the same meaning for every easyblock.
_SAME = (
    *("name", "version", "versionsuffix", "homepage", "description", "whatis", "docurls", "upstream_contacts"),
    *("site_contacts", "citing", "usage", "examples", "modloadmsg", "modunloadmsg", "modaliases", "hidden"),
    *("dependencies", "builddependencies"),
)
_DROPPED = {"easyblock", "toolchain", "skipsteps", "files_to_copy", "sources", "sanity_check_paths", "start_dir"}
_CONVERTED = {"postinstallcmds", "sanity_check_commands", "modextravars", "modluafooter", "moduleclass", "checksums"}

# Scripts of these containers that sifmod has under the same name, or does not need.
_RUNSCRIPTS = {
    "conda-python-simple",
    "conda-python-distributed",
    "get-master",
    "init-conda-venv",
    "init-venv",
    "list-packages",
}
_VISIBILITY = {variable for vendor in VENDORS.values() for variable in vendor.visibility}
# Communication libraries, whose variables begin with these names.
_COMMUNICATION = "|".join([*filter(None, (vendor.collectives for vendor in VENDORS.values())), "FI", "UCX"])

_HERE_DOCUMENT = re.compile(
    r"cat\s*>\s*(?P<path>\S+)\s*<<\s*(?P<q>['\"]?)(?P<end>\w+)(?P=q) ?(?P<text>.*?)(?P=end)\s*\Z", re.DOTALL
)
_BUILD = re.compile(r"\b(?:singularity|apptainer)\s+build\b")
# What starts a container in a host script, and one that runs a command with the script's arguments.
_START = re.compile(r"\b(?:singularity|apptainer)\s+(?:exec|run|shell)\b")
_START_COMMAND = re.compile(
    r"(?:exec\s+)?(?:singularity|apptainer)\s+exec\s+(?P<options>.*?)\"?[^\s\"]*(?:\$\{?SIF\w*\}?|\.sif)\"?\s+"
    r"\"?(?P<command>\$\([^)]*\)|[^\s\"]+)\"?\s+\"?\$[@*]\"?"
)
_OWN_NAME = r"\$\(\s*basename\s+\S+\s*\)|\$\{0##\*/\}"
_OWN_NAME_VARIABLE = re.compile(rf"^\s*(\w+)=\"?(?:{_OWN_NAME})\"?\s*(?:#.*)?$", re.MULTILINE)
_PREPARATION = re.compile(r"(?:export|source|\.|module|ml)\s")
_LINK = re.compile(r"ln\s+-s\w*\s+(?P<target>\S+)\s+(?P<path>\S+)")
_ACTIVATE = re.compile(
    r"^[^#\n]*?source[ \t]+(?P<root>/(?!user-software)\S+)/bin/activate[ \t]+(?P<env>[A-Za-z0-9_.+-]+)", re.MULTILINE
)
_VENV = re.compile(r"-m\s+venv\s+(?P<words>[^;&'\"\n]+)")
_PIP_INSTALL = re.compile(r"pip3?\s+install\s+(?P<words>[^;&\n]+)")
_FOOTER_BIND = re.compile(
    r"\s*(?:prepend_path|append_path|setenv|pushenv)\s*\(\s*(?P<q>['\"])(?:SINGULARITY|APPTAINER)_BIND(?:PATH)?(?P=q)\s*,"
    r"\s*(?P<r>['\"])(?P<binds>[^'\"]*)(?P=r)\s*(?:,\s*['\"],['\"]\s*)?\)\s*;?\s*"
)
_EXPORT = re.compile(rf"^export\s+(?P<name>(?:{_COMMUNICATION})_\w+)=(?P<value>[^$`\s]*)$", re.MULTILINE)
_PIP_CHECK = re.compile(r"\bpip\S*\s.*\b(?:list|freeze)\b.*\|\s*e?grep\b", re.DOTALL)
# Checks of the scripts alone: sifmod tests its own.
_SCRIPT_CHECK = re.compile(
    r"(?:echo\s+\"[^\"]*\"\s*;\s*)?(?:bash\s+-n\s+\S+|(?:singularity\s+exec\s+\S+\s+)?list-packages)"
)


@dataclass
class _Conversion:
    """The state of a conversion of an easyconfig, its source, to the values of a new one.

    Commands are those of the host that run the command of their name in the container, and whether a link to the script
    runs that of the link's name; scripts are what here documents write, by folder and name.
    """

    source: Mapping[str, Any]
    values: dict[str, Any] = field(default_factory=dict)
    lost: list[str] = field(default_factory=list)
    look: list[str] = field(default_factory=list)
    binds: list[str] = field(default_factory=list)
    container_env: dict[str, str] = field(default_factory=dict)
    commands: dict[str, bool] = field(default_factory=dict)
    scripts: dict[str, str] = field(default_factory=dict)
    scripts_lost: set[str] = field(default_factory=set)


@dataclass(frozen=True)
class Converted:
    """The result of a conversion."""

    module: str  # name of the module, with its version
    text: str  # the new easyconfig; the notes are in it as comments
    file_name: str  # name that EasyBuild expects it to have
    lost: tuple[str, ...]  # what could not be carried over, one line each
    look: tuple[str, ...]  # what was carried over, but needs a review


def convert(variables: Mapping[str, Any], site: Site, *, origin: str, with_conda: str = "") -> Converted:
    """Return an easyconfig of `ContainerImage` that does what another easyconfig does, whose file is its origin.

    The other is all variables that it sets, local ones included, and the command of its image that activates a conda
    environment, empty if unknown. What the site gives to every container is left out.

    Raises:
        EasyconfigError: it is not a container easyconfig.
    """
    made = _Conversion(variables)
    _check_kind(made, origin)
    made.values.update(easyblock="ContainerImage", moduleclass=variables.get("moduleclass") or "tools")
    for parameter in _SAME:
        if variables.get(parameter) not in (None, "", [], {}):
            made.values[parameter] = variables[parameter]
    _description(made)
    _image(made)
    _post_install(made)
    _check_way(made, origin)
    _module(made)
    _python(made, with_conda)
    _wrappers(made)
    _gpu(made, site)
    _binds(made, site)
    _container_env(made, site)
    _sanity_check(made)
    _leftovers(made)
    _refuse_wrong_values(made)
    _drop_non_literals(made)
    version = _full_version(variables)
    source = f"{origin}, easyblock {made.source.get('easyblock')}."
    text = easyconfig_text(made.values, comments=conversion_comments(source, lost=made.lost, look=made.look))
    return Converted(
        module=f"{variables['name']}/{version}",
        text=text,
        file_name=f"{variables['name']}-{version}.eb",
        lost=tuple(dict.fromkeys(made.lost)),
        look=tuple(dict.fromkeys(made.look)),
    )


def _check_kind(made: _Conversion, origin: str) -> None:
    source = made.source
    if source.get("easyblock") == "ContainerImage":
        raise EasyconfigError(f"'{origin}' uses ContainerImage already: there is nothing to convert")
    for parameter in ("name", "version"):
        if not isinstance(source.get(parameter), str) or not source[parameter]:
            raise EasyconfigError(f"'{origin}' has no {parameter}: EasyBuild would reject it")
    for parameter, value in (("name", source["name"]), ("version", _full_version(source))):
        try:
            checked_name(parameter, value)
        except ParameterError as error:
            raise EasyconfigError(f"'{origin}' can't be converted: {error}") from error
    if not image_names(source):
        raise EasyconfigError(
            f"'{origin}' has no SIF among its sources: only container easyconfigs can be converted. For an image "
            "without an easyconfig, see: sifmod new"
        )


def _full_version(source: Mapping[str, Any]) -> str:
    return f"{source['version']}{source.get('versionsuffix') or ''}"


def _check_way(made: _Conversion, origin: str) -> None:
    """Refuse an easyconfig whose container is used in another way than those of LUMI."""
    reasons = []
    if any(_BUILD.search(command) and not _HERE_DOCUMENT.search(command) for command in _post_commands(made)):
        reasons.append("postinstallcmds builds another image from the source")
    known = made.commands or any(
        name in names.COMMANDS or folder == "runscripts"
        for folder, _, name in (script.partition("/") for script in made.scripts)
    )
    if made.scripts_lost and not known:
        reasons.append(f"its commands ({', '.join(sorted(made.scripts_lost))}) do not run a command of their name")
    if reasons:
        raise EasyconfigError(
            f"'{origin}' is not a container in LUMI's way: {', and '.join(reasons)}. Write an easyconfig for its image "
            "with 'sifmod new', or for a definition file with the parameter 'definition'"
        )


def image_names(source: Mapping[str, Any]) -> list[str]:
    """Return the file names of images among the sources of an easyconfig."""
    return [name for name in _source_names(source) if name.endswith(".sif")]


def _source_names(source: Mapping[str, Any]) -> Iterator[str]:
    sources = source.get("sources")
    for item in sources if isinstance(sources, (list, tuple)) else [sources]:
        name = item.get("filename") if isinstance(item, Mapping) else item
        if isinstance(name, str):
            yield name


def _description(made: _Conversion) -> None:
    """Keep the first paragraph: the others of such easyconfigs are the manual of their scripts."""
    text = str(made.values.get("description", "")).strip()
    paragraphs = re.split(r"\n\s*\n", text)
    if text:
        made.values["description"] = "\n".join(line.rstrip() for line in paragraphs[0].strip().splitlines())
    if len(paragraphs) > 1:
        begin = "', '".join(" ".join(paragraph.split()[:5]) for paragraph in paragraphs[1:])
        made.look.append(
            "description: only the first paragraph is kept, because the module describes its commands. Left out are "
            f"the paragraphs that begin with '{begin}'"
        )


def _image(made: _Conversion) -> None:
    images = image_names(made.source)
    others = [name for name in _source_names(made.source) if name not in images]
    made.values["sources"] = images[:1]
    for name in images[1:]:
        made.lost.append(f"the image {name}: a module has one image")
    for name in others:
        made.lost.append(f"the source {name}: put it beside the easyconfig and name it in definition_files")
    checksums = made.source.get("checksums")
    if isinstance(checksums, (list, tuple)) and checksums:
        made.values["checksums"] = list(checksums[:1])


def _post_install(made: _Conversion) -> None:
    for command in _post_commands(made):
        here = _HERE_DOCUMENT.search(command)
        if here:
            _script(made, here["path"], here["text"])
        elif not _known_command(made, command):
            made.lost.append(f"the command in postinstallcmds: {_short(command)}")


def _script(made: _Conversion, path: str, text: str) -> None:
    """Take over a file that a here document writes."""
    folder, name = PurePosixPath(path).parent.name, PurePosixPath(path).name
    made.scripts[f"{folder}/{name}"] = text
    if name.endswith("requirements.txt"):
        lines = (line.partition(" #")[0].strip() for line in text.splitlines())
        wanted = [line for line in lines if line and not line.startswith("#")]
        kept = [line for line in wanted if not line.startswith("-")]
        made.lost.extend(f"the line '{line}' of {name}: options of pip" for line in wanted if line.startswith("-"))
        made.values["pip_requirements"] = [*made.values.get("pip_requirements", []), *kept]
    elif folder == "bin" and name not in names.COMMANDS:
        _host_script(made, name, text.replace("\\$", "$"))
    elif folder == "runscripts" and name == "python-conda-simple":
        made.look.append(f"runscripts: {name} is now called conda-python-simple")
    elif folder == "runscripts" and name not in _RUNSCRIPTS:
        made.scripts_lost.add(name)
        made.lost.append(f"the runscript {name}: add it to the image, or keep it beside your job scripts")
    elif folder not in ("bin", "runscripts"):
        made.lost.append(f"the file {path}, written by postinstallcmds")


def _host_script(made: _Conversion, name: str, text: str) -> None:
    """Take over a script that runs the command of its name in the container."""
    lines = [line.strip() for line in text.splitlines() if not line.lstrip().startswith("#")]
    starts = [line for line in lines if _START.search(line)]
    start = _START_COMMAND.fullmatch(starts[0]) if len(starts) == 1 else None
    variables = {f"${form}" for found in _OWN_NAME_VARIABLE.findall(text) for form in (found, f"{{{found}}}")}
    any_name = start is not None and (start["command"] in variables or re.fullmatch(_OWN_NAME, start["command"]))
    if start is None or not (any_name or start["command"] == name):
        made.scripts_lost.add(name)
        made.lost.append(f"the script bin/{name}: it does something other than run {name} in the container")
        return
    made.commands[name] = bool(any_name)
    if start["options"].strip():
        made.lost.append(f"the options '{start['options'].strip()}' with which bin/{name} starts the container")
    for line in lines:
        if _PREPARATION.match(line):
            made.lost.append(f"the line '{_short(line)}' of the script bin/{name}")


def _known_command(made: _Conversion, command: str) -> bool:
    """Take over a command of postinstallcmds; return whether it was understood."""
    link = _LINK.match(command.strip())
    if link:
        path, target = PurePosixPath(link["path"]), PurePosixPath(link["target"]).name
        if path.parent.name != "bin" or target not in made.commands:
            return False
        if made.commands[target] or _family(path.name) == _family(target):
            made.commands[path.name] = made.commands[target]
        else:
            made.scripts_lost.add(path.name)
            made.lost.append(f"the link bin/{path.name}: it runs {target} in the container")
        return True
    known = False
    venv = _VENV.search(command)
    if venv:
        words = [word for word in venv["words"].split() if not word.startswith("-")]
        if words:
            made.values["venv"] = PurePosixPath(words[-1]).name
        known = True
    pip = _PIP_INSTALL.search(command)
    if pip:
        words = _words(pip["words"])
        if "-r" not in words:
            wanted = [word for word in words if not word.startswith("-")]
            made.values["pip_requirements"] = [*made.values.get("pip_requirements", []), *wanted]
        known = True
    tool = PurePosixPath((_words(command) or [""])[0]).name
    if tool == "make-squashfs":
        made.values["pack_user_software"] = True
        known = True
    is_one = not re.search(r"[;&|]", command)
    return known or (is_one and (tool in ("mkdir", "chmod") or (tool == "rm" and "user-software" in command)))


def _module(made: _Conversion) -> None:
    """Take over what the module sets: variables and lines of Lua."""
    extra: dict[str, Any] = {}
    variables = made.source.get("modextravars")
    for name, value in variables.items() if isinstance(variables, Mapping) else ():
        prefix = re.match(r"(SINGULARITY|APPTAINER)(ENV_)?", str(name))
        rest = str(name)[prefix.end() :] if prefix else ""
        if prefix and prefix[2]:
            if rest == "VIRTUAL_ENV":
                made.values.setdefault("venv", PurePosixPath(str(value)).name)
            elif rest == "CONDA_DEFAULT_ENV":
                made.values["conda_env"] = value
            elif rest == "CONDA_PREFIX" and "/envs/" in str(value):
                made.values["conda_root"] = str(value).partition("/envs/")[0]
            elif rest not in names.RESERVED_VARIABLES and rest not in ("INIT_CONDA_VENV",):
                made.container_env[rest] = str(value)
        elif prefix and rest in ("_BIND", "_BINDPATH"):
            _take_binds(made, str(value))
        elif re.match(rf"({_COMMUNICATION})_", str(name)):
            made.container_env[str(name)] = str(value)
        elif name not in ("CONTAINERROOT", "RUNSCRIPTS") and not re.match(r"(RUNSCRIPTS|SIF)[A-Z0-9_]*$", str(name)):
            extra[str(name)] = value
    if extra:
        made.values["modextravars"] = extra
    _footer(made)
    _take_binds(made, str(made.source.get("local_singularity_bind", "")))


def _footer(made: _Conversion) -> None:
    kept = []
    for line in str(made.source.get("modluafooter") or "").splitlines():
        call = re.match(r"\s*create_container_vars\s*\((?P<arguments>.*)\)\s*$", line)
        bind = _FOOTER_BIND.fullmatch(line)
        if call:
            _take_binds(made, "".join(re.findall(r"'([^']*)'", call["arguments"])[3:4]))
        elif bind:
            _take_binds(made, bind["binds"])
        else:
            kept.append(line)
    if not any("[[" in line or "[=" in line for line in kept):
        kept = [line for line in kept if not line.strip().startswith("--")]
    if any(line.strip() for line in kept):
        made.values["modluafooter"] = "\n".join(kept).strip()
        made.look.append("modluafooter was copied unchanged: review it")


def _python(made: _Conversion, with_conda: str) -> None:
    """Find the container's Python: that of the conda environment that the scripts, or the image, activate."""
    named = made.source.get("local_conda_env")
    if isinstance(named, str) and named:
        made.values.setdefault("conda_env", named)
    commands = "\n".join(_post_commands(made))
    activated = _ACTIVATE.search("\n".join([*made.scripts.values(), commands, str(made.source.get("description", ""))]))
    if activated:
        made.values.setdefault("conda_env", activated["env"])
        made.values.setdefault("conda_root", activated["root"])
    of_image = _ACTIVATE.search(with_conda)
    if of_image and "conda_env" not in made.values:
        made.values.update(conda_env=of_image["env"], conda_root=of_image["root"])
        made.look.append(f"conda_env = '{of_image['env']}' is read from WITH_CONDA in the image")
    if made.values.get("conda_root") == DEFAULT_CONDA_ROOT or "conda_env" not in made.values:
        made.values.pop("conda_root", None)
    uses_conda = "WITH_CONDA" in commands + "".join(made.scripts.values())
    folders = (script.partition("/") for script in made.scripts)
    runscripts = [name for folder, _, name in folders if folder == "runscripts" and name not in made.scripts_lost]
    needing = [name for name in runscripts if name != "get-master"]
    if "conda_env" not in made.values and (uses_conda or needing):
        dependent = f", and the runscripts that need it ({', '.join(needing)})" if needing else ""
        found = f"which is {_short(with_conda)!r}" if with_conda else "which was not found on this host"
        made.lost.append(
            f"the choice of Python{dependent}: the easyconfig leaves it to WITH_CONDA in the image, {found}. Add "
            "conda_env, and venv for user software; 'sifmod inspect IMAGE' shows the Pythons of the image"
        )
    if "conda_env" not in made.values:
        for parameter in USER_SOFTWARE:
            if made.values.pop(parameter, None):
                made.lost.append(f"{parameter}: it needs conda_env")


def _wrappers(made: _Conversion) -> None:
    commands: dict[str, None] = {}
    for name in made.commands:
        commands[_family(name)] = None
    if not commands and "conda_env" in made.values:
        made.look.append("wrappers: this module also has the commands python and pip; set wrappers = [] to omit them")
    if commands and (tuple(commands) != DEFAULT_WRAPPERS or "conda_env" not in made.values):
        made.values["wrappers"] = list(commands)


def _family(name: str) -> str:
    """Return the name in `wrappers` that stands for a command: `python` also stands for `python3.11`."""
    family = re.fullmatch(r"(python|pip)[0-9.]*", name)
    return family[1] if family else name


def _gpu(made: _Conversion, site: Site) -> None:
    source = made.source
    words = " ".join([str(source["name"]), str(source.get("versionsuffix", "")), *_source_names(source)]).lower()
    text = words + " ".join(made.scripts.values()).lower()
    denied = {key for key, one in VENDORS.items() if re.search(rf"(?<![a-z])no[-_]?(?:{one.hints})", words)}
    vendor = next((key for key, one in VENDORS.items() if key not in denied and re.search(one.hints, text)), "")
    if vendor or denied:
        made.values["gpu"] = vendor  # empty: not the site's either
    elif not site.gpu:
        stacks = " or ".join(one.stack for one in VENDORS.values())
        made.lost.append(f"gpu: nothing names {stacks}. Add gpu if the image is for GPUs")


def _binds(made: _Conversion, site: Site) -> None:
    of_site = {bind.argument for bind in (*site.binds, *site.optional_binds)}
    left = []
    for text in dict.fromkeys(made.binds):
        try:
            bind = Bind.parse(text)
        except ValueError as error:
            made.lost.append(f"the bind path '{text}': {error}")
            continue
        if bind.argument not in of_site and bind.argument not in left:
            left.append(bind.argument)
    if left:
        made.values["binds"] = left
        made.look.append(
            "binds: the site's settings lack them, and a bind path of an easyconfig must exist on every node. Put "
            "paths of the cluster into its site file, as optional_binds"
        )


def _take_binds(made: _Conversion, text: str) -> None:
    """Take over the bind paths of a list, without those that every container of sifmod has."""
    for item in (item.strip() for item in re.split(r"(?<!\\),", text)):
        destination = item.partition(":")[2].partition(":")[0].rstrip("/")
        if "%(installdir)s" in item and destination in (names.RUNSCRIPTS, names.USER_SOFTWARE):
            continue
        if "%(installdir)s" in item or "$" in item:
            made.lost.append(f"the bind path '{item}': name a path that is the same for every installation and user")
        elif item:
            made.binds.append(_undoubled(item))


def _undoubled(bind: str) -> str:
    source, _, destination = bind.partition(":")
    return source.rstrip("/") if destination.rstrip("/") in ("", source.rstrip("/")) else bind


def _container_env(made: _Conversion, site: Site) -> None:
    for export in _EXPORT.finditer(made.scripts.get("runscripts/conda-python-distributed", "").replace("\\$", "$")):
        made.container_env.setdefault(export["name"], export["value"])
    variables = {
        name: value
        for name, value in made.container_env.items()
        if site.container_env.get(name) != value and name not in _VISIBILITY
    }
    if variables:
        made.values["container_env"] = variables


def _sanity_check(made: _Conversion) -> None:
    kept: list[Any] = []
    commands = made.source.get("sanity_check_commands")
    for command in commands if isinstance(commands, (list, tuple)) else []:
        if not isinstance(command, str):  # EasyBuild takes pairs and True, too
            kept.append(command)
            continue
        words = {PurePosixPath(word).name for word in re.split(r"[\s;|&'\"()]+", command)}
        if made.scripts_lost & words:
            made.lost.append(f"the sanity check of a script that is not carried over: {_short(command)}")
        elif not _SCRIPT_CHECK.fullmatch(command.strip()):
            kept.append(command)
    if kept:
        made.values["sanity_check_commands"] = kept
        made.values["enhance_sanity_check"] = True
    if any(isinstance(command, str) and _PIP_CHECK.search(command) for command in kept):
        made.look.append(
            "sanity_check_commands search the output of pip for a part of a version: to compare full versions, name "
            "the packages in expected_packages instead"
        )


def _leftovers(made: _Conversion) -> None:
    done = {*_SAME, *_DROPPED, *_CONVERTED}
    for name in made.source:
        if name not in done and not name.startswith("local_"):
            made.lost.append(f"the parameter {name} = {_short(repr(made.source[name]))}")


def _refuse_wrong_values(made: _Conversion) -> None:
    """Remove and report parameters that an install would refuse."""
    while True:
        parameters = {name: value for name, value in made.values.items() if name in OWN}
        try:
            spec_from_parameters(
                name=made.source["name"],
                version=made.source["version"],
                env_name="X",
                installdir="/x",
                sif=made.values["sources"][0],
                parameters=parameters,
            )
        except ParameterError as error:
            if error.parameter not in parameters:
                raise EasyconfigError(f"the image can't be used: {error}") from error
            del made.values[error.parameter]
            made.lost.append(f"{error.parameter} = {_short(repr(error.value))}: {error.remedy}")
        else:
            return


def _drop_non_literals(made: _Conversion) -> None:
    for name, value in list(made.values.items()):
        try:
            quoting.python(value)
        except TypeError as error:
            del made.values[name]
            made.lost.append(f"the parameter {name}: {_short(str(error))}")


def _post_commands(made: _Conversion) -> list[str]:
    commands = made.source.get("postinstallcmds")
    return [item for item in commands if isinstance(item, str)] if isinstance(commands, (list, tuple)) else []


def _words(text: str) -> list[str]:
    try:
        return shlex.split(text)
    except ValueError:  # the end of a quoted command: the quote at its end belongs to the whole
        return text.rstrip(" '\"").split()


def _short(text: str) -> str:
    return short_line(text, 100)
