"""A recipe of SHPC, or a module that SHPC installed, as an easyconfig of `ContainerImage`."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from sifmod.container.variables import check_variable
from sifmod.container.wrappers import read_wrappers
from sifmod.easyconfig.program import some_names, usable_names
from sifmod.easyconfig.proposal import Proposal, checked_name, checked_proposal
from sifmod.easyconfig.text import conversion_comments, easyconfig_text, folded
from sifmod.errors import ParameterError, RecipeError
from sifmod.fetch.recipes import RecipeSource
from sifmod.fetch.uri import image_uri
from sifmod.migrate.conversion import Converted
from sifmod.migrate.recipe import Alias, Recipe, Tool, module_path, read_recipe_for, release_address
from sifmod.site.settings import Site
from sifmod.text.printable import printable, shortened, without_unprintable
from sifmod.text.quoting import without_templates

# What notes are about, for the summary of a registry.
NAMES = "aliases left out: the host needs its own commands of these names, or a wrapper can't have them"
COMMANDS = "aliases left out: their commands can't be wrappers"
NO_ALIASES = "without aliases: the commands are NAME-exec, NAME-run and NAME-shell, as with SHPC"
OPTIONS = "options of the runtime for one alias left out"
SCRIPTS = "scripts left out"
ENV = "variables left out"
FEATURES = "features that the site must have"
RELEASES = "images without a digest"
FILES = "images beside the recipe"

# What a shell of the host would do with a command of SHPC, whose module or script it is a line of.
_FOR_A_SHELL = re.compile(r"[$`|;&<>*?~#\n]")
# What SHPC's commands of a tool start, as `singularity exec`, `run` and `shell` do.
_GENERAL = {"exec": "/bin/sh -c 'exec \"$@\"' sh", "run": "/.singularity.d/runscript", "shell": "/bin/sh"}
_BIOCONTAINERS = "quay.io/biocontainers/"
_BY_A_BOT = re.compile(r"shpc-registry automated .* addition for .*")
NO_HOMEPAGE = "https://singularity-hpc.readthedocs.io/"


@dataclass(frozen=True)
class ConvertedTool(Converted):
    """The result of a conversion from SHPC: EasyBuild's name of the software, and topics of notes (`NAMES`)."""

    name: str = ""
    topics: tuple[str, ...] = ()


@dataclass
class _Notes:
    """What was not carried over, and what to look at, each with its topic."""

    lost: list[str] = field(default_factory=list)
    look: list[str] = field(default_factory=list)
    topics: list[str] = field(default_factory=list)

    def lose(self, topic: str, text: str) -> None:
        self.lost.append(text)
        self.topics.append(topic)

    def review(self, topic: str, text: str) -> None:
        self.look.append(text)
        self.topics.append(topic)


def convert_recipe(source: RecipeSource, site: Site, *, tag: str = "", full_name: bool = False) -> ConvertedTool:
    """Return the easyconfig of a tag of a recipe, by default the latest; it may keep SHPC's whole path as name."""
    recipe = read_recipe_for(source, tag=tag)
    notes = _Notes()
    folder = source.folder.resolve() if source.folder else None
    path = module_path(recipe) or (f"{folder.parent.name}/{folder.name}" if folder else "")
    tool = replace(recipe.tool, path=path, image=_image(recipe, notes))
    return _converted(tool, site, notes, full_name=full_name, comments=[f"{path}:{tool.tag} of SHPC."])


def convert_tool(tool: Tool, site: Site, *, full_name: bool = False, comments: Sequence[str]) -> ConvertedTool:
    """Return the easyconfig of a module of SHPC, with comments at the top; it may keep SHPC's whole path as name."""
    return _converted(tool, site, _Notes(), full_name=full_name, comments=comments)


def _converted(tool: Tool, site: Site, notes: _Notes, *, full_name: bool, comments: Sequence[str]) -> ConvertedTool:
    try:
        parameters = _parameters(tool, site, notes, full_name=full_name)
        proposal = checked_proposal(Proposal(parameters=parameters, notes=()))
    except ParameterError as error:
        raise _refused(tool.origin, error) from error
    head = conversion_comments(*comments, lost=notes.lost, look=notes.look)
    return ConvertedTool(
        module=f"{tool.path if full_name else parameters['name']}/{tool.tag}",
        text=easyconfig_text(parameters, comments=list(map(printable, head))),
        file_name=proposal.file_name,
        lost=tuple(notes.lost),
        look=tuple(notes.look),
        name=str(parameters["name"]),
        topics=tuple(dict.fromkeys(notes.topics)),
    )


def _refused(origin: str, error: ParameterError) -> RecipeError:
    return RecipeError("an install would refuse it", f"{origin} can't be converted: {error}")


