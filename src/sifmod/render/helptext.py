"""The text of `module help` and `module whatis` for a container."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from textwrap import fill, indent

from sifmod import names
from sifmod.advice.advisory import Advisory
from sifmod.container.runtime import RUNTIMES, squashfs_runtimes, squashfs_users
from sifmod.container.spec import ContainerSpec
from sifmod.render.environment import setting_variables
from sifmod.site.settings import Site

_WIDTH = 80
# A longer name of a row has lines of its own.
_COLUMN = 34
# A module can have hundreds of commands: so many are named.
_MOST_COMMANDS = 8
_MOST_KEYWORDS = 20
# What a modulefile and a template of EasyBuild leave as it is.
_PLAIN = re.compile(r"[\w ./:=,+@'~-]{1,200}", re.ASCII)
FEATURES_TITLE = "Features of the cluster, those in use marked with *"
FEATURES_ADVICE = "To add one or take one away: export SIFMOD_FEATURES=NAME,-NAME, then load the module."
# What a site may write in its help, but a modulefile and EasyBuild's templates give a meaning.
_IN_HELP = {ord(char): other for char, other in zip("[]{}%\\", ("(", ")", "(", ")", " percent", "/"))}


def usage(spec: ContainerSpec, site: Site) -> str:
    """Return the usage section: variables, commands, runscripts, and how to install more packages.

    The text contains no bracket, brace, percent sign or backslash, because modulefiles and EasyBuild's templates give
    them a meaning.
    """
    commands, runscripts = _commands(spec), _runscripts(spec)
    variables = {
        f"$SIF, $SIF{spec.env_name}": "the image",
        "$CONTAINERROOT": "where it is installed",
        f"$RUNSCRIPTS, $RUNSCRIPTS{spec.env_name}": f"its runscripts, in the container {names.RUNSCRIPTS}",
    }
    if spec.squashfs:
        variables[f"$SQSH, $SQSH{spec.env_name}"] = f"the image for {' and '.join(squashfs_users())}"
    parts = [
        "This module is a container, with commands to use it.",
        f"Variables:\n{_table(variables)}",
        f"Commands:\n{_table(commands)}",
        f"Runscripts, after {_enter(spec, site)}:\n{_table(runscripts)}",
        _filled(
            f"The container sees {_seen(spec, site)}. The container inherits the variables that you export.", "", ""
        ),
    ]
    if spec.squashfs:
        parts.append(fill(" ".join(_choice_of_runtimes(spec)), _WIDTH))
    features = feature_rows(spec, site)
    if features:
        parts.append(f"{FEATURES_TITLE}:\n{_table(features)}\n{fill(FEATURES_ADVICE, _WIDTH)}")
    removed = [name for name, value in {**site.container_env, **spec.container_env}.items() if value is None]
    if removed:
        parts.append(fill(f"Variables that the module does not set here: {', '.join(sorted(removed))}.", _WIDTH))
    if spec.expected_packages:
        packages = ", ".join(f"{name} {version}" for name, version in sorted(spec.expected_packages.items()))
        parts.append(fill(f"Among its Python packages: {packages}.", _WIDTH))
    if spec.venv:
        pinned = " It can't replace the packages of the image." if spec.pip_constraints else ""
        parts.append(
            fill(
                f"pip installs your own packages into $CONTAINERROOT/{names.USER_SOFTWARE_DIRECTORY}.{pinned} "
                "uv pip install takes less time. If the image lacks a compiler that one needs: sifmod "
                "build-wheel NAME. When they are complete, pack them with make-squashfs: one file loads "
                f"faster than thousands. {names.USER_SOFTWARE} is read-only then. To add more, run add-layer first.",
                _WIDTH,
            )
        )
    if spec.advisories:
        settings = setting_variables(spec, site)
        known = "\n".join(_advisory(one, settings) for one in spec.advisories)
        parts.append(f"Known problems:\n{known}")
    return "\n\n".join(parts)


def _seen(spec: ContainerSpec, site: Site) -> str:
    """Return what the container sees of the host, and how to add to it."""
    binds = [*(bind.argument for bind in (*site.binds, *spec.binds))]
    binds += [f"{bind.argument} (where it is)" for bind in site.optional_binds]
    folders = ", ".join(["$HOME, the working directory, /tmp", *(bind.translate(_IN_HELP) for bind in binds)])
    return f"of the host: {folders}. To add a folder, set $APPTAINER_BIND (SingularityCE: $SINGULARITY_BIND)"


def _commands(spec: ContainerSpec) -> dict[str, str]:
    commands = {**_wrappers(spec), "start-shell": "a shell in the container"}
    if spec.python:
        commands["list-packages"] = "lists the Python packages of the container"
    if spec.venv:
        commands["make-squashfs"] = "packs your own packages into one file"
        commands["add-layer"] = "puts an empty directory above what is packed, to add more"
        commands["unmake-squashfs"] = "unpacks them, to change them"
        commands["carry-over"] = "installs the packages of another installation"
    if spec.user_commands and spec.venv:
        commands["refresh-commands"] = "makes commands of your packages commands of the host"
    return commands


def _runscripts(spec: ContainerSpec) -> dict[str, str]:
    of_python = {
        "conda-python-simple": "Python, as one task",
        "conda-python-distributed": "Python, one rank for each Slurm task",
        "torchrun-distributed": "torchrun, one Slurm task on each node",
        "mpi-check": "tests MPI, in a Slurm step or alone",
    }
    return {
        **(of_python if spec.python else {}),
        "get-master": "prints the host of rank 0 of the job step",
        "serve": "serves a model, for sifmod sbatch --serve",
    }


def _choice_of_runtimes(spec: ContainerSpec) -> Iterator[str]:
    """Yield the sentences on what starts the container."""
    started = " or ".join(one.name for one in RUNTIMES.values())
    decides = " or ".join(f"SIFMOD_RUNTIMES={key}" for key in reversed([*RUNTIMES]))
    yield f"Commands start {started}, whichever of the site's is on the node; {decides} decides."
    for plugin in (one.plugin.name for one in squashfs_runtimes() if one.plugin):
        script = f"sifmod sbatch {spec.module} --{plugin} -- script.py writes a job script"
        yield f"{script} for Slurm's plugin {plugin}, and with --no-{plugin} one without it."


def _enter(spec: ContainerSpec, site: Site) -> str:
    """Return what starts a command in the container."""
    if spec.squashfs and site.prefers_plugin:
        return "in-container"
    return f"{site.runtime_commands[0]} {spec.launch} $SIF"


def _advisory(advisory: Advisory, settings: Mapping[str, str]) -> str:
    applied = f" This module does so: {advisory.actions}." if advisory.is_remedied(settings) else ""
    text = f"{advisory.identifier}: {advisory.text} {advisory.remedy}{applied}"
    # addresses have lines of their own, on which they can be copied
    return "\n".join(
        [fill(text, _WIDTH, initial_indent="  ", subsequent_indent="    "), *(f"    {one}" for one in advisory.sources)]
    )


def examples(spec: ContainerSpec, site: Site) -> str:
    """Return three examples that can be pasted into a shell."""
    load = f"module load {spec.module}"
    enter = _enter(spec, site)
    if spec.python:
        first = ("One process:", f"srun -n1 {enter} python3 --version")
        second = (
            "A script with one rank for each task, on two nodes:",
            f"srun -N2 --ntasks-per-node=4 {enter} conda-python-distributed -u script.py",
        )
    else:
        command = spec.wrappers[0] if spec.wrappers else "start-shell"
        first = ("One process:", f"srun -n1 {command}")
        second = ("What system is in the container:", f"{enter} cat /etc/os-release")
    if spec.venv:
        third = (
            "Add a package and pack what you added:",
            f"{enter} pip install torchmetrics\nmake-squashfs",
        )
    else:
        third = (
            "See a directory of yours in the container, as /data:",
            f"mkdir -p $HOME/data\nSINGULARITY_BIND=$HOME/data:/data {enter} ls /data",
        )
    return "\n\n".join(f"{title}\n{indent(f'{load}{chr(10)}{lines}', '  ')}" for title, lines in (first, second, third))


def whatis(spec: ContainerSpec, given: Sequence[str]) -> list[str]:
    """Return the whatis lines of a module, such as `Description: ...`, with keywords that users search for added."""
    keywords: dict[str, str] = {}
    lines = []
    for line in given:
        match = re.match(r"keywords:\s*(.*)", line, re.IGNORECASE | re.DOTALL)
        if match:
            for word in re.split(r"\s*,\s*", match[1].strip()):
                keywords.setdefault(word.lower(), word)
        else:
            lines.append(" ".join(line.split()))
    for word in [spec.name, *sorted(spec.expected_packages), *spec.wrappers[:_MOST_KEYWORDS], "container"]:
        keywords.setdefault(word.lower(), word)
    return [*lines, f"Keywords: {', '.join(word for word in keywords.values() if word)}"]


def _wrappers(spec: ContainerSpec) -> dict[str, str]:
    """Return the wrappers as rows of the table of commands: those that run another command have a row each."""
    same = [name for name in spec.wrappers if name not in spec.wrapper_commands]
    other = [*spec.wrapper_commands]
    shown = len(same) if len(", ".join(same)) <= _WIDTH else _MOST_COMMANDS
    rows = {", ".join(same[:shown]): "as in the container, with its software"} if same else {}
    for name in other[:_MOST_COMMANDS]:
        command = shlex.join(spec.wrapper_commands[name])
        rows[name] = f"runs {command}" if _PLAIN.fullmatch(command) else "runs a command of the container"
    left = len(same[shown:]) + len(other[_MOST_COMMANDS:])
    if left:
        rows["..."] = f"{left} more, all of them in $CONTAINERROOT/bin"
    return rows


def feature_rows(spec: ContainerSpec, site: Site) -> dict[str, str]:
    """Return what each feature of the site is for and where it applies, by its name: with an asterisk if in use."""
    in_use = {feature.name for feature in site.features_of(spec.feature_changes(site.feature))}
    rows = {}
    for feature in site.feature.values():
        nodes = f"on nodes {feature.condition}" if feature.condition else ""
        misfit = (
            f"not for this image: {spec.unusable_features[feature.name]}"
            if feature.name in spec.unusable_features
            else ""
        )
        text = "; ".join(filter(None, (feature.help, nodes, misfit))) or "-"
        rows[f"{'*' if feature.name in in_use else ' '} {feature.name}"] = text.translate(_IN_HELP)
    return rows


def _table(rows: dict[str, str]) -> str:
    width = max((len(name) for name in rows if len(name) <= _COLUMN), default=_COLUMN)
    lines = []
    for name, text in rows.items():
        begin = f"  {name:{width}}  "
        if len(name) > width:
            lines.append(_filled(name, "  ", "  "))
            begin = " " * (width + 4)
        lines.append(_filled(text, begin, " " * (width + 4)))
    return "\n".join(lines)


def _filled(text: str, first: str, others: str) -> str:
    """Return the text in lines with indents, without a break in a word, a path or an option."""
    return fill(
        text,
        _WIDTH,
        initial_indent=first,
        subsequent_indent=others,
        break_long_words=False,
        break_on_hyphens=False,
    )
