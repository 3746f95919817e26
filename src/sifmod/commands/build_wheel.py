"""`sifmod build-wheel`: build wheels for a module whose image has no compiler."""

from __future__ import annotations

import os
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Optional

import click
from packaging.utils import canonicalize_name, parse_wheel_filename

from sifmod.commands.options import complete_modules, prefix_option
from sifmod.commands.output import echo_error, echo_whole
from sifmod.doctor.site import unseen
from sifmod.eb.space import software_space
from sifmod.errors import InstallError
from sifmod.finding import PROBLEM
from sifmod.host.runtime import find_runtime
from sifmod.installed.installation import Installation
from sifmod.installed.modulepath import find_usable
from sifmod.site.settings import Site, load_settings
from sifmod.usersoftware.layers import packages_of_all
from sifmod.usersoftware.state import problems
from sifmod.wheels.building import build_wheels, looks_for_wheels, source_of, wheels_folder
from sifmod.wheels.tools import make_own, other_writers_of


@click.command("build-wheel")
@click.argument("requirements", metavar="REQUIREMENT...", nargs=-1, required=True)
@click.option("--module", default="", shell_complete=complete_modules, help="The module (default: the loaded one).")
@click.option(
    "--with",
    "with_image",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="IMAGE",
    default=None,
    help="Image with compilers and the module's Python, to build in (default: the module's, and packages of its "
    "distribution).",
)
@click.option(
    "--no-build-isolation",
    is_flag=True,
    help="Build with the packages of the module, such as its torch, and not others.",
)
@click.option(
    "-o",
    "--output",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    metavar="DIR",
    default=None,
    help="Folder for the wheels, such as a team's, but none to which everybody may write (default: your own, where the "
    "module's pip and uv look).",
)
@prefix_option
def build_wheel(
    requirements: tuple[str, ...],
    module: str,
    with_image: Optional[Path],
    no_build_isolation: bool,
    output: Optional[Path],
    prefix: Optional[Path],
) -> None:
    """Build wheels from source for a module whose image lacks compilers, Python's headers or git.

    REQUIREMENT is what pip takes: NAME, NAME==VERSION, a folder or an archive of a source, or git+https://...@REVISION,
    which the host's git clones. What it requires is not built: name that too, if it has no wheel.

    The build runs in a container of the module's image. What the image lacks is fetched once for it, as packages of its
    distribution (Debian's and Ubuntu's, with apt), and is laid over it for the build; nothing needs root. The source
    sees no file of yours, and can't write to your packages. Afterwards the module's pip and uv find the wheel.

    Whoever may write to a folder of wheels runs programs as those who install from it. With --output it may be a
    folder that a team's group may write to; its members install with pip install --find-links DIR.

    Prints the path of each wheel. Exit status: 0; 1 if a requirement can't be read; 6 if there is no container runtime;
    7 if a compiler, headers or a source can't be had, or the build fails; 11 if this host lacks git.

    \b
    Examples:
      sifmod build-wheel mpi4py && pip install mpi4py
      sifmod build-wheel ./my-extension
      sifmod build-wheel git+https://github.com/pybind/python_example@master
      sifmod build-wheel flash-attn==2.5.8 --no-build-isolation
      sifmod build-wheel mpi4py --module PyTorch/2.2.0 --with pytorch-devel.sif
      sifmod build-wheel mpi4py --output /project/team/wheels
    """
    sources = [source_of(one) for one in requirements]
    wanted = module or os.environ.get("CONTAINERROOT", "")
    if not wanted:
        raise click.UsageError("no module is loaded: load one, or name it with --module")
    environ = {} if prefix else os.environ
    installation = find_usable(software_space(prefix), wanted, environ)
    if not installation.manifest.python_version:
        raise InstallError(f"{installation.module} offers no Python: wheels are for one that does")
    site = load_settings().site
    lost = next((one for one in problems(installation.user_software) if one.severity == PROBLEM), None)
    if lost:
        raise InstallError(f"{lost.what}: {lost.remedy}")
    folder = output.absolute() if output else wheels_folder(installation.module, os.environ)
    if output:
        writers = other_writers_of(folder)
        if writers:
            echo_error(
                f"Besides you, {writers} may write to '{folder}': programs in a wheel run as whoever installs it"
            )
    else:
        make_own(folder)
    made = build_wheels(
        installation,
        sources,
        folder,
        find_runtime(site),
        with_image=with_image.absolute() if with_image else None,
        is_isolated=not no_build_isolation,
        say=echo_error,
        environ=os.environ,
    )
    for path in made:
        echo_whole(str(path))
    _tell_install(made, installation, site, folder, is_chosen=bool(output))


def _tell_install(
    made: Sequence[Path], installation: Installation, site: Site, folder: Path, *, is_chosen: bool
) -> None:
    built = ["{}=={}".format(*parse_wheel_filename(path.name)[:2]) for path in made]
    is_found = not is_chosen and looks_for_wheels(installation)
    words = ["pip", "install", *([] if is_found else ["--find-links", str(folder)])]
    echo_error(f"To install, with the module loaded: {shlex.join([*words, *built])}")
    if not is_chosen and not is_found:
        name = shlex.quote(installation.module)
        echo_error(
            f"The pip of {installation.module}, which an earlier sifmod has installed, does not look there by itself. "
            f"To change that: module unload {name}; eb --module-only --rebuild {shlex.quote(str(installation.root))}"
            "/easybuild/*.eb"
        )
    lacking = unseen([str(folder)], installation.binds, site, os.environ) if is_chosen else None
    if lacking:
        echo_error(f"No bind path of {installation.module} contains '{folder}'. So type before that: {lacking.way}")
    lines = packages_of_all(installation.user_software.packages, installation.layers)
    installed = {
        f"{canonicalize_name(name)}=={version}" for name, _, version in (line.partition("==") for line in lines)
    }
    again = [one for one in built if one in installed]
    if again:
        way = shlex.join([*words, "--force-reinstall", "--no-deps", *again])
        echo_error(f"pip keeps what is installed with the same version. To replace it: {way}")
