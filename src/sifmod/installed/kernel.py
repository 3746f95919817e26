"""A Jupyter kernel: Jupyter on the host starts the Python of an installed container, user software included."""

from __future__ import annotations

import json
import os
import re
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Optional

from sifmod.container.bind import escape
from sifmod.eb.space import SoftwareSpace
from sifmod.errors import CommandError, KernelError
from sifmod.host.files import write_whole
from sifmod.host.runtime import look
from sifmod.inside.has_module import MISSING
from sifmod.install.manifest import read_manifest
from sifmod.installed.installation import Installation, find_installation
from sifmod.resources import program
from sifmod.usersoftware.state import PACKED

# Jupyter's own rule (jupyter_client, kernelspec.py, _kernel_name_pat)
_NAME = re.compile(r"[A-Za-z0-9._-]+")


@dataclass(frozen=True)
class Kernel:
    """A kernel as Jupyter reads it.

    Attributes:
        name: name of the kernel and of its folder.
        directory: folder of its kernel.json.
        spec: content of kernel.json.
    """

    name: str
    directory: Path
    spec: Mapping[str, Any]


def loaded_or_installed(space: SoftwareSpace, wanted: str, environ: Optional[Mapping[str, str]] = None) -> Installation:
    """Return the installation of the loaded module if it is the wanted one, else one of the software space.

    Args:
        space: the software space.
        wanted: name of the module, with or without version, or path of the installation.
        environ: the environment to read, `os.environ` by default.

    Raises:
        InstallError: no module matches, several do, or a manifest can't be read.
    """
    root = (os.environ if environ is None else environ).get("CONTAINERROOT", "")
    manifest = read_manifest(Path(root)) if root else None
    loaded = Installation(Path(root), manifest, space) if manifest else None
    return loaded if loaded and loaded.answers_to(wanted) else find_installation(space, wanted)


def kernel_of(
    installation: Installation,
    *,
    name: str = "",
    display_name: str = "",
    jupyter_prefix: Optional[Path] = None,
    environ: Optional[Mapping[str, str]] = None,
) -> Kernel:
    """Return the kernel of an installed container; write nothing.

    Args:
        installation: the installation.
        name: name of the kernel; empty for the module's, in lower case.
        display_name: name that Jupyter shows; empty for the module's.
        jupyter_prefix: prefix of the Jupyter that the kernel is for; None for every Jupyter of the user.
        environ: the environment to read, `os.environ` by default.

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
        "argv": [str(python), "-m", "ipykernel_launcher", "-f", "{connection_file}"],
        "display_name": display_name or installation.module,
        "language": "python",
        "interrupt_mode": "message",
        "metadata": {"debugger": True, "sifmod": {"module": installation.module}},
    }
    unseen = _unseen_runtime_directory(environ)
    if unseen:
        spec["env"] = {"SINGULARITY_BIND": escape(unseen), "APPTAINER_BIND": escape(unseen)}
    folder = jupyter_prefix.absolute() / "share" / "jupyter" if jupyter_prefix else _data_directory(environ)
    return Kernel(name, folder / "kernels" / name, spec)


def require_ipykernel(installation: Installation) -> None:
    """Start the container's Python and check that it has ipykernel.

    Raises:
        KernelError: it lacks ipykernel, or does not start.
    """
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
        raise KernelError(f"{installation.module} has no ipykernel, which Jupyter needs. Install it with: {remedy}")
    if done.status:
        raise KernelError(f"'{python}' failed with exit status {done.status}: {done.last_lines}")


def write_kernel(kernel: Kernel, *, replace: bool = False) -> None:
    """Write a kernel, whole or not at all.

    Args:
        kernel: the kernel.
        replace: whether to replace a kernel of the same name.

    Raises:
        KernelError: a kernel of that name exists, or the folder can't be written.
    """
    directory = kernel.directory
    if os.path.lexists(directory) and not replace:
        raise KernelError(f"there is already a kernel in '{directory}': replace it with --replace, or choose a --name")
    try:
        directory.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".sifmod-", dir=directory.parent) as folder:
            made = Path(folder, "made")
            made.mkdir()
            text = json.dumps(dict(kernel.spec), indent=1, ensure_ascii=False) + "\n"
            write_whole(made / "kernel.json", text)
            replaced = Path(folder, "replaced")
            if os.path.lexists(directory):
                directory.rename(replaced)
            try:
                made.rename(directory)
            except OSError:
                if os.path.lexists(replaced):
                    replaced.rename(directory)
                raise
    except OSError as error:
        raise KernelError(f"the kernel can't be written to '{directory}': {error.strerror}") from error


def _data_directory(environ: Mapping[str, str]) -> Path:
    """Return the folder of the user's Jupyter data (jupyter_core, paths.py, jupyter_data_dir)."""
    given = environ.get("JUPYTER_DATA_DIR")
    if given:
        return Path(given)
    base = environ.get("XDG_DATA_HOME") or Path(environ.get("HOME") or "/", ".local", "share")
    return Path(base, "jupyter")


def _unseen_runtime_directory(environ: Mapping[str, str]) -> str:
    """Return Jupyter's folder of connection files; empty if the runtime mounts it anyway, as in the home and /tmp."""
    directory = environ.get("JUPYTER_RUNTIME_DIR") or str(_data_directory(environ) / "runtime")
    shown = (Path(environ.get("HOME") or "/nonexistent"), Path("/tmp"), Path("/var/tmp"))  # noqa: S108 - the runtime's own mounts
    return "" if any(Path(directory).is_relative_to(folder) for folder in shown) else directory
