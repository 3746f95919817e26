"""The easyconfig parameters of a container: one table, from which everything else about a parameter follows.

The easyblock declares what the table has, `spec` checks values by it, easyconfigs are written in its order, modules
that build on others inherit by it, and the reference is made from it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Flag, auto
from pathlib import PurePath
from types import MappingProxyType
from typing import Any, Optional

from sifmod.container import kinds
from sifmod.container.gpu import COMPATS, LIBRARIES, VENDORS
from sifmod.container.kinds import Kind, WrongItemError
from sifmod.errors import ParameterError

LAUNCHES = ("exec", "run")
IMAGE_MODES = ("copy", "link", "central")
MPIS = ("host", "image")
_NOTHING: Mapping[str, Any] = MappingProxyType({})


class Role(Flag):
    """Who else has a say in a parameter's value."""

    IMAGE = auto()  # it says which image or which of its Pythons is used: with `builds_on` these are the base's
    BASE = auto()  # a module that builds on this one takes its value over
    LIKE = auto()  # the easyconfig of a similar container knows it better than the image (`sifmod new --like`)


IMAGE, BASE, LIKE, NOBODY = Role.IMAGE, Role.BASE, Role.LIKE, Role(0)


@dataclass(frozen=True)
class Parameter:
    """One easyconfig parameter."""

    name: str
    kind: Optional[Kind] = None  # the values that it takes; None if it is EasyBuild's own
    help_text: str = ""  # its meaning, for `eb -a` and the reference
    default: Any = None
    roles: Role = NOBODY  # who else has a say in its value

    def read(self, value: Any) -> Any:
        """Return a value of an easyconfig, checked, or the default for None; ParameterError says what to write."""
        if value is None or self.kind is None:
            return self.default if value is None else value
        try:
            return self.kind.read(value)
        except WrongItemError as error:
            raise ParameterError(self.name, error.item, str(error)) from error
        except ValueError as error:
            raise ParameterError(self.name, value, str(error)) from error


# Groups that an easyconfig has an empty line between; the order in a group is that in the text.
_GROUPS: tuple[tuple[Parameter, ...], ...] = (
    (Parameter("easyblock"),),
    (Parameter("name", roles=LIKE), Parameter("version"), Parameter("versionsuffix")),
    (
        Parameter("homepage", roles=LIKE),
        Parameter("description"),
        Parameter("whatis"),
        Parameter("docurls", roles=LIKE),
        *map(Parameter, ("upstream_contacts", "site_contacts", "citing", "usage")),
    ),
    (Parameter("toolchain"),),
    (
        Parameter(
            "builds_on",
            kinds.TEXT,
            "Module whose image, settings and user software this one takes over: user software goes on top",
        ),
    ),
    (
        Parameter("sources", roles=IMAGE),
        Parameter("checksums", roles=IMAGE),
        Parameter("image_uri", kinds.TEXT, "URI to pull the image from, such as docker://debian:12", roles=IMAGE),
        Parameter(
            "definition",
            kinds.TEXT,
            "Definition file or Dockerfile beside the easyconfig, to build the image from",
            roles=IMAGE,
        ),
        Parameter("build_args", kinds.BUILD_ARGUMENTS, "Build arguments for the definition", _NOTHING, roles=IMAGE),
        Parameter(
            "build_target", kinds.STAGE, "Stage of the Dockerfile to build (default: the last one)", "", roles=IMAGE
        ),
        Parameter(
            "definition_files",
            kinds.FILE_NAMES,
            "Files beside the easyconfig: what a Dockerfile may copy; kept in share/docker-defs",
            (),
            roles=IMAGE,
        ),
        Parameter(
            "image_mode",
            kinds.choice(*IMAGE_MODES),
            "How the image gets into the installation (default: the site's, else 'copy')",
            "copy",
            roles=IMAGE | LIKE,
        ),
    ),
    (
        Parameter(
            "gpu",
            kinds.choice_or_none(*VENDORS),
            "GPUs that the image is made for (default: the site's)",
            "",
            roles=BASE,
        ),
        Parameter(
            "gpu_libraries",
            kinds.choice_or_none(*LIBRARIES),
            "Whose libraries programs use on GPUs (default: the site's, else 'host' for NVIDIA, 'image' for AMD)",
            "",
            roles=BASE | LIKE,
        ),
        Parameter(
            "cuda_compat",
            kinds.choice_or_none(*COMPATS),
            "Use CUDA's compat libraries in the image where the node allows it (default: the site's, else 'auto')",
            "",
            roles=BASE | LIKE,
        ),
        Parameter(
            "mpi",
            kinds.choice_or_none(*MPIS),
            "Whose MPI programs use (default: as the image and the site have it)",
            "",
            roles=BASE | LIKE,
        ),
        Parameter(
            "conda_root",
            kinds.IMAGE_PATH,
            "Root of the conda installation in the image (default: /opt/miniconda3)",
            "",
            roles=IMAGE | BASE,
        ),
        Parameter(
            "conda_env", kinds.A_NAME, "Conda environment in the image whose Python is used", "", roles=IMAGE | BASE
        ),
        Parameter(
            "python_prefix", kinds.IMAGE_PATH, "Prefix of the Python in the image, such as /usr", "", roles=IMAGE | BASE
        ),
        Parameter(
            "venv",
            kinds.A_NAME,
            "Name of the virtual environment for user software (default: none)",
            "",
            roles=BASE | LIKE,
        ),
        Parameter(
            "pip_requirements",
            kinds.TEXTS,
            "Requirements that pip installs into the virtual environment",
            (),
            roles=LIKE,
        ),
        Parameter(
            "pack_user_software",
            kinds.FLAG,
            "Pack the user software after installing pip_requirements",
            default=False,
            roles=LIKE,
        ),
        Parameter(
            "pip_constraints",
            kinds.FLAG,
            "Constrain pip to the versions of the image's packages (default: True)",
            default=True,
            roles=BASE | LIKE,
        ),
        Parameter(
            "launch",
            kinds.choice(*LAUNCHES),
            "Run commands with 'exec' (default), or with 'run' through the image's entry point",
            "exec",
            roles=BASE | LIKE,
        ),
        Parameter(
            "wrappers",
            kinds.WRAPPERS,
            "Host commands that run a command in the container (default: python and pip if it has a Python)",
            roles=BASE | LIKE,
        ),
        Parameter(
            "user_commands",
            kinds.FLAG,
            "Make commands that users install commands on the host too (default: the site's, else True)",
            default=True,
            roles=BASE | LIKE,
        ),
        Parameter("binds", kinds.BINDS, "Bind paths, in addition to the site's", (), roles=BASE | LIKE),
        Parameter(
            "container_env",
            kinds.VARIABLES,
            "Variables for the container, in addition to the site's; None removes one of the site's",
            _NOTHING,
            roles=BASE | LIKE,
        ),
        Parameter(
            "features",
            kinds.TEXTS,
            "Names of the site's features, in addition to its default ones; '-NAME' takes one away",
            (),
            roles=BASE | LIKE,
        ),
        Parameter(
            "share_container",
            kinds.FLAG,
            "Let the tasks of a Slurm step on a node share one container (default: the site's, else False)",
            default=False,
            roles=BASE | LIKE,
        ),
        Parameter(
            "module_family",
            kinds.FAMILY,
            "Lmod family of the module (default: the site's, else container)",
            "container",
            roles=BASE | LIKE,
        ),
        Parameter(
            "expected_packages",
            kinds.PACKAGES,
            "Names and exact versions of Python packages, for the sanity check",
            _NOTHING,
            roles=BASE,
        ),
    ),
    (*map(Parameter, ("sanity_check_commands", "enhance_sanity_check")),),
    (
        *map(Parameter, ("modaltsoftname", "modextravars", "modluafooter", "examples", "modloadmsg", "modunloadmsg")),
        *map(Parameter, ("modaliases", "hidden", "dependencies", "builddependencies")),
    ),
    (Parameter("moduleclass", roles=LIKE),),
)

