"""`sifmod kernel`: write a Jupyter kernel for an installed container."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Optional

import click

from sifmod.commands.options import complete_modules, json_option, prefix_option
from sifmod.commands.output import echo_json, echo_whole
from sifmod.eb.space import software_space
from sifmod.installed.kernel import kernel_of, require_ipykernel, write_kernel
from sifmod.installed.modulepath import find_usable


@click.command()
@click.argument("module", shell_complete=complete_modules)
@click.option("--name", default="", help="Name of the kernel (default: the module's, in lower case).")
@click.option("--display-name", default="", help="Name that Jupyter shows (default: the module's).")
@click.option("--user", "for_user", is_flag=True, help="Write it for yourself, for any Jupyter (default).")
@click.option(
    "--jupyter-prefix",
    type=click.Path(path_type=Path),
    metavar="DIR",
    default=None,
    help="Write it for all users of the Jupyter in this prefix.",
)
@click.option("--replace", is_flag=True, help="Replace a kernel of the same name.")
@prefix_option
@json_option
def kernel(
    module: str,
    name: str,
    display_name: str,
    for_user: bool,
    jupyter_prefix: Optional[Path],
    replace: bool,
    prefix: Optional[Path],
    as_json: bool,
) -> None:
    """Write a Jupyter kernel that runs in the container of MODULE, with its user software.

    Jupyter itself stays on the host. MODULE is the loaded module, an installed one, one of MODULEPATH, or
    the path of an installation.

    \b
    Examples:
      sifmod kernel PyTorch/2.2.0
      sifmod kernel PyTorch --display-name "PyTorch in a container" --replace
      sifmod kernel PyTorch --jupyter-prefix /opt/jupyterhub
    """
    if for_user and jupyter_prefix:
        raise click.UsageError("--user and --jupyter-prefix exclude each other.")
    space = software_space(prefix)
    installation = find_usable(space, module, {} if prefix else os.environ)
    made = kernel_of(installation, name=name, display_name=display_name, jupyter_prefix=jupyter_prefix)
    require_ipykernel(installation)
    write_kernel(made, replace=replace)
    if as_json:
        echo_json({"name": made.name, "directory": str(made.directory), "spec": dict(made.spec)})
    else:
        echo_whole(f"wrote the kernel {made.name} of {installation.module} to {made.directory}")
