"""A Jupyter kernel: Jupyter on the host starts the Python of an installed container, user software included."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Optional

from sifmod.errors import CommandError, KernelError, SifmodError
from sifmod.host.owners import owner_of
from sifmod.host.runtime import look
from sifmod.host.writing import write_folder
from sifmod.inside.has_module import MISSING
from sifmod.installed.installation import Installation
from sifmod.resources import program
from sifmod.text import quoting
from sifmod.usersoftware.state import PACKED

# `%pip` would start the pip of user software, and not that which knows what is packed.
_PIP = "get_ipython().register_magic_function(lambda line: get_ipython().system('pip ' + line), magic_name='pip')"

# Jupyter's own rule (jupyter_client, kernelspec.py, _kernel_name_pat), less what is no name of a folder
_NAME = re.compile(r"(?!\.{1,2}$)[A-Za-z0-9._-]+")


@dataclass(frozen=True)
class Kernel:
    """A kernel as Jupyter reads it: its name, the folder of this name, and the content of kernel.json."""

    name: str
    directory: Path
    spec: Mapping[str, Any]


def kernel_of(
    installation: Installation,
    *,
    name: str = "",
    display_name: str = "",
    jupyter_prefix: Optional[Path] = None,
    environ: Optional[Mapping[str, str]] = None,
) -> Kernel:
    """Return the kernel of an installed container for a Jupyter, by default for each of the user's; write nothing.

    Raises:
        KernelError: the name is not valid for a kernel, or the container has no command `python`.
    """
    environ = os.environ if environ is None else environ
    name = name or re.sub(r"[^a-z0-9._-]+", "-", installation.module.lower())
    if not _NAME.fullmatch(name):
        raise KernelError(f"'{name}' is not a valid name of a kernel: use letters, digits, '.', '_' and '-' in --name")
    python = installation.root / "bin" / "python"
    if not python.is_file():
        raise KernelError(
            f"{installation.module} lacks the command python, which starts the kernel: '{python}' does not exist. Its "
            "easyconfig needs python_prefix or conda_env, and 'python' in wrappers"
        )
    # A signal would reach the whole process group, including the runtime's helpers; a message interrupts only the cell.
    spec: dict[str, Any] = {
        "argv": [
            str(python),
            "-m",
            "ipykernel_launcher",
            "-f",
            "{connection_file}",
            f"--IPKernelApp.exec_lines={_PIP}",
        ],
        "display_name": display_name or installation.module,
        "language": "python",
        "interrupt_mode": "message",
        "metadata": {"debugger": True, "sifmod": {"module": installation.module}},
    }
    folder = jupyter_prefix.absolute() / "share" / "jupyter" if jupyter_prefix else _data_directory(environ)
    return Kernel(name, folder / "kernels" / name, spec)


def require_ipykernel(installation: Installation) -> None:
    """Start the container's Python, which must have ipykernel; else it is a KernelError."""
    python = installation.root / "bin" / "python"
    try:
        command = [str(python), "-", "ipykernel_launcher"]
        done = look(command, stdin=program("has_module"))
    except CommandError as error:
        raise KernelError(str(error)) from error
    if done.status == MISSING:
        found, commands = installation.user_software, ["pip install ipykernel"]
        if found.state == PACKED:
            remove = ["make-squashfs --remove-directory"] if found.has_directory else []
            commands = [*remove, "add-layer", *commands, "make-squashfs"]
        remedy = "; ".join(f"{installation.root}/bin/{command}" for command in commands)
        if found.state == PACKED and not (installation.root / "bin" / "add-layer").is_file():
            remedy = f"eb --module-only --rebuild EASYCONFIG, which writes this sifmod's commands; {remedy}"
        if not os.access(installation.root, os.W_OK):
            owner, name = owner_of(installation.root), quoting.shell(installation.module)
            remedy = f"a module of your own, because this one is of {owner}: sifmod on {name} --name NAME"
        raise KernelError(f"{installation.module} has no ipykernel, which Jupyter needs. Install it with: {remedy}")
    if done.status:
        raise KernelError(f"'{python}' failed with exit status {done.status}: {done.last_lines}")


def write_kernel(kernel: Kernel, *, replace: bool = False) -> None:
    """Write a kernel, whole or not at all; one of the same name is replaced only if that is asked for.

    Raises:
        KernelError: a kernel of that name exists, or the folder can't be written.
    """
    directory = kernel.directory
    if os.path.lexists(directory) and not replace:
        raise KernelError(f"there is already a kernel in '{directory}': replace it with --replace, or choose a --name")
    text = json.dumps(dict(kernel.spec), indent=1, ensure_ascii=False) + "\n"
    try:
        write_folder(directory, {"kernel.json": text}, replaceable=lambda _folder: replace)
    except SifmodError as error:
        raise KernelError(f"the kernel can't be written: {error}") from error


def _data_directory(environ: Mapping[str, str]) -> Path:
    """Return the folder of the user's Jupyter data (jupyter_core, paths.py, jupyter_data_dir)."""
    given = environ.get("JUPYTER_DATA_DIR")
    if given:
        return Path(given)
    base = environ.get("XDG_DATA_HOME") or Path(environ.get("HOME") or "/", ".local", "share")
    return Path(base, "jupyter")