def _parameters(tool: Tool, site: Site, notes: _Notes, *, full_name: bool) -> dict[str, Any]:
    for part in tool.path.split("/"):
        checked_name("name", part)
    # EasyBuild's name becomes part of paths and variables, and is one word
    name = tool.path.replace("/", "-") if full_name else tool.path.rpartition("/")[2]
    version, dashes, build = tool.tag.partition("--")
    features = [one for one in tool.features if one != "gpu" and one in site.feature]
    for one in tool.features:
        if one not in ("gpu", *features):
            notes.review(FEATURES, _feature_note(one))
    env = dict(_env(tool.env, notes))
    description = " ".join(tool.description.split())[:1000]
    what = "" if _BY_A_BOT.fullmatch(description) else description
    short_name = tool.path.rpartition("/")[2]
    parameters = {
        "easyblock": "ContainerImage",
        "name": name,
        "version": version,
        "versionsuffix": f"{dashes}{build}",
        "homepage": tool.url if re.fullmatch(r"https?://[\w./%~+?=&#:-]{1,200}", tool.url) else NO_HOMEPAGE,
        "description": folded(_clean(what or f"{short_name} {version}, in a container of {tool.path}.")),
        "whatis": [_clean(f"Description: {what or short_name}"), f"Keywords: {short_name}, container"],
        **tool.image,
        **({} if "gpu" in tool.features else {"gpu": ""}),
        "wrappers": _wrappers(tool, notes),
        **({"features": features} if features else {}),
        **({"container_env": env} if env else {}),
        "module_family": "",
        "moduleclass": "bio" if tool.path.startswith(_BIOCONTAINERS) else "tools",
    }
    for script in tool.scripts:
        what = f"the script {shortened(script, 60)}"
        notes.lose(SCRIPTS, f"{what}: a template of SHPC for the host; put a command into the image")
    return {**without_templates(parameters), **({"modaltsoftname": tool.path} if full_name else {})}


def _image(recipe: Recipe, notes: _Notes) -> dict[str, Any]:
    """Return the parameters for the image of a recipe."""
    if recipe.kind == "path":
        notes.review(
            FILES, f"the image {recipe.reference} lies beside the recipe: name its folder with eb --sourcepath=DIR"
        )
        hexadecimal = recipe.digest.partition(":")[2]
        return {"sources": [recipe.reference], **({"checksums": [hexadecimal]} if hexadecimal else {})}
    if recipe.kind == "gh":
        notes.review(RELEASES, "the image of a release has no digest, so it may be another one tomorrow")
        uri = release_address(recipe)
    else:
        uri = f"{recipe.kind}://{recipe.reference}@{recipe.digest}"
    try:
        return {"image_uri": image_uri(uri).text}
    except ParameterError as error:
        raise _refused(recipe.tool.origin, error) from error


def _wrappers(tool: Tool, notes: _Notes) -> Any:
    """Return the commands that wrappers can run: a list if each has its own name in the container, else a map."""
    said: list[str] = []
    short_name = tool.path.rpartition("/")[2]
    general = {} if tool.aliases else {f"{short_name}-{word}": command for word, command in _GENERAL.items()}
    names = set(usable_names([*general, *(alias.name for alias in tool.aliases)], said))
    for text in said:
        notes.lose(NAMES, text)
    found = {name: command for name, command in general.items() if name in names}
    bad: dict[str, list[str]] = {}
    for alias in tool.aliases:
        if alias.name not in names:
            continue
        problem = _why_no_command(alias)
        if problem:
            bad.setdefault(problem, []).append(alias.name)
        else:
            found[alias.name] = alias.command.strip()
    for problem, aliases in bad.items():
        notes.lose(COMMANDS, f"no wrapper for {some_names(aliases)}: {problem}")
    special = [alias.name for alias in tool.aliases if alias.options and alias.name in found]
    if special:
        notes.lose(
            OPTIONS,
            f"the options of the runtime for {some_names(special)}: a module has the same options for all commands",
        )
    if general:
        notes.review(
            NO_ALIASES, f"there are no aliases, so the commands are {', '.join(found)}: name others in wrappers"
        )
    return list(found) if all(name == command for name, command in found.items()) else found


def _why_no_command(alias: Alias) -> str:
    """Return why a wrapper can't run the command of an alias; empty if it can."""
    if _FOR_A_SHELL.search(alias.command):
        return "it needs a shell of the host; put a script into the image"
    try:
        first = shlex.split(alias.command)[:1]
        if first and "/" in first[0] and not first[0].startswith("/"):
            return "its path in the container is relative"
        read_wrappers({alias.name: alias.command})
    except ValueError as error:
        return f"its quotes can't be read ({error})"
    except ParameterError as error:
        return error.remedy
    return ""


def _env(variables: Iterable[tuple[str, str]], notes: _Notes) -> Iterable[tuple[str, str]]:
    for name, value in variables:
        problem = "a shell would evaluate its value" if re.search(r"[$`\\\"]", value) else ""
        try:
            check_variable(name, value)
        except ValueError as error:
            problem = str(error)
        if problem:
            notes.lose(ENV, f"the variable {shortened(name, 60)}: {problem}")
        else:
            yield name, value


def _feature_note(name: str) -> str:
    known = {
        "home": "SHPC binds a folder of its settings as home; users see their own here",
        "x11": "SHPC binds ~/.Xauthority, which the runtime shows anyway where it mounts homes",
    }
    about = known.get(name, "SHPC's settings say what it is")
    what = f"the feature {shortened(name, 60)}: {about}"
    return f"{what}. For something else, add a feature of this name to the site's file"


def _clean(text: str) -> str:
    return without_unprintable(text).strip()