PARAMETERS: Mapping[str, Parameter] = MappingProxyType({one.name: one for group in _GROUPS for one in group})
# Those that EasyBuild does not have.
OWN: Mapping[str, Parameter] = MappingProxyType({name: one for name, one in PARAMETERS.items() if one.kind})
# The names in the order of an easyconfig's text, with an empty line between the groups.
GROUPS = tuple(tuple(one.name for one in group) for group in _GROUPS)
INHERITED = tuple(name for name, one in PARAMETERS.items() if BASE in one.roles)
TAKEN_OVER = tuple(name for name, one in PARAMETERS.items() if LIKE in one.roles)
OF_THE_IMAGE = tuple(name for name, one in PARAMETERS.items() if IMAGE in one.roles)
# An easyconfig has one of the first, and the others only with a definition.
IMAGE_SOURCES = ("sources", "image_uri", "definition")
BUILD_SETTINGS = ("build_args", "build_target")


def image_source(given: Mapping[str, Any]) -> tuple[str, str]:
    """Return which of `IMAGE_SOURCES` says where the image comes from, and the file name of the SIF if it is `sources`.

    Raises:
        ParameterError: not one parameter is given, or one that does not fit it, or not one file.
    """
    sources, found = given["sources"], [name for name in IMAGE_SOURCES if given[name]]
    if len(found) != 1:
        they = " and ".join(found) if found else "none"
        raise ParameterError(
            "sources", sources, f"give one of sources, image_uri, definition and builds_on; found {they}"
        )
    for name in BUILD_SETTINGS:
        if given[name] and not given["definition"]:
            raise ParameterError(name, given[name], "only a definition is built: add one or remove this parameter")
    if not sources:
        return found[0], ""
    if len(sources) != 1:
        raise ParameterError("sources", sources, "give exactly one: the file name of the SIF")
    filename = sources[0].get("filename") if isinstance(sources[0], dict) else sources[0]
    if not isinstance(filename, str):
        raise ParameterError("sources", sources[0], "give the file name of the SIF")
    return "sources", PurePath(filename).name


# They make user software, which needs a Python.
USER_SOFTWARE = ("venv", "pip_requirements", "pack_user_software")


def read_parameters(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values of all own parameters, each checked alone."""
    return {name: one.read(given.get(name)) for name, one in OWN.items()}
