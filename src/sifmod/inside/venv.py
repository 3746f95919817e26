"""Makes a virtual environment that sees the packages of the Python that runs it.

    venv.py DIRECTORY [LAYERS [pip]]

With a number of layers it sees the packages of as many trees below /user-layers, after its own and before the image's,
and has a pip of its own only if that is asked for. A folder that is missing there is left out when Python starts.

The virtual environment uses the image's pip, if there is one: a pip of its own would be a thousand files more, and most
of the time that making it takes. If the image's Python is itself a virtual environment, `--system-site-packages` would
mean the packages of the Python below it, so the image's own folders are added.
"""

import importlib.util
import os
import site
import subprocess
import sys
import venv

# Below /user-software, and of the layers below it.
TOP, LAYERS = "/user-software", "/user-layers"


def make(target: str, layers: int = 0, has_pip: bool = True) -> None:
    """Make the virtual environment."""
    lends_pip = has_pip and importlib.util.find_spec("pip") is not None
    makes_pip = has_pip and not lends_pip and importlib.util.find_spec("ensurepip") is not None
    # as `python -m venv` does, which would start Python once more
    venv.create(target, system_site_packages=True, symlinks=True, with_pip=makes_pip)
    name = "python{}.{}".format(*sys.version_info[:2])
    if sys.prefix != sys.base_prefix:
        with open(os.path.join(target, "lib", name, "site-packages", "_image.pth"), "w") as stream:
            for folder in site.getsitepackages():
                stream.write(f"import site; site.addsitedir({folder!r})\n")
    if layers:
        with open(os.path.join(target, "lib", name, "site-packages/_below.pth"), "w") as stream:
            line = line_of_layer(target, name[len("python") :])
            stream.writelines(line % (number + 1) for number in range(layers))
    if lends_pip:
        for command_name in ("pip", "pip3", name.replace("python", "pip")):
            lend_pip(target, os.path.join(target, "bin", command_name))


def line_of_layer(target: str, version: str) -> str:
    """Return a line of a .pth file that adds the folder of layer `%d`: once, for that may have such a file too."""
    folder = f"{LAYERS}/%d{target[len(TOP) :]}/lib/python{version}/site-packages"
    return f"import os, site, sys; p = {folder!r}; p in sys.path or not os.path.isdir(p) or site.addsitedir(p)\n"


def lend_pip(target: str, path: str) -> None:
    """Write a command that runs the image's pip for the virtual environment."""
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o777), "w") as stream:
        stream.write(f"#!{target}/bin/python\nimport runpy\nrunpy.run_module('pip', run_name='__main__')\n")


if __name__ == "__main__":
    try:
        make(sys.argv[1], int(*sys.argv[2:3]), len(sys.argv) != 3)
    except (OSError, subprocess.CalledProcessError) as error:
        sys.exit(str(error))
